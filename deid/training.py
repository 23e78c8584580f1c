"""Training a representation that a de-identifier can use and an adversary cannot.

Alternating (Feutry et al. 2018, as in Friedrich et al. 2019), one `Phase` after another:

1. "stable": representation and de-identifier on L_deid, until the validation loss is stable;
2. "adversary": the representation frozen, the adversary on L_adv, until stable;
3. "joint": turn about, an epoch each: (a) the representation frozen, de-identifier on L_deid and adversary on L_adv;
   (b) both frozen, the representation on L_deid + lambda |L_adv - ln 2|.

DANN (Ganin et al. 2016): everything at once on L_deid + L_adv, the gradient reversed (times lambda) between the
representation and the adversary.

Last, in either, "settle": the representation frozen for good, the de-identifier alone on L_deid at a quarter of the
rate, until stable; as a provider does when it trains on what it received.

L_deid is the CRF's negative log-likelihood, mean over sentences. L_adv is the binary cross-entropy of the mean of the
adversary's two answers over pairs of sentences with PHI: half show a sentence twice, half beside one that differs in
one PHI token, replaced by one of its N neighbours. Which of the two is represented is drawn by lot, so that what a
replaced token looks like tells nothing: without the lot, an adversary that never looks at the representation is right
0.79 of the time (MEDDOCAN). At ln 2 the adversary knows nothing.

Beyond the paper: to every loss that trains the representation, beta times the bound on what its vectors tell is added
(`Representation.with_information`); what finding PHI does not need, no attacker gets.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from deid import crf
from deid.encoding import BATCH, Encoded, batches
from deid.files import read_archive, write_archive
from deid.models import reverse_gradient
from deid.settings import Epochs
from deid.storage import Model
from utils.errors import UserError
from utils.progress import progress_bar

LN2 = float(np.log(2.0))
PATIENCE = 10  # epochs without a better validation loss
PLAIN_SHARE = 1 / 3  # of the sentences without PHI, drawn anew each epoch: most of the tokens, little to learn
LEARNING_RATE = 0.002  # Nadam's default when the paper was written


@dataclass(frozen=True)
class Batch:
    """B sentences of at most T tokens as tensors; P pairs shown to the adversary are rows `pairs` of them."""

    ids: tf.Tensor  # [B, T]
    altered: tf.Tensor  # [B, T]
    casing: tf.Tensor  # [B, T]
    labels: tf.Tensor  # [B, T]
    lengths: tf.Tensor  # [B]
    pairs: tf.Tensor  # [P]
    same: tf.Tensor  # [P], 1: shown beside itself, 0: beside the other
    swapped: tf.Tensor  # [P], 1: the altered sentence is represented, 0: the sentence itself
    weight: tf.Tensor  # [P], 0 for the row that stands in where a batch has no PHI


def make_batch(encoded: Encoded, chosen: np.ndarray, random: np.random.Generator, pairs: bool = True) -> Batch:
    """Return the chosen sentences as a batch; each pair is the same or altered by the toss of a coin."""
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


_SIGNATURE = [
    tf.TensorSpec([None, None], tf.float32),  # vectors
    *[tf.TensorSpec([None, None], tf.int32)] * 4,
    *[tf.TensorSpec([None], tf.int32)] * 2,
    *[tf.TensorSpec([None], tf.float32)] * 3,
]


class Losses:
    """The two losses of a batch; each network trains or stands still as the caller's gradient tape says."""

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

        `table` [w, E] holds the embeddings; gradients into the representation are reversed, `reverse` times as large.
        """
        lengths = tf.gather(batch.lengths, batch.pairs)
        ids, altered = tf.gather(batch.ids, batch.pairs), tf.gather(batch.altered, batch.pairs)
        swapped = batch.swapped[:, None] > 0
        shown = tf.where(tf.equal(swapped, batch.same[:, None] > 0), altered, ids)
        first = self.model.representation(tf.gather(table, tf.where(swapped, altered, ids)), lengths)
        embeddings = tf.gather(table, shown)
        second = self.model.representation(embeddings, lengths)
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


class Steps:
    """Compiled training steps and losses of one model."""

    def __init__(self, model: Model) -> None:
        self.model, self.losses = model, Losses(model)
        weight = model.settings.adversary_weight
        networks = model.networks

        def optimizer(
            *names: str, rate: float = LEARNING_RATE
        ) -> tuple[keras.optimizers.Optimizer, list[keras.Variable]]:
            variables = [v for name in names for v in networks[name].trainable_weights]
            made = keras.optimizers.Nadam(rate, clipnorm=1.0)
            made.build(variables)
            return made, variables

        everything = optimizer("representation", "deidentifier")
        branches = optimizer("deidentifier", "adversary")
        only_adversary = optimizer("adversary")
        representation = optimizer("representation") if model.settings.representation != "raw" else everything
        dann = optimizer("representation", "deidentifier", "adversary")
        deidentifier = optimizer("deidentifier", rate=LEARNING_RATE / 4)
        updates = (everything, branches, only_adversary, representation, dann, deidentifier)
        self.optimizers = [o for o, _ in updates]
        self.by_name: dict[str, Callable[..., tuple[tf.Tensor, tf.Tensor]]] = {
            "stable": self._compile(everything, adversary=False),
            "adversary": self._compile(only_adversary, deid=False),
            "branches": self._compile(branches),
            "representation": self._compile(representation, towards_chance=weight),
            "dann": self._compile(dann, reverse=weight),
            "settle": self._compile(deidentifier, adversary=False),
            "evaluate": self._compile(None),
            "deid only": self._compile(None, adversary=False),
        }

    def _compile(
        self,
        update: tuple[keras.optimizers.Optimizer, list[keras.Variable]] | None,
        deid: bool = True,
        adversary: bool = True,
        towards_chance: float | None = None,
        reverse: float | None = None,
    ) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
        @tf.function(input_signature=_SIGNATURE)
        def step(table: tf.Tensor, *parts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            batch = Batch(*parts)
            deid_loss = adversary_loss = tf.constant(0.0)
            training = update is not None
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                if update is not None:
                    tape.watch([variable.value for variable in update[1]])
                embeddings = tf.gather(table, batch.ids)
                vectors, information = self.model.representation.with_information(embeddings, batch.lengths)
                if deid:
                    deid_loss = self.losses.deid(vectors, batch, training)
                if adversary:
                    adversary_loss = self.losses.adversary(table, batch, reverse)
                total = deid_loss + adversary_loss
                if towards_chance is not None:
                    known = tf.reduce_max(batch.weight)  # no pairs, no pull
                    total = deid_loss + towards_chance * known * tf.abs(adversary_loss - LN2)
                alive = tf.sequence_mask(batch.lengths, tf.shape(batch.ids)[1], tf.float32)
                told = tf.reduce_mean(tf.reduce_sum(information * alive, 1))  # nats a sentence
                total += self.model.settings.information_weight * told
            if update is not None:
                optimizer, variables = update
                gradients = tape.gradient(total, [variable.value for variable in variables])
                optimizer.apply(gradients, variables)
            return deid_loss, adversary_loss

        return step

    def run(self, name: str, table: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Do one step; returns (L_deid, L_adv) before it."""
        return self.by_name[name](
            table,
            batch.ids,
            batch.altered,
            batch.casing,
            batch.labels,
            batch.lengths,
            batch.pairs,
            batch.same,
            batch.swapped,
            batch.weight,
        )


