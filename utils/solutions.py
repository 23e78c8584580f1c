"""Reading, checking and judging what a submission returns, under the 2020 names."""

import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utils.arrays import read_npz
from utils.data_preprocess import load_and_reshape
from utils.data_utils import data_division
from utils.files import atomic_path

RESCORE = ("rescore", "reevaluate")
UNREADABLE_NPZ = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # what np.load raises on bad files


def load_data(
    data_dir: str,
    data_file_name: str,
    max_seq_len: int,
    seed: int,
    train_rate: float,
    force_reprocess: bool,
    debug_data: bool | int = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load a longitudinal CSV and split it. The result is kept in an `.npz` of the same stem beside the CSV.

    Parameters
    ----------
    data_dir, data_file_name : str
        Where the CSV is.
    max_seq_len, debug_data
        As in `utils.data_preprocess.load_and_reshape`.
    seed : int
        Seed of the split.
    train_rate : float
        Share of the stays in the training half.
    force_reprocess : bool
        Read the CSV even where the `.npz` is there. (It is read anyway where the `.npz` is older than the CSV or was
        made with another `max_seq_len` or `debug_data`. The split is drawn anew every time.)

    Returns
    -------
    data : ndarray of float64, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F]
    train_idx, test_idx : ndarray of int
    """
    csv = Path(data_dir) / data_file_name
    kept = csv.with_suffix(".npz")
    read_as = np.array([max_seq_len, int(debug_data)])
    found = None if force_reprocess else _kept_data(kept, csv, read_as)
    data, padding_mask = found or load_and_reshape(csv, max_seq_len, debug_data)
    _, (train_idx, test_idx) = data_division(range(len(data)), seed=seed, divide_rates=[train_rate, 1 - train_rate])
    if found is None:
        with atomic_path(kept) as temporary:
            np.savez(
                temporary,
                raw_data=data,
                padding_mask=padding_mask,
                train_idx=train_idx,
                test_idx=test_idx,
                read_as=read_as,
            )
    return data, padding_mask, train_idx, test_idx


def _kept_data(kept: Path, csv: Path, read_as: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return data and mask from the `.npz` if it is there and of this CSV, read in this way."""
    if not kept.exists() or (csv.exists() and csv.stat().st_mtime > kept.stat().st_mtime):
        return None
    with np.load(kept, allow_pickle=False) as arrays:
        if "read_as" not in arrays or not np.array_equal(arrays["read_as"], read_as):
            return None
        return arrays["raw_data"], arrays["padding_mask"]


