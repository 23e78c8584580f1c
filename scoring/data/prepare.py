"""What `prepare_data.py` does once its arguments are parsed."""

from pathlib import Path

import numpy as np

from scoring.data import longitudinal
from scoring.data.datasets import load
from scoring.data.hospital import convert
from scoring.data.layout import Layout
from scoring.data.release import description_path, read_description, release_frame, write_release
from utils.errors import UserError
from utils.files import write_text
from utils.progress import progress_bar
from utils.solutions import UNREADABLE_NPZ, load_generated_data

_LONGITUDINAL = (".csv", ".parquet")


def prepare_table(source: Path, layout: Layout, output: Path) -> None:
    """Write a hospital's table as a longitudinal table, with a description of its columns beside it.

    Parameters
    ----------
    source : Path
        Wide or long table.
    layout : Layout
    output : Path
        `.csv` or `.parquet`.

    Raises
    ------
    UserError
        If the table cannot be read rightly.
    """
    if output.suffix not in _LONGITUDINAL:
        raise UserError(f"{output}: -o must end in .csv or .parquet")
    if output.resolve() == source.resolve():
        raise UserError(f"{output} is the table itself; give -o another name")
    with progress_bar(2, "Reading and writing the table", "step") as bar:
        converted = convert(source, layout)
        bar.update()
        written = longitudinal.write_table([converted.frame], output)
        write_text(description_path(output), converted.description())
        bar.update()
    for note in converted.notes:
        print(f"note: {note}")
    print(written)


def write_release_of(generated: Path, data: Path, output: Path, max_seq_len: int = 1) -> None:
    """Write generated data as a table in the columns and units of the data that it was made from.

    Parameters
    ----------
    generated : Path
        `output/hider/data.npz` of a match, or any `.npz` with `generated_data` and `padding_mask`.
    data : Path
        The longitudinal table, for its columns' names and, if `prepare_data.py table` made it, their coding.
    output : Path
        `.csv` or `.parquet`.
    max_seq_len : int
        Time points of `data` to read. Its values are not used.

    Raises
    ------
    UserError
        If a file cannot be read, or the two have different numbers of features.
    """
    if not generated.is_file():
        raise UserError(f"generated data not found: {generated}")
    try:
        arrays, mask = load_generated_data(generated)
    except UNREADABLE_NPZ as error:
        raise UserError(f"{generated} is not an .npz with generated_data and padding_mask") from error
    names = load(data, max_seq_len).feature_names
    if np.ndim(arrays) != 3 or arrays.shape[2] != len(names):
        raise UserError(
            f"{generated} does not have the {len(names)} features of {data.name}: its shape is {arrays.shape}"
        )
    frame = release_frame(arrays, mask, names, read_description(data))
    write_release(frame, output)
    print(f"{output}: {len(arrays):,} stays, {frame.height:,} rows")
