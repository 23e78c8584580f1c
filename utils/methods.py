"""Other methods as parts of a method: a seeker that runs a hider, or that asks other seekers.

A method is one file and imports no other method, so that it can be copied and submitted alone. An attack that combines
attacks still needs them. It finds them here when it runs, by name, beside its own file.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from utils.errors import UserError
from utils.parameters import parse_parameters

Role = Literal["hider", "seeker"]
Method = Callable[[dict[str, Any]], Any]


def known_methods(role: Role, home: Path) -> list[str]:
    """Return the names of the methods in the folder `home`, in alphabetical order."""
    return sorted(file.stem.removeprefix(f"{role}_") for file in home.glob(f"{role}_*.py"))


def find_method(role: Role, wanted: str, home: Path) -> tuple[Path, str]:
    """Find a method's file and its setting.

    Parameters
    ----------
    role : "hider" or "seeker"
    wanted : str
        A name (`addnoise` is `hider_addnoise.py` in `home`) or the path of a `.py` file. A setting may follow after a
        colon: `addnoise:noise_size=0.2`. Several parameters are joined by `;`, as this is itself one parameter.
    home : Path
        The folder in which named methods are.

    Returns
    -------
    file : Path
    setting : str
        Empty if there is none.

    Raises
    ------
    UserError
        If there is no such file.
    """
    name, _, setting = (wanted, "", "") if Path(wanted).is_file() else wanted.partition(":")
    for file in (home / f"{role}_{name}.py", Path(name)):
        if file.is_file() and file.suffix == ".py":
            return file.resolve(), setting.replace(";", ",")
    known = ", ".join(known_methods(role, home)) or "none"
    raise UserError(f"no {role} '{name}' beside this method ({home}); there are: {known}; or name a .py file")


def load_method(role: Role, wanted: str, home: Path) -> Method:
    """Return the function of a method, with its setting. It runs in this process and is trusted as this process is.

    Parameters
    ----------
    role, wanted, home
        As in `find_method`.

    Raises
    ------
    UserError
        If there is no such file, or it has no function `hider` or `seeker`, or no such parameter.
    """
    file, setting = find_method(role, wanted, home)
    module = _module(file)
    function = getattr(module, role, None)
    if not callable(function):
        raise UserError(f"{file.name} has no function {role}(input_dict)")
    if not setting:
        return function
    parameters = parse_parameters(module, setting)
    return lambda input_dict: function(input_dict, parameters)


def source_digest(files: list[Path]) -> str:
    """Return a digest of the names and contents of source files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def seeker_scores(seeker: Method, input_dict: dict[str, Any], name: str) -> np.ndarray:
    """Run one seeker on a copy of the input and return its scores, shape [M], or its labels if it has no scores.

    Raises
    ------
    UserError
        If it returns something else.
    """
    output = seeker(dict(input_dict))
    pair = isinstance(output, tuple) and len(output) == 2
    values = output[1] if pair and output[1] is not None else output[0] if pair else output
    scores = np.asarray(values, dtype=float).reshape(-1)
    if len(scores) != len(input_dict["enlarged_data"]) or not np.isfinite(scores).all():
        raise UserError(f"seeker '{name}' returned no finite score for each of the enlarged stays")
    return scores


def _module(file: Path) -> ModuleType:
    loaded = sys.modules.get(file.stem)
    if loaded is not None and getattr(loaded, "__file__", None) and Path(str(loaded.__file__)).resolve() == file:
        return loaded
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise
    return module
