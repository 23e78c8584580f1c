"""The family "structure": measures of order and of shape, each held against its ceiling and floor."""

import numpy as np

from scoring.utility.observed import Observed, Stays, independent_columns
from scoring.utility.resampling import Resampling, interval
from scoring.utility.results import TOO_FEW, Family, TaskResult
from scoring.utility.structure import ORDER, SHAPE, Ruler, distance
from scoring.utility.tasks import Plan

STRUCTURE = "structure"
_LEAST_DISTANCE = 0.01  # between floor and ceiling, or the measure says nothing about these data


class StructureYardstick:
    """The two halves of the others measured once. Then any number of releases."""

    def __init__(
        self, halves: list[Stays], both: Observed, plan: Plan, resampling: Resampling, rng: np.random.Generator
    ) -> None:
        self._plan, self._resampling = plan, resampling
        self._ruler = Ruler.of(plan.clipped(both), plan.dynamic)
        self._real = [self._ruler.measure(plan.clipped(Observed.of(half))) for half in halves]
        torn = [independent_columns(half, rng) for half in halves]
        self._torn = [self._ruler.measure(plan.clipped(Observed.of(half))) for half in torn]

    def judge(self, lessons: list[Observed]) -> tuple[list[TaskResult], Family]:
        """Hold a release against the yardstick. `lessons` are what each half is compared with."""
        if not len(self._ruler.features):
            return [], Family.not_judged(STRUCTURE, "no feature is measured often enough", 0)
        released = [self._ruler.measure(self._plan.clipped(lesson)) for lesson in lessons]
        results: list[TaskResult] = []
        kept_by: dict[str, np.ndarray] = {}
        for name in ORDER + SHAPE:
            real = [half[name] for half in self._real]
            if not real[0].above.shape[1]:
                continue
            if name in ORDER:
                lowest = [half[name].statistics() for half in self._torn[::-1]]
            else:
                lowest = [self._ruler.nothing_varies(name, half) for half in real]
            ceiling = self._distances(name, [half.statistics() for half in real[::-1]])
            floor = self._distances(name, lowest)
            mine = self._distances(name, [half[name].statistics() for half in released])
            room = floor - ceiling
            kept = (floor - mine) / np.where(room > 0, room, np.nan)
            counts = bool(room[0] >= _LEAST_DISTANCE)
            low, high = interval(kept) if counts else (None, None)
            shown = float(mine[0]), float(ceiling[0]), float(floor[0]), float(kept[0]) if counts else None
            results.append(TaskResult(STRUCTURE, name, "distance", *shown, low, high, len(lessons[0]), False, counts))
            if counts:
                kept_by[name] = kept
        return results, _family(kept_by)

    def _distances(self, name: str, compared: list[np.ndarray]) -> np.ndarray:
        """Return the distance of each half's statistics, weighted every way, from what it is compared with."""
        figures = []
        for half, other in enumerate(compared):
            real = self._real[half][name]
            figures.append(distance(real.groups, real.statistics(self._resampling.part(half)), other))
        return self._resampling.join(figures)


def _family(kept_by: dict[str, np.ndarray]) -> Family:
    order, shape = ([kept_by[name] for name in group if name in kept_by] for group in (ORDER, SHAPE))
    if not order or not shape:
        return Family.not_judged(STRUCTURE, TOO_FEW, 1)
    shapely = np.clip(shape, 0, 1).mean(axis=0)
    kept = np.clip(order, 0, 1).mean(axis=0) * shapely
    return Family.judged(STRUCTURE, kept, float(np.mean(order, axis=0)[0] * shapely[0]), len(kept_by), 0)
