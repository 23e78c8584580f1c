"""Precision, recall and F1 of found PHI, as the i2b2 2014 and MEDDOCAN evaluations count, from character offsets.

seqeval, the usual library, counts IOB tags of one tokenisation and has had no release since 2020. Offsets compare the
outputs of any two tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deid.corpus import Note, as_xml_holds_it
from deid.tokens import encode_labels, tokenize
from utils.errors import UserError

LEAST_NOTES = 5  # with which notes drawn anew say how far F1 may be off
DRAWS = 1000  # bootstrap samples of notes
Z = 1.959964  # two-sided 95 %


@dataclass(frozen=True)
class Counts:
    """True positives, all found, all there."""

    correct: int
    found: int
    there: int

    @property
    def precision(self) -> float:
        """Share of the found that is right, or 0 if nothing was found."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of what is there that was found, or 0 if nothing is there."""
        return self.correct / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return 2 * self.correct / (self.found + self.there) if self.found + self.there else 0.0


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` counts.

    Attributes
    ----------
    by_type : dict of str to (Counts, Counts)
        Per PHI type: entities (offsets and type right) and tokens (type right).
    entities, tokens : Counts
        Overall: strict entities (MEDDOCAN sub-track 1, i2b2 strict), tokens with the right type.
    spans, binary : Counts
        Without types: entities with the right offsets (MEDDOCAN sub-track 2), tokens PHI / not (i2b2 binary token).
    entity_interval : (float, float)
        95 % interval of the strict F1, notes drawn with replacement.
    """

    by_type: dict[str, tuple[Counts, Counts]]
    entities: Counts
    tokens: Counts
    spans: Counts
    binary: Counts
    entity_interval: tuple[float, float]


def evaluate(gold: Sequence[Note], predicted: Sequence[Note], seed: int = 0) -> Evaluation:
    """Compare predicted with gold annotations of the same notes, matched by name.

    Raises
    ------
    UserError
        Naming the note, where one is missing, has another text or is not annotated.
    """
    by_name = {note.name: note for note in predicted}
    per_note: list[tuple[int, int, int]] = []
    entities: dict[str, list[int]] = {}
    tokens: dict[str, list[int]] = {}
    spans, binary = np.zeros(3, int), np.zeros(3, int)
    for note in gold:
        other = by_name.pop(note.name, None)
        if other is None:
            raise UserError(f"{note}: in the gold folder, not among the predictions")
        if as_xml_holds_it(other.text) != as_xml_holds_it(note.text):
            raise UserError(f"{other}: its text is not the gold text, so offsets cannot be compared")
        there, found = set(note.spans or ()), set(other.spans or ())
        per_note.append((len(there & found), len(found), len(there)))
        for which, spans_of in enumerate((there & found, found, there)):
            for span in spans_of:
                entities.setdefault(span.type, [0, 0, 0])[which] += 1
        places = [{(span.start, span.end) for span in part} for part in (there, found)]
        spans += [len(places[0] & places[1]), len(places[1]), len(places[0])]
        offsets = tokenize(note.text)
        for true, guess in zip(
            encode_labels(offsets, sorted(there)), encode_labels(offsets, sorted(found)), strict=True
        ):
            true_type, guess_type = true[2:], guess[2:]
            binary += [bool(true_type and guess_type), bool(guess_type), bool(true_type)]
            if guess_type:
                tokens.setdefault(guess_type, [0, 0, 0])[1] += 1
            if true_type:
                tokens.setdefault(true_type, [0, 0, 0])[2] += 1
                tokens[true_type][0] += true_type == guess_type
    if by_name:
        raise UserError(f"{by_name[min(by_name)]}: predicted, not in the gold folder")
    table = np.array(per_note)
    names = sorted(entities)
    return Evaluation(
        by_type={name: (Counts(*entities[name]), Counts(*tokens.get(name, (0, 0, 0)))) for name in names},
        entities=Counts(*(int(x) for x in table.sum(0))),
        tokens=Counts(*(int(x) for x in np.sum([*tokens.values(), [0, 0, 0]], 0))),
        spans=Counts(*(int(x) for x in spans)),
        binary=Counts(*(int(x) for x in binary)),
        entity_interval=bootstrap_f1(table, np.random.default_rng(seed)),
    )


def bootstrap_f1(counts: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """Return a 95 % interval of F1 from [notes, 3] (correct, found, there), notes drawn with replacement.

    From 0 to 1 where there are fewer than `LEAST_NOTES`: they would all be much alike by chance.
    """
    if len(counts) < LEAST_NOTES:
        return 0.0, 1.0
    drawn = counts[random.integers(len(counts), size=(DRAWS, len(counts)))].sum(1)
    f1 = 2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1)
    return float(np.quantile(f1, 0.025)), float(np.quantile(f1, 0.975))


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson 1927)."""
    if trials == 0:
        return 0.0, 1.0
    rate, weight = hits / trials, Z**2 / trials
    middle = (rate + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * np.sqrt(rate * (1 - rate) / trials + weight / (4 * trials))
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def as_text(result: Evaluation) -> str:
    """Return an evaluation as a table for a terminal."""

    def row(name: str, counts: Counts) -> str:
        return (
            f"{name:<36} {counts.precision:9.4f} {counts.recall:9.4f} {counts.f1:9.4f}"
            f" {counts.correct:8d} {counts.found:8d} {counts.there:8d}"
        )

    low, high = result.entity_interval
    lines = [f"{'':<36} {'precision':>9} {'recall':>9} {'F1':>9} {'correct':>8} {'found':>8} {'there':>8}"]
    lines += [row(name, entity) for name, (entity, _) in result.by_type.items()]
    lines += ["", *(row(f"{name} (tokens)", token) for name, (_, token) in result.by_type.items()), ""]
    lines += [
        row("entities, strict", result.entities) + f"   F1 95 % interval {low:.4f} to {high:.4f}",
        row("entities, offsets alone", result.spans),
        row("tokens, with type", result.tokens),
        row("tokens, PHI or not", result.binary),
    ]
    return "\n".join(lines)
