"""Adversarial hider: perturb each stay by gradient descent until an embedding that knows the patients sees another.

Wang, Wang and Srivastava (UCLA NESL), team Golden_Fleece, runner-up of the 2020 Hide-and-Seek Privacy Challenge; after
Fawkes (Shan et al., USENIX Security 2020). A siamese CNN learns to tell patients apart; then, with the CNN frozen, each
record gets a noise layer delta that descends until the CNN sees a distant target in it.

What the default changes, and what that buys. Re-identification by matching and TimeKNN on 1,000 members of 2,000 stays
of PhysioNet 2012 (the half the default was chosen on), by benchmarks/adversarial_changes.py (the first two rows and the
default in an earlier run, when a cluster's delta reached fewer of its values); all seekers, and stays it was not chosen
on: docs/table1.md.

- As published (16 filters instead of 64): 1.00 and 0.95. 200 steps of 1e-4 leave each record nearest to its patient.
- Each record its own delta: 1.00 and 0.97.
- And 60 steps of 0.3 instead, towards a member as published: 0.91 and 0.59. Length, times and missing values are still
  the patient's.
- Default: 0.49 and 0.51. The target is no other member but a crowd record, whose length and clock are taken over, with
  no missing values, and the penalty pulls towards the target instead of towards the patient. After 60 steps 0.3 % of
  the way to the target is left, after 20 steps 13 % (0.49 and 0.51 too).
- The crowd record itself, without descent: 0.51 and 0.51. So it is the crowd record that protects. The embedding
  chooses among 30 of them and ends the descent that close to one; it does not make the release safer.

What it does not protect against: the crowd is fitted to the patients without any formal guarantee; extremes are rounded
outwards but show each feature's range.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from examples.hider.adversarial.crowd import fit_crowd, pad_front
from examples.hider.adversarial.siamese import distance, embed, train_embedding
from utils.clusters import cluster_stays
from utils.data_preprocess import PADDING_FILL, get_scaler
from utils.errors import UserError
from utils.progress import progress_bar


@dataclass(frozen=True)
class Parameters:
    """The defaults are ours; what differs from the paper's values is marked with them (see `PUBLISHED`)."""

    iterations: int = 3_000  # of the CNN, at most; published: 20,000 to 30,000
    margin: float = 1.0  # of the contrastive loss, published
    batch_size: int = 64  # pairs, published
    learning_rate: float = 1e-3  # of the CNN's Adam, published
    pair_noise: float = 0.075  # standard deviation of the noise that makes a similar pair, published
    filters: int = 16  # of the first two convolutions, the third has twice as many; published: 64
    dropout: float = 0.25  # published
    target: Literal["crowd", "member"] = "crowd"  # what a record moves towards; published: another member
    components: int = 20  # crowd: directions kept of how patients differ
    candidates: int = 30  # targets drawn a record, of which it takes the farthest; published
    start: float = 0.0075  # first delta, as a multiple of the target; published
    steps: int = 60  # of the descent; published: 200
    step_size: float = 0.3  # of the descent's Adam; falls to 0 along a cosine for a crowd target; published: 1e-4
    penalty: float = 0.18  # weight of the visible change beside the embedding's, published
    cluster_size: int = 1  # records that share one delta (member targets only); published: about 25

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "filters", "components", "candidates", "steps", "cluster_size"):
            if getattr(self, name) < 1:
                raise UserError(f"adversarial: {name} must be at least 1, not {getattr(self, name)}")
        if self.target == "crowd" and self.cluster_size > 1:
            raise UserError("adversarial: cluster_size needs target=member; a crowd record is one record's own")


PUBLISHED = Parameters(
    iterations=30_000, filters=64, target="member", steps=200, step_size=1e-4, cluster_size=25
)  # Wang, Wang and Srivastava: poster and questionnaire of team Golden_Fleece, 2020

_BATCH = 128  # records that descend together
_PATIENTS_PER_DIRECTION = 50  # a direction of the crowd is kept only where this many patients stand behind each


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Train the embedding, then move every stay away from its patient.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F], `seed`.
    parameters : Parameters
        The defaults, or `PUBLISHED`.

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        Published setting: the input's missing cells are missing again. Default: nothing is missing.
    padding_mask : ndarray of bool, shape [N, T, F]
        Published setting: the input's. Default: that of the new lengths.

    Raises
    ------
    UserError
        With fewer than two stays.
    """
    data, padding_mask = np.asarray(input_dict["data"], dtype=float), np.asarray(input_dict["padding_mask"], dtype=bool)
    rng = np.random.default_rng(input_dict["seed"])
    if len(data) < 2:
        raise UserError(f"adversarial: one stay cannot hide among others; got {len(data)}, expected at least 2")
    if parameters.target == "member":
        return _towards_members(data, padding_mask, parameters, rng), padding_mask
    return _towards_the_crowd(data, padding_mask, parameters, rng)


def _towards_members(
    data: np.ndarray, padding_mask: np.ndarray, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray:
    """Perturb as published: scaled to [0, 1], NaN to 0, each record towards the farthest of 30 other patients'."""
    scaler = get_scaler(data, padding_mask)
    scaled = data * scaler.scale_ + scaler.min_
    present = ~(np.isnan(scaled) | padding_mask)
    records = np.where(present, scaled, 0).astype(np.float32)
    embedding = _train(records, present, parameters, rng)

    cluster, representatives = cluster_stays(records, max(1, round(len(records) / parameters.cluster_size)), rng)
    embedded = embed(embedding, records)
    candidates = rng.integers(len(data), size=(len(representatives), parameters.candidates))
    farthest = _farthest(embedded[representatives], embedded[candidates])
    targets = candidates[np.arange(len(representatives)), farthest]
    # A cluster shares one delta: it reaches wherever one of its records has a value.
    members = np.argsort(cluster, kind="stable")
    reach = np.logical_or.reduceat(present[members], np.searchsorted(cluster[members], np.arange(len(representatives))))
    delta = np.empty((len(representatives), *records.shape[1:]), dtype=np.float32)
    for batch in _batches(len(representatives)):
        own, other = records[representatives[batch]], records[targets[batch]]
        delta[batch] = descend(embedding, own, other, own, reach[batch], parameters)
    moved = (scaled + delta[cluster] - scaler.min_) / scaler.scale_
    moved[~present] = np.nan
    moved[padding_mask] = PADDING_FILL
    return moved


