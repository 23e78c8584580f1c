"""Additive Gaussian noise, the challenge's first baseline."""

import numpy as np

from utils.misc import legacy_rng


def add_noise(data: np.ndarray, noise_size: float, rng: np.random.Generator | None = None) -> np.ndarray:
    """Add i.i.d. Gaussian noise to every cell.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Stays. NaN stays NaN.
    noise_size : float
        The noise's standard deviation as a multiple of each feature's own. As in 2020 that is taken over all
        cells, padding (-1) included, so it exceeds the deviation over real time points.
    rng : numpy.random.Generator, optional
        Source of the noise. Without it, one seeded from NumPy's legacy generator, as 2020's callers expect.

    Returns
    -------
    ndarray of float64, shape [N, T, F]
    """
    rng = legacy_rng() if rng is None else rng
    noisy = np.array(data, dtype=float)
    for feature in range(noisy.shape[2]):
        column = noisy[:, :, feature]
        if not np.isnan(column).all():
            column += rng.normal(0.0, noise_size * np.nanstd(column), column.shape)
    return noisy
