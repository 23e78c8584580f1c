"""The adversarial hider: perturbation against an embedding."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from conftest import make_stays

from examples.hider.adversarial import siamese
from examples.hider.adversarial.siamese import build_embedding, contrastive_loss, draw_pairs, embed, train_embedding
from hider_adversarial import PUBLISHED, Parameters, descend, hider
from utils.errors import UserError

SMALL = Parameters(iterations=4, filters=2, candidates=3, steps=3, step_size=0.01)


def given(data, mask, seed=1):
    return {"data": data, "padding_mask": mask, "seed": seed}


# ------------------------------------------------------------------------------------------- the embedding


def test_siamese_pairs_are_told_apart_on_an_easy_example(rng):
    assert told_apart_on_an_easy_example(rng, iterations=250) > 0.9


def test_an_embedding_that_starts_out_seeing_one_patient_everywhere_begins_anew(rng, monkeypatch):
    built = []

    def build(*arguments):
        built.append(build_embedding(*arguments))
        if len(built) == 1:
            built[0].set_weights([np.zeros_like(weights) for weights in built[0].get_weights()])
        return built[-1]

    monkeypatch.setattr(siamese, "build_embedding", build)
    monkeypatch.setattr(siamese, "_STUCK", 50)
    assert told_apart_on_an_easy_example(rng, iterations=400) > 0.9
    assert len(built) == 2


def told_apart_on_an_easy_example(rng, iterations):
    patterns = rng.random((40, 8, 6)).astype(np.float32)
    present = np.ones(patterns.shape, bool)
    options = {"filters": 4, "dropout": 0.0, "noise": 0.02, "margin": 1.0, "batch_size": 32, "learning_rate": 3e-3}
    embedding = train_embedding(patterns, present, **options, iterations=iterations, rng=rng)
    first, second, similar = draw_pairs(patterns, present, np.arange(len(patterns)), 200, 0.02, rng)
    distances = np.linalg.norm(embed(embedding, first) - embed(embedding, second), axis=1)
    return np.mean((distances < 0.5) == similar)


def test_contrastive_loss_attracts_similar_pairs_and_repels_others_up_to_the_margin():
    distances = np.float32([0.0, 0.5, 0.2, 3.0])
    similar = np.array([True, True, False, False])
    assert float(contrastive_loss(distances, similar, 1.0)) == pytest.approx((0 + 0.25 + 0.64 + 0) / 4)


def test_half_of_the_pairs_are_a_record_and_its_noisy_self_the_others_are_two_records(rng):
    records = np.arange(10, dtype=np.float32)[:, None, None] * np.ones((10, 3, 2), np.float32)
    present = np.ones(records.shape, bool)
    present[:, 0] = False
    first, second, similar = draw_pairs(records, present, np.array([1, 4, 7]), 20, 0.01, rng)
    assert similar.sum() == 10
    assert np.abs(first - second)[similar].max() < 0.1
    assert (first[similar][:, 1:] != second[similar][:, 1:]).all()
    assert (first[similar][:, 0] == second[similar][:, 0]).all()  # no noise where nothing was measured
    assert (np.abs(first - second)[~similar] >= 3).all()  # never a record and itself, however few there are
    assert set(np.unique(first)) == {1, 4, 7}


# --------------------------------------------------------------------------------------------- the descent


def test_the_embedding_sees_the_target_rather_than_the_record_and_delta_is_zero_where_padded(rng):
    records, targets = rng.random((2, 6, 7, 3)).astype(np.float32)
    present = rng.random(records.shape) < 0.8
    present[:, :2] = False
    records[~present] = targets[~present] = 0
    embedding = build_embedding((7, 3), 4, 0.25, rng)
    parameters = Parameters(steps=60, step_size=0.02, penalty=0.001)
    delta = descend(embedding, records, targets, present, parameters)

    goal, before, after = (embed(embedding, r) for r in (targets, records, records + delta))
    assert (np.linalg.norm(after - goal, axis=1) < 0.8 * np.linalg.norm(before - goal, axis=1)).all()
    assert (delta[~present] == 0).all()
    assert (delta[present] != 0).all()


def test_the_penalty_keeps_delta_small(rng):
    records, targets = rng.normal(0, 1, (2, 4, 6, 3)).astype(np.float32)
    present = np.ones(records.shape, bool)
    embedding = build_embedding((6, 3), 2, 0.25, rng)
    free, held = (
        descend(embedding, records, targets, present, Parameters(steps=80, step_size=0.02, penalty=weight))
        for weight in (0.0, 5.0)
    )
    assert np.linalg.norm(held) < 0.5 * np.linalg.norm(free)


def test_a_delta_does_not_depend_on_the_batch(rng):
    records, targets = rng.random((2, 5, 6, 3)).astype(np.float32)
    present = np.ones(records.shape, bool)
    embedding = build_embedding((6, 3), 2, 0.25, rng)
    together = descend(embedding, records, targets, present, SMALL)
    alone = descend(embedding, records[2:3], targets[2:3], present[2:3], SMALL)
    assert np.allclose(together[2], alone[0], atol=1e-4)


# ----------------------------------------------------------------------------------------------- the hider


def test_missing_cells_padding_and_lengths_come_back(rng):
    data, mask = make_stays(rng, 12)
    generated, generated_mask = hider(given(data, mask), dataclasses.replace(SMALL, cluster_size=1))
    assert np.array_equal(generated_mask, mask)
    assert np.array_equal(np.isnan(generated), np.isnan(data))
    assert (generated[mask] == -1).all()
    observed = ~mask & ~np.isnan(data)
    assert (generated[observed] != data[observed]).mean() > 0.9
    assert np.abs(generated - data)[observed].max() < 0.1 * np.ptp(data[observed])


def test_padded_cells_never_carry_information(rng):
    data, mask = make_stays(rng, 10)
    other = np.where(mask, 777.0, data)
    first, second = (hider(given(d, mask), SMALL)[0] for d in (data, other))
    assert np.array_equal(first, second, equal_nan=True)


def test_records_of_one_cluster_share_one_delta(rng):
    data = rng.random((8, 6, 3)) + np.repeat([0, 50], 4)[:, None, None]
    mask = np.zeros(data.shape, bool)
    delta = hider(given(data, mask), dataclasses.replace(SMALL, cluster_size=4))[0] - data
    assert np.allclose(delta[:4], delta[0], atol=1e-5)
    assert np.allclose(delta[4:], delta[4], atol=1e-5)
    assert not np.allclose(delta[0], delta[4], atol=1e-5)


def test_a_clusters_delta_reaches_every_value_of_its_records(rng):
    data, mask = make_stays(rng, 12)
    generated = hider(given(data, mask), dataclasses.replace(SMALL, cluster_size=6))[0]
    observed = ~mask & ~np.isnan(data)
    assert (generated[observed] != data[observed]).mean() > 0.9


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(rng):
    data, mask = make_stays(rng, 8)
    runs = [hider(given(data, mask, seed), SMALL)[0] for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1], equal_nan=True)
    assert not np.array_equal(runs[0], runs[2], equal_nan=True)


def test_odd_sizes_work_and_the_input_is_left_alone(rng):
    data, mask = make_stays(rng, 5, time_points=7, features=3)
    kept = data.copy()
    generated, generated_mask = hider(given(data, mask), SMALL)
    assert generated.shape == generated_mask.shape == (5, 7, 3)
    assert np.array_equal(data, kept, equal_nan=True)


def test_one_stay_cannot_be_hidden(rng):
    data, mask = make_stays(rng, 1)
    with pytest.raises(UserError, match="at least 2"):
        hider(given(data, mask), SMALL)


@pytest.mark.parametrize("changes", [{"steps": 0}, {"dropout": 1.0}, {"step_size": float("nan")}, {"penalty": -1.0}])
def test_parameters_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=f"^{next(iter(changes))} must be"):
        Parameters(**changes)


def test_published_values():
    assert (PUBLISHED.iterations, PUBLISHED.margin, PUBLISHED.steps, PUBLISHED.candidates) == (30_000, 1.0, 200, 30)
    assert (PUBLISHED.step_size, PUBLISHED.penalty, PUBLISHED.start, PUBLISHED.filters) == (1e-4, 0.18, 0.0075, 64)
    assert (PUBLISHED.cluster_size, PUBLISHED.pair_noise, PUBLISHED.learning_rate) == (25, 0.075, 1e-3)
