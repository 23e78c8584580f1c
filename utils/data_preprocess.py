"""Loading, imputing and scaling longitudinal data, as the 2020 challenge defined them.

Results equal the 2020 starting kit's to the last digit. Work is done on blocks of stays that stay in the processor's
cache. The cost grows linearly in stays, and beyond input and output the memory needed does not grow with stays
(but for one group of eight feature columns while medians are taken).
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utils.errors import UserError

if TYPE_CHECKING:
    import polars
    from sklearn.preprocessing import MinMaxScaler

PADDING_FILL = -1.0
LARGEST = 1e30  # of measurements and of generated values: their squares and sums stay finite, and float32 holds them

_NULL_VALUES = ["", "NA", "N/A", "n/a", "NULL", "null", "None", "nan", "-nan", "-NaN", "#N/A", "<NA>"]
_BLOCK_CELLS = 1 << 18  # 2 MiB of float64: a block and its scaled copy stay in the cache
_COLUMN_GROUP = 8  # float64 values in one 64-byte cache line: each line is read once
_ROW_CHUNK = 1 << 17


# ---------------------------------------------------------------------------------------------------- loading


def load_and_reshape(
    file_name: str | Path, max_seq_len: int, debug_data: bool | int = False
) -> tuple[np.ndarray, np.ndarray]:
    """Load a longitudinal CSV as one array of stays.

    Parameters
    ----------
    file_name : str or Path
        CSV with the columns `admissionid,time,f1,...,fK`, one row per time point. A first column named
        `Unnamed: 0` (or nameless) is dropped.
    max_seq_len : int
        T, the number of time points kept of each stay (its first ones).
    debug_data : bool or int
        Read only the first `debug_data` rows. True reads 10,000.

    Returns
    -------
    data : ndarray of float64, shape [N, T, K+1]
        Stays in ascending `admissionid` order, rows of a stay in file order, shorter stays padded at the front with
        -1.0. Feature 0 is time in the file's unit. Missing values are NaN.
    padding_mask : ndarray of bool, shape [N, T, K+1]
        True where padded.

    Raises
    ------
    UserError
        Where the file is missing, empty, lacks a column, or holds text or infinities among the numbers.
    """
    rows = None if debug_data is False else 10_000 if debug_data is True else int(debug_data)
    return reshape_longitudinal(read_longitudinal_csv(Path(file_name), rows), max_seq_len)


def read_longitudinal_csv(path: Path, rows: int | None = None, text_columns: Sequence[str] = ()) -> polars.DataFrame:
    """Read a longitudinal CSV and check it: `admissionid`, then `time` and the features as float64.

    Parameters
    ----------
    path : Path
        The CSV.
    rows : int, optional
        Read only the first `rows` rows.
    text_columns : sequence of str
        Further columns that stay text, such as a patient's id.

    Raises
    ------
    UserError
        As `load_and_reshape`.
    """
    import polars

    if not path.is_file():
        raise UserError(f"data file not found: {path}; prepare_data.py makes one")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; expected a CSV with the columns admissionid,time,f1,...")
    try:
        header = polars.read_csv(path, n_rows=0, infer_schema=False).columns
    except (polars.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as CSV: {_first_line(error)}") from error
    columns = header[1:] if header[0] in ("", "Unnamed: 0") else header
    for name in ("admissionid", "time"):
        if name not in columns:
            raise UserError(f"{path} has no column '{name}'; expected admissionid,time,f1,...")
    if columns[:2] != ["admissionid", "time"]:
        raise UserError(f"{path} must begin with the columns admissionid,time; it begins with {','.join(columns[:2])}")

    values = [name for name in columns[1:] if name not in text_columns]
    types: dict[str, Any] = dict.fromkeys(values, polars.Float64)
    types |= dict.fromkeys(["admissionid", *(name for name in text_columns if name in columns)], polars.String)
    options: dict[str, Any] = {"columns": columns, "n_rows": rows, "null_values": _NULL_VALUES}
    try:
        frame = polars.read_csv(path, schema_overrides=types, **options)
    except polars.exceptions.PolarsError as error:
        told = None
        with contextlib.suppress(polars.exceptions.PolarsError):  # an open quote: no cells can be told apart
            texts = polars.read_csv(path, infer_schema=False, truncate_ragged_lines=True, **options)
            told = _first_bad_cell(path, texts, values)
        raise UserError(told or f"{path} cannot be read as CSV: {_first_line(error)}") from error
    if frame.is_empty():
        raise UserError(f"{path} has a header and no rows")
    if frame["admissionid"].null_count():
        row = int(frame["admissionid"].is_null().arg_max() or 0)
        raise UserError(f"{path}: row {row + 2} has no admissionid")
    numbers = frame["admissionid"].cast(polars.Int64, strict=False)
    if not numbers.null_count():
        frame = frame.with_columns(numbers)
    sizes = frame.select(polars.col(values).abs().fill_nan(None))  # all columns at once: there may be thousands
    for name, largest in zip(values, sizes.max().row(0), strict=True):
        if largest is not None and largest > LARGEST:
            what = "infinite" if math.isinf(largest) else f"beyond {LARGEST:g}"
            raise UserError(
                f"{path}: column '{name}', row {int(sizes[name].arg_max() or 0) + 2} is {what}; leave it empty"
            )
    return frame


def _first_bad_cell(path: Path, texts: polars.DataFrame, names: list[str]) -> str | None:
    import polars

    for name in names:
        bad = texts[name].str.strip_chars().cast(polars.Float64, strict=False).is_null() & texts[name].is_not_null()
        if bad.any():
            row = int(bad.arg_max() or 0)
            return f"{path}: column '{name}', row {row + 2} is not a number: {texts[name][row][:40]!r}"
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]


def reshape_longitudinal(frame: polars.DataFrame, max_seq_len: int) -> tuple[np.ndarray, np.ndarray]:
    """Turn one row per time point into one array of stays. See `load_and_reshape` for the result.

    Parameters
    ----------
    frame : polars.DataFrame
        `admissionid`, then `time` and the features as float64.
    max_seq_len : int
        T, the number of time points kept of each stay.

    Raises
    ------
    UserError
        Where the array and its mask would not fit into this machine's memory.
    """
    _, stay = np.unique(frame["admissionid"].to_numpy(), return_inverse=True)
    order = np.argsort(stay, kind="stable")
    lengths = np.bincount(stay)
    starts = np.cumsum(lengths) - lengths
    position = np.empty_like(stay)
    position[order] = np.arange(len(stay)) - np.repeat(starts, lengths)
    padding = np.maximum(max_seq_len - lengths, 0)
    target = stay * max_seq_len + padding[stay] + position
    kept = position < max_seq_len

    values = frame.drop("admissionid")
    stays, features = len(lengths), values.width
    needed = 9 * stays * max_seq_len * features
    if needed > _memory_bytes():
        raise UserError(
            f"{stays:,} stays x {max_seq_len:,} time points x {features:,} features need {needed / 2**30:.0f} GiB, "
            "more than this machine has; keep fewer time points (-m)"
        )
    data = np.full((stays * max_seq_len, features), PADDING_FILL)
    for start in range(0, values.height, _ROW_CHUNK):
        chunk = slice(start, start + _ROW_CHUNK)
        rows = values.slice(start, _ROW_CHUNK).to_numpy()
        data[target[chunk][kept[chunk]]] = rows[kept[chunk]]
    padded_steps = np.arange(max_seq_len) < padding[:, None]
    padding_mask = np.repeat(padded_steps[:, :, None], features, axis=2)
    return data.reshape(stays, max_seq_len, features), padding_mask


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# ---------------------------------------------------------------------------------------------- preprocessing


def preprocess_data(data: np.ndarray, padding_mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Scale `data` to [0, 1] per feature, with and without imputing what is missing.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Raw stays. Feature 0 is time. NaN is missing.
    padding_mask : ndarray of bool, shape [N, T, F], or None
        True where padded.

    Returns
    -------
    processed : ndarray of float64, shape [N, T, F]
        Min-max scaled. Missing values stay NaN.
    processed_and_imputed : ndarray of float64, shape [N, T, F]
        Imputed (backward, forward, median, 0), then min-max scaled.
        In both, feature 0 is the time since the stay's first time point, in the input's unit, and padding is -1.
    """
    data, statistics = np.asarray(data), FeatureStatistics(data, padding_mask)
    processed, imputed = np.empty(data.shape), np.empty(data.shape)
    for block in _blocks(data):
        raw, mask = _unpadded(data, padding_mask, block)
        _scale(raw, statistics.observed, out=processed[block])
        _fill(raw, statistics.medians)
        _scale(raw, statistics.imputed, out=imputed[block])
        if mask is not None:
            processed[block][mask] = PADDING_FILL
            imputed[block][mask] = PADDING_FILL
    return processed, imputed


