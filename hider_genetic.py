"""Genetic hider: breed noise for clusters of stays, as much as models that know the data will bear.

Wang, Wang and Srivastava (UCLA NESL), team Golden_Fleece, runner-up of the 2020 Hide-and-Seek Privacy Challenge.

Stays are grouped by k-means, and one stands for each group. Models of the challenge's utility checks are trained on the
real data. For each representative a population of noisy copies is bred: a child takes half of its features from each of
two parents, and a share of another patient's stay is added to it. A copy may live while every model errs on it by at
most `bound` times what it errs on the real data. Of those the two farthest from the original are kept. The
noise of the last winner is added to every stay of the cluster. One evaluation a generation covers all clusters.

What the authors left open, and is done here: the first population is made like any other, from the record itself. Among
copies within the bound, the farther one is fitter. Padded cells of the other stay add nothing.

What it does not protect against: lengths, sampling times (up to the noise on them) and missing cells are the patients',
and all stays of a cluster are moved alike.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from utils import gru_ensemble
from utils.clusters import cluster_stays
from utils.data_preprocess import PADDING_FILL, get_scaler, inverse_process, preprocess_imputed, start_times
from utils.errors import UserError
from utils.progress import progress_bar
from utils.stays import padding_of
from utils.tensors import Tensor, gru_gates


@dataclass(frozen=True)
class Parameters:
    """The authors' values: poster and questionnaire of team Golden_Fleece, 2020."""

    clusters: int = 500
    utility_models: int = 20  # feature predictors, beside one one-step-ahead predictor
    population: int = 5
    generations: int = 10  # at most
    kept: int = 2
    bound: float = 4.5  # each model's RMSE, as a multiple of that on the real data
    noise_scale: float = 0.2  # share of another stay that is added, and what a generation adds to that share
    failures: int = 5  # generations without a new copy within the bound after which a cluster is done

    def __post_init__(self) -> None:
        if self.generations < 0:
            raise ValueError(f"generations must not be negative, not {self.generations}")
        for name in ("bound", "noise_scale"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a number of at least 0, not {getattr(self, name)}")
        for name in ("clusters", "utility_models", "kept", "failures"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.population <= self.kept:
            raise ValueError(f"population must be more than kept ({self.kept}), not {self.population}")


PUBLISHED = Parameters()

_BLOCK = 256  # candidates evaluated at once: their gates of all models, 100 steps and 38 features, take 250 MB


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Train the utility models, breed noise for each cluster, and add it to the cluster's stays.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        The input's missing cells are missing again.
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
        raise UserError(f"noise is made of other stays, of which there must be at least 2; got {len(data)}")
    records = preprocess_imputed(data, padding_mask)
    present = ~padding_mask
    # Time is in the input's unit and all else in [0, 1]. Distances take it as a share of the longest stay instead.
    units = np.ones(data.shape[2], dtype=np.float32)
    units[0] = 1 / max(1e-6, float(np.max(records[:, :, 0], initial=0, where=present[:, :, 0])))

    models = UtilityModels(records, parameters.utility_models, rng)
    bounds = parameters.bound * np.sqrt(np.square(models.errors(records)).mean(axis=1, keepdims=True))
    stays = np.where(present, records, 0)
    cluster, representatives = cluster_stays(stays * units, parameters.clusters, rng)
    best = breed(representatives, stays, present, units, models, bounds, parameters, rng)

    noise = best - stays[representatives]
    noisy = stays + np.where(present, noise[cluster], 0)
    generated = inverse_process(noisy, padding_mask, get_scaler(data, padding_mask), start_times(data, padding_mask))
    generated[np.isnan(data)] = np.nan
    return generated, padding_mask


def breed(
    representatives: np.ndarray,
    stays: np.ndarray,
    present: np.ndarray,
    units: np.ndarray,
    models: "UtilityModels",
    bounds: np.ndarray,
    parameters: Parameters,
    rng: np.random.Generator,
) -> np.ndarray:
    """Breed all clusters' populations at once.

    Parameters
    ----------
    representatives : ndarray of int, shape [C]
    stays : ndarray of float32, shape [N, T, F]
        0 where padded.
    present : ndarray of bool, shape [N, T, F]
        False where padded.
    units : ndarray, shape [F]
        What a feature is multiplied with before distances are taken.
    models : UtilityModels
    bounds : ndarray, shape [models, 1]
        The largest RMSE of each model with which a candidate may live.

    Returns
    -------
    ndarray of float32, shape [C, T, F]
        The farthest candidate within the bounds, or the representative itself if there was none.
    """
    originals, cells = stays[representatives], present[representatives]
    count, kept, born = len(originals), parameters.kept, parameters.population - parameters.kept
    parents = np.repeat(originals[:, None], kept, axis=1)
    distances = np.zeros((count, kept))
    scale, failures = np.full(count, parameters.noise_scale), np.zeros(count, dtype=int)
    with progress_bar(parameters.generations, "Breeding noise", "generation") as bar:
        for _ in range(parameters.generations):
            alive = np.flatnonzero(failures < parameters.failures)
            if not alive.size:
                break
            children = crossover(parents[alive], born, rng)
            children = mutate(children, stays, scale[alive], rng)
            children = np.where(cells[alive, None], children, 0).astype(np.float32)
            candidates = np.where(cells[alive, None], children, PADDING_FILL).reshape(-1, *stays.shape[1:])
            fit = (models.errors(candidates) <= bounds).all(axis=0).reshape(len(alive), born)

            moved = np.linalg.norm(((children - originals[alive, None]) * units).reshape(len(alive), born, -1), axis=2)
            everyone = np.concatenate([parents[alive], children], axis=1)
            fitness = np.concatenate([distances[alive], np.where(fit, moved, -1)], axis=1)
            first = np.argsort(-fitness, axis=1, kind="stable")[:, :kept]
            parents[alive] = np.take_along_axis(everyone, first[:, :, None, None], axis=1)
            distances[alive] = np.take_along_axis(fitness, first, axis=1)
            failed = ~fit.any(axis=1)
            failures[alive] += failed
            scale[alive] = np.where(failed, scale[alive] / 2, scale[alive] + parameters.noise_scale)
            bar.update()
    return parents[:, 0]


def crossover(parents: np.ndarray, born: int, rng: np.random.Generator) -> np.ndarray:
    """Make children [C, born, T, F] that take half of their features from each of two of their parents [C, K, T, F]."""
    count, kept, _, features = parents.shape
    first = rng.integers(kept, size=(count, born))
    second = (first + rng.integers(1, max(2, kept), size=(count, born))) % kept
    from_first = rng.permuted(np.broadcast_to(np.arange(features) < features / 2, (count, born, features)), axis=2)
    rows = np.arange(count)[:, None]
    return np.where(from_first[:, :, None], parents[rows, first], parents[rows, second])


def mutate(children: np.ndarray, stays: np.ndarray, scale: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add to each of the children [C, born, T, F] another patient's stay times the cluster's `scale` [C]."""
    others = rng.integers(len(stays), size=children.shape[:2])
    return children + scale[:, None, None, None].astype(np.float32) * stays[others]


class UtilityModels:
    """Models of the challenge's utility checks, trained on the real data and asked about single stays.

    Parameters
    ----------
    records : ndarray of float32, shape [N, T, F]
        Preprocessed and imputed, padding -1.
    features : int
        Number of features predicted from the others. If stays have steps, one more model predicts one step ahead.
    rng : numpy.random.Generator
        Draws the features and the models' seeds.
    """

    def __init__(self, records: np.ndarray, features: int, rng: np.random.Generator) -> None:
        targets = rng.permutation(records.shape[2])[:features]
        one_step_ahead = [None] if records.shape[1] > 1 else []
        predictors = [
            gru_ensemble.Predictor("real", target, int(rng.integers(2**31)))
            for target in (*map(int, targets), *one_step_ahead)
        ]
        fitted = gru_ensemble.fit(predictors, {"real": gru_ensemble.Series.from_padded(records)}, progress=True)
        self._ahead = [model.weights for model in fitted[len(targets) :]]
        self._targets = targets.astype(np.int32)
        self._feature = gru_ensemble.Weights(
            *(np.concatenate(parts) for parts in zip(*(m.weights for m in fitted[: len(targets)]), strict=True))
        )

    def errors(self, records: np.ndarray) -> np.ndarray:
        """Return each model's RMSE on each of the records [n, T, F], shape [models, n], feature predictors first."""
        blocks = []
        for start in range(0, len(records), _BLOCK):
            block = np.full((_BLOCK, *records.shape[1:]), PADDING_FILL, dtype=np.float32)
            block[: len(records) - start] = records[start : start + _BLOCK]
            feature = _errors(self._feature, block, np.moveaxis(block[:, :, self._targets], 2, 0)[..., None])
            ahead = [_errors(weights, block[:, :-1], block[None, :, 1:]) for weights in self._ahead]
            blocks.append(np.concatenate([feature, *ahead])[:, : len(records) - start])
        return np.concatenate(blocks, axis=1)


@tf.function(jit_compile=True, autograph=False)
def _errors(weights: gru_ensemble.Weights, x: Tensor, true: Tensor) -> Tensor:
    """Return the RMSE [M, n] of M models on inputs [n, T, F], given the true values [M, n, T, K], over those >= 0.

    A model does not see its target: the weights of that input are 0.
    """
    given = tf.transpose(tf.reduce_any(x != PADDING_FILL, axis=2))[:, None, :, None]
    states = tf.repeat(tf.transpose(x, [1, 0, 2])[:, None], weights.kernel.shape[0], axis=1)
    for layer in range(gru_ensemble.LAYERS):
        kernel, recurrent = weights.kernel[:, layer], weights.recurrent[:, layer]
        bias, state_bias = weights.bias[:, layer, 0, None], weights.bias[:, layer, 1, None]
        outer = tf.einsum("tmnf,mgf->tmng", states, kernel) + bias

        def step(
            state: Tensor,
            inputs: tuple[Tensor, Tensor],
            recurrent: Tensor = recurrent,
            state_bias: Tensor = state_bias,
        ) -> Tensor:
            outer, here = inputs
            inner = tf.matmul(state, recurrent, transpose_b=True) + state_bias
            update, _, new = gru_gates(tf.split(outer, 3, axis=-1), tf.split(inner, 3, axis=-1))
            return tf.where(here, new + update * (state - new), state)

        states = tf.scan(step, (outer, given), initializer=tf.zeros_like(outer[0, ..., : recurrent.shape[2]]))
    predicted = tf.einsum("tmnh,mkh->mntk", states, weights.head) + weights.head_bias[:, None, None]
    counted = true >= 0
    squares = tf.reduce_sum(tf.where(counted, tf.square(predicted - true), 0), [2, 3])
    return tf.sqrt(squares / tf.maximum(tf.reduce_sum(tf.cast(counted, tf.float32), [2, 3]), 1))
