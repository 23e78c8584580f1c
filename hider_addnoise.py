"""Add-noise hider: independent Gaussian noise on every value. The organisers' baseline of the 2020 challenge.

Jordon et al., "Hide-and-Seek Privacy Challenge", NeurIPS 2020 competition track.

What it does not protect against: noise this small leaves each record nearest to itself, so a seeker that matches
records one to one finds nearly all members. Lengths and sampling times are kept. It is a baseline, not a defence.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.hider.add_noise.add_noise import add_noise
from utils.data_preprocess import get_scaler, inverse_process, preprocess_imputed, start_times
from utils.stays import padding_of


@dataclass(frozen=True)
class Parameters:
    noise_size: float = 0.1  # standard deviation, as a multiple of the feature's own. The 2020 starting kit's value

    def __post_init__(self) -> None:
        if not 0 <= self.noise_size < np.inf:
            raise ValueError(f"noise_size must be a number of at least 0, not {self.noise_size}")


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Impute, scale, add noise, and return to the input's units.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters
        The noise's size.

    Returns
    -------
    generated : ndarray, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F]
    """
    data = input_dict["data"]
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])

    scaled = preprocess_imputed(data, padding_mask, dtype=np.float64)
    noisy = add_noise(scaled, parameters.noise_size, rng)
    scaler = get_scaler(data, padding_mask)
    generated = inverse_process(noisy, padding_mask, scaler, start_times(data, padding_mask))
    return generated, padding_mask
