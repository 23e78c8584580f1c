"""The binary predictor accuses the enlarged stays that look most like generated ones."""

import numpy as np
import pytest
from conftest import make_stays

pytest.importorskip("tensorflow", reason="the binary predictor needs TensorFlow")

from examples.seeker.binary_predictor import binary_predictor as kit
from seeker_binary_predictor import seeker

HALF, TIME_POINTS, FEATURES = 40, 6, 3


def play(generated, enlarged, masks=(None, None), seed=0):
    return seeker(
        {
            "generated_data": generated,
            "enlarged_data": enlarged,
            "seed": seed,
            "generated_data_padding_mask": masks[0],
            "enlarged_data_padding_mask": masks[1],
        }
    )


@pytest.fixture
def short(monkeypatch):
    """What is trained a little tells as much about seeds and shapes."""
    monkeypatch.setattr(kit, "STEPS", 60)


@pytest.fixture
def shifted(rng):
    """Enlarged data whose first half lies, like the generated data, higher than the second."""
    generated, members, others = (rng.normal(mean, 1.0, (HALF, TIME_POINTS, FEATURES)) for mean in (4.0, 4.0, 0.0))
    enlarged = np.concatenate([members, others])
    for data in (generated, enlarged):
        data[:, :, 0] = np.arange(TIME_POINTS)
    return generated, enlarged


def test_stays_that_look_generated_are_accused_as_many_as_were_generated(shifted):
    labels, scores = play(*shifted)
    assert labels.sum() == HALF
    assert labels[:HALF].mean() > 0.9
    assert scores[:HALF].mean() > scores[HALF:].mean()
    assert set(np.argsort(-scores)[:HALF]) == set(np.flatnonzero(labels)), "the labels follow the scores"


def test_stays_of_different_lengths_with_missing_values_can_be_told_apart(rng):
    enlarged, mask = make_stays(rng, 2 * HALF, TIME_POINTS, FEATURES)
    real = ~mask[:HALF, :, 1]
    enlarged[:HALF, :, 1][real] += 60
    labels, scores = play(enlarged[:HALF], enlarged, (mask[:HALF], mask))
    assert labels[:HALF].mean() > 0.8
    assert np.isfinite(scores).all()


def test_padding_does_not_reach_a_stays_score(shifted, short):
    generated, enlarged = (kit_input / 8 + 0.5 for kit_input in shifted)
    padded = [np.concatenate([np.full((len(data), 3, FEATURES), -1.0), data], axis=1) for data in (generated, enlarged)]
    short = kit.enlarged_scores(generated, enlarged, np.random.default_rng(0), progress=False)
    long = kit.enlarged_scores(*padded, np.random.default_rng(0), progress=False)
    np.testing.assert_allclose(long, short, rtol=1e-3, atol=1e-4)


def test_the_same_seed_gives_the_same_scores(shifted, short):
    first, again, other = (play(*shifted, seed=seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_2020s_call_labels_half_and_follows_numpys_seed(shifted, short):
    np.random.seed(3)
    labels = kit.binary_predictor(*shifted)
    np.random.seed(3)
    np.testing.assert_array_equal(kit.binary_predictor(*shifted), labels)
    assert labels.shape == (2 * HALF,)
    assert labels.sum() == HALF


def test_training_stops_when_nothing_is_left_to_learn(rng, capsys):
    data = rng.random((3 * HALF, TIME_POINTS, FEATURES))
    seen = []
    original = kit._Model.fit_epoch

    def fit_epoch(self, state, stays):
        seen.append(len(stays))
        return original(self, state, stays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit._Model, "fit_epoch", fit_epoch)
        patch.setattr(kit._Model, "loss", lambda *_: 1.0)
        kit.enlarged_scores(data[:HALF], data[HALF:], rng, progress=False)
    assert seen == [96] * (1 + kit.PATIENT_STEPS), "four fifths of the stays, a step an epoch, and not for ever"


def test_two_stays_will_do(rng, short):
    data = rng.random((3, TIME_POINTS, FEATURES))
    labels, _ = play(data[:1], data[1:])
    assert labels.sum() == 1


@pytest.mark.parametrize(
    ("generated", "enlarged", "message"),
    [
        (np.ones((2, 3, 4)), np.ones((4, 3, 5)), "enlarged: expected"),
        (np.ones((2, 3)), np.ones((4, 3, 5)), "generated: expected"),
        (np.full((2, 3, 4), np.nan), np.ones((4, 3, 4)), "generated: NaN"),
    ],
)
def test_data_that_do_not_fit_are_named(generated, enlarged, message, rng):
    with pytest.raises(ValueError, match=message):
        kit.enlarged_scores(generated, enlarged, rng)
