"""Stays as vectors that an attack can compare: every cell, or summaries, as normal scores under the real data's ranks.

A normal score is the standard normal quantile of a value's rank. It has no unit, an outlier has no weight, and the
enlarged data and the generated stays are measured with the same ruler.
"""

import numpy as np
from scipy.special import ndtri

from utils.data_preprocess import get_medians, impute, start_times
from utils.stays import real_rows_first, stay_lengths, summaries

_RANKS = 8192  # order statistics kept of each feature's values to look ranks up in
_BLOCK = 512  # stays worked on at once
_LARGEST = 1e30  # a value beyond this counts as this, so that float32 holds it. Only ranks are used


def cell_scores(
    enlarged: np.ndarray, padded: np.ndarray, generated: np.ndarray, made_padded: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Write every cell as its normal score under the ranks of the enlarged data's cells.

    A stay's first time point comes first, and its last is held to the end. Missing cells are imputed. Feature 0 is the
    interval since the time point before. Generated stays are cut or held to the enlarged data's time points.

    Parameters
    ----------
    enlarged, generated : ndarray, shapes [M, T, F] and [N, T', F]
    padded, made_padded : ndarray of bool, shapes [M, T] and [N, T']

    Returns
    -------
    list of two (scores, lengths)
        float32 [M, T, F] and int [M] of the enlarged stays, [N, T, F] and [N] of the generated ones.
    """
    time_points, features = enlarged.shape[1:]
    medians = get_medians(enlarged, np.broadcast_to(padded[:, :, None], enlarged.shape))
    both = [
        _front_first(data, rows, medians, time_points) for data, rows in ((enlarged, padded), (generated, made_padded))
    ]
    (values, lengths), _ = both
    real_rows = np.arange(time_points) < lengths[:, None]
    for feature in range(features):
        rows = real_rows & (np.arange(time_points) > 0) if feature == 0 and time_points > 1 else real_rows
        reference = values[:, :, feature][rows]
        for data, _ in both:
            data[:, :, feature] = normal_scores(reference, data[:, :, feature])
    return both


def _front_first(
    data: np.ndarray, padded: np.ndarray, medians: np.ndarray, time_points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Impute, put the first row first, take intervals of the times and hold the last row. Float32 and lengths."""
    lengths = np.maximum(np.minimum(stay_lengths(padded), time_points), 1)
    out = np.empty((len(data), time_points, data.shape[2]), np.float32)
    held = np.minimum(np.arange(time_points), lengths[:, None] - 1)[:, :, None]
    for start in range(0, len(data), _BLOCK):
        block = slice(start, start + _BLOCK)
        mask = np.broadcast_to(padded[block][:, :, None], data[block].shape)
        rows = real_rows_first(impute(data[block], mask, medians), padded[block])
        rows[:, 1:, 0] = np.diff(np.clip(rows[:, :, 0], -_LARGEST, _LARGEST), axis=1)
        rows[:, 0, 0] = np.where(lengths[block] > 1, rows[:, min(1, rows.shape[1] - 1), 0], 0)
        out[block] = np.clip(np.take_along_axis(rows, held[block], axis=1), -_LARGEST, _LARGEST)
    return out, lengths


def normal_scores(reference: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of each value's rank in `reference`. Equal values share a middle rank.

    Parameters
    ----------
    reference : ndarray, shape [n]
        No NaN. If it is longer than 8,192, that many of its order statistics stand for it.
    values : ndarray, any shape
        No NaN.

    Returns
    -------
    ndarray of float32, the shape of `values`
        Between the scores of ranks 1/2 and n - 1/2. 0 if there is no reference.
    """
    ordered = np.sort(reference, axis=None)
    if len(ordered) > _RANKS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, _RANKS).round().astype(int)]
    count = len(ordered)
    quantiles = np.arange(2 * count + 1) / max(2 * count, 1)
    table = ndtri(np.clip(quantiles, 0.5 / max(count, 1), 1 - 0.5 / max(count, 1))).astype(np.float32)
    flat = np.ravel(values)
    return table[np.searchsorted(ordered, flat) + np.searchsorted(ordered, flat, side="right")].reshape(values.shape)


def summary_scores(
    enlarged: np.ndarray, padded: np.ndarray, generated: np.ndarray, made_padded: np.ndarray, parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Summarise each feature over the whole stay and over its parts, as normal scores. 0 where nothing was measured.

    Returns
    -------
    real, made : ndarray of float32, shapes [M, D] and [N, D]
        The last column is the length's score.
    """
    both = []
    for data, rows in ((enlarged, padded), (generated, made_padded)):
        lengths = stay_lengths(rows)[:, None]
        place = np.cumsum(~rows, axis=1) - 1  # of a real time point among the stay's real ones
        spans = [~rows]
        if parts > 1:
            spans += [
                ~rows & (place * parts >= lengths * k) & (place * parts < lengths * (k + 1)) for k in range(parts)
            ]
        numbers = [_summaries(data, rows, span) for span in spans]
        both.append(np.concatenate([*numbers, lengths.astype(np.float32)], axis=1))
    real, made = both
    for column in range(real.shape[1]):
        reference = real[:, column][np.isfinite(real[:, column])]
        for numbers in (real, made):
            there = np.isfinite(numbers[:, column])
            numbers[there, column] = normal_scores(reference, numbers[there, column])
            numbers[~there, column] = 0
    return real, made


def _summaries(data: np.ndarray, padded: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Summarise chosen rows [N, T] of each stay, times counted from its start. Float32 [N, 7 F], NaN if not known."""
    blocks = []
    for start in range(0, len(data), _BLOCK):
        block = slice(start, start + _BLOCK)
        values = np.clip(np.asarray(data[block], dtype=float), -_LARGEST, _LARGEST)
        values[:, :, 0] -= start_times(values, padded[block][:, :, None])[:, None]
        blocks.append(summaries(values, rows[block]).astype(np.float32).reshape(len(values), -1))
    return np.concatenate(blocks)
