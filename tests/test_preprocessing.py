"""What imputing and scaling must do: the contract's rules, told stay by stay and checked on random data."""

import numpy as np
import pytest
from conftest import make_stays

from utils import data_preprocess as prp


def contract_by_hand(data, mask):
    """The contract's rules, one stay and one feature at a time."""
    features = data.shape[2]
    observed = [data[:, :, f][~mask[:, :, f] & ~np.isnan(data[:, :, f])] for f in range(features)]
    imputed = data.copy()
    for stay in range(len(data)):
        real = ~mask[stay, :, 0]
        for feature in range(features):
            values = data[stay, real, feature].tolist()
            for i in range(len(values) - 2, -1, -1):
                values[i] = values[i + 1] if np.isnan(values[i]) else values[i]
            for i in range(1, len(values)):
                values[i] = values[i - 1] if np.isnan(values[i]) else values[i]
            fallback = np.median(observed[feature]) if observed[feature].size else 0.0
            imputed[stay, real, feature] = [fallback if np.isnan(value) else value for value in values]
    results = []
    for source in (data, imputed):
        scaled = source.copy()
        for feature in range(1, features):
            column = source[:, :, feature]
            seen = column[~mask[:, :, feature] & ~np.isnan(column)]
            low, high = (seen.min(), seen.max()) if seen.size else (np.nan, np.nan)
            scaled[:, :, feature] = (column - low) / (high - low if high > low else 1.0)
        for stay in range(len(data)):
            real = ~mask[stay, :, 0]
            scaled[stay, :, 0] = source[stay, :, 0] - np.min(source[stay, real, 0])
        scaled[mask] = -1
        results.append(scaled)
    return results


def test_preprocessing_follows_the_contract_stay_by_stay(rng):
    data, mask = make_stays(rng, stays=40, time_points=9, features=5)
    processed, imputed = prp.preprocess_data(data, mask)
    expected_processed, expected_imputed = contract_by_hand(data, mask)
    np.testing.assert_allclose(processed, expected_processed, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(imputed, expected_imputed, rtol=1e-12, atol=1e-12)


def test_results_do_not_depend_on_how_stays_are_blocked(rng, monkeypatch):
    data, mask = make_stays(rng, stays=30)
    whole = prp.preprocess_data(data, mask)
    monkeypatch.setattr(prp, "_BLOCK_CELLS", 1)
    for before, after in zip(whole, prp.preprocess_data(data, mask), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_input_is_left_as_it_was(rng):
    data, mask = make_stays(rng)
    copy = data.copy()
    prp.preprocess_data(data, mask)
    np.testing.assert_array_equal(data, copy)


def test_what_stands_in_padded_cells_does_not_matter(rng):
    data, mask = make_stays(rng)
    other = np.where(mask, 1e9, data)
    for before, after in zip(prp.preprocess_data(data, mask), prp.preprocess_data(other, mask), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_constant_feature_becomes_zero_and_an_all_missing_one_is_imputed_with_zero(rng):
    data, mask = make_stays(rng)
    data[:, :, 1], data[:, :, 2] = 5.0, np.nan
    processed, imputed = prp.preprocess_data(data, mask)
    assert (imputed[:, :, 1:3][~mask[:, :, 1:3]] == 0).all()
    assert np.isnan(processed[:, :, 2][~mask[:, :, 2]]).all()


def test_time_counts_from_each_stays_first_time_point(rng):
    data, mask = make_stays(rng)
    _, imputed = prp.preprocess_data(data, mask)
    real = ~mask[:, :, 0]
    assert np.where(real, imputed[:, :, 0], np.inf).min(axis=1).tolist() == [0.0] * len(data)


def test_without_a_mask_every_cell_counts(rng):
    data, mask = make_stays(rng)
    _, imputed = prp.preprocess_data(np.where(mask, 0.5, data), None)
    assert imputed[:, :, 1:].min() >= 0


def test_the_steps_are_also_public_one_by_one(rng):
    data, mask = make_stays(rng)
    processed, imputed = prp.preprocess_data(data, mask)
    filled = prp.impute(data, mask, prp.get_medians(data, mask))
    np.testing.assert_array_equal(prp.process(data, mask, prp.get_scaler(data, mask)), processed)
    np.testing.assert_array_equal(prp.process(filled, mask, prp.get_scaler(filled, mask)), imputed)
    np.testing.assert_array_equal(prp.to_3d(prp.to_2d(data), data.shape[1]), data)
    real = ~mask[3, :, 0]
    one = prp.imputation(data[3][real], prp.get_medians(data, mask))
    np.testing.assert_array_equal(one, filled[3][real])


def test_imputation_says_when_nothing_is_known_of_a_feature():
    with pytest.raises(ValueError, match="NaN values remain"):
        prp.imputation(np.array([[np.nan], [np.nan]]), np.array([np.nan]), zero_fill=False)


def test_the_lean_variant_is_the_imputed_array_in_single_precision(rng):
    data, mask = make_stays(rng)
    lean = prp.preprocess_imputed(data, mask)
    assert lean.dtype == np.float32
    np.testing.assert_array_equal(lean, prp.preprocess_data(data, mask)[1].astype(np.float32))


def test_scaling_can_be_undone(rng):
    data, mask = make_stays(rng)
    scaler, start = prp.get_scaler(data, mask), prp.start_times(data, mask)
    back = prp.inverse_process(prp.process(data, mask, scaler), mask, scaler, start)
    np.testing.assert_allclose(back, data, rtol=1e-12)
