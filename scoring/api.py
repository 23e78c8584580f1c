"""A match from Python: what `hide_and_seek.play` calls."""

import html
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import polars

from scoring.attacks import ALL, Lineup, line_up, with_code
from scoring.contract import Role
from scoring.data import datasets
from scoring.data.datasets import DataSet, digest, from_frame
from scoring.match import MatchSettings, run_match
from scoring.outputs import PlayedMatch
from scoring.report.match_page import write_report
from scoring.submissions.players import Player, check_player, find_player
from utils.errors import UserError

Method: TypeAlias = str | Path | Callable[[dict[str, Any]], Any]
Data: TypeAlias = Any  # a path, a polars or pandas frame, a DataSet, or a pair of data and padding mask


class Match:
    """A match that was played. A notebook shows its report."""

    def __init__(self, played: PlayedMatch) -> None:
        self._played = played

    @property
    def result(self) -> dict[str, Any]:
        """What report.json holds."""
        return self._played.result

    @property
    def score(self) -> float:
        """The re-identification score of the seeker, or of the worst of all seekers."""
        return float(self.result["reidentification"]["score"])

    @property
    def generated(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The release [n, T, F], and its padding mask or None."""
        return self._played.generated, self._played.padding_mask

    def save(self, folder: str | Path) -> Path:
        """Write what `main.py` writes, and return where the report is."""
        self._played.write(Path(folder))
        return Path(folder) / "report.html"

    def __repr__(self) -> str:
        return str(self.result["verdict"])

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            write_report(self.result, self._played.arrays, page)
            text = page.read_text(encoding="utf-8")
        return f'<iframe srcdoc="{html.escape(text)}" width="100%" height="600" style="border: 0" sandbox></iframe>'


def play(hider: Method, seeker: Method, data: Data, *, home: Path, **settings: Any) -> Match:
    """Play a match and write nothing.

    Parameters
    ----------
    hider, seeker : str, Path or callable
        A name (`addnoise`), the path of a `.py` file, a folder or a zip, or a function of the input's dictionary. The
        seeker may be `all`.
    data : path, data frame, DataSet, or (data, padding_mask)
        A frame (polars or pandas) has the columns `admissionid,time,...`. Arrays are [N, T, F], and feature 0 is time.
    home : Path
        The folder in which named hiders and seekers are.
    **settings
        Fields of `MatchSettings`, such as `seed`, `max_seq_len`, `hider_parameters` or `slow`. The checks of 2020 train
        networks, and are run only with `skip_fp=False` or `skip_osa=False`.

    Raises
    ------
    UserError
        As `match.play_match`.
    """
    stays = _stays(data, settings.get("max_seq_len", MatchSettings.max_seq_len))
    tested = min(MatchSettings.feature_prediction_no, len(stays.feature_names))
    chosen = MatchSettings(
        home=home,
        data_path=Path("data"),
        output_dir=Path("output"),
        seeker=ALL if seeker == ALL else "one",
        **{"skip_fp": True, "skip_osa": True, "feature_prediction_no": tested, **settings},
    )
    hiding = _player("hider", hider, home, chosen.hider_parameters)
    if seeker == ALL:
        lineup = line_up(home, hiding, chosen.slow, chosen.without)
    else:
        attacker = _player("seeker", seeker, home, chosen.seeker_parameters)
        lineup = Lineup([with_code(attacker, hiding)], [], every=False)
    return Match(run_match(chosen, hiding, lineup, stays))


def _player(role: Role, method: Method, home: Path, setting: str | None) -> Player:
    if not callable(method):
        return check_player(find_player(role, str(method), home, setting))
    if setting:
        raise UserError(f"--{role}_parameters goes with a {role} that is named, not with a function")
    name = getattr(method, "__name__", role)
    module = ModuleType(name)
    setattr(module, role, method)
    return Player(role, name, Path("<python>") / f"{name}.py", module=module)


def _stays(data: Data, max_seq_len: int) -> DataSet:
    if isinstance(data, DataSet):
        return data
    if isinstance(data, str | Path):
        return datasets.load(Path(data), max_seq_len)
    if isinstance(data, tuple):
        values, mask = (np.asarray(part) for part in data)
        if values.ndim != 3 or mask.shape != values.shape:
            raise UserError(f"data and padding mask must both be [N, T, F], not {values.shape} and {mask.shape}")
        names = ["time", *(f"feature {i}" for i in range(1, values.shape[2]))]
        values = values.astype(np.float64)
        return DataSet(values, mask.astype(bool), names, "arrays", digest(values, names))
    frame = data if isinstance(data, polars.DataFrame) else polars.DataFrame(_columns(data))
    if frame.columns[:2] != ["admissionid", "time"]:
        raise UserError(f"a data frame must begin with the columns admissionid, time, not {frame.columns[:2]}")
    numbers = [polars.col(name).cast(polars.Float64) for name in frame.columns[1:] if name != "patientid"]
    return from_frame(frame.with_columns(numbers), Path("data frame"), max_seq_len)


def _columns(frame: Any) -> Mapping[str, Any]:
    """Return a pandas frame's columns, without need of pyarrow."""
    if not hasattr(frame, "columns"):
        raise UserError(f"data must be a path, a data frame, a DataSet or two arrays, not {type(frame).__name__}")
    return {str(name): frame[name].to_list() for name in frame.columns}
