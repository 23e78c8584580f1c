"""Adversarial hider: perturb each stay by gradient descent until an embedding that knows the patients sees another.

Wang, Wang and Srivastava (UCLA NESL), team Golden_Fleece, runner-up of the 2020 Hide-and-Seek Privacy Challenge. The
idea is that of Fawkes (Shan et al., USENIX Security 2020). A siamese CNN learns to tell patients apart. Then, with the
CNN frozen, each record gets a noise layer delta. The descent changes delta until the CNN takes the record for a distant
target.

What it does not protect against: 200 steps of 1e-4 move a value by a few hundredths of its feature's range. So each
record stays nearest to its own patient, and a seeker that matches records finds nearly all members (docs/table1.md).
Lengths, sampling times and missing cells are the patient's. Larger steps do not mend this: docs/methods.md has
the measurements. `hider_crowd.py` was this hider's default once and is a hider of its own now.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.hider.adversarial.siamese import Tensor, distance, embed, train_embedding
from utils.clusters import cluster_stays
from utils.data_preprocess import PADDING_FILL, get_scaler
from utils.errors import UserError
from utils.progress import progress_bar
from utils.stays import padding_of


@dataclass(frozen=True)
class Parameters:
    """The published values, but for `iterations` and `filters`, which are smaller to suit a processor."""

    iterations: int = 3_000  # of the CNN, at most. Published: 20,000 to 30,000
    margin: float = 1.0  # of the contrastive loss
    batch_size: int = 64  # pairs
    learning_rate: float = 1e-3  # of the CNN's Adam
    pair_noise: float = 0.075  # standard deviation of the noise that makes a similar pair
    filters: int = 16  # of the first two convolutions, the third has twice as many. Published: 64
    dropout: float = 0.25
    candidates: int = 30  # other records drawn for a record, of which the farthest becomes its target
    start: float = 0.0075  # first delta, as a multiple of the target
    steps: int = 200  # of the descent
    step_size: float = 1e-4  # of the descent's Adam
    penalty: float = 0.18  # weight of |delta| beside the embedding's distance
    cluster_size: int = 25  # records that share one delta

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "filters", "candidates", "steps", "cluster_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("learning_rate", "step_size"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a number above 0, not {getattr(self, name)}")
        for name in ("margin", "pair_noise", "start", "penalty"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a number of at least 0, not {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout}")


# Wang, Wang and Srivastava: poster and questionnaire of team Golden_Fleece, 2020.
PUBLISHED = Parameters(iterations=30_000, filters=64)

_BATCH = 128  # records that descend together


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Train the embedding, then move every stay towards the farthest of 30 other patients' stays.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters
        The defaults, or `PUBLISHED`.

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        In the input's units. The input's missing cells are missing again.
    padding_mask : ndarray of bool, shape [N, T, F]
        The input's.

    Raises
    ------
    UserError
        With fewer than two stays.
    """
    data = np.asarray(input_dict["data"], dtype=float)
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])
    if len(data) < 2:
        raise UserError(f"one stay cannot hide among others; got {len(data)}, expected at least 2")

    # NaN to 0, all values to [0, 1].
    scaler = get_scaler(data, padding_mask)
    scaled = data * scaler.scale_ + scaler.min_
    present = ~(np.isnan(scaled) | padding_mask)
    records = np.where(present, scaled, 0).astype(np.float32)
    embedding = train_embedding(
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

    # One record represents each cluster. Its target is the farthest of the candidates.
    cluster, representatives = cluster_stays(records, max(1, round(len(records) / parameters.cluster_size)), rng)
    embedded = embed(embedding, records)
    candidates = rng.integers(len(data), size=(len(representatives), parameters.candidates))
    farthest = np.linalg.norm(embedded[candidates] - embedded[representatives][:, None], axis=2).argmax(axis=1)
    targets = candidates[np.arange(len(representatives)), farthest]

    # All records of a cluster share one delta. It may differ from 0 wherever one of them has a value.
    members = np.argsort(cluster, kind="stable")
    reach = np.logical_or.reduceat(present[members], np.searchsorted(cluster[members], np.arange(len(representatives))))
    delta = np.empty((len(representatives), *records.shape[1:]), dtype=np.float32)
    for batch in _batches(len(representatives)):
        own, other = records[representatives[batch]], records[targets[batch]]
        delta[batch] = descend(embedding, own, other, reach[batch], parameters)

    moved = (scaled + delta[cluster] - scaler.min_) / scaler.scale_
    moved[~present] = np.nan
    moved[padding_mask] = PADDING_FILL
    return moved, padding_mask


def descend(
    embedding: keras.Model, records: np.ndarray, targets: np.ndarray, present: np.ndarray, parameters: Parameters
) -> np.ndarray:
    """Find the delta with which the frozen embedding F sees the target in each record.

    Minimises |F(x + delta) - F(target)| + penalty |delta| with Adam, each record on its own.

    Parameters
    ----------
    embedding : keras.Model
        F.
    records, targets : ndarray of float32, shape [n, T, F]
    present : ndarray of bool, shape [n, T, F]
        Where delta may differ from 0.
    parameters : Parameters
        `start`, `steps`, `step_size`, `penalty`.

    Returns
    -------
    ndarray of float32, shape [n, T, F]
    """
    allowed = tf.constant(present, tf.float32)
    goal = embedding(targets, training=False)
    own, penalty = tf.constant(records), tf.constant(parameters.penalty)
    delta = parameters.start * targets * allowed
    mean, square = tf.zeros_like(delta), tf.zeros_like(delta)
    for step in range(1, parameters.steps + 1):
        slope = _slope(embedding, delta, own, goal, penalty) * allowed
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * tf.square(slope)
        delta -= parameters.step_size * (mean / (1 - 0.9**step)) / (tf.sqrt(square / (1 - 0.999**step)) + 1e-7)
    return delta.numpy()


@tf.function(reduce_retracing=True, autograph=False)
def _slope(embedding: keras.Model, delta: Tensor, records: Tensor, goal: Tensor, penalty: Tensor) -> Tensor:
    with tf.GradientTape() as tape:
        tape.watch(delta)
        moved = records + delta
        visible = tf.sqrt(tf.reduce_sum(tf.square(moved - records), axis=[1, 2]) + 1e-12)
        loss = tf.reduce_sum(distance(embedding(moved, training=False), goal) + penalty * visible)
    return tape.gradient(loss, delta)


def _batches(count: int) -> Iterator[slice]:
    with progress_bar(count, "Moving the records", "record") as bar:
        for start in range(0, count, _BATCH):
            yield slice(start, start + _BATCH)
            bar.update(min(_BATCH, count - start))
