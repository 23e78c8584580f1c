"""An audit from three tables to the verdict, with quick seekers and simulated stays."""

import json
import sys
from pathlib import Path

import numpy as np
import polars
import pytest
from conftest import ROOT, make_stays

from scoring.audit.known_answers import add_noise
from scoring.audit.verdict import exit_code
from scoring.data.release import release_frame, write_release
from utils.errors import UserError
from utils.stays import front_padding, real_rows_first, real_rows_last, stay_lengths

NAMES = ["time", "f1", "f2", "f3"]
SEEKERS = {
    "near": """
        \"\"\"Nearest neighbours.\"\"\"
        import numpy as np
        from utils.data_preprocess import preprocess_imputed
        from utils.distances import nearest_neighbours
        from utils.stays import label_highest

        def seeker(input_dict):
            made = preprocess_imputed(input_dict["generated_data"], input_dict["generated_data_padding_mask"])
            real = preprocess_imputed(input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"])
            scores = -nearest_neighbours(real[:, :, 1:], made[:, :, 1:])[0]
            return label_highest(scores, len(made)), scores
    """,
    "lengths": """
        \"\"\"Labels long stays.\"\"\"
        import numpy as np

        def seeker(input_dict):
            lengths = (~input_dict["enlarged_data_padding_mask"][:, :, 0]).sum(axis=1)
            return (lengths > np.median(lengths)).astype(int)
    """,
    "needy": """
        \"\"\"Needs the hider.\"\"\"
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Parameters:
            hider: str = ""

        def seeker(input_dict, parameters=Parameters()):
            assert parameters.hider
            return [0] * len(input_dict["enlarged_data"])
    """,
    "broken": """
        \"\"\"Raises.\"\"\"
        def seeker(input_dict):
            raise ValueError("no luck")
    """,
}


def long_stays(rng, count, time_points=8):
    data, mask = make_stays(rng, 4 * count, time_points)
    kept = np.flatnonzero(~mask[:, -5, 0])[:count]
    return data[kept], mask[kept]


@pytest.fixture
def home(tmp_path):
    import textwrap

    folder = tmp_path / "home"
    folder.mkdir()
    for name, source in SEEKERS.items():
        (folder / f"seeker_{name}.py").write_text(textwrap.dedent(source))
    return folder


@pytest.fixture
def stays(rng):
    """120 members, 120 others and 120 stays of neither."""
    data, mask = long_stays(rng, 360)
    return [(data[part], mask[part]) for part in np.split(np.arange(360), 3)]


def audit(home, *tables, **options):
    from scoring.audit.command import audit as run

    return run(*tables, home=home, **options)


def table(path: Path, data, mask, ids=None) -> Path:
    frame = release_frame(data, mask, NAMES, {})
    if ids is not None:
        frame = frame.with_columns(polars.col("admissionid").replace_strict(dict(enumerate(ids, 1))))
    write_release(frame, path)
    return path


@pytest.mark.parametrize("whose", [0, 1], ids=["members", "others"])
@pytest.mark.parametrize("copies", [1, 15, 120])
def test_copies_are_a_leak_with_their_count_whoever_they_are_of(home, stays, rng, whose, copies):
    release, mask = (array.copy() for array in stays[2])
    places, sources = rng.permutation(120)[:copies], rng.permutation(120)[:copies]
    release[places], mask[places] = stays[whose][0][sources], stays[whose][1][sources]
    found = audit(home, *stays[:2], (release, mask), skip_power=True)
    assert found.evidence == "leak"
    stood = "1 real stay is" if copies == 1 else f"{copies} real stays are"
    assert found.result["headline"] == f"Leak: {stood} in the release"
    side = "others" if whose else "members"
    assert found.result["provenance"]["verbatim"][side] == copies
    assert found.patients()["is_in_the_release"].sum() == copies


