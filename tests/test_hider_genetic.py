"""The genetic hider: noise that every utility model bears, the same for a whole cluster."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from conftest import make_stays

import hider_genetic
from hider_genetic import PUBLISHED, Parameters, UtilityModels, breed, crossover, hider, mutate
from utils import gru_ensemble
from utils.data_preprocess import preprocess_imputed
from utils.errors import UserError

SMALL = Parameters(clusters=3, utility_models=2, generations=3)


def given(data, mask, seed=1):
    return {"data": data, "padding_mask": mask, "seed": seed}


def test_padding_and_missing_cells_come_back_and_the_rest_is_changed(rng):
    data, mask = make_stays(rng, 12)
    generated, generated_mask = hider(given(data, mask), SMALL)
    assert np.array_equal(generated_mask, mask)
    assert (generated[mask] == -1).all()
    assert np.array_equal(np.isnan(generated), np.isnan(data))
    changed = ~mask & ~np.isnan(data)
    assert np.mean(generated[changed] != data[changed]) > 0.5


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(rng):
    data, mask = make_stays(rng, 8)
    runs = [hider(given(data, mask, seed), SMALL)[0] for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1], equal_nan=True)
    assert not np.array_equal(runs[0], runs[2], equal_nan=True)


@pytest.mark.parametrize(("time_points", "features"), [(7, 3), (1, 3), (7, 1)])
def test_odd_sizes_work(rng, time_points, features):
    data, mask = make_stays(rng, 5, time_points=time_points, features=features)
    assert hider(given(data, mask), PUBLISHED)[0].shape == (5, time_points, features)


def test_one_stay_cannot_be_hidden(rng):
    data, mask = make_stays(rng, 1)
    with pytest.raises(UserError, match="at least 2"):
        hider(given(data, mask), SMALL)


class FarIsBad:
    """Two models, one of which errs by the candidate's sum, the other not at all."""

    def errors(self, records):
        size = np.where(records == -1, 0, records).sum(axis=(1, 2))
        return np.stack([size, np.zeros(len(records))])


def bred(rng, bound, **changes):
    stays = rng.random((20, 4, 3)).astype(np.float32)
    present = np.ones(stays.shape, bool)
    present[:, 0] = False
    stays[~present] = 0
    chosen = np.arange(6)
    parameters = Parameters(**changes)
    bounds = np.array([[bound], [1.0]])
    return stays, breed(chosen, stays, present, np.ones(3), FarIsBad(), bounds, parameters, rng), present


def test_every_kept_candidate_meets_its_bound_and_goes_beyond_the_original(rng):
    stays, best, present = bred(rng, 8.0)
    originals = stays[:6]
    sizes = best.sum(axis=(1, 2))
    moved = (best != originals).any(axis=(1, 2))
    assert moved.sum() >= 4
    assert (sizes[moved] <= 8.0).all()
    assert (best[~present[:6]] == 0).all()


def test_a_bound_nothing_meets_leaves_the_original(rng):
    stays, best, _ = bred(rng, 0.0)
    assert np.array_equal(best, stays[:6])


def test_noise_grows_with_generations_that_succeed(rng):
    one, ten = (bred(np.random.default_rng(3), 1e9, generations=n) for n in (1, 10))
    assert np.abs(ten[1] - ten[0][:6]).sum() > 2 * np.abs(one[1] - one[0][:6]).sum()


def test_a_cluster_stops_after_its_failures(rng, monkeypatch):
    calls = []
    monkeypatch.setattr(FarIsBad, "errors", lambda self, records: calls.append(1) or np.full((2, len(records)), 2.0))
    bred(rng, 1.0, generations=10, failures=5)
    assert len(calls) == 5


def test_a_child_takes_half_its_features_from_each_parent(rng):
    parents = np.stack([np.zeros((3, 4, 6)), np.ones((3, 4, 6))], axis=1)
    children = crossover(parents, 5, rng)
    assert children.shape == (3, 5, 4, 6)
    assert (children.std(axis=2) == 0).all()
    assert (children[:, :, 0].sum(axis=2) == 3).all()


def test_a_mutation_adds_a_share_of_another_stay(rng):
    stays = np.arange(1, 4, dtype=np.float32)[:, None, None] * np.ones((3, 2, 2), np.float32)
    mutated = mutate(np.zeros((2, 4, 2, 2), np.float32), stays, np.array([0.5, 2.0]), rng)
    assert set(np.unique(mutated[0])) <= {0.5, 1.0, 1.5}
    assert set(np.unique(mutated[1])) <= {2.0, 4.0, 6.0}


def test_stays_of_one_cluster_get_the_same_noise(rng):
    data = rng.normal(0, 1, (6, 5, 3))
    data[3:, :, 1:] += 100
    data[:, :, 0] = np.arange(5)
    mask = np.zeros(data.shape, bool)
    noise = hider(given(data, mask), Parameters(clusters=2, utility_models=1, generations=2))[0] - data
    assert np.allclose(noise[:3], noise[0])
    assert np.allclose(noise[3:], noise[3])
    assert not np.allclose(noise[0], noise[3])


def test_the_error_of_a_stay_is_what_the_utility_check_computes(rng):
    data, mask = make_stays(rng, 9)
    records = preprocess_imputed(data, mask)
    models = UtilityModels(records, 2, np.random.default_rng(5))
    errors = models.errors(records)

    again = np.random.default_rng(5)
    targets = again.permutation(4)[:2]
    predictors = [gru_ensemble.Predictor("real", t, int(again.integers(2**31))) for t in (*map(int, targets), None)]
    fitted = gru_ensemble.fit(predictors, {"real": gru_ensemble.Series.from_padded(records)})
    for stay in (0, 4):
        for model, error in zip(fitted, errors[:, stay], strict=True):
            result = gru_ensemble.evaluate(model, gru_ensemble.Series.from_padded(records[stay : stay + 1]))
            assert error == pytest.approx(np.sqrt(result.squared_error.sum() / result.cells.sum()), rel=1e-3)


@pytest.mark.parametrize("changes", [{"clusters": 0}, {"population": 2}])
def test_parameters_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=f"^{next(iter(changes))} must"):
        Parameters(**changes)


def test_published_values():
    assert (PUBLISHED.clusters, PUBLISHED.population, PUBLISHED.generations, PUBLISHED.bound) == (500, 5, 10, 4.5)
    assert hider_genetic.PUBLISHED.utility_models == 20
