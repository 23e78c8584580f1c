"""Read a table of any form into columns of numbers and columns of clean text."""

from collections.abc import Sequence
from pathlib import Path

import polars

from scoring.data.columns import cleaned, decimal_comma, with_points
from scoring.data.text_files import text_table
from utils.errors import UserError

_PARQUET = (".parquet", ".pq")


def read_table(
    path: Path,
    notes: list[str],
    decimal: str | None = None,
    wanted: Sequence[str] | None = None,
    texts: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> polars.DataFrame:
    """Read a CSV or Parquet table: columns of numbers as float64 (or int64 in Parquet), all others as clean text.

    Parameters
    ----------
    path : Path
    notes : list of str
        What was unusual is added to it.
    decimal : "comma", "point" or None
    wanted : sequence of str, optional
        Read only these columns, so far as the table has them.
    texts, categories : sequence of str
        Columns that stay text although they hold numbers.

    Raises
    ------
    UserError
        If the file cannot be read.
    """
    kept = {*texts, *categories}
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path, wanted)
    try:
        with text_table(path) as table:
            columns = [name for name in table.columns if wanted is None or name in wanted]
            scanned = polars.scan_csv(
                table.path,
                separator=table.separator,
                has_header=False,
                skip_rows=table.skip_lines,
                schema=dict.fromkeys(table.columns, polars.String),
            ).select(columns)
            maybe = [name for name in columns if name not in kept]
            not_numbers = (
                scanned.select(
                    (cleaned(name).is_not_null() & cleaned(name).cast(polars.Float64, strict=False).is_null()).any()
                    for name in maybe
                ).collect(engine="streaming")
                if maybe
                else polars.DataFrame()
            )
            text = kept | {name for name in not_numbers.columns if not_numbers[name].item()}
            frame = scanned.select(
                cleaned(name) if name in text else cleaned(name).cast(polars.Float64) for name in columns
            ).collect(engine="streaming")
            notes += table.notes
    except polars.exceptions.PolarsError as error:
        raise UserError(
            f"{path} cannot be read as a table: {str(error).strip().splitlines()[0]}; is a quote left open?"
        ) from error
    if frame.is_empty():
        raise UserError(f"{path} has a header and no rows")
    strings = frame.select(name for name in frame.columns if name in text and name not in categories)
    if decimal_comma(strings, decimal):
        swapped = [with_points(strings[name]) for name in strings.columns]
        frame = frame.with_columns(swapped)
        notes.append(f"{path.name}: numbers are written with a decimal comma")
    return frame


def _read_parquet(path: Path, wanted: Sequence[str] | None) -> polars.DataFrame:
    if not path.is_file():
        raise UserError(f"data file not found: {path}")
    try:
        scanned = polars.scan_parquet(path)
        schema = scanned.collect_schema()
        columns = [name for name in schema if wanted is None or name in wanted]
        frame = scanned.select(columns).collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path} is not a Parquet file: {str(error).strip().splitlines()[0]}") from error
    if frame.is_empty():
        raise UserError(f"{path} has no rows")
    nested = [name for name in columns if schema[name].is_nested()]
    if nested:
        raise UserError(f"{path}: column '{nested[0]}' holds lists or records; leave it out with --drop {nested[0]}")
    return frame.with_columns(_parquet_column(name, schema[name]) for name in columns)


def _parquet_column(name: str, kind: polars.DataType) -> polars.Expr:
    column = polars.col(name)
    if kind.is_numeric():
        return column.cast(polars.Float64) if kind.is_float() or kind.is_decimal() else column.cast(polars.Int64)
    if isinstance(kind, polars.Datetime):
        column = column.dt.convert_time_zone("UTC") if kind.time_zone else column
        return column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f" + ("+00:00" if kind.time_zone else "")).alias(name)
    return cleaned(name)


def demand(frame: polars.DataFrame, path: Path, *wanted: tuple[str, str]) -> None:
    """Raise UserError if a column is not there. `wanted` holds its name and the option that names another."""
    for name, option in wanted:
        if name not in frame.columns:
            shown = ", ".join(frame.columns[:12]) + (", ..." if frame.width > 12 else "")
            raise UserError(f"{path} has no column '{name}'; name the right one with {option}; the table has {shown}")