def test_cut_and_noisy_stays_are_known_again_and_fresh_ones_are_not(home, rng):
    data, mask = long_stays(rng, 360, 30)
    data = np.where(np.isnan(data), rng.normal(50, 10, data.shape), data)
    members, others, fresh = ((data[part], mask[part]) for part in np.split(np.arange(360), 3))
    lengths = stay_lengths(members[1][:, :, 0])
    shorter = np.maximum(lengths * 3 // 4, 1)
    cut = real_rows_last(real_rows_first(members[0], members[1][:, :, 0]), shorter), front_padding(shorter, 30, 4)
    noisy = add_noise(*members, 0.02, rng), members[1]
    found = {
        name: audit(home, members, others, release, skip_power=True).result["provenance"]
        for name, release in (("cut", cut), ("noisy", noisy), ("fresh", fresh))
    }
    assert found["cut"]["in_part"]["members"] > 90
    assert found["noisy"]["nearly"]["members"] > 100
    assert found["fresh"]["stays"] == 0
    assert not found["fresh"]["rows"]["too_many"]


def test_a_fresh_release_is_no_leak_and_the_report_says_what_would_have_been_found(home, stays, tmp_path):
    found = audit(home, *stays, output=tmp_path / "out")
    result = json.loads((tmp_path / "out" / "report.json").read_text())
    page = (tmp_path / "out" / "report.html").read_text()
    assert found.evidence == result["evidence"] == "no leak found"
    assert result["headline"] in page
    size = result["power"]["near-copies"]["size"]
    assert f"near-copies of {size:.1%} of the members" in " ".join(result["reasons"])
    assert result["power"]["verbatim copies"]["size"] == 1
    assert {row["answer"] is None for row in result["clauses"]} == {True, False}
    assert "not assessed" in page
    assert not (tmp_path / "out" / "store" / "data").exists() or not list(
        (tmp_path / "out" / "store" / "data").iterdir()
    )
    assert "no leak found" in found._repr_html_().lower()


def test_a_seeker_that_cannot_take_part_is_named_with_its_reason(home, stays):
    result = audit(home, *stays, skip_power=True).result
    assert result["not_taking_part"] == [
        {"name": "needy", "about": "Needs the hider.", "reason": "needs the generator's code; name it with --hider"}
    ]
    assert "no luck" in result["attacks"]["broken"]["reason"]
    assert result["attacks"]["near"]["figures"]["auroc"] > 0


def test_without_the_positive_control_nothing_is_called_free_of_leaks(home, stays):
    assert audit(home, *stays, skip_power=True).evidence == "cannot be judged"
    assert audit(home, *stays, skip_power=True, provenance_unknown=True).evidence == "cannot be judged"


def test_few_patients_and_sides_that_differ_cannot_be_judged(home, stays):
    few = [(data[:40], mask[:40]) for data, mask in stays]
    found = audit(home, *few, skip_power=True)
    assert found.evidence == "cannot be judged"
    assert "only 40 patients among the members" in found.result["reasons"][0]
    shifted = stays[1][0].copy()
    shifted[:, :, 1] = np.where(stays[1][1][:, :, 1], -1, shifted[:, :, 1] + 30)
    found = audit(home, stays[0], (shifted, stays[1][1]), stays[2], skip_power=True)
    assert found.evidence == "cannot be judged"
    assert "Members and others can be told apart without the release" in " ".join(found.result["reasons"])


def test_a_finished_audit_is_not_run_again(home, stays, tmp_path):
    first = audit(home, *stays, output=tmp_path / "out", skip_power=True)
    for name in SEEKERS:
        stamp = (home / f"seeker_{name}.py").read_text()
        assert stamp
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "store" / "attack").iterdir()}
    again = audit(home, *stays, output=tmp_path / "out", skip_power=True)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "store" / "attack").iterdir()} == before
    assert again.result["worst"] == first.result["worst"]


