"""The report's plots, drawn at phone width. What differs in colour differs in line style or marker too."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from scoring.report.projections import Projection
from scoring.report.svg import (
    CARD,
    GENERATED,
    INK,
    MEMBER,
    MUTED,
    NON_MEMBER,
    ORIGINAL,
    WIDTH,
    as_svg,
    new_figure,
    styled,
)

FloatArray = npt.NDArray[np.float64]
NAME_LENGTH = 18  # characters of a feature's name that a plot has room for

CHANCE_LINE: dict[str, Any] = {"color": INK, "linestyle": (0, (2, 1.5)), "linewidth": 1.5}
INTERVAL_LINE: dict[str, Any] = {
    "color": MEMBER,
    "linewidth": 2,
    "marker": "|",
    "markersize": 12,
    "markeredgewidth": 2,
}
# A ring and a smaller diamond: both can be seen where they coincide.
_ORIGINAL_MARK: dict[str, Any] = {
    "color": ORIGINAL,
    "linestyle": "none",
    "marker": "o",
    "markersize": 9,
    "markeredgewidth": 1.8,
    "markerfacecolor": CARD,
}
_GENERATED_MARK: dict[str, Any] = {"color": GENERATED, "linestyle": "none", "marker": "D", "markersize": 5}
_ORIGINAL_LINE: dict[str, Any] = {"color": ORIGINAL, "linestyle": "-", "marker": "o", "markersize": 5}
_GENERATED_LINE: dict[str, Any] = {"color": GENERATED, "linestyle": (0, (4, 2)), "marker": "D", "markersize": 5}


@dataclass(frozen=True)
class Rate:
    """A privacy figure to set beside chance: all in [0, 1]."""

    name: str
    value: float
    interval: tuple[float, float]
    chance: float


def short(name: str, length: int = NAME_LENGTH) -> str:
    """A feature's name on one line, its middle left out beyond `length` characters."""
    name = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return name if len(name) <= length else f"{name[: length // 2 - 1]}…{name[-(length // 2) :]}"


@styled
def rates_plot(rates: Sequence[Rate]) -> Markup:
    """Each privacy figure with its 95 % interval, beside its own chance line."""
    figure, axes = new_figure(32 * len(rates) + 54, left=124, right=24, top=28, bottom=26)
    for row, rate in enumerate(rates):
        axes.plot([rate.chance] * 2, [row - 0.38, row + 0.38], **CHANCE_LINE)
        axes.plot(rate.interval, [row, row], **INTERVAL_LINE)
        axes.plot([rate.value], [row], color=MEMBER, marker="o", markersize=5)
    axes.set_yticks(range(len(rates)), [rate.name for rate in rates])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x")
    _percent(axes.xaxis, [0, 0.25, 0.5, 0.75, 1])
    legend(
        figure,
        Line2D([], [], color=MEMBER, linestyle="none", marker="o", markersize=5, label="measured"),
        Line2D([], [], **INTERVAL_LINE, label="95 % interval"),
        Line2D([], [], **CHANCE_LINE, label="chance"),
    )
    described = "; ".join(
        f"{r.name} {r.value:.3f} ({r.interval[0]:.3f} to {r.interval[1]:.3f}), chance {r.chance:.3f}" for r in rates
    )
    return as_svg(figure, "rates", "Privacy figures against chance", described)


