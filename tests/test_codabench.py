"""The bundle has the layout that Codabench documents, and its programs work as Codabench runs them."""

import json
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
    "competition": {"description", "registration_auto_approve", "docker_image", "make_programs_available",
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
    data = write_csv(folder / "stays.csv", np.random.default_rng(7))
    players = [str(write_folder(folder / "players", name, source)) for name, source in PLAYERS.items()]
    settings = Settings(data, folder / "out", skip_fp=True, skip_osa=True, sandbox="process")
    with zipfile.ZipFile(write_bundle(settings, players, folder / "bundle.zip")) as archive:
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
    assert len(np.load(bundle / "hider_task/input_data/members/data.npy")) == 6
    names = {"generated_data.npy", "generated_data_padding_mask.npy", "enlarged_data.npy",
             "enlarged_data_padding_mask.npy", "request.json"}  # fmt: skip
    for run in (bundle / "seeker_task/input_data").iterdir():
        assert {path.name for path in run.iterdir()} <= names
        assert set(json.loads((run / "request.json").read_text())) == {"role", "seed", "parameters", "arrays", "absent"}
    splits = [json.loads((bundle / f"{role}_task/reference_data/task.json").read_text())["members"]
              for role in ("hider", "seeker")]  # fmt: skip
    assert sorted(splits[0]) != sorted(splits[1])


def codabench(bundle, task, submission, tmp_path):
    """Run a submission as Codabench does: ingestion, then scoring, each in a layout of its own; returns the scores."""
    app = tmp_path / "app"
    shutil.copytree(bundle / "ingestion_program", app / "program")
    shutil.copytree(bundle / task / "input_data", app / "input_data")
    shutil.copytree(submission, app / "ingested_program")
    (app / "output").mkdir()
    arguments = [app / name for name in ("input_data", "output", "program", "ingested_program")]
    subprocess.run([sys.executable, app / "program/ingestion.py", *arguments], check=True, capture_output=True)
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
