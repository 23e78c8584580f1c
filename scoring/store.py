"""Results of finished work, kept under the digest of what they came from: nothing is done twice, nothing half."""

import hashlib
import hmac
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from utils.files import atomic_path

_FACTS = "facts.json"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
_DIGEST_BYTES = 64  # SHA-256 in hexadecimal


@dataclass(frozen=True)
class StoredResult:
    """What one unit of work left.

    Attributes
    ----------
    facts : dict
        Plain JSON.
    arrays : dict of str to ndarray
    """

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class Store:
    """A folder of results, one `.npz` each (arrays, and facts as JSON; no pickles), for any number of writers.

    A result is written to a temporary name, synced and renamed, so that it is there whole or not at all whenever a
    writer or the machine dies. Two writers of one key write the same. A result ends with a digest of its kind, its key
    and its content (as the comment of the zip, so that NumPy reads it too): one that a disk damaged or a hand moved
    counts as missing, and is made again.

    Parameters
    ----------
    root : Path
        Made where it is missing, for its owner alone: what it holds is as secret as the data.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root = root

    def path(self, kind: str, key: str) -> Path:
        """Return where a result is or would be."""
        return self.root / kind / f"{key}.npz"

    def has(self, kind: str, key: str) -> bool:
        """Whether a result is there and sound."""
        try:
            with self.path(kind, key).open("rb") as file:
                return _is_sound(file, kind, key)
        except OSError:
            return False

    def get(self, kind: str, key: str) -> StoredResult | None:
        """Return a result. None where there is none, or none that is sound (it is then made again)."""
        try:
            # Opened here: np.load leaves a file open that is no sound zip.
            with self.path(kind, key).open("rb") as file:
                if not _is_sound(file, kind, key):
                    return None
                file.seek(0)
                with np.load(file, allow_pickle=False) as stored:
                    facts = json.loads(stored[_FACTS].tobytes())
                    return StoredResult(facts, {name: stored[name] for name in stored.files if name != _FACTS})
        except _UNREADABLE:
            return None

    def put(self, kind: str, key: str, result: StoredResult) -> None:
        """Keep a result, whole or not at all.

        Raises
        ------
        OSError
            Where it cannot be written (a full disk, say).
        """
        path = self.path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        facts = np.frombuffer(json.dumps(result.facts, sort_keys=True, allow_nan=False).encode(), np.uint8)
        with atomic_path(path) as temporary, temporary.open("w+b") as file:
            np.savez(file, **{_FACTS: facts}, **result.arrays)  # type: ignore[arg-type]
            file.seek(-2, os.SEEK_END)  # the length of the comment, none so far
            file.write(_DIGEST_BYTES.to_bytes(2, "little"))
            file.write(_digest(file, kind, key, file.tell()))
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too, outlives a power cut
        finally:
            os.close(folder)


def _digest(file: IO[bytes], kind: str, key: str, size: int) -> bytes:
    """Digest the first `size` bytes of a result. Leaves the file's position there."""
    digest = hashlib.sha256(f"{kind}/{key}\n".encode())
    file.seek(0)
    while size and (chunk := file.read(min(size, 1 << 20))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def _is_sound(file: IO[bytes], kind: str, key: str) -> bool:
    size = file.seek(0, os.SEEK_END) - _DIGEST_BYTES
    return size > 0 and hmac.compare_digest(_digest(file, kind, key, size), file.read())


def key(inputs: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything a result came from, given as plain JSON."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, allow_nan=False).encode()).hexdigest()


def digest_arrays(*arrays: np.ndarray | None) -> str:
    """Return the SHA-256 of arrays with their types and shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"none" if array is None else f"{array.dtype.str}{array.shape}".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()
