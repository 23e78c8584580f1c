"""Nearest-neighbour membership inference, the challenge's first attack."""

import numpy as np

from utils.distances import nearest_neighbours
from utils.stays import label_highest


def knn_distances(generated_data: np.ndarray, enlarged_data: np.ndarray) -> np.ndarray:
    """Return each enlarged record's Euclidean distance, over all cells, to its nearest generated record.

    Parameters
    ----------
    generated_data : ndarray, shape [N, T, F]
        Imputed and scaled.
    enlarged_data : ndarray, shape [2N, T, F]
        Imputed and scaled.

    Returns
    -------
    ndarray of float64, shape [2N]
    """
    return nearest_neighbours(enlarged_data, generated_data)[0]


def knn_seeker(generated_data: np.ndarray, enlarged_data: np.ndarray) -> np.ndarray:
    """Label the half of the enlarged data that lies nearest to the generated data.

    Parameters and shapes are those of `knn_distances`.

    Returns
    -------
    ndarray of int, shape [2N]
        1 for "was used by the hider".
    """
    return label_highest(-knn_distances(generated_data, enlarged_data), len(enlarged_data) // 2)
