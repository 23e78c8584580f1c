"""Who hid best and who found most: a tournament's results as CSV, JSON and a page."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from scoring.contract import Role
from scoring.report.frontier import frontier, frontier_plot
from scoring.statistics import mean_interval, wilson_interval
from scoring.strangers import Reason
from scoring.tournament.intake import Entrant
from scoring.tournament.schedule import Results
from scoring.tournament.work import FinishedRun
from utils.files import write_text

NO_HIDER_SCORE, NO_SEEKER_SCORE = 9.99, -9.99  # the contract's, where none could be computed
_NOTHING = FinishedRun("", "ok", "")

COLUMNS = (
    "role", "rank", "name", "score", "score_low", "score_high", "worst", "worst_low", "worst_high", "worst_opponent",
    "matches", "kept", "kept_low", "kept_high", "utility", "features_passed", "features_tested", "one_step_ahead",
    "utility_ratio", "status",
)  # fmt: skip


def leaderboard(results: Results) -> dict[str, Any]:
    """Rank hiders by their worst re-identification score, lowest first, and seekers by their mean, highest first.

    Parameters
    ----------
    results : Results

    Returns
    -------
    dict
        Plain JSON, the same for the same results whenever and wherever they were computed: `hiders` and `seekers`
        (one entry each, best first), `frontier` (the hiders that no other beats in worst score and kept utility),
        `matrix` (a row a hider, a cell a seeker), `refused`, `settings`. A mean's
        interval is over stays: each stay's share of right answers is one trial, for the opponents share the stays.
        `worst` is the most that any seeker found of a hider (the least that a seeker found of any), its interval
        that of one match.
    """
    hiders = [_entry(results, hider, "hider") for hider in results.hiders]
    seekers = [_entry(results, seeker, "seeker") for seeker in results.seekers]
    # Where the score is equal (9.99 twice), the name decides: the order must not depend on who finished first.
    hiders.sort(key=lambda entry: (NO_HIDER_SCORE if entry["worst"] is None else entry["worst"], entry["name"]))
    seekers.sort(key=lambda entry: (-entry["score"], entry["name"]))
    for entries in (hiders, seekers):
        for rank, entry in enumerate(entries, 1):
            entry["rank"] = rank
    matrix = [{"hider": h["name"], "cells": [_cell(results, h["name"], s["name"]) for s in seekers]} for h in hiders]
    refused = [{"name": entrant.name, "reason": Reason.REFUSED} for entrant in results.refused]
    refused.sort(key=lambda entry: (entry["name"], entry["reason"]))
    return {
        "hiders": hiders,
        "seekers": seekers,
        "frontier": frontier(hiders),
        "matrix": matrix,
        "refused": refused,
        "settings": results.settings,
    }


def write_leaderboard(results: Results, output: Path) -> dict[str, Any]:
    """Write `leaderboard.csv`, `.json` and `.html` into `output`, each whole or not at all, and return the JSON."""
    board = leaderboard(results)
    write_text(output / "leaderboard.json", json.dumps(board, indent=1, allow_nan=False) + "\n")
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**entry, "name": _no_formula(entry["name"])} for entry in (*board["hiders"], *board["seekers"]))
    write_text(output / "leaderboard.csv", table.getvalue())
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["score"] = lambda value: "-" if value is None else f"{value:.3f}"
    plot = frontier_plot(board["hiders"], board["settings"]["chance"])
    page = environment.get_template("leaderboard.html").render(board=board, frontier_plot=plot)
    write_text(output / "leaderboard.html", page)
    return board


def _entry(results: Results, entrant: Entrant, role: Role) -> dict[str, Any]:
    """One row of the leaderboard."""
    found = _matches(results, entrant.name, role)
    worst, chosen = None, None
    if found:
        scores = {opponent: float(right.mean()) for opponent, right in found.items()}
        # A hider's worst match is the one in which most was found, a seeker's the one in which least was.
        chosen = (
            max(scores, key=lambda name: (scores[name], name))
            if role == "hider"
            else min(scores, key=lambda name: (scores[name], name))
        )
        worst = scores[chosen]
        mean, low, high = _mean(list(found.values()))
    else:
        mean, low, high = (NO_HIDER_SCORE if role == "hider" else NO_SEEKER_SCORE), None, None
    entry: dict[str, Any] = {
        "role": role,
        "name": entrant.name,
        "digest": entrant.digest,
        "score": mean,
        "score_low": low,
        "score_high": high,
        "worst": worst,
        "worst_opponent": chosen,
        "worst_low": None,
        "worst_high": None,
        "matches": len(found),
        "status": _status(results, entrant, role),
    }
    if chosen is not None:
        right = found[chosen]
        entry["worst_low"], entry["worst_high"] = wilson_interval(int(right.sum()), right.size)
    return entry | (_utility(results, entrant) if role == "hider" else {})


def _matches(results: Results, name: str, role: Role) -> dict[str, np.ndarray]:
    """Per opponent, which stays were labelled rightly."""
    if role == "hider":
        found = {seeker: labels for (hider, seeker), labels in results.labels.items() if hider == name}
    else:
        found = {hider: labels for (hider, seeker), labels in results.labels.items() if seeker == name}
    hider_of = (lambda _: name) if role == "hider" else (lambda opponent: opponent)
    return {opponent: found[opponent] == results.truth[hider_of(opponent)] for opponent in sorted(found)}


def _mean(matches: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Mean score over matches and its 95 % interval over stays."""
    if len(matches) == 1:
        return (float(matches[0].mean()), *wilson_interval(int(matches[0].sum()), matches[0].size))
    shares = np.mean(matches, axis=0)
    return (float(shares.mean()), *mean_interval(shares))


