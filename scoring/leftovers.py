"""Telling whether the process that made something is still there, so that what killed runs left can be removed."""

import os
from pathlib import Path


def this_process() -> str:
    """Name this process so that no other, on this machine or after its next start, has the same name."""
    return f"{_boot()}.{_namespace()}.{os.getpid()}.{_start(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Tell whether a process named by `this_process` is surely gone. False for any other text."""
    parts = owner.split(".")
    if len(parts) != 4 or not parts[2].isdecimal():
        return False
    boot, namespace, pid, start = parts
    if boot != _boot():
        return True
    return namespace == _namespace() and _start(int(pid)) != start


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    except OSError:  # no Linux: the process id alone has to do
        return "unknown"


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "unknown"


def _start(pid: int) -> str:
    """Give a process's start in clock ticks since boot, "" where there is no such process."""
    try:
        # The second field, the program's name, may hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if _boot() != "unknown":
            return ""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        return "unknown"
    return "" if fields[0] in "ZX" else fields[19]
