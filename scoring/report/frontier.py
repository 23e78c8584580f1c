"""Privacy against utility: which hiders no other hider beats in both."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.lines import Line2D

from scoring.report import plots, svg


def frontier(hiders: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the hiders on the frontier, the least found first.

    Parameters
    ----------
    hiders : sequence of dict
        `name`, `worst` (the most that any seeker found) and `kept` (kept utility). A hider without one of them takes
        no part.

    Returns
    -------
    list of str
        No other hider is found less and keeps at least as much, or keeps more and is found at most as often.
    """
    on_it: list[str] = []
    best = -1.0
    judged = [row for row in hiders if row["worst"] is not None and row.get("kept") is not None]
    for row in sorted(judged, key=lambda row: (row["worst"], -row["kept"], row["name"])):
        if row["kept"] > best:
            on_it.append(row["name"])
            best = row["kept"]
    return on_it


def frontier_plot(hiders: Sequence[Mapping[str, Any]], chance: float) -> Markup | None:
    """Draw each hider's worst re-identification score against its kept utility, and the frontier. None without any."""
    judged = [row for row in hiders if row["worst"] is not None and row.get("kept") is not None]
    return _drawn(judged, frontier(judged), chance) if judged else None


@svg.styled
def _drawn(judged: Sequence[Mapping[str, Any]], names: Sequence[str], chance: float) -> Markup:
    figure, axes = svg.new_figure(320, width=520, left=52, right=20)
    axes.axvline(chance, **plots.CHANCE_LINE)
    on_it = [next(row for row in judged if row["name"] == name) for name in names]
    steps = [(row["worst"], row["kept"]) for row in on_it]
    axes.step(*zip(*steps, strict=True), where="post", color=svg.MEMBER, linewidth=1.5)
    for row in judged:
        axes.plot([row["worst_low"], row["worst_high"]], [row["kept"]] * 2, color=svg.GRID, linewidth=2)
        axes.plot([row["worst"]] * 2, [row["kept_low"], row["kept_high"]], color=svg.GRID, linewidth=2)
        color, marker = (svg.MEMBER, "D") if row["name"] in names else (svg.MUTED, "o")
        axes.plot([row["worst"]], [row["kept"]], color=color, marker=marker, markersize=6)
        right = row["worst"] > 0.8
        axes.annotate(
            plots.short(row["name"]),
            (row["worst"], row["kept"]),
            xytext=(-6 if right else 6, 5),
            textcoords="offset points",
            ha="right" if right else "left",
            color=svg.INK,
            fontsize=11,
        )
    low = min(chance, *(row["worst_low"] for row in judged))
    axes.set_xlim(low - 0.02, 1.02)
    axes.set_ylim(-0.04, 1.06)
    axes.set_xlabel("worst re-identification score: further left is safer")
    axes.set_ylabel("kept utility")
    axes.grid()
    plots.legend(
        figure,
        Line2D([], [], color=svg.MEMBER, marker="D", markersize=6, label="frontier"),
        Line2D([], [], color=svg.MUTED, marker="o", linestyle="none", markersize=6, label="beaten in both"),
        Line2D([], [], **plots.CHANCE_LINE, label="chance"),
    )
    described = "; ".join(f"{row['name']}: {row['worst']:.3f} found, {row['kept']:.2f} kept" for row in judged)
    return svg.as_svg(figure, "frontier", "Worst re-identification against kept utility", described)
