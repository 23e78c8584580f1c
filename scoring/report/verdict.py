"""What a match found, in sentences that a data custodian can act on."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from scoring.report.texts import holds, percent, player_named
from scoring.report.utility_clauses import utility_clauses
from scoring.statistics import corrected_tail

_ONE_IN_A_THOUSAND = 0.001
_FEWEST_FOR_TPR = 500  # non-members, below which 1 % of them is a handful
_SCARCE = 0.05  # a p-value up to this shows a leak


def verdict(result: Mapping[str, Any]) -> str:
    """One sentence a data custodian can act on.

    It says who was found and how surely, whether that differs from chance, what the scores add, which utility checks
    pass, and that one attack proves nothing.

    Parameters
    ----------
    result : dict
        The match as in report.json, with the `reidentification` of `statistics.reidentification` and, where it was
        measured, the `distance` of `distance_figures`. `verdict` itself need not be there.
    """
    return "; ".join([labels_clause(result), *other_clauses(result)]) + "."


def evidence(result: Mapping[str, Any]) -> Literal["none", "signs", "leak"]:
    """How surely anything tells members from non-members.

    "signs" where a 95 % interval leaves chance out: of several figures looked at, one in eight data sets shows as much
    by luck. If many seekers were played, their intervals are corrected for their number, and "signs" is also said where
    chance alone makes an attack look as strong as the worst in at most 5 of 100 cases. "leak" where one lies as far
    from chance as luck puts one figure in a thousand, or where members, and no others, were generated unchanged. An
    advantage or AUROC below chance counts too: turned around, it is above.
    """
    distance = result.get("distance") or {}
    found = []  # (figure, its interval, chance, whether below chance counts)
    rows = result.get("seekers") or [result]
    for figures in (row["reidentification"] for row in rows):
        for name, chance, both in (
            ("score", figures["chance"], False),
            ("advantage", 0.0, True),
            ("auroc", 0.5, True),
            ("tpr_at_1_percent_fpr", 0.01, False),
        ):
            if figures[name] is not None:
                found.append((figures[name], figures[f"{name}_ci95"], chance, both))
    copies = bool(distance) and distance["members_unchanged"] > 0 and distance["non_members_unchanged"] == 0
    nearness = [(distance["auroc"], distance["auroc_ci95"], 0.5, True)] if distance else []
    if (
        copies
        or any(_beyond(*figure, widths=_widths(len(rows))) for figure in found)
        or any(_beyond(*figure, widths=_widths(1)) for figure in nearness)
    ):
        return "leak"
    if len(rows) == 1:  # beside many attacks, one figure more that leaves chance out by a little says nothing
        found += nearness
    scarce = "worst" in result and result["worst"]["p_value"] <= _SCARCE
    return "signs" if scarce or any(_beyond(*figure, widths=1.0) for figure in found) else "none"


def _widths(comparisons: int) -> float:
    """Half intervals that luck puts between a figure and chance once in a thousand, among so many attacks."""
    tails = np.array([_ONE_IN_A_THOUSAND, 2 * corrected_tail(1)]) / 2 / comparisons
    strict, usual = -ndtri(tails)
    return float(strict / usual)


def leaks(result: Mapping[str, Any]) -> bool:
    """Whether a 95 % interval leaves chance out, or members were generated unchanged."""
    return evidence(result) != "none"


# What a figure whose interval leaves chance out is called, in the words of the page's headline.
_CALLED = {
    "leak": "which is a leak",
    "signs": "which is a sign of a leak and possibly luck",
    "none": "which luck explains among so many attacks",
}


def _called(result: Mapping[str, Any]) -> str:
    return _CALLED[evidence(result)]


def _beyond(value: float, interval: Sequence[float], chance: float, both: bool, widths: float) -> bool:
    """Whether `chance` is more than `widths` half intervals below `value` (or above it, where `both`)."""
    above = value - chance > widths * (value - interval[0])
    return above or (both and chance - value > widths * (interval[1] - value))


# --- the verdict, clause by clause ---


def labels_clause(result: Mapping[str, Any]) -> str:
    """Say whom the seeker found, and whether that differs from chance."""
    figures = result["reidentification"]
    score, chance, (low, high) = figures["score"], figures["chance"], figures["score_ci95"]
    seekers = len(result.get("seekers", ()))
    who = (
        f"the worst of {seekers} seekers, {result['seeker']['name']},"
        if seekers > 1
        else player_named("seeker", result["seeker"])
    )
    clause = (
        f"{who} found {figures['members_found']:,} of {figures['members']:,} members "
        f"and wrongly named {figures['false_alarms']:,} of {figures['non_members']:,} non-members, and its "
        f"re-identification score of {score:.3f} (95 % interval {low:.3f} to {high:.3f}"
        f"{', corrected for the number of seekers' if seekers > 1 else ''}) is "
    )
    if low > chance:
        clause += f"{score - chance:.3f} above chance ({chance:.3f})"
        sure = evidence(result) == "leak"
        return clause + (": the generated data gives members away" if sure else f", {_called(result)}")
    if high < chance:
        clause += f"{chance - score:.3f} below chance ({chance:.3f})"
    else:
        clause += f"indistinguishable from chance ({chance:.3f})"
    if figures["advantage_ci95"][0] > 0:
        rates = f"{percent(figures['members_found_rate'])} against {percent(figures['false_alarm_rate'])}"
        clause += f", yet it names members more often than non-members ({rates}), {_called(result)}"
    elif figures["advantage_ci95"][1] < 0:
        clause += ", yet its labels point the wrong way: turned around they tell members from non-members, "
        clause += _called(result)
    return clause


def other_clauses(result: Mapping[str, Any]) -> list[str]:
    """Say what the scores, the distances and the utility checks add, and what one attack does not prove."""
    clauses = [_scores_clause(result), _many_clause(result), _distance_clause(result)]
    clauses += [*utility_clauses(result), _caveat(result)]
    return [clause for clause in clauses if clause]


def _scores_clause(result: Mapping[str, Any]) -> str:
    figures = result["reidentification"]
    if figures["auroc"] is None:
        return "it gave labels and no scores, so how surely single members can be named is not known"
    area, (area_low, area_high) = figures["auroc"], figures["auroc_ci95"]
    tpr, (tpr_low, tpr_high) = figures["tpr_at_1_percent_fpr"], figures["tpr_at_1_percent_fpr_ci95"]
    clause = f"its scores reach an AUROC of {area:.3f} ({area_low:.3f} to {area_high:.3f}; chance 0.500)"
    if area_high < 0.5:
        clause += f" and point the wrong way: turned around they tell members from non-members, {_called(result)}"
    elif area_low > 0.5:
        clause += f", {_called(result)},"
    clause += (
        f" and find {percent(tpr)} of members ({percent(tpr_low)} to {percent(tpr_high)}; chance 1.0 %) "
        "at 1 % false positives"
    )
    if tpr_low > 0.01:
        clause += f", {_called(result)}"
    elif figures["non_members"] < _FEWEST_FOR_TPR:
        clause += f" ({figures['non_members']:,} non-members are too few to say this exactly)"
    elif holds((area_low, area_high), 0.5):
        clause += ", neither surely above chance"
    return clause


def _many_clause(result: Mapping[str, Any]) -> str:
    """Say whether chance explains the worst of many attacks, who found more by another figure, and who did not play."""
    worst = result.get("worst")
    if worst is None:
        return ""
    attacks = worst["attacks"]
    among = f"the worst of {attacks} attacks" if attacks > 1 else "the only attack"
    by_chance = percent(worst["p_value"])
    clause = f"if the generated data told nothing, {among} would look as strong as this in at most {by_chance} of cases"
    clause += f", {_called(result)}" if worst["p_value"] <= _SCARCE else ""
    figures = result["reidentification"]
    for figure, name, show in (
        ("score", "re-identification score", "{:.3f}".format),
        ("auroc", "AUROC", "{:.3f}".format),
        ("tpr_at_1_percent_fpr", "share of members at 1 % false positives", percent),
    ):
        best = worst["highest"][figure]
        if best and best["seeker"] != worst["seeker"] and best["value"] > (figures[figure] or 0):
            clause += f"; the highest {name} is that of {best['seeker']}, {show(best['value'])}"
    left = [row["name"] for row in result.get("not_played", ())]
    if left:
        clause += f"; not played, and so not ruled out: {', '.join(left)}"
    return clause


def _caveat(result: Mapping[str, Any]) -> str:
    seekers = len(result.get("seekers", ()))
    attacks = f"these are {seekers} attacks" if seekers > 1 else "this is one attack"
    return f"{attacks} on one data set, not proof of safety: another attack may find more"


def _distance_clause(result: Mapping[str, Any]) -> str:
    """Only where there is a leak: distances at chance are no comfort."""
    distance = result.get("distance")
    if distance is None or not distance["leaks"] or ("worst" in result and evidence(result) == "none"):
        return ""  # beside many attacks, one figure more that leaves chance out by a little says nothing
    low, high = distance["auroc_ci95"]
    clause = (
        f"mere nearness to the generated data tells members from non-members, {_called(result)}: "
        f"AUROC {distance['auroc']:.3f} ({low:.3f} to {high:.3f}; chance 0.500)"
    )
    return clause + (f", and {unchanged(distance)}" if distance["members_unchanged"] else "")


def unchanged(distance: Mapping[str, Any]) -> str:
    """Say how many stays were generated all but unchanged."""
    members, others = (
        f"{distance[f'{group}_unchanged']:,} of {distance[group]:,} {group.replace('_', '-')}"
        for group in ("members", "non_members")
    )
    return f"{members} and {others} measured were generated all but unchanged"