def preprocess_imputed(
    data: np.ndarray,
    padding_mask: np.ndarray | None,
    dtype: Any = np.float32,
    statistics: FeatureStatistics | None = None,
) -> np.ndarray:
    """Return only the second array of `preprocess_data`, as `dtype`: a quarter of the memory in float32.

    Parameters
    ----------
    data, padding_mask
        As in `preprocess_data`.
    dtype : dtype
        Of the result.
    statistics : FeatureStatistics, optional
        Those of another data set, to impute and scale both alike. By default the data's own.
    """
    data = np.asarray(data)
    statistics = statistics or FeatureStatistics(data, padding_mask)
    imputed = np.empty(data.shape, dtype)
    for block in _blocks(data):
        raw, mask = _unpadded(data, padding_mask, block)
        _fill(raw, statistics.medians)
        _scale(raw, statistics.imputed, out=raw)
        if mask is not None:
            raw[mask] = PADDING_FILL
        imputed[block] = raw
    return imputed


def get_medians(data: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return each feature's median over unpadded, observed cells, shape [F]. NaN where a feature has none."""
    return FeatureStatistics(data, padding_mask).medians


def get_scaler(data: np.ndarray, padding_mask: np.ndarray | None) -> MinMaxScaler:
    """Return a `MinMaxScaler` to [0, 1] fitted on the unpadded, observed cells of `data` [N, T, F]."""
    from sklearn.preprocessing import MinMaxScaler

    statistics = FeatureStatistics(data, padding_mask)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)  # of a feature that no stay has
        return MinMaxScaler().fit(np.stack([statistics.minimum, statistics.maximum]))


