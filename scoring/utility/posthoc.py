"""Judging generated series by models trained afterwards: TimeGAN's discriminative and predictive score.

Yoon, Jarrett and van der Schaar, "Time-series Generative Adversarial Networks", NeurIPS 2019. The paper describes both
models as two recurrent layers. The authors' code, which we rewrote and did not run, has one GRU layer
of F // 2 units. `PUBLISHED_CODE` is that. `STRONGER` is a classifier that is harder to fool.
All data are [N, T, F], complete and of one length, in [0, 1].
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from utils.recurrent import Adam, Module, Network, apply

BATCH = 128
LEARNING_RATE = 1e-3
TEST_SHARE = 0.2


@dataclass(frozen=True)
class PosthocModel:
    """A judge's size.

    Attributes
    ----------
    module : "gru" or "lstm"
    layers : int
    width : float
        Units of a layer, as a multiple of the number of features.
    discriminative_steps, predictive_steps : int
        Training steps of Adam at 1e-3 with batches of 128.
    """

    module: Module = "gru"
    layers: int = 1
    width: float = 0.5
    discriminative_steps: int = 2_000
    predictive_steps: int = 5_000


PUBLISHED_CODE = PosthocModel()
STRONGER = PosthocModel(module="lstm", layers=2, width=4.0)


def discriminative_score(
    original: np.ndarray, generated: np.ndarray, seed: int, model: PosthocModel = PUBLISHED_CODE
) -> float:
    """Train a classifier to tell original from generated. Return |accuracy - 0.5| on series held out, 0 being best.

    Parameters
    ----------
    original, generated : ndarray, shape [N, T, F]
    seed : int
        Fixes the split, the first weights and the batches.
    model : PosthocModel
    """
    rng = np.random.default_rng([seed, 0])
    features = original.shape[2]
    network = Network(features, max(1, int(model.width * features)), model.layers, 1, model.module, sigmoid=False)
    (train_o, test_o), (train_g, test_g) = (_split(data, rng) for data in (original, generated))
    sets = [tf.constant(part, tf.float32) for part in (train_o, train_g)]
    weights = network.first_weights(rng)
    rows = _draws(rng, model.discriminative_steps, [len(train_o), len(train_g)])
    weights = _train_classifier(network)(weights, *sets, *rows)
    correct = [
        (_last(network, weights, test) > 0) == is_original for test, is_original in ((test_o, True), (test_g, False))
    ]
    return float(abs(np.concatenate(correct).mean() - 0.5))


def predictive_score(
    original: np.ndarray, generated: np.ndarray, seed: int, model: PosthocModel = PUBLISHED_CODE
) -> float:
    """Train on generated series to predict the last feature one step ahead from the others. Return the MAE on original.

    Parameters
    ----------
    original, generated : ndarray, shape [N, T, F]
        T and F at least 2.
    seed : int
        Fixes the first weights and the batches.
    model : PosthocModel
    """
    rng = np.random.default_rng([seed, 1])
    features = original.shape[2]
    network = Network(features - 1, max(1, int(model.width * features)), model.layers, 1, model.module)
    weights = network.first_weights(rng)
    (rows,) = _draws(rng, model.predictive_steps, [len(generated)])
    weights = _train_predictor(network)(weights, tf.constant(generated, tf.float32), rows)
    return float(np.mean(np.abs(_predict(network, weights, original[:, :-1, :-1]) - original[:, 1:, -1])))


def _split(data: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(len(data))
    held_out = max(1, int(len(data) * TEST_SHARE))
    return data[order[held_out:]], data[order[:held_out]]


def _draws(rng: np.random.Generator, steps: int, counts: list[int]) -> list[Any]:
    """Draw the series of each batch, without replacement, from each data set."""
    rows = [[rng.choice(n, min(BATCH, n), replace=False) for _ in range(steps)] for n in counts]
    return [tf.constant(np.array(chosen), tf.int32) for chosen in rows]


def _series(data: Any, rows: Any) -> Any:
    return tf.transpose(tf.gather(data, rows), [1, 2, 0])


@functools.cache
def _train_classifier(network: Network) -> Any:
    @tf.function(autograph=False)
    def train(weights: Any, original: Any, generated: Any, original_rows: Any, generated_rows: Any) -> Any:
        def step(i: Any, state: Adam) -> tuple[Any, Adam]:
            both = tf.concat([_series(original, original_rows[i]), _series(generated, generated_rows[i])], 2)
            labels = tf.concat([tf.ones(original_rows.shape[1]), tf.zeros(generated_rows.shape[1])], 0)
            with tf.GradientTape() as tape:
                tape.watch(state.weights)
                logits = apply(network, state.weights, both, "weights")[-1, 0]
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
            return i + 1, state.step(tape.gradient(loss, state.weights), LEARNING_RATE)

        steps = original_rows.shape[0]
        return tf.while_loop(lambda i, _: i < steps, step, (0, Adam.begin(weights)), parallel_iterations=1)[1].weights

    return train


@functools.cache
def _train_predictor(network: Network) -> Any:
    @tf.function(autograph=False)
    def train(weights: Any, generated: Any, rows: Any) -> Any:
        def step(i: Any, state: Adam) -> tuple[Any, Adam]:
            batch = _series(generated, rows[i])
            with tf.GradientTape() as tape:
                tape.watch(state.weights)
                predicted = apply(network, state.weights, batch[:-1, :-1], "weights")[:, 0]
                loss = tf.reduce_mean(tf.abs(predicted - batch[1:, -1]))
            return i + 1, state.step(tape.gradient(loss, state.weights), LEARNING_RATE)

        steps = rows.shape[0]
        return tf.while_loop(lambda i, _: i < steps, step, (0, Adam.begin(weights)), parallel_iterations=1)[1].weights

    return train


def _predict(network: Network, weights: Any, data: np.ndarray) -> np.ndarray:
    """Return the network's first output at each time point, shape [N, T]."""
    return apply(network, weights, tf.constant(data.transpose(1, 2, 0), tf.float32), "weights").numpy()[:, 0].T


def _last(network: Network, weights: Any, data: np.ndarray) -> np.ndarray:
    return _predict(network, weights, data)[:, -1]
