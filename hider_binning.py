"""Binning-and-swapping hider: each value becomes another patient's value from the same quantile bin.

Wang, Wang and Srivastava (UCLA NESL, "Golden_Fleece"), runner-up of the 2020 Hide-and-Seek Privacy Challenge.

What it does not protect against: a value moves within its bin only. The length of a stay, its sampling times (but for
`time_noise`) and which values are missing are all kept. So is every value of a binary feature, for each of them is an
extreme. Any of these finds a patient, and neither fewer bins nor more time noise mends it (docs/methods.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from utils.stays import padding_of


@dataclass(frozen=True)
class Parameters:
    """The defaults are the authors' values."""

    bins: int = 33  # quantile bins of each feature
    extreme: float = 0.0001  # values this near an end of the feature's range, as a share of the range, stay
    time_noise: float = 0.0008  # standard deviation added to the times, as a share of their range

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"bins must be at least 1, not {self.bins}")
        for name in ("extreme", "time_noise"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a number of at least 0, not {getattr(self, name)}")


PUBLISHED = Parameters()

_COLUMNS = 8  # float64 values in one 64-byte cache line: features are taken out and put back this many at a time


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Swap values within bins and move the times a little.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters
        How many bins, what counts as extreme, how far times move.

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        In the input's units. Missing values and padding are where they were.
    padding_mask : ndarray of bool, shape [N, T, F]
    """
    data = input_dict["data"]
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])

    generated = np.array(data, dtype=float)
    cells = generated.reshape(-1, data.shape[2])  # [time points of all patients, F]
    padded = padding_mask.reshape(cells.shape)
    for first in range(0, cells.shape[1], _COLUMNS):
        group = slice(first, first + _COLUMNS)
        columns, observed = cells[:, group].T.copy(), ~padded[:, group].T
        observed &= ~np.isnan(columns)
        for feature, (column, here) in enumerate(zip(columns, observed, strict=True), first):
            values = column[here]
            if not values.size:
                continue
            if feature == 0:
                column[here] = values + rng.normal(0.0, parameters.time_noise * np.ptp(values), values.size)
            else:
                column[here] = swap_within_bins(values, parameters, rng)
        cells[:, group] = columns.T
    return generated, padding_mask


def swap_within_bins(values: np.ndarray, parameters: Parameters, rng: np.random.Generator) -> np.ndarray:
    """Replace each value by one drawn, with replacement, from the values of the same quantile bin.

    Parameters
    ----------
    values : ndarray, shape [n]
        A feature's observed values over all patients. n is at least 1.
    parameters : Parameters
        `bins` and `extreme`. Where few values are distinct, several quantiles fall together and bins are fewer.
    rng : numpy.random.Generator
        Draws the values.

    Returns
    -------
    ndarray, shape [n]
    """
    ordered = np.sort(values)
    edges = np.unique(np.quantile(ordered, np.arange(1, parameters.bins) / parameters.bins))
    starts = np.concatenate([[0], np.searchsorted(ordered, edges), [ordered.size]])  # bin b is ordered[starts[b:b + 2]]

    bins = np.searchsorted(edges, values, side="right")
    drawn = (rng.random(values.size) * np.diff(starts)[bins]).astype(np.intp)
    swapped = ordered[starts[bins] + drawn]

    low, high = ordered[0], ordered[-1]
    margin = parameters.extreme * (high - low)
    stays = (values <= low + margin) | (values >= high - margin)
    return np.where(stays, values, swapped)
