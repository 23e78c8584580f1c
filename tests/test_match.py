"""What one match must do, from the command line to the files it leaves."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest
from conftest import ROOT, write_csv

from scoring.data.datasets import load
from scoring.leftovers import this_process
from utils.data_utils import data_division

QUICK = ("--skip_fp", "--skip_osa")

LEAKY_HIDER = """
    def hider(input_dict):
        return input_dict["data"], input_dict["padding_mask"]
"""
ORACLE_SEEKER = """
    import numpy as np

    def seeker(input_dict):
        enlarged, generated = input_dict["enlarged_data"], input_dict["generated_data"]
        same = lambda a, b: np.array_equal(a, b, equal_nan=True)
        return np.array([[any(same(stay, other) for other in generated)] for stay in enlarged])
"""


def player(folder, name, source):
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return path


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_match_leaves_the_2020_outputs_and_a_report(run_main, csv, tmp_path):
    code, out, err = run_main("-d", csv, "-o", tmp_path / "out", "--seeker", "knn", *QUICK)
    assert (code, err) == (0, "")
    written = {str(path) for path in snapshot(tmp_path / "out")}
    assert written == {"hider/data.npz", "seeker/data.npz", "report.html", "report.json"}
    with np.load(tmp_path / "out/hider/data.npz", allow_pickle=False) as arrays:
        assert arrays["generated_data"].shape == (6, 100, 6)
        assert arrays["padding_mask"].shape == (6, 100, 6)
    with np.load(tmp_path / "out/seeker/data.npz", allow_pickle=False) as arrays:
        assert arrays["reidentified_data"].shape == (12,)
    assert "playing addnoise" in out
    assert "report.html" in out


def test_a_hider_that_hides_nothing_is_found_out(run_main, csv, tmp_path):
    hider, seeker = player(tmp_path, "leak.py", LEAKY_HIDER), player(tmp_path, "oracle.py", ORACLE_SEEKER)
    assert run_main("-d", csv, "--hider", hider, "--seeker", seeker, *QUICK)[0] == 0
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert report["reidentification"]["score"] == 1.0
    assert report["reidentification"]["members_found"] == report["data"]["members"] == 6
    assert report["hider"]["name"] == "leak"
    assert report["distance"]["members_unchanged"] == 6
    assert report["distance"]["non_members_unchanged"] == 0


def test_hider_py_and_seeker_py_beside_main_are_played_as_in_2020(run_main, csv, tmp_path):
    player(tmp_path, "hider.py", LEAKY_HIDER)
    player(tmp_path, "seeker.py", ORACLE_SEEKER)
    code, out, _ = run_main("-d", csv, *QUICK, home=tmp_path)
    assert code == 0
    assert "playing" not in out
    assert json.loads((tmp_path / "output/report.json").read_text())["reidentification"]["score"] == 1.0


def test_the_hider_sees_the_training_half_raw_and_the_seeker_everything(run_main, tmp_path, rng):
    csv = write_csv(tmp_path / "stays.csv", rng, stays=10)
    hider = player(
        tmp_path,
        "h.py",
        """
        import numpy as np
        def hider(input_dict):
            assert sorted(input_dict) == ["data", "padding_mask", "seed"] and input_dict["seed"] == 5
            assert input_dict["data"].shape == (3, 100, 6) and np.isnan(input_dict["data"]).any()
            assert (input_dict["data"][input_dict["padding_mask"]] == -1).all()
            return np.zeros((3, 100, 6))
        """,
    )
    seeker = player(
        tmp_path,
        "s.py",
        """
        def seeker(input_dict):
            assert sorted(input_dict) == ["enlarged_data", "enlarged_data_padding_mask", "generated_data",
                                          "generated_data_padding_mask", "seed"]
            assert input_dict["generated_data_padding_mask"] is None
            assert input_dict["enlarged_data"].shape == (10, 100, 6)
            return [0] * 10
        """,
    )
    code, _, err = run_main("-d", csv, "-s", 5, "-t", 0.3, "--hider", hider, "--seeker", seeker, *QUICK)
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert report["reidentification"]["score"] == 0.7
    assert report["reidentification"]["chance"] == 0.7


SEEKER_THAT_KNOWS_THE_RULE = """
    import numpy as np
    from utils.data_utils import data_division

    def seeker(input_dict):
        n = len(input_dict["enlarged_data"])
        labels = np.zeros(n)
        labels[data_division(range(n), {seed}, [0.5, 0.5])[1][0]] = 1
        return labels
