"""Many small GRU stacks trained as one job: the predictors behind the utility checks.

A predictor is Masking(-1), three GRU layers as wide as the data and a dense output per time step, trained with
Adam as the challenge trained it. A match waits for its many models. What makes them cheap
here, with the same arithmetic:

- Forward and backward pass are written out, so XLA compiles each to one loop over time whose steps keep the state
  of all layers in the cache. Automatic differentiation of such a loop stores and re-reads far more.
- Arrays are [.., features, stays]: 128 stays fill the vector units where 38 features would not.
- A masked step keeps the state, so dropping it changes nothing: series are moved to the front without their padding,
  a batch is sorted by length, and the loop narrows as stays end.
- Every array has a model axis. On a GPU all models of a kind advance together. On a CPU one model already fills a
  core's cache, and each core trains its own.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from utils.data_preprocess import PADDING_FILL
from utils.progress import progress_bar
from utils.stays import padded_rows, real_rows_first, stay_lengths
from utils.tensors import Tensor, adam_rate, adam_step, gru_gates, sigmoid

LAYERS = 3
BATCH = 128
EPOCHS = 20
LEARNING_RATE = 1e-3
VALIDATION_RATE = 0.2
ADAM_EPSILON = 1e-7  # Keras' default


class Weights(NamedTuple):
    """Weights of M models with L layers of H = F units and K outputs. Gates in Keras' order update, reset, new."""

    kernel: Tensor  # [M, L, 3H, F]
    recurrent: Tensor  # [M, L, 3H, H]
    bias: Tensor  # [M, L, 2, 3H]: of the input and of the state
    head: Tensor  # [M, K, H]
    head_bias: Tensor  # [M, K]


@dataclass(frozen=True)
class Series:
    """A data set without its padding: the steps of each stay first, -1 after them.

    Attributes
    ----------
    values : ndarray, shape [N + 1, T, F], float32
        A stay that began with padding keeps one padded step, where one-step-ahead predicts the first row from
        nothing, as with Keras' mask. The last stay is empty and fills up batches.
    lengths : ndarray, shape [N + 1]
        Steps of each stay.
    """

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def from_padded(cls, data: np.ndarray) -> "Series":
        """Drop the padding of preprocessed and imputed data, shape [N, T, F]."""
        data = np.asarray(data, dtype=np.float32)
        padded = padded_rows(data, None)
        padded[:, 0] = False
        empty = np.full((1, *data.shape[1:]), PADDING_FILL, dtype=np.float32)
        return cls(np.concatenate([real_rows_first(data, padded), empty]), np.append(stay_lengths(padded), 0))

    def __len__(self) -> int:
        """Return the number of stays."""
        return len(self.lengths) - 1


@dataclass(frozen=True)
class Predictor:
    """One model to train: on which data, for what, from which seed.

    Attributes
    ----------
    data : str
        Key of the training data.
    target : int or None
        The feature predicted from the others at the same time. None predicts all features one step ahead.
    seed : int
        Fixes first weights, validation split and batches. Nothing else does.
    threshold : float or None
        For a target of two values: what lies above it is the positive class, and the output is a logit.
    """

    data: str
    target: int | None
    seed: int
    threshold: float | None = None


@dataclass(frozen=True)
class Fitted:
    """A trained predictor."""

    predictor: Predictor
    weights: Weights  # M = 1
    validation_loss: tuple[float, ...]  # of each epoch


@dataclass(frozen=True)
class Evaluation:
    """How one predictor did on a data set, over cells whose target is not padding.

    Attributes
    ----------
    squared_error, cells : ndarray, shape [K]
        Sum of squared errors and number of cells of each output.
    labels, probabilities : ndarray, shape [cells], or None
        For a target of two values.
    """

    squared_error: np.ndarray
    cells: np.ndarray
    labels: np.ndarray | None = None
    probabilities: np.ndarray | None = None


# ---------------------------------------------------------------------------------------------- the compiled part


def _widen(x: Tensor, width: int) -> Tensor:
    """Fill the last axis up to `width` with zeros."""
    missing = width - x.shape[-1]
    return tf.pad(x, [[0, 0]] * (len(x.shape) - 1) + [[0, missing]]) if missing else x


