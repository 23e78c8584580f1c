"""The data set a match is played on."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars

from scoring.data import physionet
from scoring.data.columns import counted
from scoring.data.hospital import identity
from scoring.data.layout import PATIENT
from scoring.data.outcomes import with_outcomes
from scoring.data.reading import read_table
from utils.data_preprocess import read_longitudinal_csv, reshape_longitudinal
from utils.errors import UserError


@dataclass(frozen=True)
class DataSet:
    """Stays as arrays, with what a report needs to name them.

    Attributes
    ----------
    data : ndarray of float64, shape [N, T, F]
        Raw stays, front-padded with -1. Feature 0 is time and NaN is missing.
    padding_mask : ndarray of bool, shape [N, T, F]
        True where padded.
    feature_names : list of str, length F
    name : str
        The file's or folder's name.
    sha256 : str
        Digest of the arrays and the feature names: of exactly what was played.
    warnings : list of str
        What a reader of the results should know about the data.
    patients : ndarray of int or str, shape [N], optional
        Whose stay it is. All stays of one patient are members, or none is. If it is None, each stay is a patient.
    ids : ndarray of int or str, shape [N], optional
        Each stay's `admissionid`.
    """

    data: np.ndarray
    padding_mask: np.ndarray
    feature_names: list[str]
    name: str
    sha256: str
    warnings: list[str] = field(default_factory=list)
    patients: np.ndarray | None = None
    ids: np.ndarray | None = None


def load(path: Path, max_seq_len: int, debug_rows: int = 0, outcomes: Path | None = None) -> DataSet:
    """Load a longitudinal CSV or Parquet table, or a PhysioNet 2012 archive or folder as it was downloaded.

    Parameters
    ----------
    path : Path
        CSV (also gzip), Parquet, `.tar.gz`, `.zip` or folder. A column `patientid` behind `time` says which stays are
        of one patient.
    max_seq_len : int
        T, the number of time points kept of each stay.
    debug_rows : int
        Use only the first `debug_rows` rows. 0 uses all.
    outcomes : Path, optional
        A table of one value a stay, see `scoring.data.outcomes`. Its columns become the last features.

    Raises
    ------
    UserError
        Where the data cannot be read or hold a single stay.
    """
    frame = load_frame(path, debug_rows)
    if outcomes is not None:
        frame = with_outcomes(frame, outcomes, all_stays=not debug_rows)
    return from_frame(frame, path, max_seq_len)


def load_frame(path: Path, rows: int = 0) -> polars.DataFrame:
    """Load a table as `load` does, with one row for each time point.

    Parameters
    ----------
    path : Path
    rows : int
        Use only the first rows. 0 uses all.

    Returns
    -------
    polars.DataFrame
        `admissionid`, `time`, possibly `patientid`, and the features as float64.

    Raises
    ------
    UserError
        If the data cannot be read.
    """
    if not path.exists():
        raise UserError(f"data not found: {path}; make some with prepare_data.py or name it with -d")
    if physionet.is_physionet(path):
        frame = physionet.read([path])
        return frame.head(rows) if rows else frame
    if path.is_dir():
        raise UserError(f"{path} is a folder without PhysioNet 2012 records; -d takes a CSV or a PhysioNet archive")
    return _read(path, rows or None)


def from_frame(frame: polars.DataFrame, path: Path, max_seq_len: int, least_stays: int = 2) -> DataSet:
    """Turn a table as `load_frame` returns it into stays.

    Parameters
    ----------
    frame : polars.DataFrame
    path : Path
        Where it came from, for messages and the name.
    max_seq_len : int
    least_stays : int

    Raises
    ------
    UserError
        If there are fewer stays, or stays and patients contradict each other.
    """
    patients = _patients(frame, path)
    frame = frame.drop(PATIENT, strict=False)
    warnings = list(_warnings(frame, max_seq_len))
    names = frame.columns[1:]
    data, padding_mask = reshape_longitudinal(frame, max_seq_len)
    if len(data) < least_stays:
        raise UserError(f"{path.name} holds one stay only; a match needs members and non-members")
    sha256, ids = digest(data, names, patients), np.unique(frame["admissionid"].to_numpy())
    return DataSet(data, padding_mask, names, path.name, sha256, warnings, patients, ids)


def _read(path: Path, rows: int | None) -> polars.DataFrame:
    if path.suffix not in (".parquet", ".pq") and not path.name.endswith(".gz"):
        try:
            return read_longitudinal_csv(path, rows, text_columns=(PATIENT,))
        except UserError as error:
            raise UserError(f"{error}{_advice(path)}") from error
    frame = read_table(path, [], texts=("admissionid", PATIENT))
    frame = frame.head(rows) if rows else frame
    if frame.columns[:2] != ["admissionid", "time"]:
        raise UserError(f"{path} must begin with the columns admissionid,time{_advice(path)}")
    for name in frame.columns[1:]:
        if name != PATIENT and not frame[name].dtype.is_numeric() and frame[name].dtype != polars.Null:
            raise UserError(f"{path}: column '{name}' holds text{_advice(path)}")
    if frame["admissionid"].null_count():
        raise UserError(f"{path}: row {int(frame['admissionid'].is_null().arg_max() or 0) + 1} has no admissionid")
    values = [polars.col(name).cast(polars.Float64) for name in frame.columns[1:] if name != PATIENT]
    return frame.with_columns(identity(frame["admissionid"]), *values)


def _advice(path: Path) -> str:
    return f"; prepare_data.py table {path.name} -o stays.csv reads tables of other forms"


def _patients(frame: polars.DataFrame, path: Path) -> np.ndarray | None:
    """Return each stay's patient as a number, stays in ascending order of their ids."""
    if PATIENT not in frame.columns:
        return None
    if frame[PATIENT].null_count():
        raise UserError(f"{path}: row {int(frame[PATIENT].is_null().arg_max() or 0) + 2} has no {PATIENT}")
    owners = frame.group_by("admissionid").agg(
        polars.col(PATIENT).n_unique().alias("owners"), polars.col(PATIENT).first()
    )
    shared = owners.filter(polars.col("owners") > 1)
    if shared.height:
        raise UserError(f"{path}: stay {shared['admissionid'][0]} belongs to several patients; each id names one stay")
    return np.unique(owners.sort("admissionid")[PATIENT].to_numpy(), return_inverse=True)[1]


