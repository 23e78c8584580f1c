"""Inversion: a network names each PHI token from all that was sent.

Labels and casing alone already allow good guesses. `audit` runs the same network without the representation beside it,
and `guess_by_type` needs no network at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from deid.attacks import fitting
from deid.attacks.fitting import Channel, Effort
from deid.attacks.rates import Rate, Result, rate
from deid.encoding import BATCH, Encoded, batches
from deid.networks import BiLSTM, initialize
from deid.tokens import CASINGS

WIDTH = 128  # units of the LSTM, a direction


class Sent(NamedTuple):
    """B sentences of at most T tokens: the table of embeddings [w, E] and what is sent beside the vectors."""

    table: tf.Tensor
    ids: tf.Tensor  # [B, T]
    casing: tf.Tensor  # [B, T]
    labels: tf.Tensor  # [B, T]
    lengths: tf.Tensor  # [B]


_IDS = tf.TensorSpec([None, None], tf.int32)
_SENT = Sent(tf.TensorSpec([None, None], tf.float32), _IDS, _IDS, _IDS, tf.TensorSpec([None], tf.int32))
_HIDDEN = tf.TensorSpec([None, None], tf.bool)


class Inverter(keras.layers.Layer):
    """What was sent -> the token's embedding: [B, T, S], casing and labels [B, T] -> unit vectors [B, T, E]."""

    def __init__(self, labels: int, size: int, random: tf.random.Generator) -> None:
        super().__init__()
        self.labels = labels
        self.lstm, self.project = BiLSTM(WIDTH, random), keras.layers.Dense(size)

    def call(self, sent: tf.Tensor, casing: tf.Tensor, labels: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """[B, T, S], [B, T], [B, T], [B] -> [B, T, E]."""
        scale = tf.sqrt(tf.cast(tf.shape(sent)[-1], tf.float32))
        x = tf.concat([sent * scale, tf.one_hot(casing, len(CASINGS)), tf.one_hot(labels, self.labels)], -1)
        return tf.math.l2_normalize(self.project(tf.concat([self.lstm(x, lengths), x], -1)), -1)


def invert(channel: Channel, labels: int, known: Encoded, targets: Encoded, effort: Effort) -> Result:
    """Train a network to name PHI tokens from what was sent: the nearest word to the embedding it recovers.

    It chooses among the PHI words of both the attacker's and the target notes. Punctuation is not counted.

    Parameters
    ----------
    channel : Channel
    labels : int
        How many labels there are.
    known, targets : Encoded
        The attacker's own notes and the notes attacked.
    effort : Effort

    Returns
    -------
    Result
        Rate "token found". Series "token found", "note" and "rank": the true token's, 0 best, as a share of the words.
    """
    thief = _Thief(channel, labels, known, effort)
    best = fitting.fit(thief, known, effort, "invert")
    place, space = _every_word(known, targets)
    table = tf.constant(targets.vectors)
    ranks, notes = [], []
    for part in batches(targets.lengths, np.flatnonzero(targets.has_phi), None, 4 * BATCH):
        hidden = targets.pad(targets.hidden, part)
        found = np.asarray(thief.recover(_sent(table, targets, part)))[hidden]
        truth = np.array([place[targets.words[i]] for i in targets.pad(targets.ids, part)[hidden]])
        likeness = found @ space.T
        ranks.append((likeness > likeness[np.arange(len(truth)), truth][:, None]).sum(1))
        notes.append(np.repeat(targets.note_of[part], hidden.sum(1)))
    rank, note = np.concatenate(ranks), np.concatenate(notes)
    hits = (rank == 0).astype(float)
    return Result(
        "invert",
        {"token found": rate(hits, note, thief.random)},
        {"token found": 1 / len(place)},
        {"rank": rank / len(place), "token found": hits, "note": note},
        learned=(best, effort.epochs),
    )


class _Thief:
    """The inverting network and its training."""

    def __init__(self, channel: Channel, labels: int, known: Encoded, effort: Effort) -> None:
        self.send, self.known = channel.send, known
        self.random = np.random.default_rng(effort.seed)
        self.network = Inverter(labels, known.vectors.shape[1], tf.random.Generator.from_seed(effort.seed))
        ids = tf.zeros([1, 2], tf.int32)
        self.network(tf.zeros([1, 2, channel.size]), ids, ids, tf.constant([2]))
        initialize(self.network, self.random)
        self.variables = self.network.trainable_weights
        self.optimizer = keras.optimizers.Nadam(0.002, clipnorm=1.0)
        self.optimizer.build(self.variables)
        self.table = tf.constant(known.vectors)
        words = _hidden_words(known)
        self.space = tf.constant(_unit(known.vectors[words]))  # the words it chooses among while it learns
        self.place = np.zeros(len(known.vectors), np.int32)  # of each row of the table in `space`
        self.place[words] = np.arange(len(words))
        self.recover = tf.function(self._recover, input_signature=(_SENT,))
        self._compiled_loss = tf.function(self._loss, input_signature=(_SENT, _HIDDEN, _IDS))
        self._compiled_learn = tf.function(self._learn, input_signature=(_SENT, _HIDDEN, _IDS))

    def learn(self, part: np.ndarray) -> None:
        """Take one step on the sentences `part`."""
        self._compiled_learn(*self._inputs(part))

    def loss(self, part: np.ndarray) -> float:
        """Return the mean loss on the sentences `part`."""
        return float(self._compiled_loss(*self._inputs(part)))

    def _inputs(self, part: np.ndarray) -> tuple[Sent, tf.Tensor, tf.Tensor]:
        """Return what was sent, which tokens are PHI [B, T] and which word each of them is [B, T]."""
        hidden, truth = self.known.pad(self.known.hidden, part), self.known.pad(self.place[self.known.ids], part)
        return _sent(self.table, self.known, part), tf.constant(hidden), tf.constant(truth)

    def _recover(self, sent: Sent) -> tf.Tensor:
        vectors = self.send(tf.gather(sent.table, sent.ids), sent.lengths)
        return self.network(vectors, sent.casing, sent.labels, sent.lengths)

    def _loss(self, sent: Sent, hidden: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
        found = tf.boolean_mask(self._recover(sent), hidden)
        logits = tf.linalg.matmul(found, self.space, transpose_b=True) * 10.0
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.boolean_mask(truth, hidden), logits))

    def _learn(self, sent: Sent, hidden: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._loss(sent, hidden, truth)
        self.optimizer.apply(tape.gradient(loss, self.variables), self.variables)
        return loss


def _sent(table: tf.Tensor, encoded: Encoded, part: np.ndarray) -> Sent:
    ids, casing, labels = (
        tf.constant(encoded.pad(flat, part), tf.int32) for flat in (encoded.ids, encoded.casing, encoded.labels)
    )
    return Sent(table, ids, casing, labels, tf.constant(encoded.lengths[part], tf.int32))


def _hidden_words(encoded: Encoded) -> np.ndarray:
    """Return the rows of the words that occur as PHI."""
    return np.unique(encoded.ids[encoded.hidden])


def _every_word(known: Encoded, targets: Encoded) -> tuple[dict[str, int], np.ndarray]:
    """Return the W PHI words of both with their rows in [W, E], and their embeddings of length 1 [W, E]."""
    rows = [(part, _hidden_words(part)) for part in (known, targets)]
    place = {word: i for i, word in enumerate(dict.fromkeys(part.words[i] for part, words in rows for i in words))}
    space = np.zeros((len(place), known.vectors.shape[1]), np.float32)
    for part, words in rows:
        space[[place[part.words[i]] for i in words]] = _unit(part.vectors[words])
    return place, space


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def guess_by_type(known: Encoded, targets: Encoded, labels: Sequence[str], seed: int) -> Rate:
    """Return how often a PHI token is the most frequent one of its type in the attacker's notes."""
    types = np.array([label[2:] for label in labels])
    counts: dict[str, dict[str, int]] = {}
    for i in np.flatnonzero(known.hidden):
        of_type = counts.setdefault(types[known.labels[i]], {})
        word = known.words[known.ids[i]]
        of_type[word] = of_type.get(word, 0) + 1
    best = {phi: max(of_type, key=lambda word: of_type[word]) for phi, of_type in counts.items()}
    tokens = np.flatnonzero(targets.hidden)
    hits = [targets.words[targets.ids[i]] == best.get(types[targets.labels[i]]) for i in tokens]
    notes = np.repeat(targets.note_of, targets.lengths)[tokens]
    return rate(np.array(hits, float), notes, np.random.default_rng(seed))
