"""What one patient adds to each released sum.

Each function returns one vector a stay. A vector depends on that stay and on what was released before, never on
another stay: that, the clipping in `noise.Ledger` and the noise are the whole proof. A stay without a time point adds
zeros everywhere.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from examples.hider.dp.copula import Marginals
from examples.hider.dp.ranges import Range

CLASSES = 40  # of a feature's values
DECIMALS_WEIGHT = 0.3  # of the shares charted with 0, 1 or 2 decimals, beside shares by size
NO_VALUE = 255  # the class of a missing value

_MINUTES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 90, 105)
_LONG = (120, 150, 180, 240, 300, 360, 480, 720, 1080, 1440, 2880, 5760, 11520, 23040)
GAPS = np.array(_MINUTES + _LONG) / 60  # hours between time points: the values that a release knows
SPANS = np.concatenate([[0.0], 0.05 * 1.04 ** np.arange(300)])  # hours from first to last time point, and to the first
CLOCK = 3  # levels of a stay's clock: pace in the first half, pace in the second, span
LAGS = np.array([0.0, 1.5, 4.0, 10.0, 24.0, np.inf])  # classes of lags, in typical gaps
BLOCKS = np.array([1 / 8, 1 / 4, 1 / 2])  # where parts of a stay end, in typical spans

_CHUNK = 256  # stays at once: 256 x 100 x 100 pairs of time points are 10 MB
_LARGEST = 1e6  # hours. Times beyond are moved there
_DECADES = np.arange(-3 * 16, 7 * 16 + 1) / 16  # powers of 10 that bound the classes of an unknown feature's size
_SIZES = np.concatenate([-(10.0 ** _DECADES[::-1]), 10.0**_DECADES])
MAGNITUDES = len(_SIZES) + 2  # numbers that an unknown range costs at first


class Stays(NamedTuple):
    """Stays, time points first and padding last.

    Attributes
    ----------
    times : ndarray, shape [N, T]
        Hours since the first time point, never falling, 0 in padding.
    start : ndarray, shape [N]
        The first time.
    rows : ndarray of bool, shape [N, T]
        Which time points there are.
    classes : ndarray of uint8, shape [N, T, F - 1]
        The class of each value, NO_VALUE where it is missing.
    unchanged : ndarray of float32, shape [N, F - 1]
        The share of a feature's values that are the same as the one before. 0 if there is none before.
    """

    times: np.ndarray
    start: np.ndarray
    rows: np.ndarray
    classes: np.ndarray
    unchanged: np.ndarray


# ------------------------------------------------------------------------------------------------ times and values


def clean_times(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times since the first time point, and that first time. All become finite and ordered."""
    times = np.where(rows & np.isfinite(times), np.clip(times, -_LARGEST, _LARGEST), -np.inf)
    times = np.maximum(np.maximum.accumulate(times, axis=1), -_LARGEST)
    start = times[:, 0].copy()
    return np.where(rows, times - start[:, None], 0.0), start


