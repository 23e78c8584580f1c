"""A recurrent network that tells generated stays from enlarged ones. Those it takes for generated are accused."""

import functools
import os
from typing import Any

import numpy as np

from utils.misc import legacy_rng
from utils.progress import progress_bar
from utils.stays import label_highest, padded_rows, real_rows_first, stay_lengths

LAYERS, BATCH, LEARNING_RATE, VALIDATION_SHARE = 3, 128, 1e-3, 0.2  # those of the utility checks
EPOCHS = 20
PATIENCE = 2  # epochs without a better validation loss before training stops
# On few stays an epoch is a step or two, and teaches little: then so many steps count instead.
STEPS, PATIENT_STEPS = 1_500, 400


def binary_predictor(generated_data: np.ndarray, enlarged_data: np.ndarray, verbose: bool = False) -> np.ndarray:
    """Label the half of the enlarged data that looks most like generated data.

    Parameters
    ----------
    generated_data : ndarray, shape [N, T, F]
        Imputed and scaled, padded at the front with -1.
    enlarged_data : ndarray, shape [2N, T, F]
        Likewise.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    ndarray of int, shape [2N]
        1 for "was used by the hider". Seeded by NumPy's legacy generator, as in 2020.
    """
    return label_highest(
        -enlarged_scores(generated_data, enlarged_data, legacy_rng(), verbose), len(enlarged_data) // 2
    )


