"""Every seeker against one release, and the strongest of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from scoring.contract import check_labels
from scoring.round import Round
from scoring.statistics import (
    FPR,
    MEMBER_THRESHOLD,
    BoolArray,
    FloatArray,
    auroc,
    checked_groups,
    reidentification,
    tpr_at_fpr,
    wilson_interval,
)
from scoring.submissions.players import Player, check_player, find_player, known_players, play
from utils.errors import UserError

ALL = "all"  # what --seeker says to play every one
_BLOCK = 100  # permutations of the labels looked at at once
_SURE = 0.05  # a p-value up to this is called a leak


@dataclass(frozen=True)
class Attack:
    """What one seeker found.

    Attributes
    ----------
    facts : dict
        The `seeker` part of report.json: `name`, `source`, `parameters`.
    labels : ndarray of bool, shape [M]
    scores : ndarray of float, shape [M], or None
    seconds : float
    """

    facts: dict[str, Any]
    labels: np.ndarray
    scores: np.ndarray | None
    seconds: float


@dataclass(frozen=True)
class WorstAttack:
    """The strongest of many attacks.

    Attributes
    ----------
    attack : Attack
    seekers : list of dict
        For report.json: `name`, `source`, `parameters`, `seconds` and `reidentification` of each, strongest first. The
        intervals are corrected for the number of attacks.
    summary : dict
        What `worst_of` returns.
    """

    attack: Attack
    seekers: list[dict[str, Any]]
    summary: dict[str, Any]


def find_every_seeker(
    home: Path, hider: Player | None = None, without: Sequence[str] = ()
) -> tuple[list[Player], list[str]]:
    """Find and import every seeker in a folder.

    A seeker whose parameters have a field `hider` needs the hider's code. It takes part if that is a `.py` file. The
    settings that a seeker lists in `ALSO_PLAYED` are played as seekers of their own.

    Parameters
    ----------
    home : Path
        The folder in which named seekers are.
    hider : Player, optional
        Whose release is attacked. None if its code is not there.
    without : sequence of str
        Seekers to leave out.

    Returns
    -------
    seekers : list of Player
    left_out : list of str
        Which seekers are not played and why, one sentence each.

    Raises
    ------
    UserError
        If a seeker cannot be imported, `without` names no seeker, or none is left.
    """
    known = known_players("seeker", home)
    unknown = sorted(set(without) - set(known))
    if unknown:
        raise UserError(f"--without {unknown[0]}: there is no such seeker; known are {', '.join(known)}")
    seekers, left_out = [], []
    for name in known:
        if name in without:
            left_out.append(f"The seeker {name} was left out (--without). It might have found more.")
            continue
        seeker = check_player(find_player("seeker", name, home))
        if needs_hider(seeker):
            if hider is None or hider.source.suffix != ".py" or "," in str(hider.source):
                left_out.append(f"The seeker {name} was left out, because it needs the hider's code as a .py file.")
                continue
            named = hider.source.parent == home and hider.source.name == f"hider_{hider.name}.py"
            setting = (hider.setting or "").replace(",", ";")
            code = (hider.name if named else str(hider.source)) + (f":{setting}" if setting else "")
            seeker = check_player(replace(seeker, setting=f"hider={code}"))
        seekers.append(seeker)
        for setting in getattr(seeker.module, "ALSO_PLAYED", ()):
            seekers.append(replace(seeker, name=f"{name}:{setting}", setting=setting))
    if not seekers:
        raise UserError(f"there is no seeker to play in {home}")
    return seekers, left_out


def self_contained_seekers(home: Path) -> list[str]:
    """Return the names of the seekers in a folder that need neither the hider's code nor other seekers.

    A seeker whose parameters have a field `hider` or `seekers` does need them, and has neither in a sandbox.
    """
    names = known_players("seeker", home)
    return [
        name for name in names if not _asks_for(check_player(find_player("seeker", name, home)), "hider", "seekers")
    ]


def needs_hider(seeker: Player) -> bool:
    """Tell whether an imported seeker's parameters ask for the hider's code."""
    return _asks_for(seeker, "hider")


def _asks_for(seeker: Player, *names: str) -> bool:
    block = getattr(seeker.module, "Parameters", None)
    return is_dataclass(block) and any(field.name in names for field in fields(block))


def seek(seeker: Player, round_: Round, generated: np.ndarray, padding_mask: np.ndarray | None) -> Attack:
    """Run one seeker.

    Raises
    ------
    UserError
        If it fails or returns what it must not.
    """
    began = time.perf_counter()
    output, parameters = play(seeker, round_.seeker_input(generated, padding_mask))
    labels, scores = check_labels(f"seeker '{seeker.name}'", output, len(round_.data))
    if needs_hider(seeker):  # the report is to name no folder of this machine
        parameters["hider"] = Path(parameters["hider"]).name
    facts = {"name": seeker.name, "source": seeker.source.name, "parameters": parameters}
    return Attack(facts, labels, scores, round(time.perf_counter() - began, 3))


def seek_with_all(
    seekers: Sequence[Player], round_: Round, generated: np.ndarray, padding_mask: np.ndarray | None
) -> tuple[list[Attack], list[str]]:
    """Run many seekers, each on arrays of its own. One that fails is left out and named.

    Returns
    -------
    attacks : list of Attack
    warnings : list of str
        Which seekers failed and how.

    Raises
    ------
    UserError
        If all fail.
    """
    attacks: list[Attack] = []
    warnings = []
    for number, seeker in enumerate(seekers, 1):
        own = replace(round_, data=round_.data.copy(), padding_mask=round_.padding_mask.copy())
        try:
            mask = None if padding_mask is None else padding_mask.copy()
            attack = seek(seeker, own, generated.copy(), mask)
        except UserError as error:
            warnings.append(f"The seeker {seeker.name} failed, so the worst may be worse: {error}")
            print(f"warning: {warnings[-1]}")
            continue
        attacks.append(attack)
        print(f"seeker {number} of {len(seekers)}: {seeker.name}, {attack.seconds:.1f} s", flush=True)
    if not attacks:
        raise UserError(f"every seeker failed; the first: {warnings[0]}")
    return attacks, warnings


def find_worst(truth: BoolArray, attacks: Sequence[Attack]) -> WorstAttack:
    """Pick the attack that is hardest to explain by chance, among equals the one furthest above chance.

    Parameters
    ----------
    truth : ndarray of bool, shape [M]
        True for members.
    attacks : sequence of Attack
        At least one. Names differ.
    """
    # Labels are scores too, with two values: so a seeker without scores can be judged with the others.
    scores = {a.facts["name"]: a.labels.astype(float) if a.scores is None else a.scores for a in attacks}
    summary = worst_of(truth, scores, {attack.facts["name"]: attack.labels for attack in attacks})
    worst = next(attack for attack in attacks if attack.facts["name"] == summary["attack"])
    found = [
        {
            **attack.facts,
            "seconds": attack.seconds,
            "reidentification": reidentification(truth, attack.labels, attack.scores, len(attacks)),
        }
        for attack in attacks
    ]
    found.sort(key=lambda row: (row["name"] != worst.facts["name"], -row["reidentification"]["score"], row["name"]))
    return WorstAttack(worst, found, summary)


def worst_of(
    labels: npt.ArrayLike,
    scores: Mapping[str, npt.ArrayLike],
    predicted: Mapping[str, npt.ArrayLike] | None = None,
    permutations: int = 1999,
    rng: np.random.Generator | None = None,
) -> dict[str, Any]:
    """Pick the strongest of many attacks on one release, and say whether chance explains it.

    If a release tells nothing about membership, every assignment of labels to stays is as likely as the true one. So
    all figures of all attacks are taken again with labels drawn at random. Each figure is judged by its rank among its
    own draws, and the best of them by its rank among the best of each draw (min-P; Westfall & Young, 1993). As all
    attacks see the same draw, agreement between attacks costs nothing. Whatever the attacks, a release without leak has
    a p-value of at most 0.05 in at most 5 of 100 cases.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : mapping of attack to [n] float
        Higher means more likely a member.
    predicted : mapping of attack to [n] bool or float, optional
        The attacks' labels. Above 0.5 means member.
    permutations : int
        How many random assignments. The smallest p-value is about the number of figures / (permutations + 1).
    rng : numpy.random.Generator, optional
        Draws them. By default the same ones each time.

    Returns
    -------
    dict
        `attack` and `figure` (auroc, tpr_at_1_percent_fpr or score) that are hardest to explain by chance, its `value`
        and `interval` (95 %, corrected for the number of attacks), `p_value` (corrected for all attacks and figures),
        `leak` (p_value at most 0.05), and `attacks`, their number.

    Raises
    ------
    ValueError
        As `statistics.auroc`, and without an attack.
    """
    if not scores:
        raise ValueError("expected the scores of at least one attack")
    for name, values in scores.items():
        checked_groups(labels, values, name=f"scores of {name}")
    rng = rng or np.random.default_rng(0)
    member = np.asarray(labels).astype(bool)
    guesses = {name: np.asarray(values) > MEMBER_THRESHOLD for name, values in (predicted or {}).items()}
    judged = [(name, figure) for name in scores for figure in ("auroc", "tpr_at_1_percent_fpr")]
    judged += [(name, "score") for name in guesses]
    figures = np.empty((permutations + 1, len(judged)))
    figures[0] = _figures(member[None], scores, guesses)[0]
    for start in range(1, permutations + 1, _BLOCK):
        rows = figures[start : start + _BLOCK]
        rows[:] = _figures(rng.permuted(np.tile(member, (len(rows), 1)), axis=1), scores, guesses)
    ranks = rankdata(-figures.round(12), method="max", axis=0) / (permutations + 1)
    excess = figures[0] - figures[1:].mean(axis=0)
    best = int(np.lexsort((-excess, ranks[0]))[0])  # among equally rare ones the one furthest above chance
    p_value = float(np.mean(ranks.min(axis=1) <= ranks[0].min()))
    name, figure = judged[best]
    count = len(set(scores) | set(guesses))
    if figure == "score":
        interval = wilson_interval(int((guesses[name] == member).sum()), member.size, count)
    elif figure == "auroc":
        interval = auroc(member, scores[name], count)[1]
    else:
        interval = tpr_at_fpr(member, scores[name], comparisons=count)[1]
    return {
        "attack": name,
        "figure": figure,
        "value": float(figures[0, best]),
        "interval": list(interval),
        "p_value": p_value,
        "leak": p_value <= _SURE,
        "attacks": count,
    }


def _figures(members: BoolArray, scores: Mapping[str, npt.ArrayLike], guesses: Mapping[str, BoolArray]) -> FloatArray:
    """AUROC and members found at 1 % false alarms of each attack, then accuracies, for each row of labels [B, n]."""
    count = int(members[0].sum())
    others = members.shape[1] - count
    allowed = int(np.floor(FPR * others + 1e-9))
    columns = []
    for values in scores.values():
        negative = -np.asarray(values, dtype=np.float64)
        ranks = rankdata(-negative)
        columns.append((members @ ranks - count * (count + 1) / 2) / (count * others))
        order = np.argsort(negative, kind="stable")
        # Stays above the score of the (allowed + 1)-th highest non-member are named.
        last = (np.cumsum(~members[:, order], axis=1) <= allowed).sum(axis=1)
        named = np.searchsorted(negative[order], negative[order][np.minimum(last, members.shape[1] - 1)])
        found = np.cumsum(members[:, order], axis=1)
        columns.append(np.where(named > 0, np.take_along_axis(found, named[:, None] - 1, axis=1)[:, 0], 0) / count)
    columns += [(members == guess).mean(axis=1) for guess in guesses.values()]
    return np.stack(columns, axis=1)
