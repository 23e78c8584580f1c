"""The Docker sandbox: one container a run, with nothing of the host in it but the submission and its input."""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import numpy as np
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from scoring.contract import Role
from scoring.leftovers import is_dead, this_process
from scoring.sandbox import seccomp
from scoring.sandbox.exchange import Exchange, private_exchange, remove_leftovers
from scoring.sandbox.interface import DEFAULT_IMAGE, DEFAULT_LIMITS, Limits, Outcome
from scoring.sandbox.process import clean_environment
from scoring.strangers import HostError, Reason
from utils.errors import UserError

LABEL = "hide-and-seek.owner"
USER = "60600:60600"  # of no name, in no range that a system hands out, and mapped where the engine is rootless
INSIDE = "/hide-and-seek"
HOME = "/tmp"  # noqa: S108
VOLUME_BYTES = 16 << 20
ENGINE_SECONDS = 120  # for the engine to answer: nothing that a submission chose takes time here


class DockerSandbox:
    """Run submissions in containers of the Docker engine that `DOCKER_HOST` names, or this machine's own.

    What holds a submission: there is no network. Root, code and input are read-only. It can write to two files and to
    a bounded tmpfs without executables. It is an unprivileged user without capabilities or a way to new ones. It has
    the system calls of `scoring.sandbox.seccomp` alone. There are bounds on memory (no swap), cores, processes, file
    size and time. It shares the kernel with the host: a flaw there is not stopped. The engine must run on this
    machine, whose folders are mounted.

    Parameters
    ----------
    image : str
        The image for submissions that name none: Python 3.6 or newer, as `python3`, with NumPy.
    allowed : collection of str
        Other images that submissions may ask for, as `Dockerimage` names them. An image is code that somebody chose:
        only the organiser does. None is ever pulled, so no submission makes the engine call a registry.
    base : Path, optional
        Where the private folders are made. The system's temporary folder by default.

    Raises
    ------
    UserError
        Where no engine answers, or one of the images is not there.
    """

    name = "docker"
    notice = ""

    def __init__(self, image: str = DEFAULT_IMAGE, allowed: Collection[str] = (), base: Path | None = None) -> None:
        self.image = image
        self.allowed = {image, *allowed}
        self.base = base or Path(tempfile.gettempdir())
        with engine() as client:
            for name in sorted(self.allowed):
                try:
                    client.images.get(name)
                except ImageNotFound as error:
                    how = "build it with dockerfiles/build.sh" if name == image else f"get it with: docker pull {name}"
                    raise UserError(f"there is no Docker image {name}; {how}") from error
            remove_leftovers(self.base)
            for left in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
                if is_dead(left.labels[LABEL]):
                    _remove(left)

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
        """As `Sandbox.run`."""
        wanted = image or self.image
        if wanted not in self.allowed:
            return Outcome("failed", Reason.IMAGE, detail=f"asks for the image {wanted}; --images allows more images")
        try:
            with engine() as client, private_exchange(self.base) as exchange:
                exchange.fill(submission, role, arrays, seed, parameters)
                return self._run(client, exchange, wanted, role, arrays, limits)
        except (DockerException, requests.RequestException) as error:
            raise HostError(
                f"the Docker engine went away during a run; start it and run this again: {error}"
            ) from error

    def _run(
        self,
        client: docker.DockerClient,
        exchange: Exchange,
        image: str,
        role: Role,
        arrays: Mapping[str, np.ndarray | None],
        limits: Limits,
    ) -> Outcome:
        volumes = _volumes_of(client, image)
        if any(Path(os.path.normpath(volume)) == Path("/") for volume in volumes):
            return Outcome("failed", Reason.NO_START, detail=f"the image {image} wants its root as a volume")
        try:
            container = client.containers.create(image, **_settings(exchange, limits, volumes))
        except APIError as error:
            if error.is_server_error():
                raise
            return Outcome("failed", Reason.NO_START, detail=f"{image}: {error.explanation}")
        with _attached(container, limits.log) as tails:
            started = time.monotonic()
            try:
                container.start()
            except APIError as error:  # the image has no python3, say
                return Outcome("failed", Reason.NO_START, detail=f"{image}: {error.explanation}")
            exit_code = _wait(container, limits.seconds)
            kept: dict[str, Any] = {"seconds": time.monotonic() - started, **tails.texts()}
            if exit_code is None:
                return Outcome("timeout", Reason.TIMEOUT, **kept)
            container.reload()
            if exit_code != 0 and container.attrs["State"]["OOMKilled"]:
                return Outcome("memory", Reason.MEMORY, **kept)
            return exchange.outcome(exit_code, role, arrays, **kept)


