"""The Docker sandbox holds hostile submissions; each test here is an attack, or what an honest one must still get."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import write_csv

import tournament
from scoring.leftovers import this_process
from scoring.sandbox import Limits, choose_sandbox
from scoring.strangers import Reason
from tests.docker_engine import IMAGE, NoEngineError, docker_engine
from tests.sandbox_cases import MIB, SandboxCases, hider_arrays
from utils.errors import UserError

container = pytest.importorskip("scoring.sandbox.container")
DockerSandbox, LABEL = container.DockerSandbox, container.LABEL


@pytest.fixture(scope="module")
def engine():
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(docker_engine())
        except NoEngineError as reason:
            pytest.skip(str(reason))
        yield client


@pytest.fixture(scope="module")
def sandbox(engine):
    return DockerSandbox(IMAGE)


@pytest.fixture(autouse=True)
def _no_container_stays(engine):
    yield
    assert engine.containers.list(all=True, filters={"label": LABEL}) == []


ATTEMPT = """
for path in {paths}:
    try:
        open(path, {mode!r}).read() if {mode!r} == "r" else open(path, {mode!r})
        print("opened", path)
    except OSError as error:
        print("refused", path, error.errno)
return input_dict["data"]
"""


class TestDockerSandbox(SandboxCases):
    limits = Limits(seconds=60, memory=256 * MIB, processes=32, output=8 * MIB, log=4096)

    def test_no_socket_reaches_anything(self, play):
        with socket.create_server(("0.0.0.0", 0)) as server:
            port = server.getsockname()[1]
            code = f"""
            import socket
            print(sorted(os.listdir("/sys/class/net")))
            for address in ("127.0.0.1", "172.17.0.1", {_own_address()!r}):
                try:
                    socket.create_connection((address, {port}), timeout=2)
                    print("reached", address)
                except OSError:
                    pass
            try:
                print("found", socket.gethostbyname("example.org"))
            except OSError:
                pass
            return input_dict["data"]
            """
            outcome = play(code)
        assert outcome.status == "ok", outcome.stderr
        assert outcome.stdout.strip() == "['lo']"

    def test_the_split_the_hosts_files_and_other_submissions_are_not_there(self, play):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # readable by all, were it there
            Path(folder).chmod(0o755)
            places = [Path(folder, "train.npz"), Path(folder, "other_hider.py")]
            for place in places:
                place.write_text("secret")
            paths = [*map(str, places), "/var/run/docker.sock", "/etc/shadow", f"/proc/1/root{places[0]}", "/dev/vda"]
            paths += [f"/proc/{os.getpid()}/root{places[0]}", f"/proc/{os.getpid()}/environ", "/proc/kcore"]
            outcome = play(ATTEMPT.format(paths=paths, mode="r"))
        assert outcome.status == "ok", outcome.stderr
        assert outcome.stdout.count("refused") == len(paths), outcome.stdout

    def test_no_process_but_its_own_is_seen(self, play):
        outcome = play("print([name for name in os.listdir('/proc') if name.isdecimal()])\nreturn input_dict['data']")
        assert eval(outcome.stdout) == ["1"]

    def test_nothing_is_written_outside_its_folder(self, play):
        paths = [
            "/new",
            "/etc/new",
            "/usr/bin/python3",
            "/hide-and-seek/new",
            "/hide-and-seek/runner.py",
            "/var/tmp/new",
        ]
        paths += ["/hide-and-seek/in/data.npy", "/hide-and-seek/submission/hider.py", "/proc/sys/kernel/core_pattern"]
        outcome = play(ATTEMPT.format(paths=paths, mode="a"))
        assert outcome.status == "ok", outcome.stderr
        assert outcome.stdout.count("refused") == len(paths), outcome.stdout

    def test_all_but_its_two_files_is_mounted_read_only(self, play):
        outcome = play(
            """
            for path in ("/", "/hide-and-seek", sys.argv[0], *sys.argv[1:], sys.argv[3] + "/output.npz"):
                print(bool(os.statvfs(path).f_flag & os.ST_RDONLY))
            return input_dict["data"]
            """
        )
        assert outcome.stdout.split() == ["True"] * 6 + ["False"]

    def test_it_has_no_rights_and_no_way_to_any(self, play):
        outcome = play("print(open('/proc/self/status').read())\nreturn input_dict['data']")
        status = dict(line.split(":\t", 1) for line in outcome.stdout.splitlines() if ":\t" in line)
        assert status["Uid"].split() == ["60600"] * 4
        assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    def test_it_cannot_run_what_it_writes(self, play):
        code = """
        import shutil, subprocess
        shutil.copy("/bin/true", "/tmp/true")
        os.chmod("/tmp/true", 0o755)
        subprocess.call(["/tmp/true"])
        """
        outcome = play(code)
        assert outcome.status == "failed"
        assert "PermissionError" in outcome.submitter_log

    def test_many_small_files_are_bounded_too(self, play):
        code = """
        for number in range(10000):
            with open("/tmp/" + str(number), "wb") as file:
                file.write(bytes(10**6))
        """
        assert play(code).status == "output_limit"

    def test_an_images_own_volume_is_no_way_to_the_hosts_disk(self, engine, play, tmp_path):
        made = engine.containers.create(IMAGE, "true")
        made.commit("localhost/hide-and-seek", "volume", conf={"Volumes": {"/data": {}}})
        made.remove()
        (tmp_path / "hider.py").write_text(
            "def hider(input_dict):\n"
            "    for number in range(100):\n"
            "        open('/data/%d' % number, 'wb').write(bytes(10**6))\n"
        )
        image = "localhost/hide-and-seek:volume"
        outcome = DockerSandbox(IMAGE, [image]).run(tmp_path, "hider", hider_arrays(), 0, self.limits, image=image)
        assert engine.volumes.list() == []
        assert outcome.status == "output_limit", outcome

    def test_an_allowed_image_is_used(self, engine, tmp_path):
        engine.images.get(IMAGE).tag("localhost/team", "3")
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        sandbox = DockerSandbox(IMAGE, ["localhost/team:3"])
        outcome = sandbox.run(tmp_path, "hider", hider_arrays(), 0, self.limits, image="localhost/team:3")
        assert outcome.status == "ok"
        np.testing.assert_array_equal(outcome.outputs["generated_data"], hider_arrays()["data"])

    @pytest.mark.parametrize("image", ["localhost/secret:1", "127.0.0.1:9/team/x:1", "python:3.6"])
    def test_no_image_runs_that_the_organiser_did_not_allow_and_none_is_pulled(self, engine, tmp_path, sandbox, image):
        engine.images.get(IMAGE).tag("localhost/secret", "1")
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        outcome = sandbox.run(tmp_path, "hider", hider_arrays(), 0, self.limits, image=image)
        assert (outcome.status, outcome.reason) == ("failed", Reason.IMAGE)
        assert image in outcome.detail

    def test_an_allowed_image_that_is_not_here_is_named(self, engine):
        with pytest.raises(UserError, match="docker pull localhost/nowhere:1"):
            DockerSandbox(IMAGE, ["localhost/nowhere:1"])

    def test_an_image_without_python_fails_its_submission_alone(self, engine, tmp_path):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("empty"))
        engine.api.import_image_from_data(packed.getvalue(), repository="localhost/empty", tag="1")
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        sandbox = DockerSandbox(IMAGE, ["localhost/empty:1"])
        outcome = sandbox.run(tmp_path, "hider", hider_arrays(), 0, self.limits, image="localhost/empty:1")
        assert (outcome.status, outcome.reason) == ("failed", Reason.NO_START)

    @pytest.mark.parametrize("volume", ["/", "//", "/.", "/proc", "relative"])
    def test_an_image_with_a_strange_volume_fails_its_submission_alone(self, engine, tmp_path, volume):
        made = engine.containers.create(IMAGE, "true")
        made.commit("localhost/hide-and-seek", "strange", conf={"Volumes": {volume: {}}})
        made.remove(v=True)
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        image = "localhost/hide-and-seek:strange"
        outcome = DockerSandbox(IMAGE, [image]).run(tmp_path, "hider", hider_arrays(), 0, self.limits, image=image)
        assert (outcome.status, outcome.reason) in (("failed", Reason.NO_START), ("ok", ""))

    def test_no_family_of_sockets_leads_to_the_hypervisor_or_the_kernel(self, play):
        outcome = play(
            """
            import socket
            for family in range(1, 46):
                try:
                    socket.socket(family, socket.SOCK_STREAM).close()
                    print(family, "opened")
                except OSError as error:
                    print(family, error.errno)
            return input_dict["data"]
            """
        )
        ended = dict(line.split() for line in outcome.stdout.splitlines())
        assert ended["1"] == "opened"
        named = {"1", "2", "10", "16"}  # between its own processes
        assert {family: end for family, end in ended.items() if family not in named and end != "1"} == {}
        assert ended["40"] == "1"  # EPERM: AF_VSOCK, by the profile and not for want of a driver

    def test_which_pages_of_a_file_are_cached_cannot_be_asked(self, play):
        outcome = play(
            """
            import ctypes, mmap
            libc = ctypes.CDLL(None, use_errno=True)
            with open(np.__file__, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                address = np.frombuffer(mapped, np.uint8).ctypes.data
                told = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), (ctypes.c_ubyte * 4096)())
                print(told, ctypes.get_errno())
                try:
                    print(os.preadv(file.fileno(), [bytearray(10)], 0, os.RWF_NOWAIT))
                except OSError as error:
                    print(error.errno)
            return input_dict["data"]
            """
        )
        assert outcome.stdout.splitlines()[0] == "-1 1", outcome
        assert outcome.stdout.splitlines()[1] in ("1", "38", "95")

    def test_its_processes_can_talk_to_each_other(self, play):
        outcome = play(
            """
            import multiprocessing, socket, subprocess, sys
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(sum(pool.map(abs, range(10))))
            print(subprocess.check_output([sys.executable, "-c", "print(1)"]).decode().strip())
            server = socket.create_server(("127.0.0.1", 0))
            print(socket.create_connection(server.getsockname()) and 1)
            return input_dict["data"]
            """
        )
        assert outcome.stdout.split() == ["45", "1", "1"], outcome

    def test_gpus_are_given_only_when_asked_for(self, tmp_path):
        exchange = container.Exchange(tmp_path)
        assert container._settings(exchange, Limits(), [])["device_requests"] is None
        assert container._settings(exchange, Limits(gpus=True), [])["device_requests"]

    def test_the_containers_of_killed_runs_are_removed_and_no_others(self, engine):
        code = "from scoring.leftovers import this_process; print(this_process())"
        dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        left = engine.containers.create(IMAGE, ["sleep", "1000"], network_mode="none", labels={LABEL: dead})
        left.start()
        own = engine.containers.create(IMAGE, "true", labels={LABEL: this_process()})
        DockerSandbox(IMAGE)
        assert engine.containers.list(all=True, filters={"label": LABEL}) == [own]
        own.remove()

    def test_it_is_the_default_where_an_engine_answers(self, engine, capsys, monkeypatch):
        engine.images.get(IMAGE).tag(*container.DEFAULT_IMAGE.split(":"))
        assert choose_sandbox().name == "docker"
        assert capsys.readouterr().err == ""
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        assert choose_sandbox().name == "process"
        assert "no Docker engine answers" in capsys.readouterr().err
        with pytest.raises(UserError, match="no Docker engine answers"):
            choose_sandbox("docker")

    def test_a_missing_default_image_is_named(self, engine):
        with pytest.raises(UserError, match=r"build it with dockerfiles/build\.sh"):
            DockerSandbox("localhost/hide-and-seek:nowhere")


def _own_address():
    """Give this machine's address on its network; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


