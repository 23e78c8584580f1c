"""One recurrent network of any kind, fitted with Keras: the 2020 name that submissions build on."""

import os
from typing import Any

import numpy as np

from utils.data_preprocess import PADDING_FILL
from utils.misc import legacy_rng

MODEL_TYPES = ("rnn", "lstm", "gru")
TASKS = ("regression", "classification")


def mse_loss(y_true: Any, y_pred: Any) -> Any:
    """Return the squared error of each cell, as a Keras tensor. A cell whose target is below 0 gets 0."""
    ops = _keras().ops
    y_true, y_pred = _targets(ops, y_true, y_pred)
    return ops.where(y_true >= 0, ops.square(y_true - y_pred), 0.0)


def binary_cross_entropy_loss(y_true: Any, y_pred: Any) -> Any:
    """Return the cross-entropy of each cell's probability, as a Keras tensor. A cell whose target is below 0 gets 0."""
    keras = _keras()
    ops = keras.ops
    y_true, y_pred = _targets(ops, y_true, y_pred)
    p = ops.clip(y_pred, keras.config.epsilon(), 1 - keras.config.epsilon())
    return ops.where(y_true >= 0, -(y_true * ops.log(p) + (1 - y_true) * ops.log(1 - p)), 0.0)


def rnn_sequential(model: Any, model_name: str, h_dim: int, return_seq: bool, name: str | None = None) -> Any:
    """Add one recurrent layer to a Keras model.

    Parameters
    ----------
    model : keras.Sequential
        Changed in place.
    model_name : str
        "rnn", "lstm" or "gru".
    h_dim : int
        Units of the layer.
    return_seq : bool
        Whether the layer returns its state at each time step, or after the last step only.
    name : str, optional
        Name of the layer.

    Returns
    -------
    keras.Sequential
        The model that was given. First weights are seeded by NumPy's legacy generator, as in 2020.

    Raises
    ------
    ValueError
        For another `model_name`.
    """
    return _add_recurrent(_keras(), model, model_name, h_dim, return_seq, name, legacy_rng())


