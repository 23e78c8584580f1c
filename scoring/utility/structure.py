"""Does a release hang together as real stays do: the order within and between features, and the shape of each column.

Every measure is a vector of statistics of a set of stays, and its value is the distance of that vector from the vector
of real stays that were held out. The ceiling is the distance of other real stays of the same number. The floor of a
measure of order is the distance of independent columns. The floor of a measure of shape is the distance of a data set
in which nothing varies.

Every statistic is a ratio of two sums over stays, so that resampling stays is one product of matrices.
"""

from dataclasses import dataclass

import numpy as np

from scoring.utility.observed import Observed

ORDER = ("autocorrelation", "cross-correlation", "step sizes", "gaps between measurements", "measured together")
SHAPE = ("values", "measurement rates", "lengths", "sampling intervals")
FEATURES = 16  # features whose order is looked at, the most often measured first
_LAGS_VALUES = (1, 2, 4)  # of the autocorrelation, in measurements of the feature
_LAGS_ROWS = (0, 1, 4)  # of the cross-correlation, in rows. Values are carried forward
_LEVELS = np.arange(1, 10) / 10
_GAPS = (1.5, 2.5, 4.5, 8.5)  # edges, in rows from one measurement to the next
_LEAST = 0.1  # a feature is looked at if this share of the real stays has at least two values of it


