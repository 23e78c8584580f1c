"""Kept utility: what a release is still good for, against other real stays and a constant."""

import functools

import numpy as np
import pytest

from scoring.utility.kept import Yardstick, kept_utility
from scoring.utility.observed import Observed, Stays, independent_columns
from scoring.utility.resampling import weighted_auroc

NAMES = ["time", "a", "b", "c", "d", "dead"]


def simulated(count, seed=0, time_points=24):
    """Stays with a level of their own, a trend, related features, a pace, missing values and an outcome."""
    rng = np.random.default_rng(seed)
    sick = rng.normal(size=count)
    level = rng.normal(size=(count, 4)) * 0.6 + sick[:, None] * [1, -1, 0.8, 0.5]
    hours = np.cumsum(rng.gamma(2, 0.5, (count, time_points)) * np.exp(-0.3 * sick)[:, None], axis=1)
    state = rng.normal(size=(count, 1)) * np.tanh(hours / 8)
    values = level[:, None] + state[:, :, None] + 0.5 * rng.normal(size=(count, time_points, 4))
    measured = rng.random(values.shape) < (1 / (1 + np.exp(-0.8 * sick - rng.normal(size=count))))[:, None, None]
    values[~measured] = np.nan
    dead = (sick + 0.5 * rng.normal(size=count) > 0.7).astype(float)
    lengths = np.clip(np.round(14 + 5 * sick + 2 * rng.normal(size=count)), 3, time_points).astype(int)
    data = np.concatenate([hours[:, :, None], values, np.broadcast_to(dead[:, None, None], (*hours.shape, 1))], axis=2)
    padded = np.arange(time_points) < (time_points - lengths)[:, None]
    data[padded] = -1.0
    return Stays(data, np.repeat(padded[:, :, None], data.shape[2], axis=2))


@functools.cache
def yardstick(others=400):
    return Yardstick(simulated(others, 1), NAMES, np.random.default_rng(0))


def kept(release):
    return yardstick().judge(release, np.random.default_rng(1))


@functools.cache
def of_members():
    return kept(simulated(400, 2))


def families(result):
    return {family.name: family for family in result.families}


def test_the_members_themselves_keep_nearly_everything():
    result = of_members()
    assert result.headline.value > 0.9
    assert result.headline.low <= result.headline.value <= result.headline.high <= 1
    judged = families(result)
    assert all(judged[name].kept.value > 0.8 for name in ("forecast", "imputation", "static", "structure"))


def test_other_real_stays_are_the_ceiling_and_a_copier_gains_nothing_over_them():
    fresh, copied = kept(simulated(400, 3)), of_members()
    assert abs(fresh.headline.value - copied.headline.value) < 0.05


def test_independent_columns_keep_nothing():
    result = kept(independent_columns(simulated(400, 2), np.random.default_rng(0)))
    assert result.headline.value < 0.03
    assert families(result)["structure"].kept.value < 0.1


@pytest.mark.parametrize("times", ["median too", "real"])
def test_a_release_of_medians_keeps_nothing(times):
    members = simulated(400, 2)
    data = np.where(members.padding_mask, np.nan, members.data)
    medians = np.broadcast_to(np.nanmedian(data, axis=(0, 1)), data.shape).copy()
    mask = None
    if times == "real":
        medians[:, :, 0], mask = members.data[:, :, 0], members.padding_mask
    assert kept(Stays(medians, mask)).headline.value < 0.02


def test_rows_torn_out_of_their_stays_keep_nothing_of_an_outcome():
    members = simulated(400, 2)
    rows = ~members.padding_mask[:, :, 0]
    torn = members.data.copy()
    torn[rows] = np.random.default_rng(0).permutation(torn[rows])
    result = families(kept(Stays(torn, members.padding_mask)))
    assert result["static"].kept.value < 0.1
    assert result["forecast"].kept.value < 0.1


def test_more_noise_keeps_less():
    members = simulated(400, 2)
    rng = np.random.default_rng(0)
    spread = np.nanstd(np.where(members.padding_mask, np.nan, members.data), axis=(0, 1))
    spread[[0, 5]] = 0
    headlines = [of_members().headline.value]
    for dose in (1.0, 4.0):
        noisy = members.data + dose * spread * rng.normal(size=members.data.shape)
        headlines.append(kept(Stays(np.where(members.padding_mask, -1, noisy), members.padding_mask)).headline.value)
    assert headlines[0] > headlines[1] + 0.05 > headlines[2] + 0.05


