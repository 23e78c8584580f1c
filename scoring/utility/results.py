"""What a judgement of utility says."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scoring.utility.resampling import Estimate, estimate

TOO_FEW = "too few stays to judge"


@dataclass(frozen=True)
class TaskResult:
    """How a release did on one task or measure.

    Attributes
    ----------
    family, name, metric : str
        The metric is "R2", "AUROC" or "distance".
    release, ceiling : float or None
        In the metric's scale. None of the release where the task does not count.
    floor : float
    kept : float or None
        (release - floor) / (ceiling - floor), not clipped.
    low, high : float or None
        95 % interval of `kept` over test stays.
    stays : int
        Stays with an answer in the smaller half, or those of the rarer kind of a column of two values.
    too_few : bool
        Whether there are too few stays to judge.
    counts : bool
        Whether the task is part of its family.
    on_release : float or None
        The other way round, for reading: how models learnt from real stays do on the release, in the metric's scale.
    """

    family: str
    name: str
    metric: str
    release: float | None
    ceiling: float | None
    floor: float | None
    kept: float | None
    low: float | None
    high: float | None
    stays: int
    too_few: bool
    counts: bool
    on_release: float | None = None


@dataclass(frozen=True)
class FamilyResult:
    """How a release did on one family.

    Attributes
    ----------
    name : str
    kept : Estimate
        From 0 to 1. None where no task of the family counts.
    unclipped : float or None
        The same without limits: below 0 is worse than a constant.
    tasks, too_few : int
        How many tasks count, and how many have too few stays.
    reason : str or None
        Why the family cannot be judged.
    """

    name: str
    kept: Estimate
    unclipped: float | None
    tasks: int
    too_few: int
    reason: str | None


@dataclass(frozen=True)
class KeptUtility:
    """What is left of the use of real stays.

    Attributes
    ----------
    headline : Estimate
        The mean of the families that can be judged, from 0 to 1. None where none can.
    unclipped : float or None
        The same mean of the families' values without limits.
    families, tasks : list
    stays : dict
        How many stays the release has, each half of the others, and each lesson from the release.
    judge_spread : float or None
        Standard error of the headline from training the judges twice, on other halves.
    beside : dict or None
        What is no part of the headline: `real_or_generated`, `context_fid` and `conclusions`. None if there are too few
        stays.
    """

    headline: Estimate
    unclipped: float | None
    families: list[FamilyResult]
    tasks: list[TaskResult]
    stays: dict[str, int]
    judge_spread: float | None
    beside: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: `headline` with `value`, `low`, `high`, and all the rest."""
        return asdict(self)


@dataclass(frozen=True)
class Family:
    """A family's result and what the headline's interval needs of it.

    Attributes
    ----------
    result : FamilyResult
    kept : ndarray, shape [RESAMPLED + 3], or None
        From 0 to 1, under every weighting of the test stays. None where the family cannot be judged.
    """

    result: FamilyResult
    kept: np.ndarray | None

    @classmethod
    def judged(cls, name: str, kept: np.ndarray, unclipped: float, tasks: int, too_few: int) -> "Family":
        """Return a family that can be judged."""
        return cls(FamilyResult(name, estimate(kept)[0], unclipped, tasks, too_few, None), kept)

    @classmethod
    def not_judged(cls, name: str, reason: str, too_few: int) -> "Family":
        """Return a family that cannot be judged."""
        return cls(FamilyResult(name, Estimate(None), None, 0, too_few, reason), None)
