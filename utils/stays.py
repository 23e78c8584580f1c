"""Stays as arrays: where a stay is padded, its length, padding at either end, summaries, and labels from scores.

Shapes are `[N, T, F]`: stays, time points, features (feature 0 is time). The challenge pads short stays at the front.
"""

from collections.abc import Iterator

import numpy as np

from utils.data_preprocess import PADDING_FILL

SUMMARIES = ("mean", "std", "min", "max", "first", "last", "rate")
_BLOCK = 512  # stays summarised at once: 512 x 100 x 71 cells are 29 MB


def padded_rows(data: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return which time points are padding.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F], or None
        If there is no mask, a time point at which every feature is -1 is padding.

    Returns
    -------
    ndarray of bool, shape [N, T]
    """
    if padding_mask is None or not np.size(padding_mask):
        return np.asarray((data == PADDING_FILL).all(axis=2))
    return np.asarray(padding_mask[:, :, 0], dtype=bool)


def padding_of(data: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return the padding mask [N, T, F] as given, or that of `padded_rows` if there is none."""
    if padding_mask is not None and np.size(padding_mask):
        return np.asarray(padding_mask, dtype=bool)
    return np.repeat(padded_rows(data, None)[:, :, None], data.shape[2], axis=2)


def stay_lengths(padded: np.ndarray) -> np.ndarray:
    """Return the number of time points of each stay that are not padding, shape [N]. `padded` is [N, T]."""
    return np.asarray(padded.shape[1] - padded.sum(axis=1))


def real_rows_first(values: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """Move each stay's real time points to its start, in their order, and its padding to its end.

    Parameters
    ----------
    values : ndarray, shape [N, T] or [N, T, F]
    padded : ndarray of bool, shape [N, T]

    Returns
    -------
    ndarray
        A copy of the same shape. Padding keeps its values.
    """
    order = np.argsort(padded, axis=1, kind="stable")
    return np.take_along_axis(values, order if values.ndim == 2 else order[:, :, None], axis=1)


def real_rows_last(values: np.ndarray, lengths: np.ndarray, fill: float = PADDING_FILL) -> np.ndarray:
    """Move the first `lengths` time points of each stay to its end and write `fill` before them.

    Parameters
    ----------
    values : ndarray, shape [N, T] or [N, T, F]
    lengths : ndarray of int, shape [N]
    fill : float
        Value of the padding.

    Returns
    -------
    ndarray
        A copy of the same shape.
    """
    steps = np.arange(values.shape[1]) - (values.shape[1] - lengths)[:, None]
    source = np.maximum(steps, 0)
    moved = np.take_along_axis(values, source if values.ndim == 2 else source[:, :, None], axis=1)
    moved[steps < 0] = fill
    return moved


def front_padding(lengths: np.ndarray, time_points: int, features: int) -> np.ndarray:
    """Return the padding mask [N, T, F] of stays of these lengths [N], padded at the front."""
    padded = np.arange(time_points) < (time_points - lengths)[:, None]
    return np.repeat(padded[:, :, None], features, axis=2)


def label_highest(scores: np.ndarray, count: int) -> np.ndarray:
    """Label the `count` highest scores 1 and all others 0.

    Parameters
    ----------
    scores : ndarray, shape [M]
        Higher means more likely a member. Among equal scores the earlier stay comes first. NaN counts as lowest.
    count : int
        Number of members. More than M labels every stay.

    Returns
    -------
    ndarray of int, shape [M]
    """
    ordered = np.argsort(np.where(np.isnan(scores), np.inf, -np.asarray(scores, dtype=float)), kind="stable")
    labels = np.zeros(len(scores), dtype=int)
    labels[ordered[:count]] = 1
    return labels


def summaries(data: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Summarise each feature of each stay over chosen time points.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Raw values, NaN where missing. Time should be relative to the stay's start.
    rows : ndarray of bool, shape [N, T]
        The time points to summarise, usually `~padded_rows(...)`.

    Returns
    -------
    ndarray of float64, shape [N, F, 7]
        Mean, standard deviation, minimum, maximum, first and last value, and the share of the chosen time points at
        which the feature was measured (`SUMMARIES`). The first six are NaN and the last is 0 where nothing was
        measured.
    """
    out = np.full((len(data), data.shape[2], len(SUMMARIES)), np.nan)
    for block in _blocks(len(data)):
        values = np.asarray(data[block], dtype=float)
        seen = np.isfinite(values) & rows[block][:, :, None]
        count = seen.sum(axis=1)
        some = count > 0
        divisor = np.maximum(count, 1)
        filled = np.where(seen, values, 0.0)
        mean = filled.sum(axis=1) / divisor
        deviation = np.where(seen, values - mean[:, None], 0.0)
        spread = np.sqrt(np.einsum("ntf,ntf->nf", deviation, deviation) / divisor)
        lowest = np.where(seen, values, np.inf).min(axis=1, initial=np.inf)
        highest = np.where(seen, values, -np.inf).max(axis=1, initial=-np.inf)
        first = np.take_along_axis(values, seen.argmax(axis=1)[:, None], axis=1)[:, 0]
        last = np.take_along_axis(values, values.shape[1] - 1 - seen[:, ::-1].argmax(axis=1)[:, None], axis=1)[:, 0]
        rate = count / np.maximum(rows[block].sum(axis=1), 1)[:, None]
        for place, summary in enumerate((mean, spread, lowest, highest, first, last)):
            out[block, :, place] = np.where(some, summary, np.nan)
        out[block, :, -1] = rate
    return out


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, count, _BLOCK))
