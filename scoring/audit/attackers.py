"""The seekers that take part in an audit: found by listing files, run through the contract, never known by name."""

import dataclasses
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scoring.contract import check_labels
from scoring.submissions.players import Player, known_players, load_player, play
from utils.errors import UserError
from utils.progress import without_bars


@dataclass(frozen=True)
class Attacker:
    """A seeker with its setting.

    Attributes
    ----------
    name : str
    source : Path
    setting : str
        Its parameters as `name=value,...`; empty for the defaults.
    digest : str
        Of its file and of the code that it can use.
    about : str
        The first line of its docstring.
    """

    name: str
    source: Path
    setting: str
    digest: str
    about: str


@dataclass(frozen=True)
class Absent:
    """A seeker that does not take part, and why."""

    name: str
    about: str
    reason: str


@dataclass(frozen=True)
class Answer:
    """What a seeker said of each of the N real stays: labels (bool), scores (float), and its parameters."""

    labels: np.ndarray
    scores: np.ndarray
    parameters: dict[str, Any]


def find_attackers(
    home: Path, *, slow: bool, hider: str | None, hider_parameters: str, folder: Path
) -> tuple[list[Attacker], list[Absent]]:
    """List every seeker of a folder, and say why one cannot take part.

    Parameters
    ----------
    home : Path
        The folder with the `seeker_*.py`.
    slow : bool
        Whether those take part that say `SLOW = True` (they train networks for long) or that ask all others.
    hider : str, optional
        The generator's code, for seekers whose `Parameters` have a field `hider`. They run it themselves.
    hider_parameters : str
        More parameters for these, `name=value,...`.
    folder : Path
        Given to those of them that have a field `folder`, to keep finished runs in.
    """
    taking_part: list[Attacker] = []
    absent: list[Absent] = []
    for name in known_players("seeker", home):
        source = home / f"seeker_{name}.py"
        try:
            module = load_player(Player("seeker", name, source))
        except UserError as error:
            absent.append(Absent(name, "", str(error)))
            continue
        about = (module.__doc__ or "").strip().splitlines()[0].strip() if module.__doc__ else ""
        block = getattr(module, "Parameters", None)
        fields = {field.name for field in dataclasses.fields(block)} if dataclasses.is_dataclass(block) else set()
        setting = ""
        if getattr(module, "SLOW", False) and not slow and "hider" not in fields:
            absent.append(Absent(name, about, "trains networks for long; --slow lets it take part"))
            continue
        if "hider" in fields:
            if hider is None:
                absent.append(Absent(name, about, "needs the generator's code; name it with --hider"))
                continue
            parts = [f"hider={hider}", *filter(None, [hider_parameters])]
            if "folder" in fields:
                parts.append(f"folder={folder}")
            setting = ",".join(parts)
        elif "seekers" in fields and not slow:
            reason = "asks all other attacks again and combines them; --slow lets it take part"
            absent.append(Absent(name, about, reason))
            continue
        digest = _digest(source, hider if setting else None)
        taking_part.append(Attacker(name, source, setting, digest, about))
        for other in getattr(module, "ALSO_PLAYED", ()):
            both = ",".join(filter(None, [other, setting]))
            taking_part.append(Attacker(f"{name}:{other}", source, both, digest, about))
    return taking_part, absent


def attack(attacker: Attacker, input_dict: dict[str, Any]) -> Answer:
    """Run one seeker and check what it returns. Without scores, its labels are its scores.

    Raises
    ------
    UserError
        If it fails, or returns what it must not.
    """
    player = Player("seeker", attacker.name, attacker.source, attacker.setting or None)
    with without_bars():
        output, parameters = play(player, input_dict)
    labels, scores = check_labels(f"seeker '{attacker.name}'", output, len(input_dict["enlarged_data"]))
    return Answer(labels, labels.astype(float) if scores is None else scores, parameters)


def _digest(source: Path, hider: str | None) -> str:
    """Digest a seeker's file, the code beside it that it can import, and the hider that it runs."""
    total = hashlib.sha256(source.read_bytes())
    total.update(_shared_code(source.parent).encode())
    for path in filter(None, [hider]):
        file = Path(path.partition(":")[0])
        total.update(file.read_bytes() if file.is_file() else path.encode())
    return total.hexdigest()


@functools.cache
def _shared_code(home: Path) -> str:
    total = hashlib.sha256()
    for folder in ("utils", "examples"):
        for file in sorted((home / folder).rglob("*.py")):
            total.update(file.read_bytes())
    return total.hexdigest()
