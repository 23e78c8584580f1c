"""The private folder through which a sandbox hands a submission its input and takes back what it wrote.

What comes back was written by a stranger: nothing in it is believed before it is checked here.
"""

import builtins
import contextlib
import itertools
import json
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from scoring.contract import ARRAYS, OPTIONAL, Role, asked_in, check_generated, check_labels, given
from scoring.leftovers import is_dead, this_process
from scoring.sandbox.interface import Outcome, Status
from scoring.sandbox.runner import EXCEPTION, FORM, FULL, MEMORY
from scoring.strangers import Failed, HostError, Reason, untrusted
from utils.arrays import read_npz
from utils.text import printable

RUNNER = Path(__file__).with_name("runner.py")
PREFIX = "hide-and-seek-"
MAX_ERROR_BYTES = 256 << 10
MAX_SOURCE_BYTES = 1 << 20
READ_SECONDS = 300.0
MAX_CAUSE = 300  # characters of an exception's message in one line
SPARE_BYTES = 64 << 20  # a disk with less left is full
MAKE_ROOM = "make room there, or set TMPDIR, and start again"
OUTPUTS: dict[Role, set[str]] = {
    "hider": {"generated_data", "padding_mask", "eval_seeds", "rescore"},
    "seeker": {"labels", "scores"},
}
# Exceptions that are no builtins, and whose names tell a submitter more than "Exception" does.
LIBRARY_ERRORS = {"LinAlgError", "AxisError", "NotFittedError", "InvalidArgumentError", "ResourceExhaustedError"}
ENDINGS: dict[int, tuple[Status, str]] = {
    EXCEPTION: ("failed", Reason.RAISED),
    MEMORY: ("memory", Reason.MEMORY),
    FULL: ("output_limit", Reason.FULL),
    FORM: ("invalid_output", Reason.FORM),
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
        HostError
            Where the disk has no room for the input, and for an answer as large as the contract asks for.
        """
        if not set(ARRAYS[role]) <= set(arrays) <= {*ARRAYS[role], *OPTIONAL[role]}:
            raise ValueError(f"a {role} gets {ARRAYS[role]}, not {tuple(arrays)}")
        self.source = submission
        try:
            self._fill(submission, role, arrays, seed, parameters)
        except OSError as error:  # what is copied was checked when it was taken in: no submission is to blame
            raise HostError(f"{self.root.parent} took no input for a run: {error}") from error
        if self.is_short_of_room():
            raise HostError(f"the disk of {self.root.parent} is full; {MAKE_ROOM}")

    def _fill(
        self,
        submission: Path,
        role: Role,
        arrays: Mapping[str, np.ndarray | None],
        seed: int,
        parameters: str | None,
    ) -> None:
        shutil.copyfile(RUNNER, self.runner)  # the repository may lie where the submission's user cannot read
        shutil.copytree(submission, self.submission)
        self.inputs.mkdir()
        self.outputs.mkdir()
        arrays = given(arrays, role, asked_in(submission / f"{role}.py"))
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
        # The room for the answer is taken now: another run that fills the disk takes it from nobody.
        with self.output.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _answer_bytes(role, arrays))
        self.error.touch()
        for folder, _, files in os.walk(self.root):
            if Path(folder) != self.root:
                Path(folder).chmod(0o755)
            for name in files:
                Path(folder, name).chmod(0o644)
        self.output.chmod(0o666)
        self.error.chmod(0o666)

    def outcome(self, exit_code: int, role: Role, arrays: Mapping[str, np.ndarray | None], **kept: Any) -> Outcome:
        """Judge a run that ended by itself, by its exit code and by what it left. `kept` goes into the outcome.

        Raises
        ------
        HostError
            Where it had no room for its files because the disk of this machine is full: that is not its fault.
        """
        if exit_code == FULL and self.is_short_of_room():
            raise HostError(f"the disk of {self.root.parent} is full; {MAKE_ROOM}")
        if exit_code != 0:
            status, reason = ENDINGS.get(exit_code, ("failed", Reason.NO_ANSWER))
            detail = _cause(kept.get("stderr", "")) if exit_code == EXCEPTION else ""
            return Outcome(status, reason, submitter_log=self._submitter_log(), detail=detail, **kept)
        try:
            with untrusted(Reason.FILE, READ_SECONDS):
                return Outcome("ok", "", outputs=read_outputs(self.output, role, arrays), **kept)
        except Failed as failed:
            return Outcome("invalid_output", failed.reason, detail=failed.detail, **kept)

    def is_short_of_room(self) -> bool:
        """Whether the disk has less left than the smallest run may ask for."""
        return shutil.disk_usage(self.root).free < SPARE_BYTES

    def _submitter_log(self) -> str:
        try:
            with untrusted(Reason.NO_ANSWER, READ_SECONDS):
                with _open_plain(self.error) as file:
                    described = json.loads(file.read(MAX_ERROR_BYTES))
                # From the host's copy: where the submission has no user of its own it can rewrite the one it runs from.
                return rebuild_traceback(described, self.source)
        except Failed:
            return ""


def _cause(printed: str) -> str:
    """Say what a run raised, by the last line that it printed: of a traceback, the exception and its message."""
    lines = [line for line in printed.splitlines() if line.strip()]
    return f"raised {printable(lines[-1].strip(), MAX_CAUSE)}" if lines else ""


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
    try:
        root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=base))
    except OSError as error:
        raise HostError(f"no folder can be made in {base}: {error.strerror}; {MAKE_ROOM}") from error
    try:
        yield Exchange(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


# --- What the submission returned -------------------------------------------------------------------------------------


def read_outputs(output: Path, role: Role, arrays: Mapping[str, np.ndarray | None]) -> dict[str, Any]:
    """Read and check an output file.

    Raises
    ------
    Failed, UnsoundFileError, OSError
        Where it is not what the contract asks for. Call it within `untrusted`.
    """
    allowed = _allowed_shapes(role, arrays)

    def expected(name: str, shape: tuple[int, ...], dtype: np.dtype) -> bool:
        if name not in allowed:
            raise Failed(Reason.FILE, "its output holds an array that the contract does not know")
        if dtype.kind not in "biuf":
            raise Failed(Reason.NUMBERS)
        if shape not in allowed[name]:
            raise Failed(Reason.SHAPE, f"returned {name} of shape {str(shape)[:60]}, expected {allowed[name][0]}")
        return True

    with _open_plain(output) as file:
        found = read_npz(file, expected, compressed=False)
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
        raise Failed(Reason.FORM, "its output has no labels")
    labels, scores = check_labels("it", (found["labels"], found.get("scores")), _shape(arrays, "enlarged_data")[0])
    return {"labels": labels, "scores": scores}


def _allowed_shapes(role: Role, arrays: Mapping[str, np.ndarray | None]) -> dict[str, tuple[tuple[int, ...], ...]]:
    if role == "hider":
        shape = _shape(arrays, "data")
        return {"generated_data": (shape,), "padding_mask": (shape,), "eval_seeds": ((),), "rescore": ((),)}
    count = _shape(arrays, "enlarged_data")[0]
    vectors = ((count,), (count, 1), (1, count))
    return {"labels": vectors, "scores": vectors}


def _answer_bytes(role: Role, arrays: Mapping[str, np.ndarray | None]) -> int:
    """Bytes of the largest usual answer: float64 data and a bool mask, or float64 labels and scores, and headers."""
    if role == "hider":
        return 9 * math.prod(_shape(arrays, "data")) + (1 << 16)
    return 16 * _shape(arrays, "enlarged_data")[0] + (1 << 16)


def _shape(arrays: Mapping[str, np.ndarray | None], name: str) -> tuple[int, ...]:
    array = arrays[name]
    if array is None:
        raise ValueError(f"the input {name} is missing")
    return array.shape


def _open_plain(path: Path) -> IO[bytes]:
    """Open a plain file, not a link, pipe or device that was put in its place."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a plain file")
    return file


