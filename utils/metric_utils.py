"""What a match measures: who was re-identified, and what models trained on the generated data are worth.

The 2020 names take and return what they did in 2020. `utility_scores` trains all models of a match as one job.
Training needs TensorFlow. Importing this module and the re-identification score do not.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.misc import legacy_rng

if TYPE_CHECKING:
    from utils import gru_ensemble


@dataclass(frozen=True)
class UtilityScores:
    """What the predictors of one training set and one seed score on held-out stays.

    Attributes
    ----------
    features : tuple of int
        The features predicted from the others.
    tasks : tuple of str
        "regression" or "classification", per tested feature.
    feature_prediction : ndarray, shape [len(features)], or None
        RMSE of a regression, AUROC of a classification (NaN where the held-out stays hold one class only). None
        where the check was not run.
    one_step_ahead : float or None
        RMSE over all features, time in hours among them, which makes up most of it: the official score.
    one_step_ahead_per_feature : ndarray, shape [F], or [0] where the check was not run
        RMSE of each feature. That of time in hours.
    one_step_ahead_without_time : float
        RMSE over features 1 and up, all in [0, 1]. NaN where the check was not run.
    """

    features: tuple[int, ...]
    tasks: tuple[str, ...]
    feature_prediction: np.ndarray | None
    one_step_ahead: float | None
    one_step_ahead_per_feature: np.ndarray
    one_step_ahead_without_time: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. NaN is None, and None of a check not run is its absence."""
        facts = {name: _plain(value) for name, value in vars(self).items()}
        return {name: value for name, value in facts.items() if getattr(self, name) is not None}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "UtilityScores":
        """Undo `to_json`."""
        ahead, prediction = facts.get("one_step_ahead", ()), facts.get("feature_prediction")
        return cls(
            tuple(facts["features"]),
            tuple(facts["tasks"]),
            None if prediction is None else np.array(prediction, dtype=float),
            None if ahead == () else float(np.array(ahead, dtype=float)),
            np.array(facts["one_step_ahead_per_feature"], dtype=float),
            float(np.array(facts["one_step_ahead_without_time"], dtype=float)),
        )


