"""The three networks (representation, de-identifier, adversary) and the layers they are made of.

B sentences, T tokens (padding at the end), E embedding dimensions, S representation dimensions, K labels.

Sources: Friedrich et al., ACL 2019 (the networks, trainable noise), Ganin et al., JMLR 2016 (gradient reversal) and
Merity et al., ICLR 2018 (dropout on the recurrent weights, which stands in for the paper's dropout on the recurrent
state, so that the fused `BlockLSTM` kernel can be used).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from deid.tokens import CASINGS

KINDS = ("lstm", "dense", "raw")  # raw: normalised embeddings without noise, the baseline of the audit, hide nothing
NOISE = 1.0  # initial standard deviation of the trainable noise, as large as the embeddings' components

Shape = tuple[int | None, ...]


class BlockLSTM(Protocol):
    """What TensorFlow's kernel returns, [T, B, width] each: gates, memory, and the state `h`."""

    i: tf.Tensor
    cs: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    ci: tf.Tensor
    co: tf.Tensor
    h: tf.Tensor


def reverse_gradient(x: tf.Tensor, weight: float = 1.0) -> tf.Tensor:
    """Return `x`. The backward pass multiplies the gradient by minus `weight` (Ganin et al. 2016)."""

    @tf.custom_gradient
    def reverse(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.identity(x), lambda gradient: -weight * gradient

    return reverse(x)


class TrainableNoise(keras.layers.Layer):
    """x + deviation * normal: zero-mean Gaussian noise, one trainable standard deviation per dimension.

    [..., D] -> [..., D]. Drawn anew at every call, in training and in use.
    """

    def __init__(self, random: tf.random.Generator, initial: float = NOISE) -> None:
        super().__init__()
        self.random, self.initial = random, initial

    def build(self, shape: Shape) -> None:
        """Create the deviations [D]."""
        fill = keras.initializers.Constant(self.initial)
        self.deviation = self.add_weight(shape=(shape[-1],), initializer=fill, name="deviation")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[..., D] -> [..., D]."""
        return x + self.deviation * self.random.normal(tf.shape(x))


class BiLSTM(keras.layers.Layer):
    """Bidirectional LSTM by TensorFlow's fused kernel `BlockLSTM`: [B, T, D], [B] lengths -> [B, T, 2 width].

    Not `BlockLSTMV2`: TensorFlow 2.21 gives it the gradient of `BlockLSTM`, which has the gates in another order.

    `drop` is the share of recurrent weights dropped in training, drawn once a batch.
    """

    def __init__(self, width: int, random: tf.random.Generator, drop: float = 0.0) -> None:
        super().__init__()
        self.width, self.random, self.drop = width, random, drop

    def build(self, x_shape: Shape, lengths_shape: Shape | None = None) -> None:
        """Create kernels [2, D, 4 width], recurrent kernels [2, width, 4 width] and biases [2, 4 width]."""
        size, width = int(x_shape[-1] or 0), self.width
        self.kernels = [self.add_weight(shape=(size, 4 * width), name=f"kernel_{d}") for d in "fb"]
        self.recurrent = [self.add_weight(shape=(width, 4 * width), name=f"recurrent_{d}") for d in "fb"]
        self.biases = [self.add_weight(shape=(4 * width,), initializer="zeros", name=f"bias_{d}") for d in "fb"]
        for bias in self.biases:  # gates: input, cell, forget, output. Forget starts at 1 (Jozefowicz et al. 2015)
            bias.assign(np.repeat([0.0, 0.0, 1.0, 0.0], width))

    def call(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, T, D] -> [B, T, 2 width]. What stands at padding is meaningless."""
        recurrent = [tf.convert_to_tensor(weights) for weights in self.recurrent]
        if training and self.drop:
            recurrent = [_dropout(weights, self.drop, self.random) for weights in recurrent]
        kernels, biases = ([tf.convert_to_tensor(w) for w in part] for part in (self.kernels, self.biases))
        series = [tf.transpose(part, [1, 0, 2]) for part in (x, tf.reverse_sequence(x, lengths, 1, 0))]
        forward, backward = (
            tf.transpose(states, [1, 0, 2]) for states in _two_lstms(*series, *kernels, *recurrent, *biases)
        )
        return tf.concat([forward, tf.reverse_sequence(backward, lengths, 1, 0)], -1)


@tf.custom_gradient
def _two_lstms(*inputs: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., list[tf.Tensor]]]:
    """Run two LSTMs of the same shape beside each other.

    TensorFlow's `BlockLSTMGrad` adds to the weights' gradient at every token. Here the gradients of kernels and series
    are one matrix product over all tokens, and a graph leaves out those that no one asks for.

    Parameters
    ----------
    inputs : pairs of Tensor, one of each LSTM
        Series [T, B, D], kernels [D, 4 width], recurrent kernels [width, 4 width], biases [4 width].

    Returns
    -------
    pair of Tensor
        States [T, B, width].
    """
    series, kernels, recurrent, biases = (inputs[i : i + 2] for i in range(0, 8, 2))
    runs = [_block_lstm(*parts) for parts in zip(series, kernels, recurrent, biases, strict=True)]

    def gradient(*slopes: tf.Tensor) -> list[tf.Tensor]:
        before = [tf.concat([tf.zeros_like(run.h[:1]), run.h[:-1]], 0) for run in runs]
        slopes_at = tf.split(_gate_slopes(runs, recurrent, slopes), 2, 1)
        gates = [tf.reshape(part, [-1, kernel.shape[1]]) for part, kernel in zip(slopes_at, kernels, strict=True)]

        def to_weights(x: tf.Tensor, weights: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
            return tf.matmul(tf.reshape(x, [-1, weights.shape[0]]), slope, transpose_a=True)

        to_series = [
            tf.reshape(tf.matmul(slope, kernel, transpose_b=True), tf.shape(x))
            for slope, kernel, x in zip(gates, kernels, series, strict=True)
        ]
        to_kernels = [to_weights(*parts) for parts in zip(series, kernels, gates, strict=True)]
        to_recurrent = [to_weights(*parts) for parts in zip(before, recurrent, gates, strict=True)]
        return [*to_series, *to_kernels, *to_recurrent, *(tf.reduce_sum(slope, 0) for slope in gates)]

    return (runs[0].h, runs[1].h), gradient


def _block_lstm(series: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor) -> BlockLSTM:
    """Run TensorFlow's fused kernel from a state of zeros."""
    width = recurrent.shape[0]
    state, peephole = tf.zeros([tf.shape(series)[1], width]), tf.zeros([width])
    return tf.raw_ops.BlockLSTM(
        seq_len_max=tf.cast(tf.shape(series)[0], tf.int64),
        x=series,
        cs_prev=state,
        h_prev=state,
        w=tf.concat([kernel, recurrent], 0),
        wci=peephole,
        wcf=peephole,
        wco=peephole,
        b=bias,
        forget_bias=0.0,
        cell_clip=0.0,  # none
        use_peephole=False,
    )


def _gate_slopes(runs: Sequence[BlockLSTM], recurrent: Sequence[tf.Tensor], slopes: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the loss's slopes at the gates before their nonlinearity: [T, 2 B, 4 width], the second LSTM's rows last.

    `slopes` [T, B, width] are those at the states. Both LSTMs go back through time in one loop.
    """
    width = recurrent[0].shape[0]
    names = ("i", "cs", "f", "o", "ci", "co")
    kept = {name: tf.concat([getattr(run, name) for run in runs], 1) for name in names}
    memory = tf.concat([tf.zeros_like(kept["cs"][:1]), kept["cs"][:-1]], 0)
    from_above, back = tf.concat(slopes, 1), [tf.transpose(weights) for weights in recurrent]
    tokens, rows = tf.shape(memory)[0], tf.shape(memory)[1]
    zeros, peephole = tf.zeros([rows, width]), tf.zeros([width])
    unused = {
        "x": tf.zeros([rows, 1]),
        "h_prev": zeros,
        "w": tf.zeros([1 + width, 4 * width]),
        "b": tf.zeros([4 * width]),
        "wci": peephole,
        "wcf": peephole,
        "wco": peephole,
    }

    def step(t: tf.Tensor, state: tf.Tensor, cell: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, ...]:
        made = tf.raw_ops.LSTMBlockCellGrad(
            **unused,
            **{name: kept[name][t] for name in names},
            cs_prev=memory[t],
            cs_grad=cell,
            h_grad=state + from_above[t],
            use_peephole=False,
        )
        state = tf.concat([gates @ weights for gates, weights in zip(tf.split(made.dicfo, 2), back, strict=True)], 0)
        return t - 1, state, made.cs_prev_grad, found.write(t, made.dicfo)

    found = tf.TensorArray(tf.float32, tokens, element_shape=[None, 4 * width])
    result = tf.while_loop(lambda t, *_: t >= 0, step, (tokens - 1, zeros, zeros, found))
    return result[-1].stack()


def _dropout(x: tf.Tensor, rate: float, random: tf.random.Generator) -> tf.Tensor:
    return tf.where(random.uniform(tf.shape(x)) < rate, 0.0, x / (1.0 - rate))


class Representation(keras.layers.Layer):
    """What a hospital sends in place of embeddings: [B, T, E] -> [B, T, S], each vector of length 1, noise included.

    "lstm": noise, BiLSTM, linear, noise, normalised. A vector depends on its sentence.
    "dense": noise, two hidden ReLU layers, linear, noise, normalised. A vector depends on its token alone.
    "raw": the embeddings, normalised, so S = E. They hide nothing.
    """

    def __init__(self, kind: str, size: int, width: int, random: tf.random.Generator) -> None:
        super().__init__()
        self.kind = kind
        if kind == "raw":
            return
        self.noise_in, self.noise_out = TrainableNoise(random), TrainableNoise(random)
        self.lstm = BiLSTM(width, random) if kind == "lstm" else None
        self.hidden = [keras.layers.Dense(width, activation="relu") for _ in range(2)] if kind == "dense" else []
        self.project = keras.layers.Dense(size)

    def call(self, embeddings: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """[B, T, E], [B] -> [B, T, S]."""
        return self.with_information(embeddings, lengths)[0]

    def with_information(self, embeddings: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the vectors [B, T, S] and an upper bound on what each tells of its sentence, in nats [B, T].

        The bound is the variational information bottleneck's (Alemi et al., ICLR 2017): the Kullback-Leibler divergence
        of what is sent, before it is normalised, from a standard normal. Its mean over tokens is at least the mutual
        information of vector and sentence. For raw embeddings there is no bound, and 0 is returned.
        """
        if self.kind == "raw":
            return tf.math.l2_normalize(embeddings, -1), tf.zeros(tf.shape(embeddings)[:2])
        x = self.noise_in(embeddings)
        x = self.lstm(x, lengths) if self.lstm is not None else x
        for layer in self.hidden:
            x = layer(x)
        mean = self.project(x)
        sent = tf.math.l2_normalize(self.noise_out(mean), -1)
        variance = tf.square(self.noise_out.deviation) + 1e-9
        return sent, 0.5 * tf.reduce_sum(tf.square(mean) + variance - 1.0 - tf.math.log(variance), -1)


class Deidentifier(keras.layers.Layer):
    """Label scores from representations: [B, T, S], casing [B, T] -> [B, T, K].

    Casing is one-hot. Two BiLSTM layers follow. Dropout is 0.1 at the input, 0.5 on recurrent weights and 0.5 after
    each layer. The CRF's `start` [K] and `transitions` [K, K] are weights of this network.
    """

    def __init__(self, labels: int, width: int, random: tf.random.Generator) -> None:
        super().__init__()
        self.labels, self.random = labels, random
        self.layers = [BiLSTM(width, random, drop=0.5) for _ in range(2)]
        self.project = keras.layers.Dense(labels)

    def build(self, vectors_shape: Shape, casing_shape: Shape, lengths_shape: Shape) -> None:
        """Create the CRF's weights."""
        self.start = self.add_weight(shape=(self.labels,), initializer="zeros", name="start")
        self.transitions = self.add_weight(shape=(self.labels, self.labels), initializer="zeros", name="transitions")

    def call(self, vectors: tf.Tensor, casing: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, T, S], [B, T] int, [B] -> [B, T, K]."""
        scale = tf.sqrt(tf.cast(tf.shape(vectors)[-1], tf.float32))  # components of unit size again
        x = tf.concat([vectors * scale, tf.one_hot(casing, len(CASINGS))], -1)
        x = _dropout(x, 0.1, self.random) if training else x
        for layer in self.layers:
            x = layer(x, lengths, training=training)
            x = _dropout(x, 0.5, self.random) if training else x
        return self.project(x)


class Adversary(keras.layers.Layer):
    """Two answers to "the same sentence?", as log-odds: [B] from (a) and [B] from (b).

    (a) a representation [B, T, S] beside an embedding sequence [B, T, E]. (b) a representation beside another.
    Each is a BiLSTM over the tokens, its maximum over time and a logistic unit.

    Two changes make the adversary stronger than the paper's. Both answers see the cosine of each token, where the paper
    gives it to (b) alone. (a) takes the cosine of the representation and a learned projection of the embedding. The
    maximum over time, where the paper takes the last state, finds a single replaced token more easily.
    """

    def __init__(self, width: int, random: tf.random.Generator) -> None:
        super().__init__()
        self.branches = [BiLSTM(width, random) for _ in range(2)]
        self.answers = [keras.layers.Dense(1) for _ in range(2)]

    def build(self, first_shape: Shape, embeddings_shape: Shape, second_shape: Shape, lengths_shape: Shape) -> None:
        """Create the projection from embeddings to representations."""
        self.project = keras.layers.Dense(int(first_shape[-1] or 0))

    def call(
        self, first: tf.Tensor, embeddings: tf.Tensor, second: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """[B, T, S], [B, T, E], [B, T, S], [B] -> [B], [B]."""
        projected = tf.math.l2_normalize(self.project(embeddings), -1)
        return (
            self._answer(0, first, embeddings, projected, lengths),
            self._answer(1, first, second, second, lengths),
        )

    def _answer(
        self, branch: int, first: tf.Tensor, other: tf.Tensor, comparable: tf.Tensor, lengths: tf.Tensor
    ) -> tf.Tensor:
        scale = tf.sqrt(tf.cast(tf.shape(first)[-1], tf.float32))
        cosine = tf.reduce_sum(first * comparable, -1, keepdims=True)
        x = tf.concat([first * scale, other * scale if branch else other, cosine], -1)
        x = self.branches[branch](x, lengths)
        alive = tf.sequence_mask(lengths, tf.shape(x)[1])[..., None]
        return self.answers[branch](tf.reduce_max(tf.where(alive, x, -1.0), 1))[:, 0]


def initialize(network: keras.layers.Layer, random: np.random.Generator) -> None:
    """Draw every weight matrix anew, Glorot uniform, from `random`. Biases and CRF weights keep their values."""
    for variable in network.trainable_weights:
        if variable.name.startswith(("kernel", "recurrent")):
            limit = np.sqrt(6.0 / sum(variable.shape))
            variable.assign(random.uniform(-limit, limit, tuple(variable.shape)))
