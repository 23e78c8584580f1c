"""What add-noise, binning and shuffle do to stays, and what they leave alone."""

import numpy as np
import pytest
from conftest import make_stays

import hider_addnoise
import hider_binning
import hider_shuffle
from utils.data_preprocess import preprocess_imputed

HIDERS = [
    pytest.param(module.hider, id=module.__name__.removeprefix("hider_"))
    for module in (hider_addnoise, hider_binning, hider_shuffle)
]


def hide(hider, data, padding_mask, seed=0, **kwargs):
    return hider({"data": data, "padding_mask": padding_mask, "seed": seed}, **kwargs)[0]


def complete_stays(rng, stays=400, time_points=8, features=3):
    """Stays without missing values or padding."""
    data = rng.gamma(2.0, size=(stays, time_points, features))
    data[:, :, 0] = np.cumsum(rng.random((stays, time_points)), axis=1)
    return data, np.zeros(data.shape, bool)


# ---------------------------------------------------------------------------------------------------- all three


@pytest.mark.parametrize("hider", HIDERS)
def test_padding_stays_where_it_is_and_the_input_is_left_alone(rng, hider):
    data, mask = make_stays(rng, 30)
    before, mask_before = data.copy(), mask.copy()
    generated, generated_mask = hider({"data": data, "padding_mask": mask, "seed": 0})
    assert generated.shape == data.shape
    np.testing.assert_array_equal(generated_mask, mask)
    assert (generated[mask] == -1).all()
    assert not (generated == data)[~mask].all(), "something was hidden"
    np.testing.assert_array_equal(data, before)
    np.testing.assert_array_equal(mask, mask_before)


@pytest.mark.parametrize("hider", HIDERS)
def test_without_a_mask_time_points_that_are_minus_1_throughout_are_padding(rng, hider):
    data, mask = make_stays(rng, 30)
    with_mask, without = (hider({"data": data, "padding_mask": given, "seed": 0}) for given in (mask, None))
    for first, second in zip(with_mask, without, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("hider", HIDERS)
def test_the_seed_decides(rng, hider):
    data, mask = make_stays(rng, 30)
    first, again, other = (hide(hider, data, mask, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other, equal_nan=True)


@pytest.mark.parametrize("hider", HIDERS)
@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 1, 3), (1, 6, 3), (4, 5, 1)])
def test_any_number_of_stays_time_points_and_features_will_do(rng, hider, shape):
    data = rng.normal(size=shape)
    generated = hide(hider, data, np.zeros(shape, bool))
    assert generated.shape == shape
    assert np.isfinite(generated).all()


@pytest.mark.parametrize(("hider", "missing"), [(hider_binning.hider, np.nan), (hider_shuffle.hider, 0.0)])
def test_features_that_are_constant_or_missing_throughout_are_no_obstacle(rng, hider, missing):
    data, mask = make_stays(rng, 30)
    data[:, :, 1][~mask[:, :, 1]] = 7.0
    data[:, :, 2][~mask[:, :, 2]] = np.nan
    generated = hide(hider, data, mask)
    assert (generated[:, :, 1][~mask[:, :, 1]] == 7.0).all()
    np.testing.assert_array_equal(np.unique(generated[:, :, 2][~mask[:, :, 2]]), missing)


@pytest.mark.parametrize("hider", HIDERS)
def test_a_stay_of_padding_alone_stays_one(rng, hider):
    data, mask = make_stays(rng, 30)
    data[3], mask[3] = -1, True
    assert (hide(hider, data, mask)[3] == -1).all()


# ---------------------------------------------------------------------------------------------------- add-noise


def test_noise_is_a_tenth_of_each_features_deviation(rng):
    data, mask = complete_stays(rng, stays=2000)
    scaled = preprocess_imputed(data, mask, np.float64)
    noise = (hide(hider_addnoise.hider, data, mask) - data) / np.array([1.0, *np.ptp(data[:, :, 1:], axis=(0, 1))])
    np.testing.assert_allclose(noise.std(axis=(0, 1)), 0.1 * scaled.std(axis=(0, 1)), rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=(0, 1)), 0, atol=0.01)


# ------------------------------------------------------------------------------------------------------ binning


