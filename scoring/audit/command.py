"""An audit from the command line and from Python: what is written, printed and returned."""

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars

from scoring.audit.run import Settings, run_audit
from scoring.audit.tables import Source, Tables
from scoring.report.audit_page import page
from scoring.report.result import write_result
from utils.files import atomic_path
from utils.text import printable


class Audit:
    """What an audit found.

    Attributes
    ----------
    evidence : str
        "leak", "no leak found" or "cannot be judged".
    result : dict
        Everything that report.json holds.
    """

    def __init__(self, result: dict[str, Any], tables: Tables, arrays: dict[str, np.ndarray]) -> None:
        self.result, self._tables, self._arrays = result, tables, arrays

    @property
    def evidence(self) -> str:
        """The verdict."""
        return str(self.result["evidence"])

    def patients(self) -> polars.DataFrame:
        """Return one row for each real stay, those most at risk first. Keep it with the patients' data."""
        tables = self._tables
        copied = np.isin(np.arange(len(tables.ids)), self._arrays["source"])
        frame = polars.DataFrame(
            {
                "stay": tables.ids,
                "member": tables.round.truth,
                "probability_of_membership": self._arrays["probability"],
                "is_in_the_release": copied,
            }
        )
        return frame.sort("is_in_the_release", "probability_of_membership", descending=True, maintain_order=True)

    def write(self, folder: Path | str) -> None:
        """Write report.html, report.json and patients.csv, each whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_result(self.result, folder / "report.json")
        with atomic_path(folder / "patients.csv") as temporary:
            self.patients().write_csv(temporary)
        with atomic_path(folder / "report.html") as temporary:
            temporary.write_text(page(self.result, self._arrays["probability"], self._tables.round.truth), "utf-8")

    def __repr__(self) -> str:
        return f"Audit({self.result['headline']!r})"

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.result["reasons"])
        return f"<h3>{escape(self.result['headline'])}</h3><ul>{reasons}</ul>"


def audit_to_files(home: Path, *, output: Path, **options: Any) -> str:
    """Audit, write the report into `output`, print the verdict, and return the evidence."""
    found = Audit(*run_audit(Settings(home=home, output=output, **options)))
    found.write(output)
    print(f"\n{found.result['headline']}")
    for reason in found.result["reasons"]:
        print(f"  {printable(reason)}")
    print(f"\nreport: {output / 'report.html'}\npatients most at risk (keep it with the patients' data): patients.csv")
    return found.evidence


def audit(
    members: Source, others: Source, synthetic: Source, *, home: Path, output: Path | str | None = None, **options: Any
) -> Audit:
    """Audit a release from Python.

    Parameters
    ----------
    members, others, synthetic : path, polars or pandas frame, array [N, T, F], or (array, padding mask)
        The patients that the release was made from, other patients, and the release.
    home : Path
        The folder in which the seekers are.
    output : Path, optional
        Where finished pieces and the report are kept. By default nothing is kept.
    **options
        As on the command line: `max_seq_len`, `seed`, `hider`, `slow`, `skip_power`, `workers`, ...

    Returns
    -------
    Audit

    Raises
    ------
    UserError
        If a table or an option is bad.
    """
    options = {"workers": 1, "progress": False, **options}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary if output is None else output)
        given = {"members": members, "others": others, "synthetic": synthetic}
        found = Audit(*run_audit(Settings(home=home, output=folder, **given, **options)))
        if output is not None:
            found.write(folder)
    return found
