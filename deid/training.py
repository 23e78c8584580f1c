"""Training a representation that a de-identifier can use and an adversary cannot.

Alternating (Feutry et al. 2018, as in Friedrich et al. 2019) goes through these phases:

1. "stable": representation and de-identifier learn on L_deid, until the validation loss is stable.
2. "adversary": the representation stands still. The adversary learns on L_adv, until the validation loss is stable.
3. "joint": two steps take turns, an epoch each. First the representation stands still, the de-identifier learns on
   L_deid and the adversary on L_adv. Then these two stand still and the representation learns on
   L_deid + lambda |L_adv - ln 2|.

DANN (Ganin et al. 2016) trains everything at once on L_deid + L_adv. Between the representation and the adversary the
gradient is reversed and multiplied by lambda.

Both end with "settle": the representation stands still for good. The de-identifier alone learns on L_deid at a quarter
of the rate, until the validation loss is stable. A provider does the same when it trains on what it received.

`steps` defines the losses.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from deid.encoding import BATCH, Encoded, batches
from deid.files import read_archive, write_archive
from deid.model import Model
from deid.settings import Epochs, Settings
from deid.steps import KINDS, LN2, Steps, make_batch
from utils.errors import UserError
from utils.progress import progress_bar

PATIENCE = 10  # epochs without a better validation loss
PLAIN_SHARE = 1 / 3  # of the sentences without PHI, drawn anew each epoch: most of the tokens, little to learn


@dataclass(frozen=True)
class Phase:
    """One part of a training. Early stopping looks at the validation losses that `deid` and `adversary` name."""

    name: str
    steps: tuple[str, ...]  # of an epoch, in order, by their names in `steps.KINDS`
    epochs: int  # at most
    evaluate: str = "evaluate deid"  # the step that computes the validation losses
    deid: bool = True  # whether L_deid counts
    adversary: str = ""  # how L_adv counts. "": not, "loss": as it is, "chance": as |L_adv - ln 2|


def phases(settings: Settings, epochs: Epochs) -> list[Phase]:
    """Return the phases of a training. Raw embeddings hide nothing, so theirs have no adversary."""
    first, last = Phase("stable", ("stable",), epochs.stable), Phase("settle", ("settle",), epochs.settle)
    if settings.representation == "raw":
        return [first, last]
    if settings.procedure == "dann":
        return [Phase("dann", ("dann",), epochs.stable + epochs.joint, "evaluate", adversary="chance"), last]
    return [
        first,
        Phase("adversary", ("adversary",), epochs.adversary, "evaluate", deid=False, adversary="loss"),
        Phase("joint", ("branches", "representation"), epochs.joint, "evaluate", adversary="chance"),
        last,
    ]


def train(
    model: Model,
    training: Encoded,
    validation: Encoded,
    plan: Sequence[Phase],
    checkpoint: Path | None = None,
    show: bool = True,
) -> list[dict[str, float | str]]:
    """Train a model in place and return the history, one entry an epoch.

    Parameters
    ----------
    model : Model
        Its settings give lambda, beta and the seed.
    training, validation : Encoded
        With candidates (see `encoding.encode`) if a phase has an adversary.
    plan : sequence of Phase
        In order, see `phases`. Each phase stops after `PATIENCE` epochs without a better validation loss. The next one
        goes on with the best weights.
    checkpoint : Path, optional
        Folder that holds the state after every epoch. A training that finds a state there goes on from it.
    show : bool
        Whether to show progress.

    Raises
    ------
    UserError
        If the checkpoint is of another training.
    """
    run = _Run(model, training, validation, plan, checkpoint, show)
    run.resume()
    while run.phase < len(plan):
        run.train(plan[run.phase])
    return run.history


class _Run:
    """The state of a training: what a checkpoint holds and what it does not."""

    def __init__(
        self,
        model: Model,
        training: Encoded,
        validation: Encoded,
        plan: Sequence[Phase],
        checkpoint: Path | None,
        show: bool,
    ) -> None:
        self.model, self.training, self.validation, self.show = model, training, validation, show
        self.steps = Steps(model, dict.fromkeys(name for phase in plan for name in (*phase.steps, phase.evaluate)))
        self.tables = tf.constant(training.vectors), tf.constant(validation.vectors)
        self.random = np.random.default_rng(model.settings.seed)
        self.phase = self.epoch = self.waited = 0
        self.least = np.inf
        self.best = model.weights()
        self.history: list[dict[str, float | str]] = []
        self.path = checkpoint / "state.npz" if checkpoint else None
        told = [asdict(model.settings), [asdict(phase) for phase in plan]]
        digest = hashlib.sha256(json.dumps(told).encode())
        for encoded in (training, validation):
            digest.update(encoded.ids.tobytes() + encoded.labels.tobytes() + encoded.vectors.tobytes())
        self.identity = digest.hexdigest()

    def train(self, phase: Phase) -> None:
        """Train one phase to its end."""
        steps = sum(len(list(self._epoch(step, None))) for step in phase.steps)
        with progress_bar(phase.epochs * steps, f"{phase.name:>9}", "batch", self.show) as bar:
            bar.update(self.epoch * steps)
            while self.epoch < phase.epochs and self.waited < PATIENCE:
                for step in phase.steps:
                    for chosen in self._epoch(step, self.random):
                        batch = make_batch(self.training, chosen, self.random, KINDS[step].adversary)
                        self.steps.run(step, self.tables[0], batch)
                        bar.update()
                deid, adversary = self._validate(phase)
                counted = self._counted(phase, deid, adversary)
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

    def _counted(self, phase: Phase, deid: float, adversary: float) -> float:
        """Return the validation loss that early stopping looks at."""
        counted = deid if phase.deid else 0.0
        if phase.adversary == "loss":
            counted += adversary
        if phase.adversary == "chance":
            counted += abs(adversary - LN2) * self.model.settings.adversary_weight
        return counted

    def _epoch(self, step: str, random: np.random.Generator | None) -> list[np.ndarray]:
        """Return an epoch's batches: every sentence with PHI and a share of those without.

        An adversary that learns alone gets only sentences with PHI.
        """
        phi, plain = np.flatnonzero(self.training.has_phi), np.flatnonzero(~self.training.has_phi)
        if step != "adversary":
            share = min(len(plain), max(round(PLAIN_SHARE * len(plain)), BATCH))
            plain = random.choice(plain, share, replace=False) if random is not None else plain[:share]
            phi = np.concatenate([phi, plain])
        return list(batches(self.training.lengths, phi, random))

    def _validate(self, phase: Phase) -> tuple[float, float]:
        """Return the mean L_deid and L_adv over the validation sentences. Every call draws the same pairs."""
        random = np.random.default_rng(self.model.settings.seed)
        phi, plain = np.flatnonzero(self.validation.has_phi), np.flatnonzero(~self.validation.has_phi)
        chosen = phi if not phase.deid else np.concatenate([phi, plain])
        sums, weights = np.zeros(2), np.full(2, 1e-12)
        for part in batches(self.validation.lengths, chosen, None, 4 * BATCH):
            batch = make_batch(self.validation, part, random, bool(phase.adversary))
            losses = self.steps.run(phase.evaluate, self.tables[1], batch)
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
            f"optimizer/{name}/{i}": np.asarray(variable)
            for name, step in self.steps.by_name.items()
            for i, variable in enumerate(step.optimizer.variables)
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
        """Go on from the checkpoint if there is one."""
        if self.path is None or not self.path.exists():
            return
        meta, arrays = read_archive(self.path, "checkpoint")
        if meta["identity"] != self.identity:
            raise UserError(f"{self.path.parent}: of a training with other notes or settings. Remove it to start anew")
        self.model.set_weights({name[4:]: a for name, a in arrays.items() if name.startswith("now/")})
        self.best = {name[5:]: a for name, a in arrays.items() if name.startswith("best/")}
        for name, step in self.steps.by_name.items():
            for i, variable in enumerate(step.optimizer.variables):
                variable.assign(arrays[f"optimizer/{name}/{i}"])
        self.model.random.reset(arrays["noise"])
        self.phase, self.epoch, self.waited = meta["phase"], meta["epoch"], meta["waited"]
        self.least, self.history = meta["least"], meta["history"]
        self.random.bit_generator.state = meta["random"]


def discard(checkpoint: Path) -> None:
    """Remove a finished training's checkpoint."""
    shutil.rmtree(checkpoint, ignore_errors=True)
