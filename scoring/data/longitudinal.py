"""Write longitudinal tables to a CSV, whole or not at all."""

import time
from collections.abc import Iterable
from pathlib import Path

import polars

from scoring.files import atomic_path


def write_csv(tables: Iterable[polars.DataFrame], path: Path) -> str:
    """Write tables of stays, one after the other, to a longitudinal CSV.

    Parameters
    ----------
    tables : iterable of polars.DataFrame
        `admissionid`, `time` and the features; the same columns in each, no stay in two. Made while writing: only
        one need be in memory. Numbers are written in the shortest form that reads back as the same float64.
    path : Path
        The CSV; an existing file is replaced only once the new one is whole.

    Returns
    -------
    str
        What was written, in a line: path, stays, rows, features, share missing, seconds.

    Raises
    ------
    UserError
        Where `path` is a folder or a device.
    OSError
        Where its folder cannot be written to, or the disk is full.
    """
    start = time.perf_counter()
    stays = rows = missing = features = 0
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for table in tables:
            table.write_csv(file, include_header=rows == 0)
            features = table.width - 2
            stays += table["admissionid"].n_unique()
            rows += table.height
            missing += sum(column.null_count() for column in table.iter_columns())
    seconds = time.perf_counter() - start
    return (
        f"{path}: {stays:,} stays, {rows:,} rows, {features} features, "
        f"{missing / (rows * features):.1%} missing, in {seconds:.1f} s"
    )
