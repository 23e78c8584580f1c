"""Moments seeker: whatever a release learns from n patients carries each patient's 1/n.

Homer et al. (PLoS Genetics 2008) found single people in published allele frequencies. Sankararaman et al. (Nature
Genetics 2009) derived the strongest such test, a likelihood ratio, and its limit. Dwork et al. (FOCS 2015) showed that
it works against any release of many accurate means.

What it exploits: the mean of the generated stays lies nearer to the members' mean than to the others'. A stay is
written as a vector in several ways ("views"). In each view, the mean of the generated stays minus the mean of the
enlarged stays is partly the members' own deviation (the leak), partly sampling noise and bias of the hider. A stay's
score is its product with the expected leak. No generated stay needs to be near any patient, so this finds members
where nearest neighbours find none. The views are every cell, summaries of each feature, histograms of each feature,
sums and products over single rows (they survive a hider that tears stays apart), and products of the leading
directions of the cells and of the summaries (second moments: the quadratic test).

What it cannot see: a leak about a few stays only, such as a hundred copies among thousands of stays, since it hardly
moves any mean (seeker_density.py and seeker_matching.py see that). Scores say who is more likely, and they need many
stays or many features to say much.

Nothing is trained and no label is used. The shrinkage and the weights of the views come from the separation
that each test predicts for itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr
from scipy.special import ndtri
from sklearn.utils.extmath import randomized_svd

from utils.representations import cell_scores, normal_scores, summary_scores
from utils.stays import label_highest, padded_rows


@dataclass(frozen=True)
class Parameters:
    """The defaults were chosen on half of PhysioNet 2012 set-a, against the crowd record (docs/attacks.md)."""

    groups: int = 16  # directions are put into this many groups by the generated stays' variance. Noise is per group
    outlying: float = 3.0  # a difference of means beyond this many standard deviations is the hider's bias
    bins: int = 16  # of the histograms, with equally many of the enlarged data's cells in each
    components: int = 60  # leading directions whose products are taken: 60 give 1,830 products
    parts: int = 2  # a stay is summarised whole, and in this many parts

    def __post_init__(self) -> None:
        for name in ("groups", "bins", "components", "parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.outlying > 0:
            raise ValueError(f"outlying must be positive, not {self.outlying}")


# Added to the covariance's diagonal, in units of its mean. The value with the largest predicted separation counts.
_SHRINKAGES = (0.001, 0.01, 0.1)
_BLOCK = 512  # stays worked on at once
_QUIET = 1e-3  # a direction with a smaller share of its usual variance or sampling noise has none
_SMALL = 500  # up to so many stays, all directions are found instead of the leading ones
_AGREEMENT = 0.05  # ridge on the correlation matrix of the tests
_SAME = 1e-6  # a column with a smaller standard deviation is constant


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Score every enlarged stay by the combined likelihood-ratio test.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T', F], their padding masks (or None), `seed`.
    parameters : Parameters

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for the N highest scores.
    scores : ndarray of float, shape [M]
        The combined test statistic, in its standard deviations over the enlarged data.

    Raises
    ------
    ValueError
        If the two have different features.
    """
    tests = [test for _, test, _ in separations(input_dict, parameters)]
    scores = combine(tests)
    return label_highest(scores, len(input_dict["generated_data"])), scores


def separations(
    input_dict: dict[str, Any], parameters: Parameters = Parameters()
) -> Iterator[tuple[str, tuple[np.ndarray, float], int]]:
    """Yield each view's name, its test (see `likelihood_ratio_test`) and its number of dimensions."""
    for name, real, made in views(input_dict, parameters):
        yield name, likelihood_ratio_test(real, made, parameters), real.shape[1]


# ------------------------------------------------------------------------------------------------------ the test


