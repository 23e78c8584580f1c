"""Small made-up notes in several scripts for the tests of the text track."""

from pathlib import Path

import numpy as np

from deid.corpus import Note, Span, write_brat, write_i2b2

NAMES = ("Ana Ruiz", "Jürgen Groß", "Ольга Иванова", "Νίκος Παππάς", "Siobhán Ní Bhriain", "Zoë d'Arc")
TOWNS = ("Madrid", "Łódź", "Київ", "Αθήνα", "Cork", "São Paulo")
ELEMENTS = {"PATIENT": "NAME", "CITY": "LOCATION", "DATE": "DATE"}


def made_up_notes(number: int = 12, seed: int = 0) -> list[Note]:
    """Notes of four lines with a name, a town and a date each."""
    random = np.random.default_rng(seed)
    notes = []
    for i in range(number):
        name, town = NAMES[random.integers(len(NAMES))], TOWNS[random.integers(len(TOWNS))]
        date = f"{random.integers(1, 29):02}/{random.integers(1, 13):02}/{random.integers(1930, 2020)}"
        text, spans = "", []
        for before, phi, kind, after in (
            ("Name: ", name, "PATIENT", ".\n"),
            ("Lives in ", town, "CITY", " since then 🏥.\n"),
            ("Seen on ", date, "DATE", " with fever and a cough .\n"),
        ):
            text += before
            spans.append(Span(len(text), len(text) + len(phi), kind))
            text += phi + after
        text += "No other complaints were reported .\n"
        notes.append(Note(f"note{i:02}", text, tuple(spans)))
    return notes


def write_folder(folder: Path, notes: list[Note], brat: bool = False) -> Path:
    """Write notes as XML, or as brat, and return the folder."""
    for note in notes:
        if brat:
            write_brat(folder, note)
        else:
            write_i2b2(folder / f"{note.name}.xml", note, ELEMENTS)
    return folder