def enlarged_scores(
    generated: np.ndarray, enlarged: np.ndarray, rng: np.random.Generator, progress: bool = True
) -> np.ndarray:
    """Train the network to tell generated (0) from enlarged (1) and return its output for each enlarged stay.

    Three GRU layers as wide as the data and a dense output per time step. A stay's score is the mean of its steps'
    log-odds. Generated and enlarged data weigh alike, however many of each there are. Training stops once the loss on a
    fifth of each, held out, has not fallen for two epochs (on few stays: for 400 steps), and goes back to the best.
    Without early stopping the network learns its training stays by heart, members and others alike.

    Parameters
    ----------
    generated, enlarged : ndarray, shape [N, T, F] and [M, T, F]
        Imputed and scaled, padded at the front with -1.
    rng : numpy.random.Generator
        Fixes first weights, validation split and batches.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    ndarray of float, shape [M]
        Low where a stay looks generated.

    Raises
    ------
    ModuleNotFoundError
        Without TensorFlow.
    ValueError
        If shapes do not fit together or values are missing.
    """
    for name, data in (("generated", generated), ("enlarged", enlarged)):
        if np.ndim(data) != 3 or 0 in data.shape or data.shape[1:] != generated.shape[1:]:
            raise ValueError(f"{name}: expected [stays, time points, features], as the other data, not {data.shape}")
        if not np.isfinite(data).all():
            raise ValueError(f"{name}: NaN or infinite values; preprocess and impute the data first")
    recurrent = _recurrent()
    values, lengths = _series(generated, enlarged)
    is_enlarged = np.arange(len(values)) >= len(generated)
    network = recurrent.Network(values.shape[2], values.shape[2], LAYERS, 1, sigmoid=False)
    model = _Model(network, values, lengths, is_enlarged)
    state = recurrent.Adam.begin(network.first_weights(rng))

    train, valid = _split(is_enlarged, rng)
    steps = -(-len(train) // BATCH)
    epochs, patience = max(EPOCHS, STEPS // steps), max(PATIENCE, PATIENT_STEPS // steps)
    best, lowest, stale = state.weights, np.inf, 0
    with progress_bar(epochs, "Binary predictor", "epoch", progress) as bar:
        for _ in range(epochs):
            state = model.fit_epoch(state, rng.permutation(train))
            loss = model.loss(state.weights, valid)
            bar.update()
            bar.set_postfix(validation_loss=round(loss, 4), refresh=False)
            if loss < lowest:
                best, lowest, stale = state.weights, loss, 0
            else:
                stale += 1
            if stale == patience:
                break
    return model.scores(best, np.flatnonzero(is_enlarged))


def _split(is_enlarged: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Hold a fifth of each class out for validation. Of too few to do so, judge by the training stays."""
    train, valid = [], []
    for label in (False, True):
        stays = rng.permutation(np.flatnonzero(is_enlarged == label))
        held_out = int(len(stays) * VALIDATION_SHARE)
        train.append(stays[held_out:])
        valid.append(stays[: held_out or len(stays)])
    return np.concatenate(train), np.concatenate(valid)


def _series(generated: np.ndarray, enlarged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all stays moved to the front of time, zeros after them, features at most 1, and their lengths."""
    data = np.concatenate([generated, enlarged]).astype(np.float32, copy=False)
    padded = padded_rows(data, None)
    largest = np.abs(data[~padded]).max(axis=0, initial=0.0)
    scaled = np.where(padded[:, :, None], 0, data / np.where(largest > 1, largest, 1.0))
    return real_rows_first(scaled, padded), stay_lengths(padded)


class _Model:
    """The network on its data: compiled passes over a list of stays."""

    def __init__(self, network: Any, values: np.ndarray, lengths: np.ndarray, is_enlarged: np.ndarray) -> None:
        self._network, self._batch = network, min(BATCH, len(values))
        weight = np.where(is_enlarged, 0.5 / is_enlarged.mean(), 0.5 / (~is_enlarged).mean())
        self._data = (values, lengths.astype(np.int32), is_enlarged.astype(np.float32), weight.astype(np.float32))

    def fit_epoch(self, state: Any, stays: np.ndarray) -> Any:
        """Return Adam's state after one pass over the stays."""
        for batch in self._batches(stays):
            state = _compiled(self._network)[0](state, *batch)
        return state

    def loss(self, weights: Any, stays: np.ndarray) -> float:
        """Return the mean cross-entropy over the stays' real time points."""
        sums = [_compiled(self._network)[1](weights, *batch)[:2] for batch in self._batches(stays)]
        total, cells = np.array(sums).sum(axis=0)
        return float(total / max(cells, 1))

    def scores(self, weights: Any, stays: np.ndarray) -> np.ndarray:
        """Return the mean log-odds of each stay's real time points."""
        parts = [_compiled(self._network)[1](weights, *batch)[2].numpy() for batch in self._batches(stays)]
        return np.concatenate(parts)[: len(stays)].astype(float)

    def _batches(self, stays: np.ndarray) -> Any:
        """Cut stays into batches of one size: the last is filled up with stays of length 0."""
        for first in range(0, len(stays), self._batch):
            rows = stays[first : first + self._batch]
            values, *others = (part[rows] for part in self._data)
            missing = self._batch - len(rows)
            fill = [(0, missing)]
            series = np.pad(values, [*fill, (0, 0), (0, 0)]).transpose(1, 2, 0)
            yield series, *(np.pad(part, fill) for part in others)


@functools.cache
def _compiled(network: Any) -> tuple[Any, Any]:
    """Compile a training step and an evaluation of a batch: series [T, F, B]. Lengths, labels, weights [B]."""
    import tensorflow as tf

    apply = _recurrent().apply

    def evaluate(weights: Any, series: Any, lengths: Any, labels: Any, weight: Any) -> tuple[Any, Any, Any]:
        logits = apply(network, weights, series, "weights")[:, 0]
        real = tf.cast(tf.range(series.shape[0])[:, None] < lengths, tf.float32)
        targets = tf.broadcast_to(labels, logits.shape)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, logits) * real * weight
        steps = tf.reduce_sum(real, 0)
        cells = tf.reduce_sum(steps * weight)
        return tf.reduce_sum(losses), cells, tf.reduce_sum(logits * real, 0) / tf.maximum(steps, 1.0)

    @tf.function(autograph=False)
    def step(state: Any, *batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(state.weights)
            total, cells, _ = evaluate(state.weights, *batch)
            loss = total / tf.maximum(cells, 1.0)
        return state.step(tape.gradient(loss, state.weights), LEARNING_RATE)

    @tf.function(autograph=False)
    def judge(weights: Any, *batch: Any) -> tuple[Any, Any, Any]:
        return evaluate(weights, *batch)

    return step, judge


def _recurrent() -> Any:
    """Import the networks, and TensorFlow with them, when a model is trained and not before."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        from utils import recurrent
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the binary predictor needs TensorFlow ({error}); install tensorflow") from error
    return recurrent
