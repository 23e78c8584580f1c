"""Telling apart: do these two show the same sentence? New adversaries are trained until they converge.

They are those of the training, made stronger: each answer has a loss of its own, and every sentence is shown both ways.
"""

import keras
import numpy as np
import tensorflow as tf

from deid.attacks import fitting
from deid.attacks.fitting import Channel, Effort
from deid.attacks.rates import Result, rate
from deid.encoding import BATCH, Encoded, batches
from deid.networks import Adversary, initialize

NAMES = ("(a) with embedding", "(b) two representations", "both")
Pairs = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]  # table of embeddings, ids, altered ids, lengths
_IDS = tf.TensorSpec([None, None], tf.int32)
_SIGNATURE = (tf.TensorSpec([None, None], tf.float32), _IDS, _IDS, tf.TensorSpec([None], tf.int32))


def tell_apart(channel: Channel, known: Encoded, targets: Encoded, effort: Effort) -> Result:
    """Train both adversaries anew and count how often they are right on pairs they have not seen.

    Parameters
    ----------
    channel : Channel
    known : Encoded
        The attacker's own notes, with candidates.
    targets : Encoded
        The notes attacked, with candidates.
    effort : Effort

    Returns
    -------
    Result
        The rates of `NAMES` are the accuracy over pairs. Half of the pairs show the same sentence.
    """
    judges = _Judges(channel, known, effort)
    best = fitting.fit(judges, known, effort, "tell apart")
    table = tf.constant(targets.vectors)
    hits: list[np.ndarray] = []
    notes: list[np.ndarray] = []
    for part in batches(targets.lengths, np.flatnonzero(targets.has_phi), None, 4 * BATCH):
        one, two, _ = (np.asarray(x) for x in judges.answers(*judges.pairs(table, targets, part)))
        mean = (1 / (1 + np.exp(-one)) + 1 / (1 + np.exp(-two))) / 2
        same = np.arange(2 * len(part)) < len(part)
        hits.append(np.stack([(one > 0) == same, (two > 0) == same, (mean > 0.5) == same]))
        notes.append(np.tile(targets.note_of[part], 2))
    hit, note = np.concatenate(hits, 1).astype(float), np.concatenate(notes)
    return Result(
        "tell apart",
        {name: rate(hit[i], note, judges.random) for i, name in enumerate(NAMES)},
        dict.fromkeys(NAMES, 0.5),
        learned=(best, effort.epochs),
    )


class _Judges:
    """Both adversaries and their training."""

    def __init__(self, channel: Channel, known: Encoded, effort: Effort) -> None:
        self.send, self.known = channel.send, known
        self.random = np.random.default_rng(effort.seed)
        self.network = Adversary(effort.width, tf.random.Generator.from_seed(effort.seed))
        self.table = tf.constant(known.vectors)
        embedded, sent = tf.zeros([1, 2, known.vectors.shape[1]]), tf.zeros([1, 2, channel.size])
        self.network(sent, embedded, sent, tf.constant([2]))
        initialize(self.network, self.random)
        self.variables = self.network.trainable_weights
        self.optimizer = keras.optimizers.Nadam(0.001, clipnorm=1.0)
        self.optimizer.build(self.variables)
        self.answers = tf.function(self._answers, input_signature=_SIGNATURE)
        self._compiled_learn = tf.function(self._learn, input_signature=_SIGNATURE)

    def pairs(self, table: tf.Tensor, encoded: Encoded, part: np.ndarray) -> Pairs:
        """Return the sentences `part` and altered ones.

        A coin decides which of the two was sent, so that a replaced token's look does not give the answer away.
        """
        ids, altered = encoded.pad(encoded.ids, part), encoded.altered(part, self.random)
        swapped = self.random.random((len(part), 1)) < 0.5
        return (
            table,
            tf.constant(np.where(swapped, altered, ids), tf.int32),
            tf.constant(np.where(swapped, ids, altered), tf.int32),
            tf.constant(encoded.lengths[part], tf.int32),
        )

    def learn(self, part: np.ndarray) -> None:
        """Take one step on the sentences `part`."""
        self._compiled_learn(*self.pairs(self.table, self.known, part))

    def loss(self, part: np.ndarray) -> float:
        """Return the mean loss on the sentences `part`."""
        return float(self.answers(*self.pairs(self.table, self.known, part))[2])

    def _answers(
        self, table: tf.Tensor, ids: tf.Tensor, altered: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return answers (a) and (b) [2 B] and their loss. The first B pairs show the same sentence."""
        both, lengths = tf.concat([ids, altered], 0), tf.tile(lengths, [2])
        first = self.send(tf.gather(table, tf.tile(ids, [2, 1])), lengths)
        embeddings = tf.gather(table, both)
        one, two = self.network(first, embeddings, self.send(embeddings, lengths), lengths)
        same = tf.cast(tf.range(tf.shape(both)[0]) < tf.shape(ids)[0], tf.float32)
        cross = tf.nn.sigmoid_cross_entropy_with_logits
        return one, two, tf.reduce_mean(cross(same, one) + cross(same, two)) / 2

    def _learn(self, table: tf.Tensor, ids: tf.Tensor, altered: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._answers(table, ids, altered, lengths)[2]
        self.optimizer.apply(tape.gradient(loss, self.variables), self.variables)
        return loss
