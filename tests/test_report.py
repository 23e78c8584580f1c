"""The report says what was found, flatters nobody, opens offline and survives whatever is missing."""

import copy
import dataclasses
import html.parser
import re

import numpy as np
import pytest

from scoring import statistics
from scoring.report import plots
from scoring.report.arrays import ReportArrays, distance_figures
from scoring.report.match_page import write_report
from scoring.report.projections import Projection
from scoring.report.utility_plots import StaysBeside
from scoring.report.verdict import evidence, leaks, verdict

VOID = {"meta", "br", "path", "use", "rect", "link", "img", "i"}


class Page(html.parser.HTMLParser):
    """The page's visible text, its tags with attributes, and whether all tags close."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.open, self.texts = [], [], []
        self.feed(self.source)
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    def plot(self, name):
        """The SVG of one figure."""
        found = re.search(rf'<svg [^>]*aria-labelledby="{name}-title.*?</svg>', self.source, re.DOTALL)
        return found and found[0]


def kept_facts():
    """What `KeptUtility.to_json` returns, in small."""

    def family(name, value, reason=None):
        estimate = {"value": value, "low": value and value - 0.04, "high": value and value + 0.04}
        return {"name": name, "kept": estimate, "unclipped": value, "tasks": 1, "too_few": 0, "reason": reason}

    def task(family, name, **more):
        found = {"release": 0.31, "ceiling": 0.5, "floor": 0.0, "kept": 0.62, "low": 0.5, "high": 0.7, "stays": 200}
        return {"family": family, "name": name, "metric": "R2", "too_few": False, "counts": True} | found | more

    reason = "other real stays do not answer it either"
    unknown = {"release": None, "kept": None, "low": None, "high": None, "counts": False}
    return {
        "headline": {"value": 0.41, "low": 0.37, "high": 0.45},
        "unclipped": 0.3,
        "families": [family("forecast", 0.62), family("structure", 0.2), family("length of stay", None, reason)],
        "tasks": [task("forecast", "HR"), task("length of stay", "hours", **unknown)],
        "stays": {"release": 400, "half": 200, "lesson": 200},
        "judge_spread": 0.01,
    }


def simulated_match(*, features=6, members=200, non_members=200, shift=1.0, scores=True, seed=0):
    """A match's result and arrays; the seeker's scores are `shift` standard deviations higher for members."""
    generator = np.random.default_rng(seed)
    labels = np.arange(members + non_members) < members
    values = generator.normal(size=labels.size) + shift * labels
    names = ["time", "HR", "K", "Mg", "pH", "MechVent", *(f"lab {i}" for i in range(65))][:features]
    per_feature = [
        {"index": i, "name": name, "original": 0.1 + 0.01 * i, "generated": 0.15 + 0.02 * i, "ratio": 1.5}
        for i, name in enumerate(names)
    ]
    checks = [
        row | {"task": "regression", "metric": "RMSE", "passed": True} for row in copy.deepcopy(per_feature[1:3])
    ] or [per_feature[0] | {"task": "regression", "metric": "RMSE", "passed": True}]
    result = {
        "format": 1,
        "created": "2026-11-21T00:50:00+00:00",
        "hider": {"name": "addnoise", "source": "hider_addnoise.py", "parameters": {"noise_size": 0.1}},
        "seeker": {"name": "knn", "source": "seeker_knn.py", "parameters": {}},
        "data": {
            "name": "stays.csv",
            "sha256": "0123456789abcdef" * 4,
            "stays": labels.size,
            "time_points": 30,
            "feature_names": names,
            "members": members,
            "non_members": non_members,
            "missing_share": 0.8,
            "padded_share": 0.3,
        },
        "settings": {"seed": 7, "train_frac": 0.5},
        "versions": {"python": "3.11.7", "tensorflow": None},
        "reidentification": statistics.reidentification(labels, values > 0.5, values if scores else None),
        "utility": {
            "kept": kept_facts(),
            "passed": True,
            "rmse_threshold": 5.0,
            "auroc_threshold": 0.85,
            "feature_prediction": checks,
            "one_step_ahead": {"original": 2.374, "generated": 2.378, "ratio": 1.0017, "passed": True},
            "one_step_ahead_without_time": {"original": 0.071, "generated": 0.134, "ratio": 1.887},
            "one_step_ahead_per_feature": per_feature,
            "ratio_geometric_mean": 1.625,
        },
        "utility_skipped": None,
        "warnings": [],
        "seconds": {"load": 1.0, "total": 75.0},
    }
    padded = np.arange(30) < 5
    stay = generator.normal(70, 10, (30, features))
    stay[:, 0] = np.arange(30) + 1000
    stay[generator.random(stay.shape) < 0.5] = np.nan
    stay[padded] = -1.0
    edges = np.linspace(0, 1, 11)
    arrays = ReportArrays(
        member_distances=generator.gamma(9, 0.01, 150),
        non_member_distances=generator.gamma(9, 0.01 * (1 + shift), 150),
        original_stay=stay,
        generated_stay=stay + 1,
        original_stay_padded=padded,
        generated_stay_padded=padded,
        histograms=[
            (i, edges, np.full(10, 1.0), np.where(np.arange(10) < 5, 1 + i / 100, 1 - i / 100)) for i in range(features)
        ],
        labels=labels,
        scores=values if scores else None,
        projections={"PCA": Projection(generator.normal(size=(40, 2)), generator.normal(size=(30, 2)))},
        beside=StaysBeside(stay[5:] + 1, [stay[5:], stay[9:]]),
    )
    return result, arrays


@pytest.fixture
def write(tmp_path):
    def written(result, arrays):
        path = tmp_path / "report.html"
        write_report(result, arrays, path)
        page = Page(path)
        assert page.open == []  # every tag is closed
        return page

    return written


# --- the verdict ---


def with_score(found, false_alarms, members=1000, non_members=1000):
    labels = np.arange(members + non_members) < members
    predicted = np.zeros(labels.size, dtype=bool)
    predicted[:found] = predicted[members : members + false_alarms] = True
    result, _ = simulated_match()
    return result | {"reidentification": statistics.reidentification(labels, predicted)}


@pytest.mark.parametrize("found", range(400, 601, 8))
def test_verdict_says_indistinguishable_exactly_where_the_interval_holds_chance(found):
    result = with_score(found, 1000 - found)
    low, high = result["reidentification"]["score_ci95"]
    assert ("indistinguishable from chance" in verdict(result)) == (low <= 0.5 <= high)


def test_verdict_names_who_was_found_the_interval_and_how_far_above_chance():
    result = with_score(650, 350)
    low, high = result["reidentification"]["score_ci95"]
    sentence = verdict(result)
    for phrase in ("knn found 650 of 1,000 members", "350 of 1,000 non-members", "0.650", "0.150 above chance (0.500)"):
        assert phrase in sentence
    assert f"95 % interval {low:.3f} to {high:.3f}" in sentence
    assert "gives members away" in sentence
    assert "not proof of safety" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_verdict_of_a_seeker_at_chance_still_says_that_it_proves_nothing():
    sentence = verdict(with_score(500, 500))
    assert "one attack on one data set, not proof of safety" in sentence
    assert "leak" not in sentence


def test_a_seeker_that_is_wrong_too_often_is_reported_as_a_leak():
    result = with_score(350, 650)
    assert "turned around" in verdict(result)
    assert leaks(result)


def test_a_leak_among_few_members_is_not_hidden_by_the_constant_guess():
    result = with_score(60, 100, members=100, non_members=900)
    sentence = verdict(result)
    assert "below chance (0.900)" in sentence
    assert "names members more often than non-members (60.0 % against 11.1 %), which is a leak" in sentence
    assert leaks(result)


def test_scores_that_find_a_few_members_surely_are_a_leak_although_the_labels_are_at_chance():
    generator = np.random.default_rng(0)
    labels = np.arange(2000) < 1000
    scores = generator.normal(size=2000)
    scores[:60] += 10  # 6 % of members are certain; the rest look like anybody
    result, _ = simulated_match()
    result["reidentification"] = statistics.reidentification(labels, np.arange(2000) % 2, scores)
    assert "indistinguishable from chance" in verdict(result)
    assert re.search(r"find [67]\.\d % of members .* at 1 % false positives, which is a leak", verdict(result))
    assert leaks(result)


def test_kept_utility_leads_and_the_2020_checks_follow_under_their_name(write):
    result, arrays = simulated_match()
    sentence = verdict(result)
    assert "kept utility is 0.41 (0.37 to 0.45), where 1 is as good as other real stays" in sentence
    assert sentence.index("kept utility") < sentence.index("2020 checks")
    page = write(result, arrays)
    assert "Utility: 0.41 kept" in page.text
    assert page.text.index("Utility: 0.41 kept") < page.text.index("The checks of 2020")
    assert "length of stay other real stays do not answer it either" in page.text
    assert "forecast: 0.62 (0.58 to 0.66)" in page.plot("kept")
    assert page.plot("beside") is not None


def test_too_few_stays_are_no_pass(write):
    result, arrays = simulated_match()
    kept = result["utility"]["kept"]
    kept["headline"] = {"value": None, "low": None, "high": None}
    for family in kept["families"]:
        family |= {"kept": kept["headline"], "unclipped": None, "reason": "too few stays to judge"}
    assert "too few stays to judge kept utility" in verdict(result)
    page = write(result, arrays)
    assert "Utility: too few stays to judge" in page.text
    assert page.plot("kept").count("not judged") >= 3


def test_verdict_says_which_checks_fail_and_what_time_hides():
    result, _ = simulated_match()
    checks = result["utility"]["feature_prediction"]
    checks[0] |= {"passed": False, "ratio": 5.41}
    checks.append(
        {"name": "MechVent", "metric": "AUROC", "original": 0.9, "generated": 0.6, "ratio": 0.67, "passed": False}
    )
    sentence = verdict(result)
    assert "1 of 3 feature predictions pass" in sentence
    assert "HR fails with 5.41 x the original's error" in sentence
    assert "MechVent fails with an AUROC of 0.6 against 0.9" in sentence
    assert "one-step-ahead prediction passes (1.00 x the original's error, 1.89 x with time left out)" in sentence


def test_verdict_says_what_was_not_checked():
    result, _ = simulated_match(scores=False)
    assert "gave labels and no scores" in verdict(result)
    result["utility"] |= {"feature_prediction": None}
    assert "feature prediction was skipped" in verdict(result)
    result["utility"] |= {"one_step_ahead": None}
    assert "one-step-ahead prediction was skipped" in verdict(result)
    result |= {"utility": None, "utility_skipped": "TensorFlow is not installed"}
    assert "the 2020 checks of utility were not run (TensorFlow is not installed)" in verdict(result)


def test_what_luck_shows_in_one_split_of_eight_is_called_signs_and_what_it_hardly_shows_a_leak(write):
    _, arrays = simulated_match(shift=0.0, scores=False)
    arrays = dataclasses.replace(arrays, member_distances=np.empty(0), non_member_distances=np.empty(0))
    for found, expected, heading in (
        (500, "none", "This attack did no better than chance"),
        (525, "signs", "Signs of a leak: possibly luck, so play other seeds"),
        (560, "leak", "Leak: members can be told from non-members"),
    ):
        result = with_score(found, 1000 - found)
        assert evidence(result) == expected
        page = write(result, arrays).text
        assert heading in page
        assert ("gives members away" in page or "which is a leak" in page) == (expected == "leak")


def test_the_users_own_files_are_called_theirs(write):
    result, arrays = simulated_match()
    for role in ("hider", "seeker"):
        result[role] |= {"name": role, "source": f"{role}.py"}
    page = write(result, arrays).text
    assert "your hider against your seeker" in page
    assert "Your seeker found" in page
    assert "seeker seeker" not in page


def test_the_word_leak_follows_the_figure_that_shows_it():
    labels = np.arange(300) < 150
    scores = np.where(labels, 1.0, 0.0) + np.random.default_rng(0).normal(0, 1, 300)
    scores[150:153] = 100.0  # three non-members at the top: nobody is found at 1 % false positives
    result, _ = simulated_match()
    result["reidentification"] = statistics.reidentification(labels, scores > 0.5, scores)
    sentence = verdict(result)
    assert re.search(
        r"AUROC of 0\.\d+ \([^)]*\), which is a leak, and find 0\.0 % of members \([^)]*\) at 1 %", sentence
    )
    assert "at 1 % false positives, which is a leak" not in sentence
    assert "150 non-members are too few to say this exactly" in sentence


def test_a_predictor_no_better_than_a_constant_guess_is_no_proof_of_utility(write):
    result, arrays = simulated_match()
    for row, better in zip(result["utility"]["feature_prediction"], (True, False), strict=True):
        row |= {"constant": 0.115, "better_than_constant": better, "passed": True if better else None}
    result["utility"]["passed"] = None
    sentence = verdict(result)
    assert "1 of 2 are void: the predictors trained on the original data are no better than a constant" in sentence
    page = write(result, arrays)
    assert "a constant guess: 0.115; the predictor trained on the original data is no better than that" in page.text
    assert "The checks of 2020 void" in page.text


def test_copied_members_are_a_leak_whatever_the_seeker_found(write):
    result, arrays = simulated_match(shift=0.0)
    result["reidentification"] = with_score(100, 100, 200, 200)["reidentification"]
    assert not leaks(result)
    copied = arrays.non_member_distances.copy()  # as near as the non-members, but for two exact copies
    copied[:2] = 0.0002
    arrays = dataclasses.replace(arrays, member_distances=copied, scores=None)
    result["distance"] = distance_figures(arrays)
    assert result["distance"]["auroc_ci95"][0] < 0.5
    assert leaks(result)
    assert "2 of 150 members and 0 of 150 non-members measured were generated all but unchanged" in verdict(result)
    del result["distance"]  # the report measures it where the match did not
    assert "Leak: members can be told from non-members" in write(result, arrays).text


# --- the page ---


def test_the_report_needs_nothing_from_elsewhere(write):
    page = write(*simulated_match())
    assert "default-src 'none'" in page.source
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "image", "base"}
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import|@font-face", page.source)
    assert "http" not in re.sub(r'http-equiv|xmlns(:\w+)?="[^"]*"', "", page.source)


def test_every_privacy_figure_is_on_the_page(write):
    result, arrays = simulated_match(members=150, non_members=250)
    page, figures = write(result, arrays), result["reidentification"]
    for key in ("score", "advantage", "auroc"):
        low, high = figures[f"{key}_ci95"]
        assert f"{figures[key]:.3f} {low:.3f} to {high:.3f}" in page.text
    for key in ("members_found_rate", "false_alarm_rate", "tpr_at_1_percent_fpr"):
        low, high = figures[f"{key}_ci95"]
        assert f"{100 * figures[key]:.1f} % {100 * low:.1f} % to {100 * high:.1f} %" in page.text
    assert f"{figures['members_found']} of 150" in page.text
    assert f"{figures['false_alarms']} of 250" in page.text
    assert "0.625" in page.text  # chance: the better constant guess


def test_pass_and_fail_are_words(write):
    result, arrays = simulated_match()
    result["utility"]["feature_prediction"][1] |= {"passed": False, "ratio": 6.0}
    result["utility"]["passed"] = False
    text = write(result, arrays).text
    assert "The checks of 2020 FAIL" in text
    assert "Predict HR pass RMSE 0.11 0.17 1.50 x" in text
    assert "Predict K FAIL RMSE 0.12 0.19 6.00 x" in text
    assert "One-step-ahead without time not judged RMSE 0.071 0.134 1.89 x" in text


def test_hostile_names_stay_text(write):
    hostile = '<script>alert("x")</script>--> $\\alpha$ {{ 7 * 7 }} & "quoted"'
    result, arrays = simulated_match()
    result["data"]["feature_names"] = [hostile] * 6
    for row in result["utility"]["feature_prediction"] + result["utility"]["one_step_ahead_per_feature"]:
        row["name"] = hostile
    result["seeker"]["name"] = result["settings"]["note"] = hostile
    result["warnings"] = [hostile]
    page = write(result, arrays)
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert hostile in page.text  # whole, as it was written
    assert "&lt;script&gt;" in page.plot("ahead")
    result["data"]["feature_names"] = ["$K_2$"] * 6
    assert page.source != (dollars := write(result, arrays)).source
    assert ">$K_2$</text>" in dollars.plot("stay")  # not taken for a formula


def test_the_report_holds_no_folders_of_this_machine(write):
    result, arrays = simulated_match()
    result["hider"]["source"] = "/home/jane doe/secret/hider_mine.py"
    result["settings"]["data_path"] = "C:\\Users\\jane\\stays.csv"
    result["warnings"] = [
        "no cache could be written beside /srv/secret-project/stays.csv; go on",
        "12 mg/dl/h is no path",
    ]
    page = write(result, arrays)
    assert "hider_mine.py" in page.text
    assert "beside stays.csv; go on" in page.text
    assert "12 mg/dl/h is no path" in page.text
    assert not re.search("jane|secret|srv", page.source)


def test_times_are_shown_since_the_stays_start_not_as_they_were(write):
    page = write(*simulated_match())  # the stay's time column runs from 1005
    assert not re.search(r">10[0-3]\d<", page.plot("stay"))


def test_the_same_match_gives_the_same_file(write):
    result, arrays = simulated_match()
    assert write(result, arrays).source == write(copy.deepcopy(result), arrays).source


def test_ids_are_unique_and_every_reference_has_its_target(write):
    page = write(*simulated_match(features=20))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labelledby="(\S+) (\S+)"', page.source)
    assert wanted
    assert {name for names in wanted for name in names if name} <= set(ids)


def test_plots_take_their_colours_and_fonts_from_the_page(write):
    page = write(*simulated_match())
    for name in ("rates", "distances", "roc", "checks-rmse", "ahead", "stay", "marginal-1"):
        svg = page.plot(name)
        assert 'role="img"' in svg
        assert "<title" in svg
        assert "<desc" in svg
        assert not re.search(r"#[0-9a-f]{6}\b|font-family|<style", svg)
    assert "var(--original)" in page.plot("stay")
    assert "var(--generated)" in page.plot("stay")
    for line in ("--member)", "--non-member)", "stroke-dasharray"):
        assert line in page.plot("distances")


def points(svg, colour):
    """The vertices of the longest line of a colour."""
    lines = re.findall(rf'<path d="([^"]*)"[^>]*style="[^"]*stroke: var\(--{colour}\)', svg)
    return np.array(re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", max(lines, key=len)), dtype=float)


def test_the_members_curve_rises_first_where_generated_stays_lie_near_members():
    members, non_members = np.linspace(0.1, 0.2, 50), np.linspace(0.3, 0.4, 80)
    svg = str(plots.distances_plot(members, non_members))
    curves = {name: points(svg, name) for name in ("member", "non-member")}
    half = {name: curve[np.argmin(abs(curve[:, 1] - curve[:, 1].mean())), 0] for name, curve in curves.items()}
    assert half["member"] < half["non-member"]
    assert curves["member"][0, 1] == curves["non-member"][0, 1]  # both begin at 0 % (y runs downwards) ...
    assert curves["member"][:, 1].min() == curves["non-member"][:, 1].min()  # ... and reach 100 %


def test_the_roc_curve_passes_through_the_point_marked_at_one_percent():
    fpr, tpr = np.array([0, 0.005, 0.02, 1.0]), np.array([0, 0.1, 0.5, 1.0])
    svg = str(plots.roc_plot(fpr, tpr, 0.1, 1000))
    curve = points(svg, "member")
    [(x, y)] = re.findall(r'<use xlink:href="#[^"]*" x="([\d.]+)" y="([\d.]+)" style="[^"]*fill: var\(--member\)', svg)[
        :1
    ]
    before = curve[curve[:, 0] <= float(x) + 0.5][-1]
    assert before[1] == pytest.approx(float(y), abs=0.5)
    assert "stroke: var(--ink)" in svg  # the chance line


def test_marginals_that_differ_most_come_first_and_the_rest_unfold(write):
    page = write(*simulated_match(features=20))
    shown = [int(i) for i in re.findall(r'aria-labelledby="marginal-(\d+)-title', page.source)]
    assert shown == list(range(19, -1, -1))
    assert page.source.index("8 more features") < page.source.index('aria-labelledby="marginal-7-title')
    assert page.source.index("8 more features") > page.source.index('aria-labelledby="marginal-8-title')


def test_labels_without_scores_leave_out_the_curve_and_say_so(write):
    page = write(*simulated_match(scores=False))
    assert page.plot("roc") is None
    assert "This seeker gave labels only" in page.text


def test_a_report_without_utility_says_that_nothing_is_known(write):
    result, arrays = simulated_match()
    page = write(result | {"utility": None, "utility_skipped": "TensorFlow is not installed"}, arrays)
    assert "Not run: TensorFlow is not installed" in page.text
    assert page.plot("checks-rmse") is None


@pytest.mark.parametrize("features", [1, 2, 71])
def test_any_number_of_features(write, features):
    page = write(*simulated_match(features=features))
    assert len(re.findall('aria-labelledby="marginal-', page.source)) == features
    assert len(page.source) < 2_000_000


def test_what_is_missing_or_not_finite_is_left_out(write):
    result, arrays = simulated_match()
    utility = result["utility"]
    utility["feature_prediction"][0] |= {"original": 0.0, "generated": float("nan"), "ratio": None}
    utility["one_step_ahead"] = utility["one_step_ahead_without_time"] = utility["ratio_geometric_mean"] = None
    for row in utility["one_step_ahead_per_feature"]:
        row |= {"original": float("inf"), "ratio": float("nan")}
    nothing = np.full((30, 6), np.nan)
    arrays = dataclasses.replace(
        arrays,
        member_distances=np.array([np.nan]),
        original_stay=nothing,
        generated_stay=nothing,
        original_stay_padded=np.ones(30, dtype=bool),
        histograms=[(1, np.array([2.0, 2.0]), np.array([np.nan]), np.array([np.nan]))],
    )
    page = write(result, arrays)
    assert "No distances were measured" in page.text
    assert "The stay drawn has no observed values" in page.text
    assert "No feature has observed values" in page.text
    assert not re.search(r"\b(nan|inf|None)\b", page.text)


def test_a_binary_feature_is_drawn_by_its_auroc(write):
    result, arrays = simulated_match()
    result["utility"]["feature_prediction"] = [
        {"index": 5, "name": "MechVent", "task": "classification", "metric": "AUROC", "original": 0.9, "generated": 0.8,
         "ratio": 0.89, "passed": True}
    ]  # fmt: skip
    page = write(result, arrays)
    assert "MechVent" in page.plot("checks-auroc")
    assert "MechVent" not in page.plot("checks-rmse")


def test_an_earlier_report_survives_one_that_cannot_be_made(write, tmp_path):
    result, arrays = simulated_match()
    before = write(result, arrays).source
    del result["reidentification"]
    with pytest.raises(KeyError):
        write_report(result, arrays, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