def load_generated_data(data_path: str | Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Load `generated_data` [N, T, F] and `padding_mask` (None where empty) from a hider's `data.npz`.

    Raises
    ------
    UNREADABLE_NPZ
        Where the file is missing, no `.npz`, holds pickled objects, or lacks an array.
    """
    return load_release(data_path)[:2]


def load_release(
    data_path: str | Path, most_cells: int | None = None
) -> tuple[np.ndarray, np.ndarray | None, str | None]:
    """Load a hider's `data.npz`, from wherever it came, and the digest of the stays it says it was made from.

    Parameters
    ----------
    data_path : str or Path
    most_cells : int, optional
        Cells that an array may have. By default half the machine's memory bounds them.

    Returns
    -------
    generated : ndarray, shape [N, T, F]
    padding_mask : ndarray or None
    made_from : str or None

    Raises
    ------
    UNREADABLE_NPZ
        As `load_generated_data`, and where an array is larger than that.
    """
    if most_cells is None:
        most_cells = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16

    def expected(name: str, shape: tuple[int, ...], dtype: np.dtype) -> bool:
        if name == "made_from":
            return shape == () and dtype.kind == "U"
        if name not in ("generated_data", "padding_mask"):
            return False
        if dtype.kind not in "biuf":
            raise ValueError(f"{name} is no array of numbers")
        if math.prod(shape) > most_cells:
            raise ValueError(f"{name} has shape {shape}, which is larger than can be")
        return True

    with Path(data_path).open("rb") as file:
        found = read_npz(file, expected)
    generated, mask = found["generated_data"], found["padding_mask"]
    made_from = str(found["made_from"]) if "made_from" in found else None
    return generated, None if mask.shape == (0,) else mask, made_from


def parse_hider_output(hider_output: Any) -> tuple[np.ndarray, np.ndarray | None, int | None]:
    """Sort out which of the contract's forms a hider returned.

    Returns
    -------
    generated : ndarray
    padding_mask : ndarray or None
    eval_seeds : int or None

    Raises
    ------
    RuntimeError
        Where it is none of them. ("rescore" is not one of them: it has no data to return.)
    """
    parts = hider_output if isinstance(hider_output, tuple) else (hider_output,)
    if len(parts) == 2:
        parts = (parts[0], None, parts[1]) if isinstance(parts[1], (int, np.integer)) else (*parts, None)
    generated, mask, eval_seeds = (*parts, None, None, None)[:3]
    well_formed = (
        1 <= len(parts) <= 3
        and isinstance(generated, np.ndarray)
        and isinstance(mask, (np.ndarray, type(None)))
        and isinstance(eval_seeds, (int, np.integer, type(None)))
    )
    if not well_formed:
        raise RuntimeError(
            "a hider must return generated_data, (generated_data, eval_seeds), (generated_data, padding_mask) or "
            "(generated_data, padding_mask, eval_seeds), arrays and an int or None, "
            f"not {_shape_of(hider_output)}"
        )
    return generated, mask, None if eval_seeds is None else int(eval_seeds)


def _shape_of(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(type(part).__name__ for part in value) + ")"
    return type(value).__name__


def validate_hider_output(
    hider: str,
    hider_dir: str | Path,
    features: Sequence[int] | None,
    data_shape: tuple[int, ...],
    raise_exception: bool = True,
    skip_fp: bool = False,
    skip_osa: bool = False,
) -> bool:
    """Check a hider's output folder: shapes, and that every score asked for is there.

    Raises
    ------
    RuntimeError
        Where something is wrong and `raise_exception` is set. Otherwise False is returned.
    """
    problem = _hider_problem(Path(hider_dir), features, data_shape, skip_fp, skip_osa)
    if problem and raise_exception:
        raise RuntimeError(f"hider '{hider}': {problem}")
    return problem is None


def _hider_problem(
    folder: Path, features: Sequence[int] | None, data_shape: tuple[int, ...], skip_fp: bool, skip_osa: bool
) -> str | None:
    try:
        generated, mask = load_generated_data(folder / "data.npz")
    except UNREADABLE_NPZ as error:
        return f"its generated data cannot be loaded: {error}"
    if generated.shape != tuple(data_shape):
        return f"its generated data has shape {generated.shape}, expected {tuple(data_shape)}"
    if mask is not None and mask.shape != generated.shape:
        return f"its padding mask has shape {mask.shape}, its data {generated.shape}"
    if not skip_fp:
        scores = folder / "feature_prediction_scores.txt"
        if not scores.is_file():
            return "its feature prediction scores are missing"
        if features is not None and len(scores.read_text().split()) != len(features):
            return "it has not one feature prediction score for each tested feature"
    if not skip_osa and not (folder / "osa_score.txt").is_file():
        return "its one-step-ahead score is missing"
    return None


def validate_seeker_output(
    seeker: str, seeker_output_path: str | Path, labels: np.ndarray, raise_exception: bool = True
) -> np.ndarray | bool:
    """Load a seeker's labels and check their shape.

    Returns
    -------
    ndarray, shape [M]
        The labels. False where something is wrong and `raise_exception` is not set.

    Raises
    ------
    RuntimeError
        Where something is wrong and `raise_exception` is set.
    """
    count = len(labels)
    try:
        with Path(seeker_output_path).open("rb") as file:
            predicted = read_npz(
                file, lambda name, shape, _: name == "reidentified_data" and math.prod(shape) <= 100 * count
            )["reidentified_data"]
        if predicted.shape in ((count,), (count, 1), (1, count)):
            return predicted.reshape(count)
        problem = f"returned labels of shape {predicted.shape}, expected ({count},)"
    except UNREADABLE_NPZ as error:
        problem = f"its labels cannot be loaded: {error}"
    if raise_exception:
        raise RuntimeError(f"seeker '{seeker}' {problem}")
    return False


def benchmark_hider(
    feat_scores: Sequence[float],
    task_types: Sequence[str],
    osa_score: float,
    eval_feat_scores: Sequence[float],
    eval_task_types: Sequence[str],
    eval_osa_score: float,
    threshold_auroc: float,
    threshold_rmse: float,
) -> bool:
    """Judge the utility of generated data against that of the original, and print why.

    Parameters
    ----------
    feat_scores, eval_feat_scores : sequence of float
        Feature prediction scores trained on generated and on original data: RMSE, or AUROC for a classification.
    task_types, eval_task_types : sequence of str
        "regression" or "classification", one per score.
    osa_score, eval_osa_score : float
        One-step-ahead RMSE trained on generated and on original data.
    threshold_auroc, threshold_rmse : float
        Pass: AUROC at least, RMSE at most this multiple of the original's.

    Returns
    -------
    bool
        Whether every check passes.
    """
    passed = True
    rows = zip(feat_scores, task_types, eval_feat_scores, eval_task_types, strict=True)
    for number, (score, task, reference, expected) in enumerate(rows, 1):
        ok = expected == task and passes(score, reference, task, threshold_auroc, threshold_rmse)
        passed &= ok
        print(f"feature prediction {number}: {score:.5g} against {reference:.5g} ({task}): {'ok' if ok else 'FAILED'}")
    ok = passes(osa_score, eval_osa_score, "regression", threshold_auroc, threshold_rmse)
    print(f"one-step-ahead: {osa_score:.5g} against {eval_osa_score:.5g}: {'ok' if ok else 'FAILED'}")
    return passed and ok


def passes(score: float, reference: float, task: str, threshold_auroc: float, threshold_rmse: float) -> bool:
    """Apply the contract's rule to one score. A score that could not be computed (NaN) does not pass."""
    if task == "classification":
        return bool(score >= threshold_auroc * reference)
    return bool(score <= threshold_rmse * reference)