def test_a_tournament_runs_strangers_in_containers(engine, tmp_path, monkeypatch, capsys):
    """One match in Docker: a submission that names its image, a fork bomb and a socket that find no way out."""
    engine.images.get(IMAGE).tag(*container.DEFAULT_IMAGE.split(":"))
    players = {
        "hider_copy": "def hider(d): return d['data'], d['padding_mask']\n",
        "hider_bomb": "import os\ndef hider(d):\n    while True: os.fork()\n",
        "hider_phone": "import socket\ndef hider(d):\n    socket.create_connection(('1.1.1.1', 53), 2)\n",
        "seeker_all": "def seeker(d): return [1] * len(d['enlarged_data'])\n",
    }
    for name, source in players.items():
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / f"{name.partition('_')[0]}.py").write_text(source)
        (tmp_path / "all" / name / "Dockerimage").write_text(container.DEFAULT_IMAGE + "\n")
    data = write_csv(tmp_path / "stays.csv", np.random.default_rng(0))
    arguments = [
        "-d",
        data,
        "-o",
        tmp_path / "out",
        "--skip_fp",
        "--skip_osa",
        "--sandbox",
        "docker",
        "--seconds",
        "20",
    ]
    monkeypatch.setattr(sys, "argv", ["tournament.py", *map(str, (tmp_path / "all", *arguments))])
    assert tournament.main() == 0, capsys.readouterr().err
    board = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    scores = {row["name"]: row["score"] for row in board["hiders"]}
    assert scores == {"copy": 0.5, "bomb": 9.99, "phone": 9.99}
    assert board["settings"]["sandbox"] == "docker"