def _towards_the_crowd(
    data: np.ndarray, padding_mask: np.ndarray, parameters: Parameters, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Perturb each record towards the farthest of 30 crowd records, and take that record's length and clock over."""
    components = max(1, min(parameters.components, len(data) // _PATIENTS_PER_DIRECTION))
    rows, lengths, crowd = fit_crowd(data, padding_mask, components, rng)
    present = ~padding_mask
    patients = pad_front(rows, lengths)
    embedding = _train(patients, present, parameters, rng)

    embedded = embed(embedding, patients)
    moved, new_lengths = np.empty_like(rows), np.empty_like(lengths)
    for batch in _batches(len(rows)):
        own = embedded[batch]
        drawn, drawn_lengths = crowd.draw(len(own) * parameters.candidates, rows.shape[1], rng)
        drawn = pad_front(drawn, drawn_lengths)
        farthest = _farthest(own, embed(embedding, drawn).reshape(len(own), parameters.candidates, -1))
        chosen = np.arange(len(own)) * parameters.candidates + farthest
        targets, new_lengths[batch] = drawn[chosen], drawn_lengths[chosen]
        records = pad_front(rows[batch], new_lengths[batch])
        present = ~_padded(new_lengths[batch], rows.shape)
        moved[batch] = records + descend(embedding, records, targets, targets, present, parameters)
    return crowd.to_units(moved, new_lengths, rng)


def descend(
    embedding: keras.Model,
    records: np.ndarray,
    targets: np.ndarray,
    anchors: np.ndarray,
    present: np.ndarray,
    parameters: Parameters,
) -> np.ndarray:
    """Find the delta with which the frozen embedding F sees the target in each record.

    Minimises |F(x + delta) - F(target)| + penalty |x + delta - anchor| with Adam, each record on its own.

    Parameters
    ----------
    embedding : keras.Model
        F.
    records, targets, anchors : ndarray of float32, shape [n, T, F]
        As published, the anchor is the record itself: the penalty keeps delta small. With a crowd record as target,
        the anchor is the target: the penalty removes what is left of the patient.
    present : ndarray of bool, shape [n, T, F]
        Where delta may differ from 0.
    parameters : Parameters
        `target`, `start`, `steps`, `step_size`, `penalty`.

    Returns
    -------
    ndarray of float32, shape [n, T, F]
    """
    steps, sizes = parameters.steps, np.full(parameters.steps, parameters.step_size)
    if parameters.target == "crowd":
        sizes *= (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2
    allowed = tf.constant(present, tf.float32)
    goal = embedding(targets, training=False)
    delta = parameters.start * targets * allowed
    mean, square = tf.zeros_like(delta), tf.zeros_like(delta)
    for step, size in enumerate(sizes, 1):
        slope = _slope(
            embedding, delta, tf.constant(records), tf.constant(anchors), goal, tf.constant(parameters.penalty)
        )
        slope *= allowed
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * tf.square(slope)
        delta -= size * (mean / (1 - 0.9**step)) / (tf.sqrt(square / (1 - 0.999**step)) + 1e-7)
    return delta.numpy()


@tf.function(reduce_retracing=True, autograph=False)
def _slope(embedding: keras.Model, delta: Any, records: Any, anchors: Any, goal: Any, penalty: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(delta)
        moved = records + delta
        visible = tf.sqrt(tf.reduce_sum(tf.square(moved - anchors), axis=[1, 2]) + 1e-12)
        loss = tf.reduce_sum(distance(embedding(moved, training=False), goal) + penalty * visible)
    return tape.gradient(loss, delta)


def _train(records: np.ndarray, present: np.ndarray, parameters: Parameters, rng: np.random.Generator) -> keras.Model:
    return train_embedding(
        records,
        present,
        filters=parameters.filters,
        dropout=parameters.dropout,
        noise=parameters.pair_noise,
        margin=parameters.margin,
        batch_size=parameters.batch_size,
        learning_rate=parameters.learning_rate,
        iterations=parameters.iterations,
        rng=rng,
    )


def _farthest(embedded: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return which of its candidates [n, 30, 128] is farthest from each embedding [n, 128]."""
    return np.linalg.norm(candidates - embedded[:, None], axis=2).argmax(axis=1)


def _batches(count: int) -> Iterator[slice]:
    with progress_bar(count, "Moving the records", "record") as bar:
        for start in range(0, count, _BATCH):
            yield slice(start, start + _BATCH)
            bar.update(min(_BATCH, count - start))


def _padded(lengths: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the padding mask [N, T, F] of stays of these lengths."""
    padded = np.arange(shape[1]) < (shape[1] - lengths)[:, None]
    return np.repeat(padded[:, :, None], shape[2], axis=2)
