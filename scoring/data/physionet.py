"""PhysioNet 2012 (Computing in Cardiology Challenge) as it is downloaded, read into a longitudinal table.

A set is thousands of small files, one `RecordID.txt` per stay with the lines `Time,Parameter,Value`. Archives come
from outside: they are read as a stream in memory and never extracted, links and devices are refused, names only
select what to read (the stay's identity is the RecordID inside), and sizes are bounded.
"""

import contextlib
import errno
import gzip
import itertools
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

import numpy as np
import polars

from utils.errors import UserError

FEATURES = (
    "ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine", "DiasABP", "FiO2", "GCS",
    "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP", "MechVent", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na",
    "PaCO2", "PaO2", "Platelets", "RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC",
    "Weight", "pH",
)  # fmt: skip
DESCRIPTORS = ("RecordID", "Age", "Gender", "Height", "ICUType")  # of the stay, not of a time point: left out
MISSING = -1.0

MAX_RECORD_BYTES = 1 << 20  # the largest record of set-a has 23,508
MAX_ARCHIVE_BYTES = 1 << 29  # unpacked; set-a has 33 MB

_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
_RECORD_NAME = re.compile(r"[0-9]+\.txt")
_HEADER = re.compile(rb"Time,Parameter,Value\n")
_RECORD_ID = re.compile(rb"00:00,RecordID,([0-9]{1,9})\n")
# Readers of sets b and c report lines without a parameter's name. They measure nothing and are left out.
_LINES = re.compile(
    rb"(?:[0-9]{2}:[0-5][0-9],(?:[A-Za-z0-9]+,-?[0-9]{1,9}(?:\.[0-9]{0,9})?(?:[eE][-+]?[0-9]{1,2})?|,[^,\n]*)\n)*"
)

_MINUTES = 100 * 60  # a clock reads 00:00 to 99:59. One integer, stay * _MINUTES + minute, orders the rows

_Record = tuple[str, bytes]  # where it lies (for error messages), and what it holds


def is_physionet(path: Path) -> bool:
    """Tell, without reading it, whether `path` is an archive by its name or a folder holding records."""
    if path.is_dir():
        return next(_record_paths(path), None) is not None
    return path.name.lower().endswith(_SUFFIXES)


def read(paths: Sequence[Path]) -> polars.DataFrame:
    """Read one or several sets of PhysioNet 2012 into one longitudinal table.

    Parameters
    ----------
    paths : sequence of Path
        `.tar.gz`, `.tar` or `.zip` archives, or folders with the records in them or one level below. Files that
        are not named like a record (outcomes, indexes) are ignored.

    Returns
    -------
    polars.DataFrame
        `admissionid` (RecordID, Int64), `time` (hours since admission) and the 37 `FEATURES` (Float64, units as in
        the challenge's data description; null where missing). One row per (stay, `HH:MM`), in ascending order of
        both, also where nothing but a missing value (-1) or a descriptor was recorded. Several values in one cell
        are averaged.

    Raises
    ------
    UserError
        Where a path is missing, damaged, over the size bounds or without records, a record is malformed or names
        an unknown parameter, or a RecordID occurs twice.
    """
    sources: list[str] = []
    bodies: list[bytes] = []
    identities: list[int] = []
    first_source: dict[int, str] = {}
    for source, content in itertools.chain.from_iterable(map(_records, paths)):
        identity, body = _parse(source, content)
        if identity in first_source:
            raise UserError(f"RecordID {identity} occurs twice: in {first_source[identity]} and in {source}")
        first_source[identity] = source
        sources.append(source)
        bodies.append(body)
        identities.append(identity)

    lines = polars.read_csv(
        b"".join(bodies),
        has_header=False,
        schema={"clock": polars.String, "parameter": polars.String, "value": polars.String},
        quote_char=None,
    )
    lines_per_record = np.array([body.count(b"\n") for body in bodies])
    record = polars.Series("record", np.repeat(np.arange(len(bodies)), lines_per_record))
    lines = lines.with_columns(record).filter(polars.col("parameter").is_not_null())
    unknown = lines.filter(~polars.col("parameter").is_in([*FEATURES, *DESCRIPTORS]))
    if not unknown.is_empty():
        source, parameter = sources[unknown["record"][0]], unknown["parameter"][0]
        raise UserError(f"{source}: unknown parameter '{parameter[:40]}'; is this PhysioNet 2012?")
    return _table(lines, np.array(identities))


