"""The crowd hider: stays that no patient is behind."""

import numpy as np
import pytest
from conftest import make_stays

from examples.hider.crowd.cells import fit_crowd
from hider_crowd import Parameters, hider


def given(data, mask, seed=1):
    return {"data": data, "padding_mask": mask, "seed": seed}


def lengths_of(mask):
    return (~mask[:, :, 0]).sum(axis=1)


@pytest.fixture
def stays(rng):
    """Stays of 3 to 30 rows whose patients differ, with a yes-or-no feature and one that never changes."""
    n, t = 120, 30
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
        ],
        axis=2,
    )
    data[:, :, 1:3][rng.random((n, t, 2)) < 0.2] = np.nan
    mask = np.repeat(padded[:, :, None], 5, axis=2)
    data[mask] = -1
    return data, mask


@pytest.fixture
def hidden(stays):
    return hider(given(*stays))


def test_lengths_times_and_missing_cells_are_no_patients(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    assert not np.isnan(generated).any()
    assert np.mean(lengths_of(mask) == lengths_of(generated_mask)) < 0.3
    assert (generated[generated_mask] == -1).all()
    assert not np.intersect1d(generated[~generated_mask[:, :, 0], 0], data[~mask[:, :, 0], 0]).size
    assert (np.diff(generated[:, :, 0])[~generated_mask[:, :-1, 0]] >= 0).all()


def test_no_measured_value_of_a_continuous_feature_comes_back(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    measured = data[:, :, 1][~mask[:, :, 1]]
    assert not np.intersect1d(generated[:, :, 1][~generated_mask[:, :, 1]], measured[~np.isnan(measured)]).size


def test_a_value_of_few_patients_does_not_come_back(rng):
    """Too few distinct values to be continuous, yet each is one patient's."""
    data, mask = make_stays(rng, 40)
    rare = rng.normal(100, 30, 12)
    data[:, :, 2] = np.nan
    data[:12, -1, 2] = rare
    generated, _ = hider(given(data, mask))
    assert not np.isin(generated[:, :, 2], rare).any()


def test_distributions_and_relations_stay(stays, hidden):
    (data, mask), (generated, generated_mask) = stays, hidden
    real, made = data[~mask[:, :, 0]], generated[~generated_mask[:, :, 0]]
    for feature in (1, 2):
        assert made[:, feature].mean() == pytest.approx(np.nanmean(real[:, feature]), abs=1.5)
        assert made[:, feature].std() == pytest.approx(np.nanstd(real[:, feature]), rel=0.2)
    assert np.corrcoef(made[:, 1], made[:, 2])[0, 1] < -0.4
    assert set(np.unique(made[:, 3])) == {0.0, 1.0}
    assert (made[:, 4] == 7).all()


def test_a_patient_is_no_nearer_to_the_release_than_a_stranger(rng):
    """Stays that are nothing but their patient's level: with noise alone, every one of them would be found."""
    levels = rng.normal(0, 1, (400, 4))
    data = np.repeat(levels[:, None], 10, axis=1)
    data[:, :, 0] = np.arange(10)
    mask = np.zeros(data[:200].shape, bool)
    generated = hider(given(data[:200], mask))[0]
    release = generated[:, -1, 1:]
    nearest = np.linalg.norm(levels[:, None, 1:] - release[None], axis=2).min(axis=1)
    found = np.argsort(nearest)[:200] < 200
    assert abs(found.mean() - 0.5) < 0.12


def test_nothing_padded_is_used(stays):
    data, mask = stays
    other = np.where(mask, 777.0, data)
    first, second = (hider(given(d, mask))[0] for d in (data, other))
    assert np.array_equal(first, second)


def test_crowd_records_are_made_of_many_patients(rng):
    data, mask = make_stays(rng, 30)
    scores, lengths, crowd = fit_crowd(data, mask, 2, rng)
    drawn, _ = crowd.draw(50, 8, rng)
    assert crowd.directions.shape == (2, 8 * 4 + 1)
    members, made = scores.reshape(30, -1), drawn.reshape(50, -1)
    to_member = np.linalg.norm(made[:, None] - members[None], axis=2).min()
    assert to_member > 0.5
    assert np.array_equal(lengths, lengths_of(mask))


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(rng):
    data, mask = make_stays(rng, 8)
    runs = [hider(given(data, mask, seed))[0] for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1], equal_nan=True)
    assert not np.array_equal(runs[0], runs[2], equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 1, 3), (1, 6, 3), (4, 5, 1), (5, 7, 3)])
def test_odd_sizes_work_and_the_input_is_left_alone(rng, shape):
    data, mask = make_stays(rng, *shape)
    kept = data.copy()
    generated, generated_mask = hider(given(data, mask))
    assert generated.shape == generated_mask.shape == shape
    assert np.array_equal(data, kept, equal_nan=True)


@pytest.mark.parametrize("changes", [{"components": 0}, {"patients_per_direction": 0}])
def test_parameters_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=f"^{next(iter(changes))} must be"):
        Parameters(**changes)
