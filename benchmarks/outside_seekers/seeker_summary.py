"""Nearest generated stay by summaries: each feature's mean, spread, range, first, last and observed share; the length.

Not among the methods the hiders here were tuned against. What it exploits: a summary of a stay survives noise, swapping
within a stay and shifts in time.
"""

import warnings

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import QuantileTransformer


def seeker(input_dict):
    """Label the enlarged stays with the nearest summaries, as many as there are generated stays; score by distance."""
    generated = summaries(input_dict["generated_data"], input_dict["generated_data_padding_mask"])
    enlarged = summaries(input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"])
    scale = QuantileTransformer(output_distribution="normal", n_quantiles=min(1000, len(enlarged))).fit(enlarged)
    nearest = NearestNeighbors(n_neighbors=1).fit(scale.transform(generated))
    distances = nearest.kneighbors(scale.transform(enlarged))[0][:, 0]
    labels = np.zeros(len(enlarged), dtype=int)
    labels[np.argsort(distances, kind="stable")[: len(generated)]] = 1
    return labels, -distances


def summaries(data, padding_mask):
    """Summarise stays [N, T, F] as [N, 7 F + 1]; what a stay does not have is 0."""
    padded = np.zeros(data.shape, bool) if padding_mask is None else np.asarray(padding_mask, bool)
    seen = np.where(padded, np.nan, data)
    rows = np.arange(data.shape[1])[:, None]
    there = ~np.isnan(seen)
    first = np.where(there, rows, data.shape[1] - 1).min(axis=1, keepdims=True)
    last = np.where(there, rows, 0).max(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # features that a stay does not have
        parts = [
            np.nanmean(seen, axis=1),
            np.nanstd(seen, axis=1),
            np.nanmin(seen, axis=1),
            np.nanmax(seen, axis=1),
            np.take_along_axis(seen, first, axis=1)[:, 0],
            np.take_along_axis(seen, last, axis=1)[:, 0],
            there.mean(axis=1),
            (~padded[:, :, 0]).sum(axis=1, keepdims=True),
        ]
    return np.nan_to_num(np.concatenate(parts, axis=1))
