"""The private folder through which a sandbox hands a submission its input and takes back what it wrote.

What comes back was written by a stranger: nothing in it is believed before it is checked here.
"""

import builtins
import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from scoring.sandbox.interface import Outcome, Status
from scoring.sandbox.leftovers import is_dead, this_process
from scoring.sandbox.runner import EXCEPTION, FORM, FULL, MAX_CHAIN, MAX_FRAMES, MEMORY
from scoring.submissions.players import check_generated, check_labels
from scoring.submissions.submission import Role, check_directory_size
from utils.errors import UserError

RUNNER = Path(__file__).with_name("runner.py")
PREFIX = "hide-and-seek-"
MAX_ERROR_BYTES = 256 << 10
MAX_NAMES_BYTES = 4096
ARRAYS: dict[Role, tuple[str, ...]] = {
    "hider": ("data", "padding_mask"),
    "seeker": (
        "generated_data",
        "generated_data_padding_mask",
        "enlarged_data",
        "enlarged_data_padding_mask",
    ),
}
OUTPUTS: dict[Role, set[str]] = {
    "hider": {"generated_data", "padding_mask", "eval_seeds", "rescore"},
    "seeker": {"labels", "scores"},
}
# Exceptions that are no builtins, and whose names tell a submitter more than "Exception" does.
LIBRARY_ERRORS = {"LinAlgError", "AxisError", "NotFittedError", "InvalidArgumentError", "ResourceExhaustedError"}
REASONS: dict[int, tuple[Status, str]] = {
    EXCEPTION: ("failed", "raised an exception"),
    MEMORY: ("memory", "ran out of memory"),
    FULL: ("output_limit", "wrote more than it may"),
    FORM: ("invalid_output", "returned no form that the contract knows"),
}


# --- The private folder -----------------------------------------------------------------------------------------------


