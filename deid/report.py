"""The audit as one HTML page that needs no other file."""

import base64
import io
from pathlib import Path

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from deid.attacks.rates import Rate, Result
from deid.audit import Audit
from deid.files import write_text

matplotlib.rcParams["svg.hashsalt"] = "deid"  # the same audit gives the same page

_PAGE = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    (Path(__file__).parent / "audit.html").read_text(encoding="utf-8")
)


def _text(rate: Rate) -> str:
    return f"{rate.value:.4f} ({rate.low:.4f} to {rate.high:.4f}; n = {rate.trials})"


def _learned(result: Result) -> str:
    """Say how long the attacker's network learned, where there is one."""
    if result.learned is None:
        return ""
    best, most = result.learned
    return f"{best} of {most} epochs" + (", not converged" if best == most else "")


def rows(audit: Audit) -> list[dict[str, str | bool]]:
    """Return the audit's figures, one row each, ready to print."""
    made: list[dict[str, str | bool]] = []
    for private, raw in zip(audit.private, audit.raw, strict=True):
        for figure, rate in private.rates.items():
            chance, guess = private.chance[figure], f"{private.chance[figure]:.4f}"
            leak = rate.low > chance
            if figure in private.labels_alone:
                guess = f"length alone {guess}; labels alone {private.labels_alone[figure]:.4f}"
            if private.name == "invert":
                more = f"the vectors add {audit.gain.value:+.4f} ({audit.gain.low:+.4f} to {audit.gain.high:+.4f})"
                guess = f"labels and casing alone {_text(audit.nothing.rates[figure])}, {more}"
                guess += f"; by type {_text(audit.guess)}"
                leak = audit.gain.low > 0
            made.append(
                {
                    "attack": private.name,
                    "figure": figure,
                    "private": _text(rate),
                    "raw": _text(raw.rates[figure]),
                    "chance": guess,
                    "learned": _learned(private),
                    "leak": leak,
                }
            )
    return made


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _rates_plot(audit: Audit) -> str:
    names = [(i, name) for i, result in enumerate(audit.private) for name in result.rates]
    figure = Figure(figsize=(8, 0.45 * len(names) + 1))
    axes = figure.subplots()
    for shift, results, colour, label in (
        (-0.15, audit.private, "C0", "representation"),
        (0.15, audit.raw, "C1", "raw embeddings"),
    ):
        values = [results[i].rates[name] for i, name in names]
        centre = np.array([rate.value for rate in values])
        bounds = np.abs(np.array([[rate.low, rate.high] for rate in values]).T - centre)
        axes.errorbar(centre, np.arange(len(names)) + shift, xerr=bounds, fmt="o", color=colour, label=label, capsize=3)
    axes.plot([audit.private[i].chance[name] for i, name in names], np.arange(len(names)), "k|", ms=14, label="chance")
    axes.set_yticks(range(len(names)), [f"{audit.private[i].name}: {name}" for i, name in names])
    axes.set_xlim(-0.02, 1.02)
    axes.invert_yaxis()
    axes.set_xlabel("share of targets the attack gets right, with 95 % interval")
    axes.legend(loc="lower right")
    return _png(figure)


def _ranks_plot(private: Result, raw: Result, nothing: Result | None) -> str:
    figure = Figure(figsize=(6, 3.2))
    axes = figure.subplots()
    for result, label in ((private, "representation"), (raw, "raw embeddings"), (nothing, "labels and casing alone")):
        if result is not None:
            rank = np.sort(result.series["rank"])
            axes.step(rank, np.arange(1, len(rank) + 1) / len(rank), label=label)
    axes.plot([0, 1], [0, 1], "k:", label="chance")
    axes.set_xlabel("rank of the true token, as a share of the candidates")
    axes.set_ylabel("share of targets")
    axes.legend()
    return _png(figure)


def write_report(path: Path, audit: Audit) -> None:
    """Write the audit as one HTML page."""
    plots = [
        ("All attacks", _rates_plot(audit)),
        ("PHI look-up", _ranks_plot(audit.private[2], audit.raw[2], None)),
        ("Inversion", _ranks_plot(audit.private[3], audit.raw[3], audit.nothing)),
    ]
    write_text(path, _PAGE.render(settings=audit.settings, rows=rows(audit), plots=plots))
