"""Every seeker against one release, and the one that did most harm."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scoring.contract import check_labels
from scoring.many_attacks import worst_of
from scoring.round import Round
from scoring.statistics import BoolArray, reidentification
from scoring.submissions.players import Player, check_player, find_player, known_players, play
from utils.errors import UserError

ALL = "all"  # what --seeker says to play every one
_FAILED = "it failed: "
FIGURES = ("score", "auroc", "tpr_at_1_percent_fpr")


@dataclass(frozen=True)
class Lineup:
    """Which seekers are played, and which are not.

    Attributes
    ----------
    seekers : list of Player
    not_played : list of dict
        `name` and `reason` of each seeker that is left out.
    every : bool
        Whether all seekers were asked for, instead of one by name.
    """

    seekers: list[Player]
    not_played: list[dict[str, str]]
    every: bool


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

    @property
    def name(self) -> str:
        """What the report calls the seeker."""
        return str(self.facts["name"])


@dataclass(frozen=True)
class Worst:
    """The attack that did most harm, among all others.

    Attributes
    ----------
    attack : Attack
    seekers : list of dict
        For report.json: `name`, `source`, `parameters`, `seconds`, `p_value` and `reidentification` of each seeker, the
        worst first. The intervals are corrected for the number of attacks: all of them hold at once with 95 %.
    summary : dict
        For report.json: `seeker`, `p_value` (corrected for all attacks and figures), `leak` (p_value at most 0.05),
        `attacks` (their number), and `highest`: the highest value of each figure, whose it is, and its interval.
    """

    attack: Attack
    seekers: list[dict[str, Any]]
    summary: dict[str, Any]

    def facts(self, not_played: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Return what report.json holds of all attacks."""
        return {"seekers": self.seekers, "worst": self.summary, "not_played": list(not_played)}


def line_up(home: Path, hider: Player | None = None, slow: bool = False, without: Sequence[str] = ()) -> Lineup:
    """Find and import every seeker in a folder that can take part; say why any other cannot.

    A seeker's file says what it needs. With a constant `SLOW = True`, it takes part if slow ones are asked for. If its
    `Parameters` have a field `hider`, it takes part if the hider's code is a `.py` file, and is given that. The
    settings that a seeker lists in `ALSO_PLAYED` are played as seekers of their own.

    Parameters
    ----------
    home : Path
        The folder in which named seekers are.
    hider : Player, optional
        Whose release is attacked. None if its code is not known.
    slow : bool
        Play the slow ones too.
    without : sequence of str
        Seekers to leave out.

    Raises
    ------
    UserError
        If `without` names no seeker, or none can take part.
    """
    seekers, not_played = [], []
    known = known_players("seeker", home)
    unknown = sorted(set(without) - set(known))
    if unknown:
        raise UserError(f"--without {unknown[0]}: there is no such seeker; known are {', '.join(known)}")
    for name in known:
        if name in without:
            not_played.append({"name": name, "reason": "it was left out by --without"})
            continue
        try:
            seeker = check_player(find_player("seeker", name, home))
        except UserError as error:
            not_played.append({"name": name, "reason": str(error)})
            continue
        if needs_hider(seeker) and code_of(hider, home) is None:
            not_played.append({"name": name, "reason": "it needs the hider's code as a .py file"})
        elif _is_slow(seeker) and not slow:
            not_played.append({"name": name, "reason": "it is slow; --slow plays it too"})
        else:
            seekers.append(with_code(seeker, hider))
            for setting in getattr(seeker.module, "ALSO_PLAYED", ()):
                seekers.append(replace(seeker, name=f"{name}:{setting}", setting=setting))
    if not seekers:
        why = "".join(f"; {left['name']}: {left['reason']}" for left in not_played)
        raise UserError(f"there is no seeker to play in {home}{why}")
    return Lineup(seekers, not_played, every=True)


def self_contained_seekers(home: Path) -> list[str]:
    """Return the names of the seekers in a folder that are not slow and need no hider's code and no other seekers.

    A seeker whose parameters have a field `hider` or `seekers` does need them, and has neither in a sandbox.
    """
    found = (check_player(find_player("seeker", name, home)) for name in known_players("seeker", home))
    return [seeker.name for seeker in found if not _is_slow(seeker) and not _asks_for(seeker, "hider", "seekers")]


def needs_hider(seeker: Player) -> bool:
    """Tell whether an imported seeker's parameters ask for the hider's code."""
    return _asks_for(seeker, "hider")


def _is_slow(seeker: Player) -> bool:
    return bool(getattr(seeker.module, "SLOW", False))


def _asks_for(seeker: Player, *names: str) -> bool:
    block = getattr(seeker.module, "Parameters", None)
    return is_dataclass(block) and any(field.name in names for field in fields(block))