@contextlib.contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """Connect to the engine, anew for each run, so that a sandbox can be sent to another process.

    Raises
    ------
    UserError
        Where none answers.
    """
    missing = "no Docker engine answers; start it, or use --sandbox process"
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme == "unix" and not Path(path).is_socket():  # the SDK would leave a socket open
        raise UserError(missing)
    try:
        client = docker.from_env(timeout=ENGINE_SECONDS)  # asks the engine for its version
    except DockerException as error:
        raise UserError(missing) from error
    with contextlib.closing(client):
        yield client


def _volumes_of(client: docker.DockerClient, image: str) -> list[str]:
    """List the folders for which an image wants volumes."""
    return list((client.images.get(image).attrs["Config"] or {}).get("Volumes") or {})


def _settings(exchange: Exchange, limits: Limits, volumes: list[str]) -> dict[str, Any]:
    output, error = (f"{INSIDE}/out/{path.name}" for path in (exchange.output, exchange.error))
    places = {
        f"{INSIDE}/runner.py": (exchange.runner, True),
        f"{INSIDE}/submission": (exchange.submission, True),
        f"{INSIDE}/in": (exchange.inputs, True),
        # Two files, each bounded by `fsize`, in a folder that takes no third: that bounds what can be written.
        output: (exchange.output, False),
        error: (exchange.error, False),
    }
    cpu_seconds = int(limits.seconds * (os.cpu_count() or 1)) + 1
    safely = "noexec,nosuid,nodev"
    # An image's own volumes would be folders of the host's disk without bound.
    tmpfs = dict.fromkeys(volumes, f"size={VOLUME_BYTES},{safely}")
    tmpfs[HOME] = f"size={limits.output},{safely},mode=1777"
    return {
        "entrypoint": ["python3", "-s", "-B", f"{INSIDE}/runner.py"],
        "command": [f"{INSIDE}/submission", f"{INSIDE}/in", f"{INSIDE}/out"],
        "environment": clean_environment(HOME, limits),
        "labels": {LABEL: this_process()},
        "hostname": "sandbox",
        "network_mode": "none",
        "ipc_mode": "private",
        "read_only": True,
        "mounts": [Mount(inside, str(path), type="bind", read_only=fixed) for inside, (path, fixed) in places.items()],
        "tmpfs": tmpfs,
        "user": USER,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={seccomp.profile()}"],
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,
        "nano_cpus": None if limits.cpus is None else int(min(limits.cpus, os.cpu_count() or 1) * 1e9),
        "pids_limit": limits.processes,
        "ulimits": [
            Ulimit(name="fsize", soft=limits.output, hard=limits.output),
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="cpu", soft=cpu_seconds, hard=cpu_seconds),  # where the harness dies before the container
        ],
        "healthcheck": {"test": ["NONE"]},
        "log_config": LogConfig(type="none"),
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if limits.gpus else None,
    }


def _wait(container: Any, seconds: float) -> int | None:
    """Wait for a container's exit code. None where its time ran out first and it was killed."""
    deadline = time.monotonic() + seconds
    try:
        return int(container.wait(timeout=seconds)["StatusCode"])
    except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError) as error:
        if time.monotonic() < deadline:
            raise HostError("the Docker engine went away during a run; start it and run this again") from error
    with contextlib.suppress(APIError):  # it may have ended just now
        container.kill()
    return None


class _Tails:
    """Reads a container's stdout and stderr as they come and keeps their ends. The engine keeps no log of them."""

    def __init__(self, container: Any, limit: int) -> None:
        self.stream = container.attach(stdout=True, stderr=True, stream=True, demux=True)
        self.limit = limit
        self.tails = {"stdout": bytearray(), "stderr": bytearray()}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for chunks in self.stream:
            for tail, chunk in zip(self.tails.values(), chunks, strict=True):
                tail += chunk or b""
                del tail[: -self.limit]

    def close(self) -> None:
        """Wait for what the container, which has ended, wrote last."""
        self.reader.join(ENGINE_SECONDS)
        self.stream._response.close()

    def texts(self) -> dict[str, str]:
        """Give the ends, once the container has ended."""
        self.close()
        return {name: tail.decode("utf-8", errors="replace") for name, tail in self.tails.items()}


@contextlib.contextmanager
def _attached(container: Any, limit: int) -> Iterator[_Tails]:
    """Read what a container writes, and remove it in the end."""
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, container)
        tails = _Tails(container, limit)
        stack.pop_all()
    try:
        yield tails
    finally:
        _remove(container)
        tails.close()


def _remove(container: Any) -> None:
    with contextlib.suppress(NotFound):
        container.remove(force=True, v=True)
