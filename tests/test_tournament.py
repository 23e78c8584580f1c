"""What a tournament must do: rank fairly, go on where it stopped, and let a failure cost its own cells only."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT, write_csv
from tournament_cases import PLAYERS, QUICK, write, write_all, write_folder, write_zip

from scoring.tournament import work

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process sandbox needs Linux")


@pytest.fixture
def play(run_tournament):
    return run_tournament


@pytest.fixture
def no_runs(monkeypatch):
    """Call to make any further run of a submission an error."""

    def forbid():
        def refuse(*_):
            raise AssertionError("a submission was run again")

        monkeypatch.setattr(work, "_sandbox", refuse)

    return forbid


def board(folder):
    return json.loads((folder / "leaderboard.json").read_text())


def row(folder, role, name):
    return next(entry for entry in board(folder)[role] if entry["name"] == name)


def cell(folder, hider, seeker):
    matrix = {line["hider"]: line["cells"] for line in board(folder)["matrix"]}
    return next(entry for entry in matrix[hider] if entry["seeker"] == seeker)


def test_a_tournament_ranks_hiders_and_seekers_and_links_every_match(play, csv, tmp_path):
    out = tmp_path / "out"
    code, printed, err = play(write_all(tmp_path / "all"), "-d", csv, "-o", out, "--workers", 2, *QUICK)
    assert code == 0
    assert "Traceback" not in err
    assert [entry["name"] for entry in board(out)["hiders"]] == ["noise", "copy"]
    assert [entry["name"] for entry in board(out)["seekers"]] == ["equal", "nobody"]
    assert cell(out, "copy", "equal")["score"] == 1.0
    assert cell(out, "noise", "equal")["score"] == cell(out, "copy", "nobody")["score"] == 0.5
    copy = row(out, "hiders", "copy")
    assert (copy["score"], copy["worst"], copy["worst_opponent"]) == (0.75, 1.0, "equal")
    assert copy["score_low"] < 0.75 < copy["score_high"]
    for line in board(out)["matrix"]:
        for entry in line["cells"]:
            assert (out / entry["report"]).is_file()
    report = json.loads((out / "matches/copy/equal/report.json").read_text())
    assert report["reidentification"]["auroc"] == 1.0
    assert "leaderboard.html" in printed
    assert "copy" in (out / "leaderboard.csv").read_text()
    assert out.stat().st_mode & 0o077 == 0  # it holds the data


def test_a_seeker_that_knows_how_stays_are_split_cannot_tell_whose_they_are(play, tmp_path, rng):
    source = """
        import numpy as np
        def seeker(input_dict):
            np.random.seed(input_dict["seed"] if {told} else 12345)
            labels = np.zeros(60)
            labels[np.random.permutation(60)[:30]] = 1
            return labels
    """
    for name, told in (("seeker_told", True), ("seeker_guessing", False)):
        write_folder(tmp_path / "all", name, source.format(told=told))
    write_folder(tmp_path / "all", "hider_copy", PLAYERS["hider_copy"])
    csv = write_csv(tmp_path / "stays.csv", rng, stays=60)
    assert play(tmp_path / "all", "-d", csv, "-o", tmp_path / "out", *QUICK)[0] == 0
    assert all(0.25 < cell(tmp_path / "out", "copy", name)["score"] < 0.75 for name in ("told", "guessing"))


def test_started_again_it_does_nothing_twice(play, no_runs, csv, tmp_path):
    arguments = (write_all(tmp_path / "all"), "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert play(*arguments)[0] == 0
    files = [tmp_path / "out" / name for name in ("leaderboard.json", "leaderboard.csv", "leaderboard.html")]
    before = [path.read_bytes() for path in files]
    written = (tmp_path / "out/matches/copy/equal/report.html").stat().st_mtime_ns
    no_runs()
    assert play(*arguments)[0] == 0
    assert [path.read_bytes() for path in files] == before
    assert (tmp_path / "out/matches/copy/equal/report.html").stat().st_mtime_ns == written


def test_a_changed_submission_is_played_anew_and_the_others_are_not(play, csv, tmp_path, monkeypatch):
    submissions = write_all(tmp_path / "all")
    arguments = (submissions, "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert play(*arguments)[0] == 0
    (submissions / "seeker_nobody/seeker.py").write_text("def seeker(d): return [1] * len(d['enlarged_data'])\n")
    runs = []
    real = work._sandbox

    class Counting:
        def run(self, folder, role, *rest, **more):
            runs.append(role)
            return real("process", None, ()).run(folder, role, *rest, **more)

    monkeypatch.setattr(work, "_sandbox", lambda *_: Counting())
    assert play(*arguments)[0] == 0
    assert runs == ["seeker", "seeker"]


BROKEN = {
    "hider_raises": "def hider(d):\n    print('patients:', d['data'].shape)\n    raise ValueError(d['data'])\n",
    "hider_hangs": "def hider(d):\n    while True: pass\n",
    "hider_shape": "def hider(d): return d['data'][:, :3]\n",
    "seeker_short": "def seeker(d): return [0, 1]\n",
}


def test_what_fails_costs_only_its_own_cells_and_says_why(play, csv, tmp_path):
    submissions, out = write_all(tmp_path / "all"), tmp_path / "out"
    for name, source in BROKEN.items():
        write_folder(submissions, name, source)
    (submissions / "torn.zip").write_bytes(b"PK\x03\x04 not a zip")
    code, printed, _ = play(submissions, "-d", csv, "-o", out, "--seconds", 3, "--workers", 2, *QUICK)
    assert code == 0
    assert cell(out, "copy", "equal")["score"] == 1.0
    reasons = {name: row(out, "hiders", name)["status"] for name in ("raises", "hangs", "shape")}
    assert reasons["raises"] == "raised an exception"
    assert reasons["hangs"] == "ran out of time"
    assert "shape" in reasons["shape"]
    assert all(row(out, "hiders", name)["score"] == 9.99 for name in reasons)
    assert row(out, "seekers", "short")["score"] == -9.99
    assert "against copy it" in row(out, "seekers", "short")["status"]
    assert row(out, "hiders", "copy")["matches"] == 2
    assert "no answer from short" in row(out, "hiders", "copy")["status"]
    assert [entry["name"] for entry in board(out)["refused"]] == ["torn"]
    assert "refused: torn.zip" in printed
    page = (out / "leaderboard.html").read_text()
    assert "ran out of time" in page
    told = [page, (out / "leaderboard.json").read_text(), (out / "logs/submitters/hider_raises/hider.txt").read_text()]
    assert not any("patients: (6," in text for text in told)
    assert "line 3" in told[2]
    assert "patients: (6," in (out / "logs/organiser/hider_raises/hider.txt").read_text()


def test_what_ran_out_of_time_is_tried_again_under_another_limit_and_what_worked_is_not(
    play, csv, tmp_path, monkeypatch
):
    submissions, out = tmp_path / "all", tmp_path / "out"
    write_folder(submissions, "hider_slow", "import time\ndef hider(d):\n    time.sleep(3)\n    return d['data']\n")
    for name in ("hider_copy", "seeker_nobody"):
        write_folder(submissions, name, PLAYERS[name])
    arguments = (submissions, "-d", csv, "-o", out, *QUICK)
    play(*arguments, "--seconds", 1.5)
    assert row(out, "hiders", "slow")["status"] == "ran out of time"
    ran = []
    real = work._sandbox("process", None, ())
    monkeypatch.setattr(work, "_sandbox", lambda *_: type("Spy", (), {
        "run": lambda self, folder, role, *rest, **more: (ran.append(role), real.run(folder, role, *rest, **more))[1]
    })())  # fmt: skip
    play(*arguments, "--seconds", 60)
    assert row(out, "hiders", "slow")["status"] == "ok"
    assert ran == ["hider", "seeker"]


def test_a_hider_may_ask_for_its_earlier_data_to_be_rescored(play, csv, tmp_path):
    out, packed = tmp_path / "out", tmp_path / "mine.zip"
    others = [write_folder(tmp_path, name, PLAYERS[name]) for name in ("seeker_equal", "seeker_nobody")]
    arguments = (packed, *others, "-d", csv, "-o", out, *QUICK)
    write_zip(packed, "hider", "def hider(d): return 'rescore'\n")
    assert play(*arguments)[0] == 0
    assert "there is none of that name" in row(out, "hiders", "mine")["status"]
    write_zip(packed, "hider", PLAYERS["hider_copy"])
    assert play(*arguments)[0] == 0
    assert row(out, "hiders", "mine")["score"] == 0.75
    write_zip(packed, "hider", "def hider(d): return 'reevaluate'\n")
    assert play(*arguments)[0] == 0
    assert row(out, "hiders", "mine")["score"] == 0.75


def test_a_hider_whose_data_is_useless_is_not_sought_unless_asked_for(play, csv, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from utils import metric_utils

    def scores(train_sets, test, features, seeds, **_):
        rmse = 0.1 if np.ptp(train_sets["it"]) < 50 else 10.0  # the normal noise has its own unscaled time
        one = metric_utils.UtilityScores(tuple(features), ("regression",) * len(features), np.full(len(features), rmse),
                                         rmse, np.full(test.shape[2], rmse), rmse)  # fmt: skip
        return {"it": [one] * len(seeds)}

    monkeypatch.setattr(work, "utility_scores", scores)
    submissions, out = write_all(tmp_path / "all"), tmp_path / "out"
    write_folder(submissions, "hider_useless", """
        import numpy as np
        def hider(input_dict):
            data = np.zeros(input_dict["data"].shape)
            data[:, :, 0] = np.arange(data.shape[1]) * 100.0
            return data
    """)  # fmt: skip
    arguments = (submissions, "-d", csv, "-o", out, "--sandbox", "process", "-f", 2, "--utility_seeds", 2)
    assert play(*arguments)[0] == 0
    useless, copy = row(out, "hiders", "useless"), row(out, "hiders", "copy")
    assert (useless["score"], useless["utility"], useless["features_passed"]) == (9.99, "fails", 0)
    assert "fails the utility check" in useless["status"]
    assert (copy["utility"], copy["features_passed"], copy["features_tested"]) == ("passes", 2, 2)
    assert json.loads((out / "matches/copy/equal/report.json").read_text())["utility"]["passed"]
    assert play(*arguments, "--play_all")[0] == 0
    assert row(out, "hiders", "useless")["score"] == 0.5


def test_two_submissions_of_one_name_are_told_apart(play, csv, tmp_path):
    first, second = (write(tmp_path / folder, "hider_mine", PLAYERS["hider_copy"]) for folder in "ab")
    assert play(first, second, "knn", "-d", csv, "-o", tmp_path / "out", *QUICK)[0] == 0
    assert {entry["name"] for entry in board(tmp_path / "out")["hiders"]} == {"mine", "mine-2"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("knn",), "no hider takes part"),
        ((), "name the submissions"),
        (("addnoise", "knn", "nobody_knows"), "unknown submission 'nobody_knows'; known are addnoise"),
        (("addnoise", "knn", "--workers", "0"), "--workers: must be a whole number from 1"),
        (("addnoise", "knn", "--utility_seeds", "6"), "--utility_seeds: must be a whole number from 1 to 5"),
        (("addnoise", "knn", "-t", "1.5"), "--train_frac"),
        (("addnoise", "knn", "-f", "99"), "only 6 features"),
        (("addnoise", "knn", "--memory", "0"), "--memory: must be a number"),
        (("addnoise", "knn", "--python", "/nowhere/python"), "no Python at /nowhere/python"),
        (("addnoise", "knn", "-d", "nowhere.csv"), "data not found"),
        (("empty", "knn"), "holds no submissions"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(play, csv, tmp_path, arguments, expected):
    (tmp_path / "empty").mkdir()
    data = () if "-d" in arguments else ("-d", csv)
    code, _, err = play(*arguments, *data, "-o", tmp_path / "out", "--sandbox", "process")
    assert code == 2
    assert expected in err
    assert "Traceback" not in err
    assert not (tmp_path / "out/leaderboard.json").exists()


def test_a_file_in_the_place_of_the_output_is_left_alone(play, csv, tmp_path):
    (tmp_path / "out").write_text("mine")
    code, _, err = play("addnoise", "knn", "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert code == 2
    assert "is a file" in err
    assert (tmp_path / "out").read_text() == "mine"


def test_killed_again_and_again_it_ends_with_the_leaderboard_of_an_undisturbed_one(tmp_path, rng):
    data, submissions = write_csv(tmp_path / "stays.csv", rng), write_all(tmp_path / "all")
    command = [sys.executable, str(ROOT / "tournament.py"), str(submissions), "-d", str(data), *QUICK]
    command += ["--key", str(tmp_path / "key")]

    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    subprocess.run([*command, "-o", str(calm)], check=True, capture_output=True)
    store = disturbed / "store"
    for pieces in (0, 1, 3, 5, 7):  # of the data, two hiders and four answers
        running = subprocess.Popen(
            [*command, "-o", str(disturbed)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while running.poll() is None and len(list(store.glob("*/*.npz"))) < pieces:
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    subprocess.run([*command, "-o", str(disturbed)], check=True, capture_output=True)
    for name in ("leaderboard.json", "leaderboard.csv", "leaderboard.html"):
        assert (disturbed / name).read_bytes() == (calm / name).read_bytes()


def test_one_method_takes_part_with_several_settings(play, csv, tmp_path):
    out = tmp_path / "out"
    loud = write(tmp_path, "hider_mine", PLAYERS["hider_copy"])
    named = ("addnoise", "addnoise:noise_size=0", "addnoise:noise_size=9", loud, "matching")
    assert play(*named, "-d", csv, "-o", out, *QUICK)[0] == 0
    score = {name: row(out, "hiders", name)["score"] for name in ("addnoise_noise_size_0", "addnoise_noise_size_9")}
    assert score["addnoise_noise_size_0"] == 1.0 > score["addnoise_noise_size_9"]
    report = json.loads((out / "matches/addnoise_noise_size_9/matching/report.json").read_text())
    assert report["hider"]["parameters"] == {"given": "noise_size=9"}
    assert row(out, "hiders", "addnoise")["name"] == "addnoise"


def test_a_setting_that_a_method_does_not_have_is_refused_before_anything_runs(play, csv, tmp_path):
    code, _, err = play("addnoise:nonsense=1", "knn", "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert code == 2
    assert "has no parameter 'nonsense'" in err
