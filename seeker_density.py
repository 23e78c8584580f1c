"""Density seeker: members stand where a release is denser than the patients are, above all beside a copy.

Three looks at the same question, in a few learnt dimensions (principal components of per-feature summaries).

- Near copies: the distance to the nearest other patient over the distance to the nearest generated stay. A generator
  that remembers a patient puts a stay nearer to this patient than any other patient is. It is the density ratio with
  one neighbour. It is also taken over how often each feature was measured, which most noise leaves alone.
- DOMIAS (van Breugel, Sun, Qian and van der Schaar, AISTATS 2023): the ratio of the generated stays' density to the
  patients' density at the stay. Members are where the generator is denser than the population.
- Gen-LRA (generative likelihood ratio attack): how much more likely the generated stays are if the stay is among the
  patients of a kernel density estimate than if it is not. Only generated stays near the stay count.

The reference is the enlarged data itself, so a stay is left out of its own density. Kernels are Gaussian. All is
derived from the papers' formulas.

What it cannot see: a release whose stays lie near nobody, such as draws from fitted means and covariances, leaks
through those means (seeker_moments.py sees that). Each of the three needs generated stays close to a member.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from utils.representations import normal_scores, summary_scores
from utils.stays import SUMMARIES, label_highest, padded_rows


@dataclass(frozen=True)
class Parameters:
    """The defaults were chosen on half of PhysioNet 2012 set-a, by binning and planted copies (docs/attacks.md)."""

    components: int = 40  # principal components in which near copies are looked for
    density_components: int = 10  # in which densities are estimated: kernels need few dimensions
    bandwidth: float = 0.5  # of the kernels, in units of the median distance from a stay to its nearest other
    parts: int = 2  # a stay is summarised whole, and in this many parts

    def __post_init__(self) -> None:
        for name in ("components", "density_components", "parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth must be positive, not {self.bandwidth}")


_BLOCK = 1024  # rows of pairs looked at once: 1,024 x 20,000 float32 distances are 80 MB
_NEAREST = 1e-3  # distances below this share of the median nearest distance count as it: two copies are equally near


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Score every enlarged stay by the sum of the looks.

    For near copies, robust standard deviations are added up, so that a copy stands out by as much as it is near. For
    the densities, normal scores of ranks are: a stay between many generated ones has a density, or a likelihood, far
    beyond all others without being a member.

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
        Near copies stand far above all others.

    Raises
    ------
    ValueError
        If the two have different features.
    """
    scores = np.zeros(len(input_dict["enlarged_data"]))
    for name, values in looks(input_dict, parameters).items():
        scores += standardise(values) if name.startswith("copies") else normal_scores(values, values)
    return label_highest(scores, len(input_dict["generated_data"])), scores


def looks(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> dict[str, np.ndarray]:
    """Return each look's scores [M]: `copies`, `copies_by_rates`, `domias` and `gen_lra`."""
    enlarged, generated = input_dict["enlarged_data"], input_dict["generated_data"]
    if enlarged.shape[2] != generated.shape[2]:
        raise ValueError(f"generated stays have {generated.shape[2]} features, the enlarged data {enlarged.shape[2]}")
    real, made = summary_scores(
        enlarged,
        padded_rows(enlarged, input_dict["enlarged_data_padding_mask"]),
        generated,
        padded_rows(generated, input_dict["generated_data_padding_mask"]),
        parameters.parts,
    )
    count = len(real)
    if count < 2:
        return {"copies": np.zeros(count)}
    rates = np.arange(real.shape[1]) % len(SUMMARIES) == len(SUMMARIES) - 1
    rates[-1] = True  # the length
    to_other, to_made = nearest(real[:, rates], made[:, rates])
    found = {"copies_by_rates": np.log(to_other / to_made)}
    learnt = PCA(min(parameters.components, *real.shape), svd_solver="randomized", random_state=input_dict["seed"])
    real = learnt.fit_transform(real)
    made = learnt.transform(made)
    to_other, to_made = nearest(real, made)
    found["copies"] = np.log(to_other / to_made)
    real, made = real[:, : parameters.density_components], made[:, : parameters.density_components]
    scale = parameters.bandwidth * float(np.median(nearest(real, made)[0]))
    return found | densities(real / scale, made / scale)


# ------------------------------------------------------------------------------------------------------- the looks


def nearest(real: np.ndarray, made: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances [M] from each of `real` [M, D] to the nearest other and to the nearest of `made` [N, D].

    None is below a thousandth of the median distance to the nearest other, or below 1e-6.
    """
    squared = np.empty((2, len(real)))
    for start in range(0, len(real), _BLOCK):
        rows = slice(start, start + _BLOCK)
        others = squared_distances(real[rows], real)
        others[np.arange(len(others)), np.arange(start, start + len(others))] = np.inf
        squared[0, rows] = others.min(axis=1)
        squared[1, rows] = squared_distances(real[rows], made).min(axis=1)
    to_other, to_made = np.sqrt(squared)
    least = max(_NEAREST * float(np.median(to_other)), 1e-6)
    return np.maximum(to_other, least), np.maximum(to_made, least)


def densities(real: np.ndarray, made: np.ndarray) -> dict[str, np.ndarray]:
    """Return DOMIAS and Gen-LRA of `real` [M, D], given `made` [N, D]. Kernels have standard deviation 1.

    With K(g, x) the kernel, Gen-LRA of x is the sum over generated g of log p(g | all) - log p(g | all but x), which is
    -log(1 - K(g, x) / sum over patients e of K(g, e)), up to a constant that is the same for all x.
    """
    domias, gen_lra = np.empty(len(real)), np.zeros(len(real))
    for start in range(0, len(real), _BLOCK):
        rows = slice(start, start + _BLOCK)
        others = -squared_distances(real[rows], real) / 2
        others[np.arange(len(others)), np.arange(start, start + len(others))] = -np.inf
        domias[rows] = _log_sum(-squared_distances(real[rows], made) / 2) - _log_sum(others)
    for start in range(0, len(made), _BLOCK):
        kernel = -squared_distances(made[start : start + _BLOCK], real) / 2
        kernel = np.exp(kernel - kernel.max(axis=1, keepdims=True))
        share = kernel / kernel.sum(axis=1, keepdims=True)
        gen_lra -= np.log1p(-np.minimum(share, 1 - _NEAREST)).sum(axis=0, dtype=np.float64)
    return {"domias": domias, "gen_lra": gen_lra}


def squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return squared Euclidean distances, shape [n, m], of `left` [n, D] and `right` [m, D]. Never below 0."""
    squared = left @ right.T
    squared *= -2
    squared += np.einsum("nd,nd->n", left, left)[:, None]
    squared += np.einsum("md,md->m", right, right)
    return np.maximum(squared, 0, out=squared)


def _log_sum(exponents: np.ndarray) -> np.ndarray:
    """Return log of the sum of exp over the rows of `exponents` [n, m]."""
    highest = exponents.max(axis=1)
    return highest + np.log(np.exp(exponents - highest[:, None]).sum(axis=1))


def standardise(values: np.ndarray) -> np.ndarray:
    """Centre by the median and divide by the interquartile range, so that a few copies keep their distance."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return (values - middle) / max(high - low, _NEAREST)
