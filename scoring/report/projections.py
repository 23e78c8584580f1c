"""Original and generated series as points in a plane, as TimeGAN's paper shows them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from utils.data_preprocess import PADDING_FILL

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Projection:
    """Series as points in a plane.

    Attributes
    ----------
    original, generated : ndarray, shape [n, 2] and [m, 2]
    """

    original: FloatArray
    generated: FloatArray


def project(original: FloatArray, generated: FloatArray, seed: int) -> dict[str, Projection]:
    """Lay two sets of vectors out in a plane, by PCA and by t-SNE.

    PCA's axes are those of the original. t-SNE (van der Maaten and Hinton, JMLR 2008) places both sets together.

    Parameters
    ----------
    original, generated : ndarray, shape [n, D] and [m, D]
    seed : int
        Of t-SNE.

    Returns
    -------
    dict of str to Projection
        "PCA" and "t-SNE". The second is left out if all vectors are alike or there are fewer than four.
    """
    from sklearn.manifold import TSNE

    vectors = np.concatenate([original, generated])
    centre = original.mean(axis=0)
    axes = np.linalg.svd(original - centre, full_matrices=False)[2][:2]  # PCA's warns of stays that are all alike
    flat = np.pad((vectors - centre) @ axes.T, ((0, 0), (0, 2 - len(axes))))
    planes = {"PCA": flat}
    if len(vectors) > 3 and np.ptp(flat[:, 0]) > 0:
        # Started from that PCA: scikit-learn's own start fails on vectors of one entry.
        start = (flat / flat[:, 0].std() * 1e-4).astype(np.float32)
        tsne = TSNE(perplexity=min(40.0, (len(vectors) - 1) / 3), init=start, max_iter=300, random_state=seed)
        planes["t-SNE"] = tsne.fit_transform(vectors)
    return {name: Projection(plane[: len(original)], plane[len(original) :]) for name, plane in planes.items()}


def feature_means(stays: FloatArray) -> FloatArray:
    """Mean of each feature over the real time points of stays [n, T, F], padded with -1. It is 0 if there are none."""
    real = (stays != PADDING_FILL).any(axis=2)
    sums = np.where(real[:, :, None], stays, 0).sum(axis=1)
    means: FloatArray = sums / np.maximum(real.sum(axis=1), 1)[:, None]
    return means
