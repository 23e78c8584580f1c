"""Compare two output folders of main.py or tournament.py: a change of code alone must not change what comes out.

    python benchmarks/same_outputs.py BEFORE AFTER

Compares every file of both folders: numbers and texts of JSON files, arrays bit by bit, other files as text. Times,
durations, versions and digests of code are left out. Prints each difference and exits with 1 if there is one.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

LEFT_OUT = {"created", "seconds", "versions", "digest", "source"}  # keys of JSON objects
CHANGING = re.compile(  # in pages and logs: durations, dates, temporary folders and digests of code
    r"\d+(\.\d+)? s\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?( UTC)?|submission [0-9a-f]{12}"
    r"|/[^\s\"']*/hide-and-seek-[^\s\"']*|/work/\S+|\d\d:\d\d"
)
NAMED_BY_CONTENT = ("store/", "submissions/")  # left out: their names are digests of code, and reports hold the rest


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each difference between two folders."""
    names = [{path.relative_to(folder).as_posix() for path in _files(folder)} for folder in (before, after)]
    for name in sorted(names[0] ^ names[1]):
        yield f"{name}: only in {before if name in names[0] else after}"
    for name in sorted(names[0] & names[1]):
        yield from (f"{name}: {line}" for line in _file(before / name, after / name))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        kept_by_digest = any(f"/{folder_name}" in f"/{name}" for folder_name in NAMED_BY_CONTENT)
        if path.is_file() and path.name != "made_from" and not kept_by_digest:
            yield path


def _file(before: Path, after: Path) -> Iterator[str]:
    if before.suffix == ".json":
        yield from _values("", *(json.loads(path.read_text(encoding="utf-8")) for path in (before, after)))
    elif before.suffix == ".npz":
        yield from _arrays(before, after)
    elif before.suffix in (".html", ".txt"):
        if _steady(before) != _steady(after):
            yield _first_difference(_steady(before), _steady(after))
    elif before.read_bytes() != after.read_bytes():
        yield "the bytes differ"


def _values(where: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted((before.keys() | after.keys()) - LEFT_OUT):
            yield from _values(f"{where}/{key}", before.get(key, "missing"), after.get(key, "missing"))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, pair in enumerate(zip(before, after, strict=True)):
            yield from _values(f"{where}[{position}]", *pair)
    elif before != after:
        yield f"{where}: {str(before)[:100]} != {str(after)[:100]}"


def _arrays(before: Path, after: Path) -> Iterator[str]:
    with np.load(before, allow_pickle=False) as old, np.load(after, allow_pickle=False) as new:
        if set(old.files) != set(new.files):
            yield f"arrays {sorted(old.files)} != {sorted(new.files)}"
        for name in sorted(set(old.files) & set(new.files)):
            same = old[name].dtype == new[name].dtype and old[name].shape == new[name].shape
            if not same or old[name].tobytes() != new[name].tobytes():
                yield f"array {name} differs"


def _steady(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".txt":  # a progress bar says how fast it went
        text = "\n".join(line for line in text.splitlines() if not line.rstrip().endswith("/s]"))
    return CHANGING.sub("*", text)


def _first_difference(before: str, after: str) -> str:
    at = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    return f"the text differs: ...{before[max(0, at - 60) : at + 60]!r} != ...{after[max(0, at - 60) : at + 60]!r}"


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description="Compare two output folders of main.py or tournament.py.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    arguments = parser.parse_args()
    found = list(differences(arguments.before, arguments.after))
    for line in found:
        print(line)
    count = sum(1 for _ in _files(arguments.before))
    print(f"{count} files compared, {len(found)} differences")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
