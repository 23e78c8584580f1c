"""Outcomes: one value a stay, carried as a feature that does not change within it."""

import json

import numpy as np
import pytest

from scoring.data.datasets import load
from utils.errors import UserError


@pytest.fixture
def outcomes(tmp_path):
    def write(rows, header="admissionid,dead"):
        path = tmp_path / "outcomes.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


ROWS = [f"{stay},{stay % 2}" for stay in range(100, 112)]


def test_an_outcome_is_the_last_feature_and_the_same_in_every_row_of_its_stay(csv, outcomes):
    plain, carried = load(csv, 10), load(csv, 10, outcomes=outcomes(ROWS[::-1]))
    assert carried.feature_names == [*plain.feature_names, "dead"]
    np.testing.assert_array_equal(carried.data[:, :, :-1], plain.data)
    for stay, expected in enumerate(np.arange(100, 112) % 2):
        assert set(carried.data[stay, ~carried.padding_mask[stay, :, 0], -1]) == {expected}


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([*ROWS, "999,1"], "admissionid,dead", "there is no stay 999 in the data"),
        ([*ROWS, "someone,1"], "admissionid,dead", "there is no stay 'someone' in the data"),
        (ROWS[1:], "admissionid,dead", "has no outcome of stay 100"),
        ([*ROWS, "101,1"], "admissionid,dead", "stay 101 has several rows"),
        (["100,yes", *ROWS[1:]], "admissionid,dead", "column 'dead' holds text"),
        ([*ROWS[:3], "103,", *ROWS[4:]], "admissionid,dead", "row 5 has no 'dead'"),
        ([*ROWS[:3], ",1", *ROWS[4:]], "admissionid,dead", "row 5 has no admissionid"),
        (ROWS, "id,dead", "must begin with the columns admissionid,label"),
        (ROWS, "admissionid,f1", "have a column 'f1' already"),
    ],
)
def test_bad_outcomes_are_refused_in_one_line(csv, outcomes, rows, header, message):
    with pytest.raises(UserError, match=message) as error:
        load(csv, 10, outcomes=outcomes(rows, header))
    assert "\n" not in str(error.value)


def test_a_match_carries_the_outcome_to_the_hider_and_the_report(run_main, csv, outcomes, tmp_path):
    code, _, err = run_main("-d", csv, "--outcomes", outcomes(ROWS), "--seeker", "knn", "--skip_fp", "--skip_osa")
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert report["data"]["feature_names"][-1] == "dead"
    assert report["utility"]["kept"]["headline"] == {"value": None, "low": None, "high": None}
