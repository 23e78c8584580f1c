"""One recurrent network of any kind, fitted with Keras: the 2020 name that submissions build on."""

import os
from typing import Any

import numpy as np

from utils.data_preprocess import PADDING_FILL

MODEL_TYPES = ("rnn", "lstm", "gru")
TASKS = ("regression", "classification")


class GeneralRNN:
    """A stack of recurrent layers with a dense output, per time step or per stay.

    Needs TensorFlow when it is fitted, not when it is imported. For the many models of the utility checks
    `utils.gru_ensemble` does the same many times faster.

    Parameters
    ----------
    model_parameters : dict
        `task` ("regression" or "classification"), `model_type` ("rnn", "lstm" or "gru"), `h_dim` (units a layer),
        `n_layer`, `batch_size`, `epoch`, `learning_rate`, and optionally `seed` (default 0).

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
        if self.model_type not in MODEL_TYPES:
            raise ValueError(f"GeneralRNN: model_type must be one of {', '.join(MODEL_TYPES)}, not {self.model_type!r}")
        self.h_dim, self.n_layer, self.batch_size, self.epoch = (int(model_parameters[name]) for name in names[2:6])
        self.learning_rate = float(model_parameters["learning_rate"])
        self.seed = int(model_parameters.get("seed", 0))
        self.model: Any = None
        self.validation_loss: list[float] = []  # of each epoch

    def fit(self, x: np.ndarray, y: np.ndarray, valid_rate: float = 0.2, verbose: bool = False) -> "GeneralRNN":
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
        GeneralRNN
            Itself.

        Raises
        ------
        ModuleNotFoundError
            Without TensorFlow.
        """
        keras = _keras()
        x, y = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.float32)
        if x.ndim != 3 or y.ndim not in (2, 3) or y.shape[: y.ndim - 1] != x.shape[: y.ndim - 1]:
            raise ValueError(f"GeneralRNN: x {x.shape} and y {y.shape} do not fit [N, T, F] and [N, T, K] or [N, K]")
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(x))
        held_out = int(len(x) * valid_rate)
        train, valid = order[held_out:], order[: held_out or len(x)]  # too few to hold any out: validate on all
        self.model = self._build(keras, x.shape[1:], y.shape[-1], per_step=y.ndim == 3, rng=rng)
        self.validation_loss, best = [], self.model.get_weights()
        for _ in range(self.epoch):
            shuffled = rng.permutation(train)  # Keras' own shuffling would draw from global state
            epoch = self.model.fit(
                x[shuffled],
                y[shuffled],
                batch_size=self.batch_size,
                validation_data=(x[valid], y[valid]),
                shuffle=False,
                verbose=int(verbose),
            )
            self.validation_loss.append(epoch.history["val_loss"][0])
            if self.validation_loss[-1] == min(self.validation_loss):
                best = self.model.get_weights()
        self.model.set_weights(best)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return predictions of shape [N, T, K] or [N, K] for inputs [N, T, F]. Probabilities for classifications."""
        if self.model is None:
            raise ValueError("GeneralRNN.predict: call fit first")
        return self.model.predict(np.asarray(x, dtype=np.float32), batch_size=self.batch_size, verbose=0)

    def _build(
        self, keras: Any, input_shape: tuple[int, ...], outputs: int, *, per_step: bool, rng: np.random.Generator
    ) -> Any:
        def seed() -> int:
            return int(rng.integers(2**31))

        layer = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}[self.model_type]
        # cuDNN's kernels accept padding at the end only. Ours is at the front.
        options = {} if self.model_type == "rnn" else {"use_cudnn": False}
        model = keras.Sequential([keras.Input(input_shape), keras.layers.Masking(PADDING_FILL)])
        for i in range(self.n_layer):
            model.add(
                layer(
                    self.h_dim,
                    return_sequences=per_step or i < self.n_layer - 1,
                    kernel_initializer=keras.initializers.GlorotUniform(seed()),
                    recurrent_initializer=keras.initializers.Orthogonal(seed=seed()),
                    **options,
                )
            )
        activation = "sigmoid" if self.task == "classification" else None
        model.add(keras.layers.Dense(outputs, activation, kernel_initializer=keras.initializers.GlorotUniform(seed())))
        model.compile(keras.optimizers.Adam(self.learning_rate), _loss(keras, self.task), jit_compile=False)
        return model


def _loss(keras: Any, task: str) -> Any:
    """Squared error or cross-entropy, averaged over the cells whose target is not below 0."""

    class CountedCells(keras.losses.Loss):
        # Overrides __call__, not call: Keras would apply the mask of the inputs too, and by its own average.
        def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            ops = keras.ops
            if task == "classification":
                p = ops.clip(y_pred, keras.config.epsilon(), 1 - keras.config.epsilon())
                cells = -(y_true * ops.log(p) + (1 - y_true) * ops.log(1 - p))
            else:
                cells = ops.square(y_true - y_pred)
            counted = y_true >= 0
            return ops.sum(ops.where(counted, cells, 0.0)) / ops.maximum(ops.sum(ops.cast(counted, "float32")), 1.0)

    return CountedCells()


def _keras() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # on, it says so on stderr whatever the log level
    try:
        import keras
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"GeneralRNN needs TensorFlow ({error}); install tensorflow") from error
    return keras
