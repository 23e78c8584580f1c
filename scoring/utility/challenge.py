"""Did the generated data stay useful? The contract's two checks, judged, with what they hide beside them.

A check holds a predictor trained on the generated data against the same predictor trained on the original data. If
the original's predictor does not beat a constant guess, it is begun anew from other seeds, `BEGUN_ANEW` times at
most. If it never does, the check is void: it is neither passed nor failed. docs/utility.md says why trainings fail.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from utils.metric_utils import UtilityScores, utility_scores
from utils.misc import temp_seed_numpy
from utils.solutions import passes

BEGUN_ANEW = 3  # times an original's predictor that loses to a constant is trained again
_NEXT_SEED = 10_007  # between the seeds of these trainings. Far from seeds that people choose side by side


def draw_features(features: int, count: int, seed: int) -> list[int]:
    """Draw the features to test: the first `count` of a permutation under the seed, as in 2020."""
    with temp_seed_numpy(seed):
        return np.random.permutation(features)[:count].tolist()  # noqa: NPY002


def check_utility(
    original: np.ndarray,
    generated: np.ndarray,
    test: np.ndarray,
    *,
    features: Sequence[int],
    names: Sequence[str],
    seed: int,
    feature_prediction: bool,
    one_step_ahead: bool,
    auroc_threshold: float,
    rmse_threshold: float,
    verbose: bool = False,
) -> dict[str, Any]:
    """Train the predictors on original and on generated data, test both on held-out stays, and judge.

    Parameters
    ----------
    original, generated, test : ndarray, shape [N, T, F]
        Preprocessed and imputed: the training half, what the hider made of it, and held-out real stays.
    features : sequence of int
        The features to predict from the others.
    names : sequence of str, length F
        The features' names.
    seed : int
        Seed of the models.
    feature_prediction, one_step_ahead : bool
        Which checks to run.
    auroc_threshold, rmse_threshold : float
        Pass: AUROC at least, RMSE at most this multiple of the original's.
    verbose : bool
        Whether to print how each model's training went.

    Returns
    -------
    dict
        The `utility` part of report.json.
    """
    scores = utility_scores(
        {"original": original, "generated": generated},
        test,
        list(features),
        [seed],
        feature_prediction=feature_prediction,
        one_step_ahead=one_step_ahead,
        progress=True,
        verbose=verbose,
    )
    constant = constant_scores(original, test)
    reference = begun_anew(original, test, scores["original"][0], constant, seed)
    return judge(reference, scores["generated"][0], constant, names, auroc_threshold, rmse_threshold)


@dataclass(frozen=True)
class ConstantScores:
    """RMSE on held-out stays of always guessing a feature's mean: what a predictor must beat to have learnt anything.

    Attributes
    ----------
    per_feature : ndarray, shape [F]
    without_time : float
        Over the cells of features 1 and up.
    """

    per_feature: np.ndarray
    without_time: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. What could not be computed is None."""
        return {"constant": _nullable(self.per_feature), "constant_without_time": _nullable([self.without_time])[0]}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "ConstantScores":
        """Undo `to_json`."""
        return cls(np.array(facts["constant"], dtype=float), float(np.array(facts["constant_without_time"], float)))


def begun_anew(
    train: np.ndarray, test: np.ndarray, scores: UtilityScores, constant: ConstantScores, seed: int
) -> UtilityScores:
    """Train anew those of the original's predictors that do not beat a constant guess.

    Parameters
    ----------
    train, test : ndarray, shape [N, T, F]
        The original data and held-out stays, preprocessed and imputed.
    scores : UtilityScores
        Of the predictors trained from `seed`.
    constant : ConstantScores
    seed : int

    Returns
    -------
    UtilityScores
        With the first training that beats the constant in each place, or the scores as they were.
    """
    for attempt in range(1, BEGUN_ANEW + 1):
        features = [f for place, f in enumerate(scores.features) if not _beats(scores, place, constant)]
        ahead = scores.one_step_ahead is not None and not scores.one_step_ahead_without_time < constant.without_time
        if scores.feature_prediction is None:
            features = []
        if not features and not ahead:
            break
        again = utility_scores(
            {"it": train},
            test,
            features,
            [seed + attempt * _NEXT_SEED],
            one_step_ahead=ahead,
            feature_prediction=bool(features),
        )["it"][0]
        if ahead and again.one_step_ahead_without_time < constant.without_time:
            scores = replace(
                scores,
                one_step_ahead=again.one_step_ahead,
                one_step_ahead_per_feature=again.one_step_ahead_per_feature,
                one_step_ahead_without_time=again.one_step_ahead_without_time,
            )
        if scores.feature_prediction is not None and again.feature_prediction is not None:
            predictions = scores.feature_prediction.copy()
            for place, feature in enumerate(features):
                if _beats(again, place, constant):
                    predictions[scores.features.index(feature)] = again.feature_prediction[place]
            scores = replace(scores, feature_prediction=predictions)
    return scores


def _beats(scores: UtilityScores, place: int, constant: ConstantScores) -> bool:
    if scores.feature_prediction is None:
        return False
    score = scores.feature_prediction[place]
    if scores.tasks[place] == "classification":
        return bool(score > 0.5)
    return bool(score < constant.per_feature[scores.features[place]])


