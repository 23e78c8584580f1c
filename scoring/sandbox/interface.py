"""What every sandbox takes and gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from scoring.contract import Role
from utils.errors import UserError

Status = Literal["ok", "failed", "timeout", "memory", "output_limit", "invalid_output"]
GIB = 1 << 30
DAY = 86_400.0
MAX_SECONDS, MAX_BYTES = 3e8, 1 << 50  # ten years, a million GiB: more is a slip of the pen
DEFAULT_IMAGE = "localhost/hide-and-seek:cpu"  # built by dockerfiles/build.sh. No registry can answer for localhost


@dataclass(frozen=True)
class Limits:
    """What one run of a submission may use.

    Attributes
    ----------
    seconds : float
        Wall-clock time. The 2020 competition's day.
    memory : int
        Bytes of memory of all its processes together. Has to hold its input.
    processes : int
        Processes and threads. TensorFlow starts several for each core.
    cpus : float or None
        Cores. None for all. The process sandbox only asks libraries for so many threads.
    output : int
        Bytes of any one file that it writes, and of all it may write.
    log : int
        Bytes kept of each of stdout and stderr, the last.
    gpus : bool
        Whether it may use the GPUs.
    """

    seconds: float = DAY
    memory: int = 16 * GIB
    processes: int = 1024
    cpus: float | None = None
    output: int = 4 * GIB
    log: int = 1 << 20
    gpus: bool = False

    def __post_init__(self) -> None:
        bounds = {
            "seconds": (self.seconds, 1e-3, MAX_SECONDS),
            "memory": (self.memory, 16 << 20, MAX_BYTES),
            "processes": (self.processes, 1, 1 << 22),
            "cpus": (1.0 if self.cpus is None else self.cpus, 0.01, 4096),
            "output": (self.output, 1 << 16, MAX_BYTES),
            "log": (self.log, 0, 1 << 30),
        }
        for name, (value, low, high) in bounds.items():
            if not low <= value <= high:  # NaN neither
                raise UserError(f"the limit on {name} must lie between {low:g} and {high:g}, not be {value:g}")


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    status : str
        "ok", "failed" (it raised or died), "timeout", "memory", "output_limit" (it wrote too much) or
        "invalid_output" (what it returned is not what the contract asks for).
    reason : str
        One of `scoring.strangers.REASONS`, for all to read. Empty where all is well.
    detail : str
        For the organiser alone: what `reason` leaves out. The data can be in it.
    outputs : dict
        Where all is well. Of a hider: `generated_data` float64 [N, T, F], `padding_mask` bool [N, T, F] or None and
        `eval_seeds` int or None, or, of one that reuses its earlier data, `rescore` True and no more. Of a seeker:
        `labels` bool [M], and `scores` float64 [M] or None.
    submitter_log : str
        For the submitter: the kind of the exception, and which of the submission's own lines raised it.
    stdout, stderr : str
        For the organiser alone: the data can be in them.
    seconds : float
        Wall-clock time of the run.
    """

    status: Status
    reason: str
    outputs: Mapping[str, Any] = field(default_factory=dict)
    submitter_log: str = ""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    detail: str = ""

    @property
    def explained(self) -> str:
        """Why it failed, as the organiser is told."""
        return self.detail or self.reason


class Sandbox(Protocol):
    """A place to run a stranger's submission in."""

    name: str

    @property
    def notice(self) -> str:
        """What it does not stop, in one line for the log. Empty where there is nothing to warn of."""
        ...

    def run(
        self,
        submission: Path,
        role: Role,
        arrays: Mapping[str, np.ndarray | None],
        seed: int,
        limits: Limits = DEFAULT_LIMITS,
        parameters: str | None = None,
        image: str | None = None,
    ) -> Outcome:
        """Call a submission's hider or seeker on its input and check what it returns.

        Parameters
        ----------
        submission : Path
            Its unpacked folder (`scoring.submission.take_in`). It is not changed.
        role : "hider" or "seeker"
        arrays : mapping
            The contract's input_dict without `seed`. Nothing else of the host's is handed in. Of a hider: `data` and
            `padding_mask` [N, T, F] of the training half. Of a seeker: `generated_data` and
            `generated_data_padding_mask` [N, T, F], `enlarged_data` and `enlarged_data_padding_mask` [M, T, F].
        seed : int
        limits : Limits
        parameters : str, optional
            `name=value,...` for a method that has a parameter block.
        image : str, optional
            The Docker image it asks for. Only the Docker sandbox heeds it.

        Raises
        ------
        HostError
            Where this machine is in trouble: a full disk, an engine that went away. Nobody is blamed.
        UserError
            Where the sandbox itself cannot work. What the submission does wrong is an `Outcome`.
        """
        ...
