"""Look-up of whole sentences: the nearest entry of a table of known sentences to what was sent.

Each entry of the table is the mean of several draws of the representation.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from deid.attacks.fitting import Sender
from deid.attacks.rates import Result, rate
from deid.encoding import Encoded

TABLE_DRAWS = 8  # draws averaged for each entry of a look-up table
PART = 256  # sentences represented at a time
KNOWN = "top 1, labels and casing known"


@dataclass(frozen=True)
class _Found:
    """What the look-up gives for n sentences of one length."""

    sentences: np.ndarray  # [n]
    hits: dict[str, np.ndarray]  # [n] each
    chance: dict[str, np.ndarray]  # [n] each
    labels_alone: np.ndarray  # [n]


def look_up_sentences(send: Sender, targets: Encoded, seed: int) -> Result:
    """Look every different sentence up among all sentences of its length, which is sent too. The nearest by L2 counts.

    Returns
    -------
    Result
        Rates over all sentences and over those with PHI:

        - "top 1", "top 10". Chance is 1 or 10 divided by the number of sentences of the same length.
        - "top 1, labels and casing known": only sentences with the same labels and casing compete. Chance is 1 divided
          by their number. An attacker who sees only labels and casing is right that often.

        `labels_alone` is how often an attacker who sees only the labels is right. Labels can be read from any vectors
        that are good for de-identification, so no such vectors can bring the attack below it.
    """
    random = np.random.default_rng(seed)
    seen: dict[tuple[str, ...], int] = {}
    for i, sentence in enumerate(targets.sentences):
        seen.setdefault(sentence.words, i)
    unique = np.array(sorted(seen.values()))
    lengths = targets.lengths[unique]
    table = tf.constant(targets.vectors)
    found = [_look_up(send, table, targets, unique[lengths == length]) for length in np.unique(lengths)]
    sentences = np.concatenate([part.sentences for part in found])
    labels_alone = np.concatenate([part.labels_alone for part in found])
    groups = {"": np.ones(len(sentences), bool), ", with PHI": targets.has_phi[sentences]}
    result = Result("look up sentences", {}, {})
    for suffix, inside in groups.items():
        result.labels_alone["top 1" + suffix] = _mean(labels_alone[inside])
        for name in found[0].hits:
            hits, chance = (np.concatenate([getattr(part, of)[name] for part in found]) for of in ("hits", "chance"))
            result.rates[name + suffix] = rate(hits[inside], targets.note_of[sentences][inside], random)
            result.chance[name + suffix] = _mean(chance[inside])
    return result


def _look_up(send: Sender, table: tf.Tensor, targets: Encoded, chosen: np.ndarray) -> _Found:
    """Look sentences of one length up among themselves."""
    sent, known = _sent_and_known(send, table, targets, chosen)
    distance = (known**2).sum(1) - 2 * sent @ known.T  # squared L2 without the term that all entries share
    nearer = distance < np.diag(distance)[:, None]
    rank = nearer.sum(1)
    labels, casing = (targets.pad(flat, chosen) for flat in (targets.labels, targets.casing))
    alike = _same_rows(np.concatenate([labels, casing], 1))
    return _Found(
        chosen,
        {"top 1": rank < 1.0, "top 10": rank < 10.0, KNOWN: ~(nearer & alike).any(1)},
        {
            "top 1": np.full(len(chosen), 1 / len(chosen)),
            "top 10": np.full(len(chosen), min(1.0, 10 / len(chosen))),
            KNOWN: 1 / alike.sum(1),
        },
        1 / _same_rows(labels).sum(1),
    )


def _sent_and_known(
    send: Sender, table: tf.Tensor, targets: Encoded, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return one draw of each sentence and the mean of `TABLE_DRAWS` others: [n, T S] each."""
    sent, known = [], []
    for part in np.array_split(chosen, -(-len(chosen) // PART)):
        embeddings = tf.gather(table, tf.constant(targets.pad(targets.ids, part), tf.int32))
        lengths = tf.constant(targets.lengths[part], tf.int32)
        draws = [send(embeddings, lengths).numpy().reshape(len(part), -1) for _ in range(1 + TABLE_DRAWS)]
        sent.append(draws[0])
        known.append(np.mean(draws[1:], 0))
    return np.concatenate(sent), np.concatenate(known)


def _same_rows(rows: np.ndarray) -> np.ndarray:
    """[n, m] -> [n, n], which rows are equal."""
    group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return np.asarray(group[:, None] == group)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0