def likelihood_ratio_test(
    real: np.ndarray, made: np.ndarray, parameters: Parameters = Parameters()
) -> tuple[np.ndarray, float]:
    """Test every enlarged stay for a share in the mean of the generated stays.

    If half of M stays are members, their mean differs from that of all by a draw with the covariance S / M, S being the
    covariance of all M. The generated mean adds sampling noise, with the covariance of the generated stays / N, and the
    hider's bias. A coordinate in which the difference of means is far beyond leak and sampling noise is biased, and its
    square is added to the noise. The generalised eigenvectors of noise and S are directions that can be judged one by
    one. They are sorted by noise, and put into groups. In a group, the mean square of the differences tells what share
    of them can be leak: (1 / M) / (mean square), which is the weight of a linear least-squares estimate of the leak.
    So noise and bias need not be known exactly. The mean square counts as at least leak and sampling noise together.

    Parameters
    ----------
    real : ndarray of float32, shape [M, D]
        Vectors of the enlarged stays.
    made : ndarray of float32, shape [N, D]
        Vectors of the generated stays.

    Returns
    -------
    scores : ndarray of float64, shape [M]
        Mean 0. Standard deviation 1, or 0 if nothing varies.
    separation : float
        Predicted difference between members' and others' mean score, in standard deviations. It is cautious if the
        release has less noise than independent draws, and too high if there is no leak.
    """
    spread = real.std(axis=0, dtype=np.float64)
    varies = spread > _SAME * max(1.0, float(np.abs(real).max(initial=0)))
    if len(real) < 2 or not varies.any():
        return np.zeros(len(real)), 0.0
    scale = np.where(varies, spread, 1).astype(np.float32)
    mean = real.mean(axis=0, dtype=np.float64).astype(np.float32)
    real, made = ((values[:, varies] - mean[varies]) / scale[varies] for values in (real, made))
    shift = made.mean(axis=0, dtype=np.float64).astype(np.float32)
    made = made - shift
    expected = 1 / len(real) + made.var(axis=0) / len(made)
    bias = np.where(shift**2 > parameters.outlying**2 * expected, shift**2, 0).astype(np.float32)
    if real.shape[1] > len(real):
        # Scores depend on what lies in the span of the stays alone: work in as many dimensions as there are stays.
        basis, _ = qr(real.T, mode="economic", check_finite=False)
        real, made, shift = real @ basis, made @ basis, shift @ basis
        noise = (basis.T * bias) @ basis
    else:
        noise = np.diag(bias)
    within = real.T @ real / np.float32(len(real))
    sampled = made.T @ made / np.float32(len(made) ** 2)
    noise += sampled
    best = np.zeros(len(real)), 0.0
    for shrinkage in _SHRINKAGES:
        ridge = np.float32(shrinkage * np.trace(within) / len(within))
        ridged = within.copy()
        ridged[np.diag_indices_from(ridged)] += ridge
        noisiness, directions = eigh(noise, ridged, driver="gvd", check_finite=False)
        difference = (directions.T @ shift).astype(np.float64)
        # Directions have length 1 in the ridged covariance, so this is their variance without the ridge.
        leak = np.maximum(1 - ridge * np.square(directions).sum(axis=0, dtype=np.float64), 0) / len(real)
        sampling = np.einsum("ij,ij->j", directions, sampled @ directions).astype(np.float64)
        weights = np.zeros(len(difference))
        told = np.flatnonzero(leak * len(real) > _QUIET)  # along the others, enlarged stays do not differ
        for group in _groups(noisiness[told], _QUIET / len(made), parameters.groups):
            group = told[group]
            observed = np.mean(difference[group] ** 2)
            least = leak[group].mean() + sampling[group].mean()
            weights[group] = difference[group] / max(observed, least, 1e-30) / len(real)
        statistic = (real @ (directions @ weights.astype(np.float32))).astype(np.float64)
        deviation = float(statistic.std())
        # Two halves are at most 2 apart: then they have all the variance.
        separation = min(2 * len(real) * float(weights**2 @ leak) / deviation, 2.0) if deviation > 0 else 0.0
        if separation > best[1]:
            best = (statistic - statistic.mean()) / deviation, separation
    return best


def _groups(noisiness: np.ndarray, quiet: float, count: int) -> Iterator[np.ndarray]:
    """Yield the indices of directions of about equal noise: those without any, then `count` groups of the others."""
    order = np.argsort(noisiness, kind="stable")
    silent = int(np.searchsorted(noisiness[order], quiet))
    # Directions without noise are an arbitrary basis of their span, so nothing tells one from another.
    yield from (group for group in (order[:silent], *np.array_split(order[silent:], count)) if group.size)


def combine(tests: list[tuple[np.ndarray, float]]) -> np.ndarray:
    """Combine tests as a linear discriminant does: their covariance is seen, and each predicts its own separation.

    Predictions are squared first. A small one is mostly noise taken for leak, and would dilute what is found elsewhere.

    Parameters
    ----------
    tests : list of (scores [M], separation)
        As `likelihood_ratio_test` returns them.

    Returns
    -------
    ndarray of float64, shape [M]
        Standard deviation 1, or 0 if no test says anything.
    """
    scores = np.stack([score for score, _ in tests])
    separations = np.square([separation for _, separation in tests])
    covariance = scores @ scores.T / scores.shape[1]
    # The ridge keeps two tests that nearly agree from being played off against each other.
    weights = np.linalg.solve(covariance + _AGREEMENT * np.eye(len(scores)), separations)
    combined = np.maximum(weights, 0) @ scores
    deviation = combined.std()
    return combined / deviation if deviation > 0 else combined