def tables(paths: Sequence[Path]) -> Iterator[polars.DataFrame]:
    """Yield what `read` returns, once: the form `scoring.longitudinal.write_csv` takes."""
    yield read(paths)


def _table(lines: polars.DataFrame, identities: np.ndarray) -> polars.DataFrame:
    """Turn one line per value (record, clock, parameter, value) into one row per (stay, minute)."""
    hour, minute = (polars.col("clock").str.slice(at, 2).cast(polars.Int64) for at in (0, 3))
    minutes = lines.select(hour * 60 + minute).to_series().to_numpy()
    rows, row = np.unique(identities[lines["record"]] * _MINUTES + minutes, return_inverse=True)

    # Sums and counts of every cell at once: six times as fast as a pivot (set-a: 0.5 s instead of 3).
    column = lines["parameter"].replace_strict(FEATURES, range(len(FEATURES)), default=None, return_dtype=polars.Int64)
    values = lines["value"].cast(polars.Float64)
    measured = (column.is_not_null() & (values != MISSING)).to_numpy()
    cell = row[measured] * len(FEATURES) + column.filter(measured).to_numpy()
    cells = len(rows) * len(FEATURES)
    sums = np.bincount(cell, weights=values.filter(measured).to_numpy(), minlength=cells)
    counts = np.bincount(cell, minlength=cells)
    with np.errstate(invalid="ignore"):
        means = (sums / counts).reshape(len(rows), len(FEATURES))  # 0 / 0, a cell without a value, is NaN

    table = polars.from_numpy(means, schema=list(FEATURES)).fill_nan(None)
    return table.insert_column(0, polars.Series("admissionid", rows // _MINUTES)).insert_column(
        1, polars.Series("time", rows % _MINUTES // 60 + rows % _MINUTES % 60 / 60)
    )


def _parse(source: str, content: bytes) -> tuple[int, bytes]:
    """Check a record once, at the door. Return its RecordID and the lines that follow the header."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    if not content.endswith(b"\n"):
        content += b"\n"
    header = _HEADER.match(content)
    if header is None:
        raise UserError(f"{source}, line 1: expected 'Time,Parameter,Value'; is this PhysioNet 2012?")
    identity = _RECORD_ID.match(content, header.end())
    if identity is None:
        raise UserError(f"{source}, line 2: expected '00:00,RecordID,' and a number; is this PhysioNet 2012?")
    lines = _LINES.match(content, header.end())
    end = lines.end() if lines else header.end()
    if end < len(content):
        line = content[end:].split(b"\n", 1)[0][:60].decode(errors="replace")
        number = content.count(b"\n", 0, end) + 1
        raise UserError(f"{source}, line {number}: expected 'HH:MM,Parameter,Value', found {line!r}")
    return int(identity[1]), content[header.end() :]


# ---------------------------------------------------------------------------------------- archives and folders


def _records(path: Path) -> Iterator[_Record]:
    """Yield the records of one archive or folder."""
    if not path.exists():
        raise UserError(f"not found: {path}; name an archive or a folder of PhysioNet 2012")
    if path.is_dir():
        found = _folder(path)
    else:
        with path.open("rb") as file:
            magic = file.read(4)
        found = _zip(path) if magic in (b"PK\x03\x04", b"PK\x05\x06") else _tar(path, gzipped=magic[:2] == b"\x1f\x8b")
    empty = True
    for record in found:
        empty = False
        yield record
    if empty:
        raise UserError(f"{path} holds no PhysioNet 2012 records (files named RecordID.txt)")


def _is_record(name: str) -> bool:
    return _RECORD_NAME.fullmatch(PurePosixPath(name).name) is not None


def _record_paths(folder: Path) -> Iterator[Path]:
    """Yield the paths of records in a folder, then in its subfolders. Links to folders are not followed."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    yield from (Path(entry.path) for entry in ordered if _is_record(entry.name))
    for subfolder in ordered:
        if subfolder.is_dir(follow_symlinks=False) and os.access(subfolder.path, os.R_OK | os.X_OK):
            with os.scandir(subfolder.path) as entries:
                yield from (Path(path) for path in sorted(entry.path for entry in entries if _is_record(entry.name)))


def _folder(folder: Path) -> Iterator[_Record]:
    for path in _record_paths(folder):
        if not stat.S_ISREG(path.lstat().st_mode):
            _refuse_kind(str(path))
        with path.open("rb") as file:
            yield str(path), _bounded(file, str(path))


def _tar(path: Path, *, gzipped: bool) -> Iterator[_Record]:
    with _damage_is_a_user_error(path), path.open("rb") as file, contextlib.ExitStack() as stack:
        unpacked = stack.enter_context(gzip.GzipFile(fileobj=file)) if gzipped else file
        # A stream: nothing is sought, and tarfile itself (long names, extended headers) reads under the bound.
        archive = stack.enter_context(tarfile.open(fileobj=_BoundedStream(unpacked, path), mode="r|"))  # type: ignore[call-overload]
        for member in archive:
            if not _is_record(member.name):
                continue
            source = f"{path.name}:{_printable(member.name)}"
            if not member.isreg() or member.issparse():
                _refuse_kind(source)
            if member.size > MAX_RECORD_BYTES:
                _refuse_size(source)
            content = archive.extractfile(member)
            assert content is not None
            yield source, content.read()


def _zip(path: Path) -> Iterator[_Record]:
    total = 0
    with _damage_is_a_user_error(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not _is_record(member.filename) or member.is_dir():
                continue
            source = f"{path.name}:{_printable(member.filename)}"
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                _refuse_kind(source)
            if member.flag_bits & 1:
                raise UserError(f"{source} is encrypted; unpack the archive and name the folder instead")
            with archive.open(member) as file:
                content = _bounded(file, source)
            total += len(content)
            if total > MAX_ARCHIVE_BYTES:
                _refuse_size(str(path))
            yield source, content


class _BoundedStream:
    """The unpacked bytes of an archive, refused beyond `MAX_ARCHIVE_BYTES`: a small archive can unpack to anything."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._left = MAX_ARCHIVE_BYTES

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            _refuse_size(str(self._path))
        return chunk


def _bounded(file: IO[bytes], source: str) -> bytes:
    content = file.read(MAX_RECORD_BYTES + 1)
    if len(content) > MAX_RECORD_BYTES:
        _refuse_size(source)
    return content


@contextlib.contextmanager
def _damage_is_a_user_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile, tarfile.TarError, NotImplementedError) as error:
        raise UserError(f"{path} is damaged or no .tar.gz or .zip archive ({error}); download it again") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UserError(f"{path} is damaged (it points outside itself); download it again") from error


def _printable(name: str) -> str:
    if not name.isprintable():  # a terminal would obey control characters
        name = "".join(character if character.isprintable() else "?" for character in name)
    return name[-80:]


def _refuse_kind(source: str) -> NoReturn:
    raise UserError(f"{source} is a link or a device, not a record; refused")


def _refuse_size(source: str) -> NoReturn:
    raise UserError(
        f"{source} is too large for PhysioNet 2012 (a record over {MAX_RECORD_BYTES >> 20} MiB or an archive over "
        f"{MAX_ARCHIVE_BYTES >> 20} MiB unpacked); refused"
    )