def _widths(batch: int) -> tuple[int, ...]:
    """Widths of a loop over time, which goes on narrower once that many stays are left."""
    return (batch, batch // 2) if not _gpu() else (batch,)


def _forward(weights: Weights, x: Tensor, observed: Tensor, ends: Tensor, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Run the stack over time.

    Parameters
    ----------
    weights : Weights
    x : Tensor, shape [T, M, F, B]
    observed : Tensor, shape [T, M, B]
        False where a step is masked: the state stays as it is.
    ends : Tensor, shape [len(widths)]
        The time at which the loop of each width ends.
    keep : bool
        Whether to keep what the backward pass needs.

    Returns
    -------
    outputs : Tensor, shape [T, M, K, B]
    kept : list, per layer, of Tensors of shape [T, M, H, B]
        Update gate, reset gate, new state, the recurrent part of the new state, and state.
    """
    time_points, models, units, batch = x.shape
    outputs = tf.TensorArray(tf.float32, time_points, element_shape=[models, weights.head.shape[1], batch])
    buffers = [
        [tf.TensorArray(tf.float32, time_points, element_shape=[models, units, batch]) for _ in range(5)]
        for _ in range(LAYERS if keep else 0)
    ]
    layers = [
        (weights.kernel[:, i], weights.recurrent[:, i], weights.bias[:, i, 0, :, None], weights.bias[:, i, 1, :, None])
        for i in range(LAYERS)
    ]

    def step(t: Tensor, states: list[Tensor], outputs: Tensor, buffers: Tensor) -> tuple[Tensor, ...]:
        width = states[0].shape[-1]
        below, mask = x[t][..., :width], observed[t][:, None, :width]
        states, buffers = list(states), [list(layer) for layer in buffers]
        for i, (kernel, recurrent, bias, state_bias) in enumerate(layers):
            inner = recurrent @ states[i] + state_bias
            outer = kernel @ below + bias
            outer_gates, inner_gates = tf.split(outer, 3, axis=1), tf.split(inner, 3, axis=1)
            update, reset, new = gru_gates(outer_gates, inner_gates)
            update, inner_new = tf.where(mask, update, 1.0), inner_gates[2]
            states[i] = below = new + update * (states[i] - new)
            if keep:
                values = (update, reset, new, inner_new, states[i])
                buffers[i] = [b.write(t, _widen(v, batch)) for b, v in zip(buffers[i], values, strict=True)]
        output = weights.head @ below + weights.head_bias[:, :, None]
        return t + 1, states, outputs.write(t, _widen(output, batch)), buffers

    t, states = tf.constant(0), [tf.zeros([models, units, batch])] * LAYERS
    for i, width in enumerate(_widths(batch)):
        states = [state[..., :width] for state in states]
        t, states, outputs, buffers = tf.while_loop(lambda t, *_, i=i: t < ends[i], step, (t, states, outputs, buffers))
    return outputs.stack(), [[b.stack() for b in layer] for layer in buffers]


def _backward(weights: Weights, x: Tensor, kept: list[Tensor], slope: Tensor, ends: Tensor) -> Weights:
    """Return the gradient of the weights, given that of the outputs: `slope`, shape [T, M, K, B]."""
    _, models, units, batch = x.shape
    widths = _widths(batch)
    before = [tf.concat([tf.zeros_like(layer[4][:1]), layer[4][:-1]], 0) for layer in kept]  # the state one step before
    transposed = [
        (tf.transpose(weights.kernel[:, i], [0, 2, 1]), tf.transpose(weights.recurrent[:, i], [0, 2, 1]))
        for i in range(LAYERS)
    ]
    head = tf.transpose(weights.head, [0, 2, 1])

    def step(t: Tensor, state_slopes: list[Tensor], sums: list[Tensor]) -> tuple[Tensor, ...]:
        width = state_slopes[0].shape[-1]
        state_slopes = list(state_slopes)
        kernels, recurrents, head_sum = (list(s) if isinstance(s, (list, tuple)) else s for s in sums)
        output_slope = slope[t][..., :width]
        head_sum += tf.matmul(output_slope, kept[-1][4][t][..., :width], transpose_b=True)
        above = head @ output_slope
        for i in reversed(range(LAYERS)):
            update, reset, new, inner_new = (b[t][..., :width] for b in kept[i][:4])
            previous = before[i][t][..., :width]
            below = kept[i - 1][4][t][..., :width] if i else x[t][..., :width]
            total = state_slopes[i] + above
            d_update = total * (previous - new) * update * (1 - update)
            d_new = total * (1 - update) * (1 - new * new)
            d_reset = d_new * inner_new * reset * (1 - reset)
            outer = tf.concat([d_update, d_reset, d_new], 1)
            inner = tf.concat([d_update, d_reset, d_new * reset], 1)
            ones = tf.ones([models, 1, width])
            kernels[i] += tf.matmul(outer, tf.concat([below, ones], 1), transpose_b=True)
            recurrents[i] += tf.matmul(inner, tf.concat([previous, ones], 1), transpose_b=True)
            above = transposed[i][0] @ outer if i else above
            state_slopes[i] = total * update + transposed[i][1] @ inner
        return t - 1, state_slopes, [kernels, recurrents, head_sum]

    t = ends[-1] - 1
    state_slopes = [tf.zeros([models, units, widths[-1]])] * LAYERS
    sums: list[Any] = [
        [tf.zeros([models, 3 * units, units + 1])] * LAYERS,
        [tf.zeros([models, 3 * units, units + 1])] * LAYERS,
        tf.zeros_like(weights.head),
    ]
    for i in reversed(range(len(widths))):
        first = ends[i - 1] if i else 0
        state_slopes = [_widen(s, widths[i]) for s in state_slopes]
        t, state_slopes, sums = tf.while_loop(lambda t, *_, first=first: t >= first, step, (t, state_slopes, sums))
    kernels, recurrents, head_sum = sums
    kernel, recurrent = tf.stack(kernels, 1), tf.stack(recurrents, 1)
    bias = tf.stack([kernel[..., -1], recurrent[..., -1]], 2)
    return Weights(kernel[..., :-1], recurrent[..., :-1], bias, head_sum, tf.reduce_sum(slope, [0, 3]))


class _Target(NamedTuple):
    """What M models of one kind predict. All None for one-step-ahead."""

    feature: Tensor = None  # [M]
    binary: Tensor = None  # [M]: whether the target has two values
    threshold: Tensor = None  # [M]


def _inputs(rows: Tensor, target: _Target) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lay a batch [M, B, T, F] out as inputs [T, M, F, B], observed [T, M, B], targets and valid [T, M, K, B]."""
    x = tf.transpose(rows, [2, 0, 3, 1])
    given = x != PADDING_FILL
    if target.feature is None:
        y = tf.concat([x[1:], tf.fill(x[:1].shape, PADDING_FILL)], 0)
        return x, tf.reduce_any(given, 2), y, y >= 0
    is_target = tf.one_hot(target.feature, x.shape[2], dtype=tf.bool, on_value=True, off_value=False)[:, :, None]
    y = tf.reduce_sum(tf.where(is_target, x, 0.0), 2, keepdims=True)
    valid = y >= 0
    above = tf.cast(y > target.threshold[:, None, None], tf.float32)
    y = tf.where(target.binary[:, None, None], above, y)
    return x, tf.reduce_any(given & ~is_target, 2), y, valid


def _losses(outputs: Tensor, y: Tensor, valid: Tensor, target: _Target) -> tuple[Tensor, Tensor, Tensor]:
    """Return predictions, loss and slope of the loss by the output, per cell and 0 where it does not count."""
    error = outputs - y
    prediction, loss, slope = outputs, error * error, 2 * error
    if target.feature is not None:
        binary, probability = target.binary[:, None, None], sigmoid(outputs)
        entropy = tf.nn.relu(outputs) - outputs * y + tf.math.log1p(tf.exp(-tf.abs(outputs)))
        prediction = tf.where(binary, probability, prediction)
        loss, slope = tf.where(binary, entropy, loss), tf.where(binary, probability - y, slope)
    return prediction, tf.where(valid, loss, 0.0), tf.where(valid, slope, 0.0)


def _loss_and_gradient(weights: Weights, rows: Tensor, ends: Tensor, target: _Target) -> tuple[Tensor, Weights]:
    """Return the mean loss of each model over the cells of its batch, shape [M], and the gradient of the weights."""
    x, observed, y, valid = _inputs(rows, target)
    outputs, kept = _forward(weights, x, observed, ends, keep=True)
    _, loss, slope = _losses(outputs, y, valid, target)
    cells = tf.maximum(tf.reduce_sum(tf.cast(valid, tf.float32), [0, 2, 3]), 1)
    gradient = _backward(weights, x, kept, slope / cells[:, None, None], ends)
    if target.feature is not None:  # the target's own column stays at zero: the model does not see it
        hidden = tf.one_hot(target.feature, x.shape[2])[:, None, None, :]
        first = tf.one_hot([0], LAYERS)[0][None, :, None, None]
        gradient = gradient._replace(kernel=gradient.kernel * (1 - hidden * first))
    return tf.reduce_sum(loss, [0, 2, 3]) / cells, gradient


@tf.function(jit_compile=True, autograph=False)
def _train(
    weights: Weights,
    mean: Weights,
    square: Weights,
    steps: Tensor,
    active: Tensor,
    rate: Tensor,
    rows: Tensor,
    ends: Tensor,
    target: _Target,
) -> tuple[Weights, Weights, Weights]:
    """Take step number `steps` [M] of Adam (Kingma & Ba 2015) with those models that are `active` [M]."""
    _, gradient = _loss_and_gradient(weights, rows, ends, target)
    rate = adam_rate(rate, steps)
    updated = []
    for w, m, s, g in zip(weights, mean, square, gradient, strict=True):
        shape = [-1] + [1] * (len(w.shape) - 1)
        w_next, m_next, s_next = adam_step(w, m, s, g, tf.reshape(rate, shape), ADAM_EPSILON)
        moved = tf.reshape(active, shape)
        updated.append((tf.where(moved, w_next, w), tf.where(moved, m_next, m), tf.where(moved, s_next, s)))
    new, means, squares = (Weights(*column) for column in zip(*updated, strict=True))
    return new, means, squares


@tf.function(jit_compile=True, autograph=False)
def _evaluate(weights: Weights, rows: Tensor, ends: Tensor, target: _Target) -> tuple[Tensor, ...]:
    """Return sums of losses [M], of squared errors and of cells [M, K]. For one target also y and predictions."""
    x, observed, y, valid = _inputs(rows, target)
    outputs, _ = _forward(weights, x, observed, ends, keep=False)
    predictions, loss, _ = _losses(outputs, y, valid, target)
    squares = tf.where(valid, tf.square(predictions - y), 0.0)
    sums = (
        tf.reduce_sum(loss, [0, 2, 3]),
        tf.reduce_sum(squares, [0, 3]),
        tf.reduce_sum(tf.cast(valid, tf.float32), [0, 3]),
    )
    return sums if target.feature is None else (*sums, tf.where(valid, y, PADDING_FILL), predictions)


# ------------------------------------------------------------------------------------------------- the whole job


def fit(
    predictors: Sequence[Predictor],
    data: Mapping[str, Series],
    *,
    epochs: int | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> list[Fitted]:
    """Train all predictors.

    On a CPU, `workers` threads train one model each at a time (XLA releases the interpreter). On a GPU, all
    models of a kind advance together. A model depends on its own data, target and seed alone.

    Parameters
    ----------
    predictors : sequence of Predictor
    data : mapping of str to Series
        The training data.
    epochs : int, optional
        Passes over the data. By default the challenge's 20.
    workers : int, optional
        Threads. By default one a core.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    list of Fitted
        In the order of `predictors`.
    """
    epochs = EPOCHS if epochs is None else epochs
    # One-step-ahead costs most and has its own programme to compile: it goes first.
    order = sorted(range(len(predictors)), key=lambda i: (predictors[i].target is not None, i))
    if _gpu():
        kinds: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
        for i in order:
            kinds.setdefault((predictors[i].target is None, data[predictors[i].data].values.shape[1:]), []).append(i)
        groups, workers = list(kinds.values()), 1
    else:
        groups = [[i] for i in order]
    values = {name: tf.constant(data[name].values) for name in {p.data for p in predictors}}
    stop = threading.Event()
    fitted: dict[int, Fitted] = {}
    with (
        _memory_kept(),
        progress_bar(epochs * len(predictors), "Training predictors", "epoch", progress) as bar,
        ThreadPoolExecutor(workers or _cores()) as pool,
    ):

        def train(group: list[int]) -> None:
            models = [predictors[i] for i in group]
            results = _fit_group(models, data, values, epochs, stop, lambda: bar.update(len(models)))
            fitted.update(zip(group, results, strict=True))

        try:
            for result in [pool.submit(train, group) for group in groups]:
                result.result()
        except BaseException:  # Ctrl-C or a failing model: let the other threads end at their next batch
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [fitted[i] for i in range(len(predictors))]


@contextlib.contextmanager
def _memory_kept() -> Iterator[None]:
    """Let the C library keep what a training step gives back, for the next step.

    glibc hands blocks this large back to the system at once, and every step then waits while the kernel clears them
    anew: 6 models on set-a took 63 s, 29 % of it in the kernel, and 45 s, 4 %, with this.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):  # musl has none
        yield
        return
    trim_threshold, mmap_threshold = -1, -3  # <malloc.h>
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)
    try:
        yield
    finally:
        libc.mallopt(mmap_threshold, 1 << 25)  # the most that glibc itself would choose
        libc.mallopt(trim_threshold, 1 << 26)
        libc.malloc_trim(0)


def evaluate(fitted: Fitted, data: Series) -> Evaluation:
    """Apply a trained predictor to a data set, in blocks of stays of like length."""
    binary = fitted.predictor.threshold is not None
    target = _target([fitted.predictor])
    outputs = fitted.weights.head.shape[1]
    squares, cells = np.zeros(outputs), np.zeros(outputs)
    labels, probabilities = [], []
    for rows, ends in _batches([_by_length(np.arange(len(data)), data)], [data]):
        _, square, cell, *cellwise = _evaluate(fitted.weights, data.values[rows], ends, target)
        squares, cells = squares + square.numpy()[0].astype(np.float64), cells + cell.numpy()[0].astype(np.float64)
        if binary:
            y, prediction = (a.numpy().ravel() for a in cellwise)
            labels.append(y[y >= 0])
            probabilities.append(prediction[y >= 0])
    if not binary:
        return Evaluation(squares, cells)
    return Evaluation(squares, cells, np.concatenate(labels), np.concatenate(probabilities))


def _fit_group(
    models: list[Predictor],
    data: Mapping[str, Series],
    values: Mapping[str, Tensor],
    epochs: int,
    stop: threading.Event,
    tick: Callable[[], Any],
) -> list[Fitted]:
    """Train models of one kind side by side. `values` holds the data sets as tensors, `tick` is called every epoch."""
    series = [data[model.data] for model in models]
    target = _target(models)
    first = [_first_weights(model, series[0].values.shape[2]) for model in models]
    best = weights = Weights(*(np.stack(parts) for parts in zip(*first, strict=True)))
    mean = square = Weights(*(np.zeros_like(part) for part in weights))
    # Split and order depend on the seed alone: the models of a match see the same stays.
    rngs = [np.random.default_rng([model.seed, 0]) for model in models]
    splits = [_split(len(s), rng) for s, rng in zip(series, rngs, strict=True)]
    trained = [train for train, _ in splits]
    held_out = [_by_length(held, s) for (_, held), s in zip(splits, series, strict=True)]
    steps: np.ndarray = np.zeros(len(models), np.float32)
    lowest: np.ndarray = np.full(len(models), np.inf)
    history: list[np.ndarray] = []

    def gather(rows: np.ndarray) -> Tensor:
        return tf.stack([tf.gather(values[model.data], r) for model, r in zip(models, rows, strict=True)])

    for _ in range(epochs):
        shuffled = [rng.permutation(stays) for rng, stays in zip(rngs, trained, strict=True)]
        for rows, ends in _batches(shuffled, series):
            if stop.is_set():
                raise InterruptedError
            active = rows[:, 0] != [len(s) for s in series]
            steps = steps + active.astype(np.float32)
            weights, mean, square = _train(
                weights, mean, square, steps, active, np.float32(LEARNING_RATE), gather(rows), ends, target
            )
        loss: np.ndarray = np.zeros(len(models))
        cells: np.ndarray = np.zeros(len(models))
        for rows, ends in _batches(held_out, series):
            block_loss, _, block_cells, *_ = _evaluate(weights, gather(rows), ends, target)
            loss, cells = loss + block_loss.numpy(), cells + block_cells.numpy().sum(axis=1)
        loss = loss / np.maximum(cells, 1)
        better = loss < lowest
        lowest = np.where(better, loss, lowest)
        best = Weights(*(np.where(_like(better, old), new, old) for new, old in zip(weights, best, strict=True)))
        history.append(loss)
        tick()
    losses = np.stack(history, axis=1)
    return [
        Fitted(model, Weights(*(part[i : i + 1] for part in best)), tuple(losses[i].tolist()))
        for i, model in enumerate(models)
    ]


def _first_weights(model: Predictor, features: int) -> Weights:
    """Draw a model's first weights as Keras does: Glorot uniform, orthogonal for the recurrent ones, zero biases."""
    rng = np.random.default_rng([model.seed, 1 if model.target is None else 2 + model.target])
    outputs = features if model.target is None else 1
    kernels, recurrents = [], []
    for layer in range(LAYERS):
        seen = features - (layer == 0 and model.target is not None)
        limit = np.sqrt(6 / (seen + 3 * features))
        kernels.append(rng.uniform(-limit, limit, (3 * features, features)))
        q, r = np.linalg.qr(rng.standard_normal((3 * features, features)))
        recurrents.append(q * np.sign(np.diag(r)))
    if model.target is not None:
        kernels[0][:, model.target] = 0.0
    limit = np.sqrt(6 / (features + outputs))
    parts = (
        np.stack(kernels),
        np.stack(recurrents),
        np.zeros((LAYERS, 2, 3 * features)),
        rng.uniform(-limit, limit, (outputs, features)),
        np.zeros(outputs),
    )
    return Weights(*(part.astype(np.float32) for part in parts))


def _split(stays: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the stays to train and to validate on. Fewer than five stays validate on those they train on."""
    order = rng.permutation(stays)
    held_out = int(stays * VALIDATION_RATE)
    return order[held_out:], order[: held_out or stays]


def _by_length(stays: np.ndarray, series: Series) -> np.ndarray:
    return stays[np.argsort(-series.lengths[stays], kind="stable")]


def _batches(stays: Sequence[np.ndarray], series: Sequence[Series]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut each model's stays into batches: rows [M, B], longest stay first, and the end of the loop of each width.

    A batch that is not full, or a model that has no more, is filled up with the empty stay.
    """
    for start in range(0, max(map(len, stays)), BATCH):
        rows = np.empty((len(stays), BATCH), dtype=np.int32)
        for row, chosen, s in zip(rows, stays, series, strict=True):
            batch = _by_length(chosen[start : start + BATCH], s)
            row[:] = len(s)
            row[: len(batch)] = batch
        longest = np.max([s.lengths[row] for row, s in zip(rows, series, strict=True)], axis=0)
        yield rows, np.array([*(longest[w] for w in _widths(BATCH)[1:]), longest[0]], dtype=np.int32)


def _target(models: Sequence[Predictor]) -> _Target:
    if models[0].target is None:
        return _Target()
    return _Target(
        np.array([model.target for model in models], dtype=np.int32),
        np.array([model.threshold is not None for model in models]),
        np.array([model.threshold or 0.0 for model in models], dtype=np.float32),
    )


def _like(mask: np.ndarray, part: Tensor) -> np.ndarray:
    """Give a mask [M] as many axes as `part` [M, ...] has."""
    return mask.reshape(-1, *[1] * (len(part.shape) - 1))


@functools.cache
def _gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
