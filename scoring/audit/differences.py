"""Do members and others differ already without a release? Then no attack on the release can be believed."""

from typing import Any

import numpy as np

from scoring.round import Round
from scoring.statistics import auroc
from utils.stay_vectors import stay_vectors

STAYS = 4_000  # compared at most
TREES = 100
FOLDS = 4
CERTAIN = 5  # comparisons that the interval is corrected for: 99 % in place of 95 %


def members_against_others(round_: Round, first_stays: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Let a random forest tell members from others by the real stays alone.

    Parameters
    ----------
    round_ : Round
    first_stays : ndarray of bool, shape [N]
        The stays that take part: one of each patient.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        `auroc` with its 99 % interval `auroc_ci99`, and `differ`: whether the interval lies above 0.5. Members and
        others drawn at random from one hospital do not differ.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    chosen = np.sort(rng.permutation(np.flatnonzero(first_stays))[:STAYS])
    data, mask = round_.data[chosen], round_.padding_mask[chosen]
    given = {
        "generated_data": data[:1],
        "generated_data_padding_mask": mask[:1],
        "enlarged_data": data,
        "enlarged_data_padding_mask": mask,
    }
    vectors = np.nan_to_num(stay_vectors(given)[1], nan=-1e6)
    truth = round_.truth[chosen]
    folds = int(min(FOLDS, truth.sum(), (~truth).sum()))
    seed = int(rng.integers(2**31))
    forest = RandomForestClassifier(TREES, min_samples_leaf=3, max_features=0.1, random_state=seed)
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    scores = cross_val_predict(forest, vectors, truth, cv=split, method="predict_proba")[:, 1]
    area, interval = auroc(truth, scores, CERTAIN)
    return {"auroc": area, "auroc_ci99": list(interval), "differ": interval[0] > 0.5, "stays": len(chosen)}
