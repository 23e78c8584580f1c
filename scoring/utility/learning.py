"""Learning one task from one set of stays and answering it on another."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from scoring.utility.tasks import Task

_LEAST_TO_LEARN = 40  # stays with an answer; fewer teach nothing
# Small on purpose: a match fits a few hundred of these, 0.1 s each at 1,000 stays and 120 inputs.
_BOOSTING = {
    "max_iter": 60,
    "learning_rate": 0.1,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 20,
    "max_bins": 63,
    "early_stopping": False,
    "random_state": 0,
}


def learn(lesson: Task, test: Task, limits: tuple[float, float], middle: float | None) -> np.ndarray:
    """Learn a task with gradient boosting and answer it for other stays.

    Parameters
    ----------
    lesson, test : Task
        The same task on the stays to learn from and on those to answer for.
    limits : (float, float)
        Answers to learn from are clipped to these.
    middle : float or None
        For an answer of two values: what lies above is the second.

    Returns
    -------
    ndarray, shape [stays of `test`]
        The answer; for two values the score of the second. NaN (two values: 0) where nothing can be learnt.
    """
    known = np.isfinite(lesson.target)
    inputs, target = lesson.inputs[known], np.clip(lesson.target[known], *limits)
    if middle is None:
        if known.sum() < _LEAST_TO_LEARN:
            return np.full(len(test.target), np.nan)
        return np.asarray(HistGradientBoostingRegressor(**_BOOSTING).fit(inputs, target).predict(test.inputs))
    labels = target > middle
    if known.sum() < _LEAST_TO_LEARN or labels.all() or not labels.any():
        return np.zeros(len(test.target))
    model = HistGradientBoostingClassifier(**_BOOSTING).fit(inputs, labels)
    return np.asarray(model.decision_function(test.inputs))
