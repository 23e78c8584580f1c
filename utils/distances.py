"""Nearest-neighbour distances between sets of records, as blocked matrix products."""

import numpy as np

_BLOCK = 1024  # a block of pairs is 1024 x 1024 float32: 4 MiB, whatever the number of records
_CENTRE = 256  # references whose median is the centre
_FAR = 1e15  # squared and summed over 100,000 values it still fits into float32
_PAIRS = 16  # neighbours compared in double precision at once: they stay in the cache


def nearest_neighbours(queries: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find each query's nearest reference in Euclidean distance.

    The search uses |q|^2 + |r|^2 - 2 q.r in float32, centred so that little cancels. The distance to the reference
    found is then computed directly. Memory beyond float32 copies of the inputs does not grow with N or M.

    Parameters
    ----------
    queries : ndarray, shape [N, ...]
        Records, flattened to N vectors. No NaN.
    references : ndarray, shape [M, ...]
        Records of the same shape.

    Returns
    -------
    distances : ndarray of float64, shape [N]
        Euclidean distance to the nearest reference.
    nearest : ndarray of int, shape [N]
        That reference's index.
    """
    flat_queries = queries.reshape(len(queries), -1)
    flat_references = references.reshape(len(references), -1)
    # A median of some references: a single wild value, which any hider can put in, would move a mean so far away that
    # float32 could no longer tell the rest apart.
    sample = flat_references[:: max(1, len(flat_references) // _CENTRE)]
    centre = np.median(sample, axis=0).astype(np.float32)
    right = _centred(flat_references, centre)
    right_norms = np.einsum("md,md->m", right, right)
    distances = np.empty(len(queries))
    nearest = np.zeros(len(queries), dtype=np.intp)
    for start in range(0, len(queries), _BLOCK):
        rows = slice(start, start + _BLOCK)
        left = _centred(flat_queries[rows], centre)
        best = np.full(len(left), np.inf, dtype=np.float32)
        for first in range(0, len(right), _BLOCK):
            columns = slice(first, first + _BLOCK)
            pairs = left @ right[columns].T
            pairs *= -2
            pairs += right_norms[columns]
            candidate = pairs.argmin(axis=1)
            value = pairs[np.arange(len(left)), candidate]
            nearer = value < best
            best[nearer] = value[nearer]
            nearest[rows][nearer] = first + candidate[nearer]
    for start in range(0, len(queries), _PAIRS):
        rows = slice(start, start + _PAIRS)
        difference = np.subtract(flat_queries[rows], flat_references[nearest[rows]], dtype=np.float64)
        distances[rows] = np.sqrt(np.einsum("nd,nd->n", difference, difference))
    return distances, nearest


def _centred(vectors: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return vectors minus centre in float32, with values so far out that their squares would overflow held back."""
    centred = np.empty(vectors.shape, np.float32)
    for start in range(0, len(vectors), _BLOCK):
        rows = slice(start, start + _BLOCK)
        difference = np.subtract(vectors[rows], centre, dtype=np.float64)
        np.clip(difference, -_FAR, _FAR, out=difference)
        centred[rows] = difference
    return centred
