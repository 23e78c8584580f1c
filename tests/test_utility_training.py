"""The utility checks' models: the same as Keras' in what they compute, and scores that mean what they say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from utils import metric_utils

pytest.importorskip("tensorflow", reason="training models needs TensorFlow")

import keras
import tensorflow as tf

from utils import gru_ensemble as engine
from utils.misc import temp_seed_numpy

ROOT = Path(__file__).resolve().parent.parent
FEATURES, TIME_POINTS = 4, 7


def padded_stays(rng: np.random.Generator, stays: int = 40, time_points: int = TIME_POINTS) -> np.ndarray:
    """Stays of 1 to `time_points` steps, padding at the front: hours, two random features, and their product."""
    data = rng.random((stays, time_points, FEATURES))
    data[:, :, 0] = np.cumsum(data[:, :, 0], axis=1)
    data[:, :, 3] = data[:, :, 1] * data[:, :, 2]
    lengths = rng.integers(1, time_points + 1, stays)
    data[np.arange(time_points) < (time_points - lengths)[:, None]] = -1
    return data.astype(np.float32)


@pytest.fixture
def data(rng: np.random.Generator) -> np.ndarray:
    return padded_stays(rng)


@pytest.fixture
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "EPOCHS", 3)


@pytest.fixture
def fast_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four units and few stays take small steps too long."""
    monkeypatch.setattr(engine, "LEARNING_RATE", 0.03)


def random_model(target: int | None, rng: np.random.Generator, threshold: float | None = None) -> engine.Fitted:
    """A model with random weights everywhere, biases too (they start at zero and would hide a mix-up)."""
    predictor = engine.Predictor("data", target, 3, threshold)
    first = engine._first_weights(predictor, FEATURES)
    weights = [part[None] + rng.normal(0, 0.3, (1, *part.shape)).astype(np.float32) for part in first]
    if target is not None:
        weights[0][:, 0, :, target] = 0
    return engine.Fitted(predictor, engine.Weights(*weights), ())


def keras_twin(fitted: engine.Fitted) -> keras.Model:
    """The challenge's model in plain Keras, with the same weights; it never sees the target's column."""
    target, weights = fitted.predictor.target, [part[0] for part in fitted.weights]
    seen = [i for i in range(FEATURES) if i != target]
    model = keras.Sequential([keras.Input((None, len(seen))), keras.layers.Masking(-1.0)])
    for i in range(engine.LAYERS):
        layer = keras.layers.GRU(FEATURES, return_sequences=True, reset_after=True)
        model.add(layer)
        kernel = weights[0][i][:, seen] if i == 0 else weights[0][i]
        layer.set_weights([kernel.T, weights[1][i].T, weights[2][i]])
    head = keras.layers.Dense(len(weights[4]), "sigmoid" if fitted.predictor.threshold is not None else None)
    model.add(head)
    head.set_weights([weights[3].T, weights[4]])
    return model


