"""What a match leaves: the release and the labels under their names of 2020, and the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from scoring.data.release import release_frame, write_release
from scoring.files import staged_folder
from scoring.report.arrays import ReportArrays
from scoring.report.match_page import write_report
from scoring.report.result import write_result

MEMBERS = "members.txt"  # one id a line; `audit.py --split` reads it


@dataclass(frozen=True)
class PlayedMatch:
    """A match that was played.

    Attributes
    ----------
    result : dict
        What report.json holds.
    arrays : ReportArrays
        What report.html is drawn from.
    generated : ndarray, shape [n, T, F]
        The release.
    padding_mask : ndarray of bool, shape [n, T, F], or None
    labels : ndarray of bool, shape [N]
        The seeker's, or those of the worst of all seekers, in the order of the data.
    made_from : str
        Digest of the members.
    description : dict
        How the columns of the data were coded, from `read_description`. Empty if nothing is known.
    member_ids : ndarray of int or str, shape [n], or None
        The members' `admissionid`, if the data came with ids.
    """

    result: dict[str, Any]
    arrays: ReportArrays
    generated: np.ndarray
    padding_mask: np.ndarray | None
    labels: np.ndarray
    made_from: str
    description: Mapping[str, Any]
    member_ids: np.ndarray | None = None

    def table(self) -> polars.DataFrame:
        """Return the release with one row for each time point, in the columns and units of the data."""
        return release_frame(self.generated, self.padding_mask, self.result["data"]["feature_names"], self.description)

    def write(self, output: Path, table_format: str | None = None) -> None:
        """Write the outputs to a folder. Earlier ones stay until all new ones are there.

        Parameters
        ----------
        output : Path
        table_format : "csv" or "parquet", optional
            Write the release as a table too.
        """
        with staged_folder(output, ".match-") as folder:
            self._write_release(folder / "hider")
            if table_format:
                write_release(self.table(), folder / "hider" / f"release.{table_format}")
                if self.member_ids is not None:
                    (folder / "hider" / MEMBERS).write_text("".join(f"{name}\n" for name in np.sort(self.member_ids)))
            (folder / "seeker").mkdir()
            np.savez(folder / "seeker" / "data.npz", reidentified_data=self.labels.astype(int))
            write_result(self.result, folder / "report.json")
            write_report(self.result, self.arrays, folder / "report.html")

    def _write_release(self, folder: Path) -> None:
        folder.mkdir()
        np.savez(
            folder / "data.npz",
            generated_data=self.generated,
            padding_mask=np.zeros(0, bool) if self.padding_mask is None else self.padding_mask,
            made_from=np.array(self.made_from),
        )
        utility = self.result["utility"]
        if utility.get("feature_prediction") is not None:
            lines = [f"{row['generated']!r}\n" for row in utility["feature_prediction"]]
            (folder / "feature_prediction_scores.txt").write_text("".join(lines))
        if utility.get("one_step_ahead") is not None:
            (folder / "osa_score.txt").write_text(f"{utility['one_step_ahead']['generated']!r}\n")