# ----------------------------------------------------------------------------------------------------- the views


def views(
    input_dict: dict[str, Any], parameters: Parameters = Parameters()
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield each view's name, the enlarged stays' vectors [M, D] and the generated stays' [N, D], both float32."""
    enlarged, generated = input_dict["enlarged_data"], input_dict["generated_data"]
    if enlarged.shape[2] != generated.shape[2]:
        raise ValueError(f"generated stays have {generated.shape[2]} features, the enlarged data {enlarged.shape[2]}")
    padded = padded_rows(enlarged, input_dict["enlarged_data_padding_mask"])
    made_padded = padded_rows(generated, input_dict["generated_data_padding_mask"])

    real, made = (
        numbers.reshape(len(numbers), -1)
        for numbers in summary_scores(enlarged, padded, generated, made_padded, parameters.parts)
    )
    yield "summaries", real, made
    pairs = [products(real, made, parameters.components, input_dict["seed"])]

    (cells, lengths), (made_cells, made_lengths) = cell_scores(enlarged, padded, generated, made_padded)
    yield (
        "histograms",
        histograms(cells, lengths, parameters.bins),
        histograms(made_cells, made_lengths, parameters.bins),
    )
    yield "rows", row_products(cells, lengths), row_products(made_cells, made_lengths)
    length_scores = normal_scores(lengths, lengths), normal_scores(lengths, made_lengths)
    real, made = (
        np.concatenate([values.reshape(len(values), -1), scores[:, None]], axis=1)
        for values, scores in ((cells, length_scores[0]), (made_cells, length_scores[1]))
    )
    del cells, made_cells
    yield "cells", real, made
    pairs.append(products(real, made, parameters.components, input_dict["seed"]))
    del real, made
    yield "products", *pairs.pop()
    yield "products of summaries", *pairs.pop()


def histograms(cells: np.ndarray, lengths: np.ndarray, bins: int) -> np.ndarray:
    """Count each stay's cells in `bins` bins of each feature's normal scores. Float32 [N, F * bins], in units of T."""
    real_rows = (np.arange(cells.shape[1]) < lengths[:, None])[:, :, None]
    below = np.empty((len(cells), cells.shape[2], bins), np.float32)
    for start in range(0, len(cells), _BLOCK):
        block = slice(start, start + _BLOCK)
        for place in range(bins):
            upper = ndtri((place + 1) / bins)
            below[block, :, place] = ((cells[block] <= upper) & real_rows[block]).mean(axis=1)
    below[:, :, 1:] -= below[:, :, :-1].copy()
    return below.reshape(len(cells), -1)


def row_products(cells: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sum each feature, and each product of two features, over a stay's rows, in units of T.

    The mean over stays is a mean over rows, so a hider that shuffles the rows of all stays leaves it as it is.

    Returns
    -------
    ndarray of float32, shape [N, F + F (F + 1) / 2]
    """
    first, second = np.triu_indices(cells.shape[2])
    out = np.empty((len(cells), cells.shape[2] + len(first)), np.float32)
    for start in range(0, len(cells), _BLOCK):
        block = slice(start, start + _BLOCK)
        rows = cells[block] * (np.arange(cells.shape[1]) < lengths[block, None])[:, :, None]
        sums = rows.transpose(0, 2, 1) @ rows
        out[block] = np.concatenate([rows.sum(axis=1), sums[:, first, second]], axis=1)
    return out / cells.shape[1]


def products(real: np.ndarray, made: np.ndarray, components: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the leading principal components of the enlarged stays with each other: second moments.

    Returns
    -------
    real, made : ndarray of float32, shapes [M, K (K + 1) / 2] and [N, K (K + 1) / 2]
        K is at most `components`.
    """
    mean = real.mean(axis=0, dtype=np.float64).astype(np.float32)
    real, made = real - mean, made - mean
    if len(real) <= _SMALL:
        variance, left = np.linalg.eigh((real @ real.T).astype(np.float64))
        spread, left = np.sqrt(np.maximum(variance[::-1], 0))[:components], left[:, ::-1][:, :components]
        directions = (left / np.maximum(spread, _SAME)).T @ real
    else:
        _, spread, directions = randomized_svd(real, components, n_iter=4, random_state=seed)
    kept = spread > 1e-3 * max(spread[0], _SAME)  # the rest is rounding
    axes = (directions[kept].T / spread[kept] * np.sqrt(len(real))).astype(np.float32)
    first, second = np.triu_indices(axes.shape[1])
    real, made = real @ axes, made @ axes
    return real[:, first] * real[:, second], made[:, first] * made[:, second]
