"""Folders that are whole or not there: write into a private folder, then rename."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scoring.leftovers import is_dead, this_process


@contextlib.contextmanager
def staged_folder(output: Path, prefix: str) -> Iterator[Path]:
    """Yield a private folder in `output`. What is in it takes its place in `output` only if the block ends well.

    What killed processes left under `prefix` is removed first. The folder's name tells its process, with the start of
    the process and of the machine, so that a process that was given the same number later is not mistaken for it.

    Parameters
    ----------
    output : Path
        Made if it is missing. Other files in it are left alone.
    prefix : str
        Of the private folder's name.
    """
    output.mkdir(parents=True, exist_ok=True)
    for left in output.glob(f"{prefix}*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdecimal() or is_dead(owner):  # earlier versions wrote a bare process id
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{this_process()}-", dir=output))
    try:
        yield folder
        replaced = folder / "replaced"
        replaced.mkdir()
        for new in sorted(folder.iterdir()):
            if new != replaced:
                old = output / new.name
                if old.exists():
                    old.rename(replaced / new.name)
                new.rename(old)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