"""


@pytest.mark.parametrize("seed", ["input_dict['seed']", "3"])
def test_a_seeker_that_knows_how_stays_are_split_cannot_tell_whose_they_are(run_main, tmp_path, rng, seed):
    csv = write_csv(tmp_path / "stays.csv", rng, stays=60)
    seeker = player(tmp_path, "s.py", SEEKER_THAT_KNOWS_THE_RULE.format(seed=seed))
    assert run_main("-d", csv, "-s", 3, "--seeker", seeker, *QUICK)[0] == 0
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert 0.25 < report["reidentification"]["score"] < 0.75


def test_labels_are_left_in_the_order_of_the_data(run_main, tmp_path, rng):
    csv = write_csv(tmp_path / "stays.csv", rng, stays=30)
    hider, seeker = player(tmp_path, "leak.py", LEAKY_HIDER), player(tmp_path, "oracle.py", ORACLE_SEEKER)
    assert run_main("-d", csv, "-s", 3, "--hider", hider, "--seeker", seeker, *QUICK)[0] == 0
    with np.load(tmp_path / "output/seeker/data.npz", allow_pickle=False) as arrays:
        found = np.flatnonzero(arrays["reidentified_data"])
    assert found.tolist() == sorted(data_division(range(30), 3, [0.5, 0.5])[1][0])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(run_main, csv, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run_main("-d", csv, "-o", tmp_path / name, "-s", seed, *QUICK)[0] == 0
    assert (tmp_path / "a/hider/data.npz").read_bytes() == (tmp_path / "b/hider/data.npz").read_bytes()
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in "abc"]
    assert reports[0]["reidentification"] == reports[1]["reidentification"]
    assert reports[0]["data"]["sha256"] == reports[2]["data"]["sha256"]
    assert (tmp_path / "a/hider/data.npz").read_bytes() != (tmp_path / "c/hider/data.npz").read_bytes()


def test_parameters_reach_the_method(run_main, csv, tmp_path):
    assert run_main("-d", csv, "--hider_parameters", "noise_size=0", *QUICK)[0] == 0
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert report["hider"]["parameters"] == {"noise_size": 0.0}


def test_data_generated_elsewhere_is_scored(run_main, csv, tmp_path):
    assert run_main("-d", csv, "-o", tmp_path / "first", *QUICK)[0] == 0
    generated = tmp_path / "first/hider/data.npz"
    assert run_main("-d", csv, "-o", tmp_path / "second", "--generated", generated, *QUICK)[0] == 0
    first, second = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("first", "second"))
    assert first["reidentification"] == second["reidentification"]


def test_data_made_from_other_stays_is_not_scored(run_main, csv, tmp_path):
    leak = player(tmp_path, "leak.py", LEAKY_HIDER)
    again = player(tmp_path, "again.py", "def hider(input_dict): return 'rescore'\n")
    assert run_main("-d", csv, "--hider", leak, *QUICK)[0] == 0
    before = snapshot(tmp_path / "output")
    generated = tmp_path / "output/hider/data.npz"
    for arguments in (("--generated", generated), ("--hider", again)):
        code, _, err = run_main("-d", csv, "-s", 1, *arguments, *QUICK)
        assert code == 2
        assert "was made from other stays" in err
    assert snapshot(tmp_path / "output") == before


def test_data_that_does_not_say_what_it_was_made_from_is_scored_with_a_warning(run_main, csv, tmp_path):
    np.savez(tmp_path / "theirs.npz", generated_data=np.zeros((6, 100, 6)), padding_mask=[])
    code, out, _ = run_main("-d", csv, "--generated", tmp_path / "theirs.npz", *QUICK)
    assert code == 0
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert "does not say which stays it was made from" in out
    assert "does not say which stays it was made from" in report["warnings"][0]


def test_a_bad_seeker_is_refused_before_the_hider_runs(run_main, csv, tmp_path):
    hider = player(tmp_path, "slow.py", "def hider(input_dict): raise SystemError('the hider ran')\n")
    code, _, err = run_main("-d", csv, "--hider", hider, "--seeker", "knn", "--seeker_parameters", "k=3", *QUICK)
    assert code == 2
    assert "takes no parameters" in err


def test_features_are_named_or_numbered(run_main, csv, tmp_path):
    assert run_main("-d", csv, "--features", "f2,3,f3", *QUICK)[0] == 0
    assert json.loads((tmp_path / "output/report.json").read_text())["settings"]["features"] == [2, 3]


def test_part_of_the_data_is_said_to_be_part(run_main, csv, tmp_path):
    assert run_main("-d", csv, "-g", 30, *QUICK)[0] == 0
    assert "only the first 30 rows" in json.loads((tmp_path / "output/report.json").read_text())["warnings"][0]


def test_a_hider_may_ask_for_its_earlier_data(run_main, csv, tmp_path):
    rescore = player(tmp_path, "again.py", "def hider(input_dict): return 'rescore'\n")
    code, _, err = run_main("-d", csv, "--hider", rescore, *QUICK)
    assert code == 2
    assert "is not there" in err
    run_main("-d", csv, *QUICK)
    before = (tmp_path / "output/hider/data.npz").read_bytes()
    assert run_main("-d", csv, "--hider", rescore, *QUICK)[0] == 0
    assert (tmp_path / "output/hider/data.npz").read_bytes() == before


def test_a_failing_match_leaves_the_earlier_output_whole(run_main, csv, tmp_path):
    run_main("-d", csv, *QUICK)
    before = snapshot(tmp_path / "output")
    bad = player(tmp_path, "bad.py", "def seeker(input_dict): raise ValueError('no idea')\n")
    code, _, err = run_main("-d", csv, "-s", 3, "--seeker", bad, *QUICK)
    assert code == 2
    assert "seeker 'bad' raised ValueError: no idea (bad.py, line 1)" in err
    assert snapshot(tmp_path / "output") == before


def test_a_full_disk_leaves_the_earlier_output_whole(run_main, csv, tmp_path, monkeypatch):
    run_main("-d", csv, *QUICK)
    before = snapshot(tmp_path / "output")

    def full(path, *args, **kwargs):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError(28, os.strerror(28), str(path))

    monkeypatch.setattr(np, "savez", full)
    code, _, err = run_main("-d", csv, "-s", 3, *QUICK)
    assert code == 2
    assert "No space left on device" in err
    assert snapshot(tmp_path / "output") == before


def test_what_a_killed_match_left_behind_is_cleared_and_what_a_running_one_writes_is_not(run_main, csv, tmp_path):
    code = "from scoring.leftovers import this_process; print(this_process())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    left, running = (tmp_path / "output" / f".match-{owner}-x" for owner in (ended.strip(), this_process()))
    left.mkdir(parents=True)
    running.mkdir()
    (left / "data.npz").write_bytes(b"half")
    assert run_main("-d", csv, *QUICK)[0] == 0
    assert not left.exists()
    assert running.exists()


def test_other_files_in_the_output_folder_are_left_alone(run_main, csv, tmp_path):
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "notes.txt").write_text("mine")
    assert run_main("-d", csv, *QUICK)[0] == 0
    assert (tmp_path / "output" / "notes.txt").read_text() == "mine"


def test_duplicate_rows_are_kept_and_told(run_main, tmp_path, rng):
    csv = write_csv(tmp_path / "stays.csv", rng)
    csv.write_text(csv.read_text() + csv.read_text().splitlines()[-1] + "\n")
    code, out, _ = run_main("-d", csv, *QUICK)
    assert code == 0
    assert "warning: 1 duplicate (stay, time) row;" in out


def test_a_constant_and_an_all_missing_feature_work(run_main, tmp_path):
    rows = [f"{stay},{hour},5,,{stay + hour},1,2" for stay in range(8) for hour in range(3)]
    csv = tmp_path / "stays.csv"
    csv.write_text("admissionid,time,constant,missing,value,a,b\n" + "\n".join(rows) + "\n")
    assert run_main("-d", csv, "--seeker", "knn", *QUICK)[::2] == (0, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-d", "nowhere.csv"), "data not found: nowhere.csv"),
        (("-t", "0"), "--train_frac must lie between 0 and 1"),
        (("-t", "1.5"), "--train_frac: must be a number from 0 to 1"),
        (("-t", "0.01"), "leaves no stay on one side"),
        (("-f", "9"), "the data have only 6 features"),
        (("--features", "1,7"), "--features 7: the data have features 0 to 5"),
        (("--features", "one"), "--features"),
        (("-m", "0"), "--max_seq_len: must be a whole number from 1"),
        (("--hider", "nosuch"), "unknown hider 'nosuch'; known are addnoise"),
        (("--seeker", "nosuch"), "unknown seeker 'nosuch'; known are"),
        (("--hider_parameters", "noise=1"), "has no parameter 'noise'; it has noise_size=0.1"),
        (("--hider_parameters", "noise_size=loud"), "must be of type float"),
        (("--hider_parameters", "published"), "has no setting 'published'"),
        (("--seeker", "knn", "--seeker_parameters", "k=3"), "takes no parameters"),
        (("--seeker_parameters", "k=3"), "goes with one seeker"),
        (("--generated", "nowhere.npz"), "generated data not found"),
        (("--generated", "x.npz", "--hider", "addnoise"), "takes the place of a hider"),
        (("-s", "-1"), "--seed: must be a whole number from 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(run_main, csv, tmp_path, arguments, expected):
    defaults = ("-d", csv) if "-d" not in arguments else ()
    code, _, err = run_main(*defaults, *QUICK, *arguments)
    assert code == 2
    assert expected in err
    assert err.strip().splitlines()[-1] == err.strip() or "--features" in arguments  # argparse adds its usage
    assert not list((tmp_path / "output").glob("*")) if (tmp_path / "output").exists() else True


def test_one_stay_is_no_match(run_main, tmp_path, rng):
    code, _, err = run_main("-d", write_csv(tmp_path / "one.csv", rng, stays=1), *QUICK)
    assert code == 2
    assert "one stay only" in err


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def hider(d): return d['data'][:, :5]\n", "generated data of shape"),
        ("def hider(d): return d['data'] * float('nan')\n", "every cell is NaN"),
        ("def hider(d): return d['data'] * float('inf')\n", "infinite"),
        ("def hider(d): return None\n", "NoneType"),
        ("def hider(d):\n    x = 1\n    raise KeyError('secret')\n", "raised KeyError: 'secret' (h.py, line 3)"),
        ("def hider(d): import sys; sys.exit(0)\n", "raised SystemExit"),
        ("import nothing_of_this_name\n", "could not be imported: ModuleNotFoundError"),
        ("def hider(d) return 1\n", "could not be imported: SyntaxError"),
        ("x = 1\n", "has no function hider"),
    ],
)
def test_a_hider_that_fails_is_named_with_the_reason(run_main, csv, tmp_path, source, expected):
    code, _, err = run_main("-d", csv, "--hider", player(tmp_path, "h.py", source), *QUICK)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err
    assert not (tmp_path / "output" / "report.json").exists()


def test_debug_shows_the_traceback(run_main, csv, tmp_path):
    bad = player(tmp_path, "h.py", "def hider(d): return 1 / 0\n")
    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        run_main("-d", csv, "--hider", bad, "--debug", *QUICK)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_folder_or_zip_is_played_with_its_own_utils(run_main, csv, tmp_path):
    folder = tmp_path / "submission"
    (folder / "utils").mkdir(parents=True)
    (folder / "utils" / "__init__.py").write_text("")
    (folder / "utils" / "own.py").write_text("FILL = 7.0\n")
    player(
        folder,
        "hider.py",
        """
        from utils.own import FILL
        def hider(input_dict):
            return input_dict["data"] * 0 + FILL, input_dict["padding_mask"]
        """,
    )
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    for source in (folder, archive):
        code, out, err = run_main("-d", csv, "--hider", source, "--seeker", "knn", *QUICK)
        assert (code, err) == (0, "")
        assert "no security boundary" in out
        with np.load(tmp_path / "output/hider/data.npz") as arrays:
            values = arrays["generated_data"][~arrays["padding_mask"]]
        assert np.unique(values[~np.isnan(values)]).tolist() == [7.0]


def test_a_zip_that_fails_is_named_with_the_reason(run_main, csv, tmp_path):
    player(tmp_path, "hider.py", "def hider(input_dict): raise ValueError('patient 7')\n")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.write(tmp_path / "hider.py", "hider.py")
    code, _, err = run_main("-d", csv, "--hider", tmp_path / "packed.zip", *QUICK)
    assert code == 2
    assert "hider 'packed' raised ValueError: patient 7" in err, "whoever runs main.py owns the data"


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
def test_generated_data_that_is_no_npz_is_refused(run_main, csv, tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    code, _, err = run_main("-d", csv, "--generated", tmp_path / "bad.npz", *QUICK)
    assert code == 2
    assert "is not an .npz" in err


def test_a_single_array_is_not_generated_data(run_main, csv, tmp_path):
    np.save(tmp_path / "bad.npy", np.zeros((6, 100, 6)))
    code, _, err = run_main("-d", csv, "--generated", tmp_path / "bad.npy", *QUICK)
    assert code == 2
    assert "is not an .npz" in err


def test_the_utility_checks_are_judged_and_their_scores_written(run_main, tmp_path, rng):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    csv = write_csv(tmp_path / "stays.csv", rng, stays=24)
    arguments = ("--features", "2,1", "--hider_parameters", "noise_size=0", "--eval_verbose")
    code, out, err = run_main("-d", csv, "-m", 6, *arguments)
    assert code == 0, err
    assert "generated, feature 2, seed 0: validation loss" in out
    report = json.loads((tmp_path / "output/report.json").read_text())["utility"]
    assert [row["index"] for row in report["feature_prediction"]] == [2, 1]
    # Without noise the generated data are the imputed original: both models are the same.
    assert [row["ratio"] for row in report["feature_prediction"]] == pytest.approx([1, 1])
    assert report["one_step_ahead"]["ratio"] == pytest.approx(1)
    assert report["passed"] is None  # so few stays teach nothing: the original's predictors lose to a constant
    assert not all(row["better_than_constant"] for row in report["feature_prediction"])
    assert report["kept"]["headline"]["value"] is None
    scores = (tmp_path / "output/hider/feature_prediction_scores.txt").read_text().split()
    assert [float(score) for score in scores] == [row["generated"] for row in report["feature_prediction"]]
    assert float((tmp_path / "output/hider/osa_score.txt").read_text()) == report["one_step_ahead"]["generated"]


def test_without_tensorflow_the_checks_are_skipped_and_the_rest_runs(run_main, csv, tmp_path, monkeypatch):
    monkeypatch.setattr("scoring.match.tf115_found", False)
    code, out, _ = run_main("-d", csv)
    assert code == 0
    assert "warning: 2020 checks of utility skipped: TensorFlow is not installed" in out
    assert json.loads((tmp_path / "output/report.json").read_text())["utility"].keys() == {"kept"}


def test_a_player_may_be_named_with_a_setting(run_main, csv, tmp_path):
    assert run_main("-d", csv, "--hider", "addnoise:noise_size=0", "--seeker", "matching", *QUICK)[0] == 0
    report = json.loads((tmp_path / "output/report.json").read_text())
    assert report["hider"] == {"name": "addnoise", "source": "hider_addnoise.py", "parameters": {"noise_size": 0.0}}
    code, _, err = run_main("-d", csv, "--hider", "addnoise:nonsense=1", *QUICK)
    assert code == 2
    assert "has no parameter 'nonsense'" in err


def test_a_release_as_a_table_comes_with_the_ids_it_was_made_from(run_main, csv, tmp_path):
    arguments = ("--hider", "addnoise", "--seeker", "knn", "--skip_fp", "--skip_osa", "--release", "csv")
    code, out, _ = run_main("-d", csv, *arguments)
    assert code == 0
    assert "members.txt" in out
    named = (tmp_path / "output/hider/members.txt").read_text().split()
    stays = load(csv, 100)
    (members, _), _ = data_division(range(len(stays.data)), 0, [0.5, 0.5])
    assert named == [str(stays.ids[i]) for i in sorted(members)]
    code, _, err = run_main("-d", csv, *arguments, "-o", csv)
    assert (code, "is a file" in err) == (2, True)
