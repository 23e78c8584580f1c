"""A round decides who is a member, what each player is given, and what the right answers are."""

import numpy as np
import pytest

from scoring.data.datasets import DataSet, digest
from scoring.round import Round, divide_as_2020, divide_by_key
from utils.data_utils import data_division
from utils.errors import UserError

KEY = bytes(range(32))
NAMES = ["time", "hr", "map"]


def stays(count=20, time_points=5, patients=None, names=NAMES, start=0.0):
    """Stays of which each holds its own number in every cell, so that it can be told where it went."""
    numbers = np.arange(count, dtype=float) + start
    data = np.broadcast_to(numbers[:, None, None], (count, time_points, len(names))).copy()
    return DataSet(data, np.zeros(data.shape, bool), names, "stays.csv", "0" * 64, ["half is missing"], patients)


def numbers(data):
    return data[:, -1, 0].astype(int).tolist()


def divisions(data_set, share=0.5):
    return [divide_as_2020(data_set, 3, share), divide_by_key(data_set, KEY, "hider a", share)]


def test_the_split_of_2020_is_kept_bit_for_bit():
    _, (members, others) = data_division(range(20), 3, [0.3, 0.7])
    round_ = Round.of(stays(), divide_as_2020(stays(), 3, 0.3))
    assert numbers(round_.hider_input()["data"]) == members.tolist()
    assert round_.hider_input()["seed"] == 3
    assert sorted(numbers(round_.data[round_.others])) == sorted(others.tolist())


@pytest.mark.parametrize("which", [0, 1])
def test_every_stay_is_on_one_side_and_the_right_answers_say_which(which):
    data_set = stays()
    round_ = Round.of(data_set, divisions(data_set)[which])
    given = numbers(round_.hider_input()["data"])
    shown = numbers(round_.seeker_input(round_.data[:10], None)["enlarged_data"])
    assert sorted(shown) == list(range(20))
    assert sorted(np.array(shown)[round_.truth].tolist()) == sorted(given)
    assert sorted([*round_.members, *round_.others]) == list(range(20))
    assert np.flatnonzero(round_.in_file_order(round_.truth)).tolist() == sorted(given)


@pytest.mark.parametrize("which", [0, 1])
def test_seekers_are_not_shown_the_order_of_the_file_nor_the_seed_of_the_split(which):
    data_set = stays(200)
    round_ = Round.of(data_set, divisions(data_set)[which])
    shown = round_.seeker_input(round_.data[:100], None)
    assert numbers(shown["enlarged_data"]) != list(range(200))
    assert shown["seed"] not in (3, round_.hider_seed)


@pytest.mark.parametrize("which", [0, 1])
def test_all_stays_of_a_patient_are_on_one_side(which):
    whose = np.array([f"p{stay % 7}" for stay in range(40)])
    data_set = stays(40, patients=whose)
    division = divisions(data_set)[which]
    assert not set(whose[division.members]) & set(whose[division.others])
    assert sorted([*division.members, *division.others]) == list(range(40))
    assert len(set(whose[division.members])) == 3


def test_one_stay_a_patient_changes_nothing():
    plain, named = stays(), stays(patients=np.arange(20) + 100)
    for without, given in zip(divisions(plain), divisions(named), strict=True):
        assert without.members.tolist() == given.members.tolist()


def test_each_purpose_of_a_key_has_a_split_an_order_and_seeds_of_its_own():
    data_set = stays(100)
    first, again, other = (divide_by_key(data_set, KEY, purpose, 0.5) for purpose in ("a", "a", "b"))
    secret = divide_by_key(data_set, bytes(32), "a", 0.5)
    assert first.members.tolist() == again.members.tolist()
    for another in (other, secret):
        assert first.members.tolist() != another.members.tolist()
        assert first.order.tolist() != another.order.tolist()
        assert (first.hider_seed, first.seeker_seed) != (another.hider_seed, another.seeker_seed)


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="at least 32 bytes"):
        divide_by_key(stays(), b"guess me", "a", 0.5)


@pytest.mark.parametrize("which", [0, 1])
def test_an_empty_side_is_refused(which):
    with pytest.raises(UserError, match="leaves no stay on one side"):
        divisions(stays(), share=0.01)[which]


def test_generated_data_is_tied_to_the_members_it_was_made_from():
    data_set = stays()
    first, again, other = (Round.of(data_set, divide_as_2020(data_set, seed, 0.5)).made_from for seed in (1, 1, 2))
    assert first == again != other


def test_two_tables_of_other_lengths_make_a_round():
    round_ = Round.of_tables(stays(6, 5), stays(4, 8, start=100.0), seed=1)
    assert round_.data.shape == (10, 8, 3)
    assert numbers(round_.data[round_.members]) == [0, 1, 2, 3, 4, 5]
    assert sorted(numbers(round_.data[~round_.truth])) == [100, 101, 102, 103]
    assert round_.padding_mask[round_.truth][:, :3].all()
    assert (round_.data[round_.padding_mask] == -1).all()
    assert not round_.padding_mask[~round_.truth].any()
    assert round_.facts()["members"] == 6
    assert round_.warnings == ["stays.csv: half is missing"] * 2


def test_two_tables_of_other_features_are_refused():
    with pytest.raises(UserError, match="the same features"):
        Round.of_tables(stays(), stays(names=["time", "map", "hr"]), seed=1)


def test_a_hider_is_told_the_features_names_and_whose_its_stays_are():
    owners = np.array([f"patient {i // 2}" for i in range(20)])
    round_ = Round.of(stays(patients=owners), divide_by_key(stays(patients=owners), KEY, "hider a", 0.5))
    given = round_.hider_input()
    assert given["feature_names"].tolist() == NAMES
    same = owners[numbers(given["data"])][:, None] == owners[numbers(given["data"])][None]
    assert ((given["patients"][:, None] == given["patients"][None]) == same).all()
    assert "patients" not in Round.of(stays(), divide_as_2020(stays(), 3, 0.5)).hider_input()
    shown = round_.seeker_input(given["data"], None)
    assert shown["feature_names"].tolist() == NAMES
    assert "patients" not in shown


def test_data_of_other_patients_are_other_data():
    alone, shared = (digest(np.zeros((4, 2, 2)), ["time", "hr"], owners) for owners in (None, np.array([1, 1, 2, 2])))
    assert alone != shared
