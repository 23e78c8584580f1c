"""A packed submission holds what it needs and nothing else, and has been played before it is called ready."""

import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

from scoring.submissions import packing, submission
from scoring.submissions.players import Player
from scoring.submissions.submission import take_in
from utils.errors import UserError


def player(tmp_path, code, role="hider"):
    source = tmp_path / f"{role}_mine.py"
    source.write_text(code)
    return Player(role, "mine", source)


GOOD = "import utils.misc\ndef hider(input_dict):\n    return input_dict['data'], input_dict['padding_mask']\n"


@pytest.mark.parametrize(("role", "name"), [("hider", "addnoise"), ("seeker", "knn")])
def test_the_scripts_pack_a_method_by_name(tmp_path, role, name):
    script = ROOT / f"make_{role}.sh"
    done = subprocess.run(
        [script, name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "ready" in done.stdout
    packed = tmp_path / f"{role}_{name}.zip"
    names = zipfile.ZipFile(packed).namelist()
    assert {name.split("/")[0] for name in names} == {f"{role}.py", "utils", "examples", "Dockerimage"}
    assert not [name for name in names if name.endswith((".pyc", ".csv", ".npz", ".zip")) or "__pycache__" in name]
    taken = take_in(packed, tmp_path / "folder")
    assert (taken.role, taken.image) == (role, "localhost/hide-and-seek:cpu")
    assert (taken.folder / f"{role}.py").read_text() == (ROOT / f"{role}_{name}.py").read_text()


def test_data_and_caches_beside_the_code_stay_behind(tmp_path, monkeypatch):
    home = tmp_path / "home"
    for name in (
        "utils/misc.py",
        "utils/__pycache__/misc.pyc",
        "examples/weights.npy",
        "examples/out.npz",
        "utils/d.csv",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("tf115_found = False")
    monkeypatch.setattr(submission, "HOME", home)
    monkeypatch.setattr(packing, "smoke_match", lambda packed, role: 0.5)
    packing.pack(player(tmp_path, GOOD), tmp_path / "out.zip")
    names = zipfile.ZipFile(tmp_path / "out.zip").namelist()
    assert names == ["Dockerimage", "examples/weights.npy", "hider.py", "utils/misc.py"]


def test_the_same_method_packs_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "smoke_match", lambda packed, role: 0.5)
    for name in ("1.zip", "2.zip"):
        packing.pack(player(tmp_path, GOOD), tmp_path / name)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


@pytest.mark.parametrize(
    "code",
    [
        "def hider(input_dict):\n    raise ValueError\n",
        "import scoring\n" + GOOD,  # the organiser's own code does not travel
        "def hider(input_dict):\n    return input_dict['data'][:1]\n",
        "def hider(input_dict):\n    return 'rescore'\n",
        "seeker = None\n",
    ],
)
def test_what_fails_its_smoke_match_is_not_packed_and_replaces_nothing(tmp_path, code, capsys):
    output = tmp_path / "out.zip"
    output.write_text("earlier")
    with pytest.raises(UserError, match="smoke match failed"):
        packing.pack(player(tmp_path, code), output)
    assert output.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hider_mine.py", "out.zip"]


def test_an_image_must_be_an_image_reference(tmp_path):
    with pytest.raises(UserError, match="name of a Docker image"):
        packing.pack(player(tmp_path, GOOD), tmp_path / "out.zip", "no image; at all")
    assert not (tmp_path / "out.zip").exists()


def test_without_a_name_or_a_hider_py_the_script_says_what_to_do(tmp_path):
    if (ROOT / "seeker.py").exists():
        pytest.skip("this checkout has a seeker.py of its own")
    command = [sys.executable, "-m", "scoring.submissions.packing", "seeker"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no seeker.py")
    assert done.stderr.count("\n") == 1
