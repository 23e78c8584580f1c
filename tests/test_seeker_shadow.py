"""The shadow seeker learns from the hider's code, keeps its finished runs, and says what it needs."""

import numpy as np
import pytest
from conftest import make_stays

import seeker_shadow
from seeker_shadow import Parameters, learnt_evidence, per_stay_evidence
from utils.errors import UserError
from utils.methods import find_method, known_methods, load_method
from utils.progress import progress_bar, without_bars

# A hider that gives away the mean of one value, with its sign turned. Nearness to it points the wrong way.
HIDER = """
import numpy as np

calls = []


def hider(input_dict):
    calls.append(input_dict["seed"])
    data = input_dict["data"]
    return np.where(input_dict["padding_mask"], -1.0, 100 - data), input_dict["padding_mask"]
"""
SEEKER = """
import numpy as np
from utils.stays import summaries, padded_rows


def seeker(input_dict):
    level = []
    for whose in ("generated", "enlarged"):
        data, mask = input_dict[whose + "_data"], input_dict[whose + "_data_padding_mask"]
        level.append(np.nan_to_num(summaries(data, ~padded_rows(data, mask))[:, 1, 0]))
    scores = -np.abs(level[1][:, None] - ({of} level[0])).min(axis=1)
    return (scores > np.median(scores)).astype(int), scores
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "hider_mirror.py").write_text(HIDER)
    (tmp_path / "seeker_near.py").write_text(SEEKER.replace("{of}", ""))
    (tmp_path / "seeker_mirrored.py").write_text(SEEKER.replace("{of}", "100 -"))
    monkeypatch.setattr(seeker_shadow, "HOME", tmp_path)
    return tmp_path


def given(data, mask, members):
    return {
        "generated_data": np.where(mask[members], -1.0, 100 - data[members]),
        "generated_data_padding_mask": mask[members],
        "enlarged_data": data,
        "enlarged_data_padding_mask": mask,
        "seed": 3,
    }


def area(scores, is_member):
    wins = scores[is_member][:, None] - scores[~is_member]
    return np.mean((wins > 0) + (wins == 0) / 2)


def test_it_learns_which_seeker_sees_this_hider(rng, home):
    data, mask = make_stays(rng, 80)
    members = np.sort(rng.permutation(80)[:40])
    asked = Parameters(hider="mirror", runs=4, seekers="near+mirrored")
    labels, scores = seeker_shadow.seeker(given(data, mask, members), asked)
    is_member = np.isin(np.arange(80), members)
    assert labels.sum() == 40
    assert area(scores, is_member) > 0.9
    near = load_method("seeker", "near", home)
    assert area(near(given(data, mask, members))[1], is_member) < 0.7


def test_a_second_start_goes_on_with_the_runs_that_are_kept(rng, home, tmp_path):
    data, mask = make_stays(rng, 30)
    inputs = given(data, mask, np.arange(15))
    asked = Parameters(hider="mirror", runs=3, seekers="near", folder=str(tmp_path / "runs"))
    first = seeker_shadow.seeker(inputs, asked)[1]
    kept = sorted((tmp_path / "runs").iterdir())
    assert len(kept) == 3
    hider = __import__("sys").modules["hider_mirror"]
    before = len(hider.calls)
    kept[1].write_bytes(b"torn")  # damaged: made again
    kept[2].unlink()
    np.testing.assert_array_equal(seeker_shadow.seeker(inputs, asked)[1], first)
    assert len(hider.calls) == before + 2
    assert sorted((tmp_path / "runs").iterdir()) == kept
    (home / "hider_mirror.py").write_text(HIDER + "\n# another version\n")
    seeker_shadow.seeker(inputs, asked)
    assert len(hider.calls) == before + 5, "runs of other code are not reused"


def test_what_it_needs_it_says_in_one_line(rng, home, tmp_path):
    data, mask = make_stays(rng, 8)
    inputs = given(data, mask, np.arange(4))
    with pytest.raises(UserError, match="name it: --seeker_parameters hider="):
        seeker_shadow.seeker(inputs)
    with pytest.raises(UserError, match=r"no hider 'gone'.*there are: mirror"):
        seeker_shadow.seeker(inputs, Parameters(hider="gone", seekers="near"))
    with pytest.raises(UserError, match="no seeker 'gone'"):
        seeker_shadow.seeker(inputs, Parameters(hider="mirror", seekers="near+gone"))
    with pytest.raises(UserError, match="none lies beside it"):
        seeker_shadow.seeker(inputs, Parameters(hider="mirror"))
    with pytest.raises(UserError, match="at least 4 enlarged stays"):
        seeker_shadow.seeker(given(data[:3], mask[:3], np.arange(1)), Parameters(hider="mirror", seekers="near"))
    (home / "hider_text.py").write_text("def hider(input_dict):\n    return 'rescore'\n")
    with pytest.raises(UserError, match="a hider must return"):
        seeker_shadow.seeker(inputs, Parameters(hider="text", seekers="near"))
    with pytest.raises(ValueError, match="runs must be at least 2"):
        Parameters(runs=1)
    (tmp_path / "file").write_text("")
    asked = Parameters(hider="mirror", runs=2, seekers="near", folder=str(tmp_path / "file" / "runs"))
    with pytest.raises(UserError, match="cannot keep its runs"):
        seeker_shadow.seeker(inputs, asked)


@pytest.mark.parametrize("case", ["more generated than enlarged", "no mask", "constant scores"])
def test_unusual_input_gets_an_answer(rng, home, case):
    data, mask = make_stays(rng, 10)
    inputs = given(data, mask, np.arange(5))
    if case == "no mask":
        inputs |= {"enlarged_data_padding_mask": None, "generated_data_padding_mask": None}
    elif case == "constant scores":
        inputs |= {"enlarged_data": np.ones_like(data), "enlarged_data_padding_mask": None}
    else:
        inputs |= {"generated_data": np.repeat(data, 2, axis=0), "generated_data_padding_mask": None}
    labels, scores = seeker_shadow.seeker(inputs, Parameters(hider="mirror", runs=2, seekers="near"))
    assert labels.sum() == min(10, len(inputs["generated_data"]))
    assert np.isfinite(scores).all()


def test_a_stays_own_history_counts(rng):
    """Stay by stay, membership lifts a score by 1 over the stay's own level, which no threshold for all can see."""
    level = rng.normal(0, 10, 300)
    members = rng.random((12, 300)) < 0.5
    is_member = rng.random(300) < 0.5
    noise = rng.normal(0, 0.3, (13, 1, 300))
    scores = level + members[:, None] + noise[:-1]
    released = level + is_member + noise[-1]
    assert area(released[0], is_member) < 0.65
    assert area(learnt_evidence(members, scores, released, rng), is_member) > 0.75


def test_the_run_that_is_judged_is_left_out_of_the_comparison(rng):
    members = rng.random((4, 20)) < 0.5
    known = rng.normal(size=(4, 2, 20))
    changed = known.copy()
    changed[1] += 100
    first, second = (per_stay_evidence(members, k, known[1], 1) for k in (known, changed))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (20, 6)


def test_methods_are_found_by_name_and_by_path(home):
    assert known_methods("seeker", home) == ["mirrored", "near"]
    assert find_method("hider", "mirror", home) == ((home / "hider_mirror.py").resolve(), "")
    assert find_method("hider", f"{home / 'hider_mirror.py'}:size=2", home)[1] == "size=2"
    with pytest.raises(UserError, match="takes no parameters"):
        load_method("hider", "mirror:size=2", home)
    (home / "hider_empty.py").write_text("")
    with pytest.raises(UserError, match="has no function hider"):
        load_method("hider", "empty", home)


def test_inner_bars_can_be_left_out(capsys):
    with without_bars(), progress_bar(2, "inner", "step") as bar:
        bar.update()
    assert "inner" not in capsys.readouterr().err
    with progress_bar(2, "outer", "step") as bar:
        bar.update()
    assert "outer" in capsys.readouterr().err
