"""The plots of the utility card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scoring.report import plots, svg

FloatArray = npt.NDArray[np.float64]

_REAL_LINE: dict[str, Any] = {"color": svg.ORIGINAL, "marker": "o"}
_RELEASED_LINE: dict[str, Any] = {"color": svg.GENERATED, "marker": "D"}


@dataclass(frozen=True)
class StaysBeside:
    """A released stay and real ones to hold it against.

    Attributes
    ----------
    released : ndarray, shape [t, F]
        Rows of one released stay. Feature 0 is time, NaN is missing.
    real : sequence of ndarray, shape [t, F] each
        Rows of real stays that the hider never saw. None of them is the released stay's own.
    """

    released: FloatArray
    real: Sequence[FloatArray]


@svg.styled
def families_plot(headline: Mapping[str, Any], families: Sequence[Mapping[str, Any]]) -> Markup:
    """Each family between floor and ceiling, the headline first. What cannot be judged is named and left empty."""
    rows = [{"name": "kept utility", "kept": headline}, *families]
    figure, axes = svg.new_figure(32 * len(rows) + 58, left=124, right=24, top=28, bottom=44)
    for limit in (0, 1):
        axes.axvline(limit, **plots.CHANCE_LINE)
    described = []
    for place, row in enumerate(rows):
        kept = row["kept"]
        if kept["value"] is None:
            axes.text(0.5, place, "not judged", ha="center", va="center", color=svg.MUTED, fontsize=11)
            described.append(f"{row['name']}: not judged")
            continue
        axes.plot([kept["low"], kept["high"]], [place, place], **plots.INTERVAL_LINE | {"color": svg.GENERATED})
        size = 5 if place else 8
        axes.plot([kept["value"]], [place], color=svg.GENERATED, marker="D", markersize=size)
        described.append(f"{row['name']}: {kept['value']:.2f} ({kept['low']:.2f} to {kept['high']:.2f})")
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.get_yticklabels()[0].set_fontweight("bold")
    axes.tick_params(axis="y", labelcolor=svg.INK)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.04, 1.04)
    axes.set_xticks([0, 0.5, 1], ["0\na constant", "0.5", "1\nreal stays"])
    axes.grid(axis="x")
    plots.legend(
        figure,
        Line2D([], [], color=svg.GENERATED, linestyle="none", marker="D", markersize=5, label="release"),
        Line2D([], [], **plots.INTERVAL_LINE | {"color": svg.GENERATED}, label="95 % interval"),
        Line2D([], [], **plots.CHANCE_LINE, label="floor, ceiling"),
    )
    return svg.as_svg(figure, "kept", "Kept utility by family, between floor and ceiling", "; ".join(described))


@svg.styled
def beside_plot(names: Sequence[str], features: Sequence[int], shown: StaysBeside) -> Markup:
    """One released stay in the first column and real ones beside it, a row a feature, on the same scales."""
    stays = [shown.released, *shown.real]
    width, panel, gap, left, top, bottom = 720, 64, 22, 46, 44, 40
    height = top + len(features) * (panel + gap) - gap + bottom
    column = (width - left - 10) / len(stays)
    figure = Figure(figsize=(width / 72, height / 72))
    reach = max(float(np.nanmax(stay[:, 0], initial=0)) for stay in stays) or 1.0
    for row, feature in enumerate(features):
        values = np.concatenate([stay[:, feature] for stay in stays])
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        margin = 0.08 * (high - low) or 1.0
        lower = height - top - row * (panel + gap) - panel
        for place, stay in enumerate(stays):
            axes = figure.add_axes(
                ((left + place * column) / width, lower / height, (column - 14) / width, panel / height)
            )
            line = _RELEASED_LINE if place == 0 else _REAL_LINE
            seen = np.isfinite(stay[:, feature]) & np.isfinite(stay[:, 0])
            size = 3.5 if seen.sum() <= 30 else 2
            axes.plot(stay[seen, 0], stay[seen, feature], **line, markersize=size, linewidth=1.1)
            axes.set_xlim(-0.02 * reach, 1.02 * reach)
            axes.set_ylim(low - margin, high + margin)
            axes.grid(axis="y")
            axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_major_locator(MaxNLocator(3))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            if place:
                axes.tick_params(axis="y", labelleft=False)
            else:
                name = plots.short(names[feature])
                axes.text(0, 1.03, name, transform=axes.transAxes, va="bottom", color=svg.INK, fontweight="bold")
            if row < len(features) - 1:
                axes.tick_params(axis="x", labelbottom=False)
    figure.text(left / width, 8 / height, "time since the stay's first row", color=svg.MUTED)
    plots.legend(
        figure,
        Line2D([], [], **_RELEASED_LINE, markersize=4, label="one released stay"),
        Line2D([], [], **_REAL_LINE, markersize=4, label="real stays, none of them its own"),
    )
    return svg.as_svg(figure, "beside", "A released stay beside real ones", "Series of " + ", ".join(names))
