"""Codabench's ingestion program: runs a submission on every input and keeps what it returns. NumPy is all it needs.

    python3 ingestion.py INPUT_DATA OUTPUT PROGRAM SUBMISSION

Each folder of INPUT_DATA is one run (`request.json`, `.npy` files). OUTPUT gets `<run>.npz`, or `<run>.failed`, empty.

Before a byte of the data is read it stops if this container has a network. Run by root, as Codabench runs it, it closes
the input to all others, and each run gets a user, a folder and a copy of the runner of its own: a submission sees the
input of that run alone, changes nothing that a later run uses, and nothing of it lives on. Another user has no such
means, and it stops, unless HIDE_AND_SEEK_SAME_USER=1 allows that runs see each other's input.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

INTERFACES = "/sys/class/net"
FIRST_USER = 60600
NETWORK = "stopped: this container has a network; set COMPETITION_CONTAINER_NETWORK_DISABLED=true on the worker"
NO_ROOT = "stopped: only root can keep the runs apart; run the container as root (or set HIDE_AND_SEEK_SAME_USER=1)"


def main(inputs: str, output: str, program: str, submission: str, interfaces: str = INTERFACES) -> int:
    """Run the submission on every input. Returns the exit code."""
    if sorted(os.listdir(interfaces)) not in ([], ["lo"]):
        print(NETWORK)
        return 1
    apart = os.environ.get("HIDE_AND_SEEK_SAME_USER") != "1"
    if apart and os.geteuid() != 0:
        print(NO_ROOT)
        return 1
    with open(os.path.join(program, "runner.py"), "rb") as file:
        runner = file.read()
    if apart:
        for closed in (inputs, output):
            os.chmod(closed, 0o700)
    runs = sorted(run for run in os.listdir(inputs) if os.path.isdir(os.path.join(inputs, run)))
    for number, run in enumerate(runs):
        folder = tempfile.mkdtemp()
        try:
            done = play(runner, os.path.join(inputs, run), submission, folder, FIRST_USER + number if apart else 0)
            if done:
                keep(os.path.join(folder, "out", "output.npz"), os.path.join(output, run + ".npz"))
            else:
                open(os.path.join(output, run + ".failed"), "w").close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print("a run has ended")  # its text, its exit code, even which run failed could carry data
    return 0


def play(runner: bytes, given: str, submission: str, folder: str, user: int) -> bool:
    """Run the submission on one input, as a user of its own unless `user` is 0. Returns whether it ended well."""
    shutil.copytree(given, os.path.join(folder, "in"))
    shutil.copytree(submission, os.path.join(folder, "submission"))
    os.mkdir(os.path.join(folder, "out"))
    os.mkdir(os.path.join(folder, "home"))
    with open(os.path.join(folder, "runner.py"), "wb") as file:
        file.write(runner)
    for name in ("output.npz", "error.json"):
        open(os.path.join(folder, "out", name), "wb").close()
    if user:
        os.chown(folder, 0, user)  # entered by nobody else, so what is in it may be open
        os.chmod(folder, 0o750)  # noqa: S103
        for place, _, files in os.walk(folder):
            if place != folder:
                os.chmod(place, 0o755)  # noqa: S103
            for name in files:
                os.chmod(os.path.join(place, name), 0o644)
        for name in ("output.npz", "error.json"):
            os.chown(os.path.join(folder, "out", name), user, user)
        os.chown(os.path.join(folder, "home"), user, user)

    def become() -> None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    command = [sys.executable, "-s", "-B", os.path.join(folder, "runner.py")]
    command += [os.path.join(folder, name) for name in ("submission", "in", "out")]
    home = os.path.join(folder, "home")
    try:
        # Its text could carry data: none of it reaches Codabench's logs.
        return (
            subprocess.call(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)},
                preexec_fn=become if user else None,
            )
            == 0
        )
    finally:
        if user:
            end_all_of(user)


def end_all_of(user: int) -> None:
    """Kill every process of a user: what a run left behind must not see the next run's input."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def keep(made: str, kept: str) -> None:
    """Copy a plain file that a submission made. A link in its place could name another run's input."""
    handle = os.open(made, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as source, open(kept, "wb") as target:
        shutil.copyfileobj(source, target)


if __name__ == "__main__":
    sys.exit(main(*map(os.path.abspath, sys.argv[1:5])))
