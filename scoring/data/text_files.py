"""Text tables as people have them: any separator and encoding, packed or not, as a UTF-8 file that Polars can scan."""

import codecs
import contextlib
import csv
import gzip
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from utils.errors import UserError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_CHUNK = 1 << 20
_SAMPLE_LINES = 50
_LONGEST_LINE = 1 << 20
_GZIP = b"\x1f\x8b"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class TextTable:
    """A CSV that can be scanned.

    Attributes
    ----------
    path : Path
        UTF-8 without a byte order mark, not packed.
    separator : str
    columns : list of str
        The header's names, made different from each other.
    skip_lines : int
        Lines before the first row, the header among them.
    notes : list of str
        What was unusual about the file.
    """

    path: Path
    separator: str
    columns: list[str]
    skip_lines: int
    notes: list[str]


@contextlib.contextmanager
def text_table(path: Path) -> Iterator[TextTable]:
    """Yield the table in `path`, transcoded to a temporary file if it is packed or not UTF-8.

    Parameters
    ----------
    path : Path
        A text file, possibly gzip: UTF-8, UTF-16 (with or without a byte order mark), or Windows' Latin-1. The
        separator is a comma, semicolon, tab or bar. Excel's first line `sep=;` is understood.

    Raises
    ------
    UserError
        If the file is missing, empty, damaged or has no header.
    """
    if not path.is_file():
        raise UserError(f"data file not found: {path}")
    with tempfile.TemporaryDirectory(prefix="table-") as folder:
        plain, notes = _as_utf8(path, Path(folder) / "table.csv")
        yield _described(path, plain, notes)


def _as_utf8(path: Path, copy: Path) -> tuple[Path, list[str]]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        encoding = _encoding(path, packed)
        if not packed and encoding == "utf-8":
            return path, []
        with _opened(path, packed) as source, copy.open("w", encoding="utf-8", newline="") as target:
            reader = codecs.getreader(encoding)(source, "strict" if encoding != "cp1252" else "replace")
            while chunk := reader.read(_CHUNK):
                target.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} is a damaged gzip file: {error}") from error
    except UnicodeError as error:
        raise UserError(f"{path} is damaged: its {encoding} text breaks off or is not valid") from error
    notes = [f"{path.name} is not UTF-8: read as Windows Latin-1 (cp1252)"] if encoding == "cp1252" else []
    return copy, notes


def _opened(path: Path, packed: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _encoding(path: Path, packed: bool) -> str:
    """Return "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be" or "cp1252"."""
    with _opened(path, packed) as file:
        head = file.read(_CHUNK)
        for mark, encoding in _BOMS:
            if head.startswith(mark):
                return encoding
        if b"\0" in head[:400]:  # ASCII letters in UTF-16 have a zero byte each
            return "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8")()
        while head:
            try:
                decoder.decode(head)
            except UnicodeDecodeError:
                return "cp1252"
            head = file.read(_CHUNK)
    return "utf-8"


def _described(path: Path, plain: Path, notes: list[str]) -> TextTable:
    with plain.open(encoding="utf-8", newline="") as file:
        lines: list[str] = []
        for _ in range(_SAMPLE_LINES):
            line = file.readline(_LONGEST_LINE)
            if len(line) == _LONGEST_LINE:
                raise UserError(
                    f"{path}: line {len(lines) + 1} has over {_LONGEST_LINE:,} characters; is a quote open?"
                )
            if not line:
                break
            lines.append(line)
    skipped = 0
    named = None
    if lines and lines[0].lower().startswith("sep=") and len(lines[0].rstrip("\r\n")) == 5:
        named, lines, skipped = lines[0][4], lines[1:], 1
    while lines and not lines[0].strip():
        lines, skipped = lines[1:], skipped + 1
    if not lines:
        raise UserError(f"{path} is empty; expected a table with a header line")
    separator = named or _separator(lines)
    header = next(csv.reader([lines[0]], delimiter=separator))
    columns, renamed = _different([name.strip() for name in header])
    return TextTable(plain, separator, columns, skipped + 1, notes + renamed)


def _separator(lines: list[str]) -> str:
    """Return the separator with which most sampled lines have as many cells as the header, and the most cells."""

    def fit(separator: str) -> tuple[float, int]:
        cells = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        return (sum(count == cells[0] for count in cells) / len(cells), cells[0]) if cells[0] > 1 else (0.0, 1)

    return max(SEPARATORS, key=fit)


def _different(names: list[str]) -> tuple[list[str], list[str]]:
    """Give names that occur twice, or are empty, names of their own. Return the names and notes on the renamed."""
    taken, notes = set(names), []
    result: list[str] = []
    for place, name in enumerate(names, 1):
        new = name or f"column_{place}"
        if new in result:
            new = next(f"{name}_{i}" for i in range(2, len(names) + 2) if f"{name}_{i}" not in taken)
            notes.append(f"two columns are called '{name}': the one in place {place} is now '{new}'")
        taken.add(new)
        result.append(new)
    return result, notes
