"""The process sandbox runs a submission in bounds and ends all of it; and it says what it does not stop."""

import ast
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from scoring.leftovers import this_process
from scoring.sandbox import Limits, ProcessSandbox
from scoring.sandbox.exchange import RUNNER, _open_plain
from tests.sandbox_cases import MIB, SandboxCases, hider_arrays
from utils.errors import UserError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process sandbox needs Linux")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a submission a user of its own")


@pytest.fixture(scope="module")
def sandbox():
    return ProcessSandbox()


@pytest.fixture
def base():
    """A folder that any user can enter, as the system's temporary folder is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def listener():
    """Where a submission, which this sandbox leaves the network, tells that it lives: a hung-up line tells its end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def call_home(listener):
    return textwrap.dedent(
        f"""
        import socket
        line = socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}))
        line.sendall(b"alive")
        """
    )


def hung_up(line):
    line.settimeout(30)
    return line.recv(16) == b"alive" and line.recv(16) == b""


class TestProcessSandbox(SandboxCases):
    limits = Limits(seconds=60, memory=768 * MIB, processes=64, output=8 * MIB, log=4096)

    takes_rights_away = os.geteuid() == 0

    def test_many_small_files_are_bounded_too(self, play):
        code = """
        for number in range(100):
            with open(os.path.join(os.environ["HOME"], str(number)), "wb") as file:
                file.write(bytes(10**6))
        return input_dict["data"]
        """
        assert play(code).status == "output_limit"

    def test_memory_is_bounded_over_all_its_processes(self, play):
        code = """
        ends, told = os.pipe(), os.pipe()
        for _ in range(6):
            if os.fork() == 0:
                os.close(ends[1])
                x = np.ones(300 * 2**20 // 8)
                os.write(told[1], b"1")
                os.read(ends[0], 1)  # holds its memory until the first process ends
                os._exit(0)
        while True:
            os.read(told[0], 1)
        """
        assert play(code, limits=self.limited(seconds=20)).status == "memory"

    def test_what_leaves_the_session_is_ended_too(self, play, listener):
        code = f"""
        connected, told = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                {textwrap.indent(call_home(listener), " " * 16).strip()}
                os.write(told, b"1")
                while True: pass
            os._exit(0)
        os.read(connected, 1)
        return input_dict["data"]
        """
        outcome = play(code)
        assert outcome.status == "ok", outcome.stderr
        line, _ = listener.accept()
        with line:
            assert hung_up(line)

    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
    def test_nothing_outlives_its_harness(self, listener, tmp_path, base, end):
        (tmp_path / "hider.py").write_text(call_home(listener) + "def hider(input_dict):\n    while True: pass\n")
        harness = f"""
        import signal
        from pathlib import Path
        from scoring.sandbox import ProcessSandbox
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from tests.sandbox_cases import hider_arrays
        sandbox = ProcessSandbox(base=Path({str(base)!r}))
        sandbox.run(Path({str(tmp_path)!r}), "hider", hider_arrays(), 0)
        """
        command = [sys.executable, "-c", textwrap.dedent(harness)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            line, _ = listener.accept()
            line.settimeout(30)
            assert line.recv(16) == b"alive"  # killed before, it would have had nothing to say
            process.send_signal(end)
        with line:
            assert line.recv(16) == b""
        if end == signal.SIGINT:  # after a kill, the next start removes it
            assert list(base.iterdir()) == []

    def test_the_folders_of_killed_runs_are_removed_and_no_others(self, base):
        code = "from scoring.leftovers import this_process; print(this_process())"
        dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        (base / f"hide-and-seek-{dead}-abc").mkdir()
        running = base / f"hide-and-seek-{this_process()}-abc"
        running.mkdir()
        (base / "hide-and-seek-notes").mkdir()
        ProcessSandbox(base=base)
        assert sorted(base.iterdir()) == sorted([running, base / "hide-and-seek-notes"])

    def test_nothing_is_left_behind(self, tmp_path, base):
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        assert ProcessSandbox(base=base).run(tmp_path, "hider", hider_arrays(), 0).status == "ok"
        assert list(base.iterdir()) == []

    @needs_root
    def test_run_by_root_it_is_a_user_of_its_own_and_writes_nowhere_else(self, play, base):
        outcome = play(f"print(os.getuid(), os.getgroups())\nopen({str(base / 'new')!r}, 'w')")
        assert outcome.status == "failed"
        assert "PermissionError" in outcome.submitter_log
        assert int(outcome.stdout.split()[0]) >= 0x60000000
        assert outcome.stdout.split()[1] == "[]"

    @needs_root
    def test_run_by_root_it_cannot_read_private_files(self, play, sandbox):
        if sandbox.reads_all:
            assert "every file of this machine" in sandbox.notice
            pytest.skip("this interpreter lies in a private folder: submissions may read all, and the notice says so")
        assert "PermissionError" in play("open('/etc/shadow')").submitter_log

    def test_it_says_what_it_does_not_stop(self, sandbox):
        assert "no security boundary" in sandbox.notice
        assert "network" in sandbox.notice

    def test_an_old_interpreter_is_used_as_it_is(self, play):
        outcome = play("print(sys.executable)\nreturn input_dict['data']")
        assert outcome.stdout.strip() == sys.executable

    def test_an_interpreter_that_cannot_be_used_is_named(self):
        with pytest.raises(UserError, match="there is no Python at"):
            ProcessSandbox("/nowhere/python")
        with pytest.raises(UserError, match="cannot be used"):
            ProcessSandbox("/bin/false")


def test_what_runs_inside_is_written_for_python_3_6_and_numpy_alone():
    tree = ast.parse(RUNNER.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} - {"utils.parameters"}
    assert imported - {"numpy"} <= set(sys.stdlib_module_names)


def test_what_was_put_in_place_of_an_output_file_is_not_opened(tmp_path):
    (tmp_path / "file").touch()
    _open_plain(tmp_path / "file").close()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "nothing"):
        with pytest.raises(OSError):  # noqa: PT011 - each its own
            _open_plain(tmp_path / name)
