"""The organiser's key: 256 random bits that decide who is a member. Without it no split can be computed."""

import hashlib
import os
import secrets
from pathlib import Path

from utils.errors import UserError

KEY_BYTES = 32


def organiser_key(path: Path) -> bytes:
    """Return the key in a file. The first call draws it and writes the file, for its owner alone.

    Whoever has the key and the data knows the members of every hider. Who loses it cannot repeat the tournament.

    Raises
    ------
    UserError
        If the file holds no key, or others may read it.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return _read(path)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise UserError(f"{path} is no file; --key names the file of the organiser's key")
    if path.stat().st_mode & 0o077:
        raise UserError(f"others may read {path}, the organiser's key; if nobody did, run: chmod 600 {path}")
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UserError(
            f"{path} holds no key of {KEY_BYTES} bytes; bring the right file back, or remove it to draw another"
        )
    return key


def fingerprint(key: bytes, purpose: str) -> str:
    """Name a split without telling anything of it: for the keys of stored results."""
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=16, person=b"fingerprint").hexdigest()
