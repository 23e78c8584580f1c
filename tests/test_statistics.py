"""Every interval agrees with published or hand-computed values and covers the truth as often as it says."""

import json

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from scoring import many_attacks, statistics


def simulated_match(generator, members, non_members, shift):
    """Labels, and scores that are normal with the members `shift` standard deviations higher."""
    labels = np.arange(members + non_members) < members
    return labels, generator.normal(size=labels.size) + shift * labels


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval_equals_newcombes_published_table(successes, trials, low, high):
    # Newcombe, Statistics in Medicine 1998, 17:857, table I, method 3.
    assert statistics.wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_is_never_certain_and_mirrors():
    low, high = statistics.wilson_interval(10, 10)
    assert high == 1.0
    assert low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-6)  # by hand: n / (n + z^2)
    assert statistics.wilson_interval(0, 10) == pytest.approx((0, 1 - low))


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        ((56, 48), (70, 80), 0.0524, 0.3339),
        ((9, 3), (10, 10), 0.1705, 0.8090),
        ((5, 0), (56, 29), -0.0381, 0.1926),
    ],
)
def test_difference_interval_equals_newcombes_published_table(successes, trials, low, high):
    # Newcombe, Statistics in Medicine 1998, 17:873, table II, method 10.
    assert statistics.difference_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("decimals", [6, 0])  # 0: many ties
def test_auroc_equals_scikit_learn_and_the_pairwise_delong_variance(decimals):
    labels, scores = simulated_match(np.random.default_rng(0), 23, 37, 0.8)
    scores = scores.round(decimals)
    area, (low, high) = statistics.auroc(labels, scores)
    assert area == pytest.approx(roc_auc_score(labels, scores))

    wins = np.sign(scores[labels][:, None] - scores[~labels][None, :]) / 2 + 0.5
    variance = wins.mean(axis=1).var(ddof=1) / 23 + wins.mean(axis=0).var(ddof=1) / 37
    odds = np.log(area / (1 - area)) + np.array([-1, 1]) * 1.959964 * np.sqrt(variance) / (area * (1 - area))
    assert (low, high) == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-6)


def test_auroc_does_not_depend_on_the_order_or_scale_of_scores():
    generator = np.random.default_rng(1)
    labels, scores = simulated_match(generator, 40, 60, 0.5)
    shuffled = generator.permutation(labels.size)
    area, interval = statistics.auroc(labels, scores)
    other_area, other_interval = statistics.auroc(labels[shuffled], np.exp(3 * scores[shuffled]))
    assert (other_area, *other_interval) == pytest.approx((area, *interval))


@pytest.mark.parametrize(
    ("scores", "area"), [([2, 3, 4, 0, 1, 1], 1.0), ([0, 0, 0, 0, 0, 0], 0.5), ([0, 0, 0, 1, 1, 1], 0.0)]
)
def test_auroc_of_a_few_stays_is_never_certain(scores, area):
    value, (low, high) = statistics.auroc([1, 1, 1, 0, 0, 0], scores)
    assert value == area
    assert high - low > 0.4  # three stays a group tell little
    assert low <= value <= high


def test_tpr_at_fpr_is_the_best_point_of_the_roc_curve_within_the_limit():
    generator = np.random.default_rng(2)
    for decimals in (6, 1, 0):
        labels, scores = simulated_match(generator, 150, 300, 1.0)
        scores = scores.round(decimals)
        fpr, tpr, _ = sklearn_roc_curve(labels, scores, drop_intermediate=False)
        for limit in (0.01, 0.05, 0.29):
            value, (low, high) = statistics.tpr_at_fpr(labels, scores, limit)
            assert value == tpr[fpr <= limit].max()
            assert 0 <= low <= value <= high <= 1


def test_a_limit_that_is_a_whole_number_of_non_members_allows_all_of_them():
    # 0.29 of 100 non-members is 29, although 0.29 * 100 is 28.999999999999996.
    labels, scores = np.arange(101) == 0, np.concatenate([[70.5], np.arange(100)])
    assert statistics.tpr_at_fpr(labels, scores, 0.29)[0] == 1
    assert statistics.tpr_at_fpr(labels, scores, 0.28)[0] == 0


