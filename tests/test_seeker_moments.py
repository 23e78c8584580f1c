"""The moments seeker finds members behind accurate means at about the theory's rate, and nobody where nobody is."""

from math import sqrt

import numpy as np
import pytest
from conftest import make_stays
from scipy.special import ndtr

import seeker_moments
from scoring.statistics import auroc
from seeker_moments import combine, histograms, likelihood_ratio_test, normal_scores, row_products


def given(generated, generated_mask, enlarged, enlarged_mask):
    return {
        "generated_data": generated,
        "generated_data_padding_mask": generated_mask,
        "enlarged_data": enlarged,
        "enlarged_data_padding_mask": enlarged_mask,
        "seed": 0,
    }


def release_with_exact_means(rng, members, means):
    """Stays that nobody is behind, but for the members' mean of the first `means` numbers."""
    made = rng.normal(size=members.shape)
    made[:, :means] += members[:, :means].mean(axis=0) - made[:, :means].mean(axis=0)
    return made


def vectors(rng, stays=1000, numbers=400):
    return rng.normal(size=(stays, numbers)).astype(np.float32), rng.permutation(stays) < stays // 2


@pytest.mark.parametrize("means", [50, 200, 400])
def test_exact_means_give_members_away_at_about_the_theorys_rate(rng, means):
    # A release of p exact numbers of n members: d'^2 = 2 p / n for an attacker who holds the members and as many
    # others, since the mean of both is known. (p / n, if instead the mean of all patients there could be is known.)
    real, member = vectors(rng, 2000, means)
    made = release_with_exact_means(rng, real[member], means).astype(np.float32)
    scores, predicted = likelihood_ratio_test(real, made)
    labels = np.argsort(np.argsort(-scores)) < member.sum()
    expected = sqrt(2 * means / member.sum())
    assert np.mean(labels == member) == pytest.approx(ndtr(expected / 2), abs=0.035)  # three standard errors
    assert 0 < predicted < 1.2 * expected  # cautious, as these means have no sampling noise


def test_the_test_weighs_directions_by_what_they_tell(rng):
    """A hundred exact means are found although three hundred others are far off in a way that tells nothing."""
    real, member = vectors(rng, 1000, 400)
    made = release_with_exact_means(rng, real[member], 100) * np.repeat([1, 3], [100, 300])
    made[:, 100:] += rng.normal(size=300)
    found = auroc(member, likelihood_ratio_test(real, made.astype(np.float32))[0])[0]
    plain = auroc(member, (real - real.mean(0)) @ (made.mean(0) - real.mean(0)))[0]
    assert plain < 0.55
    assert found > plain + 0.05


def test_more_dimensions_than_stays_is_a_usual_case(rng):
    real, member = vectors(rng, 200, 900)
    made = release_with_exact_means(rng, real[member], 900).astype(np.float32)
    assert auroc(member, likelihood_ratio_test(real, made)[0])[0] > 0.8


def test_a_null_release_accuses_nobody_more_than_others(rng):
    areas = []
    for _ in range(20):
        data, mask = make_stays(rng, 300)
        enlarged, others = data[:200], data[200:]
        scores = seeker_moments.seeker(given(others, mask[200:], enlarged, mask[:200]))[1]
        areas.append(auroc(np.arange(200) < 100, scores)[0])
    assert np.mean(areas) == pytest.approx(0.5, abs=4 * 0.041 / sqrt(20))  # 0.041: standard error of one


def test_the_release_of_all_members_is_found(rng):
    data, mask = make_stays(rng, 400)
    member = rng.permutation(400) < 200
    labels, scores = seeker_moments.seeker(given(data[member], mask[member], data, mask))
    assert auroc(member, scores)[0] > 0.8
    assert labels.sum() == 200
    assert scores[labels == 1].min() >= scores[labels == 0].max()


