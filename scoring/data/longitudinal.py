"""Write longitudinal tables to a CSV or a Parquet file, whole or not at all."""

import time
from collections.abc import Iterable
from pathlib import Path

import polars

from utils.files import atomic_path


def write_table(tables: Iterable[polars.DataFrame], path: Path) -> str:
    """Write tables of stays, one after the other, to a longitudinal CSV or Parquet file.

    Parameters
    ----------
    tables : iterable of polars.DataFrame
        `admissionid`, `time` and the features. The same columns in each, no stay in two. Made while writing: only
        one need be in memory. Numbers are written in the shortest form that reads back as the same float64.
    path : Path
        The file, Parquet if it ends in `.parquet`, else CSV. An existing file is replaced once the new one is whole.
        Parquet is written from one table, so all of them are in memory together.

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
        parquet = path.suffix == ".parquet"
        for table in [polars.concat(tables)] if parquet else tables:
            if parquet:
                table.write_parquet(file)
            else:
                table.write_csv(file, include_header=rows == 0)
            features = table.width - 2 - ("patientid" in table.columns)
            stays += table["admissionid"].n_unique()
            rows += table.height
            missing += sum(column.null_count() for column in table.iter_columns())
    seconds = time.perf_counter() - start
    return (
        f"{path}: {stays:,} stays, {rows:,} rows, {features} features, "
        f"{missing / (rows * features):.1%} missing, in {seconds:.1f} s"
    )
