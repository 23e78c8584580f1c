"""What a participant of 2020 wrote beside the kit imports and runs here: its names, keywords and returned forms."""

import importlib.machinery
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT

from examples.hider.timegan import utils as timegan_utils
from examples.hider.timegan.timegan import timegan
from examples.seeker.binary_predictor.binary_predictor import binary_predictor
from examples.seeker.knn.knn_seeker import knn_seeker
from scoring.contract import check_generated, check_labels
from utils import general_rnn, metric_utils

STAYS, TIME_POINTS, FEATURES = 24, 6, 4


@pytest.fixture
def data(rng: np.random.Generator) -> np.ndarray:
    """Imputed and scaled stays, a third of them padded at the front."""
    data = rng.random((2 * STAYS, TIME_POINTS, FEATURES))
    data[:, :, 0] = np.arange(TIME_POINTS)
    data[::3, :2] = -1
    return data


def load(path: Path) -> ModuleType:
    """Import a file whatever its suffix."""
    loader = importlib.machinery.SourceFileLoader(path.name.split(".")[0], str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_files_to_start_from_play_by_the_contract(data, tmp_path):
    members = {"seed": 3, "data": data[:STAYS], "padding_mask": data[:STAYS] == -1}
    for role in ("hider", "seeker"):
        (tmp_path / f"{role}.py").write_text((ROOT / f"{role}.py.example").read_text())
    generated, mask = load(tmp_path / "hider.py").hider(members)
    assert check_generated("it", (generated, mask), members["data"].shape) is not None
    seen = {
        "seed": 4,
        "generated_data": generated,
        "generated_data_padding_mask": mask,
        "enlarged_data": data,
        "enlarged_data_padding_mask": data == -1,
    }
    labels, _ = check_labels("it", load(tmp_path / "seeker.py").seeker(seen), len(data))
    assert labels[:STAYS].mean() > 0.9, "noise of 0.1 hides nobody"


def parameters_of(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_keywords_of_2020_are_taken():
    assert parameters_of(timegan)[0] == "ori_data"
    assert parameters_of(knn_seeker) == ["generated_data", "enlarged_data"]
    assert parameters_of(binary_predictor) == ["generated_data", "enlarged_data", "verbose"]
    assert parameters_of(metric_utils.feature_prediction)[-2:] == ["verbose", "debug"]
    assert parameters_of(metric_utils.one_step_ahead_prediction)[-2:] == ["verbose", "debug"]
    assert parameters_of(general_rnn.GeneralRNN.predict)[1:] == ["test_x"]


# --- the parts of TimeGAN that changed TimeGANs kept ---


def test_a_timegan_of_ones_own_draws_batches_and_noise(data):
    np.random.seed(0)
    time, longest = timegan_utils.extract_time(data)
    assert (time, longest) == ([TIME_POINTS] * len(data), TIME_POINTS)
    numbered = list(range(len(data)))
    stays, lengths = timegan_utils.batch_generator(numbered, [10 * i for i in numbered], 8)
    assert len(set(stays)) == 8
    assert lengths == [10 * i for i in stays]
    noise = timegan_utils.random_generator(2, 3, [4, TIME_POINTS], longest)
    assert [z.shape for z in noise] == [(TIME_POINTS, 3)] * 2
    assert (noise[0][:4] > 0).all()
    assert (noise[0][4:] == 0).all()
    assert (noise[1] > 0).all()


def test_the_legacy_seed_fixes_what_is_drawn(data):
    drawn = []
    for _ in range(2):
        np.random.seed(7)
        drawn.append(timegan_utils.random_generator(2, 3, [4, 5], 6))
    np.testing.assert_array_equal(*drawn)


def test_a_split_keeps_stays_with_their_lengths():
    parts = timegan_utils.train_test_divide(range(10), range(20, 25), range(10), range(20, 25), train_rate=0.8)
    train, train_hat, test, test_hat = parts[:4]
    assert (len(train), len(train_hat), len(test), len(test_hat)) == (8, 4, 2, 1)
    assert sorted(train + test) == list(range(10))
    assert sorted(train_hat + test_hat) == list(range(20, 25))
    assert parts[4:] == parts[:4]


def test_cells_are_todays_and_the_one_that_is_gone_is_named():
    with pytest.raises(ValueError, match="TensorFlow 1"):
        timegan_utils.rnn_cell("lstmLN", 4)
    with pytest.raises(ValueError, match="gru or lstm"):
        timegan_utils.rnn_cell("rnn", 4)
    keras = pytest.importorskip("keras")
    assert keras.layers.RNN(timegan_utils.rnn_cell("gru", 5))(np.zeros((2, 3, 4), np.float32)).shape == (2, 5)
    assert keras.layers.RNN(timegan_utils.rnn_cell("lstm", 5))(np.zeros((2, 3, 4), np.float32)).shape == (2, 5)


# --- networks and utility checks ---


def test_losses_leave_out_cells_below_zero():
    pytest.importorskip("keras")
    target = np.array([[0.0, 1.0, -1.0]], np.float32)
    p = np.array([[0.25, 0.25, 0.9]], np.float32)
    np.testing.assert_allclose(general_rnn.mse_loss(y_true=target, y_pred=p), [[0.0625, 0.5625, 0]], rtol=1e-5)
    entropy = [[-np.log(0.75), -np.log(0.25), 0]]
    np.testing.assert_allclose(general_rnn.binary_cross_entropy_loss(y_true=target, y_pred=p), entropy, rtol=1e-5)


def test_layers_are_added_one_by_one(data):
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((TIME_POINTS, FEATURES))])
    assert general_rnn.rnn_sequential(model, "gru", 5, return_seq=True, name="first") is model
    general_rnn.rnn_sequential(model, "lstm", 3, return_seq=False)
    assert model.layers[0].name == "first"
    assert model.output_shape == (None, 3)
    with pytest.raises(ValueError, match="rnn, lstm, gru"):
        general_rnn.rnn_sequential(model, "cnn", 3, return_seq=False)


def test_a_fitted_network_is_a_keras_model(data):
    pytest.importorskip("keras")
    settings = {"task": "regression", "model_type": "gru", "h_dim": 3, "n_layer": 1}
    rnn = general_rnn.GeneralRNN({**settings, "batch_size": 16, "epoch": 1, "learning_rate": 0.01})
    assert rnn.predictor_model is None
    fitted = rnn.fit(data[:, :, 1:], data[:, :, :1])
    assert fitted is rnn.predictor_model
    predicted = rnn.predict(test_x=data[:, :, 1:])
    np.testing.assert_allclose(fitted.predict(data[:, :, 1:], verbose=0), predicted, rtol=1e-4, atol=1e-6)
    untrained = rnn._build_model(data[:, :, 1:], data[:, 0])
    assert untrained.output_shape == (None, FEATURES)


def test_debugging_trains_for_one_epoch_only(data, monkeypatch):
    engine = pytest.importorskip("utils.gru_ensemble")
    asked = []

    def fit(predictors, series, *, epochs=None, **_):
        asked.append(epochs)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "fit", fit)
    for debug in (True, False):
        with pytest.raises(KeyboardInterrupt):
            metric_utils.feature_prediction(data, data, [1], debug=debug)
        with pytest.raises(KeyboardInterrupt):
            metric_utils.one_step_ahead_prediction(data, data, debug=debug)
    assert asked == [1, 1, None, None]
