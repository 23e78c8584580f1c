"""A Gaussian copula from noisy statistics: marginals, their normal scores, correlations behind correlations.

Everything here works on released numbers only, so none of it costs privacy.
"""

import numpy as np
from scipy.special import ndtr, ndtri

_ORDERS = 12  # Hermite polynomials that describe a marginal's scores
_FURTHEST = 8.0  # an edge of the latent normal that stands for infinity


def distributions(counts: np.ndarray, noise: float, least: float) -> np.ndarray:
    """Turn noisy counts of ordered classes into probabilities.

    A class keeps its count if that stands out of the noise. Of the rest, groups of 2, 4, 8 and more neighbours that
    stand out together share their sum. What never stands out is taken for noise: so empty classes stay empty, which a
    least-squares projection does not achieve if there are many of them.

    Parameters
    ----------
    counts : ndarray, shape [V, B]
    noise : float
        Standard deviation of the noise on each count.
    least : float
        A sum stands out if it exceeds this many standard deviations of its noise.

    Returns
    -------
    ndarray, shape [V, B]
    """
    found = np.zeros(counts.shape)
    for row, result in zip(counts, found, strict=True):
        left = np.ones(row.size, dtype=bool)
        width = 1
        while width < 2 * row.size and left.any():
            for first in range(0, row.size, width):
                group = np.flatnonzero(left[first : first + width]) + first
                total = row[group].sum()
                if group.size and total > least * noise * np.sqrt(group.size):
                    result[group] = total / group.size
                    left[group] = False
            width *= 2
        if left.all():
            result[:] = 1.0
    found = np.maximum(found, 1e-9 * found.sum(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


class Marginals:
    """Ordered classes of several variables, each class a stretch of a standard normal.

    Attributes
    ----------
    edges : ndarray, shape [V, B + 1]
        Where the classes begin and end on the latent normal.
    scores : ndarray, shape [V, B]
        The latent's mean within each class, scaled so that the scores have variance 1.
    hermite : ndarray, shape [V, _ORDERS]
        Coefficients of the scores as a function of the latent, on normalised Hermite polynomials of order 1 and up.
    """

    def __init__(self, shares: np.ndarray) -> None:
        below = np.concatenate([np.zeros_like(shares[:, :1]), np.cumsum(shares, axis=1)], axis=1)
        below /= below[:, -1:]
        self.shares = shares
        self.below = below
        self.edges = np.clip(ndtri(np.clip(below, 0.0, 1.0)), -_FURTHEST, _FURTHEST)
        density = np.exp(-0.5 * self.edges**2) / np.sqrt(2 * np.pi)
        density[np.abs(self.edges) >= _FURTHEST] = 0.0
        scores = (density[:, :-1] - density[:, 1:]) / np.maximum(shares, 1e-12)
        scores = np.clip(scores, -4.0, 4.0)
        self.centre = (scores * shares).sum(axis=1, keepdims=True)
        self.spread = np.sqrt(np.maximum((np.square(scores - self.centre) * shares).sum(axis=1, keepdims=True), 1e-6))
        self.scores = np.clip((scores - self.centre) / self.spread, -5.0, 5.0)
        # E[score * h_k(u)]: the integral of h_k * phi over (a, b) is (h_{k-1}(a) phi(a) - h_{k-1}(b) phi(b)) / sqrt(k)
        previous, current = np.zeros_like(self.edges), np.ones_like(self.edges)
        coefficients = []
        for order in range(1, _ORDERS + 1):
            parts = (current * density)[:, :-1] - (current * density)[:, 1:]
            coefficients.append((self.scores * parts).sum(axis=1) / np.sqrt(order))
            previous, current = current, (self.edges * current - np.sqrt(order - 1) * previous) / np.sqrt(order)
        self.hermite = np.stack(coefficients, axis=1)

    def classes(self, latent: np.ndarray) -> np.ndarray:
        """Return the class of each latent value. `latent` is [..., V]."""
        found = np.empty(latent.shape, dtype=np.int16)
        for variable in range(latent.shape[-1]):
            found[..., variable] = np.searchsorted(self.edges[variable, 1:-1], latent[..., variable], side="right")
        return found


def latent_correlation(moment: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the correlation of two latent normals whose scores have this mean product.

    The mean product at correlation r is the sum over orders k of first_k second_k r**k. It is solved by bisection.

    Parameters
    ----------
    moment : ndarray, shape [...]
    first, second : ndarray, shape [..., _ORDERS]
        Hermite coefficients of the two scores.
    """
    products = first * second
    low, high = np.full(moment.shape, -0.999), np.full(moment.shape, 0.999)
    for _ in range(30):
        middle = (low + high) / 2
        value = np.zeros(moment.shape)
        for order in range(products.shape[-1] - 1, -1, -1):
            value = (value + products[..., order]) * middle
        low, high = np.where(value < moment, middle, low), np.where(value < moment, high, middle)
    return (low + high) / 2


def shrink(correlation: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Shrink each noisy correlation by the share of its square that is signal (James and Stein's positive part)."""
    square = np.square(correlation)
    return correlation * np.maximum(square - np.square(noise), 0.0) / np.maximum(square, 1e-12)


def nearest_correlation(matrix: np.ndarray) -> np.ndarray:
    """Return a correlation matrix near a symmetric one: negative eigenvalues are dropped, the diagonal is made 1."""
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    for _ in range(20):
        values, vectors = np.linalg.eigh(matrix)
        if values[0] > 1e-6:
            break
        matrix = (vectors * np.maximum(values, 1e-5)) @ vectors.T
        scale = np.sqrt(np.diag(matrix))
        matrix /= scale[:, None] * scale
    return matrix


def uniform(latent: np.ndarray) -> np.ndarray:
    """Return the standard normal's distribution function."""
    return np.asarray(ndtr(latent))
