"""The text track's layers against hand-computed and brute-force values."""

import itertools
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("gensim")

from deid import crf  # noqa: E402
from deid.model import mean_scores  # noqa: E402
from deid.networks import (  # noqa: E402
    Adversary,
    BiLSTM,
    Deidentifier,
    Representation,
    TrainableNoise,
    initialize,
    reverse_gradient,
)
from deid.steps import pair_loss  # noqa: E402


@pytest.fixture
def random() -> Any:
    return tf.random.Generator.from_seed(3)


def path_score(scores: np.ndarray, path: tuple[int, ...], start: np.ndarray, transitions: np.ndarray) -> float:
    steps = sum(transitions[a, b] for a, b in itertools.pairwise(path))
    return float(start[path[0]] + sum(scores[t, k] for t, k in enumerate(path)) + steps)


def test_crf_agrees_with_the_enumeration_of_all_paths(rng: np.random.Generator) -> None:
    labels, tokens, lengths = 3, 5, np.array([5, 1, 3])
    scores = rng.normal(0, 2, (3, tokens, labels)).astype(np.float32)
    start, transitions = (rng.normal(0, 2, shape).astype(np.float32) for shape in (labels, (labels, labels)))
    truth = rng.integers(labels, size=(3, tokens))
    found = crf.log_likelihood(
        tf.constant(scores),
        tf.constant(truth, tf.int32),
        tf.constant(lengths),
        tf.constant(start),
        tf.constant(transitions),
    ).numpy()
    best = crf.viterbi(scores, lengths, start, transitions)
    for i, length in enumerate(lengths):
        paths = list(itertools.product(range(labels), repeat=int(length)))
        each = np.array([path_score(scores[i], path, start, transitions) for path in paths])
        expected = path_score(scores[i], tuple(truth[i, :length]), start, transitions) - np.log(np.exp(each).sum())
        assert found[i] == pytest.approx(expected, abs=1e-4)
        assert tuple(best[i, :length]) == paths[each.argmax()]
        assert not best[i, length:].any()


