"""Records that no patient is behind: random mixtures of all of them, with lengths and sampling times of their own.

Every value becomes its normal score (the standard normal quantile of its rank among all patients' values of that
feature), a time becomes the score of the interval before it, and a stay's length a score too. In these scores a crowd
record is the patients' mean plus a random combination of all patients' deviations from it, taken only along the few
directions most of them share. Scores go back to units through quantiles averaged over groups of patients, so that no
value comes back exactly unless patients of every group have it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.extmath import randomized_svd

from utils.data_preprocess import PADDING_FILL, get_medians, impute, start_times
from utils.stays import padded_rows, real_rows_first, real_rows_last, stay_lengths

_LEVELS = np.concatenate([[0.0], ndtr(np.linspace(-3.5, 3.5, 141)), [1.0]])
_PATIENTS_PER_DIRECTION = 50  # a direction is kept only if so many patients stand behind each
_GROUPS = 8  # groups of patients whose quantiles are averaged
# A feature with no more distinct values than this (a score, a yes or no) keeps to those that all groups have.
_FEW_VALUES = 20


@dataclass(frozen=True)
class Crowd:
    """What is kept of the patients: how all of them are distributed, and nothing of one.

    Attributes
    ----------
    mean : ndarray, shape [T * F + 1]
        Mean scores. The last entry is the length's.
    directions : ndarray, shape [D, T * F + 1]
        The leading directions in which patients differ, scaled to their standard deviation along each.
    rest : ndarray, shape [F + 1]
        Standard deviation of what the directions leave out, per feature, and for the length.
    quantiles : list of F ndarrays
        Of each feature at `_LEVELS`, in its unit. Feature 0: of intervals.
    lengths, starts : ndarray
        Quantiles of stay lengths and of first times.
    allowed : list of F ndarrays or None
        The values of a feature that has few, so far as every group of patients has them.
    """

    mean: np.ndarray
    directions: np.ndarray
    rest: np.ndarray
    quantiles: list[np.ndarray]
    lengths: np.ndarray
    starts: np.ndarray
    allowed: list[np.ndarray | None]

    def draw(self, count: int, time_points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw crowd records.

        Returns
        -------
        scores : ndarray of float32, shape [count, T, F]
            First row first. Rows beyond the length are there too.
        lengths : ndarray of int, shape [count]
        """
        weights = rng.standard_normal((count, len(self.directions)), dtype=np.float32)
        drawn = self.mean + weights @ self.directions
        noise = rng.standard_normal((count, len(self.rest)), dtype=np.float32) * self.rest
        scores = drawn[:, :-1].reshape(count, time_points, -1)
        scores += noise[:, None, :-1]
        lengths = np.interp(ndtr(drawn[:, -1] + noise[:, -1]), _LEVELS, self.lengths)
        return scores, np.clip(np.rint(lengths).astype(int), 1, time_points)

    def to_units(
        self, scores: np.ndarray, lengths: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Turn scores into data of the challenge's form. Each feature gets the patients' quantiles by rank.

        Parameters
        ----------
        scores : ndarray, shape [N, T, F]
            Padded at the front.
        lengths : ndarray of int, shape [N]

        Returns
        -------
        data : ndarray of float64, shape [N, T, F]
        padding_mask : ndarray of bool, shape [N, T, F]
        """
        stays, time_points, features = scores.shape
        padded = np.arange(time_points) < (time_points - lengths)[:, None]
        first = np.arange(time_points) == (time_points - lengths)[:, None]
        data = np.zeros(scores.shape)
        for feature in range(features):
            cells = ~padded & ~first if feature == 0 else ~padded
            values = np.interp(_rank(scores[:, :, feature][cells]), _LEVELS, self.quantiles[feature])
            allowed = self.allowed[feature]
            if allowed is not None:
                values = allowed[np.searchsorted((allowed[1:] + allowed[:-1]) / 2, values)]
            data[:, :, feature][cells] = values
        data[first, 0] = np.interp(rng.random(stays), _LEVELS, self.starts)
        data[:, :, 0] = np.cumsum(data[:, :, 0], axis=1)
        data[padded] = PADDING_FILL
        return data, np.repeat(padded[:, :, None], features, axis=2)


def draw_from_cells(
    data: np.ndarray, padding_mask: np.ndarray, components: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a `Crowd` with at most `components` directions and draw as many stays as there are patients.

    Returns
    -------
    data : ndarray of float64, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F]
    """
    _, _, crowd = fit_crowd(data, padding_mask, max(1, min(components, len(data) // _PATIENTS_PER_DIRECTION)), rng)
    rows, lengths = crowd.draw(len(data), data.shape[1], rng)
    return crowd.to_units(real_rows_last(rows, lengths, fill=0), lengths, rng)


def fit_crowd(
    data: np.ndarray, padding_mask: np.ndarray, components: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, Crowd]:
    """Score the patients and learn how all of them are distributed.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Raw. Missing values are imputed.
    padding_mask : ndarray of bool, shape [N, T, F]
    components : int
        D, the number of directions to keep.
    rng : numpy.random.Generator
        Groups the patients.

    Returns
    -------
    scores : ndarray of float32, shape [N, T, F]
        First row first. The last row of a stay is held beyond its end.
    lengths : ndarray of int, shape [N]
    crowd : Crowd
    """
    padded = padded_rows(data, padding_mask)
    stays, time_points, features = data.shape
    lengths = np.maximum(stay_lengths(padded), 1)
    values = real_rows_first(impute(data, padding_mask, get_medians(data, padding_mask)), padded)
    observed = np.arange(time_points) < lengths[:, None]
    values[:, 1:, 0] -= values[:, :-1, 0].copy()
    group = rng.permutation(stays) % min(_GROUPS, stays)

    scores = np.zeros(values.shape, dtype=np.float32)
    quantiles: list[np.ndarray] = []
    allowed: list[np.ndarray | None] = []
    for feature in range(features):
        cells = observed & (np.arange(time_points) > 0) if feature == 0 else observed
        column, owner = values[:, :, feature][cells], np.broadcast_to(group[:, None], cells.shape)[cells]
        scores[:, :, feature][cells] = _normal_scores(column)
        quantiles.append(_shared_quantiles(column, owner))
        allowed.append(_shared_values(column, owner) if feature > 0 else None)
    scores[:, 0, 0] = scores[:, min(1, time_points - 1), 0]
    scores = np.take_along_axis(scores, np.minimum(np.arange(time_points), lengths[:, None] - 1)[:, :, None], axis=1)

    flat = np.concatenate([scores.reshape(stays, -1), _normal_scores(lengths)[:, None].astype(np.float32)], axis=1)
    mean = flat.mean(axis=0)
    flat -= mean
    kept = min(components, *flat.shape)
    _, spread, directions = randomized_svd(flat, kept, random_state=int(rng.integers(2**31)))
    directions *= (spread / np.sqrt(stays))[:, None]
    missed = np.maximum(np.square(flat).mean(axis=0) - np.square(directions).sum(axis=0), 0)
    rest = np.sqrt(np.append(missed[:-1].reshape(time_points, features).mean(axis=0), missed[-1]))
    crowd = Crowd(
        mean,
        directions.astype(np.float32),
        rest.astype(np.float32),
        quantiles,
        _shared_quantiles(lengths, group),
        _shared_quantiles(start_times(data, padding_mask), group),
        allowed,
    )
    return scores, lengths, crowd


def _shared_values(column: np.ndarray, owner: np.ndarray) -> np.ndarray | None:
    """Return the values that every group has, where a feature has few. None where it has many, or none is shared."""
    distinct, place = np.unique(column, return_inverse=True)
    if len(distinct) > _FEW_VALUES:
        return None
    has = np.zeros((len(distinct), _GROUPS), bool)
    has[place, owner] = True
    shared = distinct[has.sum(axis=1) == len(np.unique(owner))]
    return shared if len(shared) else None


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of each value's rank. Equal values share the middle of their ranks."""
    ordered = np.sort(values)
    below, above = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return ndtri((below + above) / (2 * max(len(values), 1)))


def _rank(values: np.ndarray) -> np.ndarray:
    """Return ranks from 0 to 1."""
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks / max(len(values) - 1, 1)


def _shared_quantiles(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Average the quantiles of the groups at `_LEVELS`. The two ends are the range, rounded outwards."""
    if not len(values):
        return np.zeros(len(_LEVELS))
    quantiles = np.mean([np.quantile(values[group == g], _LEVELS) for g in np.unique(group)], axis=0)
    low, high = float(values.min()), float(values.max())
    if low < high:
        step = _round_step((high - low) / 10)
        quantiles[0], quantiles[-1] = np.floor(low / step) * step, np.ceil(high / step) * step
    return quantiles


def _round_step(width: float) -> float:
    """Return the number of 1, 2 or 5 times a power of ten next below `width`."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(power * max(factor for factor in (1, 2, 5) if factor * power <= width * (1 + 1e-9)))