def test_members_tied_with_the_non_members_that_exceed_the_limit_are_not_found():
    labels = np.arange(400) < 200
    scores = np.where(labels, 1.0, 0.0)
    scores[200:203] = 1.0  # three of 200 non-members share the members' score; 1 % allows two
    assert statistics.tpr_at_fpr(labels, scores)[0] == 0
    scores[202] = 0.0
    assert statistics.tpr_at_fpr(labels, scores)[0] == 1  # two may be named wrongly


def test_fewer_than_a_hundred_non_members_allow_no_false_alarm():
    labels = np.arange(100) < 50
    scores = np.arange(100)[::-1].astype(float)
    scores[50] = 60.5  # the highest non-member ranks above the members scored 50 to 60
    value, (low, high) = statistics.tpr_at_fpr(labels, scores)
    assert value == pytest.approx(39 / 50)
    assert low == 0  # one non-member decides: the data cannot rule out that nobody is found
    assert high == 1


@pytest.mark.parametrize(("members", "non_members", "shift"), [(100, 100, 0.0), (200, 1000, 1.0), (1000, 200, 0.5)])
def test_intervals_cover_the_truth_at_least_about_as_often_as_they_say(members, non_members, shift):
    generator = np.random.default_rng(3)
    true_tpr, true_area = norm.sf(norm.isf(0.01) - shift), norm.cdf(shift / np.sqrt(2))
    true_share, true_rate, true_false_rate = 0.5, norm.sf(0.5 - shift), norm.sf(0.5)
    true_score = (members * true_rate + non_members * (1 - true_false_rate)) / (members + non_members)
    covered = np.zeros(4)
    repeats = 400
    for _ in range(repeats):
        labels, scores = simulated_match(generator, members, non_members, shift)
        figures = statistics.reidentification(labels, (scores > true_share).astype(float), scores)
        for i, (name, truth) in enumerate(
            {
                "score": true_score,
                "advantage": true_rate - true_false_rate,
                "auroc": true_area,
                "tpr_at_1_percent_fpr": true_tpr,
            }.items()
        ):
            low, high = figures[f"{name}_ci95"]
            covered[i] += low <= truth <= high
    # Three standard errors below 95 % of 400 is 91.7 %.
    assert (covered / repeats > 0.917).all(), covered / repeats
    assert (covered[:3] / repeats < 0.99).all(), covered / repeats  # not merely wide


def test_roc_curve_equals_scikit_learn():
    labels, scores = simulated_match(np.random.default_rng(4), 80, 120, 1.0)
    scores = scores.round(1)
    fpr, tpr = statistics.roc_curve(labels, scores)
    expected_fpr, expected_tpr, _ = sklearn_roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(fpr, expected_fpr)
    np.testing.assert_allclose(tpr, expected_tpr)


def test_reidentification_figures_of_the_reference_match():
    # 0.5968 on set-a: 1,193 and some of 2,000 members; a seeker that names exactly half of all stays.
    labels = np.arange(4000) < 2000
    predicted = np.zeros((4000,))
    predicted[:1194] = predicted[2000:2806] = 1
    figures = statistics.reidentification(labels, predicted)
    assert figures["score"] == accuracy_score(labels, predicted > 0.5) == 0.597
    assert figures["chance"] == 0.5
    assert (figures["members_found"], figures["false_alarms"]) == (1194, 806)
    assert figures["advantage"] == pytest.approx(2 * 0.597 - 1)
    assert figures["score_ci95"] == pytest.approx(statistics.wilson_interval(2388, 4000))
    assert figures["auroc"] is figures["auroc_ci95"] is figures["tpr_at_1_percent_fpr"] is None
    assert json.loads(json.dumps(figures)) == figures  # plain numbers, ready for report.json


def test_chance_is_the_better_constant_guess_and_the_advantage_shows_a_leak_it_hides():
    labels = np.arange(1000) < 100
    predicted = np.zeros(1000, dtype=bool)
    predicted[:60] = predicted[100:200] = True  # 60 of 100 members named, 100 of 900 non-members
    figures = statistics.reidentification(labels, predicted)
    assert figures["chance"] == 0.9
    assert figures["score"] < figures["chance"]
    assert figures["advantage_ci95"][0] > 0.3