def test_a_release_may_have_other_sizes_and_row_orders():
    members = simulated(300, 2, time_points=30)
    backwards = Stays(members.data[:, ::-1], members.padding_mask[:, ::-1])
    forwards, turned = kept(members), kept(backwards)
    assert forwards.headline == turned.headline
    assert forwards.headline.value > 0.8
    assert kept(members.take(np.arange(20))).headline.value < 0.3


def test_few_stays_are_too_few_to_judge_and_not_a_pass():
    result = kept_utility(simulated(150, 2), simulated(150, 1), NAMES, np.random.default_rng(0))
    assert result.headline.value is None
    assert all(task.too_few and task.kept is None for task in result.tasks)
    assert {family.reason for family in result.families} == {"too few stays to judge"}
    facts = result.to_json()
    assert facts["headline"] == {"value": None, "low": None, "high": None}


def test_which_tasks_count_does_not_depend_on_the_release():
    noise = Stays(np.random.default_rng(0).normal(size=(400, 24, 6)), None)
    counted = [[task.name for task in result.tasks if task.counts] for result in (of_members(), kept(noise))]
    assert counted[0] == counted[1]


def test_the_same_generators_give_the_same_figures():
    again = Yardstick(simulated(400, 1), NAMES, np.random.default_rng(0)).judge(
        simulated(400, 2), np.random.default_rng(1)
    )
    assert again == of_members()


def test_odd_releases_are_judged_and_not_refused():
    shape = (400, 24, 6)
    nothing = np.full(shape, np.nan)
    zeros = np.zeros(shape)
    huge = np.full(shape, 1e300)
    for release in (nothing, zeros, huge, np.full(shape, -1.0)):
        assert kept(Stays(release, np.zeros(shape, bool))).headline.value < 0.02


def test_stays_are_laid_out_in_the_order_of_their_times():
    data = np.array([[[-1, -1], [5, 1.0], [3, 2.0], [np.nan, 3.0]]])
    observed = Observed.of(Stays(data, None))
    np.testing.assert_array_equal(observed.rows, [[True, True, False, False]])
    np.testing.assert_array_equal(observed.values[0, :2], [[0, 2], [2, 1]])
    assert observed.durations.tolist() == [2]


def test_the_auroc_under_weights_counts_ties_half_and_repeats_stays():
    labels, scores = np.array([1, 0, 1, 0, np.nan]), np.array([3.0, 1, 1, 2, 9])
    weights = np.array([[1, 1, 1, 1, 1], [2, 0, 1, 3, 1], [1, 0, 1, 0, 1]])
    np.testing.assert_allclose(weighted_auroc(labels, scores, weights), [2.5 / 4, 6 / 9, 0.5])


def test_what_stands_beside_tells_real_stays_from_a_release_with_noise():
    members = simulated(400, 2)
    noisy = members.data + np.where(members.padding_mask, 0, np.random.default_rng(0).normal(size=members.data.shape))
    good, bad = of_members().beside, kept(Stays(noisy, members.padding_mask)).beside
    for kind in ("with_missingness", "without_missingness"):
        low, high = good["real_or_generated"][kind]["auroc_ci95"]
        assert low < 0.55 < 0.8 < bad["real_or_generated"][kind]["auroc"]
        assert high < 0.7
    assert good["context_fid"]["release"] < 1.5 * good["context_fid"]["other_real_stays"]
    assert bad["context_fid"]["release"] > 2 * good["context_fid"]["release"]


def test_conclusions_of_the_members_carry_over_and_those_of_independent_columns_do_not():
    inside, signs = of_members().beside["conclusions"]["inside"], of_members().beside["conclusions"]["same_sign"]
    assert inside["release"] > 0.7 > inside["independent_columns"]
    assert signs["release"] > 0.9 > signs["independent_columns"]


def test_models_of_real_stays_do_as_well_on_the_members_as_on_other_real_stays():
    tasks = [task for task in of_members().tasks if task.counts and task.metric != "distance"]
    assert np.mean([task.on_release - task.ceiling for task in tasks]) == pytest.approx(0, abs=0.1)
