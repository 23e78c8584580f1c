"""Running strangers' code: one interface, `Sandbox`, and two kinds of it."""

from scoring.sandbox.interface import Limits, Outcome, Sandbox, Status
from scoring.sandbox.process import ProcessSandbox

__all__ = ["Limits", "Outcome", "ProcessSandbox", "Sandbox", "Status"]
