"""Running strangers' code: one interface, `Sandbox`, and two kinds of it."""

import sys
from collections.abc import Collection
from typing import Literal

from scoring.sandbox.interface import Limits, Outcome, Sandbox, Status
from scoring.sandbox.process import ProcessSandbox
from utils.errors import UserError

__all__ = ["Limits", "Outcome", "ProcessSandbox", "Sandbox", "Status", "choose_sandbox"]


def choose_sandbox(
    kind: Literal["docker", "process"] | None = None, python: str = sys.executable, images: Collection[str] = ()
) -> Sandbox:
    """Give the sandbox that was asked for: docker where none was and an engine answers, else process with a notice.

    Parameters
    ----------
    kind : "docker" or "process", optional
    python : str
        The process sandbox's interpreter.
    images : collection of str
        Docker images that submissions may ask for, beside the default one.

    Raises
    ------
    UserError
        Where the one asked for cannot be had.
    """
    why = ""
    if kind != "process":
        from scoring.sandbox.container import DockerSandbox  # slow to import, and not always wanted

        try:
            return DockerSandbox(allowed=images)
        except UserError as error:
            if kind == "docker":
                raise
            why = f"{error}; "
    sandbox = ProcessSandbox(python)
    print(f"notice: {why}{sandbox.notice}", file=sys.stderr)
    return sandbox
