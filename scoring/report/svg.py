"""Figures as inline SVG that takes its colours and font from the page.

Colours are drawn as sentinels and replaced by the page's CSS custom properties, so that one SVG serves light and dark.
"""

import functools
import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 340  # px: a phone's card. On a wider page figures grow by up to a fifth

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
INK, MUTED, GRID, ORIGINAL, GENERATED, MEMBER, NON_MEMBER, CARD = _CSS_OF_SENTINEL
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hide-and-seek",
    "text.parse_math": False,
    "font.size": 12,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.borderaxespad": 0,
    "legend.borderpad": 0,
    "legend.handlelength": 2.0,
}


def styled(draw: Callable[..., Markup]) -> Callable[..., Markup]:
    """Draw under our style, leaving matplotlib's settings as they were."""

    @functools.wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Markup:
        with mpl.rc_context(_STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the browser has its own fonts
            return draw(*args, **kwargs)

    return drawn


def new_figure(
    height: float, *, width: float = WIDTH, left: float = 50, right: float = 14, top: float = 28, bottom: float = 42
) -> tuple[Figure, Axes]:
    """A figure with one pair of axes and margins in px."""
    figure = Figure(figsize=(width / 72, height / 72))
    size = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(size)


def as_svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """The figure as an inline SVG element whose ids are its own.

    matplotlib escapes text. What is added here is escaped here.
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
