"""The crowd hider: stays that no patient is behind, from few uncertain numbers or (`cells`) from many exact ones."""

import numpy as np
import pytest
from conftest import make_stays
from scipy.special import ndtr

from examples.hider.crowd.cells import fit_crowd
from hider_crowd import CELLS, Parameters, fit, hider, noise_for

BOTH = [pytest.param(Parameters(), id="summaries"), pytest.param(CELLS, id="cells")]


def given(data, mask, seed=1):
    return {"data": data, "padding_mask": mask, "seed": seed}


def lengths_of(mask):
    return (~mask[:, :, 0]).sum(axis=1)


@pytest.fixture(scope="module")
def stays():
    """Stays of 3 to 30 rows: two levels, a yes or no that a patient keeps, one value of all, one that half have."""
    rng = np.random.default_rng(7)
    n, t = 400, 30
    lengths = rng.integers(3, t + 1, n)
    padded = np.arange(t) < (t - lengths)[:, None]
    level = rng.normal(0, 1, (n, 1))
    data = np.stack(
        [
            np.cumsum(rng.exponential(1, (n, t)), axis=1),
            50 + 10 * level + rng.normal(0, 1, (n, t)),
            20 - 4 * level + rng.normal(0, 1, (n, t)),
            np.repeat((rng.random((n, 1)) < 0.3).astype(float), t, axis=1),
            np.full((n, t), 7.0),
            np.where(np.arange(n)[:, None] < n // 2, np.nan, rng.normal(0, 1, (n, t))),
        ],
        axis=2,
    )
    data[:, :, 1:3][rng.random((n, t, 2)) < 0.2] = np.nan
    mask = np.repeat(padded[:, :, None], 6, axis=2)
    data[mask] = -1
    return data, mask


@pytest.fixture(scope="module", params=BOTH)
def hidden(stays, request):
    return hider(given(*stays), request.param)


@pytest.fixture(scope="module")
def summarised(stays):
    return hider(given(*stays))


# --------------------------------------------------------------------------------------------------- both settings


def test_lengths_and_times_are_no_patients(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    assert np.mean(lengths_of(mask) == lengths_of(generated_mask)) < 0.3
    assert (generated[generated_mask] == -1).all()
    assert not np.intersect1d(generated[~generated_mask[:, :, 0], 0], data[~mask[:, :, 0], 0]).size
    assert (np.diff(generated[:, :, 0])[~generated_mask[:, :-1, 0]] >= 0).all()


def test_no_measured_value_of_a_continuous_feature_comes_back(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    measured, made = data[:, :, 1][~mask[:, :, 1]], generated[:, :, 1][~generated_mask[:, :, 1]]
    assert not np.intersect1d(made[~np.isnan(made)], measured[~np.isnan(measured)]).size


@pytest.mark.parametrize("parameters", BOTH)
def test_a_value_of_few_patients_does_not_come_back(rng, parameters):
    """Too few distinct values to be continuous, yet each is one patient's."""
    data, mask = make_stays(rng, 40)
    rare = rng.normal(100, 30, 12)
    data[:, :, 2] = np.nan
    data[:12, -1, 2] = rare
    generated, _ = hider(given(data, mask), parameters)
    assert not np.isin(generated[:, :, 2], rare).any()


def test_distributions_and_relations_stay(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    real, made = data[~mask[:, :, 0]], generated[~generated_mask[:, :, 0]]
    for feature in (1, 2):
        assert np.nanmean(made[:, feature]) == pytest.approx(np.nanmean(real[:, feature]), abs=3)
        assert np.nanstd(made[:, feature]) == pytest.approx(np.nanstd(real[:, feature]), rel=0.3)
    both = np.isfinite(made[:, 1:3]).all(axis=1)
    assert np.corrcoef(made[both, 1], made[both, 2])[0, 1] < -0.4
    assert set(np.unique(made[:, 3])) == {0.0, 1.0}
    assert made[:, 3].mean() == pytest.approx(real[:, 3].mean(), abs=0.12)
    assert (made[:, 4] == 7).all()
    assert lengths_of(generated_mask).mean() == pytest.approx(lengths_of(mask).mean(), abs=3)


@pytest.mark.parametrize("parameters", BOTH)
def test_a_patient_is_no_nearer_to_the_release_than_a_stranger(rng, parameters):
    """Stays that are nothing but their patient's level: with noise alone, every one of them would be found."""
    levels = rng.normal(0, 1, (400, 4))
    data = np.repeat(levels[:, None], 10, axis=1)
    data[:, :, 0] = np.arange(10)
    mask = np.zeros(data[:200].shape, bool)
    generated = hider(given(data[:200], mask), parameters)[0]
    release = np.nanmean(generated[:, :, 1:], axis=1)
    nearest = np.linalg.norm(levels[:, None, 1:] - release[None], axis=2).min(axis=1)
    found = np.argsort(nearest)[:200] < 200
    assert abs(found.mean() - 0.5) < 0.12


@pytest.mark.parametrize("parameters", BOTH)
def test_nothing_padded_is_used_and_padding_is_found_without_a_mask(stays, parameters):
    data, mask = stays
    other = np.where(mask, 777.0, data)
    first, second, third = (hider(given(d, k), parameters)[0] for d, k in ((data, mask), (other, mask), (data, None)))
    assert np.array_equal(first, second, equal_nan=True)
    assert np.array_equal(first, third, equal_nan=True)


@pytest.mark.parametrize("parameters", BOTH)
def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(rng, parameters):
    data, mask = make_stays(rng, 8)
    runs = [hider(given(data, mask, seed), parameters)[0] for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1], equal_nan=True)
    assert not np.array_equal(runs[0], runs[2], equal_nan=True)


@pytest.mark.parametrize("parameters", BOTH)
@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 1, 3), (1, 6, 3), (4, 5, 1), (5, 7, 3)])
def test_odd_sizes_work_and_the_input_is_left_alone(rng, shape, parameters):
    data, mask = make_stays(rng, *shape)
    kept = data.copy()
    generated, generated_mask = hider(given(data, mask), parameters)
    assert generated.shape == generated_mask.shape == shape
    assert not np.isinf(generated).any()
    assert np.array_equal(data, kept, equal_nan=True)


