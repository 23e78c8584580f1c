"""The report's plots: matplotlib figures as inline SVG that takes its colours and font from the page.

Figures are drawn at phone width. Colours are drawn as sentinels and replaced by the page's CSS custom properties,
so that one SVG serves light and dark; what differs in colour differs in line style or marker too.
"""

import functools
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from scoring.report.projections import Projection

FloatArray = npt.NDArray[np.float64]

WIDTH = 340  # px: a phone's card; on a wider page figures grow by up to a fifth
NAME_LENGTH = 18  # characters of a feature's name that a plot has room for

_CSS_OF_SENTINEL = {
    "#000001": "var(--ink)",
    "#000002": "var(--muted)",
    "#000003": "var(--grid)",
    "#000004": "var(--original)",
    "#000005": "var(--generated)",
    "#000006": "var(--member)",
    "#000007": "var(--non-member)",
    "#000008": "var(--card)",
}
_INK, _MUTED, _GRID, _ORIGINAL, _GENERATED, _MEMBER, _NON_MEMBER, _CARD = _CSS_OF_SENTINEL
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hide-and-seek",
    "text.parse_math": False,
    "font.size": 12,
    "text.color": _INK,
    "axes.facecolor": "none",
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.borderaxespad": 0,
    "legend.borderpad": 0,
    "legend.handlelength": 2.0,
}
_CHANCE_LINE: dict[str, Any] = {"color": _INK, "linestyle": (0, (2, 1.5)), "linewidth": 1.5}
_INTERVAL_LINE: dict[str, Any] = {
    "color": _MEMBER,
    "linewidth": 2,
    "marker": "|",
    "markersize": 12,
    "markeredgewidth": 2,
}
# A ring and a smaller diamond: both can be seen where they coincide.
_ORIGINAL_MARK: dict[str, Any] = {
    "color": _ORIGINAL,
    "linestyle": "none",
    "marker": "o",
    "markersize": 9,
    "markeredgewidth": 1.8,
    "markerfacecolor": _CARD,
}
_GENERATED_MARK: dict[str, Any] = {"color": _GENERATED, "linestyle": "none", "marker": "D", "markersize": 5}
_ORIGINAL_LINE: dict[str, Any] = {"color": _ORIGINAL, "linestyle": "-", "marker": "o", "markersize": 5}
_GENERATED_LINE: dict[str, Any] = {"color": _GENERATED, "linestyle": (0, (4, 2)), "marker": "D", "markersize": 5}


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


