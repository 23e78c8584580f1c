"""Where a hospital's table holds what: the options of `prepare_data.py table`, and presets for common sources."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from utils.errors import UserError

PATIENT = "patientid"
MAX_FEATURES = 2000


@dataclass(frozen=True)
class Layout:
    """Where the table holds what. The fields are the command line's.

    Attributes
    ----------
    id, time : str
        Columns of the stay's id and of the time.
    patient, admission : str or None
        Columns of the patient's id and of the time of admission, in the table or in `stays`.
    item, value : str or None
        Columns of a long table, which has one row for each measurement. Both or neither.
    stays : Path or None
        A second table with one row for each stay: its id, patient and time of admission.
    items : Path or None
        A second table that names the items.
    item_id, item_name : str or None
        Its columns. By default the name of `item`, and `label`.
    most : int or None
        Keep the items that were measured in most stays, as many as this.
    drop, category : tuple of str
        Columns (or items) to leave out, and those whose numbers are labels.
    decimal : "comma", "point" or None
        How decimals are written. None finds out.
    time_format : str or None
        Form of dates that are not ISO.
    """

    id: str = "admissionid"
    time: str = "time"
    patient: str | None = None
    admission: str | None = None
    item: str | None = None
    value: str | None = None
    stays: Path | None = None
    items: Path | None = None
    item_id: str | None = None
    item_name: str | None = None
    most: int | None = None
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    decimal: str | None = None
    time_format: str | None = None

    def __post_init__(self) -> None:
        if (self.item is None) != (self.value is None):
            raise UserError("a long table needs both --item and --value")
        if self.most is not None and self.most < 1:
            raise UserError(f"--most must be at least 1, not {self.most}")
        if self.decimal not in (None, "comma", "point"):
            raise UserError(f"--decimal must be comma or point, not {self.decimal}")


PRESETS = {
    "mimic-iv": Layout(id="stay_id", time="charttime", patient="subject_id", admission="intime", item="itemid",
        value="valuenum", item_id="itemid", item_name="label"),
    "omop": Layout(id="visit_occurrence_id", time="measurement_datetime", patient="person_id",
        admission="visit_start_datetime", item="measurement_concept_id", value="value_as_number",
        item_id="concept_id", item_name="concept_name"),
}  # fmt: skip


def layout_of(preset: str | None, **changes: Any) -> Layout:
    """Return a preset's layout with what the user said in its place. Options left at None change nothing."""
    if preset is not None and preset not in PRESETS:
        raise UserError(f"--like {preset}: known are {', '.join(PRESETS)}")
    said = {name: value for name, value in changes.items() if value not in (None, ())}
    return replace(PRESETS[preset] if preset else Layout(), **said)
