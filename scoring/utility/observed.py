"""Stays as a judge of utility sees them: rows in the order of their times, times from each stay's start, no padding.

Shapes are `[N, T, F]`: stays, time points, features (feature 0 is time, in hours or whatever unit the data have).
"""

from dataclasses import dataclass

import numpy as np

from utils.stays import SUMMARIES, padded_rows, stay_lengths, summaries


@dataclass(frozen=True)
class Stays:
    """A data set as a hider gives or receives it.

    Attributes
    ----------
    data : ndarray, shape [N, T, F]
        Raw values, NaN where missing.
    padding_mask : ndarray of bool, shape [N, T, F], or None
        Without a mask, a time point at which every feature is -1 is padding.
    """

    data: np.ndarray
    padding_mask: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of stays."""
        return len(self.data)

    def take(self, chosen: np.ndarray) -> "Stays":
        """Return the chosen stays."""
        mask = self.padding_mask
        return Stays(self.data[chosen], None if mask is None or not np.size(mask) else mask[chosen])


@dataclass(frozen=True)
class Observed:
    """Stays laid out for judging.

    Attributes
    ----------
    values : ndarray of float64, shape [N, T, F]
        Rows in the order of their times, padding last. NaN where missing or padded. Feature 0 is the time since the
        stay's first row. A row without a time is dropped: nobody could use it.
    rows : ndarray of bool, shape [N, T]
        Which rows are not padding.
    """

    values: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, stays: Stays) -> "Observed":
        """Lay out raw stays. Any finite times and any row order will do."""
        data = np.asarray(stays.data, dtype=float)
        padded = padded_rows(data, stays.padding_mask) | ~np.isfinite(data[:, :, 0])
        times = np.where(padded, np.inf, data[:, :, 0])
        values = np.take_along_axis(data, np.argsort(times, axis=1, kind="stable")[:, :, None], axis=1)
        rows = np.arange(data.shape[1]) < stay_lengths(padded)[:, None]
        values[~rows] = np.nan
        values[~np.isfinite(values)] = np.nan
        values[:, :, 0] -= np.where(rows[:, :1], values[:, :1, 0], 0.0)
        return cls(values, rows)

    def __len__(self) -> int:
        """Return the number of stays."""
        return len(self.values)

    @property
    def times(self) -> np.ndarray:
        """Return the time of each row since the stay's first, shape [N, T]. NaN in padding."""
        return self.values[:, :, 0]

    @property
    def durations(self) -> np.ndarray:
        """Return the time from first to last row, shape [N]. 0 for an empty stay."""
        return np.where(self.rows, self.times, 0.0).max(axis=1, initial=0.0)

    @property
    def size(self) -> np.ndarray:
        """Return the duration and the number of rows of each stay, shape [N, 2]."""
        return np.stack([self.durations, self.rows.sum(axis=1)], axis=1)

    def part(self, chosen: np.ndarray) -> "Observed":
        """Return the chosen stays."""
        return Observed(self.values[chosen], self.rows[chosen])

    @property
    def seen(self) -> np.ndarray:
        """Return where a value is, shape [N, T, F]."""
        return np.isfinite(self.values)

    def summarise(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return each summary of `utils.stays.summaries` over the chosen rows [N, T], shape [N, F] each."""
        found = summaries(self.values, rows & self.rows)
        return {name: found[:, :, place] for place, name in enumerate(SUMMARIES)}


def independent_columns(stays: Stays, rng: np.random.Generator) -> Stays:
    """Return what is left of stays if every column is shuffled over all rows of all stays, missing cells with it.

    Marginals, measurement rates, numbers of rows and intervals stay as they are, and nothing belongs to anything any
    more. For time, the intervals between rows are shuffled. This is the floor under measures of order.
    """
    observed = Observed.of(stays)
    values, rows = observed.values.copy(), observed.rows
    for feature in range(1, values.shape[2]):
        values[:, :, feature][rows] = rng.permutation(values[:, :, feature][rows])
    later = rows.copy()
    later[:, 0] = False
    steps = np.diff(values[:, :, 0], axis=1, prepend=0.0)
    steps[later] = rng.permutation(steps[later])
    steps[~later] = 0.0
    values[:, :, 0] = np.cumsum(steps, axis=1)
    values[~rows] = -1.0
    return Stays(values, np.repeat(~rows[:, :, None], values.shape[2], axis=2))
