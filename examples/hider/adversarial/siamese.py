"""The siamese embedding: a CNN that learns to tell whether two records are of one patient."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from utils.progress import progress_bar
from utils.tensors import Tensor

_CHECK_EVERY = 25  # iterations between two looks at the held-out pairs
_PATIENCE = 4  # looks without improvement by a hundredth before training stops
_HELD_OUT = 0.1  # share of the records
_HELD_OUT_PAIRS = 256
_TOLD_APART = 0.95  # share of held-out pairs on the right side of half the margin
_CHANCE = 0.55  # share of held-out pairs told apart by an embedding that has learned nothing, or less
_STUCK = 400  # iterations without telling pairs apart after which training begins anew


def build_embedding(shape: tuple[int, int], filters: int, dropout: float, rng: np.random.Generator) -> keras.Model:
    """Build the CNN: records [n, T, F] to embeddings [n, 128]. Pooling rounds up, so any T and F will do."""

    def seed() -> int:
        return int(rng.integers(2**31))

    def weights() -> keras.initializers.Initializer:
        return keras.initializers.GlorotUniform(seed())

    inputs = keras.Input(shape)
    x = keras.layers.Reshape((*shape, 1))(inputs)
    for channels, size in ((filters, 5), (filters, 3), (2 * filters, 3)):
        x = keras.layers.Conv2D(channels, size, padding="same", kernel_initializer=weights())(x)
        x = keras.layers.LayerNormalization()(x)
        x = keras.layers.Dropout(dropout, seed=seed())(x)
        x = keras.layers.MaxPooling2D(2, padding="same")(x)
        x = keras.layers.Activation("sigmoid")(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(256, kernel_initializer=weights())(x)
    x = keras.layers.Dense(128, activation="sigmoid", kernel_initializer=weights())(x)
    return keras.Model(inputs, x)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance along the last axis, with a gradient at 0."""
    return tf.sqrt(tf.reduce_sum(tf.square(a - b), axis=-1) + 1e-12)


def contrastive_loss(distances: Tensor, similar: Tensor, margin: float) -> Tensor:
    """Hadsell, Chopra and LeCun (CVPR 2006): similar pairs attract, others repel up to `margin`."""
    apart = tf.nn.relu(margin - distances)
    return tf.reduce_mean(tf.where(similar, tf.square(distances), tf.square(apart)))


def draw_pairs(
    records: np.ndarray, present: np.ndarray, among: np.ndarray, count: int, noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw `count` pairs: the first half a record and itself with noise on its `present` cells, the rest two records.

    `among` [n] are the records drawn from, two at least.

    Returns
    -------
    first, second : ndarray of float32, shape [count, T, F]
    similar : ndarray of bool, shape [count]
    """
    one = rng.integers(len(among), size=count)
    other = among[(one + rng.integers(1, len(among), size=count)) % len(among)]
    one = among[one]
    similar = np.arange(count) < count // 2
    first, second = records[one], records[np.where(similar, one, other)]
    shift = rng.normal(0, noise, (count // 2, *records.shape[1:])) * present[one[: count // 2]]
    second[: count // 2] += shift.astype(np.float32)
    return first, second, similar


def train_embedding(
    records: np.ndarray,
    present: np.ndarray,
    *,
    filters: int,
    dropout: float,
    noise: float,
    margin: float,
    batch_size: int,
    learning_rate: float,
    iterations: int,
    rng: np.random.Generator,
) -> keras.Model:
    """Train the embedding on pairs of records until held-out ones are told apart and have stopped improving.

    The contrastive loss has a plateau where all records get one embedding. Training begins anew, with other first
    weights, if pairs are not told apart for `_STUCK` iterations (docs/methods.md).

    Parameters
    ----------
    records : ndarray of float32, shape [N, T, F]
        0 where padded or missing.
    present : ndarray of bool, shape [N, T, F]
        False where padded or missing.
    filters, dropout, noise, margin, batch_size, learning_rate, iterations
        As in `hider_adversarial.Parameters`. Training may end before `iterations`.
    rng : numpy.random.Generator
        First weights, dropout and pairs.

    Returns
    -------
    keras.Model
        Frozen.
    """

    def begin() -> tuple[keras.Model, Callable[..., None]]:
        embedding = build_embedding(records.shape[1:], filters, dropout, rng)
        optimiser = keras.optimizers.Adam(learning_rate)
        optimiser.build(embedding.trainable_variables)

        @tf.function(reduce_retracing=True, autograph=False)
        def train(first: Tensor, second: Tensor, similar: Tensor) -> None:
            with tf.GradientTape() as tape:
                both = embedding(tf.concat([first, second], 0), training=True)
                loss = contrastive_loss(distance(*tf.split(both, 2)), similar, margin)
            variables = embedding.trainable_variables
            optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

        return embedding, train

    embedding, train = begin()
    order = rng.permutation(len(records))
    held_out = order[: max(2, int(_HELD_OUT * len(records)))]
    # With 2 or 3 records there is no other way than to train on those held out.
    kept = order[len(held_out) :] if len(records) - len(held_out) > 1 else order
    unseen = draw_pairs(records, present, held_out, _HELD_OUT_PAIRS, noise, rng)
    best, waited, begun = np.inf, 0, 0
    with progress_bar(iterations, "Training the embedding", "iteration") as bar:
        for iteration in range(1, iterations + 1):
            train(*draw_pairs(records, present, kept, batch_size, noise, rng))
            bar.update()
            if iteration % _CHECK_EVERY == 0:
                loss, apart = _judge(embedding, unseen, margin)
                bar.set_postfix(held_out_loss=f"{loss:.4f}", told_apart=f"{apart:.1%}")
                best, waited = (loss, 0) if loss < 0.99 * best else (best, waited + 1)
                if apart >= _TOLD_APART and waited >= _PATIENCE:
                    break
                if apart > _CHANCE:
                    begun = iteration
                elif iteration - begun >= _STUCK:
                    embedding, train = begin()
                    best, begun = np.inf, iteration
    embedding.trainable = False
    return embedding


def embed(embedding: keras.Model, records: np.ndarray, batch: int = 256) -> np.ndarray:
    """Embed records [N, T, F]. Returns [N, 128]."""
    return np.concatenate(
        [embedding(records[i : i + batch], training=False).numpy() for i in range(0, len(records), batch)]
    )


def _judge(embedding: keras.Model, pairs: tuple[np.ndarray, ...], margin: float) -> tuple[float, float]:
    """Return the loss and the share of pairs on the right side of half the margin."""
    first, second, similar = pairs
    distances = distance(embed(embedding, first), embed(embedding, second))
    told_apart = np.mean((distances.numpy() < margin / 2) == similar)
    return float(contrastive_loss(distances, similar, margin)), float(told_apart)
