"""Small submissions, and a tournament of them as an organiser would run it."""

import textwrap
import zipfile
from pathlib import Path

QUICK = ("--skip_fp", "--skip_osa", "--sandbox", "process")
PLAYERS = {
    "hider_copy": """
        def hider(input_dict):
            return input_dict["data"], input_dict["padding_mask"]
    """,
    "hider_noise": """
        import numpy as np
        def hider(input_dict):
            rng = np.random.default_rng(input_dict["seed"])
            return rng.normal(size=input_dict["data"].shape)
    """,
    "seeker_equal": """
        import numpy as np
        def seeker(input_dict):
            known = {np.nan_to_num(stay).tobytes() for stay in input_dict["generated_data"]}
            found = np.array([np.nan_to_num(stay).tobytes() in known for stay in input_dict["enlarged_data"]])
            return found, found + np.linspace(0, 0.1, len(found))
    """,
    "seeker_nobody": """
        def seeker(input_dict):
            return [0] * len(input_dict["enlarged_data"])
    """,
}


def write(folder: Path, name: str, source: str) -> Path:
    """A single `.py` submission."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source))
    return path


def write_folder(folder: Path, name: str, source: str) -> Path:
    """An unpacked submission, which is quicker to take in: no `utils/`."""
    path = folder / name
    path.mkdir(parents=True)
    (path / f"{name.partition('_')[0]}.py").write_text(textwrap.dedent(source))
    return path


def write_zip(path: Path, role: str, source: str) -> Path:
    """A packed submission."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{role}.py", textwrap.dedent(source))
    return path


def write_all(folder: Path) -> Path:
    """The four players."""
    for name, source in PLAYERS.items():
        write_folder(folder, name, source)
    return folder