class UtilityPredictors:
    """The predictors of the utility checks: trained once, then asked about any number of data sets.

    Parameters
    ----------
    features : sequence of int
        The features to predict from the others. None for one-step-ahead alone.
    seeds : sequence of int
        One set of predictors is trained from each.
    one_step_ahead : bool
        Whether to train the one-step-ahead predictor.
    """

    def __init__(self, features: Sequence[int], seeds: Sequence[int], *, one_step_ahead: bool = True) -> None:
        self.features = tuple(int(feature) for feature in features)
        self.seeds = tuple(int(seed) for seed in seeds)
        self.one_step_ahead = one_step_ahead
        self._fitted: dict[str, list[gru_ensemble.Fitted]] = {}

    def fit(
        self,
        train_sets: Mapping[str, np.ndarray],
        test: np.ndarray,
        *,
        epochs: int | None = None,
        workers: int | None = None,
        progress: bool = False,
    ) -> "UtilityPredictors":
        """Train on every data set, as one job.

        Parameters
        ----------
        train_sets : mapping of str to ndarray, shape [N, T, F]
            Preprocessed and imputed data, padding -1.
        test : ndarray, shape [N', T, F]
            A feature with exactly two values here and in a training set is a classification there.
        epochs : int, optional
            Passes over the data. By default the challenge's 20.
        workers : int, optional
            Threads on a CPU. By default one a core.
        progress : bool
            Whether to show a progress bar.

        Returns
        -------
        UtilityPredictors
            Itself.

        Raises
        ------
        ModuleNotFoundError
            Without TensorFlow.
        ValueError
            If the data sets' shapes do not fit together or a feature is not among theirs.
        """
        for name, data in {"test": test, **train_sets}.items():
            _check_data(name, data, np.shape(test)[1:], self.features)
        engine = _engine()
        predictors = []
        for name, data in train_sets.items():
            targets: list[tuple[int | None, float | None]] = [(None, None)] if self.one_step_ahead else []
            targets += [(feature, _binary_threshold(data, test, feature)) for feature in self.features]
            predictors += [engine.Predictor(name, t, seed, cut) for seed in self.seeds for t, cut in targets]
        packed = {name: engine.Series.from_padded(data) for name, data in train_sets.items()}
        fitted = engine.fit(predictors, packed, epochs=epochs, workers=workers, progress=progress)
        self._fitted = {name: [model for model in fitted if model.predictor.data == name] for name in train_sets}
        return self

    def score(self, data: np.ndarray) -> dict[str, list[UtilityScores]]:
        """Score the trained predictors on preprocessed and imputed data, shape [N, T, F].

        Returns
        -------
        dict of str to list of UtilityScores
            For each training set, one a seed.
        """
        if not self._fitted:
            raise ValueError("UtilityPredictors.score: call fit first")
        _check_data("data", data, data.shape[1:], self.features)
        series = _engine().Series.from_padded(data)
        return {
            name: [self._scores([m for m in models if m.predictor.seed == seed], series) for seed in self.seeds]
            for name, models in self._fitted.items()
        }

    def training_log(self) -> list[str]:
        """Say of each trained model which epoch was kept, and its validation loss then and in the first epoch."""
        lines = []
        for name, models in self._fitted.items():
            for model in models:
                losses, target = model.validation_loss, model.predictor.target
                what = "one-step-ahead" if target is None else f"feature {target}"
                kept = int(np.argmin(losses))
                lines.append(
                    f"{name}, {what}, seed {model.predictor.seed}: validation loss {losses[0]:.4g} after 1 epoch, "
                    f"{losses[kept]:.4g} after {kept + 1} of {len(losses)}, which was kept"
                )
        return lines

    def _scores(self, models: "list[gru_ensemble.Fitted]", series: "gru_ensemble.Series") -> UtilityScores:
        evaluate = _engine().evaluate
        ahead, per_feature, without_time = None, np.empty(0), float("nan")
        scores: dict[int, float] = {}
        tasks: dict[int, str] = {}
        for model in models:
            result, target = evaluate(model, series), model.predictor.target
            if target is None:
                ahead = _root_mean(result.squared_error, result.cells)
                with np.errstate(invalid="ignore"):
                    per_feature = np.sqrt(result.squared_error / result.cells)
                without_time = _root_mean(result.squared_error[1:], result.cells[1:])
            elif model.predictor.threshold is None:
                scores[target], tasks[target] = _root_mean(result.squared_error, result.cells), "regression"
            else:
                scores[target], tasks[target] = _auroc(result.labels, result.probabilities), "classification"
        return UtilityScores(
            self.features,
            tuple(tasks[feature] for feature in self.features),
            np.array([scores[feature] for feature in self.features]) if self.features else None,
            ahead,
            per_feature,
            without_time,
        )


def utility_scores(
    train_sets: Mapping[str, np.ndarray],
    test: np.ndarray,
    features: Sequence[int],
    seeds: Sequence[int],
    *,
    one_step_ahead: bool = True,
    feature_prediction: bool = True,
    progress: bool = False,
    verbose: bool = False,
    epochs: int | None = None,
    workers: int | None = None,
) -> dict[str, list[UtilityScores]]:
    """Train the predictors of both utility checks on every data set and score them on held-out stays.

    The models are the challenge's: 3 GRU layers as wide as the data, 20 epochs of Adam at 1e-3 in batches of 128,
    the weights of the best validation loss. All of them (data sets x seeds x features) are one job, see
    `utils.gru_ensemble`. What a model scores depends on its own data, target and seed alone.

    Parameters
    ----------
    train_sets : mapping of str to ndarray, shape [N, T, F]
        Data to train on, e.g. original and generated, preprocessed and imputed.
    test : ndarray, shape [N', T, F]
        Held-out stays, preprocessed and imputed.
    features : sequence of int
        The features to predict from the others.
    seeds : sequence of int
        One set of models is trained from each.
    one_step_ahead, feature_prediction : bool
        Which checks to run.
    progress : bool
        Whether to show a progress bar.
    verbose : bool
        Whether to print how each model's training went.
    epochs : int, optional
        Passes over the data. By default the challenge's 20.
    workers : int, optional
        Threads on a CPU. By default one a core.

    Returns
    -------
    dict of str to list of UtilityScores
        For each training set, one a seed.

    Raises
    ------
    ModuleNotFoundError
        Without TensorFlow.
    ValueError
        If the data sets' shapes do not fit together or a feature is not among theirs.
    """
    predictors = UtilityPredictors(features if feature_prediction else (), seeds, one_step_ahead=one_step_ahead)
    predictors.fit(train_sets, test, epochs=epochs, workers=workers, progress=progress)
    if verbose:
        print("\n".join(predictors.training_log()))
    return predictors.score(test)


