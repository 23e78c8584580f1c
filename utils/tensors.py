"""What networks written out by hand share: a name for TensorFlow's values, a GRU's gates, a step of Adam."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

# A tf.Tensor, or an array that TensorFlow turns into one. TensorFlow has no types that mypy could read.
Tensor: TypeAlias = Any

ADAM_DECAY_1, ADAM_DECAY_2 = 0.9, 0.999  # Kingma and Ba (2015), and Keras' defaults


def sigmoid(x: Tensor) -> Tensor:
    """Return the logistic function, as the hyperbolic tangent that processors have fast code for."""
    return 0.5 * tf.tanh(0.5 * x) + 0.5


def gru_gates(outer: Sequence[Tensor], inner: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return a GRU's update gate, reset gate and new state (Cho et al. 2014).

    The reset gate acts behind the matrix product, as in cuDNN and Keras, so that each step has one product. The state
    after the step is `new + update * (state - new)`.

    Parameters
    ----------
    outer, inner : three Tensors each
        The products of the step's input and of the state before, with their biases, for update, reset and new state.
    """
    update, reset = sigmoid(outer[0] + inner[0]), sigmoid(outer[1] + inner[1])
    return update, reset, tf.tanh(outer[2] + reset * inner[2])


def adam_rate(rate: Tensor, count: Tensor) -> Tensor:
    """Return Adam's learning rate at its step number `count`, corrected for moments that began at 0."""
    return rate * tf.sqrt(1 - ADAM_DECAY_2**count) / (1 - ADAM_DECAY_1**count)


def adam_step(
    weights: Tensor, mean: Tensor, square: Tensor, slope: Tensor, rate: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Take one step of Adam (Kingma and Ba 2015) with a rate from `adam_rate`.

    Returns
    -------
    weights, mean, square : Tensor
        After the step.
    """
    mean = mean + (1 - ADAM_DECAY_1) * (slope - mean)
    square = square + (1 - ADAM_DECAY_2) * (slope * slope - square)
    return weights - rate * mean / (tf.sqrt(square) + epsilon), mean, square
