"""The page of an audit: one self-contained HTML file to read, print and sign."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from scoring.report import plots
from scoring.report.audit_plots import attacks_plot, power_plot, tail_plot
from scoring.report.utility_plots import families_plot

_GRADES = {"leak": "leak", "no leak found": "nothing", "cannot be judged": "unsure"}
_RISKS = {
    "singling_out": ("Singling out", "A guess made from one released stay fits one patient and nobody else."),
    "linkability": ("Linkability", "Half of a record and the release lead to the other half, among ten candidates."),
    "attribute_inference": ("Attribute inference", "All but one feature and the release tell the feature left out."),
}


def page(result: Mapping[str, Any], probability: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]) -> str:
    """Return the page.

    It holds no id and no measurement of a patient.

    Parameters
    ----------
    result : dict
        The audit as in report.json.
    probability : ndarray of float, shape [N]
        Of membership, for each real stay.
    truth : ndarray of bool, shape [N]
        True for members.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "count": _count, "figure": _figure, "moment": _moment}
    ran = {name: one for name, one in result["attacks"].items() if one["figures"]}
    kept = result["utility"]
    return environment.get_template("audit.html").render(
        result=result,
        grade=_GRADES[result["evidence"]],
        ran=sorted(ran.items(), key=lambda item: -item[1]["figures"]["auroc"]),
        failed=[(name, one["reason"]) for name, one in result["attacks"].items() if not one["figures"]],
        risks=[(*words, result["risks"][name]) for name, words in _RISKS.items()],
        attacks_plot=attacks_plot(ran) if ran else Markup(),
        power_plot=power_plot(result["power"]) if result["power"] else None,
        kept_plot=families_plot(kept["headline"], kept["families"]),
        tail_plot=tail_plot(probability, truth),
        short=plots.short,
        groups=_grouped(result["clauses"]),
        judged_by=ran[result["worst"]["strongest"]] if result["worst"] else None,
    )


def _grouped(clauses: list[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for clause in clauses:
        groups.setdefault(clause["source"], []).append(clause)
    return groups


def _percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _moment(text: str) -> str:
    return text.replace("T", " ").replace("+00:00", " UTC")