@dataclass(frozen=True)
class Sums:
    """The sums behind one measure's statistics.

    Attributes
    ----------
    above, below : ndarray of float32, shape [N, K]
        Each stay's part of the numerator and of the denominator of each statistic.
    groups : int
        Into how many distributions the K statistics fall. 0 if they are no distributions.
    """

    above: np.ndarray
    below: np.ndarray
    groups: int

    def statistics(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the statistics under weights of the stays [B, N], shape [B, K]. Of all stays alike without them."""
        weights = np.ones((1, len(self.above)), np.float32) if weights is None else weights
        below = weights @ self.below
        return np.where(below > 0, (weights @ self.above) / np.where(below > 0, below, 1), 0.0)


@dataclass(frozen=True)
class Ruler:
    """Scales and bins, made from real stays.

    Attributes
    ----------
    features : ndarray of int
        Whose order is looked at.
    dynamic : ndarray of int
        Whose values and measurement rates are looked at.
    centre, spread : ndarray, shape [F]
    values, steps : list of F ndarrays
        Edges of the bins of each feature's values and step sizes.
    rows, hours, intervals : ndarray
        Edges of the bins of lengths and of sampling intervals.
    """

    features: np.ndarray
    dynamic: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    values: list[np.ndarray]
    steps: list[np.ndarray]
    rows: np.ndarray
    hours: np.ndarray
    intervals: np.ndarray

    @classmethod
    def of(cls, real: Observed, dynamic: np.ndarray) -> "Ruler":
        """Make the ruler. Values should be clipped before."""
        count = real.values.shape[2]
        centre, spread = np.zeros(count), np.ones(count)
        values, steps = [np.zeros(0)] * count, [np.zeros(0)] * count
        twice = (real.seen.sum(axis=1) >= 2).mean(axis=0)
        for feature in dynamic:
            column = real.values[:, :, feature]
            found = column[np.isfinite(column)]
            centre[feature], spread[feature] = found.mean(), max(float(found.std()), 1e-9)
            values[feature] = _edges(found)
            moved = np.abs(np.diff(_compact(column), axis=1))
            steps[feature] = _edges(moved[np.isfinite(moved)])
        order = dynamic[np.argsort(-real.seen[:, :, dynamic].sum(axis=(0, 1)), kind="stable")]
        intervals = np.diff(real.times, axis=1)
        return cls(
            order[twice[order] >= _LEAST][:FEATURES],
            dynamic,
            centre,
            spread,
            values,
            steps,
            _edges(real.rows.sum(axis=1)),
            _edges(real.durations),
            _edges(intervals[np.isfinite(intervals)]),
        )

    def measure(self, stays: Observed) -> dict[str, Sums]:
        """Return the sums of every measure in `ORDER` and `SHAPE` of these stays."""
        correlations, steps, gaps = [], [], []
        for feature in self.features:
            column = stays.values[:, :, feature]
            standard = _compact((column - self.centre[feature]) / self.spread[feature])
            correlations += [_mean_product(standard[:, :-lag], standard[:, lag:]) for lag in _LAGS_VALUES]
            moved = np.abs(np.diff(standard, axis=1)) * self.spread[feature]
            steps.append(_histogram(moved, self.steps[feature]))
            place = np.where(np.isfinite(column), np.arange(column.shape[1], dtype=float), np.nan)
            gaps.append(_histogram(np.diff(_compact(place), axis=1), np.array(_GAPS)))
        seen = stays.seen[:, :, self.features].astype(np.float32)
        both = np.matmul(seen.transpose(0, 2, 1), seen)
        apart = ~np.eye(len(self.features), dtype=bool)
        alone = np.broadcast_to(seen.sum(axis=1)[:, :, None], both.shape)
        measured = stays.seen[:, :, self.dynamic].sum(axis=1)
        rows = stays.rows.sum(axis=1)[:, None]
        values = [_histogram(stays.values[:, :, feature], self.values[feature]) for feature in self.dynamic]
        lengths = [_histogram(rows.astype(float), self.rows), _histogram(stays.durations[:, None], self.hours)]
        return {
            "autocorrelation": _join(correlations, 0),
            "cross-correlation": self._across(stays, apart),
            "step sizes": _join(steps, len(steps)),
            "gaps between measurements": _join(gaps, len(gaps)),
            "measured together": Sums(both[:, apart], alone[:, apart], 0),
            "values": _join(values, len(values)),
            "measurement rates": Sums(
                measured.astype(np.float32), np.broadcast_to(rows, measured.shape).astype(np.float32), 0
            ),
            "lengths": _join(lengths, 2),
            "sampling intervals": _join([_histogram(np.diff(stays.times, axis=1), self.intervals)], 1),
        }

    def nothing_varies(self, name: str, real: Sums) -> np.ndarray:
        """Return the statistics, shape [1, K], of a data set in which nothing varies: the floor of a measure of shape.

        Every distribution sits in the bin that most real ones are in, and every feature is measured in every row.
        """
        if name == "measurement rates":
            return np.ones((1, real.above.shape[1]))
        statistics = real.statistics()[0]
        sizes = self._bins(name)
        floor = np.zeros_like(statistics)
        for start, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
            floor[start + int(statistics[start : start + size].argmax())] = 1.0
        return floor[None]

    def _bins(self, name: str) -> list[int]:
        edges = {
            "values": [self.values[feature] for feature in self.dynamic],
            "lengths": [self.rows, self.hours],
            "sampling intervals": [self.intervals],
        }[name]
        return [len(one) + 1 for one in edges]

    def _across(self, stays: Observed, apart: np.ndarray) -> Sums:
        """Products of different features' standardised values, carried forward, over lags in rows."""
        time_points, count = stays.rows.shape[1], len(self.features)
        above, below = [], []
        for start in range(0, max(len(stays), 1), 512):
            block = slice(start, start + 512)
            values = (stays.values[block][:, :, self.features] - self.centre[self.features]) / self.spread[
                self.features
            ]
            seen = np.isfinite(values)
            last = np.maximum.accumulate(np.where(seen, np.arange(time_points)[:, None], -1), axis=1)
            known = (last >= 0) & stays.rows[block][:, :, None]
            carried = np.where(known, np.take_along_axis(values, np.maximum(last, 0), axis=1), 0.0).astype(np.float32)
            have = known.astype(np.float32)
            products, pairs = [], []
            for lag in _LAGS_ROWS:
                early, late = slice(0, max(time_points - lag, 0)), slice(lag, time_points)
                products.append(np.matmul(carried[:, early].transpose(0, 2, 1), carried[:, late])[:, apart])
                pairs.append(np.matmul(have[:, early].transpose(0, 2, 1), have[:, late])[:, apart])
            above.append(np.concatenate(products, axis=1))
            below.append(np.concatenate(pairs, axis=1))
        width = len(_LAGS_ROWS) * count * (count - 1)
        return Sums(np.concatenate(above).reshape(-1, width), np.concatenate(below).reshape(-1, width), 0)


def distance(groups: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the distance of two sets of statistics [B, K], shape [B].

    For distributions: half the sum of absolute differences (total variation), averaged over the distributions. Else:
    the root mean square difference.
    """
    if groups:
        return np.abs(first - second).sum(axis=1) / (2 * groups)
    return np.sqrt(np.square(first - second).mean(axis=1)) if first.shape[1] else np.zeros(len(first))


def _edges(values: np.ndarray) -> np.ndarray:
    """Return inner edges of bins at the deciles, between distinct values. None if there are no values."""
    return np.unique(np.quantile(values, _LEVELS)) if len(values) else np.zeros(0)


def _compact(column: np.ndarray) -> np.ndarray:
    """Move each stay's values to its start, in their order. Shape [N, T] as before."""
    order = np.argsort(~np.isfinite(column), axis=1, kind="stable")
    return np.take_along_axis(column, order, axis=1)


def _mean_product(first: np.ndarray, second: np.ndarray) -> Sums:
    products = first * second
    known = np.isfinite(products)
    above = np.where(known, products, 0.0).sum(axis=1)[:, None]
    return Sums(above.astype(np.float32), known.sum(axis=1)[:, None].astype(np.float32), 0)


def _histogram(values: np.ndarray, edges: np.ndarray) -> Sums:
    """Count each stay's values [N, ...] in bins. A share is over all values of all stays."""
    known = np.isfinite(values)
    bins = np.searchsorted(edges, np.where(known, values, 0.0), side="left")
    place = bins + np.arange(len(values))[:, None] * (len(edges) + 1)
    size = len(values) * (len(edges) + 1)
    counts = np.bincount(place[known], minlength=size).reshape(len(values), -1).astype(np.float32)
    return Sums(counts, np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), 1)


def _join(parts: list[Sums], groups: int) -> Sums:
    if not parts:
        return Sums(np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32), groups)
    return Sums(
        np.concatenate([part.above for part in parts], axis=1),
        np.concatenate([part.below for part in parts], axis=1),
        groups,
    )
