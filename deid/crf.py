"""A linear-chain conditional random field over IOB2 labels (Lafferty, McCallum and Pereira 2001)."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def log_likelihood(
    scores: tf.Tensor, labels: tf.Tensor, lengths: tf.Tensor, start: tf.Tensor, transitions: tf.Tensor
) -> tf.Tensor:
    """Return the log-probability of each sentence's labels.

    Parameters
    ----------
    scores : [B, T, K] float
        Score of each of K labels at each of T tokens, padding at the end.
    labels : [B, T] int
        The true labels. At padding, any value from 0 to K - 1.
    lengths : [B] int
        Tokens of each sentence, at least 1.
    start : [K] float
        Score of each label as the first.
    transitions : [K, K] float
        Score of going from one label (row) to the next (column).

    Returns
    -------
    [B] float
        log p(labels | scores).
    """
    alive = tf.sequence_mask(lengths, tf.shape(scores)[1], scores.dtype)
    path = tf.gather(scores, labels, batch_dims=2) * alive
    steps = tf.gather_nd(transitions, tf.stack([labels[:, :-1], labels[:, 1:]], -1)) * alive[:, 1:]
    score = tf.reduce_sum(path, 1) + tf.reduce_sum(steps, 1) + tf.gather(start, labels[:, 0])
    return score - _log_partition(scores, alive, start, transitions)


def _log_partition(scores: tf.Tensor, alive: tf.Tensor, start: tf.Tensor, transitions: tf.Tensor) -> tf.Tensor:
    """Return the log of the sum over all paths' exponentiated scores: [B] (forward algorithm)."""
    height = tf.reduce_max(transitions)
    factors = tf.exp(transitions - height)  # sums over labels become one matrix product a step

    def step(forward: tf.Tensor, now: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        score, going = now
        top = tf.reduce_max(forward, 1, keepdims=True)
        reached = tf.math.log(tf.exp(forward - top) @ factors + 1e-30) + top + height + score
        return tf.where(going[:, None] > 0, reached, forward)

    rest = (tf.transpose(scores, [1, 0, 2])[1:], tf.transpose(alive)[1:])
    return tf.reduce_logsumexp(tf.foldl(step, rest, scores[:, 0] + start), 1)


def forbidden(labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return what IOB2 rules out, as -inf or 0: the first label [K], and one label after another [K, K]."""
    inside = np.array([label.startswith("I-") for label in labels])
    phi = np.array([label[2:] for label in labels])
    ruled_out = inside[None, :] & (phi[:, None] != phi[None, :])
    return np.where(inside, -np.inf, 0.0), np.where(ruled_out, -np.inf, 0.0)


def viterbi(scores: np.ndarray, lengths: np.ndarray, start: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return each sentence's best-scoring labels: [B, T] int, 0 at padding. Shapes as in `log_likelihood`."""
    sentences, tokens, _ = scores.shape
    best = scores[:, 0] + start
    came_from = np.zeros(scores.shape, np.int64)
    for t in range(1, tokens):
        through = best[:, :, None] + transitions
        going = (t < lengths)[:, None]
        came_from[:, t] = np.where(going, through.argmax(1), np.arange(scores.shape[2]))
        best = np.where(going, through.max(1) + scores[:, t], best)
    labels = np.zeros((sentences, tokens), np.int64)
    labels[:, -1] = best.argmax(1)
    for t in range(tokens - 1, 0, -1):
        labels[:, t - 1] = came_from[np.arange(sentences), t, labels[:, t]]
    return np.where(np.arange(tokens) < lengths[:, None], labels, 0)
