"""A hospital's own table, wide or long, as the longitudinal table that a match is played on."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars

from scoring.data.columns import Column, as_numbers, as_times, counted
from scoring.data.layout import MAX_FEATURES, PATIENT, Layout
from scoring.data.long_tables import from_long
from scoring.data.reading import demand, read_table
from utils.errors import UserError


@dataclass
class Converted:
    """A longitudinal table and how it came about.

    Attributes
    ----------
    frame : polars.DataFrame
        `admissionid`, `time` in hours (or the source's own number), `patientid` if patients are known, and features as
        float64. Stays in ascending order of their ids, rows in order of time.
    columns : dict of str to Column
        How each feature was coded.
    source : dict
        The source's names and layout, for writing a release in the same form.
    notes : list of str
        What was unusual, changed or left out, with counts.
    """

    frame: polars.DataFrame
    columns: dict[str, Column]
    source: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def description(self) -> str:
        """Return what a release needs to be written in the source's form, as JSON."""
        columns = {name: column.to_json() for name, column in self.columns.items()}
        return json.dumps({"source": self.source, "columns": columns}, indent=1, ensure_ascii=False) + "\n"


def convert(path: Path, layout: Layout) -> Converted:
    """Read a hospital's table.

    Parameters
    ----------
    path : Path
        CSV with any separator and encoding, possibly gzip, or Parquet.
    layout : Layout

    Raises
    ------
    UserError
        If the table cannot be read rightly. The message says what to do.
    """
    notes: list[str] = []
    wanted = None if layout.item is None else _long_columns(layout)
    frame = read_table(
        path, notes, layout.decimal, wanted, (layout.id, layout.time, *_present(layout)), layout.category
    )
    dropped = [name for name in layout.drop if name in frame.columns]
    frame = frame.drop(dropped)
    demand(frame, path, (layout.id, "--id"), (layout.time, "--time"))
    if layout.stays is not None:
        frame = _with_stays(frame, layout, notes)
    keyed, keys = _keys(frame, layout, notes)
    if layout.item is not None:
        features, columns, item_ids = from_long(keyed, layout, path, notes)
    else:
        features, columns = _wide(keyed, layout, notes)
        item_ids = {}
    if not columns:
        raise UserError(f"{path} has no column besides id, time and patient; there is nothing to release")
    features = _ordered(features, notes)
    source = {"layout": "long" if layout.item else "wide", **keys, "items": item_ids}
    if layout.item:
        source |= {"item": layout.item, "value": layout.value}
    never = [name for name in columns if features[name].null_count() == features.height]
    if never:
        notes.append(f"{len(never)} columns hold no value at all and stay empty: {', '.join(never[:5])}")
    notes += [note for column in columns.values() for note in column.notes]
    return Converted(features, columns, source, notes)


def _present(layout: Layout) -> tuple[str, ...]:
    return tuple(name for name in (layout.patient, layout.admission, layout.item) if name)


def _long_columns(layout: Layout) -> tuple[str, ...]:
    return (layout.id, layout.time, str(layout.item), str(layout.value), *_present(layout))


# --------------------------------------------------------------------------------------------------------- stays, time


def _with_stays(frame: polars.DataFrame, layout: Layout, notes: list[str]) -> polars.DataFrame:
    """Join patients and times of admission from the table of stays."""
    assert layout.stays is not None
    wanted = [name for name in (layout.patient, layout.admission) if name]
    stays = read_table(layout.stays, notes, layout.decimal, (layout.id, *wanted), (layout.id, *wanted))
    demand(stays, layout.stays, (layout.id, "--id"), *((name, "--patient or --admission") for name in wanted))
    stays = stays.with_columns(identity(stays[layout.id]))
    if stays[layout.id].n_unique() < stays.height:
        raise UserError(f"{layout.stays} has several rows for one '{layout.id}'; it must have one row for each stay")
    frame = frame.drop(name for name in wanted if name in frame.columns)
    frame = frame.with_columns(identity(frame[layout.id]))
    unknown = frame.join(stays, on=layout.id, how="anti")
    if unknown.height:
        count = unknown[layout.id].n_unique()
        notes.append(
            f"left out: {counted(count, 'stay')} ({counted(unknown.height, 'row')}) not in {layout.stays.name}"
        )
    return frame.join(stays, on=layout.id, how="inner", maintain_order="left")


def identity(ids: polars.Series) -> polars.Series:
    """Return ids as whole numbers if all of them are, else as text."""
    if ids.dtype.is_integer():
        return ids.cast(polars.Int64)
    distinct = ids.unique()  # far fewer than rows
    named = _identity_of_distinct(distinct)
    return ids.replace_strict(distinct, named, return_dtype=named.dtype)


def _identity_of_distinct(ids: polars.Series) -> polars.Series:
    text = (
        ids.cast(polars.Int64) if ids.dtype.is_float() and (ids.drop_nulls() == ids.drop_nulls().round()).all() else ids
    )
    text = text.cast(polars.String).str.strip_chars()
    numbers = text.cast(polars.Int64, strict=False)
    written = numbers.cast(polars.String) == text  # '007' and '7' are two ids
    return numbers if numbers.null_count() == text.null_count() and written.fill_null(True).all() else text


def _keys(frame: polars.DataFrame, layout: Layout, notes: list[str]) -> tuple[polars.DataFrame, dict[str, Any]]:
    """Replace id, time, patient and admission by `admissionid`, `time` in hours and `patientid`."""
    ids = identity(frame[layout.id]).alias("admissionid")
    if ids.null_count():
        raise UserError(f"row {int(ids.is_null().arg_max() or 0) + 1} has no '{layout.id}'")
    times, absolute = as_times(frame[layout.time].cast(polars.String), layout.time, layout.time_format)
    keys = polars.DataFrame([ids, times.alias("time")])
    admission = layout.admission if layout.admission in frame.columns else None
    if admission is not None and absolute:
        starts, also = as_times(frame[admission].cast(polars.String), admission, layout.time_format)
        if not also or starts.null_count():
            raise UserError(f"column '{admission}' must hold a date and time in every row, as '{layout.time}' does")
        keys = keys.with_columns(polars.col("time") - starts)
        notes.append(f"time is in hours since '{admission}'")
    elif absolute:
        keys = keys.with_columns(polars.col("time") - polars.col("time").min().over("admissionid"))
        notes.append("time is in hours since the first row of the stay; name the time of admission with --admission")
    patient = layout.patient if layout.patient in frame.columns else None
    if patient is not None:
        keys = keys.with_columns(identity(frame[patient]).alias(PATIENT))
        if keys[PATIENT].null_count():
            raise UserError(f"row {int(keys[PATIENT].is_null().arg_max() or 0) + 1} has no '{patient}'")
        owners = (
            keys.select("admissionid", PATIENT).unique().group_by("admissionid").len().filter(polars.col("len") > 1)
        )
        if owners.height:
            shared = owners["admissionid"].sort()[0]
            raise UserError(
                f"{owners.height} ids belong to several patients, such as {shared}; an id must name one stay"
            )
        patients, stays = keys[PATIENT].n_unique(), keys["admissionid"].n_unique()
        if patients < stays:
            notes.append(
                f"{counted(stays, 'stay')} of {counted(patients, 'patient')}: all stays of a patient fall into one half"
            )
    elif layout.patient is not None:
        raise UserError(f"no column '{layout.patient}' (--patient); the table has {', '.join(frame.columns[:12])}")
    without = keys["time"].is_null() | keys["time"].is_nan()
    values = frame.drop({layout.id, layout.time, *filter(None, (patient, admission))})
    clashing = [name for name in values.columns if name in keys.columns]
    if clashing:
        raise UserError(f"a feature is called '{clashing[0]}', which is a name of ours; leave it out with --drop")
    joined = polars.concat([keys, values], how="horizontal")
    if without.any():
        joined = joined.filter(~without)
        notes.append(f"left out: {counted(int(without.sum()), 'row')} without a time")
    if not joined.height:
        raise UserError(f"no row has a time in column '{layout.time}'")
    before = int((joined["time"] < 0).sum())
    if before:
        notes.append(f"kept, with negative hours: {counted(before, 'row')} before admission")
    source = {"id": layout.id, "time": layout.time, "dates": absolute, "patient": patient, "admission": admission}
    return joined, source


def _ordered(frame: polars.DataFrame, notes: list[str]) -> polars.DataFrame:
    """Sort stays by id and rows by time, and say what was out of order or double."""
    backwards = polars.col("time") < polars.col("time").shift(1).over("admissionid")
    unsorted = frame.filter(backwards)["admissionid"].n_unique()
    if unsorted:
        notes.append(f"sorted by time: {counted(unsorted, 'stay')} whose rows were in another order")
    double = frame.height - frame.select("admissionid", "time").n_unique()
    if double:
        notes.append(f"kept: {counted(double, 'row')} with the same stay and time as another row")
    single = int((frame.group_by("admissionid").len()["len"] == 1).sum())
    if single:
        notes.append(f"{counted(single, 'stay')} with a single row")
    return frame.sort("admissionid", "time", maintain_order=True)


# ------------------------------------------------------------------------------------------------------------ features


def _wide(frame: polars.DataFrame, layout: Layout, notes: list[str]) -> tuple[polars.DataFrame, dict[str, Column]]:
    names = [name for name in frame.columns if name not in ("admissionid", "time", PATIENT)]
    if len(names) > MAX_FEATURES:
        raise UserError(f"the table has {len(names):,} columns; at most {MAX_FEATURES:,} can be features")
    columns: dict[str, Column] = {}
    for name in names:
        if frame[name].dtype.is_numeric() and name not in layout.category:
            values = frame[name].cast(polars.Float64)
            whole = frame[name].dtype.is_integer() or _whole(values)
            column = Column("whole number" if whole else "number")
            if values.is_infinite().any():
                row = int(values.is_infinite().arg_max() or 0)
                raise UserError(f"column '{name}', row {row + 1} is infinite; leave it empty")
        elif frame[name].dtype == polars.Null:
            values, column = frame[name].cast(polars.Float64), Column()
        else:
            values, column = as_numbers(frame[name].cast(polars.String), name, name in layout.category)
        frame = frame.with_columns(values.fill_nan(None).alias(name))
        columns[name] = column
    return frame, columns


def _whole(values: polars.Series) -> bool:
    seen = values.drop_nulls().drop_nans()
    return bool(len(seen)) and bool((seen == seen.round()).all())