@pytest.fixture
def run_audit(monkeypatch, capsys, home):
    import audit as tool

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["audit.py", *map(str, arguments)])
        monkeypatch.setattr(tool, "HOME", home)
        try:
            code = tool.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_from_three_files_to_an_exit_code(run_audit, stays, tmp_path):
    ids = list(range(1000, 1120))[::-1]
    names = ("a.csv", "b.parquet", "c.csv")
    a, b, c = (
        table(tmp_path / name, *pair, ids if name == "c.csv" else None)
        for name, pair in zip(names, [stays[0], stays[1], stays[0]], strict=True)
    )
    out = tmp_path / "out"
    tables = ("--members", a, "--others", b, "--synthetic", c, "-o", out, "--workers", 1, "-m", 8)
    code, text, _ = run_audit(*tables)
    assert code == 0
    assert "Leak: 120 real stays are in the release" in text
    assert run_audit(*tables, "--fail-on", "leak")[0] == 3
    patients = polars.read_csv(out / "patients.csv")
    assert patients["is_in_the_release"].sum() == 120
    assert patients.filter("is_in_the_release")["member"].all()


def test_one_table_and_a_split_by_column_or_file(run_audit, stays, tmp_path):
    both = [np.concatenate([stays[0][i], stays[1][i]]) for i in (0, 1)]
    frame = release_frame(*both, NAMES, {})
    column = frame.with_columns(side=polars.when(polars.col("admissionid") <= 120).then(1).otherwise(0))
    column.write_csv(tmp_path / "all.csv")
    frame.write_csv(tmp_path / "plain.csv")
    (tmp_path / "ids.txt").write_text("\n".join(map(str, range(1, 121))))
    release = table(tmp_path / "c.csv", *stays[0])
    for data, split in (("all.csv", "side"), ("plain.csv", tmp_path / "ids.txt")):
        out = tmp_path / f"out-{data}"
        code, _, error = run_audit("--data", tmp_path / data, "--split", split, "--synthetic", release, "-o", out,
                                   "--workers", 1, "--skip_power")  # fmt: skip
        assert (code, error.count("error:")) == (0, 0), error
        data_facts = json.loads((out / "report.json").read_text())["data"]
        assert (data_facts["members"], data_facts["others"]) == (120, 120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic", "c.csv"], "name the real stays"),
        (["--data", "a.csv", "--synthetic", "c.csv"], "--data needs --split"),
        (["--members", "a.csv", "--others", "none.csv", "--synthetic", "c.csv"], "data not found: none.csv"),
        (["--members", "a.csv", "--others", "a.csv", "--synthetic", "a.csv"], "others are members too"),
        (
            ["--members", "a.csv", "--others", "b.csv", "--synthetic", "other.csv"],
            "does not have the members' features",
        ),
        (["--data", "a.csv", "--split", "f1", "--synthetic", "c.csv"], "expected 1 or 0"),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2(run_audit, stays, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name, pair in zip(("a.csv", "b.csv", "c.csv"), stays, strict=True):
        table(tmp_path / name, *pair)
    (tmp_path / "other.csv").write_text("admissionid,time,g1\n1,0,5\n2,0,6\n")
    code, _, error = run_audit(*arguments, "-o", tmp_path / "out", "--workers", 1)
    assert code == 2
    assert message in error
    assert error.strip().count("\n") == 0


def test_the_exit_code_uses_the_same_words():
    assert [exit_code(word, "leak") for word in ("leak", "no leak found", "cannot be judged")] == [3, 0, 0]
    assert [exit_code(word, "unsure") for word in ("leak", "no leak found", "cannot be judged")] == [3, 0, 4]


def test_frames_are_taken_and_columns_may_be_in_another_order(home, stays):
    frames = [release_frame(*pair, NAMES, {}) for pair in stays]
    pandas = pytest.importorskip("pandas")
    given = pandas.DataFrame({name: frames[1][name].to_numpy() for name in frames[1].columns})
    turned = frames[2].select("admissionid", "time", "f3", "f1", "f2")
    one = audit(home, frames[0], given, turned, skip_power=True, max_seq_len=8)
    two = audit(home, *frames, skip_power=True, max_seq_len=8)
    assert one.result["worst"] == two.result["worst"]
    with pytest.raises(UserError, match="must begin with the columns"):
        audit(home, frames[0].drop("time"), given, turned)


def test_the_same_function_is_there_in_the_package():
    import hide_and_seek

    assert hide_and_seek.HOME == ROOT
    assert "audit" in hide_and_seek.__all__