def test_scores_hardly_depend_on_the_order_of_stays(rng):
    data, mask = make_stays(rng, 160)
    generated, generated_mask = data[::2], mask[::2]
    scores = seeker_moments.seeker(given(generated, generated_mask, data, mask))[1]
    order, made_order = rng.permutation(160), rng.permutation(80)
    again = seeker_moments.seeker(given(generated[made_order], generated_mask[made_order], data[order], mask[order]))[1]
    assert np.corrcoef(scores[order], again)[0, 1] > 0.95  # float32: directions that are alike change places


def test_rows_of_all_stays_shuffled_leave_the_row_products_mean_alone(rng):
    cells = rng.normal(size=(40, 6, 3)).astype(np.float32)
    lengths = np.full(40, 6)
    shuffled = rng.permutation(cells.reshape(-1, 3)).reshape(cells.shape)
    assert row_products(shuffled, lengths).mean(0) == pytest.approx(row_products(cells, lengths).mean(0), abs=1e-5)


def test_histograms_count_the_real_cells_only(rng):
    cells = normal_scores(np.arange(20.0), np.arange(20.0)).reshape(2, 10, 1)
    counts = histograms(cells, np.array([10, 4]), 4) * 10
    assert counts.sum(axis=1) == pytest.approx([10, 4])
    assert counts[0] == pytest.approx([5, 5, 0, 0])


def test_normal_scores_are_ranks_and_equal_values_share_one():
    scores = normal_scores(np.array([1.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0, 9.0]))
    assert ndtr(scores) == pytest.approx([1 / 8, 3 / 8, 7 / 8, 7 / 8], abs=1e-6)
    many = np.linspace(0, 1, 30_000)
    assert ndtr(normal_scores(many, np.array([0.25, 0.5]))) == pytest.approx([0.25, 0.5], abs=1e-3)
    assert (normal_scores(np.empty(0), np.array([3.0])) == 0).all()


def test_a_view_that_says_nothing_does_not_dilute_one_that_does(rng):
    member = np.arange(2000) < 1000
    strong, weak = member + rng.normal(size=2000), rng.normal(size=2000)
    together = combine([(strong - strong.mean(), 1.0), *[(weak, 0.05)] * 4])
    assert auroc(member, together)[0] == pytest.approx(auroc(member, strong)[0], abs=0.01)


HARD = {
    "constant features": lambda data, mask: np.where(mask, data, 7.0),
    "all missing": lambda data, mask: np.where(mask, data, np.nan),
    "huge values": lambda data, mask: np.where(mask, data, data * 1e300),
    "one value apart": lambda data, mask: np.where(
        np.arange(data.size).reshape(data.shape) == data.size - 1, 1e200, data
    ),
}


@pytest.mark.parametrize("kind", HARD)
def test_hard_data_gets_an_answer(rng, kind):
    data, mask = make_stays(rng, 30)
    data = HARD[kind](data, mask)
    labels, scores = seeker_moments.seeker(given(data[:15], mask[:15], data, mask))
    assert labels.sum() == 15
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(("stays", "made"), [(1, 1), (2, 1), (3, 9), (8, 1), (20, 50)])
@pytest.mark.parametrize("time_points", [1, 5, 12])
def test_other_numbers_and_lengths_of_generated_stays_get_an_answer(rng, stays, made, time_points):
    data, mask = make_stays(rng, stays)
    generated, generated_mask = make_stays(rng, made, time_points)
    labels, scores = seeker_moments.seeker(given(generated, generated_mask, data, mask))
    assert labels.sum() == min(stays, made)
    assert scores.shape == (stays,)
    assert np.isfinite(scores).all()
    assert np.isfinite(seeker_moments.seeker(given(generated, None, data, None))[1]).all()


def test_other_features_are_refused_in_one_line(rng):
    data, mask = make_stays(rng, 6)
    with pytest.raises(ValueError, match="2 features, the enlarged data 4"):
        seeker_moments.seeker(given(data[:, :, :2], mask[:, :, :2], data, mask))
