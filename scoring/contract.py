"""What a hider and a seeker are given, and what they may return: the contract of the 2020 challenge.

Everything that a player returns is checked here, whether it ran in this process or in a sandbox.
"""

import ast
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from scoring.strangers import Failed, Reason
from utils.data_preprocess import LARGEST
from utils.solutions import RESCORE, parse_hider_output

Role = Literal["hider", "seeker"]
ROLES: tuple[Role, ...] = ("hider", "seeker")
ARRAYS: dict[Role, tuple[str, ...]] = {  # the input_dict without `seed`
    "hider": ("data", "padding_mask"),
    "seeker": (
        "generated_data",
        "generated_data_padding_mask",
        "enlarged_data",
        "enlarged_data_padding_mask",
    ),
}
# What a player is told beside the contract of 2020 if its file asks for it (`ALSO_GIVEN = ("feature_names",)`): the
# features' names [F] and, if it is known, whose each stay is [N].
OPTIONAL: dict[Role, tuple[str, ...]] = {"hider": ("feature_names", "patients"), "seeker": ("feature_names",)}
_ASKS = "ALSO_GIVEN"
_LONGEST_SOURCE = 1 << 20


def given(input_dict: Mapping[str, Any], role: Role, asked: Collection[str]) -> dict[str, Any]:
    """Return a player's input without the optional parts that its file does not ask for."""
    return {name: value for name, value in input_dict.items() if name in asked or name not in OPTIONAL[role]}


def asked_by(module: ModuleType) -> tuple[str, ...]:
    """Return what an imported player asks for."""
    return _names(getattr(module, _ASKS, ()))


def asked_in(source: Path) -> tuple[str, ...]:
    """Return what a player's file asks for. The file is a stranger's: it is parsed and never run."""
    try:
        with source.open("rb") as file:
            tree = ast.parse(file.read(_LONGEST_SOURCE))
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == _ASKS for target in statement.targets
            ):
                return _names(ast.literal_eval(statement.value))
    except (OSError, SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    return ()


def _names(asked: object) -> tuple[str, ...]:
    return tuple(map(str, asked)) if isinstance(asked, tuple | list) else ()


def check_generated(
    player: str, output: Any, shape: tuple[int | None, ...]
) -> tuple[np.ndarray, np.ndarray | None, int | None] | None:
    """Check what a hider returned.

    Parameters
    ----------
    player : str
        How messages call it.
    output : object
        One of the contract's forms.
    shape : tuple of (int or None)
        The shape [N, T, F] that the generated data must have. None leaves that length free: a release from elsewhere
        may hold another number of stays or time points than the members.

    Returns
    -------
    (generated, padding_mask, eval_seeds), or None for "rescore"
        `generated` is float64 [N, T, F]. `padding_mask` is bool [N, T, F] or None. `eval_seeds` is an int or None.

    Raises
    ------
    Failed
        If the type, shape or content is wrong. Its reason is for all to read, and its detail for the organiser.
    """
    if isinstance(output, str):
        if output in RESCORE:
            return None
        raise Failed(Reason.TEXT, f"{player} returned the text {output[:40]!a}; the only text allowed is 'rescore'")
    try:
        generated, mask, eval_seeds = parse_hider_output(output)
    except RuntimeError as error:
        raise Failed(Reason.FORM, f"{player}: {error}") from error
    generated = _numbers(player, "generated data", generated)
    if not _fits(generated.shape, shape):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise Failed(Reason.SHAPE, f"{player} returned generated data of shape {generated.shape}, expected ({wanted})")
    if np.isnan(generated).all():
        raise Failed(Reason.ALL_NAN, f"{player} returned generated data in which every cell is NaN")
    # fmax and fmin pass NaN over and need no copy of the data.
    largest = max(np.fmax.reduce(generated, axis=None), -np.fmin.reduce(generated, axis=None))
    if np.isinf(largest):
        count = int(np.isinf(generated).sum())
        raise Failed(Reason.INFINITE, f"{player} returned generated data with {count} infinite cells")
    if largest > LARGEST:
        raise Failed(Reason.TOO_LARGE, f"{player} returned generated data beyond {LARGEST:g}: {largest:g}")
    if mask is not None:
        if mask.shape != generated.shape:
            expected = generated.shape
            raise Failed(Reason.SHAPE, f"{player} returned a padding mask of shape {mask.shape}, expected {expected}")
        if not (mask.dtype == bool or np.isin(mask, (0, 1)).all()):
            raise Failed(Reason.MASK, f"{player} returned a padding mask that holds more than True and False")
        mask = mask.astype(bool, copy=False)
        if mask.all():
            raise Failed(Reason.ALL_PADDED, f"{player} returned a padding mask that covers every cell")
    if eval_seeds is not None and not 0 <= eval_seeds <= 5:
        raise Failed(Reason.EVAL_SEEDS, f"{player} returned eval_seeds {eval_seeds}, expected 0 to 5")
    return generated, mask, eval_seeds


def check_labels(player: str, output: Any, count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Check what a seeker returned.

    Parameters
    ----------
    player : str
        How messages call it.
    output : object
        Labels of shape (M,), (M, 1) or (1, M), or a tuple (labels, scores) of such.
    count : int
        M, the number of enlarged stays.

    Returns
    -------
    labels : ndarray of bool, shape [M]
        True means a member: the seeker's label is above 0.5.
    scores : ndarray of float64, shape [M], or None
        A higher score means more likely a member. A seeker that gives graded labels and no scores is scored by its
        labels.

    Raises
    ------
    Failed
        If the type, length or content is wrong. Its reason is for all to read, and its detail for the organiser.
    """
    pair = isinstance(output, tuple) and len(output) == 2
    labels = _vector(player, "labels", output[0] if pair else output, count)
    scores = _vector(player, "scores", output[1], count) if pair and output[1] is not None else None
    if scores is None and len(np.unique(labels)) > 2:
        scores = labels
    return labels > 0.5, scores


def _vector(player: str, what: str, values: Any, count: int) -> np.ndarray:
    array = _numbers(player, what, values)
    if array.shape not in ((count,), (count, 1), (1, count)):
        raise Failed(Reason.SHAPE, f"{player} returned {what} of shape {array.shape}, expected ({count},)")
    if not np.isfinite(array).all():
        raise Failed(Reason.NAN, f"{player} returned {what} with NaN or infinity among them")
    return array.reshape(count)


def _numbers(player: str, what: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise Failed(
            Reason.NUMBERS, f"{player} returned {what} that are not an array of numbers: {type(values).__name__}"
        ) from error


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Tell whether a shape is the wanted one, and holds at least one stay and one time point."""
    same = len(shape) == len(wanted) and all(w in (None, s) for s, w in zip(shape, wanted, strict=True))
    return same and all(shape)