@styled
def seekers_plot(seekers: Sequence[Rate]) -> Markup:
    """Each seeker's re-identification score with its interval, the worst on top, beside chance."""
    chance = seekers[0].chance
    figure, axes = new_figure(24 * len(seekers) + 78, left=142, right=24, top=28, bottom=44)
    axes.axvline(chance, **CHANCE_LINE)
    for row, seeker in enumerate(seekers):
        axes.plot(seeker.interval, [row, row], **INTERVAL_LINE)
        axes.plot([seeker.value], [row], color=MEMBER, marker="o", markersize=5)
    axes.set_yticks(range(len(seekers)), [short(seeker.name) for seeker in seekers])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(seekers) - 0.4, -0.6)
    low, high = (pick(seeker.interval[side] for seeker in seekers) for side, pick in ((0, min), (1, max)))
    axes.set_xlim(max(min(low, chance) - 0.03, -0.02), min(max(high, chance) + 0.03, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="x")
    axes.set_xlabel("re-identification score")
    legend(
        figure,
        Line2D([], [], color=MEMBER, linestyle="none", marker="o", markersize=5, label="measured"),
        Line2D([], [], **INTERVAL_LINE, label="95 % interval"),
        Line2D([], [], **CHANCE_LINE, label="chance"),
    )
    described = "; ".join(f"{s.name} {s.value:.3f} ({s.interval[0]:.3f} to {s.interval[1]:.3f})" for s in seekers)
    return as_svg(figure, "seekers", "Every seeker's re-identification score", f"{described}; chance {chance:.3f}")


@styled
def errors_plot(name: str, title: str, rows: Sequence[Mapping[str, Any]], metric: str, limit: float | None) -> Markup:
    """One line a check: the score when trained on original and on generated data, and the limit to pass.

    Parameters
    ----------
    name, title : str
        The figure's id and title.
    rows : sequence of dict
        `name`, `original` and `generated`. All are finite, and RMSEs are above 0.
    metric : str
        "RMSE" (drawn on a log scale: the distance between the marks is the ratio) or "AUROC".
    limit : float, optional
        The generated score may be at most (RMSE) or must be at least (AUROC) this many times the original's.
    """
    figure, axes = new_figure(22 * len(rows) + 76, left=14 + 7.2 * max(len(short(row["name"])) for row in rows), top=24)
    for row, score in enumerate(rows):
        original, generated = score["original"], score["generated"]
        axes.plot([original, generated], [row, row], color=MUTED, linewidth=1.2)
        if limit is not None:
            axes.plot([original * limit], [row], color=INK, marker="|", markersize=11, markeredgewidth=1.6)
    order = range(len(rows))
    axes.plot([row["original"] for row in rows], order, **_ORIGINAL_MARK)
    axes.plot([row["generated"] for row in rows], order, **_GENERATED_MARK)
    axes.set_yticks(order, [short(row["name"]) for row in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("RMSE on real stays (log scale)" if metric == "RMSE" else "AUROC on real stays")
    axes.grid(axis="x")
    if metric == "RMSE":
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.set_xlim(low / 1.1, high * 1.1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 50 else (1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    handles = [
        Line2D([], [], **_ORIGINAL_MARK, label="original"),
        Line2D([], [], **_GENERATED_MARK, label="generated"),
    ]
    if limit is not None:
        handles.append(Line2D([], [], color=INK, marker="|", linestyle="none", markersize=11, label="limit to pass"))
    legend(figure, *handles)
    described = "; ".join(
        f"{short(r['name'])}: original {r['original']:.3g}, generated {r['generated']:.3g}" for r in rows
    )
    return as_svg(figure, name, title, described)


@styled
def stay_plot(
    names: Sequence[str],
    original_time: FloatArray,
    generated_time: FloatArray,
    original: FloatArray,
    generated: FloatArray,
) -> Markup:
    """One stay's original and generated series, a panel a feature.

    Parameters
    ----------
    names : [k] str
        The features' names.
    original_time, generated_time : [t1] and [t2] float
        Time since the stay's first row.
    original, generated : [t1, k] and [t2, k] float
        Values in original units. NaN means missing.
    """
    panel, gap, top, bottom = 66, 26, 42, 44
    height = top + len(names) * (panel + gap) - gap + bottom
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    shared: Axes | None = None
    for k, name in enumerate(names):
        lower = height - top - k * (panel + gap) - panel
        axes = figure.add_axes((48 / WIDTH, lower / height, (WIDTH - 62) / WIDTH, panel / height), sharex=shared)
        shared = shared or axes
        for time, values, line in (
            (original_time, original[:, k], _ORIGINAL_LINE),
            (generated_time, generated[:, k], _GENERATED_LINE),
        ):
            seen = np.isfinite(time) & np.isfinite(values)
            order = np.argsort(time[seen], kind="stable")
            size = 3.5 if seen.sum() <= 40 else 2.2  # px: a long series would be all marks
            axes.plot(time[seen][order], values[seen][order], **line | {"markersize": size, "linewidth": 1.2})
        axes.text(
            0, 1.04, short(name, 2 * NAME_LENGTH), transform=axes.transAxes, va="bottom", color=INK, fontweight="bold"
        )
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if k < len(names) - 1:
            axes.tick_params(axis="x", labelbottom=False)
    axes.set_xlabel("time since the stay's first row")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    legend(
        figure,
        Line2D([], [], **_ORIGINAL_LINE, label="original"),
        Line2D([], [], **_GENERATED_LINE, label="generated"),
    )
    return as_svg(figure, "stay", "One stay, original and generated", "Series of " + ", ".join(map(short, names)))


@styled
def distances_plot(members: FloatArray, non_members: FloatArray) -> Markup:
    """Cumulative share of member and of non-member stays by distance to the nearest generated stay."""
    figure, axes = new_figure(270, left=64)
    reach = float(np.quantile(np.concatenate([members, non_members]), 0.99)) or 1.0
    for distances, color, style in ((non_members, NON_MEMBER, (0, (4, 2))), (members, MEMBER, "-")):
        # A few hundred points draw any curve of this size.
        share = np.linspace(0, 1, min(len(distances) + 1, 400))
        nearest_first = np.sort(distances)
        at = nearest_first[np.minimum((share * len(distances)).astype(int), len(distances) - 1)]
        axes.plot(
            np.concatenate([[0.0], at, [max(reach, at[-1])]]),
            np.concatenate([[0.0], share, [1.0]]),
            color=color,
            linestyle=style,
        )
    axes.set_xlim(0, reach * 1.02)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("distance to the nearest generated stay")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel("share of stays this near")
    _percent(axes.yaxis, [0, 0.25, 0.5, 0.75, 1])
    axes.grid(axis="y")
    legend(
        figure,
        Line2D([], [], color=MEMBER, linestyle="-", label="members"),
        Line2D([], [], color=NON_MEMBER, linestyle=(0, (4, 2)), label="non-members"),
    )
    described = f"Median distance: members {np.median(members):.3g}, non-members {np.median(non_members):.3g}"
    return as_svg(figure, "distances", "Distance to the nearest generated stay", described)


@styled
def roc_plot(fpr: FloatArray, tpr: FloatArray, tpr_at_1_percent: float, non_members: int) -> Markup:
    """The ROC curve on log axes, the chance line, and the point at 1 % false positives.

    Parameters
    ----------
    fpr, tpr : [k] float
        The curve, strictest threshold first, from (0, 0) to (1, 1).
    tpr_at_1_percent : float
        The figure to mark.
    non_members : int
        Sets how far to the left there is anything to see.
    """
    figure, axes = new_figure(300, left=64, right=26)
    low = max(min(1 / non_members, 0.003), 1e-4)
    # The curve is a step function: at each drawn rate, the best threshold within it.
    drawn_fpr = np.geomspace(low, 1, 400)
    drawn_tpr = tpr[np.searchsorted(fpr, drawn_fpr * (1 + 1e-12), side="right") - 1]
    axes.plot([low, 1], [low, 1], **CHANCE_LINE)
    axes.plot([0.01, 0.01], [low, 1], color=MUTED, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.plot(drawn_fpr, np.maximum(drawn_tpr, low), color=MEMBER)
    axes.plot(
        [0.01],
        [max(tpr_at_1_percent, low)],
        color=MEMBER,
        marker="o",
        markersize=8,
        markeredgecolor=CARD,
        clip_on=False,
    )
    axes.set(xscale="log", yscale="log", xlim=(low, 1.0), ylim=(low, 1.15))
    for axis in (axes.xaxis, axes.yaxis):
        _percent(axis, [rate for rate in (0.0001, 0.001, 0.01, 0.1, 1.0) if rate >= low])
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("non-members named (FPR, log scale)")
    axes.set_ylabel("members found (TPR, log scale)")
    axes.grid()
    legend(
        figure,
        Line2D([], [], color=MEMBER, label="seeker's scores"),
        Line2D([], [], color=MEMBER, marker="o", linestyle="none", markersize=8, label="at 1 % FPR"),
        Line2D([], [], **CHANCE_LINE, label="chance"),
    )
    described = f"At 1 % false positives {100 * tpr_at_1_percent:.1f} % of members are found; chance finds 1 %"
    return as_svg(figure, "roc", "ROC curve of the seeker's scores", described)


@styled
def projections_plot(projections: Mapping[str, Projection]) -> Markup:
    """Members and generated stays as points, a panel a method."""
    height = 230
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    marks: dict[str, dict[str, Any]] = {
        "original": {"color": ORIGINAL, "marker": "o", "fillstyle": "none", "markersize": 4, "markeredgewidth": 0.8},
        "generated": {"color": GENERATED, "marker": "D", "markersize": 2, "markeredgewidth": 0},
    }
    for panel, (name, plane) in enumerate(projections.items()):
        axes = figure.add_axes(((12 + panel * 164) / WIDTH, 30 / height, 152 / WIDTH, (height - 62) / height))
        for label, points in (("original", plane.original), ("generated", plane.generated)):
            axes.plot(*points.T, linestyle="none", **marks[label])
        axes.set(xticks=[], yticks=[], xlabel=name)
    legend(figure, *(Line2D([], [], linestyle="none", label=label, **mark) for label, mark in marks.items()))
    described = "Members and generated stays laid out in a plane by " + " and by ".join(projections)
    return as_svg(figure, "projections", "Original and generated stays in a plane", described)


@styled
def marginal_plot(index: int, name: str, edges: FloatArray, original: FloatArray, generated: FloatArray) -> Markup:
    """A feature's distribution in the original and the generated data, as a small figure without a title.

    Parameters
    ----------
    index : int
        The feature's index, for the figure's id.
    name : str
        The feature's name.
    edges : [B + 1] float
        Bin edges, in original units.
    original, generated : [B] float
        Densities.
    """
    figure, axes = new_figure(84, width=140, left=6, right=8, top=4, bottom=20)
    axes.stairs(original, edges, fill=True, color=ORIGINAL, alpha=0.25, linewidth=0)
    axes.stairs(original, edges, color=ORIGINAL, linewidth=1.4)
    axes.stairs(generated, edges, color=GENERATED, linewidth=1.6, linestyle=(0, (3, 1.5)))
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    margin = 0.12 * (edges[-1] - edges[0])  # a label nearer to the edge would be cut off
    ticks = MaxNLocator(3).tick_values(edges[0] + margin, edges[-1] - margin)
    ticks = [tick for tick in ticks if edges[0] + margin <= tick <= edges[-1] - margin]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    return as_svg(figure, f"marginal-{index}", short(name), "Distribution in the original and the generated data")


def legend(figure: Figure, *handles: Line2D) -> None:
    """One row above the axes, flush left."""
    inset = 4 / (72 * figure.get_figheight())
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - inset),
        ncols=len(handles),
        columnspacing=1.2,
        handletextpad=0.5,
    )


def _percent(axis: Any, ticks: Sequence[float]) -> None:
    axis.set_ticks(ticks, [f"{100 * tick:g} %" for tick in ticks])


def logo() -> bytes:
    """Draw the project's mark, a PNG: many stays, and the one that was found."""
    figure = Figure(figsize=(2, 2), dpi=128)
    axes = figure.add_axes((0, 0, 1, 1))
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0.08, 0.92, (2, 60))
    axes.scatter(x, y, s=90, color="#98a2b0")
    axes.scatter([0.55], [0.5], s=900, facecolors="none", edgecolors="#c2500a", linewidths=5)
    axes.scatter([0.55], [0.5], s=120, color="#c2500a")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()
