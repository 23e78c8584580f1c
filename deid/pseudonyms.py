"""Automatic pseudonymisation: PHI tokens replaced by neighbours in the embedding space, digits by digits."""

from collections.abc import Sequence

import numpy as np

from deid.corpus import Note, replace_spans
from deid.embeddings import Embeddings
from deid.tokens import tokenize
from utils.errors import UserError

CHUNK = 1024  # words compared with the vocabulary at a time: 1024 x 200,000 x 4 bytes = 0.8 GB at most


def replaceable(word: str) -> bool:
    """Whether a token says something: punctuation does not and is never replaced."""
    return any(character.isalnum() for character in word)


def neighbors(embeddings: Embeddings, words: Sequence[str], number: int, random: np.random.Generator) -> np.ndarray:
    """Return what may stand in for each word: [n, N] rows of `embeddings.words`, never the word itself in any casing.

    These are the N nearest words by cosine, no punctuation and no numbers. For an all-digit word they are N random
    all-digit ones. Friedrich et al. use N from 5 to 500. There are fewer if the embeddings hold fewer words.

    Raises
    ------
    UserError
        Where the embeddings hold no other word.
    """
    rows = np.array([row for row, w in enumerate(embeddings.words) if replaceable(w) and not w.isdigit()], np.int64)
    digits = np.array([row for row, word in enumerate(embeddings.words) if word.isdigit()], np.int64)
    spellings: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        spellings.setdefault(embeddings.words[row].lower(), []).append(place)
    number = min(number, len(rows) - max((len(places) for places in spellings.values()), default=0))
    if number < 1:
        raise UserError("the embeddings hold too few words to replace PHI with others. Give larger ones")
    space = _unit(embeddings[[embeddings.words[row] for row in rows]])
    found = np.empty((len(words), number), np.int64)
    for begin in range(0, len(words), CHUNK):
        part = words[begin : begin + CHUNK]
        likeness = _unit(embeddings[part]) @ space.T
        for i, word in enumerate(part):
            likeness[i, spellings.get(word.lower(), [])] = -np.inf
        found[begin : begin + CHUNK] = rows[np.argpartition(-likeness, number - 1, 1)[:, :number]]
    for i, word in enumerate(words):
        if word.isdigit() and len(digits) > 2:
            others = digits[[embeddings.words[row] != word for row in digits]]
            found[i] = random.choice(others, number)
    return found


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def pseudonymize(notes: Sequence[Note], embeddings: Embeddings, number: int, random: np.random.Generator) -> list[Note]:
    """Return the notes with every PHI token replaced. Spans move along.

    A token takes one of its `number` nearest neighbours at random, in its own casing. Each digit of an all-digit token
    becomes a random digit. Punctuation stays. Within a note the same token (in any casing) always gets the same
    replacement. Neighbours are words of the embeddings. If these were trained on the notes themselves, the words may be
    other patients'.
    """
    pieces = [[note.text[span.start : span.end] for span in note.spans or ()] for note in notes]
    parts = [[[text[a:b] for a, b in tokenize(text)] for text in texts] for texts in pieces]
    words = sorted({w.lower() for texts in parts for ws in texts for w in ws if replaceable(w) and not w.isdigit()})
    choices = dict(zip(words, neighbors(embeddings, words, number, random), strict=True)) if words else {}
    result = []
    for note, texts in zip(notes, pieces, strict=True):
        chosen: dict[str, str] = {}

        def replace(word: str, chosen: dict[str, str] = chosen) -> str:
            if not replaceable(word):
                return word
            key = word.lower()
            if key not in chosen:
                if key in choices:
                    chosen[key] = embeddings.words[random.choice(choices[key])]
                else:
                    chosen[key] = "".join(str(digit) for digit in random.integers(10, size=len(key)))
            return _in_casing_of(word, chosen[key])

        replacements = []
        for text in texts:
            out, position = [], 0
            for start, end in tokenize(text):
                out += [text[position:start], replace(text[start:end])]
                position = end
            replacements.append("".join(out) + text[position:])
        result.append(replace_spans(note, replacements))
    return result


def _in_casing_of(word: str, other: str) -> str:
    if word.isupper() and len(word) > 1:
        return other.upper()
    if word[0].isupper():
        return other[0].upper() + other[1:]
    return other.lower() if word.islower() else other
