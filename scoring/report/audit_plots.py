"""The plots of an audit's page."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.lines import Line2D

from scoring.report import plots, svg

_LINES: dict[str, dict[str, Any]] = {
    "verbatim copies": {"color": svg.MUTED, "marker": "s", "linestyle": ":"},
    "near-copies": {"color": svg.MEMBER, "marker": "o", "linestyle": "-"},
    "exact means": {"color": svg.GENERATED, "marker": "D", "linestyle": (0, (4, 2))},
}


@svg.styled
def attacks_plot(attacks: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Each attack's AUROC and its share of members found at 1 % false alarms, with intervals, beside chance."""
    rows = [(name, one["figures"]) for name, one in attacks.items() if one["figures"]]
    rows.sort(key=lambda row: -row[1]["auroc"])
    left = 14 + 7.2 * max(len(plots.short(name)) for name, _ in rows)
    figure, axes = svg.new_figure(30 * len(rows) + 62, left=left, right=24, top=28, bottom=30)
    axes.axvline(0.5, **plots.CHANCE_LINE)
    described = []
    for place, (name, figures) in enumerate(rows):
        axes.plot(figures["auroc_ci95"], [place - 0.14] * 2, **plots.INTERVAL_LINE)
        axes.plot([figures["auroc"]], [place - 0.14], color=svg.MEMBER, marker="o", markersize=5)
        rate = figures["tpr_at_1_percent_fpr"]
        axes.plot([rate], [place + 0.2], color=svg.GENERATED, marker="D", markersize=5, linestyle="none")
        described.append(f"{name}: AUROC {figures['auroc']:.3f}, finds {rate:.1%} at 1 % false alarms")
    axes.set_yticks(range(len(rows)), [plots.short(name) for name, _ in rows])
    axes.tick_params(axis="y", labelcolor=svg.INK)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.grid(axis="x")
    plots.legend(
        figure,
        Line2D([], [], color=svg.MEMBER, marker="o", markersize=5, label="AUROC"),
        Line2D([], [], color=svg.GENERATED, marker="D", markersize=5, linestyle="none", label="found at 1 %"),
        Line2D([], [], **plots.CHANCE_LINE, label="chance (AUROC)"),
    )
    return svg.as_svg(figure, "attacks", "Strength of each attack against chance", "; ".join(described))


@svg.styled
def power_plot(power: Mapping[str, Mapping[str, Any]]) -> Markup:
    """For each kind of planted leak the share of trials that found it, by its size on a log scale."""
    figure, axes = svg.new_figure(170, left=58, right=20, top=28, bottom=42)
    described = []
    for kind, one in power.items():
        if kind == "verbatim copies" or not one["tried"]:
            continue
        sizes = [row["size"] * (100 if kind == "near-copies" else 1) for row in one["tried"]]
        found = [row["found"] / max(1, row["trials"]) for row in one["tried"]]
        axes.plot(sizes, found, **_LINES[kind], markersize=5, label=kind)
        described.append(f"{kind}: " + ", ".join(f"{s:g} {f:.0%}" for s, f in zip(sizes, found, strict=True)))
    axes.axhline(0.8, **plots.CHANCE_LINE)
    axes.set_xscale("log")
    axes.set_ylim(-0.05, 1.08)
    axes.set_yticks([0, 0.5, 0.8, 1], ["0 %", "50 %", "80 %", "100 %"])
    ticks = [0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    low, high = axes.get_xlim()
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("near-copies: % of members; means: how many")
    axes.set_ylabel("trials that found it")
    axes.grid(axis="y")
    plots.legend(
        figure,
        *(Line2D([], [], **_LINES[kind], markersize=5, label=kind) for kind in ("near-copies", "exact means")),
        Line2D([], [], **plots.CHANCE_LINE, label="80 %"),
    )
    return svg.as_svg(figure, "power", "Planted leaks that were found", "; ".join(described))


@svg.styled
def tail_plot(probability: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]) -> Markup:
    """How many members and others an attacker takes for members with at least a given probability; log scale."""
    figure, axes = svg.new_figure(220, left=58, right=20, top=28, bottom=42)
    grid = np.linspace(0, 1, 201)
    for side, color, style in ((~truth, svg.NON_MEMBER, (0, (4, 2))), (truth, svg.MEMBER, "-")):
        ordered = np.sort(probability[side])
        above = 1 - np.searchsorted(ordered, grid, side="left") / len(ordered)
        seen = above > 0
        axes.plot(grid[seen], above[seen], color=color, linestyle=style)
        axes.plot(grid[seen][-1:], above[seen][-1:], color=color, marker="o", markersize=5)
    axes.set_yscale("log")
    least = 0.5 / min(truth.sum(), (~truth).sum())
    axes.set_ylim(least, 1.3)
    ticks = [tick for tick in (0.0001, 0.001, 0.01, 0.1, 1.0) if tick >= least]
    axes.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_xlabel("probability of membership, all attacks together")
    axes.set_ylabel("share at least so high")
    axes.grid()
    plots.legend(
        figure,
        Line2D([], [], color=svg.MEMBER, label="members"),
        Line2D([], [], color=svg.NON_MEMBER, linestyle=(0, (4, 2)), label="others"),
    )
    described = f"The highest probability of a member is {probability[truth].max():.2f}"
    return svg.as_svg(figure, "tail", "Who is most at risk", described)