def task_arrays(fitted: engine.Fitted, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a task on padded data, as the challenge cuts them."""
    target = fitted.predictor.target
    if target is None:
        return data[:, :-1], data[:, 1:]
    return np.delete(data, target, axis=2), data[:, :, [target]]


def first_batch(fitted: engine.Fitted, data: np.ndarray) -> tuple:
    series = engine.Series.from_padded(data)
    rows, ends = next(engine._batches([np.arange(len(series))], [series]))
    return series.values[rows], ends, engine._target([fitted.predictor])


@pytest.mark.parametrize("target", [None, 0, 2])
def test_scores_are_those_of_the_same_keras_model(target, data, rng):
    fitted = random_model(target, rng)
    x, y = task_arrays(fitted, data)
    error = np.where(y >= 0, keras_twin(fitted).predict(x, verbose=0) - y, 0)
    scored = engine.evaluate(fitted, engine.Series.from_padded(data))
    np.testing.assert_allclose(scored.squared_error, np.square(error).sum(axis=(0, 1)), rtol=1e-4)
    np.testing.assert_array_equal(scored.cells, (y >= 0).sum(axis=(0, 1)))


def test_masked_steps_anywhere_keep_the_state_as_in_keras(data, rng):
    data[::2, 3] = -1  # a hole in the middle
    data[1::2, -2:] = -1  # padding at the end
    data[:, 4, :2] = -1  # all that the model of feature 2 or 3 sees but one
    fitted = random_model(2, rng)
    data[5, 5] = [-1, -1, 0.7, -1]  # a target where all inputs are masked
    x, y = task_arrays(fitted, data)
    error = np.where(y >= 0, keras_twin(fitted).predict(x, verbose=0) - y, 0)
    scored = engine.evaluate(fitted, engine.Series.from_padded(data))
    np.testing.assert_allclose(scored.squared_error[0], np.square(error).sum(), rtol=1e-4)


@pytest.mark.parametrize(("target", "threshold"), [(None, None), (1, None), (3, 0.3)])
def test_written_out_gradients_equal_automatic_ones(target, threshold, data, rng):
    fitted = random_model(target, rng, threshold)
    twin, (x, y) = keras_twin(fitted), task_arrays(fitted, data)
    counted = y >= 0
    if threshold is not None:
        y = (y > threshold).astype(np.float32)
    with tf.GradientTape() as tape:
        p = twin(x)
        cell = tf.square(p - y) if threshold is None else -(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))
        loss = tf.reduce_sum(tf.where(counted, cell, 0.0)) / counted.sum()
    expected = [g.numpy() for g in tape.gradient(loss, twin.trainable_variables)]
    own_loss, own = engine._loss_and_gradient(fitted.weights, *first_batch(fitted, data))
    assert float(own_loss[0]) == pytest.approx(float(loss), rel=1e-5)
    kernel, recurrent, bias, head, head_bias = (part[0].numpy() for part in own)
    if target is not None:
        assert (kernel[0][:, target] == 0).all()
        first_kernel = np.delete(kernel[0], target, axis=1)
    else:
        first_kernel = kernel[0]
    for layer in range(engine.LAYERS):
        own_kernel = first_kernel if layer == 0 else kernel[layer]
        np.testing.assert_allclose(own_kernel.T, expected[3 * layer], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(recurrent[layer].T, expected[3 * layer + 1], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(bias[layer], expected[3 * layer + 2], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(head.T, expected[-2], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(head_bias, expected[-1], rtol=1e-3, atol=1e-6)


def test_the_loop_narrows_without_changing_the_gradient(rng):
    data = padded_stays(rng, stays=engine.BATCH)  # a full batch: both widths run
    fitted = random_model(1, rng)
    rows, ends, target = first_batch(fitted, data)
    assert 0 < ends[0] < ends[-1]
    _, narrowed = engine._loss_and_gradient(fitted.weights, rows, ends, target)
    _, full = engine._loss_and_gradient(fitted.weights, rows, np.full_like(ends, TIME_POINTS), target)
    for a, b in zip(narrowed, full, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-7)


def test_a_step_of_adam_is_that_of_keras(data, rng):
    fitted = random_model(None, rng)
    rows, ends, target = first_batch(fitted, data)
    zeros = engine.Weights(*(np.zeros_like(part) for part in fitted.weights))
    weights, mean, square = fitted.weights, zeros, zeros
    variables = [tf.Variable(part) for part in weights]
    adam = keras.optimizers.Adam(engine.LEARNING_RATE)
    for step in (1, 2):
        _, gradient = engine._loss_and_gradient(weights, rows, ends, target)
        adam.apply_gradients(zip(gradient, variables, strict=True))
        counts, rate = np.array([step], np.float32), np.float32(engine.LEARNING_RATE)
        weights, mean, square = engine._train(weights, mean, square, counts, np.array([True]), rate, rows, ends, target)
    for own, other in zip(weights, variables, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), atol=1e-6)


def test_models_side_by_side_learn_what_each_learns_alone(data, rng, few_epochs):
    """What a GPU does: the models of a kind advance together, data sets of different sizes among them."""
    sets = {"a": engine.Series.from_padded(data), "b": engine.Series.from_padded(padded_stays(rng, stays=200))}
    models = [engine.Predictor("a", 1, 5), engine.Predictor("b", 2, 5), engine.Predictor("a", 3, 6, 0.3)]
    values = {name: series.values for name, series in sets.items()}
    together = engine._fit_group(models, sets, values, engine.EPOCHS, engine.threading.Event(), lambda: None)
    for one, alone in zip(together, engine.fit(models, sets), strict=True):
        np.testing.assert_allclose(one.validation_loss, alone.validation_loss, rtol=1e-4)
        np.testing.assert_allclose(one.weights.kernel, alone.weights.kernel, atol=1e-4)


def test_a_models_score_depends_on_its_own_data_target_and_seed_alone(data, rng, few_epochs):
    test, other = padded_stays(rng), padded_stays(rng, stays=25)
    many = metric_utils.utility_scores({"x": other, "y": data}, test, [1, 3], [0, 9], workers=2)
    one = metric_utils.utility_scores({"y": data}, test, [3], [9], one_step_ahead=False, workers=1)
    assert one["y"][0].feature_prediction[0] == many["y"][1].feature_prediction[1]
    ahead = metric_utils.utility_scores({"y": data}, test, [3], [9], feature_prediction=False)["y"][0]
    np.testing.assert_array_equal(ahead.one_step_ahead_per_feature, many["y"][1].one_step_ahead_per_feature)
    assert many["y"][0].feature_prediction[1] != many["y"][1].feature_prediction[1]


def test_the_weights_of_the_best_validation_loss_are_kept(data, monkeypatch):
    monkeypatch.setattr(engine, "EPOCHS", 8)
    monkeypatch.setattr(engine, "LEARNING_RATE", 1.0)  # so large that the loss jumps up and down
    series = engine.Series.from_padded(data)
    (fitted,) = engine.fit([engine.Predictor("d", 1, 0)], {"d": series})
    losses = np.array(fitted.validation_loss)
    assert losses.argmin() < len(losses) - 1
    _, held_out = engine._split(len(series), np.random.default_rng([0, 0]))
    scored = engine.evaluate(fitted, engine.Series.from_padded(data[held_out]))
    assert scored.squared_error.sum() / scored.cells.sum() == pytest.approx(losses.min(), rel=1e-4)


def test_what_can_be_learnt_is_learnt(rng, fast_learning):
    train, test = padded_stays(rng, stays=600), padded_stays(rng, stays=200)
    scores = metric_utils.utility_scores({"train": train}, test, [3, 1], [0])["train"][0]
    product = test[:, :, 3][test[:, :, 3] >= 0]
    assert scores.feature_prediction[0] < 0.5 * product.std()
    mean_of_next = test[:, 1:, 1][test[:, 1:, 1] >= 0]
    assert scores.one_step_ahead_per_feature[1] == pytest.approx(mean_of_next.std(), rel=0.15)  # nothing to learn


def test_one_step_ahead_with_and_without_time_are_of_the_same_cells(data, rng, few_epochs):
    test = padded_stays(rng)
    scores = metric_utils.utility_scores({"train": data}, test, [], [0])["train"][0]
    per_feature = scores.one_step_ahead_per_feature
    assert scores.feature_prediction is None
    assert scores.one_step_ahead == pytest.approx(np.sqrt(np.mean(per_feature**2)))
    assert scores.one_step_ahead_without_time == pytest.approx(np.sqrt(np.mean(per_feature[1:] ** 2)))


def test_a_target_of_two_values_is_scored_by_auroc_and_the_next_one_is_not(rng, fast_learning):
    train, test = padded_stays(rng, stays=300), padded_stays(rng, stays=100)
    for part in (train, test):
        part[:, :, 1] = np.where(part[:, :, 1] < 0, -1, part[:, :, 2] > 0.5)
    scores = metric_utils.utility_scores({"train": train}, test, [1, 3], [0], one_step_ahead=False)["train"][0]
    assert scores.tasks == ("classification", "regression")
    assert 0.8 < scores.feature_prediction[0] <= 1
    assert scores.feature_prediction[1] < 0.5
    assert scores.one_step_ahead is None


def test_two_values_in_one_of_the_sets_only_are_a_regression(rng, few_epochs):
    train, test = padded_stays(rng), padded_stays(rng)
    train[:, :, 1] = np.where(train[:, :, 1] < 0, -1, train[:, :, 1] > 0.5)
    scores = metric_utils.utility_scores({"train": train}, test, [1], [0], one_step_ahead=False)["train"][0]
    assert scores.tasks == ("regression",)


def test_auroc_of_one_class_is_nan_not_a_crash():
    assert np.isnan(metric_utils._auroc(np.ones(3), np.array([0.1, 0.2, 0.3])))


def test_fitted_once_the_predictors_score_any_data(data, rng, few_epochs):
    candidate = padded_stays(rng)
    predictors = metric_utils.UtilityPredictors([1], [0]).fit({"real": data}, data)
    again = metric_utils.utility_scores({"real": data}, candidate, [1], [0])["real"][0]
    scored = predictors.score(candidate)["real"][0]
    np.testing.assert_array_equal(scored.feature_prediction, again.feature_prediction)
    assert scored.one_step_ahead == again.one_step_ahead


def test_2020_names_are_seeded_by_numpys_global_state(data, rng, few_epochs):
    test = padded_stays(rng)

    def run(seed: int) -> tuple:
        with temp_seed_numpy(seed):
            scores, tasks = metric_utils.feature_prediction(data, test, np.array([1, 3]))
            return (*scores, *tasks, metric_utils.one_step_ahead_prediction(data, test))

    assert run(0) == run(0) != run(1)
    assert isinstance(run(0)[-1], np.float64)


@pytest.mark.parametrize("stays", [1, 3, 6])
def test_a_handful_of_stays_is_enough(stays, rng, few_epochs):
    data = padded_stays(rng, stays=stays)
    scores = metric_utils.utility_scores({"few": data}, data, [1], [0])["few"][0]
    assert np.isfinite(scores.feature_prediction).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:, :-1], "train: expected"),
        (lambda d: d[0], "test: expected"),
        (lambda d: np.where(d == d[0, -1, 1], np.nan, d), "test: NaN"),
        (lambda d: d[:0], "test: expected"),
    ],
)
def test_data_that_do_not_fit_are_named(change, message, data):
    with pytest.raises(ValueError, match=message):
        metric_utils.utility_scores({"train": data}, change(data), [3], [0])


def test_rmse_counts_cells_that_are_not_padding():
    y = np.array([[[1.0], [2.0]], [[-1.0], [4.0]]])
    p = np.array([[[2.0], [2.0]], [[50.0], [2.0]]])
    assert metric_utils.rmse_error(y, p) == pytest.approx(np.sqrt((1 + 0 + 4) / 3))


def test_reidentification_score_is_the_accuracy_in_any_shape():
    assert metric_utils.reidentify_score(np.array([1, 1, 0, 0]), np.array([[0.9], [0.2], [0.5], [0.0]])) == 0.75


def test_without_tensorflow_the_module_imports_and_training_says_what_is_missing():
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import numpy as np\nfrom utils.metric_utils import reidentify_score, one_step_ahead_prediction\n"
        "print(reidentify_score(np.ones(2), np.ones(2)))\n"
        "try: one_step_ahead_prediction(np.ones((3, 2, 2)), np.ones((3, 2, 2)))\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("1.0\n")
    assert "install tensorflow" in run.stdout
