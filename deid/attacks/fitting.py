"""What the attacks that train a network share: what they are sent, how long they try, when they stop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from deid.encoding import BATCH, Encoded, batches
from utils.progress import progress_bar

PATIENCE = 10  # epochs without a better validation loss

Sender = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # embeddings [B, T, E], lengths [B] -> what is sent [B, T, S]


@dataclass(frozen=True)
class Channel:
    """What the attacker sees of embeddings, and how many dimensions S that has."""

    send: Sender
    size: int


@dataclass(frozen=True)
class Effort:
    """How hard an attacker tries."""

    seed: int = 0
    epochs: int = 100  # at most, where the adversaries of the published training see 60 at most
    width: int = 300  # units of the fresh adversaries' LSTMs, a direction, as published
    show: bool = True  # whether to show progress


class Attacker(Protocol):
    """A network and how to train it on some sentences."""

    network: keras.layers.Layer
    random: np.random.Generator

    def learn(self, part: np.ndarray) -> None:
        """Take one step on the sentences `part`."""

    def loss(self, part: np.ndarray) -> float:
        """Return the mean loss on the sentences `part`."""


def held_out(encoded: Encoded) -> np.ndarray:
    """Return the sentences with PHI of every fifth note, the attacker's validation set."""
    return np.flatnonzero(encoded.has_phi & (encoded.note_of % 5 == 0))


def fit(attacker: Attacker, encoded: Encoded, effort: Effort, title: str) -> int:
    """Train on sentences with PHI until the validation loss no longer falls. Returns the best epoch."""
    validation = held_out(encoded)
    chosen = np.setdiff1d(np.flatnonzero(encoded.has_phi), validation)
    parts = list(batches(encoded.lengths, validation, None, 4 * BATCH))
    least, waited, best, best_epoch = np.inf, 0, attacker.network.get_weights(), 0
    with progress_bar(effort.epochs, title, "epoch", effort.show) as bar:
        for epoch in range(1, effort.epochs + 1):
            for part in batches(encoded.lengths, chosen, attacker.random):
                attacker.learn(part)
            losses = [attacker.loss(part) for part in parts]
            loss = float(np.average(losses, weights=[len(part) for part in parts]))
            waited += 1
            if loss < least:
                least, waited, best, best_epoch = loss, 0, attacker.network.get_weights(), epoch
            bar.update()
            bar.set_postfix_str(f"validation loss {loss:.4f}")
            if waited == PATIENCE:
                break
    attacker.network.set_weights(best)
    return best_epoch