def unchanged(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which share of a stay's values of a feature are the same as the one before, shape [N, K]."""
    number, time_points, features = values.shape
    result = np.zeros((number, features), dtype=np.float32)
    for first in range(0, number, _CHUNK):
        block = values[first : first + _CHUNK]
        measured = rows[first : first + _CHUNK, :, None] & np.isfinite(block)
        place = np.where(measured, np.arange(time_points)[:, None], -1)
        last = np.maximum.accumulate(place, axis=1)
        before = np.concatenate([np.full_like(last[:, :1], -1), last[:, :-1]], axis=1)
        same = measured & (before >= 0) & (block == np.take_along_axis(block, np.maximum(before, 0), axis=1))
        result[first : first + _CHUNK] = same.sum(axis=1) / np.maximum(measured.sum(axis=1) - 1, 1)
    return result


def class_count(known: Range) -> int:
    """Return into how many classes a feature's values fall: whole numbers have their own where there are few."""
    if known.decimals == 0 and not known.log and known.high - known.low < CLASSES:
        return int(known.high - known.low) + 1
    return CLASSES


def to_classes(values: np.ndarray, rows: np.ndarray, known: Range) -> np.ndarray:
    """Return the class of each value [N, T]. Values outside the range belong to its end, infinite ones are missing."""
    measured = rows & np.isfinite(values)
    inside = np.clip(np.where(measured, values, known.low), known.low, known.high)
    count = class_count(known)
    if count == int(known.high - known.low) + 1 and known.decimals == 0 and not known.log:
        place = np.rint(inside - known.low)
    elif known.log:
        place = np.floor(np.log(inside / known.low) / np.log(known.high / known.low) * count)
    else:
        place = np.floor((inside - known.low) / (known.high - known.low) * count)
    return np.where(measured, np.clip(place, 0, count - 1), NO_VALUE).astype(np.uint8)


def to_values(places: np.ndarray, known: Range) -> np.ndarray:
    """Return values from places on the scale of classes (2.5 is the middle of the third class)."""
    count = class_count(known)
    if count == int(known.high - known.low) + 1 and known.decimals == 0 and not known.log:
        values = known.low + np.minimum(np.floor(places), count - 1)
    elif known.log:
        values = known.low * (known.high / known.low) ** (places / count)
    else:
        values = known.low + (known.high - known.low) * places / count
    return np.round(values, known.decimals)


def shares(classes: np.ndarray, count: int) -> np.ndarray:
    """Return which share of a stay's values of a feature fall in each class.

    Parameters
    ----------
    classes : ndarray of int, shape [N, T, K]
        `count` or more where there is no value.

    Returns
    -------
    ndarray of float32, shape [N, K * count]
    """
    stays, _, features = classes.shape
    result = np.zeros((stays, features, count), dtype=np.float32)
    for first in range(0, stays, _CHUNK):
        block = classes[first : first + _CHUNK]
        measured = block < count
        stay, _, feature = np.nonzero(measured)
        flat = (stay * features + feature) * count + block[measured]
        cells = np.bincount(flat, minlength=len(block) * features * count).reshape(len(block), features, count)
        result[first : first + _CHUNK] = cells / np.maximum(measured.sum(axis=1), 1)[:, :, None]
    return result.reshape(stays, -1)


# --------------------------------------------------------------------------------------- ranges that nobody knows


def magnitudes(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the shares of a stay's values in classes of size, and whether they are charted with 0, 1 or 2 decimals.

    Parameters
    ----------
    values : ndarray, shape [N, T, K]
    rows : ndarray of bool, shape [N, T]

    Returns
    -------
    ndarray of float32, shape [N, K * (classes of size + 3)]
    """
    stays, _, features = values.shape
    count = len(_SIZES) - 1
    result = np.zeros((stays, features, count + 3), dtype=np.float32)
    for first in range(0, stays, _CHUNK):
        block = values[first : first + _CHUNK]
        measured = rows[first : first + _CHUNK, :, None] & np.isfinite(block)
        block = np.where(measured, np.clip(block, -1e7, 1e7), 0.0)
        place = np.clip(np.searchsorted(_SIZES, block, side="right") - 1, 0, count - 1)
        place = np.where(measured, place, count)
        result[first : first + _CHUNK, :, :count] = shares(place, count).reshape(len(block), features, count)
        cells = np.maximum(measured.sum(axis=1), 1)
        for decimals in range(3):
            charted = np.abs(block - np.round(block, decimals)) < 1e-6
            result[first : first + _CHUNK, :, count + decimals] = (
                DECIMALS_WEIGHT * (charted & measured).sum(axis=1) / cells
            )
    return result.reshape(stays, -1)


def rough_ranges(sums: np.ndarray, noise: float, features: int) -> list[Range | None]:
    """Return each feature's rough range: from the first to the last class of size that stands out of the noise.

    None where no class does, that is where too few patients have the feature.
    """
    count = len(_SIZES) - 1
    zero = count // 2  # the class that holds 0
    found: list[Range | None] = []
    for row in sums.reshape(features, -1):
        low, high = _outstanding(row[:count], noise)
        if high < 0:
            found.append(None)
            continue
        patients = row[max(low - 8, 0) : high + 8].sum()
        charted = np.flatnonzero(row[count:] / DECIMALS_WEIGHT > 0.9 * patients)
        # Two classes more on either side, never past 0.
        first = low if low == zero else max(low - 2, 0 if low < zero else zero + 1)
        last = high if high == zero + 1 else min(high + 2, count if high > zero else zero)
        bottom = 0.0 if first == zero else float(_SIZES[first])
        top = 0.0 if last == zero + 1 else float(_SIZES[last])
        size = np.log10(max(abs(bottom), abs(top), 1e-3))
        found.append(_tidy(bottom, top, int(charted[0]) if charted.size else int(max(0, 3 - np.floor(size)))))
    return found


def closer_ranges(sums: np.ndarray, noise: float, rough: list[Range]) -> list[Range]:
    """Return narrower ranges where noisy counts in the classes of the rough ones show that many are unused."""
    found = []
    for row, known in zip(sums.reshape(len(rough), -1), rough, strict=True):
        count = class_count(known)
        low, high = _outstanding(row[:count], noise)
        margin = (high - low) // 4 + 2
        if high < 0 or count < CLASSES or high - low + 2 * margin > 0.75 * count:
            found.append(known)
            continue
        ends = np.array([max(low - margin, 0), min(high + margin, count)]) / count
        bottom, top = (
            known.low * (known.high / known.low) ** ends if known.log else known.low + (known.high - known.low) * ends
        )
        found.append(_tidy(float(bottom), float(top), known.decimals))
    return found


def _outstanding(counts: np.ndarray, noise: float) -> tuple[int, int]:
    """Return where the classes that stand out of the noise begin and end, alone or with their neighbours.

    Groups of 1, 2, 4 and more neighbours are looked at, up to the first width that finds something, and twice more.
    """
    low, high, left = len(counts), -1, 3
    width = 1
    while width <= len(counts) // 2 and left:
        for shift in (0, width // 2):
            whole = (len(counts) - shift) // width * width
            merged = counts[shift : shift + whole].reshape(-1, width).sum(axis=1)
            out = np.flatnonzero(merged > 4.5 * noise * np.sqrt(width))
            if out.size:
                low, high = min(low, shift + int(out[0]) * width), max(high, shift + int(out[-1] + 1) * width)
        left -= high >= 0
        width *= 2
    return low, high


def _tidy(low: float, high: float, decimals: int) -> Range:
    if decimals == 0:
        low, high = np.ceil(low), np.floor(high)
        if high < low:
            low = high = np.round((low + high) / 2)
    elif high <= low:
        low, high = low - 10.0**-decimals, high + 10.0**-decimals
    return Range(float(low), float(high), decimals, bool(low > 0 and high > 20 * low))


# ---------------------------------------------------------------------------------- how often, how long, how dense


def count_edges(time_points: int) -> np.ndarray:
    """Return where the classes of a feature's number of values begin. The last begins above `time_points`."""
    edges = np.unique(np.concatenate([[0], np.ceil(1.12 ** np.arange(200))]))
    return np.concatenate([edges[edges <= time_points], [time_points + 1]]).astype(int)


def count_classes(stays: Stays) -> np.ndarray:
    """Return the class of each feature's number of values, shape [N, K].

    The last class but one is a value at every time point. The last is the same value at every time point.
    """
    edges = count_edges(stays.rows.shape[1])
    measured = stays.classes != NO_VALUE
    counts, lengths = measured.sum(axis=1), stays.rows.sum(axis=1)[:, None]
    found = np.searchsorted(edges, counts, side="right") - 1
    every = (counts == lengths) & (lengths > 0)
    same = np.where(measured, stays.classes, NO_VALUE).min(axis=1) == np.where(measured, stays.classes, 0).max(axis=1)
    found[every] = len(edges) - 1
    found[every & same] = len(edges)
    return found


def nearest(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of the nearest grid point."""
    return np.searchsorted((grid[1:] + grid[:-1]) / 2, values)


def paces(stays: Stays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the class (on SPANS) of each stay's mean gap in either half of its time, and if it has one, all [N]."""
    half = stays.times.max(axis=1) / 2
    early = (stays.rows & (stays.times <= half[:, None])).sum(axis=1)
    late = stays.rows.sum(axis=1) - early
    return nearest(SPANS, half / np.maximum(early, 1)), nearest(SPANS, half / np.maximum(late, 1)), late > 0


def spans(stays: Stays) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each stay's span (on SPANS), and whether it is whole, both [N].

    A stay that fills all time points may have been cut off, so its span says little.
    """
    length = stays.rows.sum(axis=1)
    return nearest(SPANS, stays.times.max(axis=1)), (length > 0) & (length < stays.rows.shape[1])


def clock(stays: Stays) -> list[np.ndarray]:
    """Return classes of every feature's count, of both paces, of span and of start, and shares of gaps.

    Each is [N, classes].

    The square of the vectors' Euclidean length is at most the number of features, plus five.
    """
    early, late, paced = paces(stays)
    span, whole = spans(stays)
    present = (stays.rows.any(axis=1))[:, None]
    lag = np.where(stays.rows[:, 1:], nearest(GAPS, np.diff(stays.times, axis=1)), len(GAPS))
    counts = _one_hot(count_classes(stays), len(count_edges(stays.rows.shape[1])) + 1).reshape(len(present), -1)
    return [
        counts * present,
        _one_hot(early, len(SPANS)) * paced[:, None],
        _one_hot(late, len(SPANS)) * paced[:, None],
        _one_hot(span, len(SPANS)) * whole[:, None],
        _one_hot(nearest(SPANS, stays.start), len(SPANS)) * present,
        shares(lag[:, :, None], len(GAPS)),
    ]


def _one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    return np.asarray((classes[..., None] == np.arange(count)).astype(np.float32))


# ------------------------------------------------------------------------------------------- levels, course, rows


def levels(stays: Stays, values: Marginals, counts: Marginals, clock_marginals: Marginals) -> np.ndarray:
    """Return normal scores of a stay: each feature's mean value (0 if unmeasured), its count, two paces and span.

    Returns
    -------
    ndarray of float32, shape [N, 2 K + 3]
    """
    number, features = stays.classes.shape[0], stays.classes.shape[2]
    result = np.zeros((number, 2 * features + CLOCK), dtype=np.float32)
    for first in range(0, number, _CHUNK):
        scores, measured = _scores(stays.classes[first : first + _CHUNK], values)
        result[first : first + _CHUNK, :features] = scores.sum(axis=1) / np.maximum(measured.sum(axis=1), 1)
    found = count_classes(stays)
    for feature in range(features):
        result[:, features + feature] = counts.scores[feature][found[:, feature]]
    early, late, paced = paces(stays)
    for place, (classes, there) in enumerate(((early, paced), (late, paced), spans(stays))):
        result[:, 2 * features + place] = clock_marginals.scores[place][classes] * there
    return result * stays.rows.any(axis=1)[:, None]


def products(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper triangle of each weighted vector's outer product, off the diagonal times the root of 2.

    A stay's row has the Euclidean length of its weighted vector, squared. Shape [N, D (D + 1) / 2].
    """
    row, column = np.triu_indices(vectors.shape[1])
    double = np.where(row == column, 1.0, np.sqrt(2)).astype(np.float32)
    result = np.empty((len(vectors), row.size), dtype=np.float32)
    weighted = (vectors * weights).astype(np.float32)
    for first in range(0, len(vectors), _CHUNK):
        block = weighted[first : first + _CHUNK]
        result[first : first + _CHUNK] = block[:, row] * block[:, column] * double
    return result


def triangle(numbers: np.ndarray, size: int) -> np.ndarray:
    """Undo the layout of `products`: return the symmetric matrix [size, size]."""
    row, column = np.triu_indices(size)
    result = np.zeros((size, size))
    result[row, column] = result[column, row] = numbers / np.where(row == column, 1.0, np.sqrt(2))
    return result


def course(stays: Stays, values: Marginals, gap: float, span: float) -> np.ndarray:
    """Return how each feature runs within a stay.

    For values and for being measured, each [K, classes]: the mean square of the stay's scores, the mean product of two
    of them by the lag between them (LAGS), and the mean score by part of the stay (BLOCKS). Being measured is scored
    against the stay's own rate. Last comes the share of unchanged values, [K].

    Parameters
    ----------
    gap, span : float
        Typical gap and span in hours.

    Returns
    -------
    ndarray of float32, shape [N, 2 K (1 + lags + parts) + K]
    """
    number, features = stays.classes.shape[0], stays.classes.shape[2]
    lags, parts = len(LAGS), len(BLOCKS) + 1  # the first lag is 0
    result = np.zeros((number, 2 * features * (lags + parts) + features), dtype=np.float32)
    for first in range(0, number, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        scores, measured = _scores(stays.classes[chunk], values)
        rows, times = stays.rows[chunk], stays.times[chunk]
        often = _against_own_rate(measured, rows)
        found: list[list[np.ndarray]] = [
            [np.square(scores).sum(axis=1) / np.maximum(measured.sum(axis=1), 1)],
            [np.square(often).sum(axis=1) / np.maximum(rows.sum(axis=1), 1)[:, None]],
            [],
            [],
        ]
        for pairs in lagged(times, rows, gap):
            both = (measured * (pairs @ measured)).sum(axis=1)
            found[0].append((scores * (pairs @ scores)).sum(axis=1) / np.maximum(both, 1))
            found[1].append((often * (pairs @ often)).sum(axis=1) / np.maximum(pairs.sum(axis=(1, 2)), 1)[:, None])
        for here in part_rows(times, rows, span):
            found[2].append((scores * here).sum(axis=1) / np.maximum((measured * here).sum(axis=1), 1))
            found[3].append((often * here).sum(axis=1) / np.maximum(here.sum(axis=1), 1))
        joined = [np.stack(part, axis=2).reshape(len(scores), -1) for part in found] + [stays.unchanged[chunk]]
        result[chunk] = np.clip(np.concatenate(joined, axis=1), -4, 4)
    return result


def split_course(numbers: np.ndarray, features: int) -> list[np.ndarray]:
    """Undo the layout of `course`.

    Products by lag (0 first) of values and of being measured, means by part of both, unchanged values.
    """
    lags, parts = len(LAGS), len(BLOCKS) + 1
    pieces = np.split(numbers, np.cumsum(features * np.array([lags, lags, parts, parts])))
    return [piece.reshape(features, -1) for piece in pieces]


def rows_together(stays: Stays, values: Marginals) -> np.ndarray:
    """Return how features go together at one time point, in the layout of `products`.

    First the mean product of two features' deviations from the stay's own means, over the time points that have both.
    Then the same for being measured, scored against the stay's own rates. Shape [N, K (K + 1)].
    """
    number, features = stays.classes.shape[0], stays.classes.shape[2]
    row, column = np.triu_indices(features)
    double = np.where(row == column, 1.0, np.sqrt(2)).astype(np.float32)
    result = np.zeros((number, 2 * row.size), dtype=np.float32)
    for first in range(0, number, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        scores, measured = _scores(stays.classes[chunk], values)
        means = scores.sum(axis=1, keepdims=True) / np.maximum(measured.sum(axis=1, keepdims=True), 1)
        apart = (scores - means) * measured
        both = measured.transpose(0, 2, 1) @ measured
        together = np.where(both > 1, (apart.transpose(0, 2, 1) @ apart) / np.maximum(both, 1), 0)
        often = _against_own_rate(measured, stays.rows[chunk])
        lengths = np.maximum(stays.rows[chunk].sum(axis=1), 1)[:, None, None]
        panels = (often.transpose(0, 2, 1) @ often) / lengths
        result[chunk, : row.size] = together[:, row, column] * double
        result[chunk, row.size :] = panels[:, row, column] * double
    return result


def has_pairs(stays: Stays, gap: float, span: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the shares of stays that have something to average in `course` and `rows_together`.

    For simulated stays: no patient is looked at. Shapes [K, lags], [K, parts], [K, K].
    """
    number = len(stays.classes)
    lag: list[np.ndarray] = []
    part: list[np.ndarray] = []
    both: list[np.ndarray] = []
    for first in range(0, number, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        measured = (stays.classes[chunk] != NO_VALUE).astype(np.float32)
        rows, times = stays.rows[chunk], stays.times[chunk]
        found = [((measured * (pairs @ measured)).sum(axis=1) > 0).sum(axis=0) for pairs in lagged(times, rows, gap)]
        lag.append(np.stack(found, axis=1))
        found = [((measured * here).sum(axis=1) > 0).sum(axis=0) for here in part_rows(times, rows, span)]
        part.append(np.stack(found, axis=1))
        both.append((measured.transpose(0, 2, 1) @ measured > 1).sum(axis=0))
    return sum(lag) / number, sum(part) / number, sum(both) / number  # type: ignore[return-value]


def lagged(times: np.ndarray, rows: np.ndarray, gap: float) -> Iterator[np.ndarray]:
    """Yield, for each class of lags, which pairs (later, earlier) of time points are that far apart, [N, T, T]."""
    lag = times[:, :, None] - times[:, None, :]
    later = np.tril(np.ones(lag.shape[1:], dtype=bool), -1) & rows[:, :, None] & rows[:, None, :]
    for index, (low, high) in enumerate(zip(LAGS[:-1] * gap, LAGS[1:] * gap, strict=True)):
        yield (later & ((lag > low) | (index == 0)) & (lag <= high)).astype(np.float32)


def part_rows(times: np.ndarray, rows: np.ndarray, span: float) -> Iterator[np.ndarray]:
    """Yield the time points of each part of a stay, [N, T, 1]."""
    part = np.searchsorted(BLOCKS * span, times)
    for index in range(len(BLOCKS) + 1):
        yield ((part == index) & rows)[:, :, None]


def _scores(classes: np.ndarray, values: Marginals) -> tuple[np.ndarray, np.ndarray]:
    """Return normal scores, 0 where missing, and whether there is one, as float32."""
    measured = classes != NO_VALUE
    table = values.scores.astype(np.float32)
    scores = table[np.arange(classes.shape[2]), np.where(measured, classes, 0)]
    return scores * measured, measured.astype(np.float32)


def _against_own_rate(measured: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (measured - the stay's rate) / its deviation. 0 in padding and if always or never measured."""
    rate = measured.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1), 1)[:, None, None]
    deviation = np.sqrt(rate * (1 - rate))
    scored = np.where(deviation > 0, (measured - rate) / np.where(deviation > 0, deviation, 1), 0)
    return (scored * rows[:, :, None]).astype(np.float32)
