"""Learning one task from one set of stays, to answer it on another."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from scoring.utility.tasks import Task

_LEAST_TO_LEARN = 40  # stays with an answer. Fewer teach nothing
# Small on purpose: a match fits a few hundred of these, 0.1 s each at 1,000 stays and 120 inputs.
BOOSTING = {
    "max_iter": 60,
    "learning_rate": 0.1,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 20,
    "max_bins": 63,
    "early_stopping": False,
    "random_state": 0,
}


# Takes inputs [N, inputs] and returns answers [N]. For two values the score of the second. NaN (two values: 0) where
# nothing could be learnt.
Answers: TypeAlias = Callable[[np.ndarray], np.ndarray]


def fit(lesson: Task, limits: tuple[float, float], middle: float | None) -> Answers:
    """Learn a task with gradient boosting.

    Parameters
    ----------
    lesson : Task
        The task on the stays to learn from.
    limits : (float, float)
        Answers to learn from are clipped to these.
    middle : float or None
        For an answer of two values: what lies above is the second.

    Returns
    -------
    Answers
    """
    known = np.isfinite(lesson.target)
    inputs, target = lesson.inputs[known], np.clip(lesson.target[known], *limits)
    if middle is None:
        if known.sum() < _LEAST_TO_LEARN:
            return lambda inputs: np.full(len(inputs), np.nan)
        return HistGradientBoostingRegressor(**BOOSTING).fit(inputs, target).predict
    labels = target > middle
    if known.sum() < _LEAST_TO_LEARN or labels.all() or not labels.any():
        return lambda inputs: np.zeros(len(inputs))
    return HistGradientBoostingClassifier(**BOOSTING).fit(inputs, labels).decision_function
