"""The plane of original and generated stays shows likeness and unlikeness, whatever the data."""

import numpy as np
import pytest

from scoring.report.projections import feature_means, project


@pytest.mark.parametrize("shift", [0, 5])
def test_like_stays_lie_together_and_unlike_ones_apart(rng, shift):
    planes = project(rng.random((60, 6)), rng.random((60, 6)) + shift, 0)
    assert set(planes) == {"PCA", "t-SNE"}
    for plane in planes.values():
        gap = np.linalg.norm(plane.original.mean(axis=0) - plane.generated.mean(axis=0))
        assert (gap > plane.original.std()) == bool(shift)


def test_the_seed_decides_where_tsne_lays_them(rng):
    one, two = rng.random((30, 4)), rng.random((20, 4))
    first, again = (project(one, two, 3)["t-SNE"] for _ in range(2))
    np.testing.assert_array_equal(first.original, again.original)
    assert first.original.shape == (30, 2)
    assert first.generated.shape == (20, 2)


@pytest.mark.parametrize(("count", "entries"), [(1, 3), (2, 1), (30, 1)])
def test_few_stays_and_a_single_feature_will_do(rng, count, entries):
    for plane in project(rng.random((count, entries)), rng.random((count, entries)), 0).values():
        assert np.isfinite(plane.original).all()
        assert plane.generated.shape == (count, 2)


def test_stays_that_are_all_alike_lie_in_one_point():
    planes = project(np.ones((10, 3)), np.ones((10, 3)), 0)
    assert list(planes) == ["PCA"]
    assert np.ptp(planes["PCA"].original) == 0


def test_a_stay_stands_for_its_means_without_the_padding():
    stays = np.full((2, 3, 2), -1.0)
    stays[0, 1:] = [[1, 2], [3, 6]]
    np.testing.assert_array_equal(feature_means(stays), [[2, 4], [0, 0]])
