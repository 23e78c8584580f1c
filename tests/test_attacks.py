"""--seeker all: every seeker plays, the strongest leads, and nothing that was left out is passed over in silence."""

import json
import re
import textwrap

import numpy as np
import pytest
from conftest import write_csv

from scoring.attacks import Attack, find_every_seeker, find_worst, self_contained_seekers

QUICK = ("--skip_fp", "--skip_osa")
COPIER = "def hider(d):\n    return d['data'], d['padding_mask']\n"
ORACLE = """
    import numpy as np

    def seeker(d):
        same = lambda a, b: np.array_equal(a, b, equal_nan=True)
        found = np.array([any(same(a, b) for b in d["generated_data"]) for a in d["enlarged_data"]]).astype(float)
        d["enlarged_data"][:] = 0  # none of the others may notice
        return found, found
"""
BLIND = """
    import numpy as np

    def seeker(d):
        assert np.nanmax(d["enlarged_data"]) > 1
        rng = np.random.default_rng(1)
        scores = rng.random(len(d["enlarged_data"]))
        return scores > np.median(scores), scores
"""
NEEDS_CODE = """
    import dataclasses
    import numpy as np

    @dataclasses.dataclass(frozen=True)
    class Parameters:
        hider: str = ""

    def seeker(d, parameters=Parameters()):
        print("told of", parameters.hider)
        return np.zeros(len(d["enlarged_data"]))
"""
SETTINGS = """
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Parameters:
        sharp: bool = False

    SHARP = Parameters(sharp=True)
    ALSO_PLAYED = ("sharp",)

    def seeker(d, parameters=Parameters()):
        return [parameters.sharp] * len(d["enlarged_data"])
"""
BROKEN = "def seeker(d):\n    raise RuntimeError('no luck')\n"


@pytest.fixture
def home(tmp_path):
    for name, source in {"oracle": ORACLE, "blind": BLIND, "needs_code": NEEDS_CODE, "broken": BROKEN}.items():
        (tmp_path / f"seeker_{name}.py").write_text(textwrap.dedent(source))
    (tmp_path / "hider_copier.py").write_text(COPIER)
    return tmp_path


@pytest.fixture
def many(tmp_path, rng):
    return write_csv(tmp_path / "many.csv", rng, stays=60)


def report(folder):
    return json.loads((folder / "output/report.json").read_text())


def test_the_strongest_leads_and_all_are_shown(run_main, home, many, tmp_path):
    code, out, _ = run_main("-d", many, "--hider", "copier", "--seeker", "all", *QUICK, home=home)
    assert code == 0
    found = report(tmp_path)
    assert found["seeker"]["name"] == "oracle"
    assert found["reidentification"]["score"] == 1.0
    assert found["seekers"][0]["name"] == "oracle"
    assert {row["name"] for row in found["seekers"]} == {"oracle", "blind", "needs_code"}
    assert found["worst_of"]["p_value"] < 0.05
    assert any("broken failed" in warning and "no luck" in warning for warning in found["warnings"])
    assert "the strongest of 3 seekers, oracle," in out
    assert "told of copier" in out
    assert str(tmp_path) not in json.dumps(found["seekers"])
    page = (tmp_path / "output/report.html").read_text()
    table = page[page.index("Every seeker") :]
    assert re.findall(r'<th scope="row">(\w+)</th>', table)[0] == "oracle"
    with np.load(tmp_path / "output/seeker/data.npz", allow_pickle=False) as arrays:
        assert arrays["reidentified_data"].sum() == 30


def test_other_settings_of_a_seeker_are_played_too(home):
    (home / "seeker_needs_code.py").write_text(textwrap.dedent(SETTINGS))
    names = [seeker.name for seeker in find_every_seeker(home)[0]]
    assert names == ["blind", "broken", "needs_code", "needs_code:sharp", "oracle"]


def test_the_intervals_are_wider_than_those_of_one_seeker(run_main, home, many, tmp_path):
    assert run_main("-d", many, "--hider", "copier", "--seeker", "blind", *QUICK, home=home)[0] == 0
    alone = report(tmp_path)["reidentification"]
    assert "seekers" not in report(tmp_path)
    assert run_main("-d", many, "--hider", "copier", "--seeker", "all", *QUICK, home=home)[0] == 0
    among = next(row for row in report(tmp_path)["seekers"] if row["name"] == "blind")["reidentification"]
    assert among["score"] == alone["score"]
    for figure in ("score", "auroc", "advantage", "members_found_rate"):
        (low, high), (lower, higher) = alone[f"{figure}_ci95"], among[f"{figure}_ci95"]
        assert lower < low
        assert higher > high


def test_who_is_left_out_is_told(run_main, home, many, tmp_path):
    ask = ("-d", many, "--seeker", "all", "--without", "broken,oracle", *QUICK)
    code, out, _ = run_main(*ask, "--hider", "copier", home=home)
    assert code == 0
    warnings = report(tmp_path)["warnings"]
    assert [name for name in ("broken", "oracle") if any(f"{name} was left out" in text for text in warnings)] == [
        "broken",
        "oracle",
    ]
    assert "oracle was left out" in out
    released = tmp_path / "release.npz"
    (tmp_path / "output/hider/data.npz").rename(released)
    code, out, _ = run_main(*ask, "--generated", released, home=home)
    assert code == 0
    assert any(
        "needs_code was left out, because it needs the hider's code" in text for text in report(tmp_path)["warnings"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeker", "all", "--without", "gone"), "there is no such seeker"),
        (("--seeker", "blind", "--without", "oracle"), "--without goes with --seeker all"),
        (("--seeker", "all", "--seeker_parameters", "a=1"), "goes with one seeker"),
        (("--seeker", "all", "--without", "blind,oracle,needs_code,broken"), "there is no seeker to play"),
        (("--seeker", "all", "--without", "blind,oracle,needs_code"), "every seeker failed"),
    ],
)
def test_what_cannot_be_played_is_one_line(run_main, home, many, arguments, message):
    code, _, err = run_main("-d", many, "--hider", "copier", *arguments, *QUICK, home=home)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_blind_seekers_are_rarely_called_a_leak():
    rng = np.random.default_rng(5)
    called = 0
    for _ in range(60):
        truth = rng.permutation(np.arange(80) < 40)
        attacks = []
        for name in "abcdef":
            scores = rng.normal(size=80)
            attacks.append(Attack({"name": name}, scores > np.median(scores), scores, 0.0))
        called += find_worst(truth, attacks).summary["leak"]
    assert called <= 9  # 3 are expected; 10 or more come in one case of 1,000


def test_a_tournament_without_named_seekers_plays_those_that_stand_alone(home):
    assert self_contained_seekers(home) == ["blind", "broken", "oracle"]
    (home / "seeker_blind.py").write_text(textwrap.dedent(NEEDS_CODE).replace("hider: str", "seekers: str"))
    assert self_contained_seekers(home) == ["broken", "oracle"]
