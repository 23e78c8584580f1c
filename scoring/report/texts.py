"""Figures as text."""

from collections.abc import Mapping, Sequence
from typing import Any


def holds(interval: Sequence[float], value: float) -> bool:
    """Tell whether a value lies within an interval."""
    return interval[0] <= value <= interval[1]


def player_named(role: str, facts: Mapping[str, Any]) -> str:
    """Name a hider or seeker within a sentence. The user's own file hider.py or seeker.py has no name but its role."""
    if facts["name"] != role:
        return f"the {role} {facts['name']}"
    return f"your {role}" if facts.get("source") == f"{role}.py" else f"the {role}"


def player_title(role: str, facts: Mapping[str, Any]) -> str:
    """Name a hider or seeker in a heading."""
    return f"{facts['name']} ({role})" if facts["name"] != role else player_named(role, facts)


def percent(rate: float) -> str:
    """Write a rate as a percentage."""
    return "under 0.1 %" if 0 < rate < 0.0005 else f"{100 * rate:.1f} %"


def number(value: float | None) -> str:
    """Write a number with four digits."""
    return "-" if value is None else f"{value:.4g}"


def ratio(value: float | None) -> str:
    """Write a ratio as a multiple."""
    return "-" if value is None else f"{value:.2f} x" if value < 100 else f"{value:.3g} x"