class Exchange:
    """One run's private folder: `runner.py`, `submission/`, `in/`, and `out/` with `output.npz` and `error.json`.

    Only its owner can enter it, so the modes inside it are for the submission's own user.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = Path()
        self.runner = root / "runner.py"
        self.submission = root / "submission"
        self.inputs = root / "in"
        self.outputs = root / "out"
        self.output = self.outputs / "output.npz"
        self.error = self.outputs / "error.json"

    def fill(
        self,
        submission: Path,
        role: Role,
        arrays: Mapping[str, np.ndarray | None],
        seed: int,
        parameters: str | None,
    ) -> None:
        """Copy the submission in and write its input.

        Raises
        ------
        ValueError
            Where `arrays` are not those of the role: a caller's mistake that could hand out the split.
        """
        if set(arrays) != set(ARRAYS[role]):
            raise ValueError(f"a {role} gets {ARRAYS[role]}, not {tuple(arrays)}")
        self.source = submission
        shutil.copyfile(RUNNER, self.runner)  # the repository may lie where the submission's user cannot read
        shutil.copytree(submission, self.submission)
        self.inputs.mkdir()
        self.outputs.mkdir()
        for name, array in arrays.items():
            if array is not None:
                np.save(self.inputs / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
        request = {
            "role": role,
            "seed": seed,
            "parameters": parameters,
            "arrays": [name for name, array in arrays.items() if array is not None],
            "absent": [name for name, array in arrays.items() if array is None],
        }
        (self.inputs / "request.json").write_text(json.dumps(request), encoding="utf-8")
        self.output.touch()
        self.error.touch()
        for folder, _, files in os.walk(self.root):
            if Path(folder) != self.root:
                Path(folder).chmod(0o755)
            for name in files:
                Path(folder, name).chmod(0o644)
        self.output.chmod(0o666)
        self.error.chmod(0o666)

    def outcome(self, exit_code: int, role: Role, arrays: Mapping[str, np.ndarray | None], **kept: Any) -> Outcome:
        """Judge a run that ended by itself, by its exit code and by what it left; `kept` goes into the outcome."""
        if exit_code != 0:
            status, reason = REASONS.get(exit_code, ("failed", "ended without an answer"))
            return Outcome(status, reason, submitter_log=self._submitter_log(), **kept)
        try:
            return Outcome("ok", "", outputs=read_outputs(self.output, role, arrays), **kept)
        except UserError as error:
            return Outcome("invalid_output", str(error), **kept)

    def _submitter_log(self) -> str:
        try:
            with _open_plain(self.error) as file:
                described = json.loads(file.read(MAX_ERROR_BYTES))
            # From the host's copy: where the submission has no user of its own it can rewrite the one it runs from.
            return rebuild_traceback(described, self.source)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return ""


def remove_leftovers(base: Path) -> None:
    """Remove the private folders of runs that were killed."""
    for left in base.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):
            if left.lstat().st_uid == os.geteuid() and is_dead(owner):
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def private_exchange(base: Path) -> Iterator[Exchange]:
    """Make a private folder (mode 0700) below `base`, and remove it with all it holds."""
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=base))
    try:
        yield Exchange(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


# --- What the submission returned -------------------------------------------------------------------------------------


def read_outputs(output: Path, role: Role, arrays: Mapping[str, np.ndarray | None]) -> dict[str, Any]:
    """Read and check an output file.

    Raises
    ------
    UserError
        Where it is not what the contract asks for; one line that names what was wrong.
    """
    refused = "its output was refused"
    try:
        with _open_plain(output) as file:
            check_directory_size(file, MAX_NAMES_BYTES, refused)
            found = _read_members(file, _allowed_shapes(role, arrays), refused)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{refused}: it is no .npz file of plain arrays") from error
    if role == "hider":
        if set(found) == {"rescore"}:
            return {"rescore": True}
        eval_seeds = found.get("eval_seeds")
        returned = (
            found.get("generated_data"),
            found.get("padding_mask"),
            None if eval_seeds is None else int(eval_seeds),
        )
        checked = check_generated("it", returned, _shape(arrays, "data"))
        assert checked is not None  # None stands for the text "rescore" alone
        return dict(zip(("generated_data", "padding_mask", "eval_seeds"), checked, strict=True))
    if "labels" not in found:
        raise UserError(f"{refused}: it has no labels")
    labels, scores = check_labels("it", (found["labels"], found.get("scores")), _shape(arrays, "enlarged_data")[0])
    return {"labels": labels, "scores": scores}


def _allowed_shapes(role: Role, arrays: Mapping[str, np.ndarray | None]) -> dict[str, tuple[tuple[int, ...], ...]]:
    if role == "hider":
        shape = _shape(arrays, "data")
        return {"generated_data": (shape,), "padding_mask": (shape,), "eval_seeds": ((),), "rescore": ((),)}
    count = _shape(arrays, "enlarged_data")[0]
    vectors = ((count,), (count, 1), (1, count))
    return {"labels": vectors, "scores": vectors}


def _shape(arrays: Mapping[str, np.ndarray | None], name: str) -> tuple[int, ...]:
    array = arrays[name]
    if array is None:
        raise ValueError(f"the input {name} is missing")
    return array.shape


def _read_members(
    file: IO[bytes], allowed: dict[str, tuple[tuple[int, ...], ...]], refused: str
) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, each only once its header shows a plain type and an expected shape."""
    found: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name not in allowed or name in found or info.compress_type != zipfile.ZIP_STORED:
                raise UserError(f"{refused}: it holds more than {', '.join(allowed)}")
            with archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                if version not in read_header:
                    raise UserError(f"{refused}: {name} is no plain array")
                shape, _, dtype = read_header[version](stream)
            if dtype.kind not in "biuf" or dtype.itemsize > 8:
                raise UserError(f"{refused}: {name} is no array of plain numbers")
            if shape not in allowed[name]:
                raise UserError(f"{refused}: {name} has shape {str(shape)[:60]}, expected {allowed[name][0]}")
            with archive.open(info) as stream:
                found[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def _open_plain(path: Path) -> IO[bytes]:
    """Open a plain file, not a link, pipe or device that was put in its place."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a plain file")
    return file


# --- What the submitter sees ------------------------------------------------------------------------------------------


def rebuild_traceback(described: Any, submission: Path) -> str:
    """Rebuild a traceback from file names, line numbers and names that occur in the submission itself.

    A description is the submission's word: text that is not its own source could be data, so it is left out. What
    can still leak is which of its lines are named, at most 100 of them.

    Parameters
    ----------
    described : list of dict
        `class` and `frames` (file, line, function) of each exception, the newest first.
    submission : Path
        The unpacked submission.

    Raises
    ------
    TypeError, ValueError, KeyError
        Where `described` is malformed.
    """
    sources = {
        path.relative_to(submission).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(submission.rglob("*.py"))
    }
    parts = []
    for link in list(described)[:MAX_CHAIN]:
        lines = ["Traceback (most recent call last, the submission's own lines):"]
        for file, number, function in link["frames"][-MAX_FRAMES:]:
            text = sources.get(file, "").splitlines()
            if isinstance(number, int) and 1 <= number <= len(text):
                inside = f", in {function}" if _occurs(function, sources[file]) else ""
                lines.append(f'  File "{file}", line {number}{inside}\n    {text[number - 1].strip()}')
        lines.append(f"{_class_name(link['class'], sources)}: <message redacted>")
        parts.append("\n".join(lines))
    return "\n\nthat led to:\n\n".join(reversed(parts)) + "\n"


def _occurs(name: str, source: str) -> bool:
    return name.isidentifier() and re.search(rf"\bdef {name}\b", source) is not None


def _class_name(name: str, sources: Mapping[str, str]) -> str:
    builtin = getattr(builtins, name, None)
    if (isinstance(builtin, type) and issubclass(builtin, BaseException)) or name in LIBRARY_ERRORS:
        return name
    own = name.isidentifier() and any(re.search(rf"\bclass {name}\b", source) for source in sources.values())
    return name if own else "Exception"
