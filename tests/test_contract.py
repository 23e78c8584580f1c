"""What a hider and a seeker may return, and what the 2020 helpers make of it."""

import re

import numpy as np
import pytest

from scoring.contract import asked_in, check_generated, check_labels, given
from utils.errors import UserError
from utils.misc import fix_all_random_seeds, temp_seed_numpy
from utils.solutions import (
    benchmark_hider,
    load_generated_data,
    parse_hider_output,
    validate_hider_output,
    validate_seeker_output,
)

DATA = np.arange(24.0).reshape(2, 3, 4)
MASK = np.zeros(DATA.shape, bool)


@pytest.mark.parametrize(
    ("output", "mask", "eval_seeds"),
    [
        (DATA, None, None),
        ((DATA, 3), None, 3),
        ((DATA, MASK), MASK, None),
        ((DATA, None), None, None),
        ((DATA, MASK, 2), MASK, 2),
        ((DATA, None, None), None, None),
    ],
)
def test_a_hider_may_return_any_of_the_contracts_forms(output, mask, eval_seeds):
    parsed = parse_hider_output(output)
    assert parsed[0] is DATA
    assert parsed[1] is mask
    assert parsed[2] == eval_seeds


@pytest.mark.parametrize("output", [None, [1, 2], (DATA, "x"), (DATA, MASK, 1, 1), (MASK.tolist(), None), ()])
def test_anything_else_is_refused(output):
    with pytest.raises(RuntimeError, match="must return"):
        parse_hider_output(output)


@pytest.mark.parametrize("word", ["rescore", "reevaluate"])
def test_a_hider_may_ask_for_its_earlier_data_to_be_scored(word):
    assert check_generated("h", word, DATA.shape) is None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (DATA[:, :2], "shape (2, 2, 4), expected (2, 3, 4)"),
        (np.where(DATA == 5, np.inf, DATA), "1 infinite"),
        (np.full(DATA.shape, np.nan), "every cell is NaN"),
        (DATA.astype(object), "not an array of numbers"),
        (DATA.astype(str), "not an array of numbers"),
        ((DATA, MASK[:1]), "padding mask of shape"),
        ((DATA, MASK + 2), "more than True and False"),
        ((DATA, ~MASK), "covers every cell"),
        ((DATA, 7), "eval_seeds 7"),
        ("again", "'again'"),
        (None, "NoneType"),
    ],
)
def test_what_a_hider_must_not_return_is_named(output, expected):
    with pytest.raises(UserError, match=re.escape(expected)):
        check_generated("h", output, DATA.shape)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4)])
def test_labels_may_come_in_three_shapes_and_mean_member_above_one_half(shape):
    labels, scores = check_labels("s", np.array([0, 1, 0.5, 0.6]).reshape(shape), 4)
    assert labels.tolist() == [False, True, False, True]
    assert scores.tolist() == [0, 1, 0.5, 0.6]


def test_plain_zeros_and_ones_are_no_scores():
    assert check_labels("s", [0, 1, 1, 0], 4)[1] is None


def test_a_seeker_may_return_scores_beside_its_labels():
    labels, scores = check_labels("s", ([0, 1, 1], np.array([[0.1], [3.0], [2.0]])), 3)
    assert labels.tolist() == [False, True, True]
    assert scores.tolist() == [0.1, 3.0, 2.0]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([1, 0], "shape (2,), expected (3,)"),
        ([1, 0, np.nan], "NaN"),
        (([1, 0, 1], [0.1, np.inf, 0]), "scores with NaN or infinity"),
        (["a", "b", "c"], "not an array of numbers"),
        (None, "not an array of numbers"),
    ],
)
def test_what_a_seeker_must_not_return_is_named(output, expected):
    with pytest.raises(UserError, match=re.escape(expected)):
        check_labels("s", output, 3)


