"""The three networks (representation, de-identifier, adversary) and the layers they are made of.

B sentences, T tokens (padding at the end), E embedding dimensions, S representation dimensions, K labels.

Sources: Friedrich et al., ACL 2019 (the networks, trainable noise), Ganin et al., JMLR 2016 (gradient reversal) and
Merity et al., ICLR 2018 (dropout on the recurrent weights, which stands in for the paper's dropout on the recurrent
state, so that the fused `BlockLSTM` kernel can be used).
"""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from deid.tokens import CASINGS

KINDS = ("lstm", "dense", "raw")  # raw: normalised embeddings without noise, the baseline of the audit, hide nothing
Shape = tuple[int | None, ...]
NOISE = 1.0  # initial standard deviation of the trainable noise, as large as the embeddings' components


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
    """Bidirectional LSTM by TensorFlow's fused kernel: [B, T, D], [B] lengths -> [B, T, 2 width].

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
        forward = self._run(x, 0, training)
        backward = self._run(tf.reverse_sequence(x, lengths, 1, 0), 1, training)
        return tf.concat([forward, tf.reverse_sequence(backward, lengths, 1, 0)], -1)

    def _run(self, x: tf.Tensor, direction: int, training: bool) -> tf.Tensor:
        recurrent = tf.convert_to_tensor(self.recurrent[direction])
        if training and self.drop:
            recurrent = _dropout(recurrent, self.drop, self.random)
        x = tf.transpose(x, [1, 0, 2])
        state, peephole = tf.zeros([tf.shape(x)[1], self.width]), tf.zeros([self.width])
        # not BlockLSTMV2: TensorFlow 2.21 gives it BlockLSTM's gradient, which takes the gates to be in another order
        result = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(tf.shape(x)[0], tf.int64),
            x=x,
            cs_prev=state,
            h_prev=state,
            w=tf.concat([tf.convert_to_tensor(self.kernels[direction]), recurrent], 0),
            wci=peephole,
            wcf=peephole,
            wco=peephole,
            b=tf.convert_to_tensor(self.biases[direction]),
            forget_bias=0.0,
            cell_clip=0.0,  # none
            use_peephole=False,
        )
        return tf.transpose(result.h, [1, 0, 2])


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
