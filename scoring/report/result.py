"""What report.json holds, put together in one place for a match and for a tournament's matches."""

import contextlib
import datetime
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scoring import __version__
from scoring.report.arrays import ReportArrays, distance_figures
from scoring.report.verdict import verdict
from scoring.statistics import reidentification
from utils.files import write_text

FORMAT = 1


def match_result(
    *,
    hider: Mapping[str, Any],
    seeker: Mapping[str, Any],
    data: Mapping[str, Any],
    arrays: ReportArrays,
    labels: np.ndarray,
    scores: np.ndarray | None,
    settings: Mapping[str, Any],
    utility: Mapping[str, Any] | None,
    utility_skipped: str | None,
    warnings: list[str],
    seconds: Mapping[str, float],
    attacks: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what report.json holds.

    Parameters
    ----------
    hider, seeker : dict
        `name`, `source` and `parameters` of each side.
    data : dict
        What `Round.facts` returns.
    arrays : ReportArrays
        The right answers, and the distances to the generated data.
    labels : ndarray of bool, shape [N]
        The seeker's labels.
    scores : ndarray of float, shape [N], or None
        The seeker's scores.
    settings : dict
        What the user chose.
    utility : dict
        `kept`: what `KeptUtility.to_json` returns. Beside it the results of the 2020 checks, unless they were skipped,
        and `utility_skipped` then says why.
    warnings : list of str
        What a reader should know about the data and the players.
    seconds : dict
        Duration of each stage.
    attacks : dict, optional
        If every seeker was played: `seekers`, `worst` and `not_played`, as `Worst.facts` returns them. `seeker`,
        `labels` and `scores` are then those of the worst. Its intervals are corrected for the number of seekers.
    """
    comparisons = len(attacks["seekers"]) if attacks else 1
    result = {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "hider": hider,
        "seeker": seeker,
        "data": data,
        "settings": settings,
        "versions": versions(),
        "reidentification": reidentification(arrays.labels, labels, scores, comparisons),
        **(attacks or {}),
        "utility": utility,
        "utility_skipped": utility_skipped,
        "warnings": warnings,
        "seconds": seconds,
        "distance": distance_figures(arrays),
    }
    return {**result, "verdict": verdict(result)}


def write_result(result: Mapping[str, Any], path: Path) -> None:
    """Write a result as JSON, whole or not at all. NaN and infinity become null."""
    write_text(path, json.dumps(plain_json(result), indent=1, allow_nan=False) + "\n")


def versions() -> dict[str, str | None]:
    """Return the versions of what the numbers depend on. None means not installed."""
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "polars")}
    found = [name for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu") if _installed(name)]
    tensorflow = importlib.metadata.version(found[0]) if found else None
    return {"hide-and-seek": __version__, "python": platform.python_version(), **packages, "tensorflow": tensorflow}


def _installed(package: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return False


def plain_json(value: Any) -> Any:
    """Make `value` plain JSON: no NumPy types, and NaN or infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