def _status(results: Results, entrant: Entrant, role: Role) -> str:
    if role == "hider":
        run = results.hider_runs[entrant.name]
        if run.status != "ok":
            return _failed(run)
        names = [s.name for s in results.seekers if (entrant.name, s.name) in results.seeker_runs]
        if not names:
            return "fails the utility check, so nobody sought it"
        failed = [name for name in names if results.seeker_runs[entrant.name, name].status != "ok"]
        return f"no answer from {', '.join(sorted(failed))}" if failed else "ok"
    failed = [
        f"against {hider.name} it {_failed(run)}"
        for hider in results.hiders
        if (run := results.seeker_runs.get((hider.name, entrant.name), _NOTHING)).status != "ok"
    ]
    return "; ".join(sorted(failed)) if failed else "ok"


def _failed(run: FinishedRun) -> str:
    return run.reason or run.status


def _utility(results: Results, hider: Entrant) -> dict[str, Any]:
    utility = results.utility.get(hider.name) or {}
    headline = utility["kept"]["headline"] if "kept" in utility else dict.fromkeys(("value", "low", "high"))
    kept = {"kept": headline["value"], "kept_low": headline["low"], "kept_high": headline["high"]}
    if "passed" not in utility:
        return {**kept, "utility": None}
    rows, ahead = utility["feature_prediction"], utility["one_step_ahead"]
    return {
        **kept,
        "utility": _outcome(utility["passed"]),
        "features_passed": None if rows is None else sum(row["passed"] is True for row in rows),
        "features_tested": None if rows is None else len(rows),
        "one_step_ahead": None if ahead is None else _outcome(ahead["passed"]),
        "utility_ratio": utility["ratio_geometric_mean"],
        "untrained": sum(
            not row["better_than_constant"] for row in [*(rows or []), utility["one_step_ahead_without_time"]] if row
        ),
    }


def _outcome(passed: bool | None) -> str:
    return "void" if passed is None else "passes" if passed else "fails"


def _cell(results: Results, hider: str, seeker: str) -> dict[str, Any]:
    run, labels = results.seeker_runs.get((hider, seeker)), results.labels.get((hider, seeker))
    cell: dict[str, Any] = {"seeker": seeker, "score": None, "low": None, "high": None, "report": None, "reason": ""}
    if labels is not None:
        right = labels == results.truth[hider]
        low, high = wilson_interval(int(right.sum()), right.size)
        report = None if (hider, seeker) in results.unreported else f"matches/{hider}/{seeker}/report.html"
        return cell | {"score": float(right.mean()), "low": low, "high": high, "report": report}
    return cell | {"reason": "not played" if run is None else _failed(run)}


def _no_formula(name: str) -> str:
    """Keep a spreadsheet from running a name."""
    return f"'{name}" if name[:1] in "=+-@" else name
