"""Nearest neighbours from matrix products agree with the direct computation."""

import numpy as np
import pytest

from utils import distances


def directly(queries, references):
    flat_q, flat_r = queries.reshape(len(queries), -1), references.reshape(len(references), -1)
    pairs = np.sqrt(((flat_q[:, None] - flat_r[None]) ** 2).sum(axis=2))
    return pairs.min(axis=1), pairs.argmin(axis=1)


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_neighbours_and_distances_are_those_of_the_direct_computation(rng, monkeypatch, block):
    monkeypatch.setattr(distances, "_BLOCK", block)
    queries, references = rng.normal(size=(30, 5, 4)), rng.normal(size=(20, 5, 4))
    found, nearest = distances.nearest_neighbours(queries, references)
    expected, expected_nearest = directly(queries, references)
    np.testing.assert_array_equal(nearest, expected_nearest)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_records_far_from_zero_and_close_together_are_told_apart(rng):
    references = 1e4 + rng.normal(size=(50, 40))
    queries = references + 1e-3 * rng.normal(size=references.shape)
    found, nearest = distances.nearest_neighbours(queries, references)
    np.testing.assert_array_equal(nearest, np.arange(50))
    np.testing.assert_allclose(found, np.linalg.norm(queries - references, axis=1), rtol=1e-9)


def test_a_record_that_is_in_both_sets_is_at_distance_zero(rng):
    records = rng.normal(size=(10, 3)).astype(np.float32)
    assert distances.nearest_neighbours(records[4:6], records)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("wild", [1e6, 1e12, 1e25, -1e30])
def test_one_wild_value_among_the_references_does_not_blind_the_search(rng, wild):
    references = rng.normal(size=(50, 40))
    queries = references[::-1] + 1e-3 * rng.normal(size=references.shape)
    references[3, 7] = wild
    found, nearest = distances.nearest_neighbours(queries, references)
    expected, expected_nearest = directly(queries, references)
    np.testing.assert_array_equal(nearest, expected_nearest)
    np.testing.assert_allclose(found, expected)


def test_records_that_are_all_wild_have_neighbours_too(rng):
    references, queries = 1e30 * rng.normal(size=(2, 30, 5))
    found, nearest = distances.nearest_neighbours(queries, references)
    assert np.isfinite(found).all()
    assert ((nearest >= 0) & (nearest < 30)).all()
