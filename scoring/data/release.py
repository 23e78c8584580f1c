"""Write a release as a table: in the input's columns, units and types, as CSV or Parquet."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from utils.errors import UserError
from utils.files import atomic_path
from utils.stays import padded_rows

FORMATS = (".csv", ".parquet")
_DESCRIPTION = ".columns.json"
_ADMISSION = np.datetime64("2100-01-01T00:00:00", "us")  # nobody's: dates in a release are plainly made up
_MICROSECONDS = 3.6e9  # in an hour


def description_path(data: Path) -> Path:
    """Return where `prepare_data.py table` keeps how the columns of `data` were coded."""
    return data.with_name(data.name + _DESCRIPTION)


def read_description(data: Path) -> dict[str, Any]:
    """Return how the columns of `data` were coded, empty if nothing is known.

    Raises
    ------
    UserError
        If the description beside `data` is damaged.
    """
    path = description_path(data)
    if not path.is_file():
        return {}
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(description["columns"], dict)
        assert isinstance(description["source"], dict)
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise UserError(f"{path} is damaged; make {data.name} again with prepare_data.py table") from error
    return dict(description)


def release_frame(
    data: np.ndarray, padding_mask: np.ndarray | None, names: Sequence[str], description: Mapping[str, Any]
) -> polars.DataFrame:
    """Return generated stays as a table with one row for each time point.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Generated stays. Feature 0 is time.
    padding_mask : ndarray of bool, shape [N, T, F], or None
    names : sequence of str, length F
    description : mapping
        From `read_description`: codes become labels again, whole numbers are whole, and dates are dates in the year
        2100. If it is empty, the columns are `admissionid,time,...` and numbers.

    Returns
    -------
    polars.DataFrame
        Ids are 1 to N. A long source gets a long table.
    """
    real = ~padded_rows(data, padding_mask)
    stay, _ = np.nonzero(real)
    values = data[real]
    source, columns = description.get("source", {}), description.get("columns", {})
    id_name, time_name = source.get("id", "admissionid"), source.get("time", names[0])
    series = [polars.Series(id_name, stay + 1), _times(time_name, values[:, 0], bool(source.get("dates")))]
    for place, name in enumerate(names[1:], 1):
        column = polars.Series(name, values[:, place], nan_to_null=True)
        series.append(_coded(column, columns.get(name, {})))
    frame = polars.DataFrame(series)
    if source.get("layout") != "long":
        return frame
    items = source["items"]
    long = (
        frame.with_columns(polars.col(name).cast(polars.String) for name in names[1:])
        if _has_labels(columns)
        else frame
    )
    long = long.unpivot(names[1:], index=[id_name, time_name], variable_name=source["item"], value_name=source["value"])
    long = long.filter(polars.col(source["value"]).is_not_null())
    ids = polars.col(source["item"]).replace_strict(
        items, default=polars.col(source["item"]), return_dtype=polars.String
    )
    numbered = all(str(item).isdecimal() for item in items.values())
    return long.with_columns(ids.cast(polars.Int64) if numbered else ids).sort(id_name, time_name, maintain_order=True)


def write_release(frame: polars.DataFrame, path: Path) -> None:
    """Write a release to `path`, CSV or Parquet by its ending, whole or not at all.

    Raises
    ------
    UserError
        If the ending is neither `.csv` nor `.parquet`.
    """
    if path.suffix not in FORMATS:
        raise UserError(f"{path}: a release is written as {' or '.join(FORMATS)}, not '{path.suffix}'")
    with atomic_path(path) as temporary:
        if path.suffix == ".csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)


def _has_labels(columns: Mapping[str, Any]) -> bool:
    return any(column.get("labels") for column in columns.values())


def _times(name: str, hours: np.ndarray, dates: bool) -> polars.Series:
    if not dates:
        return polars.Series(name, hours, nan_to_null=True)
    steps = np.where(np.isfinite(hours), np.rint(hours * _MICROSECONDS), 0).astype("timedelta64[us]")
    moments = polars.Series(name, _ADMISSION + steps)
    return moments.zip_with(polars.Series(np.isfinite(hours)), polars.Series([None], dtype=moments.dtype))


def _coded(values: polars.Series, column: Mapping[str, Any]) -> polars.Series:
    labels = column.get("labels")
    if labels:
        codes = values.round().clip(0, len(labels) - 1).cast(polars.Int64)
        return codes.replace_strict(dict(enumerate(labels)), default=None, return_dtype=polars.String)
    if column.get("kind") == "whole number":
        return values.round().cast(polars.Int64, strict=False)
    return values
