"""A tournament on a cluster of two workers, one of which dies, ends as it does on one machine."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import ROOT, write_csv
from tournament_cases import PLAYERS, QUICK, write_all, write_folder

pytest.importorskip("distributed", reason="Dask is not installed (requirements-cluster.txt)")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process sandbox needs Linux")

SLOW = PLAYERS["hider_copy"].replace("return", "__import__('time').sleep(4); return")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler with two workers, and their processes."""
    address = f"tcp://127.0.0.1:{free_port()}"
    host, port = address.removeprefix("tcp://").split(":")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    processes = [start("scheduler", "--host", host, "--port", port, "--no-dashboard")]
    worker = ("worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / "dask"))
    processes += [start(*worker) for _ in range(2)]
    yield address, processes[1:]
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_dead_worker_costs_nothing(cluster, tmp_path, rng):
    address, workers = cluster
    data, submissions = write_csv(tmp_path / "stays.csv", rng), write_all(tmp_path / "all")
    write_folder(submissions, "hider_slow", SLOW)
    command = [sys.executable, str(ROOT / "tournament.py"), str(submissions), "-d", str(data), *QUICK]
    command += ["--key", str(tmp_path / "key")]
    subprocess.run([*command, "-o", str(tmp_path / "one")], check=True, capture_output=True)

    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        spread = subprocess.Popen(
            [*command, "-o", str(tmp_path / "many"), "--scheduler", address], stdout=subprocess.DEVNULL, stderr=stderr
        )
        store = tmp_path / "many" / "store"
        while spread.poll() is None and not list(store.glob("hider/*.npz")):
            time.sleep(0.05)
        os.killpg(workers[0].pid, signal.SIGKILL)
        assert spread.wait(timeout=120) == 0, errors.read_text()
    for name in ("leaderboard.json", "leaderboard.csv"):
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, rng):
    data = write_csv(tmp_path / "stays.csv", rng)
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tournament.py"), "addnoise", "knn", "-d", str(data), "-o", str(tmp_path / "out"),
         *QUICK, "--scheduler", f"tcp://127.0.0.1:{free_port()}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "no Dask scheduler answers" in ended.stderr
    assert "Traceback" not in ended.stderr