SNOOP = """
import os, subprocess, sys, tempfile
import numpy as np

def seeker(input_dict):
    own = os.path.dirname(sys.argv[2])
    found = []
    for base in ("/app/input_data", tempfile.gettempdir(), "/tmp"):
        for folder, _, files in os.walk(base):
            if not (folder + "/").startswith(own + "/"):
                found += [name for name in files if os.access(os.path.join(folder, name), os.R_OK)]
    for path in (sys.argv[0], "/app/program/runner.py", "/app/input_data/b", "/app/output/a.npz"):
        try:
            open(path, "r+").close()
            found.append(path)
        except OSError:
            pass
    others = [pid for pid in os.listdir("/proc") if pid.isdecimal() and int(pid) != os.getpid()
              and os.stat("/proc/" + pid).st_uid == os.getuid()]
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    labels = np.zeros(len(input_dict["enlarged_data"]))
    labels[0], labels[1], labels[2] = bool(found), bool(others), os.getuid() == 0
    return labels, labels + os.getuid() / 1e6
"""


def test_codabench_keeps_the_runs_of_a_submission_apart(engine):
    """As Codabench runs it: by root in a container, without a network; two runs whose input lies side by side."""
    program = Path(container.__file__).parents[1] / "codabench" / "program" / "ingestion.py"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        app = Path(folder)
        for name in ("program", "output", "ingested_program"):
            (app / name).mkdir()
        (app / "program/ingestion.py").write_text(program.read_text())
        (app / "program/runner.py").write_text((program.parents[2] / "sandbox/runner.py").read_text())
        (app / "ingested_program/seeker.py").write_text(SNOOP)
        for run in ("a", "b"):
            (app / "input_data" / run).mkdir(parents=True)
            np.save(app / "input_data" / run / "enlarged_data.npy", np.zeros((6, 2, 2)))
            request = {"role": "seeker", "seed": 1, "parameters": None, "arrays": ["enlarged_data"], "absent": []}
            (app / "input_data" / run / "request.json").write_text(json.dumps(request))
        arguments = [f"/app/{name}" for name in ("program/ingestion.py", "input_data", "output", "program")]
        command = ["python3", *arguments, "/app/ingested_program"]
        volumes = {str(app): {"bind": "/app", "mode": "rw"}}
        told = engine.containers.run(IMAGE, command, network_mode="none", remove=True, volumes=volumes)
        assert told == b"a run has ended\n" * 2
        users = set()
        for run in ("a", "b"):
            with np.load(app / "output" / f"{run}.npz") as made:
                assert made["labels"].sum() == 0, run
                users.add(float(made["scores"][5]))
        assert len(users) == 2
        told = engine.containers.run(IMAGE, f"sh -c '{' '.join(command)}; true'", remove=True, volumes=volumes)
        assert b"has a network" in told
