"""The density seeker finds copies among strangers and overfitted generators, and nobody where nobody is."""

import numpy as np
import pytest
from conftest import make_stays
from scipy.stats import norm

import seeker_density
from scoring.audit.known_answers import plant_noisy_copies, smoothed_release
from scoring.statistics import auroc
from seeker_density import densities, looks, nearest


def given(generated, generated_mask, enlarged, enlarged_mask):
    return {
        "generated_data": generated,
        "generated_data_padding_mask": generated_mask,
        "enlarged_data": enlarged,
        "enlarged_data_padding_mask": enlarged_mask,
        "seed": 0,
    }


def long_stays(rng, stays):
    data, mask = make_stays(rng, 2 * stays, time_points=12)
    kept = np.flatnonzero(~mask[:, -6, 0])[:stays]
    return data[kept], mask[kept]


def test_near_copies_of_a_few_members_stand_above_everybody_else(rng):
    (data, mask), (others, others_mask) = long_stays(rng, 400), long_stays(rng, 200)
    member = rng.permutation(400) < 200
    generated, generated_mask, copied = plant_noisy_copies(
        others, others_mask, data[member], mask[member], 0.05, rng, noise=0.1
    )
    scores = seeker_density.seeker(given(generated, generated_mask, data, mask))[1]
    highest = np.argsort(-scores)[:10]
    assert set(highest) == set(np.flatnonzero(member)[copied])


def test_an_overfitted_generator_is_found_and_one_of_other_stays_is_not(rng):
    (data, mask), (others, others_mask) = long_stays(rng, 400), long_stays(rng, 200)
    member = rng.permutation(400) < 200
    fitted = smoothed_release(data[member], mask[member], 200, rng, noise=0.2)
    unrelated = smoothed_release(others, others_mask, 200, rng, noise=0.2)
    assert auroc(member, seeker_density.seeker(given(*fitted, data, mask))[1])[0] > 0.75  # 63 % of members are drawn
    assert auroc(member, seeker_density.seeker(given(*unrelated, data, mask))[1])[0] == pytest.approx(0.5, abs=0.1)


def test_a_stay_is_not_its_own_nearest_other_nor_in_its_own_density(rng):
    real, made = rng.normal(size=(50, 3)), rng.normal(size=(20, 3))
    to_other, to_made = nearest(real, made)
    distances = np.linalg.norm(real[:, None] - real[None], axis=2) + np.diag(np.full(50, np.inf))
    assert to_other == pytest.approx(distances.min(axis=1))
    assert to_made == pytest.approx(np.linalg.norm(real[:, None] - made[None], axis=2).min(axis=1))
    # Far from all others and from the generated stays, the one kernel that would hold its own density up is not there.
    real[0] = 30
    assert densities(real, np.vstack([made, real[:1]]))["domias"][0] > 100


def test_densities_and_gen_lra_are_what_their_papers_define(rng):
    real, made = rng.normal(size=(30, 2)), rng.normal(size=(12, 2))
    kernel = norm.pdf(made[:, None] - real[None]).prod(axis=2)  # [generated, patients]
    with_all = np.log(kernel.sum(axis=1))
    expected = [(with_all - np.log(kernel.sum(axis=1) - kernel[:, x])).sum() for x in range(30)]
    found = densities(real, made)
    assert found["gen_lra"] == pytest.approx(expected)
    own = norm.pdf(real[:, None] - real[None]).prod(axis=2)
    expected = np.log(kernel.sum(axis=0)) - np.log(own.sum(axis=0) - np.diag(own))
    assert found["domias"] == pytest.approx(expected)


def test_scores_do_not_depend_on_the_order_of_stays(rng):
    data, mask = long_stays(rng, 100)
    generated, generated_mask = smoothed_release(data[:50], mask[:50], 50, rng)
    scores = seeker_density.seeker(given(generated, generated_mask, data, mask))[1]
    order, made_order = rng.permutation(100), rng.permutation(50)
    again = seeker_density.seeker(given(generated[made_order], generated_mask[made_order], data[order], mask[order]))[1]
    assert np.corrcoef(scores[order], again)[0, 1] > 0.99


def test_the_looks_are_named(rng):
    data, mask = long_stays(rng, 30)
    found = looks(given(data[:15], mask[:15], data, mask))
    assert set(found) == {"copies", "copies_by_rates", "domias", "gen_lra"}
    assert all(values.shape == (30,) for values in found.values())


HARD = {
    "constant features": lambda data, mask: np.where(mask, data, 7.0),
    "all missing": lambda data, mask: np.where(mask, data, np.nan),
    "huge values": lambda data, mask: np.where(mask, data, data * 1e300),
    "one value apart": lambda data, mask: np.where(
        np.arange(data.size).reshape(data.shape) == data.size - 1, 1e200, data
    ),
}


@pytest.mark.parametrize("kind", HARD)
def test_hard_data_gets_an_answer(rng, kind):
    data, mask = make_stays(rng, 30)
    data = HARD[kind](data, mask)
    labels, scores = seeker_density.seeker(given(data[:15], mask[:15], data, mask))
    assert labels.sum() == 15
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(("stays", "made"), [(1, 1), (2, 1), (3, 9), (8, 1), (20, 50)])
@pytest.mark.parametrize("time_points", [1, 5, 12])
def test_other_numbers_and_lengths_of_generated_stays_get_an_answer(rng, stays, made, time_points):
    data, mask = make_stays(rng, stays)
    generated, generated_mask = make_stays(rng, made, time_points)
    labels, scores = seeker_density.seeker(given(generated, generated_mask, data, mask))
    assert labels.sum() == min(stays, made)
    assert scores.shape == (stays,)
    assert np.isfinite(scores).all()
    assert np.isfinite(seeker_density.seeker(given(generated, None, data, None))[1]).all()


def test_other_features_are_refused_in_one_line(rng):
    data, mask = make_stays(rng, 6)
    with pytest.raises(ValueError, match="2 features, the enlarged data 4"):
        seeker_density.seeker(given(data[:, :, :2], mask[:, :, :2], data, mask))
