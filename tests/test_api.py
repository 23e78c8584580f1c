"""A match from Python: any hider, any seeker, any form of data, and a notebook that shows it."""

import json

import numpy as np
import polars
import pytest
from conftest import ROOT, make_stays, write_csv

import hide_and_seek
from hide_and_seek.__main__ import main
from utils.errors import UserError


def copier(input_dict):
    return input_dict["data"], input_dict["padding_mask"]


def test_functions_play_and_nothing_is_written(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    match = hide_and_seek.play(copier, "knn", make_stays(rng, stays=20))
    assert match.score == match.result["reidentification"]["score"] > 0.9
    assert match.generated[0].shape == (10, 8, 4)
    assert match.result["hider"]["name"] == "copier"
    assert "<iframe" in match._repr_html_()
    assert list(tmp_path.iterdir()) == []
    assert match.save(tmp_path / "out").is_file()
    assert json.loads((tmp_path / "out/report.json").read_text())["seeker"]["name"] == "knn"


def test_a_path_and_frames_of_polars_and_pandas_play_alike(rng, tmp_path):
    path = write_csv(tmp_path / "stays.csv", rng, stays=20)
    frame = polars.read_csv(path)
    pandas = pytest.importorskip("pandas").read_csv(path)
    digests = {hide_and_seek.play("addnoise", "knn", data).result["data"]["sha256"] for data in (path, frame, pandas)}
    assert len(digests) == 1


def test_stays_of_one_patient_are_on_one_side_and_ignoring_this_shows_as_a_leak(rng, tmp_path):
    frame = polars.read_csv(write_csv(tmp_path / "stays.csv", rng, stays=40))
    twins = frame.with_columns(polars.col("admissionid") + 1000, (polars.col("f1", "f2") + 1e-6))
    known = polars.concat([frame, twins])
    patients = known.select("admissionid", "time", (polars.col("admissionid") % 1000).alias("patientid"), "^f.*$")
    right = hide_and_seek.play(copier, "knn", patients)
    ignored = hide_and_seek.play(copier, "knn", known)
    nearness = [match.result["distance"]["non_members_unchanged"] for match in (right, ignored)]
    assert nearness[0] == 0, "no copy of a member is among the others"
    assert nearness[1] > 5, "others are generated unchanged, as their twins are members"


@pytest.mark.parametrize("data", [3, (np.zeros((2, 3)), np.zeros((2, 3))), polars.DataFrame({"a": [1], "b": [2]})])
def test_what_is_no_data_is_refused(data):
    with pytest.raises(UserError, match="must"):
        hide_and_seek.play("addnoise", "knn", data)


def test_the_notebook_runs_from_top_to_bottom():
    cells = json.loads((ROOT / "examples/notebook.ipynb").read_text())["cells"]
    names: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook", "exec"), names)
    assert names["match"].score > 0.5


def test_the_console_command_prints_the_report_as_json_and_nothing_else(rng, tmp_path, capsys):
    path = write_csv(tmp_path / "stays.csv", rng, stays=20)
    match = ["match", "-d", str(path), "-o", str(tmp_path / "out"), "--hider", "addnoise", "--seeker", "knn"]
    assert main(["--json", *match, "--skip_fp", "--skip_osa"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((tmp_path / "out/report.json").read_text())
    assert "report:" in printed.err
    assert main(["--json", *match, "--seeker", "gone"]) == 2
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        main(["--json", "prepare"])


def test_a_release_is_written_in_the_columns_of_the_data(rng, tmp_path):
    path = write_csv(tmp_path / "stays.csv", rng, stays=20)
    match = ["match", "-d", str(path), "-o", str(tmp_path / "out"), "--hider", "addnoise", "--seeker", "knn"]
    assert main([*match, "--skip_fp", "--skip_osa", "--release", "parquet"]) == 0
    table = polars.read_parquet(tmp_path / "out/hider/release.parquet")
    assert table.columns == polars.read_csv(path).columns
    assert table["admissionid"].n_unique() == 10
