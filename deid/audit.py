"""Does a representation leak? Every attack of `attacks`, each beside chance and beside raw embeddings.

The attacker knows the model, which is public, has annotated notes of its own, and holds what a hospital sent: noisy
representations, casing and labels. Inversion and one figure of the look-up of whole sentences use casing and labels.
The other attacks do not.

Low figures show that these attacks failed, not that none can succeed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from deid.attacks.fitting import Channel, Effort, held_out
from deid.attacks.invert import guess_by_type, invert
from deid.attacks.look_up_phi import CANDIDATES, look_up_phi
from deid.attacks.look_up_sentences import look_up_sentences
from deid.attacks.rates import Rate, Result, gain
from deid.attacks.tell_apart import tell_apart
from deid.corpus import Note
from deid.encoding import Encoded, encode
from deid.model import Model
from deid.networks import Representation
from utils.errors import UserError


@dataclass(frozen=True)
class Audit:
    """Every attack on the representation, on raw embeddings, and (inversion) on labels and casing alone."""

    private: list[Result]
    raw: list[Result]
    nothing: Result
    gain: Rate  # of inversion over `nothing`
    guess: Rate
    settings: dict[str, str | int | float]


def audit(model: Model, attacker: Sequence[Note], targets: Sequence[Note], effort: Effort | None = None) -> Audit:
    """Attack a model's representations of `targets` by an attacker who has the annotated notes `attacker`.

    Raises
    ------
    UserError
        If either has no PHI to attack.
    """
    effort = Effort() if effort is None else effort
    random = np.random.default_rng(effort.seed)
    number = max(model.settings.neighbors, 2)
    labels = model.settings.labels
    known = encode(attacker, model.embeddings, labels, number, random)
    sought = encode(targets, model.embeddings, labels, number, random)
    _check(known, sought)
    candidates = encode(targets, model.embeddings, labels, CANDIDATES, random)
    raw = Representation("raw", model.embeddings.size, 0, model.random)
    results: list[list[Result]] = []
    for name, network, size in (
        ("representation", model.representation, model.size),
        ("raw", raw, model.embeddings.size),
    ):
        _say(f"Attacking: {name}", effort)
        channel = Channel(tf.function(network, reduce_retracing=True), size)
        results.append(
            [
                tell_apart(channel, known, sought, effort),
                look_up_sentences(channel.send, sought, effort.seed),
                look_up_phi(channel.send, candidates, effort.seed),
                invert(channel, len(labels), known, sought, effort),
            ]
        )
    _say("Attacking: labels and casing alone", effort)
    alone = invert(Channel(_nothing, 1), len(labels), known, sought, effort)
    return Audit(
        private=results[0],
        raw=results[1],
        nothing=alone,
        gain=gain(results[0][-1], alone, "token found", np.random.default_rng(effort.seed)),
        guess=guess_by_type(known, sought, labels, effort.seed),
        settings={
            "representation": model.settings.representation,
            "size": model.size,
            "procedure": model.settings.procedure,
            "neighbors": number,
            "attacker's notes": len(attacker),
            "notes attacked": len(targets),
            "epochs at most": effort.epochs,
            "adversaries' width": effort.width,
        },
    )


def _check(known: Encoded, sought: Encoded) -> None:
    """Raise UserError if the attacker has nothing to train or to validate on, or nothing to attack."""
    trained_on = known.has_phi & (known.note_of % 5 > 0)
    if not (len(held_out(known)) and trained_on.any() and sought.has_phi.any()):
        raise UserError("an audit needs annotated notes with PHI: at least two for the attacker and one to attack")


def _say(text: str, effort: Effort) -> None:
    if effort.show:
        print(text)


def _nothing(embeddings: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Send no representation: [B, T, E] -> zeros [B, T, 1]."""
    return tf.zeros_like(embeddings[..., :1])