def code_of(hider: Player | None, folder: Path) -> str | None:
    """Return how a seeker in `folder` is told of a hider and its setting, or None if there is no file of its code."""
    if hider is None or not hider.source.is_file() or hider.source.suffix != ".py" or "," in str(hider.source):
        return None
    named = hider.source.name == f"hider_{hider.name}.py"
    code = hider.name if named and hider.source.parent == folder else str(hider.source)
    return code + (":" + hider.setting.replace(",", ";") if hider.setting else "")


def with_code(seeker: Player, hider: Player | None) -> Player:
    """Give a seeker that needs it the hider's code, unless its setting names a hider already."""
    code = code_of(hider, seeker.source.parent)
    if code is None or not needs_hider(seeker) or "hider=" in (seeker.setting or ""):
        return seeker
    setting = ",".join(part for part in (seeker.setting, f"hider={code}") if part)
    return check_player(replace(seeker, setting=setting))


def seek(seeker: Player, round_: Round, generated: np.ndarray, padding_mask: np.ndarray | None) -> Attack:
    """Run one seeker on copies of the arrays: whatever it does to them, the next seeker sees what it should.

    Raises
    ------
    UserError
        If it fails or returns what it must not.
    """
    began = time.perf_counter()
    given = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in round_.seeker_input(generated, padding_mask).items()
    }
    output, parameters = play(seeker, given)
    labels, scores = check_labels(f"seeker '{seeker.name}'", output, len(round_.data))
    if parameters.get("hider"):  # the report is to name no folder of this machine
        parameters["hider"] = Path(parameters["hider"]).name
    facts = {"name": seeker.name, "source": seeker.source.name, "parameters": parameters}
    return Attack(facts, labels, scores, round(time.perf_counter() - began, 3))


def seek_with_all(
    lineup: Lineup, round_: Round, generated: np.ndarray, padding_mask: np.ndarray | None
) -> tuple[list[Attack], list[dict[str, str]]]:
    """Run many seekers. One that fails is left out and named; if one alone was asked for, its failure is raised.

    Returns
    -------
    attacks : list of Attack
    not_played : list of dict
        Those of the line-up, and the seekers that failed.

    Raises
    ------
    UserError
        If all fail.
    """
    attacks: list[Attack] = []
    not_played = list(lineup.not_played)
    for number, seeker in enumerate(lineup.seekers, 1):
        try:
            attack = seek(seeker, round_, generated, padding_mask)
        except UserError as error:
            if not lineup.every:
                raise
            not_played.append({"name": seeker.name, "reason": f"{_FAILED}{error}"})
            print(f"warning: {seeker.name} failed: {error}")
            continue
        attacks.append(attack)
        if lineup.every:
            print(f"seeker {number} of {len(lineup.seekers)}: {seeker.name}, {attack.seconds:.1f} s", flush=True)
    if not attacks:
        raise UserError(f"every seeker failed; the first: {not_played[len(lineup.not_played)]['reason']}")
    return attacks, not_played


def failures(not_played: Sequence[dict[str, str]]) -> list[str]:
    """Return the seekers that were to play and failed, as text: without them, a release looks better than it may be."""
    return [
        f"{row['name']} failed, so the worst may be worse: {row['reason'].removeprefix(_FAILED)}"
        for row in not_played
        if row["reason"].startswith(_FAILED)
    ]


def find_worst(truth: BoolArray, attacks: Sequence[Attack]) -> Worst:
    """Pick the attack that chance explains least; among equals, the one with the highest re-identification score.

    Parameters
    ----------
    truth : ndarray of bool, shape [M]
        True for members.
    attacks : sequence of Attack
        At least one, each of another name.
    """
    # Labels are scores too, of two values. So a seeker without scores is judged beside the others.
    scores = {
        attack.name: attack.labels.astype(float) if attack.scores is None else attack.scores for attack in attacks
    }
    found = worst_of(truth, scores, {attack.name: attack.labels for attack in attacks})
    seekers = [
        {
            **attack.facts,
            "seconds": attack.seconds,
            "p_value": found["p_values"][attack.name],
            "reidentification": reidentification(truth, attack.labels, attack.scores, len(attacks)),
        }
        for attack in attacks
    ]
    seekers.sort(key=lambda row: (row["p_value"], -row["reidentification"]["score"], row["name"]))
    worst = next(attack for attack in attacks if attack.name == seekers[0]["name"])
    summary = {
        "seeker": worst.name,
        "p_value": found["p_value"],
        "leak": found["leak"],
        "attacks": len(attacks),
        "highest": {figure: _highest(seekers, figure) for figure in FIGURES},
    }
    return Worst(worst, seekers, summary)


def _highest(seekers: Sequence[dict[str, Any]], figure: str) -> dict[str, Any] | None:
    known = [row for row in seekers if row["reidentification"][figure] is not None]
    if not known:
        return None
    row = max(known, key=lambda row: row["reidentification"][figure])
    found = row["reidentification"]
    return {"seeker": row["name"], "value": found[figure], "interval": found[f"{figure}_ci95"]}
