"""The data set a match is played on."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars

from scoring.data import physionet
from utils.data_preprocess import read_longitudinal_csv, reshape_longitudinal
from utils.errors import UserError


@dataclass(frozen=True)
class DataSet:
    """Stays as arrays, with what a report needs to name them.

    Attributes
    ----------
    data : ndarray of float64, shape [N, T, F]
        Raw stays, front-padded with -1; feature 0 is time; NaN is missing.
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
    """

    data: np.ndarray
    padding_mask: np.ndarray
    feature_names: list[str]
    name: str
    sha256: str
    warnings: list[str] = field(default_factory=list)
    patients: np.ndarray | None = None


def load(path: Path, max_seq_len: int, debug_rows: int = 0) -> DataSet:
    """Load a longitudinal CSV, or a PhysioNet 2012 archive or folder as it was downloaded.

    Parameters
    ----------
    path : Path
        CSV, `.tar.gz`, `.zip` or folder.
    max_seq_len : int
        T, the number of time points kept of each stay.
    debug_rows : int
        Use only the first `debug_rows` rows; 0 uses all.

    Raises
    ------
    UserError
        Where the data cannot be read or hold a single stay.
    """
    if not path.exists():
        raise UserError(f"data not found: {path}; make some with prepare_data.py or name it with -d")
    if physionet.is_physionet(path):
        frame = physionet.read([path])
        frame = frame.head(debug_rows) if debug_rows else frame
    elif path.is_dir():
        raise UserError(f"{path} is a folder without PhysioNet 2012 records; -d takes a CSV or a PhysioNet archive")
    else:
        frame = read_longitudinal_csv(path, debug_rows or None)
    warnings = list(_warnings(frame))
    names = frame.columns[1:]
    data, padding_mask = reshape_longitudinal(frame, max_seq_len)
    if len(data) < 2:
        raise UserError(f"{path.name} holds one stay only; a match needs members and non-members")
    return DataSet(data, padding_mask, names, path.name, digest(data, names), warnings)


def _warnings(frame: polars.DataFrame) -> Iterator[str]:
    duplicates = frame.height - frame.select("admissionid", "time").n_unique()
    if duplicates:
        yield f"{duplicates} duplicate (stay, time) rows; all were kept"
    without_time = int((frame["time"].is_null() | frame["time"].is_nan()).sum())
    if without_time:
        yield f"{without_time} rows have no time"


def digest(data: np.ndarray, names: list[str]) -> str:
    """Return the SHA-256 of stays [N, T, F] and the names of their features, in hexadecimal."""
    total = hashlib.sha256("\0".join([*names, repr(data.shape)]).encode())
    total.update(np.ascontiguousarray(data).data.cast("B"))
    return total.hexdigest()
