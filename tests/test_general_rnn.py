"""GeneralRNN, the recurrent network under its 2020 name."""

import numpy as np
import pytest

from utils.general_rnn import GeneralRNN

PARAMETERS = {
    "task": "regression",
    "model_type": "gru",
    "h_dim": 6,
    "n_layer": 2,
    "batch_size": 16,
    "epoch": 3,
    "learning_rate": 0.01,
}
FAST = {**PARAMETERS, "model_type": "rnn", "n_layer": 1, "epoch": 1}


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    x = rng.random((60, 5, 3))
    x[::3, :2] = -1
    return x


@pytest.mark.parametrize(("model_type", "per_step"), [("gru", True), ("gru", False), ("lstm", True), ("rnn", False)])
def test_predictions_have_the_targets_shape(model_type, per_step, x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = x[:, :, :2] if per_step else x[:, -1, :1]
    model = GeneralRNN({**PARAMETERS, "model_type": model_type, "n_layer": 1, "epoch": 1})
    assert model.fit(x, y).predict(x).shape == y.shape


def test_the_same_seed_gives_the_same_model_and_another_seed_another(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    first, second, other = (GeneralRNN({**FAST, "seed": s}).fit(x, x[:, -1, :1]).predict(x) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_classifier_of_stays_learns_a_threshold(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = (x[:, -1, :1] > 0.5).astype(float)
    p = GeneralRNN({**FAST, "task": "classification", "epoch": 12, "learning_rate": 0.05}).fit(x, y).predict(x)
    assert ((p > 0) & (p < 1)).all()
    assert np.mean((p > 0.5) == y) > 0.85


def test_cells_below_zero_do_not_count(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = np.concatenate([x[:, -1, :1], np.full((len(x), 1), -1.0)], axis=1)
    absurd = np.where(y < 0, -1000, y)
    fits = [GeneralRNN(FAST).fit(x, targets).predict(x) for targets in (y, absurd)]
    np.testing.assert_array_equal(*fits)


def test_the_best_epoch_is_kept(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = x[:, -1, :1]
    model = GeneralRNN({**FAST, "epoch": 8, "learning_rate": 1.0})  # so large that the loss jumps
    model.fit(x, y)
    losses = model.validation_loss
    assert np.argmin(losses) < len(losses) - 1
    held_out = np.random.default_rng(0).permutation(len(x))[: int(0.2 * len(x))]
    assert np.mean(np.square(model.predict(x[held_out]) - y[held_out])) == pytest.approx(min(losses), rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"model_type": "cnn"}, "model_type"), ({"task": "ranking"}, "task"), ({"h_dim": None}, "h_dim")],
)
def test_wrong_parameters_are_named(change, message):
    parameters = {k: v for k, v in {**PARAMETERS, **change}.items() if v is not None}
    with pytest.raises(ValueError, match=message):
        GeneralRNN(parameters)