def _styled(draw: Callable[..., Markup]) -> Callable[..., Markup]:
    """Draw under our style, leaving matplotlib's settings as they were."""

    @functools.wraps(draw)
    def styled(*args: Any, **kwargs: Any) -> Markup:
        with mpl.rc_context(_STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the browser has its own fonts
            return draw(*args, **kwargs)

    return styled


@_styled
def rates_plot(rates: Sequence[Rate]) -> Markup:
    """Each privacy figure with its 95 % interval, beside its own chance line."""
    figure, axes = _figure(32 * len(rates) + 54, left=124, right=24, top=28, bottom=26)
    for row, rate in enumerate(rates):
        axes.plot([rate.chance] * 2, [row - 0.38, row + 0.38], **_CHANCE_LINE)
        axes.plot(rate.interval, [row, row], **_INTERVAL_LINE)
        axes.plot([rate.value], [row], color=_MEMBER, marker="o", markersize=5)
    axes.set_yticks(range(len(rates)), [rate.name for rate in rates])
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x")
    _percent(axes.xaxis, [0, 0.25, 0.5, 0.75, 1])
    _legend(
        figure,
        Line2D([], [], color=_MEMBER, linestyle="none", marker="o", markersize=5, label="measured"),
        Line2D([], [], **_INTERVAL_LINE, label="95 % interval"),
        Line2D([], [], **_CHANCE_LINE, label="chance"),
    )
    described = "; ".join(
        f"{r.name} {r.value:.3f} ({r.interval[0]:.3f} to {r.interval[1]:.3f}), chance {r.chance:.3f}" for r in rates
    )
    return _svg(figure, "rates", "Privacy figures against chance", described)


@_styled
def errors_plot(name: str, title: str, rows: Sequence[Mapping[str, Any]], metric: str, limit: float | None) -> Markup:
    """One line a check: the score when trained on original and on generated data, and the limit to pass.

    Parameters
    ----------
    name, title : str
        The figure's id and title.
    rows : sequence of dict
        `name`, `original`, `generated`: finite; RMSEs above 0.
    metric : str
        "RMSE" (drawn on a log scale: the distance between the marks is the ratio) or "AUROC".
    limit : float, optional
        The generated score may be at most (RMSE) or must be at least (AUROC) this many times the original's.
    """
    figure, axes = _figure(22 * len(rows) + 76, left=14 + 7.2 * max(len(short(row["name"])) for row in rows), top=24)
    for row, score in enumerate(rows):
        original, generated = score["original"], score["generated"]
        axes.plot([original, generated], [row, row], color=_MUTED, linewidth=1.2)
        if limit is not None:
            axes.plot([original * limit], [row], color=_INK, marker="|", markersize=11, markeredgewidth=1.6)
    order = range(len(rows))
    axes.plot([row["original"] for row in rows], order, **_ORIGINAL_MARK)
    axes.plot([row["generated"] for row in rows], order, **_GENERATED_MARK)
    axes.set_yticks(order, [short(row["name"]) for row in rows])
    axes.tick_params(axis="y", labelcolor=_INK)
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
        handles.append(Line2D([], [], color=_INK, marker="|", linestyle="none", markersize=11, label="limit to pass"))
    _legend(figure, *handles)
    described = "; ".join(
        f"{short(r['name'])}: original {r['original']:.3g}, generated {r['generated']:.3g}" for r in rows
    )
    return _svg(figure, name, title, described)


@_styled
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
        Values in original units; NaN where missing.
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
            size = 3.5 if seen.sum() <= 40 else 2.2  # px; a long series would be all marks
            axes.plot(time[seen][order], values[seen][order], **line | {"markersize": size, "linewidth": 1.2})
        axes.text(
            0, 1.04, short(name, 2 * NAME_LENGTH), transform=axes.transAxes, va="bottom", color=_INK, fontweight="bold"
        )
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if k < len(names) - 1:
            axes.tick_params(axis="x", labelbottom=False)
    axes.set_xlabel("time since the stay's first row")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    _legend(
        figure,
        Line2D([], [], **_ORIGINAL_LINE, label="original"),
        Line2D([], [], **_GENERATED_LINE, label="generated"),
    )
    return _svg(figure, "stay", "One stay, original and generated", "Series of " + ", ".join(map(short, names)))


@_styled
def distances_plot(members: FloatArray, non_members: FloatArray) -> Markup:
    """Cumulative share of member and of non-member stays by distance to the nearest generated stay."""
    figure, axes = _figure(270, left=64)
    reach = float(np.quantile(np.concatenate([members, non_members]), 0.99)) or 1.0
    for distances, color, style in ((non_members, _NON_MEMBER, (0, (4, 2))), (members, _MEMBER, "-")):
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
    _legend(
        figure,
        Line2D([], [], color=_MEMBER, linestyle="-", label="members"),
        Line2D([], [], color=_NON_MEMBER, linestyle=(0, (4, 2)), label="non-members"),
    )
    described = f"Median distance: members {np.median(members):.3g}, non-members {np.median(non_members):.3g}"
    return _svg(figure, "distances", "Distance to the nearest generated stay", described)


@_styled
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
    figure, axes = _figure(300, left=64, right=26)
    low = max(min(1 / non_members, 0.003), 1e-4)
    # The curve is a step function: at each drawn rate, the best threshold within it.
    drawn_fpr = np.geomspace(low, 1, 400)
    drawn_tpr = tpr[np.searchsorted(fpr, drawn_fpr * (1 + 1e-12), side="right") - 1]
    axes.plot([low, 1], [low, 1], **_CHANCE_LINE)
    axes.plot([0.01, 0.01], [low, 1], color=_MUTED, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.plot(drawn_fpr, np.maximum(drawn_tpr, low), color=_MEMBER)
    axes.plot(
        [0.01],
        [max(tpr_at_1_percent, low)],
        color=_MEMBER,
        marker="o",
        markersize=8,
        markeredgecolor=_CARD,
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
    _legend(
        figure,
        Line2D([], [], color=_MEMBER, label="seeker's scores"),
        Line2D([], [], color=_MEMBER, marker="o", linestyle="none", markersize=8, label="at 1 % FPR"),
        Line2D([], [], **_CHANCE_LINE, label="chance"),
    )
    described = f"At 1 % false positives {100 * tpr_at_1_percent:.1f} % of members are found; chance finds 1 %"
    return _svg(figure, "roc", "ROC curve of the seeker's scores", described)


@_styled
def projections_plot(projections: Mapping[str, Projection]) -> Markup:
    """Members and generated stays as points, a panel a method."""
    height = 230
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    marks: dict[str, dict[str, Any]] = {
        "original": {"color": _ORIGINAL, "marker": "o", "fillstyle": "none", "markersize": 4, "markeredgewidth": 0.8},
        "generated": {"color": _GENERATED, "marker": "D", "markersize": 2, "markeredgewidth": 0},
    }
    for panel, (name, plane) in enumerate(projections.items()):
        axes = figure.add_axes(((12 + panel * 164) / WIDTH, 30 / height, 152 / WIDTH, (height - 62) / height))
        for label, points in (("original", plane.original), ("generated", plane.generated)):
            axes.plot(*points.T, linestyle="none", **marks[label])
        axes.set(xticks=[], yticks=[], xlabel=name)
    _legend(figure, *(Line2D([], [], linestyle="none", label=label, **mark) for label, mark in marks.items()))
    described = "Members and generated stays laid out in a plane by " + " and by ".join(projections)
    return _svg(figure, "projections", "Original and generated stays in a plane", described)


@_styled
def marginal_plot(index: int, name: str, edges: FloatArray, original: FloatArray, generated: FloatArray) -> Markup:
    """A feature's distribution in the original and the generated data; a small figure without a title.

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
    figure, axes = _figure(84, width=140, left=6, right=8, top=4, bottom=20)
    axes.stairs(original, edges, fill=True, color=_ORIGINAL, alpha=0.25, linewidth=0)
    axes.stairs(original, edges, color=_ORIGINAL, linewidth=1.4)
    axes.stairs(generated, edges, color=_GENERATED, linewidth=1.6, linestyle=(0, (3, 1.5)))
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    margin = 0.12 * (edges[-1] - edges[0])  # a label nearer to the edge would be cut off
    ticks = MaxNLocator(3).tick_values(edges[0] + margin, edges[-1] - margin)
    ticks = [tick for tick in ticks if edges[0] + margin <= tick <= edges[-1] - margin]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    return _svg(figure, f"marginal-{index}", short(name), "Distribution in the original and the generated data")


def _figure(
    height: float, *, width: float = WIDTH, left: float = 50, right: float = 14, top: float = 28, bottom: float = 42
) -> tuple[Figure, Axes]:
    """A figure with one pair of axes and margins in px."""
    figure = Figure(figsize=(width / 72, height / 72))
    size = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(size)


def _legend(figure: Figure, *handles: Line2D) -> None:
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


def _svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """The figure as an inline SVG element whose ids are its own.

    matplotlib escapes text; what is added here is escaped here.
    """
    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    text = buffer.getvalue()
    body = re.sub(r"<!--.*?-->", "", text[text.index(">", text.index("<svg")) + 1 :], flags=re.DOTALL)
    referenced = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in referenced else "", body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(
        r' (?:d|x|y)="[^"]*"',
        lambda m: re.sub(r"\d+\.\d{2,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), m[0]),
        body,
    )
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # it would style the whole page
    body = re.sub(r" font-family: [^;\"]*;", "", body)
    body = re.sub("#00000[1-8]", lambda m: _CSS_OF_SENTINEL[m[0]], body)
    body = re.sub(r">\s+<", "><", body)
    width, height = (round(72 * float(inches)) for inches in figure.get_size_inches())
    head = (
        f'<svg class="plot" role="img" aria-labelledby="{name}-title {name}-description" '
        f'viewBox="0 0 {width} {height}" style="max-width: {round(1.2 * width)}px">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
    )
    return Markup(head + " ".join(body.split()))  # noqa: S704 - its text is escaped


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
