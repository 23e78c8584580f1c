"""The leaderboard ranks by the contract's scores, says how sure it is, and names no one twice."""

import csv
import json
import re

import numpy as np
import pytest

from scoring.report.leaderboard import leaderboard, write_leaderboard
from scoring.tournament.intake import Entrant
from scoring.tournament.schedule import Results
from scoring.tournament.work import FinishedRun

STAYS = 200
SETTINGS = {"data": "stays.csv", "stays": STAYS, "members": STAYS // 2, "chance": 0.5, "seed": 1}


def results(rates, failed=()):
    """A tournament in which seeker s labels a share `rates[h][s]` of hider h's stays rightly."""
    rng = np.random.default_rng(0)
    truth = np.arange(STAYS) < STAYS // 2
    hiders = [Entrant(name, "hider", name) for name in rates]
    seekers = [Entrant(name, "seeker", name) for name in next(iter(rates.values()))]
    found = Results(hiders, seekers, [], dict.fromkeys(rates, truth), SETTINGS)
    for hider in rates:
        found.hider_runs[hider] = FinishedRun("k", "ok", "", "g")
        for seeker, rate in rates[hider].items():
            cell = (hider, seeker)
            if cell in failed:
                found.seeker_runs[cell] = FinishedRun("k", "failed", "raised an exception")
                continue
            found.seeker_runs[cell] = FinishedRun("k", "ok", "")
            wrong = rng.permutation(STAYS) < round((1 - rate) * STAYS)
            found.labels[cell] = truth ^ wrong
    return found


RATES = {"leaky": {"good": 0.9, "bad": 0.5}, "safe": {"good": 0.6, "bad": 0.5}}


def test_the_hider_found_least_and_the_seeker_that_finds_most_come_first():
    board = leaderboard(results(RATES))
    assert [(row["rank"], row["name"], row["score"]) for row in board["hiders"]] == [
        (1, "safe", pytest.approx(0.55)),
        (2, "leaky", pytest.approx(0.7)),
    ]
    assert [row["name"] for row in board["seekers"]] == ["good", "bad"]
    leaky = board["hiders"][1]
    assert (leaky["worst"], leaky["worst_opponent"]) == (pytest.approx(0.9), "good")
    assert leaky["worst_low"] < 0.9 < leaky["worst_high"]


def kept(value):
    return {"kept": {"headline": {"value": value, "low": max(value - 0.1, 0), "high": min(value + 0.1, 1)}}}


def test_hiders_are_ranked_by_the_worst_seeker_and_the_frontier_is_of_worst_score_and_kept_utility(tmp_path):
    rates = {
        "even": {"good": 0.6, "bad": 0.6},
        "uneven": {"good": 0.9, "bad": 0.1},
        "useless": {"good": 0.5, "bad": 0.5},
        "beaten": {"good": 0.7, "bad": 0.5},
    }
    found = results(rates)
    found.utility = {"even": kept(0.5), "uneven": kept(0.9), "useless": kept(0.0), "beaten": kept(0.3)}
    board = write_leaderboard(found, tmp_path)
    assert [row["name"] for row in board["hiders"]] == ["useless", "even", "beaten", "uneven"]
    assert board["frontier"] == ["useless", "even", "uneven"]
    assert [row["kept"] for row in board["hiders"]] == [0.0, 0.5, 0.3, 0.9]
    page = (tmp_path / "leaderboard.html").read_text()
    assert "Privacy against utility" in page
    assert "beaten: 0.700 found, 0.30 kept" in page
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").read_text().splitlines()))
    assert [float(row["kept"]) for row in rows[:4]] == [0.0, 0.5, 0.3, 0.9]


def test_a_void_check_is_neither_passed_nor_failed():
    found = results({"h": {"s": 0.5}})
    checks = {"passed": None, "feature_prediction": [{"passed": None, "better_than_constant": False}]}
    checks |= {"one_step_ahead": None, "one_step_ahead_without_time": None, "ratio_geometric_mean": 0.8}
    found.utility["h"] = kept(0.2) | checks
    row = leaderboard(found)["hiders"][0]
    assert (row["utility"], row["features_passed"], row["features_tested"], row["untrained"]) == ("void", 0, 1, 1)


def test_a_failed_cell_is_left_out_and_named():
    board = leaderboard(results(RATES, failed={("leaky", "good")}))
    leaky = next(row for row in board["hiders"] if row["name"] == "leaky")
    assert (leaky["score"], leaky["matches"]) == (0.5, 1)
    assert leaky["status"] == "no answer from good"
    good = next(row for row in board["seekers"] if row["name"] == "good")
    assert good["score"] == pytest.approx(0.6)
    assert good["status"] == "against leaky it raised an exception"


def test_without_any_match_the_scores_are_the_contracts():
    found = results(RATES, failed={(h, s) for h in RATES for s in RATES[h]})
    board = leaderboard(found)
    assert {row["score"] for row in board["hiders"]} == {9.99}
    assert {row["score"] for row in board["seekers"]} == {-9.99}


def test_the_interval_of_a_mean_covers_it_although_seekers_agree_with_each_other():
    rng = np.random.default_rng(1)
    truth, covered = np.arange(STAYS) < STAYS // 2, 0
    for _ in range(300):
        shared = rng.random(STAYS) < 0.3  # stays that every seeker gets right
        found = results({"h": {"a": 0.5, "b": 0.5, "c": 0.5}})
        for seeker in "abc":
            found.labels["h", seeker] = truth ^ ~(shared | (rng.random(STAYS) < 0.5))
        row = leaderboard(found)["hiders"][0]
        covered += row["score_low"] < 0.3 + 0.7 * 0.5 < row["score_high"]
    assert 0.90 < covered / 300 < 0.99


def test_the_files_agree_and_the_page_shows_every_cell(tmp_path):
    found = results(RATES, failed={("safe", "bad")})
    board = write_leaderboard(found, tmp_path)
    assert json.loads((tmp_path / "leaderboard.json").read_text()) == board
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").read_text().splitlines()))
    assert [(row["role"], row["name"]) for row in rows] == [
        ("hider", "safe"), ("hider", "leaky"), ("seeker", "good"), ("seeker", "bad"),
    ]  # fmt: skip
    page = (tmp_path / "leaderboard.html").read_text()
    assert "default-src 'none'" in page
    links = set(re.findall(r'href="([^"]+)"', page))
    assert links == {f"matches/{cell}/report.html" for cell in ("safe/good", "leaky/good", "leaky/bad")}
    assert "raised an exception" in page


def test_hostile_names_stay_text(tmp_path):
    hostile = '=cmd|"<script>alert(1)</script>'
    found = results({hostile: {"s": 0.5}})
    write_leaderboard(found, tmp_path)
    assert "<script>" not in (tmp_path / "leaderboard.html").read_text()
    rows = csv.DictReader((tmp_path / "leaderboard.csv").read_text().splitlines())
    assert next(rows)["name"].startswith("'=")
