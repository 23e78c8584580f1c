"""Recurrent networks that train fast on a processor: GRU or LSTM layers and a dense output per time point.

Why not Keras' layers: the published schedule is 60,000 steps of many tiny networks, where time goes into moving
numbers rather than into arithmetic. Here

- arrays are [time, features, stays]: 128 stays fill the vector units, 10 features would not;
- what does not depend on the state before (input products, gradients of weights) is one large matrix product over all
  time points; only the recurrence itself runs step by step, in a loop that XLA compiles;
- gates are separate blocks of memory: XLA's elementwise loops over a slice of a larger one ran 4 times slower;
- each network is a compiled function of its own, so those that do not need each other's output run on different cores.

Padding needs no mask here: series start at time 0 and are padded at the end, and no output looks ahead.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

Module = Literal["gru", "lstm"]
Wrt = Literal["both", "weights", "series"]


def _sigmoid(x: Any) -> Any:
    return 0.5 * tf.tanh(0.5 * x) + 0.5


def _gru(inputs: Sequence[Any], recurrent: Sequence[Any], states: Sequence[Any]) -> list[Any]:
    """GRU (Cho et al. 2014) with the reset gate behind the matrix product, so that each step has one product."""
    (state,) = states
    update = _sigmoid(inputs[0] + recurrent[0])
    reset = _sigmoid(inputs[1] + recurrent[1])
    new = tf.tanh(inputs[2] + reset * recurrent[2])
    return [new + update * (state - new)]


def _lstm(inputs: Sequence[Any], recurrent: Sequence[Any], states: Sequence[Any]) -> list[Any]:
    """LSTM (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000)."""
    _, memory = states
    entry, forget, output = (_sigmoid(inputs[i] + recurrent[i]) for i in range(3))
    memory = forget * memory + entry * tf.tanh(inputs[3] + recurrent[3])
    return [output * tf.tanh(memory), memory]


@dataclass(frozen=True)
class _Cell:
    gates: int
    states: int
    step: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], list[Any]]
    open_gate: int  # whose bias starts at 1: remember at first (update gate of the GRU, forget gate of the LSTM)


_CELLS = {"gru": _Cell(3, 1, _gru, 0), "lstm": _Cell(4, 2, _lstm, 1)}


@dataclass(frozen=True)
class Network:
    """A stack of recurrent layers and a dense output; its weights are one vector, handed in.

    Attributes
    ----------
    inputs, hidden, outputs : int
        Features that go in, units of each layer, features that come out.
    layers : int
    module : "gru" or "lstm"
    sigmoid : bool
        Whether outputs are squeezed into (0, 1); else they are linear.
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

    def split(self, weights: Any) -> list[Any]:
        """Cut a weight vector into the arrays it holds."""
        shapes = self._shapes()
        return [
            tf.reshape(part, shape)
            for part, shape in zip(tf.split(weights, [int(np.prod(s)) for s in shapes]), shapes, strict=True)
        ]


def apply(network: Network, weights: Any, series: Any, wrt: Wrt = "both", teachers: int | None = None) -> Any:
    """Run a network.

    Parameters
    ----------
    network : Network
    weights : Tensor, shape [network's weights]
    series : Tensor, shape [T, inputs, B]
    wrt : "both", "weights" or "series"
        What gradients will be asked for; the others come back as zero and cost nothing.
    teachers : int, optional
        The weights learn from the first so many stays only; without it, from all.

    Returns
    -------
    Tensor, shape [T, outputs, B]
    """
    return _compiled(network, wrt, teachers)(weights, series)


@functools.cache
def _compiled(network: Network, wrt: Wrt, teachers: int | None) -> Any:
    @tf.function(jit_compile=True, autograph=False)
    def run(weights: Any, series: Any) -> Any:
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
        return _sigmoid(outputs) if network.sigmoid else outputs

    return run


def _layer(network: Network, series: Any, weights: Sequence[Any], wrt: Wrt, teachers: int | None) -> Any:
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

    def arrays(count: int, rows: int) -> list[Any]:
        return [tf.TensorArray(tf.float32, time_points, element_shape=[rows, batch]) for _ in range(count)]

    def products(kernel: Any, bias: Any, recurrent: Any, x: Any, state: Any) -> tuple[list[Any], list[Any]]:
        from_below = tf.unstack(tf.reshape(kernel @ x, gates))
        biases = tf.unstack(tf.reshape(bias, [cell.gates, units, 1]))
        from_state = tf.unstack(tf.reshape(recurrent @ state, gates))
        return [p + b for p, b in zip(from_below, biases, strict=True)], from_state

    @tf.custom_gradient
    def run(series: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        def forward(t: Any, states: Any, kept: Any) -> tuple[Any, ...]:
            states = cell.step(*products(kernel, bias, recurrent, series[t], states[0]), states)
            return t + 1, states, [array.write(t, state) for array, state in zip(kept, states, strict=True)]

        start = [tf.zeros([units, batch])] * cell.states
        _, _, kept = tf.while_loop(lambda t, *_: t < time_points, forward, (0, start, arrays(cell.states, units)))
        kept = [array.stack() for array in kept]

        def gradient(slope: Any) -> tuple[Any, ...]:
            before = [tf.concat([tf.zeros_like(s[:1]), s[:-1]], 0) for s in kept]
            to_below, to_before = tf.transpose(kernel), tf.transpose(recurrent)

            def backward(t: Any, slopes: Any, series_slope: Any, sums: Any) -> tuple[Any, ...]:
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

    weights: Any
    mean: Any
    square: Any
    count: Any

    @classmethod
    def begin(cls, weights: Any) -> "Adam":
        """Start from weights, with nothing to remember."""
        weights = tf.convert_to_tensor(weights)
        return cls(weights, tf.zeros(weights.shape), tf.zeros(weights.shape), tf.constant(0.0))

    def step(self, slope: Any, rate: float, active: Any = True) -> "Adam":
        """Go one step down the slope, where `active`."""
        return _step(self, slope, rate, active)


@tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
def _step(state: Adam, slope: Any, rate: Any, active: Any) -> Adam:
    count = state.count + 1.0
    mean = state.mean + (1 - 0.9) * (slope - state.mean)
    square = state.square + (1 - 0.999) * (slope * slope - state.square)
    rate *= tf.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    moved = Adam(state.weights - rate * mean / (tf.sqrt(square) + 1e-8), mean, square, count)
    return Adam(*(tf.where(active, new, old) for new, old in zip(moved, state, strict=True)))
