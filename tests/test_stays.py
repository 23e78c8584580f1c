"""Where a stay is padded, its summaries, and labels from scores."""

import numpy as np
import pytest

from utils.stays import (
    SUMMARIES,
    front_padding,
    label_highest,
    padded_rows,
    real_rows_first,
    real_rows_last,
    stay_lengths,
    summaries,
)


def stays(seed=0, count=40, time_points=9, features=4):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, time_points + 1, count)
    mask = front_padding(lengths, time_points, features)
    data = rng.normal(10, 3, mask.shape)
    data[..., 1:][rng.random(data[..., 1:].shape) < 0.4] = np.nan
    data[mask] = -1
    return data, mask, lengths


def test_padding_is_found_with_and_without_a_mask():
    data, mask, lengths = stays()
    for padded in (padded_rows(data, mask), padded_rows(data, None), padded_rows(data, np.zeros(0, bool))):
        assert (padded == mask[:, :, 0]).all()
        assert (stay_lengths(padded) == lengths).all()


def test_moving_the_padding_to_the_end_and_back_changes_nothing():
    data, mask, lengths = stays()
    moved = real_rows_first(data, mask[:, :, 0])
    assert all((np.isnan(moved[i, 0]) | (moved[i, 0] == data[i, -lengths[i]])).all() for i in range(len(data)))
    assert np.array_equal(real_rows_last(moved, lengths), data, equal_nan=True)
    times = real_rows_first(data[:, :, 0], mask[:, :, 0])
    assert np.array_equal(times, moved[:, :, 0])
    assert np.array_equal(real_rows_last(times, lengths), data[:, :, 0])


def test_the_highest_scores_are_labelled_and_not_a_number_is_the_lowest():
    assert label_highest(np.array([0.1, np.nan, 0.9, 0.5, 0.5]), 2).tolist() == [0, 0, 1, 1, 0]
    assert label_highest(np.array([np.nan, 1.0]), 1).tolist() == [0, 1]
    assert label_highest(np.array([0.0, 1.0]), 5).tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom", "ignore:All-NaN")
def test_summaries_are_those_of_each_feature_of_each_stay():
    data, mask, _ = stays(count=700)
    rows = ~mask[:, :, 0]
    found = summaries(data, rows)
    hidden = np.where(rows[:, :, None], data, np.nan)
    for place, expected in enumerate((np.nanmean, np.nanstd, np.nanmin, np.nanmax)):
        np.testing.assert_allclose(found[:, :, place], expected(hidden, axis=1), atol=1e-12)
    for stay, feature in ((0, 1), (350, 2), (699, 3)):
        column = hidden[stay, :, feature]
        column = column[np.isfinite(column)]
        if len(column):
            assert found[stay, feature, SUMMARIES.index("first")] == column[0]
            assert found[stay, feature, SUMMARIES.index("last")] == column[-1]
        assert found[stay, feature, -1] == pytest.approx(len(column) / rows[stay].sum())


def test_a_stay_with_nothing_measured_has_no_summaries_and_rate_0():
    found = summaries(np.full((2, 5, 3), np.nan), np.ones((2, 5), bool))
    assert np.isnan(found[:, :, :-1]).all()
    assert (found[:, :, -1] == 0).all()
