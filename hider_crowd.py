"""Crowd hider: stays that no patient is behind, drawn from a model with few numbers. Plain NumPy, seconds.

Ours, built on what must leak (Homer et al. 2008 and Dwork et al., FOCS 2015): if a release gives away p numbers about n
patients exactly, the best attack on those numbers labels Phi(sqrt(p / n) / 2) of the stays rightly, half of them
members. Noise of c times a number's own sampling variance divides p by 1 + c. So the model below has few numbers, and
those are made as uncertain as `leak` asks for:

1. Fit the model to the patients. It holds: a few quantiles of each feature (`Marginal`), what share of a feature's
   variance lies between stays, fades with time or is noise (`Course`), the strongest correlations between stays, of
   levels and of how often features are measured, and between values of one time, types of rows by what is measured
   together, how types follow one another, and quantiles of durations and starts. `Model.numbers` counts them: about
   850 for 2,000 stays of 38 features.
2. Draw n / c stays from that model and fit the model again, to them. This is the noise: it has c times the sampling
   variance of each number, in the numbers' own covariance, and no patient's share in it.
3. Draw n stays from the second model. That is sampling noise once more, so p is divided by 2 + c in all. With
   d'^2 = p / (n (2 + c)), c is chosen such that Phi(d' / 2) is `leak`.

No row, clock, pattern of missing cells or extreme value of a patient is copied: 0.5 % of each feature are cut off at
either end, and a value of a feature that has few values is kept only if ten stays have it.

What it does not protect against: `leak` is no proof. It holds for attacks on the model's own numbers to first order,
and it assumes a typical patient. A patient far from all others sways the numbers more. With fewer than about 1,000
stays c would have to be so large that nothing is left. It stops at `_FEWEST` stays in step 2, and more leaks. What the
model leaves out is lost: dependence of missing cells on the values within a stay, rare patterns, sudden events.

The former version kept the patients' mean at every cell, 3,801 numbers at 100 time points x 38 features. It is kept as
the setting `cells`, a known answer for attacks that look for means: on 2,000 of 4,000 stays of PhysioNet 2012 set-a
`seeker_moments.py` labels 0.705 of them rightly, and 0.50 to 0.51 of the default (docs/methods.md).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri
from sklearn.cluster import MiniBatchKMeans

from examples.hider.crowd import cells
from utils.data_preprocess import impute
from utils.errors import UserError
from utils.stays import front_padding, padded_rows, padding_of, real_rows_first, real_rows_last, stay_lengths


@dataclass(frozen=True)
class Parameters:
    statistics: Literal["summaries", "cells"] = "summaries"  # cells: the former version, which leaks
    leak: float = 0.55  # Re-ID that the best attack on the model's numbers may reach, which fixes the noise
    levels: int = 7  # quantiles of each feature
    row_types: int = 4  # types of rows by what is measured in them
    between: int = 120  # strongest correlations kept between stays, at most one for each 20 patients
    within: int = 40  # likewise between values of one time, at most one for each 50 patients
    components: int = 20  # cells only: directions in which stays differ, at most one for each 50 patients

    def __post_init__(self) -> None:
        for name, least in (("levels", 3), ("row_types", 1), ("between", 0), ("within", 0), ("components", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0.5 < self.leak <= 1:
            raise ValueError(f"leak must be above 0.5 and at most 1, not {self.leak}")


CELLS = Parameters(statistics="cells")

_FEWEST = 100  # stays drawn in step 2, at least
_PATIENTS = 10  # stays that must have a value, if a feature has few values
_FEW_VALUES = 20
_EDGE = 2.6  # normal score of the outermost quantiles: 0.5 % are beyond either
_LAGS = (1, 2, 4, 8, 16)  # measurements of a stay that are compared: each with the next, the second next, ...
_FADING = (0.02, 0.06, 0.2, 0.6)  # time constants to choose from, as shares of the median stay's duration
_PULL = 20.0  # shares of variance are pulled towards 0 as if so many more stays without any had been seen
_MOST = 0.98  # of a variance that stay, course or directions may explain
_ROWS_PER_TYPE = 200
_ROWS_CLUSTERED = 30_000
_LEAST_SCALE = 0.1
_PATIENTS_BETWEEN, _PATIENTS_WITHIN = 20, 50  # for a correlation to be kept
_LEAST_SIZE = 1e-3  # of an eigenvalue of kept correlations
_BLOCK = 256  # stays whose rows are compared at once


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Fit the model, make its numbers uncertain, and draw as many stays as there are patients.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        In the input's units. Cells are missing as often as the patients' (setting `cells`: none is missing).
    padding_mask : ndarray of bool, shape [N, T, F]
        That of the new lengths.

    Raises
    ------
    UserError
        If every stay is empty.
    """
    data = np.asarray(input_dict["data"], dtype=float)
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])
    if padding_mask.all():
        raise UserError("there is nothing to hide: the stays hold nothing but padding")
    if parameters.statistics == "cells":
        return cells.draw_from_cells(data, padding_mask, parameters.components, rng)

    stays, time_points, _ = data.shape
    parameters = replace(
        parameters,
        between=min(parameters.between, stays // _PATIENTS_BETWEEN),
        within=min(parameters.within, stays // _PATIENTS_WITHIN),
    )
    model = fit(data, padding_mask, parameters, rng)
    noise = noise_for(parameters.leak, model.numbers, stays)
    if noise > 0:
        drawn, drawn_mask = model.draw(max(_FEWEST, round(stays / noise)), time_points, rng)
        model = fit(drawn, drawn_mask, parameters, rng, patients=1)
    return model.draw(stays, time_points, rng)


def noise_for(leak: float, numbers: int, stays: int) -> float:
    """Return c, the noise as a multiple of each number's sampling variance, from d'^2 = p / (n (2 + c)), at least 0."""
    distance = 2 * ndtri(leak)
    return max(0.0, numbers / (stays * distance**2) - 2)


# ---------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Marginal:
    """How one feature is distributed over all patients.

    Attributes
    ----------
    values : ndarray, shape [K]
        Quantiles, or the values of a feature that has few.
    scores : ndarray, shape [K] or [K - 1]
        The quantiles' normal scores, or those that part one value from the next.
    step : float
        What values are rounded to, as the patients' are. 0: they are not.
    """

    values: np.ndarray
    scores: np.ndarray
    step: float = 0.0

    @classmethod
    def fit(cls, values: np.ndarray, owner: np.ndarray, levels: int, patients: int) -> "Marginal":
        """Fit to `values` [n] of the stays `owner` [n]."""
        if not values.size:
            return cls(np.zeros(1), np.zeros(0))
        distinct, place = np.unique(values, return_inverse=True)
        if len(distinct) <= _FEW_VALUES:
            pairs = np.unique(np.stack([place, owner]), axis=1)
            shared = np.bincount(pairs[0], minlength=len(distinct)) >= patients
            if shared.any():
                share = np.bincount(place, minlength=len(distinct))[shared].cumsum()
                return cls(distinct[shared], ndtri(share[:-1] / share[-1]))
        scores = np.linspace(-_EDGE, _EDGE, levels)
        steps = [step for step in (1.0, 0.1, 0.01) if np.mean(np.abs(values / step % 1 - 0.5) > 0.499) > 0.99]
        return cls(np.quantile(values, ndtr(scores)), scores, steps[0] if steps else 0.0)

    def to_units(self, scores: np.ndarray) -> np.ndarray:
        """Turn normal scores into values."""
        if len(self.scores) < len(self.values):
            return self.values[np.searchsorted(self.scores, scores)]
        values = PchipInterpolator(self.scores, self.values)(np.clip(scores, -_EDGE, _EDGE))
        return np.round(values / self.step) * self.step if self.step else values


@dataclass(frozen=True)
class Course:
    """How a feature's normal score goes through a stay. All attributes have shape [F].

    Attributes
    ----------
    stay, fading : ndarray
        Share of the variance that is the stay's own level, and that fades with time. The rest is noise.
    constant : ndarray
        Its time constant, in the data's unit of time.
    slope, centre : ndarray
        Trend over all patients: slope x (time - centre).
    repeats : ndarray
        Share of values that repeat the stay's value before, of a feature with many values.
    """

    stay: np.ndarray
    fading: np.ndarray
    constant: np.ndarray
    slope: np.ndarray
    centre: np.ndarray
    repeats: np.ndarray


@dataclass(frozen=True)
class Model:
    """The numbers that are kept of the patients.

    Attributes
    ----------
    marginals : list of F Marginals
        Feature 0: of intervals between rows.
    start : Marginal
        Of a stay's first time.
    duration : Marginal or None
        Of the time from first to last row, of stays with fewer than T rows. None if there are none such.
    course : Course
    between : ndarray, shape [2 F, 2 F]
        Root of the correlations between stays: levels of F features, how often F - 1 features are measured, duration.
    links_between : int
        How many of these correlations were kept.
    within : ndarray, shape [F, F]
        Root of the correlations between values of one time, beside their stays' levels.
    links_within : int
    measured : ndarray, shape [K, F - 1]
        Probability of each feature to be measured in a row of each type.
    first, succession : ndarray, shapes [K] and [K, K]
        Probability of a stay's first row, and of the next row given this one, to be of each type.
    uneven : ndarray, shape [F - 1]
        Spread between stays of how often a feature is measured, in normal scores.
    """

    marginals: list[Marginal]
    start: Marginal
    duration: Marginal | None
    course: Course
    between: np.ndarray
    links_between: int
    within: np.ndarray
    links_within: int
    measured: np.ndarray
    first: np.ndarray
    succession: np.ndarray
    uneven: np.ndarray

    @property
    def numbers(self) -> int:
        """How many population numbers the model holds, p."""
        curves = [*self.marginals, self.start, *([self.duration] if self.duration else [])]
        arrays = [*vars(self.course).values(), self.measured, self.first, self.succession, self.uneven]
        links = self.links_between + self.links_within
        return sum(len(curve.values) for curve in curves) + links + sum(array.size for array in arrays)

    def draw(self, stays: int, time_points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw stays.

        Returns
        -------
        data : ndarray of float64, shape [stays, time_points, F]
            In the data's units. NaN is missing, padding -1 at the front.
        padding_mask : ndarray of bool, of the same shape
        """
        course, features = self.course, len(self.marginals)

        def together(root: np.ndarray) -> np.ndarray:
            return rng.standard_normal((stays, len(root))) @ root.T

        drawn = together(self.between)
        level, often = drawn[:, :features], drawn[:, features:-1]
        time = self._clocks(level[:, 0], time_points, rng)
        lengths = np.full(stays, time_points)
        if self.duration:
            lengths = np.maximum(1, (time <= self.duration.to_units(drawn[:, -1])[:, None]).sum(axis=1))
        start = self.start.to_units(rng.standard_normal(stays))

        noise = np.sqrt(np.maximum(1 - course.stay - course.fading, 0))
        thresholds = ndtri(self.measured) * np.sqrt(1 + self.uneven**2)
        rows = np.full((stays, time_points, features), np.nan)
        kind = _choose(np.broadcast_to(self.first, (stays, len(self.first))), rng)
        state = together(self.within)
        before = np.full((stays, features), np.nan)  # each feature's value before
        for t in range(time_points):
            if t:
                kind = _choose(self.succession[kind], rng)
                kept = np.exp(-(time[:, t] - time[:, t - 1])[:, None] / course.constant)
                state = kept * state + np.sqrt(1 - kept**2) * together(self.within)
            score = np.sqrt(course.stay) * level + np.sqrt(course.fading) * state
            score += noise * together(self.within) + course.slope * (time[:, t, None] - course.centre)
            measured = rng.standard_normal(often.shape) < thresholds[kind] + self.uneven * often
            score = np.where((rng.random(score.shape) < course.repeats) & ~np.isnan(before), before, score)
            before[:, 1:] = np.where(measured, score[:, 1:], before[:, 1:])
            rows[:, t, 1:] = np.where(measured & (t < lengths)[:, None], score[:, 1:], np.nan)
        for feature in range(1, features):
            here = np.isfinite(rows[:, :, feature])
            rows[:, :, feature][here] = self.marginals[feature].to_units(rows[:, :, feature][here])
        rows[:, :, 0] = start[:, None] + time
        return real_rows_last(rows, lengths), front_padding(lengths, time_points, features)

    def _clocks(self, level: np.ndarray, time_points: int, rng: np.random.Generator) -> np.ndarray:
        """Draw times since the first row of stays whose intervals have these levels, shape [stays, time_points]."""
        own = self.course.stay[0]
        scores = np.sqrt(own) * level[:, None] + np.sqrt(1 - own) * rng.standard_normal((len(level), time_points))
        intervals = np.maximum(self.marginals[0].to_units(scores), 0)
        intervals[:, 0] = 0
        return intervals.cumsum(axis=1)


# ------------------------------------------------------------------------------------------------------ fitting


def fit(
    data: np.ndarray,
    padding_mask: np.ndarray,
    parameters: Parameters,
    rng: np.random.Generator,
    patients: int = _PATIENTS,
) -> Model:
    """Fit the model to stays.

    Parameters
    ----------
    data, padding_mask : ndarray, shape [N, T, F]
    parameters : Parameters
    rng : numpy.random.Generator
        Draws first centres of the row types.
    patients : int
        Stays that must have a value, if a feature has few values.
    """
    padded = padded_rows(data, padding_mask)
    kept = ~padded.all(axis=1)
    padded = padded[kept]
    values = real_rows_first(np.where(padded[:, :, None], np.nan, data[kept]), padded)
    behind = real_rows_first(padded, padded)
    if np.isnan(values[:, :, 0][~behind]).any():  # a row without a time takes its neighbour's
        values[:, :, :1] = impute(values[:, :, :1], behind[:, :, None], np.zeros(1))
        values[behind] = np.nan
    lengths = stay_lengths(padded)
    stays, _, features = values.shape
    time, start = _take_out_times(values)
    duration = np.nanmax(time, axis=1)

    seen = np.isfinite(values)
    marginals, course = [], np.zeros((6, features))
    scores, level = np.zeros(values.shape, np.float32), np.zeros((stays, features))
    unit = float(np.median(duration)) or 1.0
    for feature in range(features):
        here = seen[:, :, feature]
        owner, column = np.nonzero(here)[0], values[:, :, feature][here]
        marginals.append(Marginal.fit(column, owner, parameters.levels, patients))
        score, course[:, feature] = _fit_course(column, time[here], owner, unit)
        scores[:, :, feature][here] = score
        level[:, feature] = np.bincount(owner, score, minlength=stays)
    count = seen.sum(axis=1)
    level /= np.maximum(count, 1)

    measured, first, succession, uneven, often = _fit_measuring(seen, lengths, parameters.row_types, rng)
    ended = lengths < values.shape[1]
    lasted = np.zeros(stays)
    lasted[ended] = _normal_scores(duration[ended])
    known = np.column_stack([count > 0, np.ones(often.shape, bool), ended])
    between = _correlations(np.column_stack([level, often, lasted]), known, course[0])
    return Model(
        marginals,
        Marginal.fit(start, np.arange(stays), parameters.levels, patients),
        Marginal.fit(duration[ended], np.flatnonzero(ended), parameters.levels, patients) if ended.any() else None,
        Course(*course),
        *_strongest(between, parameters.between),
        *_strongest(_correlations_within(scores, level, seen), parameters.within),
        measured,
        first,
        succession,
        uneven,
    )


def _take_out_times(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace feature 0 by the interval before each row, in place. Return times since the first row, and first times.

    Shapes are [N, T, F], [N, T] and [N].
    """
    start = values[:, 0, 0].copy()
    time = values[:, :, 0] - start[:, None]
    values[:, 1:, 0] = np.diff(time, axis=1)
    values[:, 0, 0] = np.nan
    return time, start


def _fit_course(column: np.ndarray, time: np.ndarray, owner: np.ndarray, unit: float) -> tuple[np.ndarray, tuple]:
    """Fit one feature's `Course` to its measured values [n], at `time` [n] of the stays `owner` [n], stay by stay.

    The mean product of two scores of a stay is a + b exp(-lag / constant). Each stay weighs alike.

    Returns
    -------
    scores : ndarray, shape [n]
        Normal scores without the trend. They are divided by their variance, which ties make less than 1, so that
        products estimate the correlations of the normal variables behind.
    course : tuple of float
        The attributes of `Course`.
    """
    if len(np.unique(column)) < 2:
        return np.zeros(len(column)), (0.0, 0.0, unit, 0.0, 0.0, 0.0)
    scores = _normal_scores(column)
    scores /= scores.var()
    centred = time - time.mean()
    slope = float(centred @ scores / (centred @ centred + _PULL * unit**2))
    scores -= slope * centred

    products, lags, weights = [], [], []
    changes = 0
    for step in _LAGS:
        same = owner[step:] == owner[:-step]
        stay = owner[step:][same]
        products.append((scores[step:] * scores[:-step])[same])
        lags.append((time[step:] - time[:-step])[same])
        weights.append(1 / np.bincount(stay, minlength=owner[-1] + 1)[stay])
        changes += np.count_nonzero((column[step:] != column[:-step])[same])
    product, lag, weight = map(np.concatenate, (products, lags, weights))
    if product.size and not changes:  # does not change within a stay: age, outcome
        return scores, (1.0, 0.0, unit, 0.0, float(time.mean()), 0.0)
    best, least = (0.0, 0.0, unit), np.inf
    for constant in unit * np.array(_FADING):
        faded = np.exp(-np.maximum(lag, 0) / constant)
        one, two = weight.sum(), weight @ faded
        matrix = np.array([[one + _PULL, two], [two, weight @ faded**2 + _PULL]])
        goal = np.array([weight @ product, weight @ (faded * product)])
        share = np.linalg.solve(matrix, goal)
        if share.min() < 0:
            alone = np.maximum(goal / np.diag(matrix), 0)
            share = np.where(share > 0, alone, 0)
        share *= min(1.0, _MOST / max(share.sum(), _MOST))
        error = weight @ np.square(product - share[0] - share[1] * faded)
        if error < least:
            best, least = (float(share[0]), float(share[1]), float(constant)), error
    same = owner[1:] == owner[:-1]
    many = len(np.unique(column)) > _FEW_VALUES
    repeats = np.count_nonzero((column[1:] == column[:-1])[same]) / (np.count_nonzero(same) + _PULL) if many else 0.0
    return scores, (*best, slope, float(time.mean()), repeats)


def _fit_measuring(
    seen: np.ndarray, lengths: np.ndarray, types: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fit `measured`, `first`, `succession` and `uneven` of the model to `seen` [N, T, F], rows first.

    Returns also how often each feature is measured in each stay beside what its rows' types make likely: shape
    [N, F - 1], with a variance between stays of 1 and noise upon that.
    """
    real = np.arange(seen.shape[1]) < lengths[:, None]
    stay = np.nonzero(real)[0]
    rows = seen[real][:, 1:].astype(np.float32)
    # What a row differs by from its stay: else types would tell stays apart, and a stay would wander through them.
    apart = rows - (seen.sum(axis=1)[:, 1:] / lengths[:, None]).astype(np.float32)[stay]
    types = max(1, min(types, len(rows) // _ROWS_PER_TYPE))
    if types == 1 or not rows.shape[1]:
        kind = np.zeros(len(rows), int)
        types = 1
    else:
        clusters = MiniBatchKMeans(types, n_init=3, batch_size=4096, random_state=int(rng.integers(2**31)))
        kind = clusters.fit(apart[rng.permutation(len(apart))[:_ROWS_CLUSTERED]]).predict(apart)
    overall = rows.mean(axis=0)
    sums = np.stack([rows[kind == k].sum(axis=0, dtype=float) for k in range(types)])
    measured = (sums + _PULL * overall) / (np.bincount(kind, minlength=types)[:, None] + _PULL)
    measured = np.clip(measured, 0, 1)

    follows = stay[1:] == stay[:-1]
    first = np.bincount(kind[np.append(True, ~follows)], minlength=types) + 1.0
    succession = np.ones((types, types))
    np.add.at(succession, (kind[:-1][follows], kind[1:][follows]), 1.0)

    # How much stays differ by, as a share of the most they could (measured always or never), gives the correlation of
    # the normal variables behind two rows of a stay (Sheppard 1899, exact for a probability of a half).
    of_type = np.zeros((len(lengths), types))
    np.add.at(of_type, (stay, kind), 1.0)
    beside = seen.sum(axis=1)[:, 1:] - of_type @ measured
    most = of_type @ np.sqrt(measured * (1 - measured))
    excess = np.square(beside).sum(axis=0) - (of_type @ (measured * (1 - measured))).sum(axis=0)
    share = np.clip(excess / np.maximum(np.square(most).sum(axis=0), 1e-9), 0, 1)
    behind = np.minimum(np.sin(np.pi / 2 * share), _MOST)
    uneven = np.sqrt(behind / (1 - behind))
    scale = most * np.sqrt(share)
    often = np.divide(beside, scale, out=np.zeros_like(scale), where=scale > _LEAST_SCALE)
    return measured, first / first.sum(), succession / succession.sum(axis=1, keepdims=True), uneven, often


def _correlations(numbers: np.ndarray, known: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Correlate numbers [N, K] of stays where both are `known` [N, K]. Few pairs pull a correlation towards 0.

    The first F numbers are means of scores whose variance between stays is `share` [F]. The rest is noise.
    """
    numbers = np.where(known, np.clip(numbers, -4, 4), 0)
    pairs = known.T.astype(float) @ known
    products = numbers.T @ numbers / (pairs + _PULL)
    spread = np.ones(len(products))
    spread[: len(share)] = np.sqrt(np.maximum(share, 1 - _MOST))
    return _as_correlations(products / np.outer(spread, spread))


def _correlations_within(scores: np.ndarray, level: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Correlate what scores [N, T, F] differ by from their stay's level [N, F], in rows where both are seen."""
    products, pairs = np.zeros((2, level.shape[1], level.shape[1]))
    for start in range(0, len(scores), _BLOCK):
        block = slice(start, start + _BLOCK)
        here = seen[block].reshape(-1, level.shape[1]).astype(np.float32)
        apart = (scores[block] - level[block, None].astype(np.float32)).reshape(here.shape) * here
        products += apart.T @ apart
        pairs += here.T @ here
    spread = np.sqrt(np.maximum(np.diag(products) / np.maximum(np.diag(pairs), 1), 1e-9))
    return _as_correlations(products / (pairs + 10 * _PULL) / np.outer(spread, spread))


def _as_correlations(products: np.ndarray) -> np.ndarray:
    correlations = np.clip(products, -_MOST, _MOST)
    np.fill_diagonal(correlations, 1)
    return correlations


def _strongest(correlations: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Keep the `count` strongest correlations [K, K], set all others to 0, and make a correlation matrix of that.

    Returns
    -------
    root : ndarray, shape [K, K]
        root root^T is the matrix.
    count : int
        Correlations kept.
    """
    upper = np.abs(np.triu(correlations, 1))
    count = min(count, np.count_nonzero(upper))
    kept = upper >= np.sort(upper, axis=None)[len(upper) ** 2 - count] if count else np.zeros(upper.shape, bool)
    sparse = np.where(kept | kept.T, correlations, 0) + np.eye(len(correlations))
    size, vectors = np.linalg.eigh(sparse)
    root = vectors * np.sqrt(np.maximum(size, _LEAST_SIZE))
    return root / np.linalg.norm(root, axis=1, keepdims=True), count


def _choose(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one index a row of `probabilities` [N, K]."""
    passed = probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))
    return np.minimum(passed.sum(axis=1), probabilities.shape[1] - 1)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of each value's rank. Equal values share the middle of their ranks."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.asarray(ndtri(ranks / (2 * max(len(values), 1))))
