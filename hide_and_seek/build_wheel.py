"""Hatch's hook for the wheel: the flat files go into `hide_and_seek/home/`, which is no package."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOMS = ("utils", "scoring", "examples", "deid")
FILES = ("*.py", "requirements.txt", "requirements-cluster.txt", "requirements-deid.txt")


class HomeHook(BuildHookInterface):
    """Adds the files. Nobody's environment gets a package called `utils`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        files = [path for pattern in FILES for path in root.glob(pattern)]
        files += [
            path
            for room in ROOMS
            for path in (root / room).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".csv"  # no tables
        ]
        target = Path("hide_and_seek") / "home"
        build_data["force_include"] |= {str(path): str(target / path.relative_to(root)) for path in sorted(files)}