@pytest.mark.parametrize("parameters", BOTH)
def test_a_feature_that_nobody_has_an_empty_stay_and_missing_times_are_no_obstacle(rng, parameters):
    data, mask = make_stays(rng, 30)
    data[:, :, 2] = np.where(mask[:, :, 2], -1, np.nan)
    data[3], mask[3] = -1, True
    data[5, -1, 0] = data[6, :, 0] = np.nan  # rows without a time
    data[6, :, 0][mask[6, :, 0]] = -1
    generated, generated_mask = hider(given(data, mask), parameters)
    assert (
        np.isin(generated[:, :, 2][~generated_mask[:, :, 2]], (0.0, np.nan)).all()
        or np.isnan(generated[:, :, 2][~generated_mask[:, :, 2]]).all()
    )


# ------------------------------------------------------------------------------------------------- few numbers


def test_who_is_measured_and_how_often_stays_and_no_pattern_is_a_patients(stays, summarised):
    (data, mask), (generated, generated_mask) = stays, summarised
    real, made = data[~mask[:, :, 0]], generated[~generated_mask[:, :, 0]]
    for feature in (1, 2, 3, 5):
        assert np.isnan(made[:, feature]).mean() == pytest.approx(np.isnan(real[:, feature]).mean(), abs=0.15)
    long = lengths_of(generated_mask) >= 20
    missing = np.isnan(data[:, -20:, 1:3])[lengths_of(mask) >= 20]
    patterns = {pattern.tobytes() for pattern in missing if not pattern.all(axis=0).any()}
    assert not any(pattern.tobytes() in patterns for pattern in np.isnan(generated[long][:, -20:, 1:3]))
    rarely = (np.isnan(generated[:, :, 5]).sum(axis=1) / lengths_of(generated_mask))[long]
    assert np.mean(rarely > 0.7) > 0.15, "some are hardly ever measured, as half of the patients are not"
    assert np.mean(rarely < 0.3) > 0.15