def impute(data: np.ndarray, padding_mask: np.ndarray | None, median_vals: np.ndarray) -> np.ndarray:
    """Impute `data` [N, T, F] along each stay's time: backward fill, forward fill, the median, then 0.

    Padded cells neither give nor take values. They come back as -1.
    """
    data = np.asarray(data)
    imputed = np.empty(data.shape)
    for block in _blocks(data):
        raw, mask = _unpadded(data, padding_mask, block)
        _fill(raw, median_vals)
        if mask is not None:
            raw[mask] = PADDING_FILL
        imputed[block] = raw
    return imputed


def imputation(curr_data: np.ndarray, median_vals: np.ndarray, zero_fill: bool = True) -> np.ndarray:
    """Impute one stay [T, F] by the rule of `impute`.

    Raises
    ------
    ValueError
        Where `zero_fill` is off and a feature has neither a value nor a median.
    """
    stay = np.array(curr_data, dtype=float)[None]
    _fill(stay, median_vals, zero_fill)
    if np.isnan(stay).any():
        raise ValueError("NaN values remain after imputation: a feature has neither a value nor a median")
    return stay[0]


def process(data: np.ndarray, padding_mask: np.ndarray | None, scaler: MinMaxScaler) -> np.ndarray:
    """Scale `data` [N, T, F] with a fitted scaler. Feature 0 becomes the time since the stay's first time point."""
    data, scaling = np.asarray(data), (scaler.scale_, scaler.min_)
    scaled = np.empty(data.shape)
    for block in _blocks(data):
        raw, mask = _unpadded(data, padding_mask, block)
        _scale(raw, scaling, out=scaled[block])
        if mask is not None:
            scaled[block][mask] = PADDING_FILL
    return scaled


def inverse_process(
    scaled: np.ndarray, padding_mask: np.ndarray | None, scaler: MinMaxScaler, start: Any
) -> np.ndarray:
    """Undo `process`: back to the input's units.

    Parameters
    ----------
    scaled : ndarray, shape [N, T, F]
        Features in [0, 1], feature 0 as time since the stay's first time point.
    padding_mask : ndarray of bool, shape [N, T, F], or None
        True where padded. Padding comes back as -1.
    scaler : MinMaxScaler
        The fitted scaler.
    start : ndarray, shape [N]
        Each stay's first time, in the input's unit.

    Returns
    -------
    ndarray of float64, shape [N, T, F]
    """
    restored = (scaled - scaler.min_) / scaler.scale_
    restored[:, :, 0] = scaled[:, :, 0] + np.asarray(start)[:, None]
    if padding_mask is not None:
        restored[np.asarray(padding_mask, dtype=bool)] = PADDING_FILL
    return restored