class GeneralRNN:
    """A stack of recurrent layers with a dense output, per time step or per stay.

    Needs TensorFlow when it is fitted, not when it is imported. For the many models of the utility checks
    `utils.gru_ensemble` does the same many times faster.

    Parameters
    ----------
    model_parameters : dict
        `task` ("regression" or "classification"), `model_type` ("rnn", "lstm" or "gru"), `h_dim` (units a layer),
        `n_layer`, `batch_size`, `epoch`, `learning_rate`, and optionally `seed` (default 0).

    Attributes
    ----------
    predictor_model : keras.Sequential or None
        The Keras model. None before `fit`.
    validation_loss : list of float
        Of each epoch.

    Raises
    ------
    ValueError
        If a parameter is missing or unknown.
    """

    def __init__(self, model_parameters: dict[str, Any]) -> None:
        names = ("task", "model_type", "h_dim", "n_layer", "batch_size", "epoch", "learning_rate")
        missing = [name for name in names if name not in model_parameters]
        if missing:
            raise ValueError(f"GeneralRNN: model_parameters lacks {', '.join(missing)}")
        self.task = model_parameters["task"]
        self.model_type = model_parameters["model_type"]
        if self.task not in TASKS:
            raise ValueError(f"GeneralRNN: task must be one of {', '.join(TASKS)}, not {self.task!r}")
        _check_model_type(self.model_type)
        self.h_dim, self.n_layer, self.batch_size, self.epoch = (int(model_parameters[name]) for name in names[2:6])
        self.learning_rate = float(model_parameters["learning_rate"])
        self.seed = int(model_parameters.get("seed", 0))
        self.predictor_model: Any = None
        self.validation_loss: list[float] = []

    def fit(self, x: np.ndarray, y: np.ndarray, valid_rate: float = 0.2, verbose: bool = False) -> Any:
        """Train, and keep the weights of the epoch with the lowest validation loss.

        Parameters
        ----------
        x : ndarray, shape [N, T, F]
            Inputs. A step whose inputs are all -1 is masked.
        y : ndarray, shape [N, T, K] or [N, K]
            Targets per time step or per stay. Cells below 0 do not count.
        valid_rate : float
            Share of the stays, drawn at random, that is held out for validation.
        verbose : bool
            Whether Keras reports each epoch.

        Returns
        -------
        keras.Sequential
            The trained model, `predictor_model`, as in 2020.

        Raises
        ------
        ModuleNotFoundError
            Without TensorFlow.
        """
        x, y = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.float32)
        if x.ndim != 3 or y.ndim not in (2, 3) or y.shape[: y.ndim - 1] != x.shape[: y.ndim - 1]:
            raise ValueError(f"GeneralRNN: x {x.shape} and y {y.shape} do not fit [N, T, F] and [N, T, K] or [N, K]")
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(x))
        held_out = int(len(x) * valid_rate)
        train, valid = order[held_out:], order[: held_out or len(x)]  # too few to hold any out: validate on all
        self.predictor_model = model = self._build(x, y, rng)
        self.validation_loss, best = [], model.get_weights()
        for _ in range(self.epoch):
            shuffled = rng.permutation(train)  # Keras' own shuffling would draw from global state
            epoch = model.fit(
                x[shuffled],
                y[shuffled],
                batch_size=self.batch_size,
                validation_data=(x[valid], y[valid]),
                shuffle=False,
                verbose=int(verbose),
            )
            self.validation_loss.append(epoch.history["val_loss"][0])
            if self.validation_loss[-1] == min(self.validation_loss):
                best = model.get_weights()
        model.set_weights(best)
        return model

    def predict(self, test_x: np.ndarray) -> np.ndarray:
        """Return predictions of shape [N, T, K] or [N, K] for inputs [N, T, F]. Probabilities for classifications."""
        if self.predictor_model is None:
            raise ValueError("GeneralRNN.predict: call fit first")
        return self.predictor_model.predict(np.asarray(test_x, dtype=np.float32), batch_size=self.batch_size, verbose=0)

    def _build_model(self, x: np.ndarray, y: np.ndarray) -> Any:
        """Return a new compiled Keras model for inputs [N, T, F] and targets [N, T, K] or [N, K]."""
        return self._build(x, y, np.random.default_rng(self.seed))

    def _build(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Any:
        keras = _keras()
        model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Masking(PADDING_FILL)])
        for i in range(self.n_layer):
            return_seq = y.ndim == 3 or i < self.n_layer - 1
            _add_recurrent(keras, model, self.model_type, self.h_dim, return_seq, None, rng)
        activation = "sigmoid" if self.task == "classification" else None
        first = keras.initializers.GlorotUniform(_seed(rng))
        model.add(keras.layers.Dense(y.shape[-1], activation, kernel_initializer=first))
        model.compile(keras.optimizers.Adam(self.learning_rate), _loss(keras, self.task), jit_compile=False)
        return model


def _check_model_type(model_type: str) -> None:
    if model_type not in MODEL_TYPES:
        raise ValueError(
            f"general_rnn: the kind of layer, model_type, must be one of {', '.join(MODEL_TYPES)}, not {model_type!r}"
        )


def _add_recurrent(
    keras: Any, model: Any, kind: str, h_dim: int, return_seq: bool, name: str | None, rng: np.random.Generator
) -> Any:
    """Add a recurrent layer whose first weights come from `rng`, and return the model."""
    _check_model_type(kind)
    layer = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}[kind]
    # cuDNN's kernels accept padding at the end only. Ours is at the front.
    options = {} if kind == "rnn" else {"use_cudnn": False}
    model.add(
        layer(
            h_dim,
            return_sequences=return_seq,
            kernel_initializer=keras.initializers.GlorotUniform(_seed(rng)),
            recurrent_initializer=keras.initializers.Orthogonal(seed=_seed(rng)),
            name=name,
            **options,
        )
    )
    return model


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _targets(ops: Any, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Return both as tensors of the predictions' type."""
    y_pred = ops.convert_to_tensor(y_pred)
    return ops.cast(ops.convert_to_tensor(y_true), y_pred.dtype), y_pred


def _loss(keras: Any, task: str) -> Any:
    """Squared error or cross-entropy, averaged over the cells whose target is not below 0."""
    cells = binary_cross_entropy_loss if task == "classification" else mse_loss

    class CountedCells(keras.losses.Loss):
        # Overrides __call__, not call: Keras would apply the mask of the inputs too, and by its own average.
        def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            ops = keras.ops
            counted = ops.sum(ops.cast(y_true >= 0, "float32"))
            return ops.sum(cells(y_true, y_pred)) / ops.maximum(counted, 1.0)

    return CountedCells()


def _keras() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # on, it says so on stderr whatever the log level
    try:
        import keras
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"GeneralRNN needs TensorFlow ({error}); install tensorflow") from error
    return keras
