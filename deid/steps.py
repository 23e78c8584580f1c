"""Training steps: a batch, the two losses of it, and what each kind of step changes.

L_deid is the negative log-likelihood of the conditional random field, the mean over sentences.

L_adv is the binary cross-entropy of the mean of the adversary's two answers. It is taken over pairs of sentences with
PHI. Half of the pairs show a sentence twice. The other half show a sentence beside one that differs in one PHI token,
which one of its N neighbours replaces. A coin decides which of the two is represented. Without the coin, an adversary
that never looks at the representation is right 0.79 of the time on MEDDOCAN, because a replaced token looks replaced.
At ln 2 the adversary knows nothing.

Beyond the paper: every loss that trains the representation also has beta times an upper bound on the information in
its vectors (`Representation.with_information`). What is not needed to find PHI costs, so that no attacker gets it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from deid import crf
from deid.encoding import Encoded
from deid.model import Model
from deid.networks import reverse_gradient

LN2 = float(np.log(2.0))
LEARNING_RATE = 0.002  # Nadam's default when the paper was written


class Batch(NamedTuple):
    """B sentences of at most T tokens as tensors. P pairs shown to the adversary are rows `pairs` of them."""

    ids: tf.Tensor  # [B, T]
    altered: tf.Tensor  # [B, T]
    casing: tf.Tensor  # [B, T]
    labels: tf.Tensor  # [B, T]
    lengths: tf.Tensor  # [B]
    pairs: tf.Tensor  # [P]
    same: tf.Tensor  # [P], 1: shown beside itself, 0: beside the other
    swapped: tf.Tensor  # [P], 1: the altered sentence is represented, 0: the sentence itself
    weight: tf.Tensor  # [P], 0 for the row that stands in where a batch has no PHI


_TOKENS, _ROWS = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
_NUMBERS = tf.TensorSpec([None], tf.float32)
_SIGNATURE = (
    tf.TensorSpec([None, None], tf.float32),  # the table of embeddings
    Batch(_TOKENS, _TOKENS, _TOKENS, _TOKENS, _ROWS, _ROWS, _NUMBERS, _NUMBERS, _NUMBERS),
)


def make_batch(encoded: Encoded, chosen: np.ndarray, random: np.random.Generator, pairs: bool = True) -> Batch:
    """Return the chosen sentences as a batch. A coin decides for each pair whether it is the same or altered."""
    ids = encoded.pad(encoded.ids, chosen)
    rows = np.flatnonzero(encoded.has_phi[chosen]) if pairs else np.zeros(0, np.int64)
    weight = np.ones(max(len(rows), 1)) if len(rows) else np.zeros(1)
    rows = rows if len(rows) else np.zeros(1, np.int64)
    same, swapped = random.random((2, len(rows))) < 0.5
    return Batch(
        ids=tf.constant(ids, tf.int32),
        altered=tf.constant(encoded.altered(chosen, random) if pairs and encoded.candidates.size else ids, tf.int32),
        casing=tf.constant(encoded.pad(encoded.casing, chosen), tf.int32),
        labels=tf.constant(encoded.pad(encoded.labels, chosen), tf.int32),
        lengths=tf.constant(encoded.lengths[chosen], tf.int32),
        pairs=tf.constant(rows, tf.int32),
        same=tf.constant(same, tf.float32),
        swapped=tf.constant(swapped, tf.float32),
        weight=tf.constant(weight, tf.float32),
    )


class Losses:
    """The two losses of a batch. The caller's gradient tape decides which networks they train."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def deid(self, vectors: tf.Tensor, batch: Batch, training: bool) -> tf.Tensor:
        """Return L_deid of representations `vectors` [B, T, S]."""
        network = self.model.deidentifier
        scores = network(vectors, batch.casing, batch.lengths, training=training)
        start, transitions = tf.convert_to_tensor(network.start), tf.convert_to_tensor(network.transitions)
        return -tf.reduce_mean(crf.log_likelihood(scores, batch.labels, batch.lengths, start, transitions))

    def adversary(self, table: tf.Tensor, batch: Batch, reverse: float | None = None) -> tf.Tensor:
        """Return L_adv of the batch's pairs.

        `table` [w, E] holds the embeddings. With `reverse`, gradients into the representation are reversed and
        `reverse` times as large.
        """
        lengths = tf.gather(batch.lengths, batch.pairs)
        ids, altered = tf.gather(batch.ids, batch.pairs), tf.gather(batch.altered, batch.pairs)
        swapped = batch.swapped[:, None] > 0
        shown = tf.where(tf.equal(swapped, batch.same[:, None] > 0), altered, ids)
        represented, embeddings = tf.gather(table, tf.where(swapped, altered, ids)), tf.gather(table, shown)
        both = self.model.representation(tf.concat([represented, embeddings], 0), tf.tile(lengths, [2]))
        first, second = tf.split(both, 2)
        if reverse is not None:
            first, second = reverse_gradient(first, reverse), reverse_gradient(second, reverse)
        one, two = self.model.adversary(first, embeddings, second, lengths)
        return pair_loss(one, two, batch.same, batch.weight)