def test_a_patients_level_lasts_through_the_stay(stays, summarised):
    generated, generated_mask = summarised
    long = lengths_of(generated_mask) >= 20
    early, late = (np.nanmean(generated[long][:, rows, 1], axis=1) for rows in (slice(-20, -10), slice(-10, None)))
    assert np.corrcoef(early, late)[0, 1] > 0.9
    kept = generated[lengths_of(generated_mask) >= 3][:, -3:, 3]
    assert (kept == kept[:, :1]).all(), "what never changes within a patient's stay does not change here"


def test_an_extreme_patient_does_not_move_the_range(stays):
    data, mask = (array.copy() for array in stays)
    data[0, -1, 1] = 1e6
    generated, _ = hider(given(data, mask))
    assert np.nanmax(generated[:, :, 1]) < 200


def test_the_noise_is_what_the_theory_asks_for():
    for leak, numbers, patients in ((0.55, 1000, 2000), (0.52, 700, 4000)):
        noise = noise_for(leak, numbers, patients)
        assert ndtr(np.sqrt(numbers / (patients * (2 + noise))) / 2) == pytest.approx(leak)
    assert noise_for(0.55, 1000, 20_000) == 0


def test_the_model_counts_its_numbers(stays):
    model = fit(*stays, Parameters(row_types=2, between=9, within=3), np.random.default_rng(0))
    marginals = 4 * 7 + 2 + 1 + 2 * 7  # interval, three continuous, yes or no, one value; duration, start
    assert model.numbers == marginals + 6 * 6 + 9 + 3 + 2 * 5 + 2 + 4 + 5


def test_an_attack_on_means_finds_the_cells_and_little_in_few_uncertain_numbers():
    """Homer et al. (2008) on simulated stays without covariance: the release's mean less the enlarged data's."""
    rng = np.random.default_rng(3)
    found = {"cells": [], "summaries": []}
    for seed in range(3):
        data = rng.normal(0, 1, (300, 12, 16))
        data[:, :, 0] = np.arange(12)
        mask = np.zeros(data[:150].shape, bool)
        for parameters in (CELLS, Parameters()):
            release = hider(given(data[:150], mask, seed), parameters)[0]
            towards = np.nanmean(release, axis=0)[:, 1:] - data.mean(axis=0)[:, 1:]
            score = (data[:, :, 1:] * towards).sum(axis=(1, 2))
            found[parameters.statistics].append(np.mean(np.argsort(-score)[:150] < 150))
    assert np.mean(found["cells"]) > 0.62
    assert np.mean(found["summaries"]) < 0.57


# ------------------------------------------------------------------------------------------------------- cells


def test_crowd_records_are_made_of_many_patients(rng):
    data, mask = make_stays(rng, 30)
    scores, lengths, crowd = fit_crowd(data, mask, 2, rng)
    drawn, _ = crowd.draw(50, 8, rng)
    assert crowd.directions.shape == (2, 8 * 4 + 1)
    members, made = scores.reshape(30, -1), drawn.reshape(50, -1)
    to_member = np.linalg.norm(made[:, None] - members[None], axis=2).min()
    assert to_member > 0.5
    assert np.array_equal(lengths, lengths_of(mask))


@pytest.mark.parametrize("changes", [{"components": 0}, {"levels": 2}, {"leak": 0.5}, {"leak": float("nan")}])
def test_parameters_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=f"^{next(iter(changes))} must be"):
        Parameters(**changes)