def start_times(data: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return each stay's first time, shape [N]. 0 for a stay without any."""
    time = np.array(data[:, :, 0], dtype=float)
    if padding_mask is not None:
        time[np.asarray(padding_mask[:, :, 0], dtype=bool)] = np.nan
    start = np.where(np.isnan(time), np.inf, time).min(axis=1)
    return np.where(np.isfinite(start), start, 0.0)


def to_2d(arr: np.ndarray) -> np.ndarray:
    """Reshape [N, T, F] to [N * T, F]."""
    return np.reshape(arr, (-1, arr.shape[2]))


def to_3d(arr: np.ndarray, max_seq_len: int) -> np.ndarray:
    """Reshape [N * T, F] to [N, T, F] with T = `max_seq_len`."""
    return np.reshape(arr, (-1, max_seq_len, arr.shape[1]))


class FeatureStatistics:
    """Per feature over unpadded, observed cells: median, minimum, maximum, and the two scalings made from them.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F], or None
    """

    def __init__(self, data: np.ndarray, padding_mask: np.ndarray | None):
        flat = to_2d(np.asarray(data))
        mask = None if padding_mask is None else to_2d(np.asarray(padding_mask, dtype=bool))
        features = flat.shape[1]
        self.medians, self.minimum, self.maximum = (np.full(features, np.nan) for _ in range(3))
        for first in range(0, features, _COLUMN_GROUP):
            group = slice(first, first + _COLUMN_GROUP)
            columns = np.array(flat[:, group].T, dtype=float, order="C")  # a copy, even of a single feature
            if mask is not None:
                columns[mask[:, group].T] = np.nan
            for feature, column in enumerate(columns, first):
                observed = column[~np.isnan(column)]
                if observed.size:
                    self.medians[feature] = np.median(observed, overwrite_input=True)
                    self.minimum[feature], self.maximum[feature] = observed.min(), observed.max()
        self.observed = _min_max_scaling(self.minimum, self.maximum)
        # Imputed values lie between a feature's minimum and maximum, or are 0 where it has no value at all.
        self.imputed = _min_max_scaling(np.nan_to_num(self.minimum), np.nan_to_num(self.maximum))


def _min_max_scaling(minimum: np.ndarray, maximum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (scale, shift) of `MinMaxScaler`, in its order of operations. A constant feature maps to 0."""
    span = maximum - minimum
    scale = 1.0 / np.where(span < 10 * np.finfo(float).eps, 1.0, span)
    return scale, 0.0 - minimum * scale


def _blocks(data: np.ndarray) -> list[slice]:
    step = max(1, _BLOCK_CELLS // max(1, data[0].size)) if len(data) else 1
    return [slice(start, start + step) for start in range(0, len(data), step)]


def _unpadded(data: np.ndarray, padding_mask: np.ndarray | None, block: slice) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a float64 copy of a block with NaN where padded, and the block's mask."""
    raw = np.array(data[block], dtype=float)
    if padding_mask is None:
        return raw, None
    mask = np.asarray(padding_mask[block], dtype=bool)
    raw[mask] = np.nan
    return raw, mask


def _fill(stays: np.ndarray, medians: np.ndarray, zero_fill: bool = True) -> None:
    """Impute a block [n, T, F] in place. Loops over time, all stays and features at once."""
    missing = np.isnan(stays)
    length = stays.shape[1]
    for here, source in [(t, t + 1) for t in range(length - 2, -1, -1)] + [(t, t - 1) for t in range(1, length)]:
        np.copyto(stays[:, here], stays[:, source], where=missing[:, here])
        np.logical_and(missing[:, here], missing[:, source], out=missing[:, here])
    fallback = np.nan_to_num(medians) if zero_fill else np.asarray(medians, dtype=float)
    np.copyto(stays, fallback, where=missing)


def _scale(stays: np.ndarray, scaling: tuple[np.ndarray, np.ndarray], out: np.ndarray) -> None:
    """Scale a block [n, T, F] into `out` (which may be the block itself). Feature 0 becomes time since the first."""
    time = stays[:, :, 0]
    start = np.where(np.isnan(time), np.inf, time).min(axis=1, keepdims=True)
    since_start = time - start
    scale, shift = scaling
    np.multiply(stays, scale, out=out)
    out += shift
    out[:, :, 0] = since_start
