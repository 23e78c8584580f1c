"""Files that are either whole or absent, and archives that are checked when read."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from utils.errors import UserError
from utils.files import atomic_path

FORMAT = 1  # raised whenever a model's or a representation file's layout changes


_DAMAGED = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    AttributeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_bytes(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: readers see the old file or the new one, never half of one."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text as it is (line ends untouched), whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def read_text(path: Path) -> str:
    """Return a file's UTF-8 text, line ends untouched, no byte-order mark. `UserError` names what is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (byte {error.start}). Convert it first, e.g. with iconv") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def write_archive(path: Path, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and what describes them as one compressed .npz. `kind` and the format's version travel with them."""
    text = json.dumps({"kind": kind, "format": FORMAT, **meta}, ensure_ascii=False)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, meta=np.frombuffer(text.encode("utf-8"), np.uint8), **arrays)  # type: ignore[arg-type]


def read_archive(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what `write_archive` wrote. `UserError` says if it is of another kind or version, or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays.pop("meta").tobytes().decode("utf-8"))
        found, version = meta["kind"], meta["format"]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or 'not a file this tool wrote'}") from error
    except _DAMAGED as error:
        raise UserError(f"{path}: not a {kind} file of this tool, or damaged") from error
    if found != kind:
        raise UserError(f"{path}: holds a {found}, not a {kind}")
    if version != FORMAT:
        raise UserError(f"{path}: written in format {version}, this version reads format {FORMAT}. Make it anew")
    return meta, arrays
