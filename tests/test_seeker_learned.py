"""Seekers that learn: classifier and forecast find copies, find nothing where nothing is, and take bad input."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_stays

import seeker_classifier
import seeker_forecast
from utils.errors import UserError
from utils.stay_vectors import normal_scores, stay_vectors

CLASSIFIER = seeker_classifier.Parameters(folds=3, trees=40, rounds=10)


def classifier(input_dict):
    return seeker_classifier.seeker(input_dict, CLASSIFIER)


def boosting(input_dict):
    return seeker_classifier.seeker(input_dict, replace(CLASSIFIER, models="boosting", rounds=60))


SEEKERS = [
    pytest.param(classifier, id="classifier"),
    pytest.param(boosting, id="classifier-boosting"),
    pytest.param(seeker_forecast.seeker, id="forecast"),
]


def given(generated, generated_mask, enlarged, enlarged_mask):
    return {
        "generated_data": generated,
        "generated_data_padding_mask": generated_mask,
        "enlarged_data": enlarged,
        "enlarged_data_padding_mask": enlarged_mask,
        "seed": 0,
    }


def patients(rng, stays, time_points=12, features=6):
    """Stays in which features hang together and later values follow from earlier ones."""
    data, mask = make_stays(rng, stays, time_points, features)
    level = rng.normal(size=(stays, 3)) @ rng.normal(size=(3, features))
    data[:, :, 1:] += 30 * level[:, None, 1:]
    data[mask] = -1.0
    return data, mask


def area(scores, members, count):
    is_member = np.isin(np.arange(count), members)
    wins = scores[is_member][:, None] - scores[~is_member]
    return np.mean((wins > 0) + (wins == 0) / 2)


@pytest.mark.parametrize("seeker", SEEKERS)
def test_near_copies_of_the_members_are_found(rng, seeker):
    data, mask = patients(rng, 300)
    members = rng.permutation(300)[:150]
    copies = np.where(mask[members], -1.0, data[members] + rng.normal(0, 0.1, data[members].shape))
    labels, scores = seeker(given(copies, mask[members], data, mask))
    assert labels.sum() == 150
    assert area(scores, members, 300) > (0.65 if seeker is boosting else 0.8)
    assert scores[labels == 1].min() >= scores[labels == 0].max()


@pytest.mark.parametrize("seeker", SEEKERS)
def test_data_of_other_patients_betray_nobody(rng, seeker):
    data, mask = patients(rng, 900)
    _, scores = seeker(given(data[600:], mask[600:], data[:600], mask[:600]))
    members = rng.permutation(600)[:300]
    assert area(scores, members, 600) == pytest.approx(0.5, abs=0.1)  # four standard errors


@pytest.mark.parametrize("seeker", SEEKERS)
def test_same_seed_same_scores(rng, seeker):
    data, mask = patients(rng, 60)
    inputs = given(data[:30], mask[:30], data, mask)
    np.testing.assert_array_equal(seeker(inputs)[1], seeker(inputs)[1])


def _cases(rng):
    data, mask = patients(rng, 20)
    generated, generated_mask = patients(rng, 7)
    unmeasured, huge = data.copy(), generated.copy()
    unmeasured[:, :, 1:] = np.nan
    huge[0, -1], huge[1, -1], huge[2, -1] = 1e300, -1e300, np.inf
    other = patients(rng, 9, time_points=30)
    return {
        "constant": given(np.ones_like(generated), generated_mask, np.ones_like(data), mask),
        "one stay": given(generated[:1], generated_mask[:1], data[:1], mask[:1]),
        "two stays": given(generated[:1], generated_mask[:1], data[:2], mask[:2]),
        "nothing measured": given(unmeasured[:7], mask[:7], unmeasured, mask),
        "all missing": given(np.full((7, 12, 6), np.nan), None, np.full((20, 12, 6), np.nan), None),
        "all padded": given(np.full((7, 12, 6), -1.0), None, np.full((20, 12, 6), -1.0), None),
        "nothing measured of the generated": given(unmeasured[:7], mask[:7], data, mask),
        "huge": given(huge, generated_mask, data, mask),
        "huge patients": given(generated, generated_mask, np.where(data > 60, 1e300, data), mask),
        "other number and length": given(*other, data, mask),
        "more generated than enlarged": given(data, mask, generated, generated_mask),
        "one time point": given(generated[:, -1:], None, data[:, -1:], None),
        "one feature": given(generated[:, :, :1], None, data[:, :, :1], None),
        "no masks": given(generated, None, data, None),
    }


@pytest.mark.parametrize("seeker", SEEKERS)
@pytest.mark.parametrize("case", _cases(np.random.default_rng(0)))
def test_bad_input_gets_an_answer(rng, seeker, case):
    inputs = _cases(rng)[case]
    labels, scores = seeker(inputs)
    count = len(inputs["enlarged_data"])
    assert labels.shape == scores.shape == (count,)
    assert np.isfinite(scores).all()
    assert labels.sum() == min(count, len(inputs["generated_data"]))


@pytest.mark.parametrize("seeker", SEEKERS)
def test_other_features_are_one_clear_error(rng, seeker):
    data, mask = patients(rng, 10)
    with pytest.raises(UserError, match="4 features, enlarged ones 6"):
        seeker(given(data[:, :, :4], mask[:, :, :4], data, mask))


@pytest.mark.parametrize("seeker", SEEKERS)
def test_the_input_is_left_as_it_was(rng, seeker):
    data, mask = patients(rng, 30)
    before = data.copy()
    seeker(given(data[:15].copy(), mask[:15], data, mask))
    np.testing.assert_array_equal(data, before)


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ValueError, match="folds must be at least 2"):
        seeker_classifier.Parameters(folds=1)
    with pytest.raises(ValueError, match="groups must be at least 2"):
        seeker_forecast.Parameters(groups=1)


def test_a_stays_row_holds_its_summaries_and_its_clock():
    data = np.array([[[-1.0, -1], [5, 1], [6, 3], [9, np.nan]]])
    mask = np.array([[[True, True], [False, False], [False, False], [False, False]]])
    row = stay_vectors(given(data, mask, data, mask))[1][0]
    assert row.shape == (3 * 2 * 7 + 4,)
    assert row[7:14].tolist() == pytest.approx([2, 1, 1, 3, 1, 3, 2 / 3])  # the value's summaries
    assert row[-4:].tolist() == pytest.approx([3, 2, 1, 3])  # length; intervals 1 and 3
    assert np.isnan(row[2 * 14 + 7])  # nothing measured in the second half


def test_normal_scores_are_ranks_among_the_reference():
    reference = np.array([[1.0, np.nan], [2, np.nan], [3, np.nan]])
    scores = normal_scores(reference, np.array([[2.0, 5], [0, 5], [9, 5], [np.nan, 5]]))
    assert scores[0, 0] == scores[3, 0] == 0
    assert scores[1, 0] == -scores[2, 0] < -1
    assert (scores[:, 1] == 0).all()
