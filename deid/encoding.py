"""Notes as arrays, and arrays as padded batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from deid.corpus import Note
from deid.embeddings import Embeddings
from deid.pseudonyms import neighbors, replaceable
from deid.tokens import Sentence, casings, sentences
from utils.errors import UserError

BATCH = 32  # sentences, as published


@dataclass
class Encoded:
    """n sentences of t tokens in all, w different words, v words that may replace them.

    Attributes
    ----------
    vectors : [w + v, E] float32
        Embeddings of the words, then of the replacements.
    ids : [t] int32
        Each token's row of `vectors`.
    casing : [t] uint8
        Index into `tokens.CASINGS`.
    labels : [t] int32
        Index into the label set, all 0 if notes are not annotated.
    starts, lengths : [n] int64
        Each sentence's first token and its number of tokens.
    note_of : [n] int64
        The note each sentence belongs to.
    hidden : [t] bool
        PHI tokens that can be replaced, whether or not candidates were sought.
    words : list of str
        The w words. Empty if the vectors were received.
    sentences : list of Sentence
        Empty if the vectors were received.
    candidates : [w, N] int32
        Rows of `vectors` that may replace each word. N is 0 if none were sought.
    """

    vectors: np.ndarray
    ids: np.ndarray
    casing: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    note_of: np.ndarray
    hidden: np.ndarray
    words: list[str] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)
    candidates: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    has_phi: np.ndarray = field(init=False)  # [n] bool: sentences with a token in `hidden`

    def __post_init__(self) -> None:
        sums = np.concatenate([[0], np.cumsum(self.hidden)])
        self.has_phi = sums[self.starts + self.lengths] > sums[self.starts]

    def pad(self, flat: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return [len(chosen), longest, ...] of a per-token array, 0 at padding."""
        lengths = self.lengths[chosen]
        inside = np.arange(lengths.max()) < lengths[:, None]
        padded = np.zeros((*inside.shape, *flat.shape[1:]), flat.dtype)
        padded[inside] = flat[
            np.concatenate([np.arange(s, s + n) for s, n in zip(self.starts[chosen], lengths, strict=True)])
        ]
        return padded

    def altered(self, chosen: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return the chosen sentences' padded ids, one random PHI token of each replaced by one of its candidates."""
        ids, hidden = self.pad(self.ids, chosen), self.pad(self.hidden, chosen)
        draw = np.where(hidden, random.random(hidden.shape), -1.0)
        place = draw.argmax(1)
        rows = np.flatnonzero(hidden.any(1))
        words = ids[rows, place[rows]]
        picks = random.integers(self.candidates.shape[1], size=len(rows))
        ids[rows, place[rows]] = self.candidates[words, picks]
        return ids


def label_set(notes: Sequence[Note]) -> list[str]:
    """Return the IOB2 labels of the notes' PHI types, "O" first."""
    types = sorted({span.type for note in notes for span in note.spans or ()})
    return ["O", *(f"{prefix}-{phi}" for phi in types for prefix in "BI")]


def encode(
    notes: Sequence[Note],
    embeddings: Embeddings,
    labels: Sequence[str],
    number: int = 0,
    random: np.random.Generator | None = None,
) -> Encoded:
    """Encode notes. With `number` > 0, also find what may replace each PHI word (`random` picks the digits).

    Raises
    ------
    UserError
        Naming the note's file, if a PHI type is not in the label set.
    """
    known = {label: place for place, label in enumerate(labels)}
    for note in notes:
        for span in note.spans or ():
            if f"B-{span.type}" not in known:
                types = ", ".join(sorted({label[2:] for label in labels[1:]}))
                raise UserError(f"{note}: PHI type {span.type} is unknown to the model, which knows {types}")
    split = [sentences(note) for note in notes]
    flat = [sentence for part in split for sentence in part]
    tokens = [word for sentence in flat for word in sentence.words]
    words = sorted(set(tokens))
    place = {word: i for i, word in enumerate(words)}
    ids = np.array([place[word] for word in tokens], np.int32)
    tags = np.array([known[tag] for s in flat for tag in (s.labels or ("O",) * len(s.words))], np.int32)
    lengths = np.array([len(sentence.words) for sentence in flat], np.int64)
    vectors, candidates = embeddings[words], np.zeros((len(words), 0), np.int32)
    hidden = (tags > 0) & np.array([replaceable(word) for word in words], bool)[ids]
    if number and random is not None:
        needed = np.unique(ids[hidden])
        found = neighbors(embeddings, [words[i] for i in needed], number, random)
        candidates = np.zeros((len(words), found.shape[1]), np.int32)
        candidates[needed] = len(words) + found
        vectors = np.concatenate([vectors, embeddings[embeddings.words]])
    return Encoded(
        vectors=vectors,
        ids=ids,
        casing=casings(words)[ids],
        labels=tags,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        note_of=np.repeat(np.arange(len(notes)), [len(part) for part in split]),
        words=words,
        sentences=flat,
        candidates=candidates,
        hidden=hidden,
    )


def batches(
    lengths: np.ndarray, chosen: np.ndarray, random: np.random.Generator | None, size: int = BATCH
) -> Iterator[np.ndarray]:
    """Yield the chosen sentences in batches of like length. With `random`, order and company are random."""
    jitter = random.normal(0, 0.5, len(chosen)) if random is not None else np.zeros(len(chosen))
    ordered = chosen[np.argsort(lengths[chosen] + jitter * np.sqrt(lengths[chosen]), kind="stable")]
    parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    order = random.permutation(len(parts)) if random is not None else range(len(parts))
    for i in order:
        yield parts[i]
