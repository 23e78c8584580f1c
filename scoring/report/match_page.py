"""What a match found, for a person to read: the verdict in a sentence and one self-contained HTML file."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, TypeAlias

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from scoring import files, statistics
from scoring.report import plots
from scoring.report.projections import Projection

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Histogram: TypeAlias = tuple[int, FloatArray, FloatArray, FloatArray]

_SERIES_SHOWN = 4  # features of the one stay
_ERRORS_SHOWN = 20  # features in the one-step-ahead plot; the table has all
_MARGINALS_SHOWN = 12  # the rest unfold on a click
_FAILURES_NAMED = 3  # in the verdict
_ONE_IN_A_THOUSAND = 3.29 / 1.96  # of a normal figure's 95 % half intervals
_FEWEST_FOR_TPR = 500  # non-members, below which 1 % of them is a handful
_UNCHANGED = 0.001  # distance below which a stay counts as copied; single precision alone gives 0.0002
_CAVEAT = "this is one attack on one data set, not proof of safety: another attack may find more"


@dataclass(frozen=True)
class ReportArrays:
    """What the report's plots are drawn from.

    Attributes
    ----------
    member_distances, non_member_distances : [n1] and [n2] float
        Distance of (a sample of) the member and non-member stays to the nearest generated stay: root mean square
        per cell, values scaled, without time. May be empty.
    original_stay, generated_stay : [T, F] float
        One stay in original units, feature 0 = time, NaN = missing.
    original_stay_padded, generated_stay_padded : [T] bool
        True where a row is padding.
    histograms : list of (feature index, [B + 1] bin edges, [B] original density, [B] generated density)
        For every feature with observed values; in original units.
    labels : [n] bool
        True for members.
    scores : [n] float, optional
        The seeker's scores, higher meaning more likely a member.
    projections : dict of str to Projection
        Members and generated stays as points in a plane, by method.
    """

    member_distances: FloatArray
    non_member_distances: FloatArray
    original_stay: FloatArray
    generated_stay: FloatArray
    original_stay_padded: BoolArray
    generated_stay_padded: BoolArray
    histograms: Sequence[Histogram]
    labels: BoolArray
    scores: FloatArray | None = None
    projections: Mapping[str, Projection] = field(default_factory=dict)


def verdict(result: Mapping[str, Any]) -> str:
    """One sentence a data custodian can act on.

    It says who was found and how surely, whether that differs from chance, what the scores add, which utility checks
    pass, and that one attack proves nothing.

    Parameters
    ----------
    result : dict
        The match as in report.json, with the `reidentification` of `statistics.reidentification` and, where it was
        measured, the `distance` of `distance_figures`; `verdict` itself need not be there.
    """
    return "; ".join([_labels_clause(result), *_other_clauses(result)]) + "."


def evidence(result: Mapping[str, Any]) -> Literal["none", "signs", "leak"]:
    """How surely anything tells members from non-members.

    "signs" where a 95 % interval leaves chance out: of several figures looked at, one in eight data sets shows as much
    by luck. "leak" where one lies as far from chance as luck puts one figure in a thousand, or where members, and no
    others, were generated unchanged. An advantage or AUROC below chance counts too: turned around, it is above.
    """
    figures, distance = result["reidentification"], result.get("distance") or {}
    found = []  # (figure, its interval, chance, whether below chance counts)
    for name, chance, both in (
        ("score", figures["chance"], False),
        ("advantage", 0.0, True),
        ("auroc", 0.5, True),
        ("tpr_at_1_percent_fpr", 0.01, False),
    ):
        if figures[name] is not None:
            found.append((figures[name], figures[f"{name}_ci95"], chance, both))
    if distance:
        found.append((distance["auroc"], distance["auroc_ci95"], 0.5, True))
    copies = bool(distance) and distance["members_unchanged"] > 0 and distance["non_members_unchanged"] == 0
    if copies or any(_beyond(*figure, widths=_ONE_IN_A_THOUSAND) for figure in found):
        return "leak"
    return "signs" if any(_beyond(*figure, widths=1.0) for figure in found) else "none"


def leaks(result: Mapping[str, Any]) -> bool:
    """Whether a 95 % interval leaves chance out, or members were generated unchanged."""
    return evidence(result) != "none"


def _beyond(value: float, interval: Sequence[float], chance: float, both: bool, widths: float) -> bool:
    """Whether `chance` is more than `widths` half intervals below `value` (or above it, where `both`)."""
    above = value - chance > widths * (value - interval[0])
    return above or (both and chance - value > widths * (interval[1] - value))


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
        Where the file cannot be written; an earlier report is then as it was.
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
    environment.filters |= {"number": _number, "ratio": _ratio, "moment": _moment}
    utility = result["utility"] or {}
    page = environment.get_template("report.html").render(
        result=result,
        clauses=[_sentence(clause) for clause in _other_clauses(result)],
        finding=_sentence(_labels_clause(result)),
        evidence=evidence(result),
        rates=_rate_rows(result),
        rates_plot=_rates_plot(result),
        checks=_checks(utility),
        checks_plots=_checks_plots(utility),
        ahead_plot=_ahead_plot(utility),
        distance=result["distance"],
        unchanged=_unchanged(result["distance"]) if result["distance"] else "",
        distances_plot=_distances_plot(arrays),
        roc_plot=_roc_plot(result, arrays),
        projections_plot=plots.projections_plot(arrays.projections) if arrays.projections else None,
        stay_plot=_stay_plot(names, arrays),
        marginals=_marginals(names, arrays),
        marginals_shown=_MARGINALS_SHOWN,
    )
    files.write_text(path, page)


def distance_figures(arrays: ReportArrays) -> dict[str, Any] | None:
    """What the distances to the generated data give away without any seeker; `distance` in report.json.

    Returns
    -------
    dict or None
        `auroc` and `auroc_ci95` of telling members from non-members by nearness; `members`, `non_members`: how many
        were measured; `members_unchanged`, `non_members_unchanged`: how many of them lie within 0.001 (a thousandth of
        a feature's range, root mean square) of a generated stay; `leaks`: whether the interval leaves 0.5 out, or
        members are there unchanged and no non-member is. None where there are no distances.
    """
    members, non_members = _finite_distances(arrays)
    if not len(members) or not len(non_members):
        return None
    is_member = np.arange(len(members) + len(non_members)) < len(members)
    area, interval = statistics.auroc(is_member, -np.concatenate([members, non_members]))
    copies, coincidences = (int((distances < _UNCHANGED).sum()) for distances in (members, non_members))
    return {
        "auroc": area,
        "auroc_ci95": list(interval),
        "members": len(members),
        "non_members": len(non_members),
        "members_unchanged": copies,
        "non_members_unchanged": coincidences,
        "leaks": not _holds(interval, 0.5) or (copies > 0 and coincidences == 0),
    }


def _finite_distances(arrays: ReportArrays) -> tuple[FloatArray, FloatArray]:
    members, non_members = (d[np.isfinite(d)] for d in (arrays.member_distances, arrays.non_member_distances))
    return members, non_members


# --- the verdict, clause by clause ---


def _labels_clause(result: Mapping[str, Any]) -> str:
    figures = result["reidentification"]
    score, chance, (low, high) = figures["score"], figures["chance"], figures["score_ci95"]
    clause = (
        f"the seeker {result['seeker']['name']} found {figures['members_found']:,} of {figures['members']:,} members "
        f"and wrongly named {figures['false_alarms']:,} of {figures['non_members']:,} non-members, and its "
        f"re-identification score of {score:.3f} (95 % interval {low:.3f} to {high:.3f}) is "
    )
    if low > chance:
        return clause + f"{score - chance:.3f} above chance ({chance:.3f}): the generated data gives members away"
    if high < chance:
        clause += f"{chance - score:.3f} below chance ({chance:.3f})"
    else:
        clause += f"indistinguishable from chance ({chance:.3f})"
    if figures["advantage_ci95"][0] > 0:
        rates = f"{_percent(figures['members_found_rate'])} against {_percent(figures['false_alarm_rate'])}"
        clause += f", yet it names members more often than non-members ({rates}), which is a leak"
    elif figures["advantage_ci95"][1] < 0:
        clause += (
            ", yet its labels point the wrong way: turned around they tell members from non-members, which is a leak"
        )
    return clause


def _other_clauses(result: Mapping[str, Any]) -> list[str]:
    clauses = [_scores_clause(result), _distance_clause(result), _utility_clause(result), _CAVEAT]
    return [clause for clause in clauses if clause]


def _scores_clause(result: Mapping[str, Any]) -> str:
    figures = result["reidentification"]
    if figures["auroc"] is None:
        return "it gave labels and no scores, so how surely single members can be named is not known"
    area, (area_low, area_high) = figures["auroc"], figures["auroc_ci95"]
    tpr, (tpr_low, tpr_high) = figures["tpr_at_1_percent_fpr"], figures["tpr_at_1_percent_fpr_ci95"]
    clause = f"its scores reach an AUROC of {area:.3f} ({area_low:.3f} to {area_high:.3f}; chance 0.500)"
    if area_high < 0.5:
        clause += " and point the wrong way: turned around they tell members from non-members, which is a leak"
    elif area_low > 0.5:
        clause += ", which is a leak,"
    clause += (
        f" and find {_percent(tpr)} of members ({_percent(tpr_low)} to {_percent(tpr_high)}; chance 1.0 %) "
        "at 1 % false positives"
    )
    if tpr_low > 0.01:
        clause += ", which is a leak"
    elif figures["non_members"] < _FEWEST_FOR_TPR:
        clause += f", of which {figures['non_members']:,} non-members are too few to tell much"
    elif _holds((area_low, area_high), 0.5):
        clause += ", neither surely above chance"
    return clause


def _distance_clause(result: Mapping[str, Any]) -> str:
    """Only where there is a leak: distances at chance are no comfort."""
    distance = result.get("distance")
    if distance is None or not distance["leaks"]:
        return ""
    low, high = distance["auroc_ci95"]
    clause = (
        "mere nearness to the generated data tells members from non-members, which is a leak: "
        f"AUROC {distance['auroc']:.3f} ({low:.3f} to {high:.3f}; chance 0.500)"
    )
    return clause + (f", and {_unchanged(distance)}" if distance["members_unchanged"] else "")


def _unchanged(distance: Mapping[str, Any]) -> str:
    members, others = (
        f"{distance[f'{group}_unchanged']:,} of {distance[group]:,} {group.replace('_', '-')}"
        for group in ("members", "non_members")
    )
    return f"{members} and {others} measured were generated all but unchanged"


def _utility_clause(result: Mapping[str, Any]) -> str:
    utility = result["utility"]
    if utility is None:
        return f"utility was not checked ({result.get('utility_skipped') or 'the checks were skipped'})"
    predictions, ahead = utility["feature_prediction"], utility["one_step_ahead"]
    if predictions is None:
        clause = "utility: feature prediction was skipped"
    else:
        failed = [_failure(row) for row in predictions if not row["passed"]]
        clause = f"utility: {len(predictions) - len(failed)} of {len(predictions)} feature predictions pass"
        if failed:
            more = len(failed) - _FAILURES_NAMED
            named = ", ".join(failed[:_FAILURES_NAMED]) + (f" and {more} more" if more > 0 else "")
            clause += f" ({named})"
    if ahead is None:
        return clause + f", one-step-ahead prediction was skipped{_untrained(utility)}"
    clause += f", one-step-ahead prediction {'passes' if ahead['passed'] else 'fails'}"
    without_time = utility["one_step_ahead_without_time"]
    details = [f"{_ratio(ahead['ratio'])} the original's error"]
    if without_time is not None:
        details.append(f"{_ratio(without_time['ratio'])} with time left out")
    return f"{clause} ({', '.join(details)}){_untrained(utility)}"


def _untrained(utility: Mapping[str, Any]) -> str:
    """Say where the predictors learnt nothing from the original data either: then a pass means nothing."""
    rows = [*(utility["feature_prediction"] or []), utility["one_step_ahead_without_time"]]
    rows = [row for row in rows if row is not None and row.get("constant") is not None]
    useless = sum(not row["better_than_constant"] for row in rows)
    if not useless:
        return ""
    return (
        f", but {useless} of {len(rows)} predictors trained on the original data are no better than a constant guess, "
        "and passing those says nothing: more stays are needed to judge utility"
    )


def _failure(row: Mapping[str, Any]) -> str:
    if row["metric"] == "RMSE":
        return f"{row['name']} fails with {_ratio(row['ratio'])} the original's error"
    return (
        f"{row['name']} fails with an {row['metric']} of {_number(row['generated'])} against {_number(row['original'])}"
    )


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
        row("members_found_rate", "Members found", named, "Chance: naming as many stays blindly.", _percent,
            f"{figures['members_found']:,} of {figures['members']:,}"),
        row("false_alarm_rate", "Non-members wrongly named", named, "The false alarms.", _percent,
            f"{figures['false_alarms']:,} of {figures['non_members']:,}"),
        row("advantage", "Advantage", 0, "Members found minus non-members wrongly named, as shares.", _three),
        row("auroc", "AUROC", 0.5, "How often a member is scored above a non-member." + no_scores, _three),
        row("tpr_at_1_percent_fpr", "Members found at 1 % false positives", 0.01,
            "The members that can be named with few errors." + no_scores, _percent),
    ]  # fmt: skip


def _checks(utility: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The utility table: one row a judged check, then what is shown beside them."""
    rows = [
        row | {"check": f"Predict {row['name']}", "judged": True} for row in utility.get("feature_prediction") or []
    ]
    ahead, without_time = utility.get("one_step_ahead"), utility.get("one_step_ahead_without_time")
    if ahead is not None:
        rows.append(ahead | {"check": "One-step-ahead", "metric": "RMSE", "judged": True})
    if without_time is not None:
        rows.append(without_time | {"check": "One-step-ahead without time", "metric": "RMSE", "judged": False})
    unknown = {"constant": None, "better_than_constant": True}
    return [unknown | row for row in rows]


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


def _drawable(row: Mapping[str, Any], metric: str) -> bool:
    scores = (row["original"], row["generated"])
    return all(score is not None and (score > 0 or metric != "RMSE") for score in scores)


def _checks_plots(utility: Mapping[str, Any]) -> list[Markup]:
    """The judged checks: RMSEs and, where a feature is binary, AUROCs."""
    judged = [row for row in _checks(utility) if row["judged"]]
    drawn = []
    for metric, limit in (("RMSE", "rmse_threshold"), ("AUROC", "auroc_threshold")):
        rows = [
            row | {"name": row.get("name", "one-step-ahead")}
            for row in judged
            if row["metric"] == metric and _drawable(row, metric)
        ]
        if rows:
            title = f"Utility checks, {metric} when trained on original and on generated data"
            drawn.append(plots.errors_plot(f"checks-{metric.lower()}", title, rows, metric, utility[limit]))
    return drawn


def _ahead_plot(utility: Mapping[str, Any]) -> Markup | None:
    """One-step-ahead per feature, the features where the generated data does worst first."""
    rows = [row for row in utility.get("one_step_ahead_per_feature") or [] if _drawable(row, "RMSE")]
    rows.sort(key=lambda row: row["original"] / row["generated"])
    without_time = utility.get("one_step_ahead_without_time")
    if without_time is not None and _drawable(without_time, "RMSE"):
        rows.insert(0, without_time | {"name": "all but time"})
    if not rows:
        return None
    title = "One-step-ahead error per feature, when trained on original and on generated data"
    return plots.errors_plot("ahead", title, rows[: _ERRORS_SHOWN + 1], "RMSE", None)


def _distances_plot(arrays: ReportArrays) -> Markup | None:
    members, non_members = _finite_distances(arrays)
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
    """Time since the earliest row; row numbers where no time is known."""
    known = np.isfinite(time)
    return time - time[known].min() if known.any() else np.arange(len(time), dtype=np.float64)


def _marginals(names: Sequence[str], arrays: ReportArrays) -> list[dict[str, Any]]:
    """A small plot a feature, those whose distributions differ most first."""
    drawn = []
    for index, edges, original, generated in arrays.histograms:
        if all(np.isfinite(values).all() for values in (edges, original, generated)) and edges[0] < edges[-1]:
            differs = 0.5 * float(np.abs(original - generated) @ np.diff(edges))
            drawn.append((-round(differs, 4), index, edges, original, generated))
    drawn.sort(key=lambda item: item[:2])
    return [
        {
            "name": names[index],
            "differs": _percent(min(-differs, 1.0)),
            "plot": plots.marginal_plot(index, names[index], edges, original, generated),
        }
        for differs, index, edges, original, generated in drawn
    ]


# --- text ---


def _holds(interval: Sequence[float], value: float) -> bool:
    return interval[0] <= value <= interval[1]


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:] + "."


def _three(value: float) -> str:
    return f"{value:.3f}"


def _moment(created: str) -> str:
    return created.replace("T", " ").replace("+00:00", " UTC")


def _percent(rate: float) -> str:
    return "under 0.1 %" if 0 < rate < 0.0005 else f"{100 * rate:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} x" if value < 100 else f"{value:.3g} x"


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
