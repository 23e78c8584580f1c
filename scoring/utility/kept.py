"""Kept utility: how much of what real stays are good for is left in a release, from 0 to 1.

Every task is learnt from the release and answered on real stays that the hider never saw. The ceiling is the same model
learnt from other real stays. The floor is a constant.

    gain       = R2 (1 - squared error / squared error of the constant), or 2 AUROC - 1 for a column of two values
    kept       = gain of the release / gain of other real stays                 (of one task)
    family     = sum of the release's gains, each at least 0 / sum of the ceiling's gains, and at most 1
    structure  = mean kept over measures of order x mean kept over measures of shape, each from 0 to 1
    headline   = mean of the families

A task counts if other real stays gain at least `LEAST_GAIN` on it, and surely more than nothing. Which tasks count does
not depend on the release. The others are cut into two halves. Each half is the test once, and the other half is then
the ceiling. Nothing pairs a released stay with a real one, so a copier gains nothing over other real stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from scoring.utility.beside import Beside
from scoring.utility.learning import Answers, fit
from scoring.utility.observed import Observed, Stays
from scoring.utility.order_and_shape import STRUCTURE, StructureYardstick
from scoring.utility.resampling import Estimate, Resampling, estimate, interval, weighted_auroc
from scoring.utility.results import TOO_FEW, Family, KeptUtility, TaskResult
from scoring.utility.tasks import FAMILIES, Plan, Task, tasks

LEAST_GAIN = 0.05  # of the ceiling, or the task is not asked: real stays do not answer it either
LEAST_STAYS = 100  # with an answer, in each half of the others, or there are too few stays to judge
LEAST_OF_A_KIND = 15  # stays of either value of a column of two values, in each half
MOST_STAYS = 1_500  # in each half: larger sets are judged by that many stays, drawn at random


@dataclass(frozen=True)
class _Question:
    """A task, and how the constant and the other real stays did on it.

    Attributes
    ----------
    result : TaskResult
    limits : (float, float)
        Answers are clipped to these.
    middle : float or None
        For an answer of two values: what lies above is the second.
    truth : ndarray, shape [2 * half]
        Squared errors of the constant. For two values the labels. NaN where there is no answer.
    ceiling : ndarray, shape [RESAMPLED + 3]
        The gain of other real stays.
    models : tuple of two Answers
        Learnt from real stays: the one that answers the first half, and the one that answers the second.
    """

    result: TaskResult
    limits: tuple[float, float]
    middle: float | None
    truth: np.ndarray
    ceiling: np.ndarray
    models: tuple[Answers, ...] = ()


class Yardstick:
    """Ceiling and floor, measured once. Then any number of releases of the same stays are held against them."""

    def __init__(self, others: Stays, names: Sequence[str], rng: np.random.Generator) -> None:
        """Measure what real stays are good for.

        Parameters
        ----------
        others : Stays
            Real stays that the hider never saw.
        names : sequence of str, length F
            The features' names. Feature 0 is time.
        rng : numpy.random.Generator
            Draws halves, moments within stays, and the stays resampled.
        """
        self.half = min(len(others) // 2, MOST_STAYS)
        drawn = rng.permutation(len(others))[: 2 * self.half]
        halves = [others.take(np.sort(part)) for part in (drawn[: self.half], drawn[self.half :])]
        both = Observed.of(others.take(np.sort(drawn)))
        self.plan = Plan.of(both, names)
        self._halves = [Observed.of(half) for half in halves]
        self._seeds = rng.integers(2**31, size=2)
        self._resampling = Resampling(self.half, rng)
        self._structure, self._beside = None, None
        with threadpool_limits(1):
            self._questions = [self._ask(*pair) for pair in self._on_halves()]
            if self.half >= LEAST_STAYS:
                self._structure = StructureYardstick(halves, both, self.plan, self._resampling, rng)
                self._beside = Beside(halves, self.plan, rng) if len(self.plan.dynamic) else None

    def judge(self, release: Stays, rng: np.random.Generator) -> KeptUtility:
        """Hold a release against the yardstick.

        Parameters
        ----------
        release : Stays
            May have another number of stays and time points than the members had, but the same features. A release of
            fewer stays than one half of the others pays for it: its judges learn from fewer.
        rng : numpy.random.Generator
            Draws which released stays are learnt from.

        Returns
        -------
        KeptUtility
        """
        drawn = rng.permutation(len(release))
        count = min(self.half, len(release))
        # Other stays for the second judge, as far as there are.
        lessons = [Observed.of(release.take(np.sort(part))) for part in (drawn[:count], drawn[len(drawn) - count :])]
        taught = _streams(lessons, self.plan, rng.integers(2**31, size=2))
        results: list[TaskResult] = []
        gains: dict[str, list[np.ndarray]] = {family: [] for family in FAMILIES}
        with threadpool_limits(1):
            for question, tests, lesson in zip(self._questions, self._on_halves(), taught, strict=True):
                result = question.result
                if result.counts:
                    models = [fit(part, question.limits, question.middle) for part in lesson]
                    gain = self._gain(question, tests, models)
                    gains[result.family].append(gain)
                    result = replace(_with_release(question, gain), on_release=_on_release(question, lesson))
                results.append(result)
            families = [self._family(family, gains[family]) for family in FAMILIES]
            if self._structure is None:
                families.append(Family.not_judged(STRUCTURE, TOO_FEW, 1))
            else:
                measured, family = self._structure.judge(lessons)
                results += measured
                families.append(family)
            beside = None if self._beside is None else self._beside.judge(lessons, rng)
        sizes = {"release": len(release), "half": self.half, "lesson": count}
        return _put_together(families, results, sizes, beside)

    def _on_halves(self) -> Iterator[tuple[Task, Task]]:
        return _streams(self._halves, self.plan, self._seeds)

    def _ask(self, first: Task, second: Task) -> _Question:
        """Measure floor and ceiling of one task. `first` and `second` are those of the two halves."""
        answers = np.concatenate([first.target, second.target])
        values = np.unique(answers[np.isfinite(answers)])
        two = len(values) == 2
        middle = float(values.mean()) if two else None
        known = [task.target[np.isfinite(task.target)] for task in (first, second)]
        if two:
            fewest = min(min((half > middle).sum(), (half <= middle).sum()) for half in known)
        else:
            fewest = min(len(half) for half in known)
        too_few = bool(fewest < (LEAST_OF_A_KIND if two else LEAST_STAYS) or self.half < LEAST_STAYS)
        floor, metric = (0.5, "AUROC") if two else (0.0, "R2")
        unknown = None, None, None
        result = TaskResult(
            first.family, first.name, metric, None, None, floor, *unknown, int(fewest), too_few, counts=False
        )
        if too_few or len(values) < 2:
            return _Question(result, (0.0, 0.0), middle, np.zeros(0), np.zeros(0))
        low, high = np.quantile(answers[np.isfinite(answers)], (0.0, 1.0) if two else (0.005, 0.995))
        limits = float(low), float(high)
        if middle is None:
            constants = [np.clip(half, *limits).mean() for half in known[::-1]]  # each half's, from the other
            truth = np.square(np.clip(answers, *limits) - np.repeat(constants, self.half))
        else:
            truth = np.where(np.isfinite(answers), answers > middle, np.nan)
        question = _Question(result, limits, middle, truth, np.zeros(0))
        models = tuple(fit(lesson, limits, middle) for lesson in (second, first))
        ceiling = self._gain(question, (first, second), models)
        counts = bool(ceiling[0] >= LEAST_GAIN and interval(ceiling)[0] > 0)
        shown = float((ceiling[0] + 1) / 2 if two else ceiling[0])
        return replace(question, ceiling=ceiling, models=models, result=replace(result, ceiling=shown, counts=counts))

    def _gain(self, question: _Question, tests: tuple[Task, Task], models: Sequence[Answers]) -> np.ndarray:
        """Answer each test with its model, and return the gain under every weighting of the test stays."""
        said = np.concatenate([model(test.inputs) for model, test in zip(models, tests, strict=True)])
        if question.middle is not None:
            return 2 * self._resampling.auroc(question.truth, said) - 1
        answers = np.clip(np.concatenate([test.target for test in tests]), *question.limits)
        # A lesson that teaches nothing leaves the constant.
        errors = np.where(np.isfinite(said), np.square(answers - said), question.truth)
        return self._resampling.r2(errors, question.truth)

    def _family(self, name: str, gains: list[np.ndarray]) -> Family:
        mine = [question for question in self._questions if question.result.family == name]
        too_few = sum(question.result.too_few for question in mine)
        if not mine:
            return Family.not_judged(name, "no such column" if name == "static" else TOO_FEW, 0)
        if not gains:
            return Family.not_judged(name, TOO_FEW if too_few else "other real stays do not answer it either", too_few)
        ceilings = np.sum([np.maximum(q.ceiling, 0) for q in mine if q.result.counts], axis=0)
        ceilings = np.where(ceilings > 0, ceilings, np.inf)
        kept = np.clip(np.maximum(gains, 0).sum(axis=0) / ceilings, 0, 1)
        return Family.judged(name, kept, float(np.sum(gains, axis=0)[0] / ceilings[0]), len(gains), too_few)


def kept_utility(release: Stays, others: Stays, names: Sequence[str], rng: np.random.Generator) -> KeptUtility:
    """Measure the kept utility of one release. `Yardstick` serves several releases of the same stays.

    Parameters
    ----------
    release : Stays
        What the hider made.
    others : Stays
        Real stays that the hider never saw.
    names : sequence of str, length F
        The features' names. Feature 0 is time.
    rng : numpy.random.Generator

    Returns
    -------
    KeptUtility
    """
    return Yardstick(others, names, rng).judge(release, rng)


def _streams(parts: list[Observed], plan: Plan, seeds: np.ndarray) -> Iterator[tuple[Task, Task]]:
    """Yield each task of two sets of stays. One task at a time is in memory."""
    first, second = (tasks(part, plan, np.random.default_rng(seed)) for part, seed in zip(parts, seeds, strict=True))
    return zip(first, second, strict=True)


def _on_release(question: _Question, lesson: tuple[Task, Task]) -> float | None:
    """Return how models learnt from real stays do on the release: the mean of R2 or AUROC over both."""
    found = []
    for task, model in zip(lesson, question.models, strict=True):
        known = np.isfinite(task.target)
        if not known.any():
            continue
        said, answers = model(task.inputs[known]), np.clip(task.target[known], *question.limits)
        if question.middle is not None:
            labels = answers > question.middle
            if labels.any() and not labels.all():
                found.append(float(weighted_auroc(labels, said, np.ones((1, len(said))))[0]))
        elif len(answers) and np.ptp(answers) > 0:
            found.append(1 - float(np.square(answers - said).mean() / answers.var()))
    return float(np.mean(found)) if found else None


def _with_release(question: _Question, gain: np.ndarray) -> TaskResult:
    kept = gain / np.where(question.ceiling > 0, question.ceiling, np.nan)
    low, high = interval(kept)
    shown = float(gain[0] if question.middle is None else (gain[0] + 1) / 2)
    return replace(question.result, release=shown, kept=float(kept[0]), low=low, high=high)


def _put_together(
    families: list[Family], results: list[TaskResult], sizes: dict[str, int], beside: dict[str, Any] | None
) -> KeptUtility:
    judged = [family.kept for family in families if family.kept is not None]
    shown = [family.result for family in families]
    if not judged:
        return KeptUtility(Estimate(None), None, shown, results, sizes, None, beside)
    headline, spread = estimate(np.mean(judged, axis=0))
    unclipped = float(np.mean([result.unclipped for result in shown if result.unclipped is not None]))
    return KeptUtility(headline, unclipped, shown, results, sizes, spread, beside)
