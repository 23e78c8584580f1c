"""The table over tournaments says what each found, and leaves no failure out."""

import importlib.util
import json
import sys

import numpy as np
import polars
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import table1

UTILITY = {
    "feature_prediction": [
        {"index": 0, "metric": "RMSE", "ratio": 9.0, "better_than_constant": True},
        {"index": 1, "metric": "RMSE", "ratio": 4.0, "better_than_constant": True},
        {"index": 2, "metric": "RMSE", "ratio": 1.0, "better_than_constant": False},
        {"index": 3, "metric": "AUROC", "ratio": 0.5, "better_than_constant": True},
    ],
    "one_step_ahead_without_time": {"ratio": 1.0, "better_than_constant": True},
}


def board(folder, scores, status="ok"):
    """A tournament of add-noise and shuffle against two seekers, as tournament.py leaves it."""
    hiders, matrix = [], []
    for name, found in scores.items():
        hiders.append(
            {
                "name": name,
                "status": status if name == "shuffle" else "ok",
                "features_passed": 9,
                "features_tested": 10,
                "one_step_ahead": "passes",
                "utility_ratio": 2.0,
            }
        )
        matrix.append({"hider": name, "cells": [{"seeker": s, "score": v} for s, v in found.items()]})
        for seeker in found:
            place = folder / "matches" / f"{name}-{seeker}"
            place.mkdir(parents=True)
            (place / "report.json").write_text(json.dumps({"seconds": {"hider": 3.0}, "utility": UTILITY}))
    text = json.dumps({"hiders": hiders, "matrix": matrix, "settings": {"stays": 4000}})
    (folder / "leaderboard.json").write_text(text)
    return folder


def test_the_worst_seeker_is_the_one_with_the_highest_mean_over_the_seeds(tmp_path):
    folders = [
        board(tmp_path / "1", {"addnoise": {"knn": 0.9, "matching": 0.7}, "shuffle": {"knn": 0.5, "matching": 0.5}}),
        board(tmp_path / "2", {"addnoise": {"knn": 0.5, "matching": 0.8}, "shuffle": {"knn": 0.5, "matching": 0.5}}),
    ]
    rows, failed = table1.read(folders)
    assert [row.name for row in rows] == ["addnoise", "shuffle"]
    assert not failed
    assert rows[0].worst == "matching"
    mean, low, high = rows[0].mean("matching")
    assert low < mean < high
    assert mean == pytest.approx(0.75)
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.75 * 0.25 / 4000), rel=0.02)
    table = table1.markdown(rows)
    assert "| addnoise | 2 | 9/10, 9/10 | pass | 2.00 | 2.00 (4 of 6) | 0.750 (" in table
    assert "| 0.900 |" in table, "the highest of any one match stands there too"


def test_a_hider_that_failed_is_named_with_the_reason(tmp_path):
    scores = {"addnoise": {"knn": 0.9}, "shuffle": {"knn": 0.5}}
    rows, failed = table1.read([board(tmp_path / "1", scores), board(tmp_path / "2", scores, "ran out of memory")])
    assert [row.name for row in rows] == ["addnoise"]
    assert failed == {"shuffle": "ran out of memory"}


def test_a_hider_that_sat_out_a_seed_is_told_by_its_number_of_seeds(tmp_path):
    both = {"addnoise": {"knn": 0.9}, "shuffle": {"knn": 0.5}}
    folders = [board(tmp_path / "1", both), board(tmp_path / "2", {"shuffle": {"knn": 0.6}})]
    table = table1.markdown(table1.read(folders)[0])
    assert "| addnoise | 1 | 9/10 |" in table
    assert "| shuffle | 2 | 9/10, 9/10 |" in table


def test_the_two_halves_share_no_stay_and_leave_none_out(tmp_path):
    stays = polars.DataFrame({"admissionid": [7, 7, 3, 3, 3, 9], "time": [0.0, 1, 0, 1, 2, 0], "HR": range(6)})
    stays.write_csv(tmp_path / "data.csv")
    one, two = (
        polars.read_csv(table1.half_of(tmp_path / "data.csv", half, tmp_path / f"{half}.csv")) for half in (1, 2)
    )
    assert set(one["admissionid"]) & set(two["admissionid"]) == set()
    assert set(one["admissionid"]) | set(two["admissionid"]) == {3, 7, 9}
    assert len(one) + len(two) == len(stays)


def test_a_method_with_a_setting_plays_with_it(tmp_path, monkeypatch):
    table1.write_submissions(tmp_path / "all", {}, ["shuffle", "adversarial-published"])
    names = {path.stem for path in (tmp_path / "all").iterdir()}
    assert {"hider_adversarial_published", "hider_shuffle", "seeker_matching_time_points", "seeker_density"} <= names
    assert "hider_genetic" not in names
    spec = importlib.util.spec_from_file_location("written", tmp_path / "all" / "seeker_matching_time_points.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "written", module)
    spec.loader.exec_module(module)
    assert module._chosen.compare == "time_points"


def test_a_setting_of_an_unknown_hider_is_refused_before_anything_is_played(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["table1.py", "data.csv", "-o", str(tmp_path / "out"), "--setting", "timgan:hidden=3"]
    )
    with pytest.raises(SystemExit) as stopped:
        table1.main()
    assert stopped.value.code == 2
    assert "no hider timgan" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_table_takes_the_place_of_the_one_before(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    table1.insert(page, "a", "new")
    assert page.read_text() == "before\n<!-- a -->\nnew\n<!-- end of a -->\nafter\n"
