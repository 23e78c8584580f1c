"""The bundle has the layout that Codabench documents, and its programs work as Codabench runs them."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import write_csv
from tournament_cases import PLAYERS, write_folder

from scoring.codabench.bundle import COLUMNS, write_bundle
from scoring.codabench.program import ingestion
from scoring.tournament.settings import Settings

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (requirements-cluster.txt)")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process sandbox needs Linux")

# https://docs.codabench.org/latest/Organizers/Benchmark_Creation/Yaml-Structure/, read on 2026-11-21
REQUIRED = {
    "competition": {"version", "title", "image", "terms"},
    "pages": {"title", "file"},
    "phases": {"name", "start", "tasks"},
    "tasks": {"index", "name", "scoring_program"},
    "solutions": {"index", "tasks", "path"},
    "leaderboards": {"title", "key", "columns"},
    "columns": {"title", "key", "index"},
}
OPTIONAL = {
    "competition": {"queue", "description", "registration_auto_approve", "docker_image", "make_programs_available",
                    "make_input_data_available", "enable_detailed_results", "can_participants_make_submissions_public",
                    "pages", "phases", "tasks", "solutions", "leaderboards"},
    "pages": set(),
    "phases": {"index", "description", "end", "max_submissions", "max_submissions_per_day", "execution_time_limit",
               "hide_output", "hide_prediction_output", "hide_score_output", "starting_kit"},
    "tasks": {"description", "input_data", "reference_data", "ingestion_program"},
    "solutions": set(),
    "leaderboards": {"submission_rule"},
    "columns": {"sorting", "precision", "hidden"},
}  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The unpacked bundle of two hiders and two seekers."""
    folder = tmp_path_factory.mktemp("codabench")
    data = write_csv(folder / "stays.csv", np.random.default_rng(7), stays=40)
    players = [str(write_folder(folder / "players", name, source)) for name, source in PLAYERS.items()]
    settings = Settings(data, folder / "out", skip_fp=True, skip_osa=True, sandbox="process")
    with zipfile.ZipFile(write_bundle(settings, players, folder / "bundle.zip", "our-queue")) as archive:
        archive.extractall(folder / "bundle")
    return folder / "bundle"


def check(kind, entry):
    assert REQUIRED[kind] <= entry.keys() <= REQUIRED[kind] | OPTIONAL[kind]


def test_the_competition_has_every_required_field_and_no_unknown_one(bundle):
    competition = yaml.safe_load((bundle / "competition.yaml").read_text())
    check("competition", competition)
    assert competition["version"] == 2
    for kind in ("pages", "phases", "tasks", "solutions", "leaderboards"):
        for entry in competition[kind]:
            check(kind, entry)
    for column in competition["leaderboards"][0]["columns"]:
        check("columns", column)
    assert [column["key"] for column in competition["leaderboards"][0]["columns"]] == [key for key, *_ in COLUMNS]
    first, second = competition["phases"]
    assert str(first["start"]) < str(first["end"]) <= str(second["start"]) < str(second["end"])
    assert first["hide_output"] is second["hide_output"] is True
    assert competition["make_input_data_available"] is False


def test_every_file_it_names_is_there(bundle):
    competition = yaml.safe_load((bundle / "competition.yaml").read_text())
    named = [competition["image"], competition["terms"], *(page["file"] for page in competition["pages"])]
    named += [phase["starting_kit"] for phase in competition["phases"]]
    named += [solution["path"] for solution in competition["solutions"]]
    fields = ("input_data", "reference_data", "ingestion_program", "scoring_program")
    named += [task[field] for task in competition["tasks"] for field in fields]
    for name in named:
        assert (bundle / name).exists(), name
    for program in ("ingestion_program", "scoring_program"):
        command = yaml.safe_load((bundle / program / "metadata.yaml").read_text())["command"].split()
        assert (bundle / program / Path(command[1]).name).is_file()


def test_submissions_see_nothing_of_the_split(bundle):
    hider = {path.name for path in (bundle / "hider_task/input_data").rglob("*") if path.is_file()}
    assert hider == {"data.npy", "padding_mask.npy", "request.json"}
    assert len(np.load(bundle / "hider_task/input_data/members/data.npy")) == 20
    names = {"generated_data.npy", "generated_data_padding_mask.npy", "enlarged_data.npy",
             "enlarged_data_padding_mask.npy", "request.json"}  # fmt: skip
    for run in (bundle / "seeker_task/input_data").iterdir():
        assert {path.name for path in run.iterdir()} <= names
        assert set(json.loads((run / "request.json").read_text())) == {"role", "seed", "parameters", "arrays", "absent"}


def members(bundle):
    """The members of every split in the bundle, as the bytes of their stays."""
    with np.load(bundle / "hider_task/reference_data/data.npz") as arrays:
        splits = [(arrays["data"], arrays["truth"])]
    with np.load(bundle / "seeker_task/reference_data/data.npz") as truths:
        for name, truth in truths.items():
            splits.append((np.load(bundle / f"seeker_task/input_data/{name}/enlarged_data.npy"), truth))
    return [{stay.tobytes() for stay in data[truth]} for data, truth in splits]


