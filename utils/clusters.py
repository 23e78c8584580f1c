"""Clusters of stays, each with a stay that stands for it."""

import numpy as np

_ITERATIONS = 20  # k-means hardly moves after these, and clusters here need not be the best there are


def cluster_stays(records: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Group records by k-means.

    Parameters
    ----------
    records : ndarray, shape [N, ...]
        Records, flattened to N vectors. No NaN.
    count : int
        Number of clusters. With N or more, each record is its own.
    rng : numpy.random.Generator
        Draws the first centres.

    Returns
    -------
    cluster : ndarray of int, shape [N]
        Each record's cluster.
    representatives : ndarray of int, shape [clusters]
        The record nearest to each cluster's centre.
    """
    if count >= len(records):
        return np.arange(len(records)), np.arange(len(records))
    from sklearn.cluster import KMeans

    flat = records.reshape(len(records), -1)
    fitted = KMeans(count, n_init=1, max_iter=_ITERATIONS, random_state=int(rng.integers(2**31))).fit(flat)
    clusters, cluster = np.unique(fitted.labels_, return_inverse=True)
    from_centre = np.linalg.norm(flat - fitted.cluster_centers_[fitted.labels_], axis=1)
    order = np.lexsort((from_centre, cluster))
    return cluster, order[np.searchsorted(cluster[order], np.arange(len(clusters)))]
