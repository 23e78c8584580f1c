"""Stays drawn from released numbers: no patient is looked at here, so nothing here costs privacy.

A stay's levels (of each feature's values, of its count, of pace and span) come from one Gaussian copula. Then the
times are drawn, then which time points have a value, then the values. Both run as a level, two parts with a memory
(first-order autoregressions in continuous time) and a part without, correlated between features.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from examples.hider.dp import measure
from examples.hider.dp.copula import Marginals, latent_correlation, nearest_correlation, shrink, uniform
from examples.hider.dp.measure import GAPS, SPANS, Stays
from examples.hider.dp.ranges import Range
from utils.stays import front_padding, real_rows_last

MEMORIES = np.array([np.inf, 20.0, 3.0])  # in typical gaps: how long the level and the two parts last
PRIOR_VALUES = np.array([0.4, 0.2, 0.1])  # their shares of the variance where the noise hides everything
PRIOR_MEASURED = np.array([0.2, 0.2])
_FEWEST = 0.003  # share of stays below which a mean is not divided by fewer
_SIMULATED = 2000  # stays that tell how many have something to average
_REDRAWN = 150  # single gaps drawn again, so that a stay's halves have the length they should
_CHUNK = 256


class Released(NamedTuple):
    """All that is known of the patients.

    Attributes
    ----------
    ranges : list of Range, length K
    known : ndarray of bool, shape [K]
        Which features have a range: the others stay missing.
    patients : float
        How many there are.
    values, counts : Marginals
    clock : Marginals
        Of the paces in either half, and of spans.
    whole : float
        Share of patients whose stays are not cut off.
    starts, gaps : ndarray
        Shares of SPANS and GAPS.
    static : ndarray of bool, shape [K]
        Features that do not change within a stay.
    levels, levels_noise : ndarray, shape [2 K + 3, 2 K + 3]
        Sum of the outer products of `measure.levels`, and the noise's standard deviation.
    middle : ndarray, shape [2 K + 3]
        Mean of those levels that are +1 or -1. 0 for the others.
    course : ndarray
        As `measure.course` lays it out.
    rows : ndarray
        As `measure.rows_together` lays it out.
    course_noise, rows_noise : float
    gap, span : float
        Typical gap and span in hours.
    """

    ranges: list[Range]
    known: np.ndarray
    patients: float
    values: Marginals
    counts: Marginals
    clock: Marginals
    whole: float
    starts: np.ndarray
    gaps: np.ndarray
    static: np.ndarray
    levels: np.ndarray
    levels_noise: np.ndarray
    middle: np.ndarray
    course: np.ndarray
    course_noise: float
    rows: np.ndarray
    rows_noise: float
    gap: float
    span: float


def draw(released: Released, stays: int, time_points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw stays.

    Returns
    -------
    generated : ndarray of float64, shape [stays, time_points, K + 1]
    padding_mask : ndarray of bool, the same shape
    """
    features = len(released.ranges)
    correlation = level_correlation(released, rng)
    latent = rng.standard_normal((stays, len(correlation)), dtype=np.float32) @ _factor(correlation)

    lengths, times = draw_clock(released, latent[:, -measure.CLOCK :], time_points, rng)
    rows = np.arange(time_points) < lengths[:, None]
    counts = draw_counts(released, latent[:, features : 2 * features], lengths, time_points, rng)
    part = np.searchsorted(measure.BLOCKS * released.span, times)
    lag_values, lag_often, part_values, part_often, unchanged = measure.split_course(released.course, features)
    half = features * (features + 1) // 2
    together = measure.triangle(released.rows[:half], features)
    panels = measure.triangle(released.rows[half:], features)
    off_diagonal = released.rows_noise / np.sqrt(2)
    first_ones = slice(0, _SIMULATED)
    shape, share = lag_shape(times[first_ones], rows[first_ones], released.gap)

    # Which time points have a value: those with the highest scores, as many as the stay's count says.
    rate = np.clip((counts / lengths[:, None]).mean(axis=0), 1e-3, 1 - 1e-3)
    # What a mean over stays is divided by is the mean square, released beside it: so shortening vectors biases nothing.
    varied = np.maximum(lag_often[:, 0], _FEWEST * released.patients)
    hermite = Marginals(np.stack([1 - rate, rate], axis=1)).hermite
    own = varied[:, None] / np.maximum((lengths - 1).mean(), 1)  # centring a stay's scores moved its products by this
    weight = varied[:, None] * share
    memory = latent_correlation((lag_often[:, 1:] + own) / weight, hermite[:, None], hermite[:, None])
    slope = np.maximum(np.square(hermite[:, :1]), 0.05)
    parts = fit_memory(memory, released.course_noise / weight / slope, shape[:, 1:], PRIOR_MEASURED)
    weight = np.sqrt(varied[:, None] * varied)
    panel = latent_correlation(panels / weight, hermite[:, None], hermite[None])
    panel = nearest_correlation(shrink(panel, np.hypot(off_diagonal, np.sqrt(weight)) / weight))
    trend = part_often / varied[:, None] / np.maximum(hermite[:, :1], 0.2)
    measured = np.zeros((stays, time_points, features), dtype=bool)
    for first in range(0, stays, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        scores = draw_course(None, parts, panel, times[chunk], released.gap, rng) + trend.T[part[chunk]]
        scores[~rows[chunk]] = -np.inf
        order = np.argsort(np.argsort(-scores, axis=1), axis=1)
        measured[chunk] = order < counts[chunk][:, None, :]

    # Values. How many stays have two values some hours apart is seen from the stays just drawn.
    drawn = np.where(measured[first_ones], 0, measure.NO_VALUE).astype(np.uint8)
    nothing = np.zeros((len(drawn), features), dtype=np.float32)
    simulated = Stays(times[first_ones], times[first_ones, 0], rows[first_ones], drawn, nothing)
    seen = measure.has_pairs(simulated, released.gap, released.span)
    in_lag, in_part, in_row = (np.maximum(each, _FEWEST) for each in seen)
    hermite = released.values.hermite
    present = np.maximum((released.counts.shares[:, 1:]).sum(axis=1), _FEWEST)[:, None]
    square = np.maximum(lag_values[:, :1], 0.3 * present * released.patients) / present
    memory = latent_correlation(lag_values[:, 1:] / (in_lag * square), hermite[:, None], hermite[:, None])
    parts = fit_memory(memory, released.course_noise / (in_lag * square), shape, PRIOR_VALUES)
    in_part, in_row = in_part * square, in_row * released.patients
    trend = shrink(part_values / in_part / np.maximum(hermite[:, :1], 0.3), released.course_noise / in_part)
    within = np.clip(np.diag(together) / np.diag(in_row), 0.02, 1.0)
    scale = in_row * np.sqrt(within[:, None] * within)
    moved = nearest_correlation(
        shrink(np.clip(together / scale, -0.99, 0.99), np.hypot(off_diagonal / scale, 1 / np.sqrt(in_row)))
    )
    parts[released.static], trend[released.static] = (1, 0, 0), 0

    generated = np.full((stays, time_points, features + 1), np.nan)
    generated[:, :, 0] = times + SPANS[rng.choice(len(SPANS), p=released.starts, size=stays)][:, None]
    for first in range(0, stays, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        scores = draw_course(latent[chunk, :features], parts, moved, times[chunk], released.gap, rng)
        scores += trend.T[part[chunk]]
        for feature, known in enumerate(released.ranges):
            here = measured[chunk, :, feature]
            below = released.values.below[feature, : measure.class_count(known) + 1]
            places = np.interp(uniform(scores[:, :, feature][here]), below, np.arange(below.size))
            generated[chunk, :, feature + 1][here] = measure.to_values(places, known)
    twice = np.maximum((measured[first_ones].sum(axis=1) > 1).mean(axis=0), _FEWEST) * square[:, 0]
    hold_values(generated[:, :, 1:], unchanged[:, 0] / twice, rng)
    return real_rows_last(generated, lengths), front_padding(lengths, time_points, features + 1)


def level_correlation(released: Released, rng: np.random.Generator) -> np.ndarray:
    """Return the correlation matrix of a stay's latent levels, shrunk by what noise is in it."""
    features = len(released.ranges)
    size, patients = len(released.levels), released.patients
    linear = np.zeros_like(released.values.hermite)
    linear[:, 0] = 1.0  # a mean over many values is taken as it is
    first = np.where(released.static[:, None], released.values.hermite, linear)
    hermite = np.concatenate([first, released.counts.hermite, released.clock.hermite])

    rest = slice(features, size)
    spread = np.sqrt(np.clip(np.diag(released.levels)[rest] / patients, 0.02, 1.0))
    scale = patients * spread[:, None] * spread
    counts = latent_correlation(released.levels[rest, rest] / scale, hermite[rest, None], hermite[None, rest])
    noise = np.hypot(released.levels_noise[rest, rest], np.sqrt(patients)) / scale
    drawn = rng.standard_normal((20_000, size - features)) @ _factor(nearest_correlation(shrink(counts, noise)))
    has = (released.counts.classes(drawn[:, :features]) > 0).astype(float)
    both = has.T @ has / len(has)  # the share of patients with both features, without asking for it

    weight = np.ones((size, size))
    weight[:features, :features] = both
    weight[:features, features:] = has.mean(axis=0)[:, None]
    weight[features:, :features] = has.mean(axis=0)
    weight[-1] *= released.whole
    weight[:-1, -1] *= released.whole
    weight = np.maximum(weight, _FEWEST) * patients
    # Each moment is divided by the roots of its two mean squares: so shortening vectors biases nothing.
    spread = np.sqrt(np.clip(np.diag(released.levels / weight), 0.02, 1.0))
    scale = weight * spread[:, None] * spread
    two = np.sqrt(1 - np.square(released.middle))
    moment = released.levels / scale - released.middle[:, None] * released.middle
    moment, scale = np.clip(moment / two[:, None] / two, -1, 1), scale * two[:, None] * two
    correlation = latent_correlation(moment, hermite[:, None], hermite[None])
    slope = np.maximum(hermite[:, :1] * hermite[None, :, 0], 0.01)
    noise = np.hypot(released.levels_noise / scale, 1 / np.sqrt(weight)) / slope
    return nearest_correlation(shrink(correlation, noise))


def draw_clock(
    released: Released, latent: np.ndarray, time_points: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw each stay's number of time points [N] and its times [N, T].

    Gaps come from the released shares, tilted in either half of a stay so that their mean fits its pace there. Then
    single gaps are drawn again wherever that brings a half nearer to the length it should have.
    """
    early, late, span = SPANS[released.clock.classes(latent)].T
    number = len(span)
    paces = np.maximum(np.stack([early, late], axis=1), SPANS[1])
    paces *= np.exp(rng.uniform(-0.02, 0.02, paces.shape))  # the classes are 4 % wide
    paces = np.minimum(paces, np.maximum(span[:, None] / 2, SPANS[1]))
    counts = np.maximum(np.rint(span[:, None] / 2 / paces), 1)
    paces = np.maximum(span[:, None] / 2 / counts, SPANS[1])
    lengths = np.where(span > 0, np.clip(counts.sum(axis=1), 1, time_points), 1).astype(int)
    half = (np.arange(time_points) > counts[:, :1]).astype(int)  # which half the gap before a time point is in
    gaps = np.arange(time_points) < lengths[:, None]
    gaps[:, 0] = False
    tilts = np.linspace(-4, 4, 161)
    tables = released.gaps * np.exp(tilts[:, None] * np.log(np.maximum(GAPS, 1 / 120)))
    tables = np.cumsum(tables / tables.sum(axis=1, keepdims=True), axis=1)
    means = np.diff(tables, axis=1, prepend=0.0) @ GAPS
    tilt = np.clip(np.searchsorted(means, paces), 0, len(tilts) - 1)
    steps = np.zeros(gaps.shape)
    for chosen in np.unique(tilt):
        here = gaps & (np.take_along_axis(tilt, half, axis=1) == chosen)
        steps[here] = GAPS[_from_table(tables[chosen], rng.random(int(here.sum())))]
    everyone = np.arange(number)
    off = np.stack([((steps - paces[:, [side]]) * (gaps & (half == side))).sum(axis=1) for side in (0, 1)], axis=1)
    for _ in range(_REDRAWN):
        place = 1 + np.floor(rng.random(number) * np.maximum(lengths - 1, 1)).astype(int).clip(0, time_points - 2)
        side = half[everyone, place]
        fresh = GAPS[_from_rows(tables, tilt[everyone, side], rng.random(number))]
        moved = off[everyone, side] + fresh - steps[everyone, place]
        better = gaps[everyone, place] & (np.abs(moved) < np.abs(off[everyone, side]))
        steps[everyone[better], place[better]] = fresh[better]
        off[everyone[better], side[better]] = moved[better]
    return lengths, np.cumsum(steps, axis=1) * (np.arange(time_points) < lengths[:, None])


def _from_table(table: np.ndarray, chances: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(table, chances), len(table) - 1)


def _from_rows(tables: np.ndarray, rows: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return the class that each chance falls in, each in its own row of cumulated shares."""
    return np.minimum((tables[rows] < chances[:, None]).sum(axis=1), tables.shape[1] - 1)


def draw_counts(
    released: Released, latent: np.ndarray, lengths: np.ndarray, time_points: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw how many values each feature of each stay has, [N, K]."""
    edges = measure.count_edges(time_points)
    classes = released.counts.classes(latent)
    counts = _pick(np.minimum(classes, len(edges) - 2), edges, rng)
    counts = np.where(classes >= len(edges) - 1, time_points, counts)
    counts[:, released.static] = time_points
    counts[:, ~released.known] = 0
    return np.minimum(counts, lengths[:, None])


def _pick(classes: np.ndarray, edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a whole number from each class."""
    low, high = edges[classes], edges[classes + 1]
    return low + np.floor(rng.random(classes.shape) * (high - low)).astype(int)


def lag_shape(times: np.ndarray, rows: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Return what each part of a course adds to the mean product at each class of lags.

    Also the share of stays that have such lags.
    """
    lags = len(measure.LAGS) - 1
    shape, share = np.zeros((lags, len(MEMORIES))), np.zeros(lags)
    for first in range(0, len(times), _CHUNK):
        chunk = times[first : first + _CHUNK]
        lag = np.abs(chunk[:, :, None] - chunk[:, None, :])
        for index, pairs in enumerate(measure.lagged(chunk, rows[first : first + _CHUNK], gap)):
            number = pairs.sum(axis=(1, 2))
            share[index] += (number > 0).sum()
            for part, memory in enumerate(MEMORIES * gap):
                kept = (np.exp(-lag / memory) * pairs).sum(axis=(1, 2))
                shape[index, part] += (kept / np.maximum(number, 1)).sum()
    return shape / np.maximum(share, 1)[:, None], np.maximum(share / len(times), _FEWEST)


def fit_memory(memory: np.ndarray, noise: np.ndarray, shape: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the share of variance of each part of a course, [K, parts].

    Least squares with no share negative, pulled to `prior` as far as the noise asks for it.
    """
    result = np.zeros((len(memory), len(prior)))
    for feature, row in enumerate(memory):
        deviation = np.hypot(noise[feature], 0.02)
        left = np.concatenate([shape / deviation[:, None], np.eye(len(prior))])
        weights, _ = nnls(left, np.concatenate([row / deviation, prior]))
        result[feature] = weights / max(1.0, weights.sum() / 0.999)
    return result


def hold_values(values: np.ndarray, unchanged: np.ndarray, rng: np.random.Generator) -> None:
    """Repeat values, in place, until as many are the same as the one before as should be.

    Parameters
    ----------
    values : ndarray, shape [N, T, K]
        NaN where missing.
    unchanged : ndarray, shape [K]
        The share that is wanted. Values that are the same by chance count.
    """
    time_points = np.arange(values.shape[1])
    for feature, wanted in enumerate(unchanged):
        column = values[:, :, feature : feature + 1]
        measured = np.isfinite(column[:, :, 0])
        several = measured.sum(axis=1) > 1
        now = measure.unchanged(column[several], measured[several]).mean() if several.any() else 1.0
        if min(wanted, 1.0) <= now:
            continue
        fresh = measured & (rng.random(measured.shape) >= (min(wanted, 1.0) - now) / (1 - now))
        fresh |= measured & (np.cumsum(measured, axis=1) == 1)
        source = np.maximum.accumulate(np.where(fresh, time_points, 0), axis=1)
        held = np.take_along_axis(column[:, :, 0], source, axis=1)
        column[:, :, 0][measured] = held[measured]


def draw_course(
    level: np.ndarray | None,
    parts: np.ndarray,
    correlation: np.ndarray,
    times: np.ndarray,
    gap: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw standard normal courses, [N, T, K].

    Parameters
    ----------
    level : ndarray, shape [N, K], or None
        What does not change within a stay. Then the first column of `parts` is its share of the variance.
    parts : ndarray, shape [K, parts]
        Shares of the variance. What is missing from 1 has no memory.
    correlation : ndarray, shape [K, K]
        Between features, of all that changes within a stay.
    times : ndarray, shape [N, T]
        Hours.
    gap : float
        Unit of MEMORIES, in hours.
    """
    factor = _factor(correlation)
    shape = (*times.shape, len(correlation))
    changing = parts if level is None else parts[:, 1:]
    rest = np.maximum(1 - parts.sum(axis=1), 0)
    result = (rng.standard_normal(shape, dtype=np.float32) @ factor) * np.sqrt(rest).astype(np.float32)
    if level is not None:
        result += (level * np.sqrt(parts[:, 0]).astype(np.float32))[:, None, :]
    steps = np.maximum(np.diff(times, axis=1, prepend=0.0), 0.0)
    for weight, memory in zip(np.sqrt(changing).astype(np.float32).T, MEMORIES[1:] * gap, strict=True):
        fresh = rng.standard_normal(shape, dtype=np.float32) @ factor
        kept = np.exp(-steps / memory).astype(np.float32)[:, :, None]
        state = fresh[:, 0]
        for step in range(times.shape[1]):
            if step:
                state = kept[:, step] * state + np.sqrt(1 - kept[:, step] ** 2) * fresh[:, step]
            result[:, step] += weight * state
    return np.asarray(result)


def _factor(correlation: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.cholesky(correlation).T.astype(np.float32))
