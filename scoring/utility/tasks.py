"""What a researcher would do with a data set: the questions that models learn on a release and answer on real stays.

A task has a family, inputs and one target per stay, both made from the stay alone, so stays are never paired.

- forecast: a feature's mean in the second half of a stay, from summaries of the first half.
- next hours: by how much a feature's mean over the next hours will differ from its last value, from what was known at
  a moment drawn within the stay. Whoever only carries the last value forward gains nothing.
- imputation: a feature's mean in a window in which everything is held back, from what lies before and after it. And
  a feature's mean over the whole stay, from all other features.
- measurement: at which share of the rows of the second half a feature is measured, and how close rows are, from the
  first half.
- length of stay: hours, from what was measured in the first hours.
- static: a column that does not change within a stay (an outcome, say), from the whole stay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.utility.observed import Observed

FAMILIES = ("forecast", "next hours", "imputation", "measurement", "length of stay", "static")
TARGETS = 10  # features asked about in each family, the most often measured first
_SHARE_MEASURED = 0.2  # of the real stays must have a feature in both halves, or it is not asked about
_NEXT_HOURS = 1 / 8  # of the median stay: 6 hours of 48
_HELD_BACK = 1 / 6  # of the median stay: 8 hours of 48
_FIRST_HOURS = 1 / 4  # of the median stay, for the length of stay
_MOMENTS = (0.3, 0.9)  # the moment from which the next hours are asked lies between these shares of a stay
_MIDDLES = (0.3, 0.7)  # the window that is held back is centred between these shares of a stay


@dataclass(frozen=True)
class Plan:
    """What is asked, decided from real stays that are not the release, so that it is the same for every release.

    Attributes
    ----------
    names : sequence of str, length F
    targets : ndarray of int
        Features to ask about.
    dynamic : ndarray of int
        Features that change within a stay: the inputs.
    static : ndarray of int
        Features that do not change within a stay.
    hours : float
        The median duration of a stay. The windows' widths are shares of it.
    low, high : ndarray, shape [F]
        Values are clipped to these before they are averaged: the 0.5 % and 99.5 % quantiles of the real ones.
    """

    names: Sequence[str]
    targets: np.ndarray
    dynamic: np.ndarray
    static: np.ndarray
    hours: float
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, real: Observed, names: Sequence[str]) -> "Plan":
        """Decide what to ask."""
        features = real.values.shape[2]
        seen = real.seen & (np.arange(features) > 0)
        half = first_half(real)
        both = (seen & half[:, :, None]).any(axis=1) & (seen & ~half[:, :, None]).any(axis=1)
        flat = real.values.reshape(-1, features)
        low, high = np.zeros(features), np.zeros(features)
        changes = np.zeros(features, bool)
        for feature in range(1, features):
            column = flat[:, feature][np.isfinite(flat[:, feature])]
            if column.size:
                low[feature], high[feature] = np.quantile(column, (0.005, 0.995))
            changes[feature] = _changes(real.values[:, :, feature])
        some = seen.any(axis=(0, 1))
        constant = ~changes & some & (low < high)
        shares = np.where(changes & (low < high), both.mean(axis=0), 0.0)
        order = np.argsort(-shares, kind="stable")
        targets = order[shares[order] >= _SHARE_MEASURED][:TARGETS]
        durations = real.durations
        hours = float(np.median(durations[durations > 0])) if (durations > 0).any() else 1.0
        return cls(names, targets, np.flatnonzero(changes), np.flatnonzero(constant), hours, low, high)

    def clipped(self, observed: Observed) -> Observed:
        """Return the stays with every value but the time clipped to `low` and `high`. Outliers decide nothing."""
        values = np.clip(observed.values, self.low, self.high)
        values[:, :, 0] = observed.times
        return Observed(values, observed.rows)


def _changes(column: np.ndarray) -> bool:
    """Return whether a feature [N, T] is one that changes within a stay.

    A feature does not change if at least half of the stays have it, and 99 % of those have one value of it only.
    """
    seen = np.isfinite(column)
    has = seen.any(axis=1)
    if has.mean() < 0.5:
        return True
    low = np.where(seen, column, np.inf).min(axis=1)
    high = np.where(seen, column, -np.inf).max(axis=1)
    return float((high[has] > low[has]).mean()) > 0.01


@dataclass(frozen=True)
class Task:
    """One question.

    Attributes
    ----------
    family, name : str
    inputs : ndarray, shape [N, inputs]
        NaN where unknown.
    target : ndarray, shape [N]
        NaN where the stay has no answer.
    """

    family: str
    name: str
    inputs: np.ndarray
    target: np.ndarray


def first_half(observed: Observed) -> np.ndarray:
    """Return which rows lie in the first half of their stay's time, shape [N, T]."""
    return observed.rows & (np.where(observed.rows, observed.times, np.inf) <= observed.durations[:, None] / 2)


def tasks(stays: Observed, plan: Plan, rng: np.random.Generator) -> Iterator[Task]:
    """Yield every task on these stays, always the same ones in the same order for the same plan.

    Parameters
    ----------
    stays : Observed
    plan : Plan
    rng : numpy.random.Generator
        Draws the moments and windows within each stay.
    """
    stays = plan.clipped(stays)
    yield from _halves(stays, plan)
    yield from _next_hours(stays, plan, rng)
    yield from _window_held_back(stays, plan, rng)
    yield from _whole_stay(stays, plan)
    yield from _length(stays, plan)