def _warnings(frame: polars.DataFrame, max_seq_len: int) -> Iterator[str]:
    duplicates = frame.height - frame.select("admissionid", "time").n_unique()
    if duplicates:
        yield f"{counted(duplicates, 'duplicate (stay, time) row')}; all were kept"
    without_time = int((frame["time"].is_null() | frame["time"].is_nan()).sum())
    if without_time:
        yield f"{counted(without_time, 'row')} without a time"
    lengths = frame.group_by("admissionid").len()["len"].to_numpy().astype(int)
    cut = int((lengths > max_seq_len).sum())
    if cut:
        lost = int(np.maximum(lengths - max_seq_len, 0).sum())
        yield (
            f"{cut:,} of {counted(len(lengths), 'stay')} have over {max_seq_len} time points: "
            f"{lost / frame.height:.1%} of all rows are left out; -m {int(lengths.max())} keeps them"
        )
    backwards = frame.filter(polars.col("time") < polars.col("time").shift(1).over("admissionid"))
    if backwards.height:
        yield (
            f"the rows of {counted(backwards['admissionid'].n_unique(), 'stay')} are not in order of time "
            "and stay as they are; prepare_data.py table sorts them"
        )
    names = [name.removesuffix(tail) for name in frame.columns for tail in re.findall(r"_duplicated_\d+$", name)]
    if names:
        yield f"several columns are called '{names[0]}'; they were renamed"


def digest(data: np.ndarray, names: list[str], patients: np.ndarray | None = None) -> str:
    """Return the SHA-256 of stays [N, T, F], the names of their features and whose they are [N], in hexadecimal."""
    total = hashlib.sha256("\0".join([*names, repr(data.shape)]).encode())
    total.update(np.ascontiguousarray(data).data.cast("B"))
    if patients is not None:
        total.update("\0".join(map(str, patients)).encode())
    return total.hexdigest()
