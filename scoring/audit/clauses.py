"""What guidance and law ask of a release, and what an audit answers; everything else is "not assessed"."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Clause:
    """One thing asked.

    Attributes
    ----------
    source : str
    asks : str
    answer : callable or None
        Makes a sentence from the audit. None: an audit of a table cannot answer it.
    """

    source: str
    asks: str
    answer: Callable[[Mapping[str, Any]], str | None] | None = None


def clauses(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each clause with its answer; `answer` is None where it is not assessed."""
    return [
        {"source": one.source, "asks": one.asks, "answer": one.answer(result) if one.answer else None}
        for one in _CLAUSES
    ]


def _risk(name: str) -> Callable[[Mapping[str, Any]], str | None]:
    def answer(result: Mapping[str, Any]) -> str | None:
        found = result["risks"][name]
        if found["risk"] is None:
            return None
        low, high = found["risk_ci95"]
        return f"Risk {found['risk']:.1%} (95 % interval {low:.1%} to {high:.1%}), against a control group of others."

    return answer


def _attacks(result: Mapping[str, Any]) -> str | None:
    worst = result["worst"]
    if worst is None:
        return None
    figures = result["attacks"][worst["strongest"]]["figures"]
    return (
        f"{worst['attacks']} attacks were run. The strongest, {worst['strongest']}, reaches an AUROC of "
        f"{figures['auroc']:.3f}. Verdict: {result['evidence']}."
    )


def _copies(result: Mapping[str, Any]) -> str:
    found = result["provenance"]
    return f"{found['stays']:,} of {found['released']:,} released stays are real or near one."


def _limits(result: Mapping[str, Any]) -> str | None:
    if result["power"] is None:
        return None
    size = result["power"]["near-copies"]["size"]
    return None if size is None else f"Near-copies of {size:.1%} of the members would have been found."


def _claim(key: str) -> Callable[[Mapping[str, Any]], str | None]:
    def answer(result: Mapping[str, Any]) -> str | None:
        claim = result["privacy_claim"]
        if claim is None or key not in claim["claimed"]:
            return None
        return f"The hider states: {key} {claim['claimed'][key]}."

    return answer


def _found_epsilon(result: Mapping[str, Any]) -> str | None:
    claim = result["privacy_claim"]
    if claim is None:
        return None
    found, claimed = claim["found"]["epsilon"], claim["claimed"]["epsilon"]
    return f"The attacks show an epsilon of at least {found:.2g}. The claim is {claimed:.3g}."


def _utility(result: Mapping[str, Any]) -> str | None:
    headline = result["utility"]["headline"]
    if headline["value"] is None:
        return None
    return f"Kept utility {headline['value']:.2f} (1: as good as other real stays, 0: a constant)."


_WP29 = "WP29 Opinion 05/2014 (WP216)"
_EDPB = "EDPB Opinion 28/2024 (AI models)"
_ISO = "ISO/IEC 27559:2022"
_NIST = "NIST SP 800-226"
_EHDS = "EHDS, Regulation (EU) 2025/327"
_CLAUSES = (
    Clause(_WP29, "Singling out: can one patient be isolated?", _risk("singling_out")),
    Clause(_WP29, "Linkability: can two records of one patient be linked?", _risk("linkability")),
    Clause(_WP29, "Inference: can a value be deduced for one patient?", _risk("attribute_inference")),
    Clause(_WP29, "Means reasonably likely to be used, by anyone, now and later"),
    Clause(_WP29, "Regular reassessment after the release"),
    Clause(_EDPB, "Likelihood that personal data of the training set can be extracted from outputs", _copies),
    Clause(_EDPB, "Resistance to membership inference, documented with tests", _attacks),
    Clause(_EDPB, "Attacks on the model itself, and by queries"),
    Clause(_EDPB, "Lawful basis of the training"),
    Clause(_ISO, "Context: recipients, agreements, security of the place"),
    Clause(_ISO, "Data: what identifies, measured with attacks", _attacks),
    Clause(_ISO, "Identifiability against a threshold: what would have been found", _limits),
    Clause(_ISO, "Governance: roles, records, incidents, review"),
    Clause(_NIST, "Epsilon of the mechanism, and whether tests contradict it", _found_epsilon),
    Clause(_NIST, "Unit of privacy", _claim("unit")),
    Clause(_NIST, "Delta", _claim("delta")),
    Clause(_NIST, "Correctness of the implementation, side channels, floating point"),
    Clause(_NIST, "Utility for the intended use", _utility),
    Clause(_EHDS, "Anonymised format where the purpose allows it (data minimisation)", _attacks),
    Clause(_EHDS, "Only anonymised results leave the secure processing environment", _copies),
    Clause(_EHDS, "Permit, purpose, opt-out, penalties for re-identification"),
)