def mean_scores(scores: Sequence[UtilityScores]) -> UtilityScores:
    """Average the scores of the same predictors over seeds, as the competition did.

    A feature is a classification where it is one for every seed. Seeds change no data, so they agree.
    """
    first = scores[0]
    predictions = [s.feature_prediction for s in scores if s.feature_prediction is not None]
    ahead = [s.one_step_ahead for s in scores if s.one_step_ahead is not None]
    return UtilityScores(
        first.features,
        first.tasks,
        np.mean(predictions, axis=0) if predictions else None,
        float(np.mean(ahead)) if ahead else None,
        np.mean([s.one_step_ahead_per_feature for s in scores], axis=0),
        float(np.mean([s.one_step_ahead_without_time for s in scores])),
    )


def _nullable(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def constant_scores(train: np.ndarray, test: np.ndarray) -> ConstantScores:
    """Score guessing each feature's mean in `train` on `test`, both preprocessed and imputed, shape [N, T, F]."""
    known = test >= 0
    means = np.average(train, axis=(0, 1), weights=(train >= 0) + 1e-12)
    errors = np.square(np.where(known, test - means, 0.0)).sum(axis=(0, 1))
    cells = known.sum(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return ConstantScores(np.sqrt(errors / cells), float(np.sqrt(errors[1:].sum() / cells[1:].sum())))


def judge(
    original: UtilityScores,
    generated: UtilityScores,
    constant: ConstantScores,
    names: Sequence[str],
    auroc_threshold: float,
    rmse_threshold: float,
) -> dict[str, Any]:
    """Compare two sets of scores by the contract's rule. See `check_utility` for the value.

    If the original's predictor does not beat the constant, the check is void and `passed` is None. Over all checks,
    `passed` is False if one fails, else None if one is void.
    """
    verdict: dict[str, Any] = {
        "rmse_threshold": rmse_threshold,
        "auroc_threshold": auroc_threshold,
        "feature_prediction": None,
        "one_step_ahead": None,
        "one_step_ahead_without_time": None,
        "one_step_ahead_per_feature": None,
    }
    outcomes = []
    if original.feature_prediction is not None and generated.feature_prediction is not None:
        rows = []
        for position, feature in enumerate(original.features):
            task = original.tasks[position]
            row = _compare(float(original.feature_prediction[position]), float(generated.feature_prediction[position]))
            row["passed"] = generated.tasks[position] == task and passes(
                row["generated"], row["original"], task, auroc_threshold, rmse_threshold
            )
            row["generated_task"] = generated.tasks[position]
            metric = "AUROC" if task == "classification" else "RMSE"
            row |= _beside_constant(row, 0.5 if metric == "AUROC" else float(constant.per_feature[feature]), metric)
            if not row["better_than_constant"]:
                row["passed"] = None
            rows.append({"index": feature, "name": names[feature], "task": task, "metric": metric, **row})
        verdict["feature_prediction"] = rows
        outcomes += [row["passed"] for row in rows]
    if original.one_step_ahead is not None and generated.one_step_ahead is not None:
        official = _compare(original.one_step_ahead, generated.one_step_ahead)
        official["passed"] = passes(
            official["generated"], official["original"], "regression", auroc_threshold, rmse_threshold
        )
        without_time = _compare(original.one_step_ahead_without_time, generated.one_step_ahead_without_time)
        without_time |= _beside_constant(without_time, constant.without_time, "RMSE")
        if not without_time["better_than_constant"]:
            official["passed"] = None
        outcomes.append(official["passed"])
        verdict["one_step_ahead"] = official
        verdict["one_step_ahead_without_time"] = without_time
        pairs = zip(original.one_step_ahead_per_feature, generated.one_step_ahead_per_feature, strict=True)
        verdict["one_step_ahead_per_feature"] = [
            {"index": feature, "name": names[feature], **_compare(float(before), float(after))}
            for feature, (before, after) in enumerate(pairs)
        ]
    verdict["passed"] = False if False in outcomes else None if None in outcomes else True
    verdict["ratio_geometric_mean"] = geometric_mean(row["ratio"] for row in rmse_rows(verdict))
    return verdict


def _compare(original: float, generated: float) -> dict[str, Any]:
    ratio = generated / original if original > 0 else (1.0 if generated == original else None)
    return {"original": original, "generated": generated, "ratio": ratio}


def _beside_constant(row: dict[str, Any], constant: float, metric: str) -> dict[str, Any]:
    better = row["original"] > constant if metric == "AUROC" else row["original"] < constant
    return {"constant": constant, "better_than_constant": bool(better)}


def rmse_rows(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the utility ratio is over: tested features judged by RMSE, and one-step-ahead. All without time."""
    rows = [row for row in verdict["feature_prediction"] or [] if row["metric"] == "RMSE" and row["index"] != 0]
    return rows + ([verdict["one_step_ahead_without_time"]] if verdict["one_step_ahead_without_time"] else [])


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Return the geometric mean of those ratios that are positive and finite. None where there are none."""
    usable = [ratio for ratio in ratios if ratio and np.isfinite(ratio)]
    return float(np.exp(np.mean(np.log(usable)))) if usable else None
