"""The page of one match: one self-contained HTML file for a person to read."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from scoring import statistics
from scoring.report import plots
from scoring.report.arrays import FloatArray, ReportArrays, distance_figures, finite_distances
from scoring.report.texts import number, percent, player_title, ratio
from scoring.report.utility_card import utility_context
from scoring.report.verdict import evidence, labels_clause, other_clauses, unchanged
from utils.files import write_text

_SERIES_SHOWN = 4  # features of the one stay
_MARGINALS_SHOWN = 12  # the rest unfold on a click
_MARGINALS_DRAWN = 200  # a table of thousands of columns would take minutes and make a page that no browser opens


def write_report(result: Mapping[str, Any], arrays: ReportArrays, path: Path) -> None:
    """Write the report, whole or not at all: one HTML file that needs nothing else, the same for the same input.

    It holds no patient identifiers and no folders of this machine, but one stay's measurements, and says so.

    Parameters
    ----------
    result : dict
        The match as in report.json.
    arrays : ReportArrays
        What the plots are drawn from.
    path : Path
        The HTML file.

    Raises
    ------
    OSError
        If the file cannot be written. An earlier report is then as it was.
    """
    result = _presentable({"distance": distance_figures(arrays), **result})
    names = result["data"]["feature_names"]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "ratio": ratio, "moment": _moment, "title_of": _title}
    page = environment.get_template("report.html").render(
        result=result,
        clauses=[_sentence(clause) for clause in other_clauses(result)],
        finding=_sentence(labels_clause(result)),
        evidence=evidence(result),
        rates=_rate_rows(result),
        rates_plot=_rates_plot(result),
        seekers=_seeker_rows(result),
        seekers_plot=_seekers_plot(result),
        not_played=result.get("not_played", ()),
        **utility_context(result, names, arrays.beside),
        distance=result["distance"],
        unchanged=unchanged(result["distance"]) if result["distance"] else "",
        distances_plot=_distances_plot(arrays),
        roc_plot=_roc_plot(result, arrays),
        projections_plot=plots.projections_plot(arrays.projections) if arrays.projections else None,
        stay_plot=_stay_plot(names, arrays),
        marginals=_marginals(names, arrays),
        marginals_shown=_MARGINALS_SHOWN,
    )
    write_text(path, page)


def _title(facts: Mapping[str, Any], role: str) -> str:
    return player_title(role, facts)


# --- tables ---


def _rate_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The privacy table: name, value, interval, chance and what it means, as text."""
    figures = result["reidentification"]
    named = (figures["members_found"] + figures["false_alarms"]) / (figures["members"] + figures["non_members"])

    def row(key: str, name: str, chance: float, meaning: str, show: Any, count: str = "") -> dict[str, str]:
        value, interval = figures[key], figures[f"{key}_ci95"]
        return {
            "name": name,
            "meaning": meaning,
            "value": "-" if value is None else show(value),
            "interval": "" if value is None else f"{show(interval[0])} to {show(interval[1])}",
            "count": count,
            "chance": show(chance),
        }

    no_scores = "" if figures["auroc"] is not None else " Needs scores; this seeker gave labels only."
    return [
        row("score", "Re-identification score", figures["chance"], "Share of all stays labelled rightly.", _three),
        row("members_found_rate", "Members found", named, "Chance: naming as many stays blindly.", percent,
            f"{figures['members_found']:,} of {figures['members']:,}"),
        row("false_alarm_rate", "Non-members wrongly named", named, "The false alarms.", percent,
            f"{figures['false_alarms']:,} of {figures['non_members']:,}"),
        row("advantage", "Advantage", 0, "Members found minus non-members wrongly named, as shares.", _three),
        row("auroc", "AUROC", 0.5, "How often a member is scored above a non-member." + no_scores, _three),
        row("tpr_at_1_percent_fpr", "Members found at 1 % false positives", 0.01,
            "The members that can be named with few errors." + no_scores, percent),
    ]  # fmt: skip