def test_crf_gradient_is_the_difference_from_the_expected_labels(rng: np.random.Generator) -> None:
    scores = tf.constant(rng.normal(size=(1, 3, 2)), tf.float32)
    start, transitions = tf.constant([0.3, -0.2]), tf.constant(rng.normal(size=(2, 2)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = crf.log_likelihood(scores, tf.constant([[0, 1, 1]]), tf.constant([3]), start, transitions)
    gradient = tape.gradient(value, scores).numpy()[0]
    paths = list(itertools.product(range(2), repeat=3))
    weight = np.exp([path_score(scores.numpy()[0], p, start.numpy(), transitions.numpy()) for p in paths])
    weight /= weight.sum()
    for t, truth in enumerate((0, 1, 1)):
        share = sum(w for w, p in zip(weight, paths, strict=True) if p[t] == 1)
        assert gradient[t, 1] == pytest.approx((truth == 1) - share, abs=1e-5)


def test_decoding_never_opens_with_an_inside_label_nor_changes_type_within() -> None:
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    start, after = crf.forbidden(labels)
    assert start.tolist() == [0, 0, -np.inf, 0, -np.inf]
    assert (after[:, 2] == 0).tolist() == [False, True, True, False, False]
    scores = np.zeros((1, 2, 5))
    scores[0, :, 4] = 9.0  # I-B is by far the best everywhere
    assert crf.viterbi(scores, np.array([2]), start, after).tolist() == [[3, 4]]


def test_gradient_reversal_passes_on_and_turns_back() -> None:
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(reverse_gradient(x, 0.5) ** 2)
    assert float(y) == 5.0
    assert tape.gradient(y, x).numpy().tolist() == [-1.0, 2.0]


def test_noise_has_the_deviation_of_each_dimension_and_trains_it(random: Any) -> None:
    layer = TrainableNoise(random)
    layer(tf.zeros([1, 3]))
    layer.deviation.assign([0.0, 0.5, 2.0])
    x = tf.ones([40_000, 3])
    with tf.GradientTape() as tape:
        y = layer(x)
        spread = tf.reduce_mean((y - x) ** 2)
    assert tf.math.reduce_std(y, 0).numpy() == pytest.approx([0.0, 0.5, 2.0], abs=0.03)
    assert tf.reduce_mean(y, 0).numpy() == pytest.approx([1, 1, 1], abs=0.05)
    # d/ds of mean(s^2 n^2) over 3 dimensions is 2 s / 3
    assert tape.gradient(spread, layer.deviation.value).numpy() == pytest.approx([0, 1 / 3, 4 / 3], abs=0.05)
    assert not np.allclose(layer(x), y)


def reference_lstm(x: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> np.ndarray:
    h = c = np.zeros(recurrent.shape[0])
    out = []
    for row in x:
        i, g, f, o = np.split(row @ kernel + h @ recurrent + bias, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        out.append(h)
    return np.array(out)


def test_bilstm_agrees_with_a_plain_one_and_ignores_padding(rng: np.random.Generator, random: Any) -> None:
    x, lengths = rng.normal(size=(2, 5, 3)).astype(np.float32), [5, 2]
    layer = BiLSTM(4, random)
    layer(tf.constant(x), tf.constant(lengths))
    initialize(layer, rng)
    found = layer(tf.constant(x), tf.constant(lengths)).numpy()
    for i, n in enumerate(lengths):
        parts = [[np.asarray(w[d]) for w in (layer.kernels, layer.recurrent, layer.biases)] for d in range(2)]
        assert found[i, :n, :4] == pytest.approx(reference_lstm(x[i, :n], *parts[0]), abs=1e-5)
        assert found[i, :n, 4:] == pytest.approx(reference_lstm(x[i, :n][::-1], *parts[1])[::-1], abs=1e-5)


def test_bilstm_gradients_agree_with_small_changes(rng: np.random.Generator, random: Any) -> None:
    x, lengths = tf.Variable(rng.normal(size=(2, 4, 3)), dtype=tf.float32), tf.constant([4, 2])
    layer = BiLSTM(3, random)
    layer(x, lengths)
    initialize(layer, rng)
    wanted = rng.normal(size=(2, 4, 6)).astype(np.float32) * (np.arange(4) < [[4], [2]])[..., None]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(x, lengths) * wanted)
    variables = [x, *(weight.value for weight in layer.trainable_weights)]
    for variable, gradient in zip(variables, tape.gradient(total, variables), strict=True):
        value, slope = variable.numpy(), rng.normal(size=variable.shape).astype(np.float32)
        sides = []
        for step in (0.01, -0.01):
            variable.assign(value + step * slope)
            sides.append(float(tf.reduce_sum(layer(x, lengths) * wanted)))
        variable.assign(value)
        assert float(tf.reduce_sum(gradient * slope)) == pytest.approx((sides[0] - sides[1]) / 0.02, abs=2e-3)


@pytest.mark.parametrize("kind", ["lstm", "dense"])
def test_representations_have_length_one_and_never_repeat(rng: np.random.Generator, random: Any, kind: str) -> None:
    network = Representation(kind, 6, 4, random)
    x, lengths = tf.constant(rng.normal(size=(2, 3, 5)), tf.float32), tf.constant([3, 2])
    one, two = network(x, lengths), network(x, lengths)
    assert one.shape == (2, 3, 6)
    assert tf.norm(one, axis=-1).numpy() == pytest.approx(1.0, abs=1e-5)
    assert float(tf.reduce_min(tf.norm(one - two, axis=-1))) > 1e-3


def test_the_bound_on_what_vectors_tell_is_the_divergence_from_a_normal(rng: np.random.Generator, random: Any) -> None:
    network = Representation("dense", 2, 4, random)
    x, lengths = tf.constant(rng.normal(size=(1, 1, 3)), tf.float32), tf.constant([1])
    network(x, lengths)
    network.project.set_weights([np.zeros((4, 2)), np.array([0.5, -1.0])])
    network.noise_out.deviation.assign([2.0, 0.5])
    # of N(m, d) from N(0, 1): (m^2 + d^2 - 1 - ln d^2) / 2, summed over the dimensions
    by_hand = (0.25 + 4 - 1 - np.log(4)) / 2 + (1 + 0.25 - 1 - np.log(0.25)) / 2
    assert network.with_information(x, lengths)[1].numpy() == pytest.approx(by_hand, rel=1e-5)
    network.project.set_weights([np.zeros((4, 2)), np.zeros(2)])
    network.noise_out.deviation.assign([1.0, 1.0])
    assert network.with_information(x, lengths)[1].numpy() == pytest.approx(0.0, abs=1e-6)


def test_adversary_answers_do_not_depend_on_padding(rng: np.random.Generator, random: Any) -> None:
    adversary = Adversary(4, random)
    first, embedded, second = (rng.normal(size=(1, 5, n)).astype(np.float32) for n in (3, 6, 3))
    long = adversary(*map(tf.constant, (first, embedded, second)), tf.constant([2]))
    short = adversary(*(tf.constant(x[:, :2]) for x in (first, embedded, second)), tf.constant([2]))
    for a, b in zip(long, short, strict=True):
        assert a.numpy() == pytest.approx(b.numpy(), abs=1e-6)


def test_pair_loss_by_hand() -> None:
    logit = lambda p: float(np.log(p / (1 - p)))  # noqa: E731
    one, two = tf.constant([logit(0.9), logit(0.2), 5.0]), tf.constant([logit(0.5), logit(0.4), 5.0])
    found = pair_loss(one, two, tf.constant([1.0, 0.0, 0.0]), tf.constant([1.0, 1.0, 0.0]))
    assert float(found) == pytest.approx(-(np.log(0.7) + np.log(0.7)) / 2, abs=1e-5)


def test_scores_averaged_over_draws_are_steadier(rng: np.random.Generator, random: Any) -> None:
    representation, network = Representation("lstm", 8, 8, random), Deidentifier(5, 8, random)
    vectors = tf.random.stateless_normal([4, 6, 12], [1, 2])
    casing, lengths = tf.zeros([4, 6], tf.int32), tf.fill([4], 6)
    network(representation(vectors, lengths), casing, lengths)
    for layer in (representation, network):
        initialize(layer, rng)

    def spread(draws: int) -> float:
        calls = [mean_scores(representation, network, vectors, casing, lengths, tf.constant(draws)) for _ in range(20)]
        return float(np.std(calls, axis=0).mean())

    assert spread(16) < spread(1) / 2  # in theory a fourth