def _inputs(found: dict[str, np.ndarray], features: np.ndarray, *which: str) -> np.ndarray:
    return np.concatenate([found[name][:, features] for name in which], axis=1)


def _halves(stays: Observed, plan: Plan) -> Iterator[Task]:
    half = first_half(stays)
    before, after = stays.summarise(half), stays.summarise(stays.rows & ~half)
    shared = _inputs(before, plan.dynamic, "mean", "last", "rate")
    for feature in plan.targets:
        own = _inputs(before, np.array([feature]), "std", "min", "max", "first")
        yield Task("forecast", plan.names[feature], np.hstack([shared, own]), after["mean"][:, feature])
    measured = np.where((stays.rows & ~half).any(axis=1)[:, None], after["rate"], np.nan)
    for feature in plan.targets:
        yield Task("measurement", f"{plan.names[feature]}: share of rows", shared, measured[:, feature])
    pace_before, pace_after = (_pace(stays, rows) for rows in (half, stays.rows & ~half))
    yield Task("measurement", "rows per hour", np.hstack([shared, pace_before[:, None]]), pace_after)


def _pace(stays: Observed, rows: np.ndarray) -> np.ndarray:
    """Return the logarithm of the rows per hour of half a stay, shape [N]. NaN for a stay of one moment."""
    hours = stays.durations / 2
    count = rows.sum(axis=1)
    return np.where((hours > 0) & (count > 0), np.log(np.maximum(count, 1) / np.where(hours > 0, hours, 1)), np.nan)


def _next_hours(stays: Observed, plan: Plan, rng: np.random.Generator) -> Iterator[Task]:
    moment = stays.durations * rng.uniform(*_MOMENTS, len(stays))
    since = np.where(stays.rows, stays.times, np.inf) - moment[:, None]
    width = _NEXT_HOURS * plan.hours
    before, after = stays.summarise(since <= 0), stays.summarise((since > 0) & (since <= width))
    recent = stays.summarise((since <= 0) & (since > -width))
    shared = np.hstack([_inputs(before, plan.dynamic, "last"), moment[:, None]])
    age = _hours_to_nearest(stays, since, since <= 0)
    for feature in plan.targets:
        one = np.array([feature])
        own = np.hstack([_inputs(recent, one, "mean", "first", "rate"), _inputs(before, one, "mean"), age[:, one]])
        change = after["mean"][:, feature] - before["last"][:, feature]
        yield Task("next hours", f"{plan.names[feature]}: change", np.hstack([shared, own]), change)


def _window_held_back(stays: Observed, plan: Plan, rng: np.random.Generator) -> Iterator[Task]:
    middle = stays.durations * rng.uniform(*_MIDDLES, len(stays))
    since = np.where(stays.rows, stays.times, np.inf) - middle[:, None]
    reach = _HELD_BACK * plan.hours / 2
    left, right = since < -reach, since > reach
    before, hidden, after = (stays.summarise(rows) for rows in (left, np.abs(since) <= reach, right))
    shared = np.hstack([before["last"][:, plan.dynamic], after["first"][:, plan.dynamic]])
    ages = _hours_to_nearest(stays, since, left), _hours_to_nearest(stays, since, right)
    for feature in plan.targets:
        one = np.array([feature])
        own = np.hstack([before["mean"][:, one], after["mean"][:, one], ages[0][:, one], ages[1][:, one]])
        yield Task("imputation", f"{plan.names[feature]}: window", np.hstack([shared, own]), hidden["mean"][:, feature])


def _hours_to_nearest(stays: Observed, since: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the time from a moment to each feature's nearest value among the rows. `since` is [N, T] around it."""
    distance = np.where(rows & stays.rows, np.abs(since), np.inf)
    nearest = np.full((len(stays), stays.values.shape[2]), np.inf)
    for start in range(0, len(stays), 512):
        block = slice(start, start + 512)
        seen = np.isfinite(stays.values[block])
        nearest[block] = np.where(seen, distance[block][:, :, None], np.inf).min(axis=1)
    return np.where(np.isfinite(nearest), nearest, np.nan)


def _whole_stay(stays: Observed, plan: Plan) -> Iterator[Task]:
    found = stays.summarise(stays.rows)
    for feature in plan.targets:
        others = plan.dynamic[plan.dynamic != feature]
        inputs = _inputs(found, others, "mean", "last")
        yield Task("imputation", f"{plan.names[feature]}: whole stay", inputs, found["mean"][:, feature])
    if len(plan.static):
        inputs = np.hstack([_inputs(found, plan.dynamic, "mean", "min", "max", "last", "rate"), stays.size])
        for feature in plan.static:
            # A stay in which the column swings by half its range has no answer: which value would be its own?
            swing = found["max"][:, feature] - found["min"][:, feature]
            one = swing < (plan.high[feature] - plan.low[feature]) / 2
            yield Task("static", plan.names[feature], inputs, np.where(one, found["mean"][:, feature], np.nan))


def _length(stays: Observed, plan: Plan) -> Iterator[Task]:
    until = _FIRST_HOURS * plan.hours
    early = stays.rows & (np.where(stays.rows, stays.times, np.inf) <= until)
    found = stays.summarise(early)
    inputs = _inputs(found, plan.dynamic, "mean", "last", "rate")  # not the number of rows, which is half the answer
    longer = stays.durations > until
    yield Task("length of stay", "hours", inputs, np.where(longer, np.log(np.maximum(stays.durations, until)), np.nan))
