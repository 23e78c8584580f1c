"""From finished pieces to what report.json holds."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring.attacks import worst_of
from scoring.audit import patients, power
from scoring.audit.attackers import Absent, Attacker
from scoring.audit.claims import epsilon_found
from scoring.audit.clauses import clauses
from scoring.audit.tables import Tables
from scoring.audit.verdict import judge
from scoring.report.result import plain_json, versions
from scoring.statistics import reidentification
from scoring.store import Store, StoredResult

FORMAT = 1
_PATIENTS = 5  # use of the audit's seed


@dataclass(frozen=True)
class Pieces:
    """The keys of all finished pieces.

    Attributes
    ----------
    provenance, risks, utility, differences : str
    attackers : list of Attacker
    attacks : dict of attacker's name to key
    failed : dict of attacker's name to reason
    asked_again : list of str
        The attackers that take part in the positive control.
    """

    provenance: str
    risks: str
    utility: str
    differences: str
    attackers: Sequence[Attacker]
    attacks: Mapping[str, str]
    failed: Mapping[str, str]
    asked_again: Sequence[str]


def findings(
    tables: Tables,
    store: Store,
    pieces: Pieces,
    absent: Sequence[Absent],
    claim: dict[str, Any] | None,
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Put together what was found, without the positive control and the verdict.

    Returns
    -------
    result : dict
    arrays : dict of str to ndarray
        `probability` of membership [N], and `kind` and `source` of each released stay.
    """
    round_, judged = tables.round, tables.first_stays
    truth = round_.truth[judged]
    answers = {name: _piece(store, "attack", place) for name, place in pieces.attacks.items()}
    scores = {name: piece.arrays["scores"][judged] for name, piece in answers.items()}
    labels = {name: piece.arrays["labels"][judged] for name, piece in answers.items()}
    attacks = {a.name: _attack_facts(a, answers, truth, scores, labels, pieces) for a in pieces.attackers}
    worst = None
    probability = np.full(len(round_.data), float(truth.mean()))
    if scores:
        rng = np.random.default_rng([_PATIENTS, round_.seeker_seed])
        worst = worst_of(truth, scores, labels, power.permutations(len(scores)), rng)
        worst["strongest"] = max(scores, key=lambda name: _strength(attacks[name]["figures"]))
        probability[judged] = patients.membership_probability(truth, np.column_stack(list(scores.values())), rng)
    found = _piece(store, "provenance", pieces.provenance)
    result = {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "settings": dict(settings),
        "versions": versions(),
        "data": _data_facts(tables) | {"provenance_unknown": bool(settings.get("provenance_unknown"))},
        "provenance": _without_seconds(found.facts),
        "attacks": attacks,
        "not_taking_part": [vars(one) for one in absent],
        "worst": worst,
        "patients": patients.tail(truth, probability[judged]) if scores else None,
        "risks": _without_seconds(_piece(store, "risks", pieces.risks).facts),
        "utility": _without_seconds(_piece(store, "utility", pieces.utility).facts),
        "differences": _without_seconds(_piece(store, "differences", pieces.differences).facts),
        "privacy_claim": _claim_facts(claim, truth, scores) if claim else None,
        "power": None,
    }
    return result, {"probability": probability, **found.arrays}


def concluded(result: Mapping[str, Any], tried: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
    """Add the positive control (None if there was none), the verdict and the map of clauses."""
    whole = {**result, "power": tried, "seconds": round(seconds, 1)}
    whole |= judge(whole)
    return dict(plain_json({**whole, "clauses": clauses(whole)}))


def known_answers(
    store: Store, tried: Mapping[str, Mapping[float, Sequence[str]]], asked: Sequence[str], members: int
) -> dict[str, Any]:
    """Return the `power` part of report.json: for each kind of leak the size that is found."""
    found = {}
    for kind, by_size in tried.items():
        trials = {size: [_piece(store, "power", place).facts for place in places] for size, places in by_size.items()}
        found[kind] = power.summary(kind, trials, members) | {"trials": power.TRIALS, "attacks": list(asked)}
    return found


def _piece(store: Store, kind: str, place: str) -> StoredResult:
    piece = store.get(kind, place)
    if piece is None:
        raise OSError(f"a piece is gone from {store.root}; start the audit again")
    return piece


def _without_seconds(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name != "seconds"}


def _strength(figures: Mapping[str, Any]) -> float:
    """How far an attack is above chance, whichever of its figures shows it most."""
    chance = {"auroc": 0.5, "score": figures["chance"], "tpr_at_1_percent_fpr": 0.01}
    return max(float(figures[name]) - value for name, value in chance.items())


def _attack_facts(
    attacker: Attacker,
    answers: Mapping[str, StoredResult],
    truth: np.ndarray,
    scores: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    pieces: Pieces,
) -> dict[str, Any]:
    name = attacker.name
    facts: dict[str, Any] = {"about": attacker.about, "source": attacker.source.name, "code": attacker.digest}
    if name not in answers:
        return {**facts, "figures": None, "tail": None, "reason": pieces.failed[name]}
    return {
        **facts,
        "figures": reidentification(truth, labels[name], scores[name]),
        "tail": patients.figures(truth, scores[name]),
        "reason": None,
        "parameters": answers[name].facts["parameters"],
        "seconds": answers[name].facts["seconds"],
    }


def _claim_facts(claim: dict[str, Any], truth: np.ndarray, scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    found = epsilon_found(truth, scores, claim["delta"])
    return {"claimed": claim, "found": found, "refuted": found["epsilon"] > claim["epsilon"]}


def _data_facts(tables: Tables) -> dict[str, Any]:
    round_ = tables.round
    first = tables.first_stays
    return {
        **round_.facts(),
        "others": len(round_.others),
        "released": len(tables.generated),
        "released_time_points": int((~tables.generated_mask[:, :, 0]).sum()),
        "member_patients": int((first & round_.truth).sum()),
        "other_patients": int((first & ~round_.truth).sum()),
        "overlap": tables.overlap,
        "made_from_others": tables.made_from_others,
        "notes": tables.notes,
    }
