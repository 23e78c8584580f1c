"""A yardstick that failed is not passed against: an original's predictor is begun anew, else its check is void."""

import numpy as np

from scoring.utility import challenge
from scoring.utility.challenge import ConstantScores, begun_anew, judge
from utils.metric_utils import UtilityScores

CONSTANT = ConstantScores(np.array([1.0, 0.2, 0.2]), 0.2)


def scores(first, second, ahead=0.1):
    return UtilityScores(
        (1, 2), ("regression",) * 2, np.array([first, second]), 5.0, np.array([9, ahead, ahead]), ahead
    )


def test_only_what_lost_to_a_constant_is_begun_anew_and_only_until_it_beats_it(monkeypatch):
    asked = []

    def again(train_sets, test, features, seeds, **wanted):
        asked.append((list(features), seeds, wanted["one_step_ahead"]))
        rmse = np.array([0.3 if len(asked) == 1 else 0.05])
        return {"it": [UtilityScores(tuple(features), ("regression",), rmse, None, np.empty(0), float("nan"))]}

    monkeypatch.setattr(challenge, "utility_scores", again)
    found = begun_anew(np.zeros((1, 1, 3)), np.zeros((1, 1, 3)), scores(0.1, 0.24), CONSTANT, 7)
    assert found.feature_prediction.tolist() == [0.1, 0.05]
    assert [features for features, _, _ in asked] == [[2], [2]]
    assert len({seed for _, (seed,), _ in asked} | {7}) == 3
    assert not any(ahead for _, _, ahead in asked)


def test_it_is_begun_anew_a_set_number_of_times_and_then_void(monkeypatch):
    asked = []

    def stuck(train_sets, test, features, seeds, **wanted):
        asked.append(seeds)
        worse = np.full(len(features), 0.5)
        return {"it": [UtilityScores(tuple(features), ("regression",) * len(features), worse, 5.0, np.ones(3), 0.5)]}

    monkeypatch.setattr(challenge, "utility_scores", stuck)
    original = begun_anew(np.zeros((1, 1, 3)), np.zeros((1, 1, 3)), scores(0.1, 0.24, ahead=0.3), CONSTANT, 0)
    assert len(asked) == challenge.BEGUN_ANEW
    verdict = judge(original, scores(0.1, 0.2), CONSTANT, ["time", "a", "b"], 0.85, 5.0)
    assert [row["passed"] for row in verdict["feature_prediction"]] == [True, None]
    assert verdict["one_step_ahead"]["passed"] is None
    assert verdict["passed"] is None


def test_a_failed_check_is_a_failure_whatever_else_is_void():
    verdict = judge(scores(0.1, 0.24), scores(0.9, 0.2), CONSTANT, ["time", "a", "b"], 0.85, 5.0)
    assert [row["passed"] for row in verdict["feature_prediction"]] == [False, None]
    assert verdict["passed"] is False