@pytest.mark.parametrize("bins", [1, 5, 33])
def test_a_swapped_value_is_another_patients_of_the_same_quantile_bin(rng, bins):
    data, mask = complete_stays(rng, stays=330)  # bins of equal size
    generated = hide(hider_binning.hider, data, mask, parameters=hider_binning.Parameters(bins=bins))
    for feature in (1, 2):
        before, after = data[:, :, feature].ravel(), generated[:, :, feature].ravel()
        ranks = np.sort(before)
        bin_of = [np.searchsorted(ranks, values) * bins // len(ranks) for values in (before, after)]
        np.testing.assert_array_equal(*bin_of)
        assert np.isin(after, before).all(), "only observed values are drawn"
        assert (before != after).mean() > 0.9
        spread = [len(np.unique(after[bin_of[0] == number])) for number in range(bins)]
        assert min(spread) > 0.4 * len(ranks) / bins, "every value of a bin may be drawn, not a few"


def test_published_binning_has_33_bins():
    published = hider_binning.PUBLISHED
    assert (published.bins, published.extreme, published.time_noise) == (33, 0.0001, 0.0008)


def test_values_near_the_ends_of_the_range_stay(rng):
    data, mask = complete_stays(rng)
    values = data[:, :, 1]
    values[:, 0] = rng.uniform(0.0, 0.01, 400)  # all in the lowest bins of a range of 100
    values[:, 1] = rng.uniform(99.99, 100.0, 400)
    values[0, 0], values[0, 1] = 0.0, 100.0
    values[:, 2] = rng.uniform(0.02, 0.03, 400)
    generated = hide(hider_binning.hider, data, mask)[:, :, 1]
    np.testing.assert_array_equal(generated[:, :2], values[:, :2])
    assert (generated[:, 2:] != values[:, 2:]).mean() > 0.9


def test_binary_features_stay_as_they_are(rng):
    data, mask = complete_stays(rng)
    data[:, :, 1] = rng.integers(0, 2, data.shape[:2])
    np.testing.assert_array_equal(hide(hider_binning.hider, data, mask)[:, :, 1], data[:, :, 1])


def test_a_value_most_patients_share_is_a_bin_of_its_own(rng):
    data, mask = complete_stays(rng)
    common = rng.random(data.shape[:2]) < 0.8
    data[:, :, 1] = np.where(common, 5.0, rng.uniform(0, 10, data.shape[:2]))
    generated = hide(hider_binning.hider, data, mask)[:, :, 1]
    assert (generated[data[:, :, 1] < 5] < 5).all()
    assert (generated[data[:, :, 1] == 5] < 6).all()
    assert (generated == 5).mean() > 0.7


def test_missing_values_stay_missing_and_observed_ones_observed(rng):
    data, mask = make_stays(rng, 50)
    np.testing.assert_array_equal(np.isnan(hide(hider_binning.hider, data, mask)), np.isnan(data))


def test_times_move_by_a_share_of_their_range(rng):
    data, mask = complete_stays(rng, stays=2000)
    moved = (hide(hider_binning.hider, data, mask) - data)[:, :, 0]
    assert moved.std() == pytest.approx(0.0008 * np.ptp(data[:, :, 0]), rel=0.05)
    assert abs(moved.mean()) < 0.1 * moved.std()


@pytest.mark.parametrize("field", [{"bins": 0}, {"extreme": -0.1}, {"time_noise": -1.0}])
def test_binning_refuses_parameters_that_make_no_sense(field):
    with pytest.raises(ValueError, match=next(iter(field))):
        hider_binning.Parameters(**field)


# ------------------------------------------------------------------------------------------------------ shuffle


def test_shuffle_keeps_ranges_lengths_and_starts_every_stay_at_time_0(rng):
    data, mask = make_stays(rng, 200)
    generated = hide(hider_shuffle.hider, data, mask)
    real = ~mask[:, :, 0]
    rows, before = generated[real], data[real]
    assert not np.isnan(rows).any()
    for feature in (1, 2, 3):
        assert rows[:, feature].min() >= np.nanmin(before[:, feature]) - 1e-9
        assert rows[:, feature].max() <= np.nanmax(before[:, feature]) + 1e-9
    since_start = preprocess_imputed(data, mask)[:, :, 0]
    assert generated[:, :, 0][real].min() >= 0
    assert generated[:, :, 0][real].max() <= since_start.max() + 1e-6
    first = real.argmax(axis=1)
    assert (generated[np.arange(200), first, 0] == 0).all()
    assert (generated[real][:, 0] > 0).any()


def test_without_noise_the_rows_are_the_patients_imputed_rows_in_another_order(rng):
    data, mask = make_stays(rng, 100)
    real = ~mask[:, :, 0]
    generated = hide(hider_shuffle.hider, data, mask, parameters=hider_shuffle.Parameters(noise_size=0.0))
    scaled = [preprocess_imputed(stays, mask, np.float64)[:, :, 1:] for stays in (data, generated)]
    before, after = (values[real] for values in scaled)
    assert np.mean((before == after).all(axis=1)) < 0.1, "the order is another"
    order_before, order_after = (np.lexsort(np.round(rows, 9).T) for rows in (before, after))
    np.testing.assert_allclose(after[order_after], before[order_before], atol=1e-9)


def test_rows_move_between_patients(rng):
    data, mask = complete_stays(rng, stays=50)
    data[:, :, 1] = np.arange(50)[:, None]
    generated = hide(hider_shuffle.hider, data, mask, parameters=hider_shuffle.Parameters(noise_size=0.0))
    patients = [len(np.unique(np.round(stay))) for stay in generated[:, :, 1]]
    assert min(patients) >= 4


def test_shuffle_noise_is_three_tenths_of_each_features_deviation(rng):
    rows = rng.normal(size=(20_000, 2)) * [1.0, 10.0]
    rows[0], rows[1] = -1000, 1000  # nothing else is clipped
    deviation = rows.std(axis=0)
    noisy = hider_shuffle.shuffled_with_noise(rows, 0.3, np.random.default_rng(0))
    inner = np.abs(noisy).max(axis=1) < 500
    expected = np.sqrt(np.array([1.0, 100.0]) + (0.3 * deviation) ** 2)
    np.testing.assert_allclose(noisy[inner].std(axis=0), expected, rtol=0.03)
    assert hider_shuffle.Parameters().noise_size == 0.3


@pytest.mark.parametrize("method", [hider_addnoise, hider_shuffle])
@pytest.mark.parametrize("size", [-0.1, float("nan"), float("inf")])
def test_noise_that_is_negative_or_no_number_is_refused(method, size):
    with pytest.raises(ValueError, match="noise_size must be"):
        method.Parameters(noise_size=size)
