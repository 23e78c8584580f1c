"""Shuffle hider: noise on every value, then all time points shuffled over all patients.

Mikan, winner of the 2020 Hide-and-Seek Privacy Challenge.

A time point is a row: the imputed values of one patient at one time, and that time. Rows move whole, so what belongs
together at one moment stays together, but not what belongs together over time. Only real rows move: padding stays
where it is, and with it each stay's length. Missing values come back imputed, since which values are missing would
travel with a row.

What it does not protect against: a row is still one patient's, noise or not. A seeker that compares time points
(`seeker_matching.py` with `compare=time_points`) finds nearly all members. The lengths are the members' own, and tell
some of them too (docs/methods.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from utils.data_preprocess import PADDING_FILL, get_medians, impute, start_times
from utils.stays import padding_of


@dataclass(frozen=True)
class Parameters:
    noise_size: float = 0.3  # standard deviation, as a multiple of the feature's own. The winner's value

    def __post_init__(self) -> None:
        if not 0 <= self.noise_size < np.inf:
            raise ValueError(f"noise_size must be a number of at least 0, not {self.noise_size}")


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Impute, add noise, shuffle, clip, and let every stay begin at time 0.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters
        The noise's size.

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        In the input's units, without missing values (a feature that no patient has is 0). Feature 0 is the time since
        the start of the stay the row came from, so within a stay times are in no order, and 0 in a stay's first row.
    padding_mask : ndarray of bool, shape [N, T, F]
    """
    data = input_dict["data"]
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])

    imputed = impute(data, padding_mask, get_medians(data, padding_mask))
    real = ~padding_mask[:, :, 0]
    rows = imputed[real]
    rows[:, 0] -= start_times(data, padding_mask)[np.nonzero(real)[0]]
    generated = np.full(imputed.shape, PADDING_FILL)
    generated[real] = shuffled_with_noise(rows, parameters.noise_size, rng)
    stays = np.flatnonzero(real.any(axis=1))
    generated[stays, real[stays].argmax(axis=1), 0] = 0.0
    return generated, padding_mask


def shuffled_with_noise(rows: np.ndarray, noise_size: float, rng: np.random.Generator) -> np.ndarray:
    """Add Gaussian noise to `rows` [n, F], permute them, and clip each feature to the range it had.

    `noise_size` is the noise's standard deviation as a multiple of each feature's own over these rows.
    """
    noisy = rng.standard_normal(rows.shape)
    noisy *= noise_size * rows.std(axis=0)
    noisy += rows
    np.clip(noisy, rows.min(axis=0), rows.max(axis=0), out=noisy)
    return noisy[rng.permutation(len(rows))]