@pytest.mark.parametrize(
    ("labels", "predicted", "message"),
    [
        ([1, 0], [1.0], "shape"),
        ([[1], [0]], [[1.0], [0.0]], "shape"),
        ([1, 0], [np.nan, 0.0], "predicted must not hold NaN; 1 of 2"),
        ([1, 1], [1.0, 0.0], "got 2 of 2"),
        ([0, 0], [1.0, 0.0], "got 0 of 2"),
        ([2, 0], [1.0, 0.0], "booleans"),
    ],
)
def test_impossible_input_is_named(labels, predicted, message):
    with pytest.raises(ValueError, match=message):
        statistics.reidentification(labels, predicted)


def test_impossible_counts_and_rates_are_refused():
    for counts in [(1, 0), (-1, 5), (6, 5)]:
        with pytest.raises(ValueError, match="successes"):
            statistics.wilson_interval(*counts)
    for fpr in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="fpr"):
            statistics.tpr_at_fpr([1, 0], [1.0, 0.0], fpr)


# ------------------------------------------------------------------------------------------------ the worst of many


def test_the_correction_for_many_attacks_widens_every_interval():
    generator = np.random.default_rng(1)
    labels, scores = simulated_match(generator, 2000, 2000, 2.0)
    for interval in (
        lambda count: statistics.auroc(labels, scores, count)[1],
        lambda count: statistics.tpr_at_fpr(labels, scores, comparisons=count)[1],
        lambda count: statistics.wilson_interval(230, 400, count),
    ):
        (low_1, high_1), (low_9, high_9) = interval(1), interval(9)
        assert low_9 < low_1 < high_1 < high_9
    assert statistics.wilson_interval(230, 400, 20) == pytest.approx((0.4994, 0.6472), abs=1e-4)  # by hand, z = 3.0233
    with pytest.raises(ValueError, match="at least 1"):
        statistics.corrected_tail(0)


def test_the_worst_of_many_blind_attacks_is_called_a_leak_in_at_most_five_of_a_hundred():
    generator = np.random.default_rng(2)
    called = 0
    for _ in range(200):
        labels = generator.permutation(np.arange(120) < 60)
        common = generator.normal(size=120)
        scores = {f"attack {k}": common + generator.normal(size=120) for k in range(6)}
        predicted = {name: values > np.median(values) for name, values in scores.items()}
        called += many_attacks.worst_of(labels, scores, predicted, permutations=199, rng=generator)["leak"]
    assert called <= 18  # 10 expected; 18 or fewer in 99 of 100


def test_one_attack_that_sees_stands_out_among_many_that_do_not():
    generator = np.random.default_rng(3)
    labels, seeing = simulated_match(generator, 300, 300, 0.5)
    scores = {f"blind {k}": generator.normal(size=600) for k in range(9)} | {"seeing": seeing}
    found = many_attacks.worst_of(labels, scores)
    area, interval = statistics.auroc(labels, seeing, comparisons=10)
    assert found["leak"]
    assert (found["attack"], found["figure"], found["attacks"]) == ("seeing", "auroc", 10)
    assert found["value"] == pytest.approx(area)
    assert found["interval"] == pytest.approx(list(interval))
    assert found["p_value"] <= 21 / 2000  # 20 figures, 1,999 permutations


def test_a_few_members_named_for_certain_are_a_leak_that_the_area_does_not_show():
    generator = np.random.default_rng(4)
    labels, scores = simulated_match(generator, 500, 500, 0.0)
    scores[:15] = 9.0  # 15 of 500 members
    found = many_attacks.worst_of(labels, {"copies": scores}, {"copies": scores > np.median(scores)})
    assert found["leak"]
    assert found["figure"] == "tpr_at_1_percent_fpr"


@pytest.mark.parametrize("decimals", [6, 0])  # 0: many ties
def test_figures_under_permutation_are_the_figures(decimals):
    generator = np.random.default_rng(5)
    labels, scores = simulated_match(generator, 150, 250, 1.0)
    scores = scores.round(decimals)
    area, found, right = many_attacks._figures(labels[None], {"a": scores}, {"a": scores > 0.5})[0]
    assert area == pytest.approx(statistics.auroc(labels, scores)[0])
    assert found == pytest.approx(statistics.tpr_at_fpr(labels, scores)[0])
    assert right == pytest.approx(np.mean((scores > 0.5) == labels))


def test_worst_of_refuses_what_cannot_be_judged():
    with pytest.raises(ValueError, match="at least one attack"):
        many_attacks.worst_of([True, False], {})
    with pytest.raises(ValueError, match="scores of a must not hold NaN"):
        many_attacks.worst_of([True, False], {"a": [np.nan, 1.0]})
