"""What the verdict says of utility."""

from collections.abc import Mapping
from typing import Any

from scoring.report.texts import number, ratio

_FAILURES_NAMED = 3  # in the verdict


def utility_clauses(result: Mapping[str, Any]) -> list[str]:
    """Say in the verdict what is kept, and how the 2020 checks went."""
    clauses = [_kept_clause(kept)] if (kept := (result["utility"] or {}).get("kept")) else []
    return [*clauses, _checks_clause(result)]


def has_checks(result: Mapping[str, Any]) -> bool:
    """Return whether the 2020 checks were run."""
    return "passed" in (result["utility"] or {})


def _kept_clause(kept: Mapping[str, Any]) -> str:
    headline = kept["headline"]
    if headline["value"] is None:
        return "too few stays to judge kept utility: nothing is known about what the generated data is good for"
    judged = [family for family in kept["families"] if family["kept"]["value"] is not None]
    best = max(judged, key=lambda family: family["kept"]["value"])
    worst = min(judged, key=lambda family: family["kept"]["value"])
    return (
        f"kept utility is {_figure(headline)}, where 1 is as good as other real stays and 0 is a constant "
        f"(most in {best['name']}, {best['kept']['value']:.2f}, least in {worst['name']}, {worst['kept']['value']:.2f})"
    )


def _figure(kept: Mapping[str, Any]) -> str:
    return f"{kept['value']:.2f} ({kept['low']:.2f} to {kept['high']:.2f})"


def _checks_clause(result: Mapping[str, Any]) -> str:
    utility = result["utility"]
    if not has_checks(result):
        return f"the 2020 checks of utility were not run ({result.get('utility_skipped') or 'the checks were skipped'})"
    predictions, ahead = utility["feature_prediction"], utility["one_step_ahead"]
    if predictions is None:
        clause = "2020 checks: feature prediction was skipped"
    else:
        failed = [_failure(row) for row in predictions if row["passed"] is False]
        passed = sum(row["passed"] is True for row in predictions)
        clause = f"2020 checks: {passed} of {len(predictions)} feature predictions pass"
        if failed:
            more = len(failed) - _FAILURES_NAMED
            named = ", ".join(failed[:_FAILURES_NAMED]) + (f" and {more} more" if more > 0 else "")
            clause += f" ({named})"
    if ahead is None:
        return clause + f", one-step-ahead prediction was skipped{_untrained(utility)}"
    clause += f", one-step-ahead prediction {_outcome(ahead['passed'])}"
    without_time = utility["one_step_ahead_without_time"]
    details = [f"{ratio(ahead['ratio'])} the original's error"]
    if without_time is not None:
        details.append(f"{ratio(without_time['ratio'])} with time left out")
    return f"{clause} ({', '.join(details)}){_untrained(utility)}"


def _outcome(passed: bool | None) -> str:
    return "is void" if passed is None else "passes" if passed else "fails"


def _untrained(utility: Mapping[str, Any]) -> str:
    """Say how many checks are void: the original's predictors learnt nothing there either."""
    rows = [*(utility["feature_prediction"] or []), utility["one_step_ahead_without_time"]]
    rows = [row for row in rows if row is not None and row.get("constant") is not None]
    void = sum(not row["better_than_constant"] for row in rows)
    if not void:
        return ""
    return (
        f", but {void} of {len(rows)} are void: the predictors trained on the original data are no better than a "
        "constant guess, however often they were begun anew"
    )


def _failure(row: Mapping[str, Any]) -> str:
    if row["metric"] == "RMSE":
        return f"{row['name']} fails with {ratio(row['ratio'])} the original's error"
    return (
        f"{row['name']} fails with an {row['metric']} of {number(row['generated'])} against {number(row['original'])}"
    )
