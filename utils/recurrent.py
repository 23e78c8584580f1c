"""Recurrent networks that train fast on a processor: GRU or LSTM layers and a dense output per time point.

Why not Keras' layers: the published schedule is 60,000 steps of many tiny networks, where time goes into moving
numbers rather than into arithmetic. Here

- arrays are [time, features, stays]: 128 stays fill the vector units, 10 features would not.
- what does not depend on the state before (input products, gradients of weights) is one large matrix product over all
  time points. Only the recurrence itself runs step by step, in a loop that XLA compiles.
- gates are separate blocks of memory: XLA's elementwise loops over a slice of a larger one ran 4 times slower.
- each network is a compiled function of its own, so those that do not need each other's output run on different cores.

Padding needs no mask here: series start at time 0 and are padded at the end, and no output looks ahead.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf

from utils.tensors import Tensor, adam_rate, adam_step, gru_gates, sigmoid

Module = Literal["gru", "lstm"]
ADAM_EPSILON = 1e-8  # as in Kingma and Ba (2015), and in the TensorFlow 1 of the published TimeGAN
Wrt = Literal["both", "weights", "series"]


def _gru(inputs: Sequence[Tensor], recurrent: Sequence[Tensor], states: Sequence[Tensor]) -> list[Tensor]:
    """GRU (Cho et al. 2014), see `gru_gates`."""
    (state,) = states
    update, _, new = gru_gates(inputs, recurrent)
    return [new + update * (state - new)]


def _lstm(inputs: Sequence[Tensor], recurrent: Sequence[Tensor], states: Sequence[Tensor]) -> list[Tensor]:
    """LSTM (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000)."""
    _, memory = states
    entry, forget, output = (sigmoid(inputs[i] + recurrent[i]) for i in range(3))
    memory = forget * memory + entry * tf.tanh(inputs[3] + recurrent[3])
    return [output * tf.tanh(memory), memory]


@dataclass(frozen=True)
class _Cell:
    gates: int
    states: int
    step: Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], list[Tensor]]
    open_gate: int  # whose bias starts at 1: remember at first (update gate of the GRU, forget gate of the LSTM)


_CELLS = {"gru": _Cell(3, 1, _gru, 0), "lstm": _Cell(4, 2, _lstm, 1)}


@dataclass(frozen=True)
class Network:
    """A stack of recurrent layers and a dense output. Its weights are one vector, handed in.

    Attributes
    ----------
    inputs, hidden, outputs : int
        Features that go in, units of each layer, features that come out.
    layers : int
    module : "gru" or "lstm"
    sigmoid : bool
        Whether outputs are squeezed into (0, 1). Else they are linear.
    """

    inputs: int
    hidden: int
    layers: int
    outputs: int
    module: Module = "gru"
    sigmoid: bool = True

    def _shapes(self) -> list[tuple[int, ...]]:
        """Kernel, recurrent kernel and bias of each layer, then kernel and bias of the output."""
        units, gates = self.hidden, _CELLS[self.module].gates
        shapes: list[tuple[int, ...]] = []
        for layer in range(self.layers):
            below = units if layer else self.inputs
            shapes += [(gates * units, below), (gates * units, units), (gates * units, 1)]
        return [*shapes, (self.outputs, units), (self.outputs, 1)]

    def first_weights(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a weight vector: Glorot uniform per gate, zero biases but for the gate that remembers (1)."""
        cell, units = _CELLS[self.module], self.hidden
        parts = []
        for shape in self._shapes():
            fan_out = units if shape[0] == cell.gates * units else shape[0]
            limit = np.sqrt(6 / (fan_out + shape[1]))
            parts.append(np.zeros(shape) if shape[1] == 1 else rng.uniform(-limit, limit, shape))
        for bias in parts[2:-2:3]:
            bias[cell.open_gate * units : (cell.open_gate + 1) * units] = 1.0
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def split(self, weights: Tensor) -> list[Tensor]:
        """Cut a weight vector into the arrays it holds."""
        shapes = self._shapes()
        return [
            tf.reshape(part, shape)
            for part, shape in zip(tf.split(weights, [int(np.prod(s)) for s in shapes]), shapes, strict=True)
        ]


def apply(network: Network, weights: Tensor, series: Tensor, wrt: Wrt = "both", teachers: int | None = None) -> Tensor:
    """Run a network.

    Parameters
    ----------
    network : Network
    weights : Tensor, shape [network's weights]
    series : Tensor, shape [T, inputs, B]
    wrt : "both", "weights" or "series"
        What gradients will be asked for. The others come back as zero and cost nothing.
    teachers : int, optional
        The weights learn from the first so many stays only. Without it, from all.

    Returns
    -------
    Tensor, shape [T, outputs, B]
    """
    return _compiled(network, wrt, teachers)(weights, series)


@functools.cache
def _compiled(network: Network, wrt: Wrt, teachers: int | None) -> Callable[[Tensor, Tensor], Tensor]:
    @tf.function(jit_compile=True, autograph=False)
    def run(weights: Tensor, series: Tensor) -> Tensor:
        weights = tf.stop_gradient(weights) if wrt == "series" else weights
        *layers, kernel, bias = network.split(weights)
        for i in range(0, len(layers), 3):
            below = "both" if i and wrt == "weights" else wrt
            series = _layer(network, series, layers[i : i + 3], below, teachers)
        if teachers is None:
            outputs = tf.einsum("ki,tib->tkb", kernel, series) + bias
        else:
            learnt = tf.einsum("ki,tib->tkb", kernel, series[..., :teachers]) + bias
            kernel, bias = tf.stop_gradient(kernel), tf.stop_gradient(bias)
            outputs = tf.concat([learnt, tf.einsum("ki,tib->tkb", kernel, series[..., teachers:]) + bias], 2)
        return sigmoid(outputs) if network.sigmoid else outputs

    return run


