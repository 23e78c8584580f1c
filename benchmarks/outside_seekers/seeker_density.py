"""Density ratio: where there are more generated stays than real ones, members are.

After DOMIAS (van Breugel, Sun, Qian and van der Schaar, AISTATS 2023), with the enlarged data as the reference and
nearest neighbours as the density. Not among the methods the hiders here were tuned against. What it exploits: a
generator that puts more mass around its training stays than around others.
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from utils.data_preprocess import FeatureStatistics, preprocess_imputed

COMPONENTS, NEIGHBOURS = 30, 5


def seeker(input_dict):
    """Label by the ratio of the distances to the k-th nearest other real stay and the k-th nearest generated one."""
    enlarged, mask = input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"]
    scale = FeatureStatistics(enlarged, mask)
    real = preprocess_imputed(enlarged, mask, statistics=scale)
    made = preprocess_imputed(input_dict["generated_data"], input_dict["generated_data_padding_mask"], statistics=scale)
    real, made = (data.reshape(len(data), -1) for data in (real, made))
    plane = PCA(min(COMPONENTS, *real.shape), random_state=input_dict["seed"]).fit(real)
    real, made = plane.transform(real), plane.transform(made)
    neighbours = min(NEIGHBOURS, len(made), len(real) - 1)
    to_real = NearestNeighbors(n_neighbors=neighbours).fit(real).kneighbors()[0][:, -1]  # oneself not counted
    to_made = NearestNeighbors(n_neighbors=neighbours).fit(made).kneighbors(real)[0][:, -1]
    scores = np.log(to_real + 1e-9) - np.log(to_made + 1e-9)
    labels = np.zeros(len(real), dtype=int)
    labels[np.argsort(-scores, kind="stable")[: len(made)]] = 1
    return labels, scores