# --- What the submitter sees ------------------------------------------------------------------------------------------


def rebuild_traceback(described: Any, submission: Path) -> str:
    """Say in which of its own lines a submission raised which exception, and nothing else.

    A description is the submission's word: any of it could be data. So one exception is told of, by a name that Python
    or NumPy gave, and one line, which stands in the zip. What a run can still tell its author is which line of its own
    that is: some 20 bits.

    Parameters
    ----------
    described : dict
        `class`, and `line`: the file and the number of a line, or None.
    submission : Path
        The unpacked submission.

    Raises
    ------
    Exception
        Of any kind, where `described` is malformed. Call it within `untrusted`.
    """
    raised, line = described["class"], described["line"]
    shown = _own_line(submission, *line) if line is not None else ""
    name = raised if raised in LIBRARY_ERRORS or _is_builtin_error(raised) else "Exception"
    return f"Traceback (the submission's own last line):\n{shown}{name}: <message redacted>\n"


def _is_builtin_error(name: str) -> bool:
    builtin = getattr(builtins, name, None)
    return isinstance(builtin, type) and issubclass(builtin, BaseException)


def _own_line(submission: Path, file: Any, number: Any) -> str:
    """Return the line if one of the submission's files has it. The file is looked for, never opened by that name."""
    if type(file) is not str or type(number) is not int or not 1 <= number <= MAX_SOURCE_BYTES:
        return ""
    for path in submission.rglob("*.py"):
        if path.relative_to(submission).as_posix() == file and path.stat().st_size <= MAX_SOURCE_BYTES:
            with path.open(encoding="utf-8", errors="replace") as source:
                text = next(itertools.islice(source, number - 1, None), None)
            return (
                ""
                if text is None
                else f'  File "{printable(file)}", line {number}\n    {printable(text.strip(), 200)}\n'
            )
    return ""
