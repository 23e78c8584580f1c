"""Tokens with their character offsets, sentences, casing features and IOB2 labels, for any script."""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deid.corpus import Note, Span

CASINGS = ("numeric", "mainly numeric", "all lower", "all upper", "initial upper", "contains digit", "other")
SHORTEST_SENTENCE = 12  # tokens, because a full stop earlier in a line mostly ends an abbreviation or a list item
LONGEST_SENTENCE = 250  # tokens, longer ones are cut between tokens and never inside PHI


def _ranges(*categories: str) -> str:
    """Return a regular expression's character ranges of Unicode general categories (planes 0 and 1: all scripts)."""
    points = [point for point in range(0x20000) if unicodedata.category(chr(point)) in categories]
    steps = [i for i in range(1, len(points)) if points[i] != points[i - 1] + 1]
    starts, ends = [0, *steps], [*steps, len(points)]
    return "".join(f"\\U{points[a]:08x}-\\U{points[b - 1]:08x}" for a, b in zip(starts, ends, strict=True))


_MARKS = _ranges("Mn", "Mc", "Me")  # accents and vowel signs belong to the letter before them
_SINGLE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts without spaces: one character, one token
_TOKEN = re.compile(f"[{_SINGLE}][{_MARKS}]*|(?:[^\\W_{_SINGLE}][{_MARKS}\u200d]*)+|[^\\w\\s][{_MARKS}]*|_")
_LINE = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Sentence:
    """Tokens of one note, in order.

    Attributes
    ----------
    words : tuple of str
        The tokens' texts, n of them.
    offsets : tuple of (int, int)
        n pairs [start, end) of characters in the note's text.
    labels : tuple of str
        n IOB2 labels ("O", "B-type", "I-type"), empty for a note without annotations.
    """

    words: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    labels: tuple[str, ...]


def tokenize(text: str) -> list[tuple[int, int]]:
    """Return the offsets of signs and of runs of letters and digits, cut where a capital follows a small letter."""
    tokens = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        for i in range(start + 1, end):
            if text[i].isupper() and text[i - 1].islower():  # "IzaNºCol": two fields run together
                tokens.append((start, i))
                start = i
        tokens.append((start, end))
    return tokens


def casing(word: str) -> int:
    """Return a token's casing as an index into `CASINGS` (Reimers and Gurevych's seven classes, used by the paper)."""
    digits = sum(character.isdigit() for character in word)
    if digits == len(word):
        return 0
    if digits > len(word) / 2:
        return 1
    if word.islower() and not digits:
        return 2
    if word.isupper() and not digits:
        return 3
    if word[0].isupper():
        return 4
    return 5 if digits else 6


def casings(words: Sequence[str]) -> np.ndarray:
    """Return the casing of n tokens: [n] uint8."""
    return np.array([casing(word) for word in words], np.uint8)


def sentences(note: Note) -> list[Sentence]:
    """Split a note into sentences of labelled tokens.

    A sentence ends with its line. It also ends after . ! ? if all of this holds: the next token does not start with a
    small letter, the last word is a small-letter word of at least four letters (no abbreviation, initial or address),
    and the sentence is not shorter than `SHORTEST_SENTENCE`. If the note is annotated, no PHI is cut: a boundary inside
    a span does not count.
    """
    text, tokens = note.text, tokenize(note.text)
    if not tokens:
        return []
    labels = encode_labels(tokens, note.spans) if note.spans is not None else None
    breaks = np.array([match.start() for match in _LINE.finditer(text)], np.int64)
    lines = np.searchsorted(breaks, [start for start, _ in tokens])
    bounds = [0]
    for i in range(1, len(tokens)):
        length = i - bounds[-1]
        ends = lines[i] != lines[i - 1] or (
            length >= SHORTEST_SENTENCE and (_sentence_ends(text, tokens, i) or length >= LONGEST_SENTENCE)
        )
        if ends and not (labels is not None and labels[i].startswith("I-")):
            bounds.append(i)
    bounds.append(len(tokens))
    return [
        Sentence(
            tuple(text[start:end] for start, end in tokens[a:b]),
            tuple(tokens[a:b]),
            tuple(labels[a:b]) if labels is not None else (),
        )
        for a, b in itertools.pairwise(bounds)
    ]


def _sentence_ends(text: str, tokens: list[tuple[int, int]], i: int) -> bool:
    (start, end), mark = tokens[i - 2], text[tokens[i - 1][0]]
    if mark in "。！？":
        return True
    if mark not in ".!?" or tokens[i][0] == tokens[i - 1][1] or text[tokens[i][0]].islower():
        return False
    last = text[start:end]
    return len(last) >= 4 and last.isalpha() and not last[0].isupper()


def encode_labels(tokens: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[str]:
    """Return the tokens' IOB2 labels. A token that a span covers only in part is PHI too."""
    labels = ["O"] * len(tokens)
    starts, ends = np.array(tokens, np.int64).reshape(-1, 2).T
    for span in spans:
        first, last = np.searchsorted(ends, span.start, "right"), np.searchsorted(starts, span.end, "left")
        for i in range(first, last):
            labels[i] = ("B-" if i == first else "I-") + span.type
    return labels


def decode_labels(offsets: Sequence[tuple[int, int]], labels: Sequence[str]) -> list[Span]:
    """Return the spans that IOB2 labels mark. An I- that continues nothing opens a span, as in conlleval."""
    spans: list[Span] = []
    inside = ""
    for (start, end), label in zip(offsets, labels, strict=True):
        kind, _, phi = label.partition("-")
        if kind == "I" and phi == inside:
            spans[-1] = Span(spans[-1].start, end, phi)
        elif kind != "O":
            spans.append(Span(start, end, phi))
        inside = phi
    return spans