@dataclass(frozen=True)
class Phase:
    """One part of a procedure: the steps of an epoch in order, what early stopping looks at, the most epochs."""

    name: str
    steps: tuple[str, ...]
    epochs: int
    deid: bool  # whether L_deid counts in the validation loss
    adversary: str  # how L_adv counts: "" not, "loss", or "chance": |L_adv - ln 2|


def phases(procedure: str, epochs: Epochs, raw: bool) -> list[Phase]:
    """Return a procedure's phases; on raw embeddings those without an adversary, as there is nothing to hide."""
    first = Phase("stable", ("stable",), epochs.stable, True, "")
    last = Phase("settle", ("settle",), epochs.settle, True, "")
    if raw:
        return [first, last]
    if procedure == "dann":
        return [Phase("dann", ("dann",), epochs.stable + epochs.joint, True, "chance"), last]
    return [
        first,
        Phase("adversary", ("adversary",), epochs.adversary, False, "loss"),
        Phase("joint", ("branches", "representation"), epochs.joint, True, "chance"),
        last,
    ]


def train(
    model: Model,
    training: Encoded,
    validation: Encoded,
    epochs: Epochs,
    checkpoint: Path | None = None,
    show: bool = True,
    plan: list[Phase] | None = None,
) -> list[dict[str, float | str]]:
    """Train a model in place; returns the history, one entry an epoch.

    Parameters
    ----------
    model : Model
        Its settings give the procedure, lambda and the seed.
    training, validation : Encoded
        With candidates (see `encoding.encode`), unless the representation is raw.
    epochs : Epochs
        The most epochs of each phase; each stops after `PATIENCE` epochs without a better validation loss and goes on
        with the best weights.
    checkpoint : Path, optional
        Folder that holds the state after every epoch; a training that finds one there goes on from it.
    show : bool
        Whether to show progress.
    plan : list of Phase, optional
        In place of the procedure's phases.

    Raises
    ------
    UserError
        Where the checkpoint is of another training.
    """
    settings = model.settings
    raw = settings.representation == "raw"
    plan = phases(settings.procedure, epochs, raw) if plan is None else plan
    run = _Run(model, training, validation, checkpoint, show, json.dumps([asdict(phase) for phase in plan]))
    run.resume()
    while run.phase < len(plan):
        run.train(plan[run.phase])
    return run.history


