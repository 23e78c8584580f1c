"""The wheel: what it puts into an environment, and that it plays from any folder."""

import json
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

import hide_and_seek
from hide_and_seek.__main__ import main
from scoring import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_one_package_and_nobody_gets_one_called_utils(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"hide_and_seek", f"hide_and_seek-{__version__}.dist-info"}
    assert not any(name.endswith(".csv") or "/tests/" in name for name in names)
    for needed in ("main.py", "hider_addnoise.py", "utils/solutions.py", "scoring/report/templates/report.html"):
        assert f"hide_and_seek/home/{needed}" in names


def test_an_installed_wheel_plays_a_match_from_any_folder(wheel, tmp_path):
    installed = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", installed, wheel], check=True
    )
    for arguments in (
        ["prepare", "simulate", "--stays", "40", "--features", "4", "-o", "demo.csv"],
        ["match", "-d", "demo.csv", "--hider", "addnoise", "--seeker", "knn", "--skip_fp", "--skip_osa"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "hide_and_seek", "-q", *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    report = json.loads((tmp_path / "output" / "report.json").read_text())
    assert report["versions"]["hide-and-seek"] == __version__


def test_the_command_lists_methods_and_says_its_version(capsys):
    assert main(["methods"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {path.stem.split('_', 1)[1]} " in listed for path in ROOT.glob("hider_*.py"))
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert hide_and_seek.__version__ in capsys.readouterr().out


def test_an_unknown_command_ends_with_code_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plaly"])
    assert stop.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