def feature_prediction(
    train_data: np.ndarray, test_data: np.ndarray, index: Sequence[int], verbose: bool = False, debug: bool = False
) -> tuple[np.ndarray, list[str]]:
    """Predict features from the others at the same time points. Seeded by NumPy's global state, as in 2020.

    Parameters
    ----------
    train_data, test_data : ndarray, shape [N, T, F]
        Preprocessed and imputed data to train and to test on.
    index : sequence of int
        The features to predict.
    verbose : bool
        Whether to show a progress bar.
    debug : bool
        Whether to train for one epoch only: to see that all runs, not how well it does.

    Returns
    -------
    scores : ndarray, shape [len(index)]
        RMSE of a regression, AUROC of a classification.
    tasks : list of str
        "regression" or "classification", per feature.
    """
    scores = _legacy_scores(train_data, test_data, index, verbose, debug, one_step_ahead=False)
    return np.empty(0) if scores.feature_prediction is None else scores.feature_prediction, list(scores.tasks)


def one_step_ahead_prediction(
    train_data: np.ndarray, test_data: np.ndarray, verbose: bool = False, debug: bool = False
) -> np.float64:
    """Predict all features at the next time point. Seeded by NumPy's global state, as in 2020.

    Parameters
    ----------
    train_data, test_data : ndarray, shape [N, T, F]
        Preprocessed and imputed data to train and to test on.
    verbose : bool
        Whether to show a progress bar.
    debug : bool
        Whether to train for one epoch only: to see that all runs, not how well it does.

    Returns
    -------
    float
        RMSE over all features, time among them.
    """
    scores = _legacy_scores(train_data, test_data, (), verbose, debug, one_step_ahead=True)
    return np.float64(scores.one_step_ahead)


def reidentify_score(enlarge_label: np.ndarray, pred_label: np.ndarray) -> float:
    """Return the accuracy of a seeker's labels, where above 0.5 means "was used by the hider"."""
    return float(np.mean((np.asarray(enlarge_label).ravel() > 0.5) == (np.asarray(pred_label).ravel() > 0.5)))


def rmse_error(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the root mean squared error over the cells whose true value is not padding (not below 0)."""
    y_true = np.asarray(y_true)
    counted = y_true >= 0
    return float(np.sqrt(np.mean(np.square(y_true[counted] - np.asarray(y_pred)[counted]))))


def _legacy_scores(
    train: np.ndarray, test: np.ndarray, features: Sequence[int], verbose: bool, debug: bool, *, one_step_ahead: bool
) -> UtilityScores:
    scores = utility_scores(
        {"train": train},
        test,
        np.ravel(features).tolist(),
        [int(legacy_rng().integers(2**31))],
        one_step_ahead=one_step_ahead,
        progress=verbose,
        epochs=1 if debug else None,
    )
    return scores["train"][0]


def _binary_threshold(train: np.ndarray, test: np.ndarray, feature: int) -> float | None:
    """Return what lies between a feature's values if it has two in each data set, padding aside, else None."""
    values = [np.unique(data[:, :, feature][(data != -1).any(axis=2)]) for data in (train, test)]
    return float(values[0].mean()) if all(len(distinct) == 2 for distinct in values) else None


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def _root_mean(squared_error: np.ndarray, cells: np.ndarray) -> float:
    return float(np.sqrt(squared_error.sum() / cells.sum())) if cells.sum() else float("nan")


def _auroc(labels: np.ndarray | None, probabilities: np.ndarray | None) -> float:
    from sklearn.metrics import roc_auc_score

    if labels is None or len(np.unique(labels)) < 2:
        return float("nan")
    return float(roc_auc_score(labels, probabilities))


def _check_data(name: str, data: np.ndarray, shape: tuple[int, ...], features: Sequence[int]) -> None:
    if np.ndim(data) != 3 or not len(data) or data.shape[1:] != shape:
        raise ValueError(f"{name}: expected stays of shape {shape}, got an array of shape {np.shape(data)}")
    if not np.isfinite(data).all():
        raise ValueError(f"{name}: NaN or infinite values; preprocess and impute the data first")
    if any(not 0 <= feature < data.shape[2] for feature in features):
        raise ValueError(f"{name}: features {list(features)} to predict, but the data have {data.shape[2]}")


def _engine() -> Any:
    """Import the engine, and TensorFlow with it, when models are trained and not before."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # on, it says so on stderr whatever the log level
    try:
        from utils import gru_ensemble
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"training utility models needs TensorFlow ({error}); install tensorflow") from error
    return gru_ensemble
