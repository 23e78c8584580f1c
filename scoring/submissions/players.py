"""Finding a hider or seeker by what the user calls it, and running it."""

import dataclasses
import importlib.util
import sys
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from scoring.contract import Role, asked_by, given
from utils.errors import UserError
from utils.misc import fix_all_random_seeds
from utils.parameters import parse_parameters
from utils.solutions import RESCORE

DEFAULTS: dict[Role, str] = {"hider": "addnoise", "seeker": "knn"}


@dataclass(frozen=True)
class Player:
    """One side of a match.

    Attributes
    ----------
    role : "hider" or "seeker"
    name : str
        As the user and the report call it.
    source : Path
        Its `.py` file, folder or zip.
    setting : str, optional
        Its parameters as the user wrote them: `noise_size=0.2`, or the name of a setting such as `published`.
    module : module, optional
        What the `.py` file was imported as, once `check_player` has done so.
    """

    role: Role
    name: str
    source: Path
    setting: str | None = None
    module: ModuleType | None = field(default=None, compare=False)


def find_player(role: Role, wanted: str | None, home: Path, setting: str | None = None) -> Player:
    """Find the hider or seeker the user means.

    Parameters
    ----------
    role : "hider" or "seeker"
    wanted : str, optional
        A name (`addnoise` is `hider_addnoise.py`), a `.py` file, a folder or a zip. A setting may follow after a
        colon: `adversarial:published`, `addnoise:noise_size=0.2`. Without it, `hider.py` or `seeker.py` in `home` is
        played, or else the default method.
    home : Path
        The folder of `main.py`.
    setting : str, optional
        More parameters, which take precedence over those after the colon.

    Raises
    ------
    UserError
        If there is no such thing. The message lists the known names.
    """
    if wanted is not None and not wanted.strip():
        raise UserError(f"the {role} has an empty name; name a method, a .py file, a folder or a .zip")
    if wanted is None:
        own = home / f"{role}.py"
        if own.is_file():
            return Player(role, role, own, setting)
        return find_player(role, DEFAULTS[role], home, setting)
    wanted, after_colon = split_setting(wanted)
    setting = ",".join(part for part in (after_colon, setting) if part) or None
    named = home / f"{role}_{wanted}.py"
    if named.is_file():
        return Player(role, wanted, named, setting)
    path = Path(wanted)
    if path.is_dir() or (path.is_file() and path.suffix in (".py", ".zip")):
        return Player(role, path.resolve().stem, path.resolve(), setting)
    known = ", ".join(known_players(role, home))
    raise UserError(f"unknown {role} '{wanted}'; known are {known}; or name a .py file, a folder or a .zip")


def split_setting(wanted: str) -> tuple[str, str | None]:
    """Split `adversarial:published` into a method's name or path and its setting, which is None if there is none."""
    if Path(wanted).exists():
        return wanted, None
    name, _, setting = wanted.partition(":")
    return name, setting or None


def known_players(role: Role, home: Path) -> list[str]:
    """Return the names of the methods in `home`."""
    return sorted(file.stem.removeprefix(f"{role}_") for file in home.glob(f"{role}_*.py"))


def load_player(player: Player) -> ModuleType:
    """Import a player's module from its `.py` file.

    Raises
    ------
    UserError
        If the import fails or the module has no function `hider` or `seeker`.
    """
    spec = importlib.util.spec_from_file_location(player.source.stem, player.source)
    if spec is None or spec.loader is None:
        raise UserError(f"{player.role} '{player.name}': {player.source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[player.source.stem] = module  # dataclasses look their module up there
    folder = str(player.source.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(_failure(player, "could not be imported:", error)) from error
    if not callable(getattr(module, player.role, None)):
        raise UserError(
            f"{player.role} '{player.name}': {player.source.name} has no function {player.role}(input_dict)"
        )
    return module


def check_player(player: Player) -> Player:
    """See that a player can be imported and takes its setting, before anything long is run.

    Returns
    -------
    Player
        The player with its module. A folder or zip is returned as it is: it is looked at when it is played.

    Raises
    ------
    UserError
        As `load_player` and `parse_parameters`.
    """
    if player.source.suffix != ".py":
        return player
    module = load_player(player)
    if player.setting:
        parse_parameters(module, player.setting)
    return replace(player, module=module)


def play(player: Player, input_dict: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run a player on its input: a `.py` file in this process, a folder or zip in a sandbox with its own `utils/`.

    Parameters
    ----------
    player : Player
    input_dict : dict
        The contract's input. `seed` also seeds the legacy global generators, as in 2020.

    Returns
    -------
    output : object
        What it returned, unchecked.
    used : dict
        The parameters it ran with.

    Raises
    ------
    UserError
        If it cannot be imported, has no such parameter, or raises.
    """
    if player.source.suffix != ".py":
        return _play_sandboxed(player, input_dict)
    module = player.module or load_player(player)
    block = parse_parameters(module, player.setting) if player.setting else None
    fix_all_random_seeds(input_dict["seed"])
    function = getattr(module, player.role)
    input_dict = given(input_dict, player.role, asked_by(module))
    try:
        output = function(input_dict) if block is None else function(input_dict, block)
    except UserError as error:
        raise UserError(f"{player.role} '{player.name}': {error}") from error
    except (Exception, SystemExit) as error:
        raise UserError(_failure(player, "raised", error)) from error
    if block is None and dataclasses.is_dataclass(getattr(module, "Parameters", None)):
        block = module.Parameters()
    return output, dataclasses.asdict(block) if block is not None else {}


def _play_sandboxed(player: Player, input_dict: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from scoring.sandbox import ProcessSandbox
    from scoring.submissions.submission import take_in

    sandbox = ProcessSandbox()
    print(f"notice: {sandbox.notice}")
    arrays = {name: value for name, value in input_dict.items() if name != "seed"}
    with tempfile.TemporaryDirectory() as folder:
        submission = take_in(player.source, Path(folder) / "submission", player.role)
        outcome = sandbox.run(submission.folder, player.role, arrays, input_dict["seed"], parameters=player.setting)
    if outcome.status != "ok":
        # Whoever runs main.py owns the data, so --debug shows them the whole traceback.
        error = RuntimeError(f"{outcome.submitter_log}\n{outcome.stderr}".strip())
        raise UserError(f"{player.role} '{player.name}' {outcome.explained}; --debug shows more") from error
    outputs = outcome.outputs
    used = {"given": player.setting} if player.setting else {}
    if player.role == "seeker":
        return (outputs["labels"], outputs["scores"]), used
    if outputs.get("rescore"):
        return RESCORE[0], used
    return (outputs["generated_data"], outputs["padding_mask"], outputs["eval_seeds"]), used


def _failure(player: Player, what: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(player.source)]
    where = f" ({player.source.name}, line {frames[-1].lineno})" if frames else ""
    message = " ".join(str(error).split())[:200]
    return f"{player.role} '{player.name}' {what} {type(error).__name__}: {message}{where}; --debug shows the traceback"
