"""Finding a hider or seeker by what the user calls it, running it, and checking what it returns."""

import dataclasses
import importlib.util
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from scoring.strangers import Failed, Reason
from utils.errors import UserError
from utils.misc import fix_all_random_seeds
from utils.parameters import parse_parameters
from utils.solutions import RESCORE, parse_hider_output

Role = Literal["hider", "seeker"]
DEFAULTS: dict[Role, str] = {"hider": "addnoise", "seeker": "knn"}
LARGEST = 1e30  # of generated values: their squares and sums stay finite, and they fit into float32


@dataclass(frozen=True)
class Player:
    """One side of a match.

    Attributes
    ----------
    role : "hider" or "seeker"
    name : str
        As the user and the report call it.
    source : Path
        Its `.py` file, folder or zip.
    """

    role: Role
    name: str
    source: Path


def find_player(role: Role, wanted: str | None, home: Path) -> Player:
    """Find the hider or seeker the user means.

    Parameters
    ----------
    role : "hider" or "seeker"
    wanted : str, optional
        A name (`addnoise` is `hider_addnoise.py`), a `.py` file, a folder or a zip. Without it, `hider.py` or
        `seeker.py` in `home`, or else the default method.
    home : Path
        The folder of `main.py`.

    Raises
    ------
    UserError
        Where there is no such thing; lists the known names.
    """
    if wanted is None:
        own = home / f"{role}.py"
        return Player(role, role, own) if own.is_file() else find_player(role, DEFAULTS[role], home)
    named = home / f"{role}_{wanted}.py"
    if named.is_file():
        return Player(role, wanted, named)
    path = Path(wanted)
    if path.is_dir() or (path.is_file() and path.suffix in (".py", ".zip")):
        return Player(role, path.resolve().stem, path.resolve())
    known = ", ".join(known_players(role, home))
    raise UserError(f"unknown {role} '{wanted}'; known are {known}; or name a .py file, a folder or a .zip")


def known_players(role: Role, home: Path) -> list[str]:
    """Return the names of the methods in `home`."""
    return sorted(file.stem.removeprefix(f"{role}_") for file in home.glob(f"{role}_*.py"))


def load_player(player: Player) -> ModuleType:
    """Import a player's module from its `.py` file.

    Raises
    ------
    UserError
        Where the import fails or the module has no function `hider` or `seeker`.
    """
    spec = importlib.util.spec_from_file_location(player.source.stem, player.source)
    if spec is None or spec.loader is None:
        raise UserError(f"{player.role} '{player.name}': {player.source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[player.source.stem] = module  # dataclasses look their module up there
    folder = str(player.source.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(_failure(player, "could not be imported:", error)) from error
    if not callable(getattr(module, player.role, None)):
        raise UserError(
            f"{player.role} '{player.name}': {player.source.name} has no function {player.role}(input_dict)"
        )
    return module


def check_player(player: Player, parameters: str | None) -> ModuleType | None:
    """See that a player can be imported and takes its parameters, before anything long is run.

    Returns
    -------
    module or None
        Its module, for `play`; None for a folder or zip, which is looked at when it is played.

    Raises
    ------
    UserError
        As `load_player` and `parse_parameters`.
    """
    if player.source.suffix != ".py":
        return None
    module = load_player(player)
    if parameters:
        parse_parameters(module, parameters)
    return module


def play(
    player: Player, input_dict: dict[str, Any], parameters: str | None, module: ModuleType | None = None
) -> tuple[Any, dict[str, Any]]:
    """Run a player on its input: a `.py` file in this process, a folder or zip in a sandbox with its own `utils/`.

    Parameters
    ----------
    player : Player
    input_dict : dict
        The contract's input; `seed` also seeds the legacy global generators, as in 2020.
    parameters : str, optional
        `name=value,...` for its parameter block.
    module : module, optional
        What `check_player` returned.

    Returns
    -------
    output : object
        What it returned, unchecked.
    used : dict
        The parameters it ran with.

    Raises
    ------
    UserError
        Where it cannot be imported, has no such parameter, or raises.
    """
    if player.source.suffix != ".py":
        return _play_sandboxed(player, input_dict, parameters)
    module = module or load_player(player)
    block = parse_parameters(module, parameters) if parameters else None
    fix_all_random_seeds(input_dict["seed"])
    function = getattr(module, player.role)
    try:
        output = function(input_dict) if block is None else function(input_dict, block)
    except UserError as error:
        raise UserError(f"{player.role} '{player.name}': {error}") from error
    except (Exception, SystemExit) as error:
        raise UserError(_failure(player, "raised", error)) from error
    if block is None and dataclasses.is_dataclass(getattr(module, "Parameters", None)):
        block = module.Parameters()
    return output, dataclasses.asdict(block) if block is not None else {}


def _play_sandboxed(player: Player, input_dict: dict[str, Any], parameters: str | None) -> tuple[Any, dict[str, Any]]:
    from scoring.sandbox import ProcessSandbox
    from scoring.submissions.submission import take_in

    sandbox = ProcessSandbox()
    print(f"notice: {sandbox.notice}")
    arrays = {name: value for name, value in input_dict.items() if name != "seed"}
    with tempfile.TemporaryDirectory() as folder:
        submission = take_in(player.source, Path(folder) / "submission", player.role)
        outcome = sandbox.run(submission.folder, player.role, arrays, input_dict["seed"], parameters=parameters)
    if outcome.status != "ok":
        # Whoever runs main.py owns the data; the traceback is shown to them whole, under --debug.
        error = RuntimeError(f"{outcome.submitter_log}\n{outcome.stderr}".strip())
        raise UserError(f"{player.role} '{player.name}' {outcome.reason}; --debug shows more") from error
    outputs = outcome.outputs
    used = {"given": parameters} if parameters else {}
    if player.role == "seeker":
        return (outputs["labels"], outputs["scores"]), used
    if outputs.get("rescore"):
        return RESCORE[0], used
    return (outputs["generated_data"], outputs["padding_mask"], outputs["eval_seeds"]), used


def _failure(player: Player, what: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(player.source)]
    where = f" ({player.source.name}, line {frames[-1].lineno})" if frames else ""
    message = " ".join(str(error).split())[:200]
    return f"{player.role} '{player.name}' {what} {type(error).__name__}: {message}{where}; --debug shows the traceback"


def check_generated(
    player: str, output: Any, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray | None, int | None] | None:
    """Check what a hider returned.

    Parameters
    ----------
    player : str
        How messages call it.
    output : object
        One of the contract's forms.
    shape : tuple of int
        The input's shape [N, T, F].

    Returns
    -------
    (generated, padding_mask, eval_seeds), or None for "rescore"
        `generated` is float64 [N, T, F]; `padding_mask` bool [N, T, F] or None.

    Raises
    ------
    UserError
        Where the type, shape or content is wrong; says which.
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
    if generated.shape != shape:
        raise Failed(Reason.SHAPE, f"{player} returned generated data of shape {generated.shape}, expected {shape}")
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
        if mask.shape != shape:
            raise Failed(Reason.SHAPE, f"{player} returned a padding mask of shape {mask.shape}, expected {shape}")
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
        True where above 0.5.
    scores : ndarray of float64, shape [M], or None
        Higher is more likely a member; the labels themselves where they are graded.

    Raises
    ------
    UserError
        Where the type, length or content is wrong; says which.
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
