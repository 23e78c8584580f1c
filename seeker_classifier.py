"""Classifier seeker: a patient who is taken for generated, by trees never told otherwise, was used to make the data.

After LOGAN (Hayes, Melis, Danezis and De Cristofaro, PoPETs 2019). LOGAN accuses the records that a GAN's
discriminator finds real. Whoever has a release and no discriminator trains a classifier of generated against enlarged
stays. Here that classifier sees summaries of a stay. It is a forest of extremely randomised trees (Geurts, Ernst and
Wehenkel, Machine Learning 2006), gradient boosting, or both. The recurrent one is seeker_binary_predictor.py.

The forest is the default. On 1,000 members of 2,000 stays of PhysioNet 2012 (the half the default was chosen on), its
AUROC against binning is 0.92, that of boosting is 0.53 and that of both together is 0.77. Boosting finds no more
anywhere else: it stops looking at a stay once rough cuts tell most generated stays from patients.

What it exploits: a region in which generated stays are more frequent than patients, and copies or near-copies. No stay
is judged by a model that was told "this one is a patient": the enlarged stays are cross-fitted.

What it cannot see: a leak that is smaller than what tells all generated stays from all patients. If every generated
stay is easily recognised (by missing values, by noise), then every patient looks equally real and the scores hold
little.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from utils.progress import progress_bar
from utils.stay_vectors import normal_scores, stay_vectors
from utils.stays import label_highest


@dataclass(frozen=True)
class Parameters:
    folds: int = 5  # parts of the enlarged data. Each is judged by models trained on the others
    models: Literal["forest", "boosting", "both"] = "forest"
    trees: int = 200  # of a fold's forest, grown until they tell every stay apart
    rounds: int = 60  # of gradient boosting
    leaves: int = 15  # of one boosted tree
    # Enlarged and generated stays in one training set, at most. Every fold draws its own. Bounds time and memory.
    most: int = 8_000

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("trees", 1), ("rounds", 1), ("leaves", 2), ("most", 10)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays that look most generated, as many as there are generated ones.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.
    parameters : Parameters
        Folds and size of the models.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Standardised evidence, summed over the models, for "generated": higher is more likely a member.
    """
    rng = np.random.default_rng(input_dict["seed"])
    generated, enlarged = stay_vectors(input_dict)
    generated, enlarged = normal_scores(enlarged, generated), normal_scores(enlarged, enlarged)
    varying = np.ptp(np.concatenate([generated, enlarged]), axis=0) > 0
    if len(enlarged) < 2 or not varying.any():
        scores = np.zeros(len(enlarged))  # nothing to compare
    else:
        scores = cross_fitted(generated[:, varying], enlarged[:, varying], parameters, rng)
    return label_highest(scores, len(generated)), scores


def cross_fitted(
    generated: np.ndarray, enlarged: np.ndarray, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray:
    """Score every enlarged stay by models trained on all generated stays and on the enlarged stays of other folds.

    Folds differ in what their models make of the same stay, so scores are standardised within each.

    Parameters
    ----------
    generated, enlarged : ndarray of float32, shapes [N, D] and [M, D]
        Without NaN.
    parameters : Parameters
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float, shape [M]
    """
    folds = min(parameters.folds, len(enlarged))
    fold = rng.permutation(len(enlarged)) % folds
    scores = np.zeros(len(enlarged))
    with progress_bar(folds, "telling generated from enlarged", "fold") as bar:
        for held_out in range(folds):
            known = _at_most(parameters.most, enlarged[fold != held_out], rng)
            made = _at_most(parameters.most, generated, rng)
            rows = np.concatenate([known, made])
            is_made = np.arange(len(rows)) >= len(known)
            judged = fold == held_out
            for model in _models(parameters, int(rng.integers(2**31))):
                model.fit(rows, is_made)
                scores[judged] += _standardised(_evidence(model, enlarged[judged]))
            bar.update()
    return scores


def _models(parameters: Parameters, seed: int) -> list[Any]:
    models: list[Any] = []
    if parameters.models != "boosting":
        models.append(ExtraTreesClassifier(parameters.trees, class_weight="balanced", random_state=seed))
    if parameters.models != "forest":
        models.append(
            HistGradientBoostingClassifier(
                max_iter=parameters.rounds,
                max_leaf_nodes=parameters.leaves,
                max_bins=63,  # of 255: ranks need no finer bins
                early_stopping=False,
                class_weight="balanced",
                random_state=seed,
            )
        )
    return models


def _evidence(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return log-odds of "generated" from boosting, where chances saturate, and the share of votes from a forest."""
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict_proba(rows)[:, 1]


def _at_most(most: int, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]


def _standardised(values: np.ndarray) -> np.ndarray:
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))
