"""Taking submissions into a tournament: what is played, under which name and with which setting."""

import itertools
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scoring.contract import ROLES, Role
from scoring.strangers import Failed
from scoring.submissions.players import Player, check_player, known_players, split_setting
from scoring.submissions.submission import HOME, digest, take_in
from utils.errors import UserError

MAX_NAME = 64  # characters: three names stand in one path


@dataclass(frozen=True)
class Entrant:
    """A submission that takes part, or one that was refused.

    Attributes
    ----------
    name : str
        What the leaderboard calls it, and its folders. No two of a role share a name.
    role : "hider", "seeker" or None
        None if a submission was refused before its role was known.
    digest : str
        Of its files. Empty if it was refused.
    image : str or None
        The Docker image it asks for.
    refused : str
        Why it was refused, in one line. Empty if it takes part.
    setting : str or None
        The parameters it is played with, such as `noise_size=0.2`, or the name of one of its settings.
    identity : str
        What its split and its stored data hang on: the whole name of its file. A `hider_zed.zip` is another than
        `zed.zip`, and both are others than the method `zed` of this repository.
    """

    name: str
    role: Role | None
    digest: str = ""
    image: str | None = None
    refused: str = ""
    setting: str | None = None
    identity: str = ""

    def facts(self) -> dict[str, object]:
        """Return the `hider` or `seeker` part of a match's report.json."""
        parameters = {"given": self.setting} if self.setting else {}
        return {"name": self.name, "source": f"submission {self.digest[:12]}", "parameters": parameters}


def enter(submissions: Sequence[str], output: Path) -> list[Entrant]:
    """Take submissions in: each is checked and copied to `output/submissions/` under the digest of its files.

    Parameters
    ----------
    submissions : sequence of str
        Names (`addnoise`), `.py` files, zips, folders, and folders of these. A setting may follow after a colon:
        `timegan:joint_iterations=3000`.
    output : Path
        The tournament's folder.

    Raises
    ------
    UserError
        If there is nothing of a name, or a method of ours does not have the setting. A submission that is no good is
        an Entrant that was refused.
    """
    taken_in: list[tuple[Entrant, str]] = []
    for wanted in submissions:
        if not wanted.strip():
            raise UserError(
                "a submission has an empty name; name zips, folders, .py files, or methods such as addnoise"
            )
        unset, setting = split_setting(wanted)
        for name, role, source in _sources(unset):
            if setting and role and source.parent == HOME:
                check_player(Player(role, name, source, setting))
            whole = source.stem if source.suffix in (".py", ".zip") else source.resolve().name
            end = f":{setting}" if setting else ""
            entrant = replace(_take_in(name + end, role, source, output / "submissions"), setting=setting)
            where = "method" if source.parent == HOME else "submission"
            taken_in.append((replace(entrant, identity=f"{where} {whole}{end}"), _plain_name(whole + end)))
    return _named(taken_in)


def _named(taken_in: Sequence[tuple[Entrant, str]]) -> list[Entrant]:
    """Give each its short name, or its whole one if two of a role share the short one, and a number if both do."""
    short = Counter((entrant.role, entrant.name) for entrant, _ in taken_in)
    whole = {(entrant.role, name) for entrant, name in taken_in}
    names: set[tuple[Role | None, str]] = set()
    identities: Counter[tuple[Role | None, str]] = Counter()
    entrants = []
    for entrant, whole_name in taken_in:
        wanted = entrant.name
        if short[entrant.role, wanted] > 1 and wanted != whole_name and (entrant.role, wanted) in whole:
            wanted = whole_name  # another's file has the short name as its own
        numbered = itertools.chain([wanted], (f"{wanted}-{number}" for number in itertools.count(2)))
        name = next(name for name in numbered if (entrant.role, name) not in names)
        names.add((entrant.role, name))
        identities[entrant.role, entrant.identity] += 1
        number = identities[entrant.role, entrant.identity]
        identity = entrant.identity if number == 1 else f"{entrant.identity} {number}"
        entrants.append(replace(entrant, name=name, identity=identity))
    return entrants


def _sources(wanted: str) -> Iterator[tuple[str, Role | None, Path]]:
    """Yield the name, the role if it is known, and the path of each submission that is meant."""
    named = [(role, HOME / f"{role}_{wanted}.py") for role in ROLES if (HOME / f"{role}_{wanted}.py").is_file()]
    path = Path(wanted)
    if named:
        yield from ((wanted, role, source) for role, source in named)
    elif path.is_dir() and not any((path / f"{role}.py").is_file() for role in ROLES):
        inside = [
            found
            for found in sorted(path.iterdir())
            if found.suffix == ".zip"
            or (found.suffix == ".py" and found.name.startswith(ROLES))
            or (found.is_dir() and any((found / f"{role}.py").is_file() for role in ROLES))
        ]
        if not inside:
            raise UserError(f"{wanted} holds no submissions: no zip, hider_*.py, seeker_*.py or unpacked folder")
        yield from ((_name(found), None, found) for found in inside)
    elif path.exists():
        yield _name(path), None, path
    else:
        known = ", ".join(sorted({name for role in ROLES for name in known_players(role, HOME)}))
        raise UserError(f"unknown submission '{wanted}'; known are {known}; or name a zip, a folder or a .py file")


def _name(path: Path) -> str:
    stem = path.resolve().stem if path.is_file() else path.resolve().name
    return re.sub(r"^(hider|seeker)_", "", stem)


def _plain_name(name: str) -> str:
    """Turn a name into one that can stand in a path, a table and a terminal."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:MAX_NAME].lstrip(".-")
    return plain or "submission"


def _is_sound(folder: Path, expected: str) -> bool:
    try:
        return digest(folder) == expected
    except UserError:  # a link, say
        return False


def _take_in(name: str, role: Role | None, source: Path, folder: Path) -> Entrant:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder))
    try:
        submission = take_in(source, temporary / "it", role)
        target = folder / submission.digest
        if target.is_dir() and not _is_sound(target, submission.digest):  # somebody touched it
            shutil.rmtree(target)
        if not target.is_dir():
            os.rename(submission.folder, target)
        return Entrant(_plain_name(name), submission.role, submission.digest, submission.image)
    except Failed as failed:
        return Entrant(_plain_name(name), role, refused=failed.detail)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
