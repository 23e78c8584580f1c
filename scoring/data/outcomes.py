"""One value a stay, such as death in hospital, carried as a feature that does not change within the stay."""

from pathlib import Path

import polars

from scoring.data.hospital import identity
from scoring.data.reading import read_table
from utils.errors import UserError


def with_outcomes(frame: polars.DataFrame, path: Path, all_stays: bool = True) -> polars.DataFrame:
    """Add the columns of an outcomes file to a longitudinal table.

    Parameters
    ----------
    frame : polars.DataFrame
        `admissionid`, `time` and features, one row for each time point.
    path : Path
        A table `admissionid,label` with one row for each stay. `label` is a number, and its column may have any name.
        More columns of numbers may follow.
    all_stays : bool
        False if only a part of the stays was read. Outcomes of other stays are then left out.

    Returns
    -------
    polars.DataFrame
        The table with each label in every row of its stay, after the other features.

    Raises
    ------
    UserError
        If an id is missing, unknown, twice there or has no outcome, or an outcome is not a number.
    """
    found = read_table(path, [], texts=("admissionid",))
    if found.columns[0] != "admissionid" or found.width < 2:
        raise UserError(f"{path} must begin with the columns admissionid,label")
    labels = found.columns[1:]
    for label in labels:
        if label in frame.columns:
            raise UserError(f"{path}: the data have a column '{label}' already; give the outcome another name")
        if not found[label].dtype.is_numeric():
            raise UserError(f"{path}: column '{label}' holds text; write outcomes as numbers, such as 0 and 1")
        if found[label].null_count() or not found[label].is_finite().all():
            raise UserError(f"{path}: row {_first(~found[label].is_finite().fill_null(False))} has no '{label}'")
    if found["admissionid"].null_count():
        raise UserError(f"{path}: row {_first(found['admissionid'].is_null())} has no admissionid")
    kind = frame["admissionid"].dtype
    ids = identity(found["admissionid"])
    if ids.dtype != kind:  # one of the two holds text: no number is among the others' ids
        ids = ids.cast(kind, strict=False) if kind.is_numeric() else ids.cast(polars.String)
    if ids.null_count():
        raise UserError(
            f"{path}: there is no stay '{found['admissionid'][int(ids.is_null().arg_max() or 0)]}' in the data"
        )
    found = found.with_columns(ids.alias("admissionid"), *(polars.col(label).cast(polars.Float64) for label in labels))
    if found["admissionid"].n_unique() < found.height:
        raise UserError(f"{path}: stay {found['admissionid'].filter(ids.is_duplicated())[0]} has several rows")
    stays = frame["admissionid"].unique()
    others = found.filter(~polars.col("admissionid").is_in(stays.implode()))["admissionid"]
    if len(others) and all_stays:
        raise UserError(f"{path}: there is no stay {others[0]} in the data ({len(others):,} such rows)")
    without = stays.filter(~stays.is_in(found["admissionid"].implode())).sort()
    if len(without):
        raise UserError(f"{path} has no outcome of stay {without[0]} ({len(without):,} stays without one)")
    return frame.join(found, on="admissionid", how="left", maintain_order="left")


def _first(flags: polars.Series) -> int:
    """Return the line of the first row that is flagged. Line 1 is the header."""
    return int(flags.arg_max() or 0) + 2
