"""Files that are whole or not there: write to a temporary name, then rename."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from utils.errors import UserError


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`. It takes that name, for its owner alone, only if the block ends well.

    A link is followed: what it points to is replaced.

    Raises
    ------
    UserError
        Where `path` is a folder or a device (root could replace one by renaming over it).
    OSError
        Where the folder cannot be written to or the disk is full. `path` is then as it was.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a folder or a device, not a file to write to")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)  # readable by its owner alone, as mkstemp made it: it may tell of patients
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
