"""A Docker engine for the tests: the one that answers, or a private one, started and ended here."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from scoring.sandbox.container import engine
from utils.errors import UserError

IMAGE_TAR = Path("/var/cache/hide-and-seek/test-image-bookworm.tar")  # made by .ci/docker-engine
IMAGE = "localhost/hide-and-seek:test"
START_SECONDS = 60


class NoEngineError(Exception):
    """Why the Docker tests cannot run here."""


@contextlib.contextmanager
def docker_engine() -> Iterator[docker.DockerClient]:
    """Yield a client of an engine that holds the test image `IMAGE`; `DOCKER_HOST` names the engine meanwhile.

    Raises
    ------
    NoEngineError
        Where no engine answers and none can be started, or there is no test image.
    """
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(engine())
        except UserError:
            stack.enter_context(_private_engine())
            client = stack.enter_context(engine())
        try:
            client.images.get(IMAGE)
        except ImageNotFound:
            if not IMAGE_TAR.is_file():
                raise NoEngineError("there is no test image: run .ci/docker-engine as root") from None
            name, _, tag = IMAGE.rpartition(":")
            client.api.import_image_from_file(str(IMAGE_TAR), repository=name, tag=tag)
        yield client


@contextlib.contextmanager
def _private_engine() -> Iterator[None]:
    """Start an engine of our own and let `DOCKER_HOST` name it."""
    dockerd, setpriv = shutil.which("dockerd"), shutil.which("setpriv")
    if os.geteuid() != 0 or dockerd is None or setpriv is None:
        raise NoEngineError("no Docker engine answers and none can be started: run .ci/docker-engine as root")
    had_bridge = Path("/sys/class/net/docker0").exists()
    root = Path(tempfile.mkdtemp(prefix="hs-dockerd-"))
    host = f"unix://{root}/docker.sock"
    folders = [f"--data-root={root}/data", f"--exec-root={root}/exec", f"--pidfile={root}/pid"]
    command = [dockerd, f"--host={host}", *folders, "--iptables=false", "--ip6tables=false"]
    # In memory, the image is laid out and removed in a second; on a disk, in half a minute.
    (root / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", root / "data"], capture_output=True, check=False)
    before = os.environ.get("DOCKER_HOST")
    with (root / "log").open("wb") as log:
        # The engine ends with the tests, however they end.
        process = subprocess.Popen([setpriv, "--pdeathsig=TERM", "--", *command], stdout=log, stderr=log)
    try:
        os.environ["DOCKER_HOST"] = host
        _wait_until_it_answers(process, root / "log")
        yield
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before
        process.terminate()
        process.wait()
        subprocess.run(["umount", root / "data"], capture_output=True, check=False)
        shutil.rmtree(root, ignore_errors=True)
        if not had_bridge and shutil.which("ip"):
            subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)


def _wait_until_it_answers(process: subprocess.Popen, log: Path) -> None:
    for _ in range(10 * START_SECONDS):
        with contextlib.suppress(UserError), engine():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
    end = log.read_text(errors="replace").splitlines()[-1:]
    raise NoEngineError(f"dockerd does not start here: {' '.join(end)[-300:]}")