def _layer(network: Network, series: Tensor, weights: Sequence[Tensor], wrt: Wrt, teachers: int | None) -> Tensor:
    """Run one recurrent layer over time.

    Parameters
    ----------
    network : Network
    series : Tensor, shape [T, I, B]
    weights : sequence of Tensor
        Kernel [gates x units, I], recurrent kernel [gates x units, units], bias [gates x units, 1].
    wrt : "both", "weights" or "series"
        What gradients to work out.
    teachers : int, optional
        The weights learn from the first so many stays only.

    Returns
    -------
    Tensor, shape [T, units, B]
    """
    cell, units = _CELLS[network.module], network.hidden
    time_points, below, batch = series.shape
    gates = [cell.gates, units, batch]

    def arrays(count: int, rows: int) -> list[Tensor]:
        return [tf.TensorArray(tf.float32, time_points, element_shape=[rows, batch]) for _ in range(count)]

    def products(
        kernel: Tensor, bias: Tensor, recurrent: Tensor, x: Tensor, state: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        from_below = tf.unstack(tf.reshape(kernel @ x, gates))
        biases = tf.unstack(tf.reshape(bias, [cell.gates, units, 1]))
        from_state = tf.unstack(tf.reshape(recurrent @ state, gates))
        return [p + b for p, b in zip(from_below, biases, strict=True)], from_state

    @tf.custom_gradient
    def run(series: Tensor, kernel: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:
        def forward(t: Tensor, states: Tensor, kept: Tensor) -> tuple[Tensor, ...]:
            states = cell.step(*products(kernel, bias, recurrent, series[t], states[0]), states)
            return t + 1, states, [array.write(t, state) for array, state in zip(kept, states, strict=True)]

        start = [tf.zeros([units, batch])] * cell.states
        _, _, kept = tf.while_loop(lambda t, *_: t < time_points, forward, (0, start, arrays(cell.states, units)))
        kept = [array.stack() for array in kept]

        def gradient(slope: Tensor) -> tuple[Tensor, ...]:
            before = [tf.concat([tf.zeros_like(s[:1]), s[:-1]], 0) for s in kept]
            to_below, to_before = tf.transpose(kernel), tf.transpose(recurrent)

            def backward(t: Tensor, slopes: Tensor, series_slope: Tensor, sums: Tensor) -> tuple[Tensor, ...]:
                states = [state[t] for state in before]
                x = series[t]
                from_below, from_state = products(kernel, bias, recurrent, x, states[0])
                at = (from_below, from_state, states)
                with tf.GradientTape() as tape:
                    tape.watch(at)
                    after = cell.step(*at)
                below_slopes, state_slopes, slopes = tape.gradient(
                    after, at, [slopes[0] + slope[t], *slopes[1:]], unconnected_gradients="zero"
                )
                by_below, by_state = tf.concat(below_slopes, 0), tf.concat(state_slopes, 0)
                slopes[0] += to_before @ by_state
                if wrt != "weights":
                    series_slope = series_slope.write(t, to_below @ by_below)
                if wrt != "series":
                    taught = [part[:, :teachers] for part in (by_below, x, by_state, states[0])]
                    sums = [
                        sums[0] + tf.matmul(taught[0], taught[1], transpose_b=True),
                        sums[1] + tf.matmul(taught[2], taught[3], transpose_b=True),
                        sums[2] + taught[0],
                    ]
                return t - 1, slopes, series_slope, sums

            sums = [tf.zeros_like(kernel), tf.zeros_like(recurrent), tf.zeros([cell.gates * units, teachers or batch])]
            _, _, series_slope, sums = tf.while_loop(
                lambda t, *_: t >= 0, backward, (time_points - 1, start, arrays(1, below)[0], sums)
            )
            series_slope = tf.zeros_like(series) if wrt == "weights" else series_slope.stack()
            return series_slope, sums[0], sums[1], tf.reduce_sum(sums[2], 1, keepdims=True)

        return kept[0], gradient

    return run(series, *weights)


class Adam(NamedTuple):
    """A weight vector under Adam (Kingma and Ba 2015), and what the method remembers."""

    weights: Tensor
    mean: Tensor
    square: Tensor
    count: Tensor

    @classmethod
    def begin(cls, weights: Tensor) -> "Adam":
        """Start from weights, with nothing to remember."""
        weights = tf.convert_to_tensor(weights)
        return cls(weights, tf.zeros(weights.shape), tf.zeros(weights.shape), tf.constant(0.0))

    def step(self, slope: Tensor, rate: float, active: Tensor = True) -> "Adam":
        """Go one step down the slope, where `active`."""
        return _step(self, slope, rate, active)


@tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
def _step(state: Adam, slope: Tensor, rate: Tensor, active: Tensor) -> Adam:
    count = state.count + 1.0
    rate *= adam_rate(1.0, count)  # multiplied in this order: another rounds otherwise, and outputs change
    moved = Adam(*adam_step(*state[:3], slope, rate, ADAM_EPSILON), count)
    return Adam(*(tf.where(active, new, old) for new, old in zip(moved, state, strict=True)))
