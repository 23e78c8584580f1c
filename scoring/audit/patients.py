"""The tail: who is most at risk, and how sure the attacks are of them."""

from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from scoring.statistics import tpr_at_fpr

SHARES = (0.01, 0.1, 0.5)  # of members among those whom an attacker looks at
FALSE_ALARMS = (0.001, 0.01, 0.1)
FOLDS = 5
SURE = 0.9  # probability from which an attack counts as sure of a patient


def figures(truth: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """Return what an attack finds at few false alarms, and its precision where members are few.

    Parameters
    ----------
    truth : ndarray of bool, shape [N]
    scores : ndarray of float, shape [N]

    Returns
    -------
    dict
        `found`: for each rate of false alarms the share of members found, with interval. `precision`: for each share of
        members, how many of those named at 1 % false alarms are members, with interval.
    """
    others = int((~truth).sum())
    found: list[dict[str, Any]] = []
    precision: list[dict[str, Any]] = []
    for rate in FALSE_ALARMS:
        if rate * others < 1:  # not even one false alarm: nothing can be said
            continue
        share, interval = tpr_at_fpr(truth, scores, rate)
        found.append({"false_alarms": rate, "found": share, "found_ci95": list(interval)})
    at_one = next((row for row in found if row["false_alarms"] == 0.01), None)
    if at_one is not None:
        low, high = at_one["found_ci95"]
        for share in SHARES:
            value, *limits = (_precision(float(tpr), 0.01, share) for tpr in (at_one["found"], low, high))
            precision.append({"members_share": share, "precision": value, "precision_ci95": limits})
    return {"found": found, "precision": precision}


def _precision(tpr: float, fpr: float, share: float) -> float:
    """Share of members among those named (Bayes)."""
    return share * tpr / (share * tpr + (1 - share) * fpr)


def membership_probability(truth: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how probably each stay is a member, from all attacks together.

    A logistic regression on the normal scores of the attacks' scores, and on whether an attack ranks the stay among its
    highest. Each stay is judged by a model that was fitted to other stays. It stands for an attacker who knows
    of many patients whether they are members.

    Parameters
    ----------
    truth : ndarray of bool, shape [N]
    scores : ndarray of float, shape [N, attacks]
    rng : numpy.random.Generator
        Draws the folds.

    Returns
    -------
    ndarray of float, shape [N]
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    ranks = np.column_stack([rankdata(column) for column in scores.T]) / (len(scores) + 1)
    inputs = np.column_stack([ndtri(ranks), ranks > 0.99, ranks > 0.9])
    folds = int(min(FOLDS, truth.sum(), (~truth).sum()))
    split = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31)))
    model = LogisticRegression(C=0.1, max_iter=1_000)
    return np.asarray(cross_val_predict(model, inputs, truth, cv=split, method="predict_proba")[:, 1])


def tail(truth: np.ndarray, probability: np.ndarray) -> dict[str, Any]:
    """Return how many patients are named with how much certainty, and whether those named are members."""
    levels = []
    for level in (0.6, 0.75, SURE, 0.99):
        named = probability >= level
        levels.append({"at_least": level, "members": int((named & truth).sum()), "others": int((named & ~truth).sum())})
    highest = float(probability[truth].max())
    return {"levels": levels, "highest_of_a_member": highest, **figures(truth, probability)}
