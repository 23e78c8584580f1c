"""The three tables of an audit: members, others and the release, from files, folders, data frames or arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars

from scoring.audit.provenance import row_codes
from scoring.contract import check_generated
from scoring.data import physionet
from scoring.data.columns import counted
from scoring.data.datasets import DataSet, digest, from_frame, load_frame
from scoring.data.layout import PATIENT
from scoring.data.reading import read_table
from scoring.data.release import read_description
from scoring.round import Round, padded_to
from utils.arrays import UnsoundFileError, read_npz
from utils.errors import UserError
from utils.stays import padded_rows, padding_of, stay_lengths

Source: TypeAlias = Any  # a path, a polars or pandas frame, an array, or a pair of data and padding mask
LEAST_STAYS = 10  # on either side; below, there is nothing to compute
_MEMBER_WORDS = {"1", "1.0", "true", "yes", "member", "members", "train", "training"}
_OTHER_WORDS = {"0", "0.0", "false", "no", "other", "others", "nonmember", "non-member", "test", "holdout"}
_ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq", ".tsv", ".txt")


@dataclass(frozen=True)
class Table:
    """Stays, with what only an audit needs.

    Attributes
    ----------
    stays : DataSet
    ids : list of str, length N
        The stays' ids in the source.
    patients : list of str, length N, or None
        Whose stay it is, as the source calls the patient.
    made_from : str or None
        Digest of the stays that a release says it was made from.
    """

    stays: DataSet
    ids: list[str]
    patients: list[str] | None = None
    made_from: str | None = None

    def take(self, chosen: np.ndarray) -> "Table":
        """Return the chosen stays."""
        old = self.stays
        data, mask = old.data[chosen], old.padding_mask[chosen]
        stays = replace(old, data=data, padding_mask=mask, sha256=digest(data, old.feature_names), patients=None)
        names = self.patients and [self.patients[i] for i in chosen]
        return replace(self, stays=stays, ids=[self.ids[i] for i in chosen], patients=names)


@dataclass(frozen=True)
class Tables:
    """Everything an audit looks at.

    Attributes
    ----------
    round : Round
        Members and others.
    generated, generated_mask : ndarray, shape [n, T, F]
        The release, of as many time points as the round.
    ids : list of str
        Of each stay of `round.data`.
    first_stays : ndarray of bool, shape [N]
        One stay of each patient: statistics need independent trials.
    notes : list of str
        What was unusual.
    overlap : int
        Others that are members too. They were left out.
    made_from_others : bool
        Whether the release says that it was made from other stays than the members.
    """

    round: Round
    generated: np.ndarray
    generated_mask: np.ndarray
    ids: list[str]
    first_stays: np.ndarray
    notes: list[str]
    overlap: int
    made_from_others: bool


def load_tables(members: Source, others: Source, synthetic: Source, max_seq_len: int, seed: int) -> Tables:
    """Load three tables.

    Parameters
    ----------
    members, others, synthetic : path, data frame, array or (array, mask)
        As `load_table` takes them.
    max_seq_len : int
        Time points kept of each stay.
    seed : int

    Raises
    ------
    UserError
        If a table cannot be read, or the tables do not have the same features.
    """
    sources = [("members", members, LEAST_STAYS), ("others", others, LEAST_STAYS), ("synthetic", synthetic, 1)]
    _same_codes([source for _, source, _ in sources])
    real, rest, made = (load_table(source, name, max_seq_len, least) for name, source, least in sources)
    return combine(real, rest, made, seed)


def load_split_table(path: Path, split: str, synthetic: Source, max_seq_len: int, seed: int) -> Tables:
    """Load one table of real stays, of which `split` says who is a member, and the release.

    Parameters
    ----------
    path : Path
    split : str
        A column of the table (1, true or member; 0, false or other), or a file with the members' ids, one a line.
    synthetic : path, data frame, array or (array, mask)
    max_seq_len, seed : int

    Raises
    ------
    UserError
        As `load_tables`, or if the split cannot be read.
    """
    _same_codes([path, synthetic])
    ids = None if Path(split).is_file() else _ids_of_column(path, split)
    frame = _frame(path)
    if ids is None:
        ids = set(Path(split).read_text(encoding="utf-8").replace(",", "\n").split())
    frame = frame.drop(split, strict=False)
    of_member = frame["admissionid"].cast(polars.String).is_in(list(ids))
    if not of_member.any() or of_member.all():
        raise UserError(f"--split {split}: {'all' if of_member.all() else 'none'} of the stays of {path} are members")
    halves = (frame.filter(of_member), frame.filter(~of_member))
    members, others = (
        _table_of_frame(half, path.with_name(f"{path.name} ({side})"), max_seq_len, LEAST_STAYS)
        for half, side in zip(halves, ("members", "others"), strict=True)
    )
    return combine(members, others, load_table(synthetic, "synthetic", max_seq_len, 1), seed)


def load_table(source: Source, name: str, max_seq_len: int, least: int) -> Table:
    """Load one table.

    Parameters
    ----------
    source : path, data frame, array or (array, mask)
        A longitudinal CSV or Parquet file, an `.npz` with `data` or `generated_data` and `padding_mask`, a PhysioNet
        2012 archive, a folder of such tables, a polars or pandas frame, or arrays [N, T, F].
    name : str
        How messages call a source without a path.
    max_seq_len : int
        Time points kept of each stay.
    least : int
        Stays below which the table is refused.
    """
    if isinstance(source, np.ndarray):
        source = (source, None)
    if isinstance(source, tuple):
        data, mask = source
        return _table_of_arrays(data, mask, None, None, name, max_seq_len, least)
    if not isinstance(source, (str, Path)):
        return _table_of_frame(_frame_given(source, name), Path(name), max_seq_len, least)
    path = Path(source)
    if path.suffix == ".npz":
        return _table_of_arrays(*_read_arrays(path), path.name, max_seq_len, least)
    return _table_of_frame(_frame(path), path, max_seq_len, least)


def combine(members: Table, others: Table, synthetic: Table, seed: int) -> Tables:
    """Put three tables beside each other: the same features, the same number of time points, nobody on both sides."""
    names = members.stays.feature_names
    others, synthetic = (_with_features(table, names) for table in (others, synthetic))
    made_from = synthetic.made_from
    notes: list[str] = []
    others, overlap = _without_members(members, others, notes)
    round_ = Round.of_tables(members.stays, others.stays, seed)
    made_from_others = made_from is not None and made_from != round_.made_from
    generated, mask = synthetic.stays.data, synthetic.stays.padding_mask
    time_points = max(round_.data.shape[1], generated.shape[1])
    longest = max(int(stay_lengths(m[:, :, 0]).max(initial=1)) for m in (round_.padding_mask, mask))
    both = [padded_to(*pair, time_points) for pair in ((round_.data, round_.padding_mask), (generated, mask))]
    # Padding that all stays share costs time and says nothing.
    (data, real_mask), (generated, mask) = (
        (d[:, time_points - longest :], m[:, time_points - longest :]) for d, m in both
    )
    round_ = replace(round_, data=np.ascontiguousarray(data), padding_mask=np.ascontiguousarray(real_mask))
    patients = None
    if members.patients and others.patients:
        patients = np.array(members.patients + others.patients)[round_.order]
    first = np.ones(len(round_.data), bool)
    if patients is not None:
        first[:] = False
        first[np.unique(patients, return_index=True)[1]] = True
        if not first.all():
            notes.append(
                f"{counted(len(first), 'stay')} of {counted(int(first.sum()), 'patient')}: one stay of each patient "
                "counts in the statistics, as stays of one patient are no independent trials"
            )
    ids = [*members.ids, *others.ids]
    return Tables(
        round=round_,
        generated=np.ascontiguousarray(generated),
        generated_mask=np.ascontiguousarray(mask),
        ids=[ids[i] for i in round_.order],
        first_stays=first,
        notes=[*notes, *round_.warnings, *(f"{synthetic.stays.name}: {w}" for w in synthetic.stays.warnings)],
        overlap=overlap,
        made_from_others=made_from_others,
    )


# ------------------------------------------------------------------------------------------------ reading


def _frame(path: Path) -> polars.DataFrame:
    if not path.is_dir() or physionet.is_physionet(path):
        return load_frame(path)
    files = sorted(file for file in path.iterdir() if file.is_file() and file.name.lower().endswith(_ENDINGS))
    if not files:
        raise UserError(f"{path} is a folder without tables; it may hold CSV or Parquet files, or PhysioNet records")
    frames = [load_frame(file) for file in files]
    if any(frame.columns != frames[0].columns for frame in frames):
        raise UserError(f"the tables in {path} do not have the same columns in the same order")
    try:
        return polars.concat(frames)
    except polars.exceptions.PolarsError as error:
        raise UserError(f"the tables in {path} have ids of different kinds, numbers and text") from error


def _frame_given(source: Source, name: str) -> polars.DataFrame:
    if not isinstance(source, polars.DataFrame):
        if not hasattr(source, "columns"):
            raise UserError(f"{name}: expected a path, a data frame, an array or (data, mask), not {type(source)}")
        source = polars.DataFrame({str(column): source[column].to_numpy() for column in source.columns})
    if source.columns[:2] != ["admissionid", "time"]:
        raise UserError(f"{name} must begin with the columns admissionid, time")
    try:
        return source.with_columns(
            polars.col(column).cast(polars.Float64).fill_nan(None) for column in source.columns[1:] if column != PATIENT
        )
    except polars.exceptions.PolarsError as error:
        raise UserError(f"{name} holds text in a column of numbers: {str(error).splitlines()[0]}") from error


def _table_of_frame(frame: polars.DataFrame, path: Path, max_seq_len: int, least: int) -> Table:
    stays = from_frame(frame, path, max_seq_len, least_stays=1)
    _enough(len(stays.data), least, path.name)
    patients = None
    if PATIENT in frame.columns:
        owners = frame.group_by("admissionid").agg(polars.col(PATIENT).first()).sort("admissionid")
        patients = owners[PATIENT].cast(polars.String).to_list()
    ids = [str(stay) for stay in frame["admissionid"].unique().sort().to_list()]
    return Table(stays, ids, patients)


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None, list[str] | None, str | None]:
    def expected(name: str, _: tuple[int, ...], __: np.dtype) -> bool:
        return name in ("data", "generated_data", "padding_mask", "feature_names", "names", "made_from")

    try:
        with path.open("rb") as file:
            found = read_npz(file, expected)
        data = found["generated_data"] if "generated_data" in found else found["data"]
    except FileNotFoundError as error:
        raise UserError(f"data not found: {path}") from error
    except UnsoundFileError as error:
        raise UserError(f"{path} is no archive of plain arrays: {error}") from error
    except KeyError as error:
        raise UserError(f"{path} holds neither 'data' nor 'generated_data' [N, T, F]") from error
    names = found.get("feature_names", found.get("names"))
    made_from = str(found["made_from"]) if "made_from" in found else None
    return data, found.get("padding_mask"), None if names is None else [str(n) for n in names], made_from


def _table_of_arrays(
    data: np.ndarray,
    mask: np.ndarray | None,
    names: Sequence[str] | None,
    made_from: str | None,
    name: str,
    max_seq_len: int,
    least: int,
) -> Table:
    checked = check_generated(name, (np.asarray(data), None if mask is None or not np.size(mask) else np.asarray(mask)),
                              (None, None, None))  # fmt: skip
    assert checked is not None
    data, mask = checked[0], padding_of(checked[0], checked[1])
    _enough(len(data), least, name)
    kept = slice(max(0, data.shape[1] - max_seq_len), None)
    if data.shape[1] > max_seq_len and not mask[:, : kept.start].all():
        raise UserError(f"{name} has {data.shape[1]} time points; -m {data.shape[1]} keeps them")
    data, mask = data[:, kept].astype(np.float64), mask[:, kept]
    names = list(names) if names is not None else [f"feature {i}" for i in range(data.shape[2])]
    named = DataSet(data, mask, names, name, digest(data, names))
    return Table(named, [str(i) for i in range(len(data))], made_from=made_from)


def _enough(found: int, least: int, name: str) -> None:
    if found < least:
        raise UserError(f"{name} holds {counted(found, 'stay')}; an audit needs at least {least}")


def _ids_of_column(path: Path, split: str) -> set[str]:
    """Return the ids whose value in a column of the table says member."""
    if path.is_dir() or physionet.is_physionet(path):
        raise UserError(f"--split {split}: no such file, and {path} is no single table with such a column")
    frame = read_table(path, [], wanted=("admissionid", split), texts=("admissionid", split))
    if split not in frame.columns or "admissionid" not in frame.columns:
        raise UserError(f"--split {split} is neither a file nor a column of {path}")
    words = frame[split].cast(polars.String).str.strip_chars().str.to_lowercase()
    unknown = set(words.unique().to_list()) - _MEMBER_WORDS - _OTHER_WORDS
    if unknown:
        raise UserError(
            f"--split {split}: expected 1 or 0 (member or other) in every row, found {min(map(str, unknown))}"
        )
    sides = frame.select("admissionid", member=words.is_in(list(_MEMBER_WORDS))).unique()
    if sides["admissionid"].n_unique() < sides.height:
        raise UserError(f"--split {split}: the rows of a stay say both member and other")
    return set(sides.filter("member")["admissionid"].cast(polars.String).str.strip_chars().to_list())


# ------------------------------------------------------------------------------------- beside each other


def _same_codes(sources: Sequence[Source]) -> None:
    """Refuse tables whose texts were turned into different numbers."""
    known: dict[str, tuple[Any, Source]] = {}
    for source in sources:
        if not isinstance(source, (str, Path)):
            continue
        for column, coding in read_description(Path(source)).get("columns", {}).items():
            labels = coding.get("labels")
            if labels and known.setdefault(column, (labels, source))[0] != labels:
                raise UserError(
                    f"column '{column}' is coded differently in {known[column][1]} and {source}; put both into one "
                    "table, run prepare_data.py table on it, and name the members with --split"
                )


def _with_features(table: Table, names: list[str]) -> Table:
    """Bring a table's features into the members' order."""
    stays = table.stays
    unnamed = all(name == f"feature {i}" for i, name in enumerate(stays.feature_names))
    if len(names) != len(stays.feature_names) or (set(names) != set(stays.feature_names) and not unnamed):
        here, there = set(stays.feature_names), set(names)
        missing, extra = sorted(there - here)[:5], sorted(here - there)[:5]
        raise UserError(
            f"{stays.name} does not have the members' features: {len(stays.feature_names)} of them, the members have "
            f"{len(names)}; missing: {', '.join(missing) or 'none'}; unknown: {', '.join(extra) or 'none'}"
        )
    if unnamed or names == stays.feature_names:
        return replace(table, stays=replace(stays, feature_names=names))
    order = [stays.feature_names.index(name) for name in names]
    data, mask = stays.data[:, :, order], stays.padding_mask[:, :, order]
    return replace(table, stays=replace(stays, data=data, padding_mask=mask, feature_names=names))


def _without_members(members: Table, others: Table, notes: list[str]) -> tuple[Table, int]:
    """Leave out others who are members: by the patient's name, and by a stay's values."""
    codes = [row_codes(table.stays.data, table.stays.padding_mask).stays() for table in (members, others)]
    counts = padded_rows(others.stays.data, others.stays.padding_mask)
    long = stay_lengths(counts) > 1
    twice = np.isin(codes[1], codes[0]) & (codes[1] != 0) & long
    if members.patients and others.patients:
        twice |= np.isin(others.patients, members.patients)
    if not twice.any():
        return others, 0
    left = np.flatnonzero(~twice)
    if len(left) < LEAST_STAYS:
        raise UserError(
            f"{int(twice.sum())} of the {len(twice)} others are members too; an audit needs others who are not"
        )
    notes.append(f"left out: {counted(int(twice.sum()), 'stay')} of {others.stays.name} whose patient is a member too")
    return others.take(left), int(twice.sum())