def test_generated_data_travels_as_2020_stored_it_and_never_as_a_pickle(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, generated_data=DATA, padding_mask=[])
    assert load_generated_data(path)[1] is None
    np.savez(path, generated_data=DATA, padding_mask=MASK)
    np.testing.assert_array_equal(load_generated_data(path)[1], MASK)
    np.savez(path, generated_data=np.array([{}], dtype=object), padding_mask=[])
    with pytest.raises(ValueError, match="pickle"):
        load_generated_data(path)


def test_a_hiders_folder_is_checked_as_in_2020(tmp_path):
    np.savez(tmp_path / "data.npz", generated_data=DATA, padding_mask=[])
    (tmp_path / "feature_prediction_scores.txt").write_text("0.1\n0.2\n")
    (tmp_path / "osa_score.txt").write_text("0.3\n")
    assert validate_hider_output("h", tmp_path, [4, 2], DATA.shape)
    assert not validate_hider_output("h", tmp_path, [4, 2, 1], DATA.shape, raise_exception=False)
    with pytest.raises(RuntimeError, match="shape"):
        validate_hider_output("h", tmp_path, [4, 2], (2, 3, 5))
    (tmp_path / "osa_score.txt").unlink()
    with pytest.raises(RuntimeError, match="one-step-ahead"):
        validate_hider_output("h", tmp_path, [4, 2], DATA.shape)
    assert validate_hider_output("h", tmp_path, [4, 2], DATA.shape, skip_osa=True)


def test_a_seekers_file_is_checked_as_in_2020(tmp_path):
    path, truth = tmp_path / "data.npz", np.array([True, False, True])
    np.savez(path, reidentified_data=[[1], [0], [1]])
    assert validate_seeker_output("s", path, truth).tolist() == [1, 0, 1]
    np.savez(path, reidentified_data=[1, 0])
    assert validate_seeker_output("s", path, truth, raise_exception=False) is False
    with pytest.raises(RuntimeError, match="loaded"):
        validate_seeker_output("s", tmp_path / "none.npz", truth)


@pytest.mark.parametrize(
    ("scores", "osa", "passed"),
    [
        ([0.5, 0.80], 5.0, True),  # exactly 5 x the error, AUROC above 0.85 x
        ([0.51, 0.80], 5.0, False),  # error too large
        ([0.5, 0.76], 5.0, False),  # AUROC too low
        ([0.5, 0.80], 5.1, False),  # one-step-ahead too large
        ([float("nan"), 0.80], 5.0, False),  # not computable is not passed
    ],
)
def test_utility_passes_within_five_times_the_error_and_0_85_of_the_auroc(scores, osa, passed, capsys):
    tasks = ["regression", "classification"]
    assert benchmark_hider(scores, tasks, osa, [0.1, 0.9], tasks, 1.0, 0.85, 5.0) is passed
    assert ("FAILED" in capsys.readouterr().out) is not passed


def test_a_task_type_that_differs_fails():
    assert not benchmark_hider([0.1], ["classification"], 1.0, [0.1], ["regression"], 1.0, 0.85, 5.0)


def test_a_temporary_seed_leaves_no_trace():
    fix_all_random_seeds(3)
    expected = np.random.rand()
    fix_all_random_seeds(3)
    with temp_seed_numpy(9):
        inside = np.random.rand()
    assert np.random.rand() == expected
    assert inside == np.random.RandomState(9).rand()


def test_names_and_patients_reach_only_a_player_whose_file_asks_for_them(tmp_path):
    told = {"data": 1, "padding_mask": 2, "seed": 3, "feature_names": 4, "patients": 5}
    assert sorted(given(told, "hider", ())) == ["data", "padding_mask", "seed"]
    source = tmp_path / "hider.py"
    source.write_text('import os\nALSO_GIVEN = ("feature_names", "secrets")\n\ndef hider(input_dict):\n    pass\n')
    assert sorted(given(told, "hider", asked_in(source))) == ["data", "feature_names", "padding_mask", "seed"]
    for strange in ("ALSO_GIVEN = open('/etc/passwd')", "ALSO_GIVEN = 7", "def (", "x" * 100 + "(" * 5000, "\0"):
        source.write_text(strange)
        assert asked_in(source) == ()
    assert asked_in(tmp_path / "none.py") == ()
