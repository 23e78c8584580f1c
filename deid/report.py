"""The audit as one HTML page that needs no other file."""

import base64
import io
from pathlib import Path

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from deid.audit import Audit, Rate, Result
from deid.files import write_text

matplotlib.rcParams["svg.hashsalt"] = "deid"  # the same audit gives the same page

_PAGE = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Does the representation leak?</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; } .leak { background: #fbe3e0; } img { max-width: 100%; }
</style></head><body>
<h1>Does the representation leak?</h1>
<p>{% for name, value in settings.items() %}{{ name }}: <b>{{ value }}</b>{{ "; " if not loop.last else "." }}{% endfor %}</p>
<p>Fresh attackers who know the model, have annotated notes of their own and hold what a hospital sends. Shaded: the 95 %
interval lies above chance, so the attack gains something. An attack that fails here does not show that none can succeed.</p>
<table><tr><th>Attack</th><th>Figure</th><th>Representation (95 %)</th><th>Raw embeddings (95 %)</th><th>Chance or guess</th></tr>
{% for row in rows %}
<tr{% if row.leak %} class="leak"{% endif %}><td>{{ row.attack }}</td><td>{{ row.figure }}</td><td class="n">{{ row.private }}</td>
<td class="n">{{ row.raw }}</td><td class="n">{{ row.chance }}</td></tr>
{% endfor %}
</table>
{% for title, plot in plots %}<h2>{{ title }}</h2><img alt="{{ title }}" src="data:image/png;base64,{{ plot }}">{% endfor %}
<h2>What each attack is</h2>
<dl>
<dt>tell apart</dt><dd>New networks say whether (a) a representation and an embedding sequence, (b) two representations show the
same sentence, or one with a single PHI token replaced by a near neighbour. Accuracy on unseen pairs, half of them the same.</dd>
<dt>look up sentences</dt><dd>A table of all the sentences; which entry of the same length is nearest to what was sent?</dd>
<dt>look up PHI</dt><dd>A sentence known but for one PHI token; which candidate is nearest to what was sent?</dd>
<dt>invert</dt><dd>A network recovers PHI tokens' embeddings from representation, labels and casing; how often is the true token the
nearest? Beside it: the same network without the representation, and guessing the most frequent token of the type.</dd>
</dl></body></html>
""")


def _text(rate: Rate) -> str:
    return f"{rate.value:.4f} ({rate.low:.4f} to {rate.high:.4f}; n = {rate.trials})"


def rows(audit: Audit) -> list[dict[str, str | bool]]:
    """Return the audit's figures, one row each, ready to print."""
    made: list[dict[str, str | bool]] = []
    for private, raw in zip(audit.private, audit.raw, strict=True):
        for figure, rate in private.rates.items():
            chance, guess = private.chance[figure], f"{private.chance[figure]:.4f}"
            leak = rate.low > chance
            if private.name == "invert":
                alone = audit.nothing.rates[figure]
                guess = f"labels and casing alone {_text(alone)}; by type {_text(audit.guess)}"
                leak = rate.low > max(alone.high, audit.guess.high)
            made.append(
                {
                    "attack": private.name,
                    "figure": figure,
                    "private": _text(rate),
                    "raw": _text(raw.rates[figure]),
                    "chance": guess,
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
