"""The process sandbox: a fresh interpreter with bounded resources, for code that one trusts not to be hostile."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from scoring.contract import Role
from scoring.sandbox import guard
from scoring.sandbox.exchange import Exchange, private_exchange, remove_leftovers
from scoring.sandbox.interface import DEFAULT_LIMITS, Limits, Outcome, Status
from scoring.strangers import Reason
from utils.errors import UserError

GUARD = Path(guard.__file__)
# User ids that no system hands out. Each run has its own, so that the kernel's per-user bound on processes is its own.
FIRST_UID, UIDS = 0x60000000, 0x10000000
ENDED: dict[str, tuple[Status, str]] = {
    guard.TIMEOUT: ("timeout", Reason.TIMEOUT),
    guard.MEMORY: ("memory", Reason.MEMORY),
    guard.FULL: ("output_limit", Reason.FULL),
}
_PROBE = "import sys, numpy; open(sys.argv[1]).close(); print(sys.prefix, sys.base_prefix, numpy.__file__)"


class ProcessSandbox:
    """Run submissions in a fresh interpreter of this machine, in a session of their own. Linux only.

    It is no security boundary: a hostile submission can use the network and read what its user can read. It bounds
    time, memory, processes and output, gives a clean environment, and ends all that a submission started. Run by
    root it drops to a user id of its own, which also keeps it from writing outside its folder and from other
    processes. The docker sandbox is the one for strangers' code.

    Attributes
    ----------
    notice : str
        What it does not stop, for the log.

    Parameters
    ----------
    python : str
        The interpreter, with NumPy: this one, or that of an old environment.
    base : Path, optional
        Where the private folders are made. The system's temporary folder by default.

    Raises
    ------
    UserError
        Where this is not Linux, or the interpreter is not there or has no NumPy.
    """

    name = "process"

    def __init__(self, python: str = sys.executable, base: Path | None = None) -> None:
        if sys.platform != "linux":
            raise UserError("the process sandbox needs Linux; use --sandbox docker")
        found = shutil.which(python)
        if found is None:
            raise UserError(f"there is no Python at {python}")
        self.python = os.path.abspath(found)  # not resolved: a virtual environment is known by its link
        self.base = base or Path(tempfile.gettempdir())
        remove_leftovers(self.base)
        wanted = self._probe(None)
        if not wanted:
            raise UserError(f"{python} cannot be used for the sandbox: it does not start, or has no NumPy")
        # The user that root drops to may not reach an interpreter below a private folder (root's home, say). Python
        # then starts with whatever library it finds instead, so the answers are compared.
        self.reads_all = False
        if os.geteuid() == 0 and self._probe(_new_user()) != wanted:
            self.reads_all = True
            if self._probe(_new_user()) != wanted:
                raise UserError(f"{python} does not start for another user than root; install it in a public folder")

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
        """As `Sandbox.run`. `image` is not heeded."""
        with private_exchange(self.base) as exchange:
            exchange.fill(submission, role, arrays, seed, parameters)
            home = exchange.root / "home"
            home.mkdir(mode=0o700)
            uid = _new_user() if os.geteuid() == 0 else None
            if uid is not None:
                os.chown(home, uid, uid)
                os.chown(exchange.root, 0, uid)
                exchange.root.chmod(0o710)
            result, stdout, stderr = _guarded(self._settings(exchange, home, uid, limits), exchange.root, limits.log)
            kept = {"stdout": stdout, "stderr": stderr, "seconds": result.get("seconds", 0.0)}
            if result.get("ended_by") in ENDED:
                status, reason = ENDED[result["ended_by"]]
                return Outcome(status, reason, **kept)
            return exchange.outcome(result.get("exit_code", -1), role, arrays, **kept)

    @property
    def notice(self) -> str:
        reads = "every file of this machine" if self.reads_all else "what its user may read"
        return f"the process sandbox is no security boundary: a submission can use the network and read {reads}"

    def _settings(self, exchange: Exchange, home: Path, uid: int | None, limits: Limits) -> dict[str, Any]:
        places = (exchange.submission, exchange.inputs, exchange.outputs)
        command = [self.python, "-s", "-B", str(exchange.runner), *map(str, places)]
        return {
            "command": command if uid is None else [*self._as_user(uid), *command],
            "environment": clean_environment(str(home), limits) | {"PATH": _search_path(self.python)},
            "harness": os.getpid(),
            "root": str(exchange.root),
            "writable": [str(home), str(exchange.outputs)],
            "result": str(exchange.root / "result.json"),
            "seconds": limits.seconds,
            "memory": limits.memory,
            "output": limits.output,
            "gpus": limits.gpus,
            # The kernel counts all of a user's processes, those outside the sandbox too.
            "processes": limits.processes + (_processes_of_this_user() if uid is None else 0),
        }

    def _as_user(self, uid: int) -> list[str]:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise UserError("the process sandbox, run by root, needs setpriv (Debian: util-linux)")
        user = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--pdeathsig=KILL"]
        kept = ",+dac_read_search" if self.reads_all else ""
        capabilities = [f"--inh-caps=-all{kept}", f"--ambient-caps=-all{kept}", f"--bounding-set=-all{kept}"]
        return [setpriv, *user, *capabilities, "--"]

    def _probe(self, uid: int | None) -> str:
        """Start the interpreter as it will be started. Return where it and NumPy are, "" where it fails."""
        with private_exchange(self.base) as exchange:
            probe = exchange.root / "probe"
            probe.touch()
            exchange.root.chmod(0o711)  # it holds nothing yet
            command = [self.python, "-s", "-B", "-c", _PROBE, str(probe)]
            ended = subprocess.run(  # noqa: S603
                command if uid is None else [*self._as_user(uid), *command],
                env={},
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
            return ended.stdout if ended.returncode == 0 else ""


def _new_user() -> int:
    return FIRST_UID + secrets.randbelow(UIDS)


def clean_environment(home: str, limits: Limits) -> dict[str, str]:
    """Give the whole environment of a submission: nothing of the harness's own."""
    threads = str(max(1, round(limits.cpus or os.cpu_count() or 1)))
    environment = {"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        environment[name] = threads
    if not limits.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _search_path(python: str) -> str:
    return os.pathsep.join((os.path.dirname(python), "/usr/local/bin", "/usr/bin", "/bin"))


def _guarded(settings: dict[str, Any], root: Path, log: int) -> tuple[dict[str, Any], str, str]:
    """Run the guard to its end. Return what it says and the last `log` bytes of stdout and of stderr."""
    path = root / "settings.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    path.chmod(0o600)
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", str(GUARD), str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the harness's to handle
        env={},
    )
    kept = [bytearray(), bytearray()]
    readers = []
    for stream, buffer in zip((process.stdout, process.stderr), kept, strict=True):
        assert stream is not None
        readers.append(threading.Thread(target=_keep_end, args=(stream, buffer, log), daemon=True))
        readers[-1].start()
    try:
        process.wait()
    finally:
        process.terminate()
        process.wait()
        for reader in readers:
            reader.join()
    try:
        result = json.loads(Path(settings["result"]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        result = {}
    return result, *(buffer.decode("utf-8", errors="replace") for buffer in kept)


def _keep_end(stream: IO[bytes], buffer: bytearray, limit: int) -> None:
    """Read a stream to its end, so that its writer never waits, and keep its last `limit` bytes."""
    with stream:
        while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
            buffer += chunk
            del buffer[:-limit]


def _processes_of_this_user() -> int:
    count = 0
    for process in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", process.name):
            try:
                if process.stat().st_uid == os.geteuid():
                    count += len(os.listdir(process / "task"))
            except OSError:
                continue
    return count