def test_each_phase_and_each_reference_hider_has_a_split_of_its_own(bundle):
    splits = members(bundle)
    assert len(splits) == 3
    assert all(len(split) == 20 for split in splits)
    assert all(first != second for first, second in itertools.combinations(splits, 2))
    seeds = {json.loads(path.read_text())["seed"] for path in bundle.rglob("input_data/*/request.json")}
    assert len(seeds) == 3
    assert not any(seed - 1 in seeds or 12345 in (seed, seed + 1) for seed in seeds)


def test_a_bundle_is_not_written_without_the_organisers_own_queue(run_tournament, csv, tmp_path):
    code, _, err = run_tournament("addnoise", "knn", "-d", csv, "-o", tmp_path / "out", "--codabench", tmp_path / "b")
    assert code == 2
    assert "--queue" in err


def test_a_worker_with_a_network_stops_before_the_data_are_read(tmp_path, capsys):
    net = tmp_path / "net"
    (net / "lo").mkdir(parents=True)
    (net / "eth0").mkdir()
    assert ingestion.main(*[str(tmp_path / "nowhere")] * 4, interfaces=str(net)) == 1
    assert "COMPETITION_CONTAINER_NETWORK_DISABLED" in capsys.readouterr().out


def test_runs_that_cannot_be_kept_apart_are_not_begun(tmp_path, capsys, monkeypatch):
    (tmp_path / "net" / "lo").mkdir(parents=True)
    monkeypatch.delenv("HIDE_AND_SEEK_SAME_USER", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert ingestion.main(*[str(tmp_path / "nowhere")] * 4, interfaces=str(tmp_path / "net")) == 1
    assert "root" in capsys.readouterr().out


def test_a_submission_that_rewrites_the_runner_changes_no_other_run(bundle, tmp_path):
    source = """
        import os, sys
        import numpy as np
        for place in (sys.argv[0], os.path.join(os.path.dirname(sys.argv[2]), "..", "program", "runner.py")):
            try:
                with open(place, "w") as file:
                    file.write("raise SystemExit(0)")
            except OSError:
                pass
        def seeker(input_dict):
            return np.zeros(len(input_dict["enlarged_data"]))
    """
    scores = codabench(bundle, "seeker_task", write_folder(tmp_path, "seeker_evil", source), tmp_path)
    assert scores["score"] == 0.5  # both runs were played


def test_nothing_that_a_run_did_is_printed(bundle, tmp_path):
    source = "import sys\ndef seeker(d):\n    print('4711')\n    sys.exit(47)\n"
    printed = codabench(bundle, "seeker_task", write_folder(tmp_path, "seeker_exit", source), tmp_path, printed=True)
    assert printed == "a run has ended\n" * 2


def codabench(bundle, task, submission, tmp_path, *, printed=False):
    """Run a submission as Codabench does: ingestion, then scoring, each in a layout of its own; returns the scores.

    The interpreter of the tests may lie where another user cannot read, so the runs here share one;
    tests/test_sandbox_docker.py keeps them apart, as root in a container.
    """
    app = tmp_path / "app"
    shutil.copytree(bundle / "ingestion_program", app / "program")
    shutil.copytree(bundle / task / "input_data", app / "input_data")
    shutil.copytree(submission, app / "ingested_program")
    (app / "output").mkdir()
    arguments = [app / name for name in ("input_data", "output", "program", "ingested_program")]
    (app / "net" / "lo").mkdir(parents=True)
    call = f"import ingestion; ingestion.main(*{list(map(str, arguments))!r}, interfaces={str(app / 'net')!r})"
    env = {"HIDE_AND_SEEK_SAME_USER": "1", "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        [sys.executable, "-c", call], check=True, capture_output=True, text=True, cwd=app / "program", env=env
    )
    if printed:
        return ended.stdout
    scoring = tmp_path / "scoring"
    shutil.copytree(bundle / "scoring_program", scoring / "program")
    shutil.copytree(bundle / task / "reference_data", scoring / "input/ref")
    shutil.copytree(app / "output", scoring / "input/res")
    (scoring / "output").mkdir()
    command = [sys.executable, scoring / "program/score.py", scoring / "input", scoring / "output"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    return json.loads((scoring / "output/scores.json").read_text())


@pytest.mark.parametrize(
    ("task", "name", "source", "expected"),
    [
        ("hider_task", "hider_copy", PLAYERS["hider_copy"], {"score": 0.75, "worst": 1.0, "auroc": 1.0}),
        ("hider_task", "hider_bad", "def hider(d): return 1 / 0\n", {"score": 9.99}),
        ("seeker_task", "seeker_equal", PLAYERS["seeker_equal"], {"score": 0.25, "worst": 0.5}),
        ("seeker_task", "seeker_bad", "def seeker(d): return [1]\n", {"score": 1.0}),
    ],
)
def test_a_submission_is_scored_and_a_broken_one_gets_the_worst_score(bundle, tmp_path, task, name, source, expected):
    scores = codabench(bundle, task, write_folder(tmp_path, name, source), tmp_path)
    assert set(scores) == {key for key, *_ in COLUMNS}
    assert scores == scores | {key: pytest.approx(value) for key, value in expected.items()}
