"""The ensemble follows the seeker that stands out, and its fixed weights if none does."""

import numpy as np
import pytest
from conftest import make_stays

import seeker_ensemble
from seeker_ensemble import Parameters, distinctness
from utils.errors import UserError

SCORES = """
import numpy as np


def seeker(input_dict):
    rng = np.random.default_rng({seed})
    member = np.arange(len(input_dict["enlarged_data"])) < len(input_dict["generated_data"])
    return member.astype(int), rng.normal(size=len(member)) + {shift} * member
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    for seed, (name, shift) in enumerate({"sharp": 8, "weak": 0.5, "blind": 0, "other": 0}.items()):
        (tmp_path / f"seeker_{name}.py").write_text(SCORES.format(seed=seed, shift=shift))
    monkeypatch.setattr(seeker_ensemble, "HOME", tmp_path)
    return tmp_path


def given(rng, stays=200, members=100):
    data, mask = make_stays(rng, stays)
    return {
        "generated_data": data[:members],
        "generated_data_padding_mask": mask[:members],
        "enlarged_data": data,
        "enlarged_data_padding_mask": mask,
        "seed": 0,
    }


def test_it_follows_the_seeker_that_stands_out(rng, home):
    inputs = given(rng)
    labels, scores = seeker_ensemble.seeker(inputs, Parameters(seekers="blind+other+weak+sharp"))
    assert labels[:100].mean() > 0.98
    assert scores.shape == (200,)
    labels, _ = seeker_ensemble.seeker(inputs, Parameters(seekers="blind+other"))
    assert 0.35 < labels[:100].mean() < 0.65


def test_clusters_count_if_they_are_of_the_right_size_and_not_made_by_ties(rng):
    low, high = rng.normal(size=100), rng.normal(size=100) + 6
    assert distinctness(np.concatenate([low, high]), 0.5, 0.15) == pytest.approx(6, abs=1)
    assert distinctness(np.concatenate([low, high]), 0.9, 0.15) == 0
    assert distinctness(np.concatenate([np.zeros(100), high]), 0.5, 0.15) == 0
    assert distinctness(np.ones(200), 0.5, 0.15) == 0
    assert distinctness(rng.normal(size=10), 0.5, 0.15) == 0
    assert distinctness(rng.normal(size=500), 0.5, 0.15) < 2.5


def test_what_it_needs_it_says_in_one_line(rng, home):
    with pytest.raises(UserError, match="none lies beside it"):
        seeker_ensemble.seeker(given(rng))
    with pytest.raises(UserError, match="no seeker 'gone'"):
        seeker_ensemble.seeker(given(rng), Parameters(seekers="gone"))
    with pytest.raises(ValueError, match="trust must be at least 0"):
        Parameters(trust=-1)


@pytest.mark.parametrize(("stays", "members"), [(1, 1), (3, 5), (30, 30)])
def test_few_stays_get_an_answer(rng, home, stays, members):
    inputs = given(rng, max(stays, members), members)
    inputs["enlarged_data"] = inputs["enlarged_data"][:stays]
    inputs["enlarged_data_padding_mask"] = inputs["enlarged_data_padding_mask"][:stays]
    (home / "seeker_sharp.py").write_text(SCORES.format(seed=0, shift=0).replace("< len", "> len"))
    labels, scores = seeker_ensemble.seeker(inputs, Parameters(seekers="sharp"))
    assert labels.sum() == min(stays, members)
    assert np.isfinite(scores).all()
