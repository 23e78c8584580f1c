"""Random forest: accuses the enlarged stays it takes for generated, judging none that it was trained on.

Not among the methods the hiders here were tuned against. What it exploits: whatever generated stays and members share
in the mean, spread and range of single features.
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from utils.data_preprocess import FeatureStatistics, preprocess_imputed

FOLDS, TREES = 4, 200


def seeker(input_dict):
    """Train on all folds but one to tell generated from enlarged stays, and score the enlarged stays left out."""
    enlarged, mask = input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"]
    scale = FeatureStatistics(enlarged, mask)
    real = _summaries(preprocess_imputed(enlarged, mask, statistics=scale))
    made = _summaries(
        preprocess_imputed(input_dict["generated_data"], input_dict["generated_data_padding_mask"], statistics=scale)
    )
    fold = np.random.default_rng(input_dict["seed"]).permutation(len(real)) % FOLDS
    scores = np.zeros(len(real))
    for k in range(FOLDS):
        known = real[fold != k]
        model = RandomForestClassifier(TREES, min_samples_leaf=3, random_state=input_dict["seed"])
        model.fit(np.concatenate([known, made]), np.arange(len(known) + len(made)) >= len(known))
        scores[fold == k] = model.predict_proba(real[fold == k])[:, 1]
    labels = np.zeros(len(real), dtype=int)
    labels[np.argsort(-scores, kind="stable")[: len(made)]] = 1
    return labels, scores


def _summaries(data):
    """Mean, spread, lowest and highest of each feature over a stay's time points, and their number."""
    there = (data != -1).any(axis=2, keepdims=True)
    values = np.where(there, data, np.nan)
    values[~there[:, :, 0].any(axis=1)] = 0  # a stay without a time point
    parts = [
        np.nanmean(values, axis=1),
        np.nanstd(values, axis=1),
        np.nanmin(values, axis=1),
        np.nanmax(values, axis=1),
    ]
    return np.concatenate([*parts, there.sum(axis=1)], axis=1)