class _Run:
    """The state of a training: what a checkpoint holds and what it does not."""

    def __init__(
        self, model: Model, training: Encoded, validation: Encoded, checkpoint: Path | None, show: bool, plan: str
    ) -> None:
        self.model, self.training, self.validation, self.show = model, training, validation, show
        self.steps = Steps(model)
        self.tables = tf.constant(training.vectors), tf.constant(validation.vectors)
        self.random = np.random.default_rng(model.settings.seed)
        self.phase = self.epoch = self.waited = 0
        self.least = np.inf
        self.best = model.weights()
        self.history: list[dict[str, float | str]] = []
        self.path = checkpoint / "state.npz" if checkpoint else None
        digest = hashlib.sha256(json.dumps([asdict(model.settings), plan]).encode())
        for encoded in (training, validation):
            digest.update(encoded.ids.tobytes() + encoded.labels.tobytes() + encoded.vectors.tobytes())
        self.identity = digest.hexdigest()

    def train(self, phase: Phase) -> None:
        """Train one phase to its end."""
        steps = sum(len(list(self._epoch(step, None))) for step in phase.steps)
        with progress_bar((phase.epochs) * steps, f"{phase.name:>9}", "batch", self.show) as bar:
            bar.update(self.epoch * steps)
            while self.epoch < phase.epochs and self.waited < PATIENCE:
                for step in phase.steps:
                    for chosen in self._epoch(step, self.random):
                        batch = make_batch(self.training, chosen, self.random, step not in ("stable", "settle"))
                        self.steps.run(step, self.tables[0], batch)
                        bar.update()
                deid, adversary = self._validate(phase)
                counted = deid * phase.deid
                counted += adversary if phase.adversary == "loss" else 0.0
                counted += (
                    abs(adversary - LN2) * self.model.settings.adversary_weight if phase.adversary == "chance" else 0.0
                )
                self.epoch, self.waited = self.epoch + 1, self.waited + 1
                if counted < self.least:
                    self.least, self.waited, self.best = counted, 0, self.model.weights()
                self.history.append({"phase": phase.name, "epoch": self.epoch, "deid": deid, "adversary": adversary})
                bar.set_postfix_str(f"epoch {self.epoch}, validation: L_deid {deid:.4f}, L_adv {adversary:.4f}")
                if self.show and not sys.stderr.isatty():
                    bar.refresh()
                self._keep()
        self.model.set_weights(self.best)
        self.phase, self.epoch, self.waited, self.least = self.phase + 1, 0, 0, np.inf
        self._keep()

    def _epoch(self, step: str, random: np.random.Generator | None) -> list[np.ndarray]:
        """Return an epoch's batches: every sentence with PHI; unless the adversary alone trains, a share without."""
        phi, plain = np.flatnonzero(self.training.has_phi), np.flatnonzero(~self.training.has_phi)
        if step != "adversary":
            share = min(len(plain), max(round(PLAIN_SHARE * len(plain)), BATCH))
            plain = random.choice(plain, share, replace=False) if random is not None else plain[:share]
            phi = np.concatenate([phi, plain])
        return list(batches(self.training.lengths, phi, random))

    def _validate(self, phase: Phase) -> tuple[float, float]:
        """Return the mean L_deid and L_adv over the validation sentences; the same pairs every time."""
        random = np.random.default_rng(self.model.settings.seed)
        phi, plain = np.flatnonzero(self.validation.has_phi), np.flatnonzero(~self.validation.has_phi)
        chosen = phi if not phase.deid else np.concatenate([phi, plain])
        sums, weights = np.zeros(2), np.full(2, 1e-12)
        for part in batches(self.validation.lengths, chosen, None, 4 * BATCH):
            batch = make_batch(self.validation, part, random, bool(phase.adversary))
            losses = self.steps.run("evaluate" if phase.adversary else "deid only", self.tables[1], batch)
            weight = np.array([len(part), float(tf.reduce_sum(batch.weight))])
            sums += weight * np.array([float(loss) for loss in losses])
            weights += weight
        deid, adversary = sums / weights
        return float(deid), float(adversary)

    def _keep(self) -> None:
        if self.path is None:
            return
        arrays = {f"now/{name}": array for name, array in self.model.weights().items()}
        arrays |= {f"best/{name}": array for name, array in self.best.items()}
        arrays |= {
            f"optimizer/{i}/{j}": np.asarray(variable)
            for i, optimizer in enumerate(self.steps.optimizers)
            for j, variable in enumerate(optimizer.variables)
        }
        arrays["noise"] = self.model.random.state.numpy()
        meta = {
            "identity": self.identity,
            "phase": self.phase,
            "epoch": self.epoch,
            "waited": self.waited,
            "least": self.least,
            "history": self.history,
            "random": self.random.bit_generator.state,
        }
        write_archive(self.path, "checkpoint", meta, arrays)

    def resume(self) -> None:
        """Go on from the checkpoint where there is one."""
        if self.path is None or not self.path.exists():
            return
        meta, arrays = read_archive(self.path, "checkpoint")
        if meta["identity"] != self.identity:
            raise UserError(f"{self.path.parent}: of a training with other notes or settings; remove it to start anew")
        self.model.set_weights({name[4:]: a for name, a in arrays.items() if name.startswith("now/")})
        self.best = {name[5:]: a for name, a in arrays.items() if name.startswith("best/")}
        for i, optimizer in enumerate(self.steps.optimizers):
            for j, variable in enumerate(optimizer.variables):
                variable.assign(arrays[f"optimizer/{i}/{j}"])
        self.model.random.reset(arrays["noise"])
        self.phase, self.epoch, self.waited = meta["phase"], meta["epoch"], meta["waited"]
        self.least, self.history = meta["least"], meta["history"]
        self.random.bit_generator.state = meta["random"]


def discard(checkpoint: Path) -> None:
    """Remove a finished training's checkpoint."""
    shutil.rmtree(checkpoint, ignore_errors=True)
