"""Seekers find copies, find nothing in independent data, and look at what they say they look at."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_stays

import hider_shuffle
import seeker_binary_predictor
import seeker_knn
import seeker_matching
import seeker_timeknn
from seeker_matching import evenly_spaced, fits_inside, match_greedily, nearest_distances, squeeze

TIME_POINTS = seeker_matching.Parameters(compare="time_points")


def by_time_points(input_dict):
    return seeker_matching.seeker(input_dict, TIME_POINTS)


SEEKERS = [
    pytest.param(seeker_knn.seeker, id="knn"),
    pytest.param(seeker_timeknn.seeker, id="timeknn"),
    pytest.param(seeker_matching.seeker, id="matching"),
    pytest.param(by_time_points, id="matching-time-points"),
]


def seek(seeker, generated, generated_mask, enlarged, enlarged_mask):
    return seeker(
        {
            "generated_data": generated,
            "generated_data_padding_mask": generated_mask,
            "enlarged_data": enlarged,
            "enlarged_data_padding_mask": enlarged_mask,
            "seed": 0,
        }
    )


def halves(rng, stays=300, **shape):
    """Enlarged stays of at least two rows, their mask, and which half of them are members."""
    data, mask = make_stays(rng, 2 * stays, **shape)
    kept = np.flatnonzero(~mask[:, -2, 0])[:stays]
    data, mask = data[kept], mask[kept]
    members = np.sort(rng.permutation(stays)[: stays // 2])
    return data, mask, members


def accuracy(labels, members):
    return np.mean(labels == np.isin(np.arange(len(labels)), members))


# ------------------------------------------------------------------------------------------------- every seeker


@pytest.mark.parametrize("seeker", SEEKERS)
def test_exact_copies_of_the_members_are_found_and_score_highest(rng, seeker):
    data, mask, members = halves(rng)
    order = rng.permutation(members)
    labels, scores = seek(seeker, data[order], mask[order], data, mask)
    assert accuracy(labels, members) > (0.9 if seeker is seeker_knn.seeker else 0.98)  # KNN scales each on its own
    is_member = np.isin(np.arange(len(data)), members)
    assert np.median(scores[is_member]) > np.median(scores[~is_member])
    assert scores[labels == 1].min() >= scores[labels == 0].max()


@pytest.mark.parametrize("seeker", SEEKERS)
def test_in_data_that_no_patient_was_used_for_half_the_guesses_are_right(rng, seeker):
    data, mask, members = halves(rng, stays=600)
    generated = make_stays(rng, 300)[0]
    generated[mask[members]] = -1.0
    labels, _ = seek(seeker, generated, mask[members], data, mask)
    assert accuracy(labels, members) == pytest.approx(0.5, abs=0.08)  # four standard errors


@pytest.mark.parametrize("seeker", SEEKERS)
@pytest.mark.parametrize("generated_stays", [1, 7, 20])
def test_as_many_are_labelled_as_there_are_generated_stays(rng, seeker, generated_stays):
    data, mask, _ = halves(rng, stays=20)
    generated, generated_mask = make_stays(rng, generated_stays)
    labels, scores = seek(seeker, generated, generated_mask, data, mask)
    assert labels.shape == scores.shape == (20,)
    assert set(labels) <= {0, 1}
    assert labels.sum() == generated_stays
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("seeker", SEEKERS)
@pytest.mark.parametrize("shape", [(8, 1, 3), (8, 6, 1), (2, 1, 1), (8, 6, 3)])
def test_one_time_point_one_feature_and_one_length_will_do(rng, seeker, shape):
    data = rng.normal(size=shape)
    labels, scores = seek(seeker, data[:1], np.zeros((1, *shape[1:]), bool), data, np.zeros(shape, bool))
    assert labels.sum() == 1
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("seeker", SEEKERS)
def test_constant_and_missing_features_are_no_obstacle(rng, seeker):
    data, mask, members = halves(rng, features=5)
    data[:, :, 1][~mask[:, :, 1]] = 7.0
    data[:, :, 2][~mask[:, :, 2]] = np.nan
    labels, _ = seek(seeker, data[members], mask[members], data, mask)
    assert accuracy(labels, members) > 0.85


@pytest.mark.parametrize("huge", [1e4, 1e300, -1e300])
@pytest.mark.parametrize("with_mask", [True, False])
def test_the_binary_predictor_is_shown_huge_values_as_the_largest_there_are(rng, monkeypatch, huge, with_mask):
    data, mask, members = halves(rng)
    generated, shown = data[members], {}

    def watch(generated, enlarged, rng):
        shown.update(generated=generated, enlarged=enlarged)
        return np.zeros(len(enlarged))

    monkeypatch.setattr(seeker_binary_predictor, "enlarged_scores", watch)
    generated[0, -1] = huge
    seek(seeker_binary_predictor.seeker, generated, mask[members] if with_mask else None, data, mask)
    edge = shown["enlarged"].max(axis=(0, 1)) if huge > 0 else np.zeros(data.shape[2])
    np.testing.assert_array_equal(shown["generated"][0, -1], edge)
    np.testing.assert_array_equal(shown["generated"][1:], shown["enlarged"][members][1:])  # the rest as they are


@pytest.mark.parametrize("seeker", [seeker_timeknn.seeker, seeker_matching.seeker, by_time_points])
def test_without_a_mask_padding_is_recognised_in_generated_data(rng, seeker):
    data, mask, members = halves(rng)
    expected = seek(seeker, data[members], mask[members], data, mask)
    found = seek(seeker, data[members], None, data, mask)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("seeker", SEEKERS)
def test_enlarged_data_may_come_without_a_mask(rng, seeker):
    data, _, members = halves(rng)
    labels, scores = seek(seeker, data[members], None, data, None)
    assert labels.sum() == len(members)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("seeker", [seeker_timeknn.seeker, seeker_matching.seeker, by_time_points])
@pytest.mark.parametrize("huge", [1e4, 1e300, -1e300])
def test_a_hider_cannot_blind_a_seeker_with_one_huge_value_per_feature(rng, seeker, huge):
    data, mask, members = halves(rng)
    generated = data[members]
    generated[int(np.argmin(mask[members, :, 0].sum(axis=1))), -1] = huge
    labels, scores = seek(seeker, generated, mask[members], data, mask)
    assert np.isfinite(scores).all()
    assert accuracy(labels, members) > 0.9


def test_stays_are_matched_one_to_one_though_their_lengths_were_changed(rng):
    data, mask, members = halves(rng)
    generated, generated_mask = (np.repeat(array[members], 2, axis=1) for array in (data, mask))
    data = np.pad(data, ((0, 0), (data.shape[1], 0), (0, 0)), constant_values=-1)
    mask = np.pad(mask, ((0, 0), (mask.shape[1], 0), (0, 0)), constant_values=True)
    by_stays = seeker_matching.Parameters(compare="stays")
    labels, scores = seek(lambda given: seeker_matching.seeker(given, by_stays), generated, generated_mask, data, mask)
    assert labels.sum() == len(members)
    assert (scores > 0).sum() == len(members)  # one to one: the others have no partner
    assert accuracy(labels, members) > 0.85


def test_a_squeezed_stay_is_its_own_time_points_evenly_spaced():
    values = np.arange(6.0)[None, :, None] + np.array([0, 10])[:, None, None]
    real = np.array([[False, False, True, True, True, True], [False] * 5 + [True]])
    assert squeeze(values, real, 2).tolist() == [[2, 4], [15, 15]]


# ------------------------------------------------------------------------------------------------------ TimeKNN


def test_timeknn_looks_at_times_alone(rng):
    data, mask, members = halves(rng)
    expected = seek(seeker_timeknn.seeker, data[members], mask[members], data, mask)
    other_values = np.where(mask[members], -1, rng.normal(size=data[members].shape))
    other_values[:, :, 0] = data[members, :, 0]
    found = seek(seeker_timeknn.seeker, other_values, mask[members], data, mask)
    np.testing.assert_array_equal(found[1], expected[1])
    others = np.setdiff1d(np.arange(len(data)), members)
    swapped = np.concatenate([data[others, :, :1], data[members, :, 1:]], axis=2)  # members' values, others' times
    labels, _ = seek(seeker_timeknn.seeker, swapped, mask[others], data, mask)
    assert accuracy(labels, members) < 0.2


# ----------------------------------------------------------------------------------------------------- matching


def greedily(generated, enlarged):
    """The definition: the nearest pair of all, then the nearest of those left."""
    pairs = ((generated[:, None].astype(float) - enlarged[None]) ** 2).sum(axis=2)
    partner = np.full(len(enlarged), -1)
    for _ in range(len(generated)):
        g, e = np.unravel_index(pairs.argmin(), pairs.shape)
        partner[e] = g
        pairs[g], pairs[:, e] = np.inf, np.inf
    return partner


@pytest.mark.parametrize("candidates", [1, 3, 64])
@pytest.mark.parametrize(("generated", "enlarged"), [(1, 1), (1, 9), (40, 40), (40, 80)])
def test_greedy_matching_is_that_of_the_definition(rng, monkeypatch, candidates, generated, enlarged):
    monkeypatch.setattr(seeker_matching, "_CANDIDATES", candidates)
    monkeypatch.setattr(seeker_matching, "_BLOCK", 7)
    for _ in range(5):
        left, right = (rng.normal(size=(n, 3)).astype(np.float32) for n in (generated, enlarged))
        squared, partner = match_greedily(left, right)
        np.testing.assert_array_equal(partner, greedily(left, right))
        matched = partner >= 0
        np.testing.assert_array_equal(np.isfinite(squared), matched)
        direct = ((right[matched] - left[partner[matched]]) ** 2).sum(axis=1)
        np.testing.assert_allclose(squared[matched], direct, rtol=1e-3, atol=1e-5)


def test_each_generated_record_is_matched_once_even_where_all_are_alike(rng):
    records = np.repeat(rng.normal(size=(2, 3)).astype(np.float32), 10, axis=0)
    _, partner = match_greedily(records, records)
    assert sorted(partner) == list(range(20))


def test_one_patient_copied_many_times_leaves_one_member_a_copy(rng):
    """Nearest neighbours would name one patient; matching names as many as there are generated stays."""
    data, mask = make_stays(rng, 20, time_points=1)
    labels, scores = seek(seeker_matching.seeker, np.repeat(data[:1], 5, axis=0), mask[:5], data, mask)
    assert labels.sum() == 5
    assert scores.argmax() == 0
    assert np.count_nonzero(scores) == 5


def stays_with_values(values, lengths, time_points=6):
    """Stays that hold one value each, at times 1, 2, ..."""
    real = np.arange(time_points) >= time_points - np.array(lengths)[:, None]
    data = np.stack([np.cumsum(real, axis=1), np.broadcast_to(np.array(values)[:, None], real.shape)], axis=2)
    mask = np.repeat(~real[:, :, None], 2, axis=2)
    return np.where(mask, -1.0, data), mask


def test_matching_keeps_to_stays_of_equal_length():
    enlarged = stays_with_values([0.0, 4.0, 5.0, 10.0], [6, 3, 5, 2])
    generated = stays_with_values([5.1, 8.0], [3, 6])  # the nearest values have lengths 5 and 2
    labels, scores = seek(seeker_matching.seeker, *generated, *enlarged)
    assert labels.tolist() == [1, 1, 0, 0]
    assert scores[1] > scores[0] > scores[2] == scores[3] == 0


def test_time_points_are_compared_where_lengths_do_not_fit():
    enlarged = stays_with_values([0.0, 4.0, 5.0, 10.0], [6, 3, 5, 2])
    generated = stays_with_values([5.1, 8.0], [4, 6])  # nobody stayed for 4
    labels, scores = seek(seeker_matching.seeker, *generated, *enlarged)
    assert labels.tolist() == [0, 1, 1, 0]
    np.testing.assert_allclose(scores, 1 / (1 + np.array([5.1, 1.1, 0.1, 2.0]) / 10), rtol=1e-5)
    expected = seek(by_time_points, *generated, *enlarged)
    np.testing.assert_array_equal(scores, expected[1])


def test_lengths_fit_where_each_occurs_as_often():
    def fit(lengths, enlarged):
        return fits_inside(np.array(lengths), np.array(enlarged))

    assert fit([3, 1, 3], [1, 3, 2, 3])
    assert not fit([3, 3, 3], [1, 3, 2, 3])
    assert not fit([4], [1, 2])
    assert not fit([1], [2, 3])


@pytest.mark.parametrize("seeker", [seeker_matching.seeker, by_time_points])
def test_matching_does_not_look_at_times(rng, seeker):
    data, mask, members = halves(rng)
    expected = seek(seeker, data[members], mask[members], data, mask)
    generated = data[members]
    generated[:, :, 0] = np.where(mask[members, :, 0], -1, rng.normal(size=generated.shape[:2]))
    found = seek(seeker, generated, mask[members], data, mask)
    np.testing.assert_array_equal(found[1], expected[1])


def test_shuffled_time_points_are_found_by_comparing_time_points_only(rng):
    data, mask, members = halves(rng, features=12)
    hidden, hidden_mask = hider_shuffle.hider(
        {"data": data[members], "padding_mask": mask[members], "seed": 0}, hider_shuffle.Parameters(noise_size=0.1)
    )
    as_stays, _ = seek(seeker_matching.seeker, hidden, hidden_mask, data, mask)
    as_points, _ = seek(by_time_points, hidden, hidden_mask, data, mask)
    assert accuracy(as_stays, members) < 0.65
    assert accuracy(as_points, members) > 0.95


def test_one_time_point_of_each_stay_is_enough_to_find_copies(rng):
    data, mask, members = halves(rng, features=12)
    one = seeker_matching.Parameters(compare="time_points", time_points=1)
    labels, scores = seek(lambda given: seeker_matching.seeker(given, one), data[members], mask[members], data, mask)
    assert accuracy(labels, members) > 0.95
    assert not np.array_equal(scores, seek(by_time_points, data[members], mask[members], data, mask)[1])


def test_by_default_ten_time_points_are_looked_up_and_all_where_published(rng):
    data, mask = make_stays(rng, 20, time_points=30)
    generated, generated_mask = make_stays(rng, 5, time_points=30)
    parameters = [
        seeker_matching.Parameters(compare="time_points"),
        seeker_matching.Parameters(compare="time_points", time_points=10),
        replace(seeker_matching.PUBLISHED, compare="time_points"),
        seeker_matching.Parameters(compare="time_points", time_points=30),
    ]
    default, ten, published, every = (
        seek(lambda given, p=p: seeker_matching.seeker(given, p), generated, generated_mask, data, mask)[1]
        for p in parameters
    )
    np.testing.assert_array_equal(default, ten)
    np.testing.assert_array_equal(published, every)
    assert not np.array_equal(ten, every)


def test_evenly_spaced_time_points():
    real = np.array([[0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1], [0] * 8, [1] * 8], bool)
    assert evenly_spaced(real, 3).astype(int).tolist() == [
        [0, 0, 1, 0, 1, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1, 1],
        [0] * 8,
        [1, 0, 0, 1, 0, 0, 1, 0],
    ]
    np.testing.assert_array_equal(evenly_spaced(real, 100), real)
    assert evenly_spaced(real, 1).sum(axis=1).tolist() == [1, 1, 0, 1]


def test_nearest_distances_are_those_of_the_direct_computation(rng, monkeypatch):
    monkeypatch.setattr(seeker_matching, "_POINTS", 7)
    points, generated = (rng.normal(size=(n, 4)).astype(np.float32) for n in (30, 20))
    direct = np.sqrt(((points[:, None] - generated[None]) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(nearest_distances(points, generated), direct, rtol=1e-4)


def test_matching_refuses_to_look_up_no_time_point():
    with pytest.raises(ValueError, match="time_points"):
        seeker_matching.Parameters(time_points=0)
