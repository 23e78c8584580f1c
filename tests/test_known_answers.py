"""Planted leaks are what they say, null releases tell nothing, and the correction for many attacks holds its level."""

import numpy as np
import pytest
from conftest import make_stays

from scoring.audit import known_answers
from scoring.audit.known_answers import plant_copies, plant_means, plant_noisy_copies


def long_stays(rng, stays):
    data, mask = make_stays(rng, 3 * stays)
    kept = np.flatnonzero(~mask[:, -3, 0])[:stays]
    return data[kept], mask[kept]


def same(first, second):
    return np.array_equal(first, second, equal_nan=True)


@pytest.mark.parametrize(("share", "copies"), [(0.001, 1), (0.05, 2), (1.0, 40)])
def test_as_many_members_are_copied_as_asked_and_the_rest_stays(rng, share, copies):
    (members, mask), (release, release_mask) = long_stays(rng, 40), long_stays(rng, 50)
    planted, planted_mask, copied = plant_copies(release, release_mask, members, mask, share, rng)
    assert len(set(copied)) == copies
    for member in copied:
        place = [index for index in range(50) if same(planted[index], members[member])]
        assert len(place) == 1
        assert same(planted_mask[place[0]], mask[member])
    assert sum(same(planted[index], release[index]) for index in range(50)) == 50 - copies


def test_near_copies_keep_what_is_missing_and_move_the_rest_as_far_as_asked(rng):
    (members, mask), (release, release_mask) = long_stays(rng, 60), long_stays(rng, 60)
    planted, planted_mask, copied = plant_noisy_copies(release, release_mask, members, mask, 1.0, rng, noise=0.2)
    for feature in (1, 2, 3):
        there = ~mask[:, :, feature] & np.isfinite(members[:, :, feature])
        spread = members[:, :, feature][there].std()
        place = {tuple(np.isnan(planted[i]).ravel()) + tuple(planted_mask[i].ravel()): i for i in range(60)}
        moved = []
        for member in copied:
            i = place[tuple(np.isnan(members[member]).ravel()) + tuple(mask[member].ravel())]
            moved.append((planted[i] - members[member])[:, feature][there[member]])
        assert np.concatenate(moved).std() == pytest.approx(0.2 * spread, rel=0.25)
    steps = np.diff(np.where(planted_mask[:, :, 0], np.nan, planted[:, :, 0]), axis=1)
    assert (steps[np.isfinite(steps)] >= 0).all()
    assert (planted[planted_mask] == -1).all()


@pytest.mark.parametrize("numbers", [1, 3, 7, 12])
def test_the_means_asked_for_are_the_members_own(rng, numbers):
    (members, mask), (release, release_mask) = long_stays(rng, 80), long_stays(rng, 50)
    planted, planted_mask, kept = plant_means(release, release_mask, members, mask, numbers)
    assert kept == numbers
    parts = -(-numbers // 3)

    def means(data, padding):
        place = np.cumsum(~padding[:, :, 0], axis=1) - 1
        part = place * parts // (~padding[:, :, 0]).sum(axis=1, keepdims=True)
        out = []
        for number in range(3 * parts):
            here = (part == number // 3) & ~padding[:, :, 0] & np.isfinite(data[:, :, number % 3 + 1])
            per_stay = [data[i, here[i], number % 3 + 1].mean() for i in range(len(data)) if here[i].any()]
            out.append(np.mean(per_stay))
        return np.array(out)

    assert means(planted, planted_mask)[:numbers] == pytest.approx(means(members, mask)[:numbers])
    assert means(planted, planted_mask)[numbers:] == pytest.approx(means(release, release_mask)[numbers:])
    assert same(planted[:, :, 0], release[:, :, 0])


def test_what_is_given_is_not_changed(rng):
    (members, mask), (release, release_mask) = long_stays(rng, 20), long_stays(rng, 20)
    before = [array.copy() for array in (members, mask, release, release_mask)]
    plant_noisy_copies(release, release_mask, members, mask, 0.5, rng)
    plant_means(release, release_mask, members, mask, 5)
    known_answers.null_release(members, mask, 9, rng)
    assert all(same(*pair) for pair in zip(before, (members, mask, release, release_mask), strict=True))


def test_one_seed_gives_one_release(rng):
    stays, mask = long_stays(rng, 20)
    first, second = (known_answers.null_release(stays, mask, 9, np.random.default_rng(4)) for _ in range(2))
    assert same(first[0], second[0])
    assert first[0].shape == (9, *stays.shape[1:])


def test_the_theory_of_exact_means_is_the_published_one():
    outside, inside = known_answers.exact_means_rate(500, 2000)
    assert outside == pytest.approx(0.599, abs=1e-3)  # Phi(0.25)
    assert inside == pytest.approx(0.638, abs=1e-3)  # Phi(0.354)


@pytest.mark.parametrize(
    ("share", "stays", "message"),
    [(0, 20, "share must lie"), (1.5, 20, "share must lie"), (0.9, 5, "18 copies do not fit into a release of 5")],
)
def test_impossible_plants_are_refused_in_one_line(rng, share, stays, message):
    (members, mask), (release, release_mask) = long_stays(rng, 20), long_stays(rng, stays)
    with pytest.raises(ValueError, match=message):
        plant_copies(release, release_mask, members, mask, share, rng)


def test_other_shapes_and_too_many_means_are_refused(rng):
    members, mask = long_stays(rng, 20)
    with pytest.raises(ValueError, match="do not fit into a release"):
        plant_copies(members[:, 1:], mask[:, 1:], members, mask, 0.1, rng)
    with pytest.raises(ValueError, match="between 1 and 24, got 25"):
        plant_means(members, mask, members, mask, 25)
