"""Starts one submission with bounded resources and sees to it that nothing of it outlives its time or its harness.

Called by `scoring.sandbox.process` as `python -I -S guard.py SETTINGS`, in an interpreter of its own, so that what a
child process must do between fork and exec happens where there are no threads. Linux, standard library alone.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT, MEMORY, FULL = "timeout", "memory", "output_limit"
TICK_SECONDS = 0.1
MAP_SLACK = 8 << 30  # program and input files are mapped too, and cost no memory of their own
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None).prctl


def main(settings: dict[str, Any]) -> None:
    """Run the command, watch it, end it, and write how it ended to the file `result`."""
    watched = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)  # whatever the submission leaves behind becomes our child
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(settings)
    ended_by, status = None, None
    while status is None and ended_by is None:
        woken = signal.sigtimedwait(watched, TICK_SECONDS)
        if os.getppid() != settings["harness"]:
            _kill_all()
            shutil.rmtree(settings["root"], ignore_errors=True)
            return
        if woken is not None and woken.si_signo != signal.SIGCHLD:
            ended_by = "stopped"
        pid, waited = os.waitpid(child, os.WNOHANG)
        if pid == child:
            status = os.waitstatus_to_exitcode(waited)
        else:
            ended_by = ended_by or _over_limit(settings, time.monotonic() - started)
    seconds = time.monotonic() - started
    _kill_all()
    if ended_by is None and _written(settings) > settings["output"]:  # between the last look and its end
        ended_by = FULL
    result = {"ended_by": ended_by, "exit_code": status, "seconds": seconds}
    Path(settings["result"]).write_text(json.dumps(result), encoding="utf-8")


def _become(settings: dict[str, Any]) -> None:
    """Turn this forked child into the submission; never returns."""
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        os.umask(0o077)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        limits = {
            resource.RLIMIT_CORE: 0,  # a core dump would hold the data
            resource.RLIMIT_FSIZE: settings["output"],
            resource.RLIMIT_DATA: settings["memory"],
            resource.RLIMIT_CPU: int(settings["seconds"] * (os.cpu_count() or 1)) + 1,
            resource.RLIMIT_NPROC: settings["processes"],
        }
        if not settings["gpus"]:  # the GPU driver reserves more addresses than there is memory
            limits[resource.RLIMIT_AS] = settings["memory"] + MAP_SLACK
        for which, limit in limits.items():
            hard = resource.getrlimit(which)[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(which, (limit, limit))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execve(settings["command"][0], settings["command"], settings["environment"])  # noqa: S606
    except BaseException as error:
        print(f"the sandbox could not start the submission: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(127)


def _over_limit(settings: dict[str, Any], seconds: float) -> str | None:
    if seconds > settings["seconds"]:
        return TIMEOUT
    if sum(map(_resident, _descendants())) > settings["memory"]:
        return MEMORY
    if _written(settings) > settings["output"]:
        return FULL
    return None


def _descendants() -> list[int]:
    """List all processes below this one."""
    found, ahead = [], [os.getpid()]
    while ahead:
        children = list(_children(ahead.pop()))
        found += children
        ahead += children
    return found


def _children(pid: int) -> Iterator[int]:
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:  # it ended while we looked
        return


def _resident(pid: int) -> int:
    """Bytes of memory that a process has of its own: not the files it maps."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _written(settings: dict[str, Any]) -> int:
    """Bytes that the files which the submission wrote take on the disk."""
    total = 0
    for folder in settings["writable"]:
        for path, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(path, name)).st_blocks * 512
                except OSError:
                    continue
    return total


def _kill_all() -> None:
    """Kill all processes below this one, those that left the session too; stopped first, so that none can fork."""
    while found := _descendants():
        for signo in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                try:
                    os.kill(pid, signo)
                except ProcessLookupError:
                    continue
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
