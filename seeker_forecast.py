"""Forecast seeker: who is forecast better after learning from the release was used to make it.

After MIA-EPT (2025): error profiles of predictors trained on synthetic tables. Its natural form for stays are
forecasters and imputers. From the first half of a stay, they predict each feature's level, spread, last value and
measuring rate in the second half. From some features, they predict the others. Each predictor is trained twice: on the
generated stays, and on the enlarged stays without the one that is judged (leave-one-out, exact for kernel ridge).

What it exploits: a release pulls predictions towards its members. Let e be the error on a stay of the predictor that
learnt from enlarged stays, and d the difference that learning from the release makes to the prediction. The seeker adds
up e * d. A non-member's e is independent of d, so its products average 0 however far the release is from the truth. A
member's d leans towards its own e. MIA-EPT's own profile, the difference of absolute errors, must first overcome what
the release distorts.

AUROC on the half of PhysioNet 2012 set-a that nothing was chosen on (1,000 members of 2,000 stays, one split): 0.57 for
add-noise, 0.98 for binning, 0.55 for the crowd, 0.49 for shuffle.

What it cannot see: what leaves no trace in how features and halves hang together. That is so of shifts of single means,
and of hiders that tear stays apart (shuffle).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from utils.progress import progress_bar
from utils.stay_vectors import normal_scores, stay_vectors
from utils.stays import SUMMARIES, label_highest

_LEVEL, _SPREAD, _LAST, _RATE = (SUMMARIES.index(name) for name in ("mean", "std", "last", "rate"))


@dataclass(frozen=True)
class Parameters:
    groups: int = 4  # features are predicted in this many groups, each from the features of the others
    width: float = 8.0  # of the Gaussian kernel: exp(-|x - x'|^2 / (width * number of inputs))
    ridge: float = 0.3  # added to the kernel's diagonal
    # Stays a predictor is trained on at once. For more, several are trained and averaged (divide and conquer kernel
    # ridge regression, Zhang, Duchi and Wainwright, JMLR 2015). So every stay counts, and memory stays bounded.
    block: int = 2_500

    def __post_init__(self) -> None:
        for name, least in (("groups", 2), ("block", 10)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("width", "ridge"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays towards which the release pulls predictions, as many as there are generated stays.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.
    parameters : Parameters
        Of the predictors.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Mean of the standardised profile: higher is more likely a member.
    """
    rng = np.random.default_rng(input_dict["seed"])
    features = input_dict["enlarged_data"].shape[2]
    total = np.zeros(len(input_dict["enlarged_data"]))
    columns = 0
    with progress_bar(2 * (1 + parameters.groups), "forecasting", "predictor") as bar:
        for imputed in (False, True):
            generated, enlarged = stay_vectors(input_dict, imputed)
            generated, enlarged = normal_scores(enlarged, generated), normal_scores(enlarged, enlarged)
            tasks = zip(
                _tasks(generated, features, parameters.groups),
                _tasks(enlarged, features, parameters.groups),
                strict=True,
            )
            for (made_inputs, made_targets), (inputs, targets) in tasks:
                profile = pulls(made_inputs, made_targets, inputs, targets, parameters, rng)
                total += profile.sum(axis=1)
                columns += profile.shape[1]
                bar.update()
    scores = total / max(columns, 1)
    return label_highest(scores, len(input_dict["generated_data"])), scores


def pulls(
    made_inputs: np.ndarray,
    made_targets: np.ndarray,
    inputs: np.ndarray,
    targets: np.ndarray,
    parameters: Parameters,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how far the release pulls each enlarged stay's predictions towards the truth, standardised per target.

    Parameters
    ----------
    made_inputs, made_targets : ndarray, shapes [N, D] and [N, K]
        Of the generated stays.
    inputs, targets : ndarray, shapes [M, D] and [M, K]
        Of the enlarged stays.
    parameters : Parameters
    rng : numpy.random.Generator
        Assigns stays to blocks.

    Returns
    -------
    ndarray of float, shape [M, K']
        One column for each target that varies.
    """
    expected = _predict(inputs, targets, None, parameters, rng)
    learnt = _predict(made_inputs, made_targets, inputs, parameters, rng)
    product = (targets - expected) * (learnt - expected)
    spread = product.std(axis=0)
    varying = spread > 1e-12
    return (product[:, varying] - product[:, varying].mean(axis=0)) / spread[varying]


def _tasks(rows: np.ndarray, features: int, groups: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield inputs and targets: the second half from the first, then each group of features from the others."""
    count = len(rows)
    summaries = rows[:, : 3 * features * len(SUMMARIES)].reshape(count, 3, features, len(SUMMARIES))
    whole, early, late = summaries[:, 0], summaries[:, 1], summaries[:, 2]
    yield early.reshape(count, -1), late[:, :, [_LEVEL, _SPREAD, _LAST, _RATE]].reshape(count, -1)
    group = np.arange(features) % groups
    for own in range(groups):
        yield whole[:, group != own].reshape(count, -1), whole[:, group == own, _LEVEL]


def _predict(
    inputs: np.ndarray,
    targets: np.ndarray,
    queries: np.ndarray | None,
    parameters: Parameters,
    rng: np.random.Generator,
) -> np.ndarray:
    """Predict the targets of `queries` [Q, D]. Without queries, of each of `inputs` [N, D] by a model that lacks it.

    A constant in the kernel stands for the intercept. The prediction without a stay is exact: its target minus
    alpha_i / (K^-1)_ii (see Rasmussen and Williams, Gaussian Processes, 2006, equation 5.12).
    """
    asked = inputs if queries is None else queries
    blocks = np.array_split(rng.permutation(len(inputs)), -(-len(inputs) // parameters.block))
    total = np.zeros((len(asked), targets.shape[1]))
    for block in blocks:
        known = inputs[block]
        kernel = _kernel(known, known, parameters.width)
        kernel[np.diag_indices(len(block))] += parameters.ridge
        factor = cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, targets[block].astype(float), check_finite=False)
        for start in range(0, len(asked), parameters.block):
            part = slice(start, start + parameters.block)
            total[part] += _kernel(asked[part], known, parameters.width) @ weights
        if queries is None:
            inverse = cho_solve(factor, np.eye(len(block)), overwrite_b=True, check_finite=False)
            own = targets[block] - weights / np.diag(inverse)[:, None]
            total[block] += own - (targets[block] - parameters.ridge * weights)  # instead of the fit to itself
    return total / len(blocks)


def _kernel(left: np.ndarray, right: np.ndarray, width: float) -> np.ndarray:
    """Return exp(-|x - x'|^2 / (width * D)) + 1 for every pair, shape [n, m]."""
    squared = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2 * (left @ right.T)
    return np.exp(squared.astype(float).clip(0) / (-width * max(left.shape[1], 1))) + 1
