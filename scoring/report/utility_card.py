"""The utility part of a match's page: kept utility first, the checks of 2020 below under their own name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from scoring.report import plots
from scoring.report.texts import number, percent
from scoring.report.utility_clauses import has_checks
from scoring.report.utility_plots import StaysBeside, beside_plot, families_plot

_ERRORS_SHOWN = 20  # features in the one-step-ahead plot. The table has all
_FEATURES_BESIDE = 4


def utility_context(result: Mapping[str, Any], names: Sequence[str], beside: StaysBeside | None) -> dict[str, Any]:
    """Return what the template of the card needs."""
    utility = result["utility"] or {}
    kept = utility.get("kept")
    return {
        "kept": kept,
        "kept_families": _family_rows(kept) if kept else [],
        "kept_beside": _beside_lines(kept),
        "kept_plot": families_plot(kept["headline"], kept["families"]) if kept else None,
        "beside_plot": _beside_plot(names, beside),
        "checked": has_checks(result),
        "checks": _checks(utility),
        "checks_plots": _checks_plots(utility),
        "ahead_plot": _ahead_plot(utility),
    }


def _family_rows(kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for family in kept["families"]:
        value = family["kept"]["value"]
        tasks = [task for task in kept["tasks"] if task["family"] == family["name"]]
        rows.append(
            {
                "name": family["name"],
                "kept": "-" if value is None else f"{value:.2f}",
                "interval": "" if value is None else f"{family['kept']['low']:.2f} to {family['kept']['high']:.2f}",
                "unclipped": family["unclipped"],
                "reason": family["reason"],
                "counted": family["tasks"],
                "tasks": [task | {"says": _says(task)} for task in tasks],
            }
        )
    return rows


def _beside_lines(kept: Mapping[str, Any] | None) -> list[str]:
    """Say what is no part of the headline: could you tell, and do conclusions carry over."""
    beside = (kept or {}).get("beside")
    if not beside:
        return []
    told, distance, conclusions = beside["real_or_generated"], beside["context_fid"], beside["conclusions"]
    areas = [
        f"{figure['auroc']:.3f} ({figure['auroc_ci95'][0]:.3f} to {figure['auroc_ci95'][1]:.3f}) {name}"
        for name, figure in (
            ("on values, rates and lengths", told["with_missingness"]),
            ("on values alone", told["without_missingness"]),
        )
        if figure is not None
    ]
    lines = []
    if areas:
        lines.append(
            f"Real or generated? A classifier on summaries reaches an AUROC of {', '.join(areas)}. 0.5 is best."
        )
    lines.append(
        f"Context-FID with a fixed random encoder: {number(distance['release'])}. Other real stays: "
        f"{number(distance['other_real_stays'])}. Independent columns: {number(distance['independent_columns'])}."
    )
    inside, signs = conclusions["inside"], conclusions["same_sign"]
    if inside["release"] is not None:
        lines.append(
            f"Conclusions: {percent(inside['release'])} of {conclusions['coefficients']} regression coefficients lie "
            f"in the real one's 95 % interval (other real stays: {percent(inside['other_real_stays'])}, independent "
            f"columns: {percent(inside['independent_columns'])})."
        )
    if signs["release"] is not None:
        lines.append(
            f"Of the {conclusions['sure']} whose real interval leaves out 0, {percent(signs['release'])} have the real "
            f"sign (other real stays: {percent(signs['other_real_stays'])})."
        )
    return lines


def _says(task: Mapping[str, Any]) -> str:
    if task["too_few"]:
        return "too few stays to judge"
    return "" if task["counts"] else "other real stays do not answer it either"


def _steps(stay: np.ndarray) -> np.ndarray:
    """Return how far each value lies from the feature's mean over the stay; time left out."""
    values = stay[:, 1:]
    known = np.isfinite(values)
    return values - np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


def _beside_plot(names: Sequence[str], beside: StaysBeside | None) -> Markup | None:
    """The features that the real stays shown have most often, so far as they change."""
    if beside is None or not beside.real:
        return None
    # Changes, and not values: a column that stays the same has nothing to show.
    observed = np.sum([(np.isfinite(step) & (step != 0)).sum(axis=0) for step in map(_steps, beside.real)], axis=0)
    chosen = 1 + np.sort(np.argsort(-observed, kind="stable")[:_FEATURES_BESIDE])
    chosen = chosen[observed[chosen - 1] > 0]
    return beside_plot(names, [int(feature) for feature in chosen], beside) if len(chosen) else None


# --- the 2020 checks ---


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