def pair_loss(one: tf.Tensor, two: tf.Tensor, same: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Return the binary cross-entropy of the mean of two answers given as log-odds: [P] each -> scalar."""
    log_half = tf.math.log(0.5)
    yes = tf.reduce_logsumexp(tf.stack([-tf.nn.softplus(-one), -tf.nn.softplus(-two)]), 0) + log_half
    no = tf.reduce_logsumexp(tf.stack([-tf.nn.softplus(one), -tf.nn.softplus(two)]), 0) + log_half
    return -tf.reduce_sum(weight * (same * yes + (1 - same) * no)) / tf.maximum(tf.reduce_sum(weight), 1.0)


@dataclass(frozen=True)
class Kind:
    """What a step computes and what it changes."""

    changes: tuple[str, ...] = ()  # the networks that learn, none: the losses are computed and nothing changes
    deid: bool = True  # whether L_deid is computed
    adversary: bool = True  # whether L_adv is computed
    pull: Literal["", "chance", "reversed"] = ""  # how lambda enters: as lambda |L_adv - ln 2|, or gradients reversed
    rate: float = LEARNING_RATE
    received: bool = False  # the table holds representations, so the representation network is not used


KINDS = {
    "stable": Kind(("representation", "deidentifier"), adversary=False),
    "adversary": Kind(("adversary",), deid=False),
    "branches": Kind(("deidentifier", "adversary")),
    "representation": Kind(("representation",), pull="chance"),
    "dann": Kind(("representation", "deidentifier", "adversary"), pull="reversed"),
    "settle": Kind(("deidentifier",), adversary=False, rate=LEARNING_RATE / 4),
    "retrain": Kind(("deidentifier",), adversary=False, received=True),
    "evaluate": Kind(),
    "evaluate deid": Kind(adversary=False),
    "evaluate received": Kind(adversary=False, received=True),
}


class Step:
    """One compiled kind of step of one model."""

    def __init__(self, kind: Kind, losses: Losses) -> None:
        self.kind, self.losses = kind, losses
        networks = losses.model.networks
        self.variables = [variable for name in kind.changes for variable in networks[name].trainable_weights]
        self.optimizer = keras.optimizers.Nadam(kind.rate, clipnorm=1.0)
        self.optimizer.build(self.variables)
        self.run = tf.function(self._run, input_signature=_SIGNATURE)

    def _run(self, table: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        values = [variable.value for variable in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            deid, adversary, total = self._losses(table, batch)
        if values:
            self.optimizer.apply(tape.gradient(total, values), self.variables)
        return deid, adversary

    def _losses(self, table: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return L_deid, L_adv and what the step makes smaller."""
        kind, settings = self.kind, self.losses.model.settings
        deid = adversary = bound = tf.constant(0.0)
        embeddings = tf.gather(table, batch.ids)
        if kind.received:
            vectors = tf.math.l2_normalize(embeddings, -1)
        else:
            vectors, information = self.losses.model.representation.with_information(embeddings, batch.lengths)
            alive = tf.sequence_mask(batch.lengths, tf.shape(batch.ids)[1], tf.float32)
            bound = tf.reduce_mean(tf.reduce_sum(information * alive, 1))  # nats a sentence
        if kind.deid:
            deid = self.losses.deid(vectors, batch, bool(kind.changes))
        if kind.adversary:
            reverse = settings.adversary_weight if kind.pull == "reversed" else None
            adversary = self.losses.adversary(table, batch, reverse)
        total = deid + adversary
        if kind.pull == "chance":
            known = tf.reduce_max(batch.weight)  # no pairs, no pull
            total = deid + settings.adversary_weight * known * tf.abs(adversary - LN2)
        return deid, adversary, total + settings.information_weight * bound


class Steps:
    """The steps of one model by the names of their kinds. Each has an optimizer of its own."""

    def __init__(self, model: Model, names: Iterable[str] = tuple(KINDS)) -> None:
        self.losses = Losses(model)
        self.by_name = {name: Step(KINDS[name], self.losses) for name in names}

    def run(self, name: str, table: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Do one step on a batch whose ids are rows of `table` [w, E]. Returns (L_deid, L_adv) before the step."""
        return self.by_name[name].run(table, batch)
