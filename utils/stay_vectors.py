"""A stay as one row of numbers: what tabular models are trained on.

Generated and enlarged stays are described alike. A generated value outside the enlarged data's range counts as the edge
of that range, so that no hider blinds a seeker with one huge value.
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from utils.data_preprocess import get_medians, impute
from utils.errors import UserError
from utils.stays import padded_rows, real_rows_first, stay_lengths, summaries

_LARGEST = 1e30  # squares and sums of such values are finite


def stay_vectors(input_dict: dict[str, Any], imputed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Describe every generated and every enlarged stay of a seeker's input by one row of numbers.

    Parameters
    ----------
    input_dict : dict
        A seeker's: `generated_data` [N, T', F], `enlarged_data` [M, T, F] and their padding masks (or None).
    imputed : bool
        Whether missing cells are imputed first (backward, forward, the enlarged data's median). Some hiders release
        imputed stays. Described by what was measured, every one of theirs differs from every patient's.

    Returns
    -------
    generated, enlarged : ndarray of float32, shapes [N, D] and [M, D]
        The summaries of each feature (`utils.stays.SUMMARIES`) over the whole stay, its first and its second half
        (D = 3 * 7 * F + 4 columns), then the length, and the mean, standard deviation and largest of the intervals
        between time points. NaN where nothing was measured.

    Raises
    ------
    UserError
        Where generated and enlarged stays have different features, or one of them has no stay.
    """
    (made, made_padded), (real, real_padded) = comparable_stays(input_dict)
    if imputed:
        medians = get_medians(real, _as_mask(real_padded, real))
        made = impute(made, _as_mask(made_padded, made), medians)
        real = impute(real, _as_mask(real_padded, real), medians)
    return describe(made, made_padded), describe(real, real_padded)


def comparable_stays(
    input_dict: dict[str, Any],
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return generated and enlarged stays with time since their start, generated values within the enlarged range.

    Parameters
    ----------
    input_dict : dict
        As in `stay_vectors`.

    Returns
    -------
    generated, enlarged : (data, padded)
        Data [N, T, F] as float64 with NaN where padded or missing, real time points first. Which are padding [N, T].

    Raises
    ------
    UserError
        As `stay_vectors`.
    """
    made = _from_start(input_dict["generated_data"], input_dict["generated_data_padding_mask"], "generated")
    real = _from_start(input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"], "enlarged")
    if made[0].shape[2] != real[0].shape[2]:
        raise UserError(
            f"generated stays have {made[0].shape[2]} features, enlarged ones {real[0].shape[2]}; give both the same"
        )
    lowest = np.fmin.reduce(real[0], axis=(0, 1))  # NaN for a feature that no enlarged stay has
    highest = np.fmax.reduce(real[0], axis=(0, 1))
    np.clip(made[0], lowest, highest, out=made[0])
    return made, real


def describe(data: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """Return the rows [N, D] of `stay_vectors` for stays as `comparable_stays` returns them."""
    lengths = stay_lengths(padded)
    step = np.arange(data.shape[1])
    early = step < (lengths[:, None] + 1) // 2
    there = step < lengths[:, None]
    parts = [summaries(data, rows).reshape(len(data), -1) for rows in (there, early, there & ~early)]
    intervals = np.diff(data[:, :, :1], axis=1, append=np.nan)
    gaps = summaries(intervals, there)[:, 0, [0, 1, 3]]  # mean, standard deviation, largest
    return np.concatenate([*parts, lengths[:, None], gaps], axis=1).astype(np.float32)


def normal_scores(reference: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Write each column as the standard normal quantile of its rank among the reference's values of that column.

    Parameters
    ----------
    reference, values : ndarray, shapes [M, D] and [N, D]
        NaN is missing.

    Returns
    -------
    ndarray of float32, shape [N, D]
        0 (the middle) where a value is missing or the reference's column has none. Equal values share the middle of
        their ranks.
    """
    scores = np.zeros(values.shape, dtype=np.float32)
    for column in range(values.shape[1]):  # sorted columns differ in length: each has its own missing values
        ordered = np.sort(reference[:, column][~np.isnan(reference[:, column])])
        seen = ~np.isnan(values[:, column])
        if not len(ordered):
            continue
        own = values[seen, column]
        rank = (np.searchsorted(ordered, own, "left") + np.searchsorted(ordered, own, "right")) / 2
        scores[seen, column] = ndtri((rank + 0.5) / (len(ordered) + 1))
    return scores


def _as_mask(padded: np.ndarray, data: np.ndarray) -> np.ndarray:
    return np.broadcast_to(padded[:, :, None], data.shape)


def _from_start(data: np.ndarray, mask: np.ndarray | None, whose: str) -> tuple[np.ndarray, np.ndarray]:
    data = np.asarray(data, dtype=float)
    if data.ndim != 3 or not data.size:
        raise UserError(f"the {whose} data have shape {data.shape}; expected stays x time points x features")
    padded = padded_rows(data, mask)
    values = np.clip(real_rows_first(data, padded), -_LARGEST, _LARGEST)
    padded = np.arange(data.shape[1]) >= stay_lengths(padded)[:, None]
    values[padded] = np.nan
    started = np.isfinite(values[:, :, 0])
    start = np.take_along_axis(values[:, :, 0], started.argmax(axis=1)[:, None], axis=1)
    values[:, :, 0] -= np.where(np.isnan(start), 0, start)
    return values, padded
