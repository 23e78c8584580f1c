"""Ensemble seeker: what an attacker without the hider's code can do best with the scores of all other seekers.

Ours. Every seeker's scores become normal ranks and are added up with weights. No label is seen, so the weights come
from two sources. A small fixed weight says how far a seeker can be trusted if nothing stands out. A large one is added
if a seeker's scores fall into two clusters, of which the upper is about as large as the number of generated stays. That
is what copies and other strong leaks look like.

What it exploits: whatever any seeker sees. Errors of seekers that look at different things average out.

What it cannot see: which seeker is right about a weak leak. There its fixed weights decide, and the best single seeker
may be better. Whoever holds the hider's code learns the weights instead (seeker_shadow.py).

It finds the other seekers when it runs, beside its own file (`utils/methods.py`), and runs their code in this process.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.mixture import GaussianMixture

from utils.errors import UserError
from utils.methods import load_method, seeker_scores
from utils.progress import progress_bar, without_bars
from utils.stays import label_highest

HOME = Path(__file__).resolve().parent
# Seekers and their weights if nothing stands out. Chosen on one half of PhysioNet 2012 set-a.
WEIGHTS = {
    "moments": 1.0,
    "density": 0.3,
    "classifier": 0.3,
    "forecast": 0.3,
    "matching:stays": 0.3,
    "matching:time_points": 0.3,
    "knn": 0.3,
    "timeknn": 0.3,
}


@dataclass(frozen=True)
class Parameters:
    seekers: str = ""  # names joined by +. Empty: those of WEIGHTS that lie beside this file
    distinct: float = 2.5  # clusters further apart than this many of their standard deviations stand out
    trust: float = 20.0  # weight for each standard deviation beyond that
    share: float = 0.15  # by how much the upper cluster's share may differ from that of the generated stays

    def __post_init__(self) -> None:
        for name in ("distinct", "trust", "share"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")


_WIDEST = 5.0  # scores beyond so many standard deviations from the median are drawn in
_TIED = 0.05  # a seeker that gives more stays than this share one score has clusters by construction
_FEWEST = 20  # stays, below which two clusters say nothing


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays with the highest weighted ranks, as many as there are generated stays.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.
    parameters : Parameters

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Weighted mean of normal ranks.

    Raises
    ------
    UserError
        If a seeker is not there or fails, or none is there.
    """
    if parameters.seekers:
        names = [name.strip() for name in parameters.seekers.split("+") if name.strip()]
    else:
        names = [name for name in WEIGHTS if (HOME / f"seeker_{name.partition(':')[0]}.py").is_file()]
    if not names:
        raise UserError(f"ensemble combines other seekers, and none lies beside it in {HOME}")
    seekers = {name: load_method("seeker", name, HOME) for name in names}
    scores = []
    with progress_bar(len(names), "asking seekers", "seeker") as bar:
        for name, play in seekers.items():
            with without_bars():
                scores.append(seeker_scores(play, input_dict, name))
            bar.update()
    count = len(input_dict["generated_data"])
    weights = [
        WEIGHTS.get(name, 0.3)
        + parameters.trust * max(0.0, distinctness(row, count / len(row), parameters.share) - parameters.distinct)
        for name, row in zip(names, scores, strict=True)
    ]
    ranks = ndtri((rankdata(scores, axis=1) - 0.5) / len(scores[0]))
    combined = np.asarray(weights) @ ranks / sum(weights)
    return label_highest(combined, count), combined


def distinctness(scores: np.ndarray, share: float, tolerance: float) -> float:
    """Return how far apart two clusters of scores are, in the geometric mean of their standard deviations.

    Parameters
    ----------
    scores : ndarray, shape [M]
    share : float
        Of the stays, expected in the upper cluster.
    tolerance : float

    Returns
    -------
    float
        0 if the upper cluster has another share, if many scores are equal, or if there are few.
    """
    spread = scores.std()
    _, counts = np.unique(scores, return_counts=True)
    if len(scores) < _FEWEST or counts.max() > _TIED * len(scores) or not spread > 0:
        return 0.0
    values = ((scores - np.median(scores)) / spread).clip(-_WIDEST, _WIDEST)[:, None]
    mixture = GaussianMixture(2, reg_covar=1e-3, random_state=0, max_iter=500).fit(values)
    means = mixture.means_[:, 0]
    if abs(mixture.weights_[means.argmax()] - share) > tolerance:
        return 0.0
    return float(np.ptp(means) / np.prod(mixture.covariances_) ** 0.25)