def _seeker_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the table of all seekers, strongest first: name, duration, and each figure with its interval, as text."""
    shown = (("score", _three), ("auroc", _three), ("tpr_at_1_percent_fpr", percent))
    rows = []
    for seeker in result.get("seekers", ()):
        cells = []
        for key, show in shown:
            value, interval = (seeker["reidentification"][f"{key}{end}"] for end in ("", "_ci95"))
            told = ("-", "") if value is None else (show(value), f"{show(interval[0])} to {show(interval[1])}")
            cells.append(told)
        seconds = f"{seeker['seconds']:,.0f} s"
        rows.append(
            {"name": seeker["name"], "cells": cells, "by_chance": percent(seeker["p_value"]), "seconds": seconds}
        )
    return rows


# --- plots ---


def _rates_plot(result: Mapping[str, Any]) -> Markup:
    figures = result["reidentification"]
    named = {
        "score": ("score", figures["chance"]),
        "auroc": ("AUROC", 0.5),
        "tpr_at_1_percent_fpr": ("found at 1 % FPR", 0.01),
    }
    return plots.rates_plot(
        [
            plots.Rate(name, figures[key], figures[f"{key}_ci95"], chance)
            for key, (name, chance) in named.items()
            if figures[key] is not None
        ]
    )


def _seekers_plot(result: Mapping[str, Any]) -> Markup | None:
    rows = [(seeker["name"], seeker["reidentification"]) for seeker in result.get("seekers", ())]
    rates = [plots.Rate(name, row["score"], row["score_ci95"], row["chance"]) for name, row in rows]
    return plots.seekers_plot(rates) if rates else None


def _distances_plot(arrays: ReportArrays) -> Markup | None:
    members, non_members = finite_distances(arrays)
    return plots.distances_plot(members, non_members) if len(members) and len(non_members) else None


def _roc_plot(result: Mapping[str, Any], arrays: ReportArrays) -> Markup | None:
    tpr_at_1_percent = result["reidentification"]["tpr_at_1_percent_fpr"]
    if arrays.scores is None or tpr_at_1_percent is None:
        return None
    fpr, tpr = statistics.roc_curve(arrays.labels, arrays.scores)
    return plots.roc_plot(fpr, tpr, tpr_at_1_percent, result["reidentification"]["non_members"])


def _stay_plot(names: Sequence[str], arrays: ReportArrays) -> Markup | None:
    """The most observed features of the one stay, the generated stay beside them."""
    original = arrays.original_stay[~arrays.original_stay_padded]
    generated = arrays.generated_stay[~arrays.generated_stay_padded]
    observed = np.isfinite(original[:, 1:]).sum(axis=0)
    shown = 1 + np.sort(np.argsort(-observed, kind="stable")[:_SERIES_SHOWN])
    shown = shown[observed[shown - 1] > 0]
    if not len(shown):
        return None
    times = [_since_first(stay[:, 0]) for stay in (original, generated)]
    return plots.stay_plot([names[k] for k in shown], *times, original[:, shown], generated[:, shown])


def _since_first(time: FloatArray) -> FloatArray:
    """Return the time since the earliest row, or row numbers if no time is known."""
    known = np.isfinite(time)
    return time - time[known].min() if known.any() else np.arange(len(time), dtype=np.float64)


def _marginals(names: Sequence[str], arrays: ReportArrays) -> list[dict[str, Any]]:
    """A small plot a feature, those whose distributions differ most first. Of very many features only those."""
    drawn = []
    for index, edges, original, generated in arrays.histograms:
        if all(np.isfinite(values).all() for values in (edges, original, generated)) and edges[0] < edges[-1]:
            differs = 0.5 * float(np.abs(original - generated) @ np.diff(edges))
            drawn.append((-round(differs, 4), index, edges, original, generated))
    drawn.sort(key=lambda item: item[:2])
    return [
        {
            "name": names[index],
            "differs": percent(min(-differs, 1.0)),
            "plot": plots.marginal_plot(index, names[index], edges, original, generated),
        }
        for differs, index, edges, original, generated in drawn[:_MARGINALS_DRAWN]
    ]


# --- text ---


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:] + "."


def _three(value: float) -> str:
    return f"{value:.3f}"


def _moment(created: str) -> str:
    return created.replace("T", " ").replace("+00:00", " UTC")


_FOLDERS = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:|file://)?[/\\](?:[^\s/\\:'\"]+[/\\])+")


def _presentable(value: Any) -> Any:
    """A copy for the page: numbers that are not finite become None, absolute paths lose their folders."""
    if isinstance(value, Mapping):
        return {key: _presentable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_presentable(item) for item in value]
    if isinstance(value, Path):
        return value.name
    if isinstance(value, str):
        for path in (PurePosixPath(value), PureWindowsPath(value)):
            if path.is_absolute() and path.name:
                return path.name
        return _FOLDERS.sub("", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
