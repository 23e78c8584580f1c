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


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    x = rng.random((60, 5, 3))
    x[::3, :2] = -1
    return x


@pytest.mark.parametrize("model_type", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("per_step", [True, False])
def test_predictions_have_the_targets_shape_and_depend_on_the_seed_alone(model_type, per_step, x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = x[:, :, :2] if per_step else x[:, -1, :1]
    parameters = {**PARAMETERS, "model_type": model_type, "n_layer": 1, "epoch": 1}
    first, second = (GeneralRNN(parameters).fit(x, y).predict(x) for _ in range(2))
    assert first.shape == y.shape
    np.testing.assert_array_equal(first, second)
    other = GeneralRNN({**parameters, "seed": 1}).fit(x, y).predict(x)
    assert not np.array_equal(first, other)


def test_a_classifier_of_stays_learns_a_threshold(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = (x[:, -1, :1] > 0.5).astype(float)
    p = GeneralRNN({**PARAMETERS, "task": "classification", "epoch": 40}).fit(x, y).predict(x)
    assert ((p > 0) & (p < 1)).all()
    assert np.mean((p > 0.5) == y) > 0.85


def test_cells_below_zero_do_not_count(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = x[:, :, :1].copy()
    y[:, 2] = -1
    absurd = y.copy()
    absurd[:, 2] = -1000
    np.testing.assert_array_equal(
        GeneralRNN(PARAMETERS).fit(x, y).predict(x), GeneralRNN(PARAMETERS).fit(x, absurd).predict(x)
    )


def test_the_best_epoch_is_kept(x):
    pytest.importorskip("tensorflow", reason="training models needs TensorFlow")
    y = x[:, :, :1]
    model = GeneralRNN({**PARAMETERS, "epoch": 6, "learning_rate": 1.0})  # the loss jumps up and down
    held_out = np.random.default_rng(0).permutation(len(x))[: int(0.2 * len(x))]
    losses = []
    for epochs in range(1, 7):
        model.epoch = epochs
        p = model.fit(x, y).predict(x[held_out])
        counted = y[held_out] >= 0
        losses.append(np.mean(np.square(p - y[held_out])[counted]))
    assert losses == sorted(losses, reverse=True)  # more epochs never end in worse weights
    assert losses[-1] < losses[0] or len(set(losses)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [({"model_type": "cnn"}, "model_type"), ({"task": "ranking"}, "task"), ({"h_dim": None}, "h_dim")],
)
def test_wrong_parameters_are_named(change, message):
    parameters = {k: v for k, v in {**PARAMETERS, **change}.items() if v is not None}
    with pytest.raises(ValueError, match=message):
        GeneralRNN(parameters)
