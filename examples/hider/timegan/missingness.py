"""When measurements are missing: a model of the data's own pattern, sampled without copying any patient's."""

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import MiniBatchKMeans

ROW_TYPES = 16
ROWS_PER_TYPE = 200  # fewer rows make fewer types: a type should stand for many stays
PRIOR_ROWS = 20.0  # each type's rates are pulled towards the overall ones as if it had this many more average rows
FIT_ROWS = 50_000


@dataclass(frozen=True)
class MissingnessModel:
    """A Markov chain of row types: which measurements come together, how rows follow one another.

    A stay's own mask says exactly when which test was ordered. That identifies a patient as surely as the values do,
    so none is handed on. Rows are clustered by what was observed in them and how often it is observed in their stay
    (a ventilated patient's rows form other types than a ward patient's, and so succeed one another). A generated stay
    is a walk through the types, each cell drawn from its type's rate. What is lost: rarer patterns than the types,
    and any dependence of missingness on the values.

    Attributes
    ----------
    start : ndarray, shape [K]
        Probability of a stay's first row to be of each type.
    succession : ndarray, shape [K, K]
        Probability of the next row's type, given this one's.
    observed : ndarray, shape [K, F]
        Probability of each feature to be observed in a row of each type.
    """

    start: np.ndarray
    succession: np.ndarray
    observed: np.ndarray

    @classmethod
    def fit(cls, missing: np.ndarray, real: np.ndarray, rng: np.random.Generator) -> "MissingnessModel":
        """Fit on `missing` [N, T, F], where `real` [N, T] marks rows that are not padding."""
        seen = (~missing & real[:, :, None]).astype(np.float32)
        rate = seen.sum(axis=1) / np.maximum(real.sum(axis=1), 1)[:, None]
        stay, _ = np.nonzero(real)
        rows = seen[real]
        described = np.concatenate([rows, rate[stay]], axis=1)
        types = max(1, min(ROW_TYPES, len(rows) // ROWS_PER_TYPE))
        sample = rng.permutation(len(rows))[:FIT_ROWS]
        model = MiniBatchKMeans(types, n_init=3, batch_size=4096, random_state=int(rng.integers(2**31)))
        kind = model.fit(described[sample]).predict(described)

        overall = rows.mean(axis=0)
        counts = np.bincount(kind, minlength=types)[:, None]
        sums = np.zeros((types, rows.shape[1]))
        np.add.at(sums, kind, rows)
        observed = (sums + PRIOR_ROWS * overall) / (counts + PRIOR_ROWS)

        follows = stay[1:] == stay[:-1]
        start = np.bincount(kind[np.append(True, ~follows)], minlength=types) + 1.0
        succession = np.ones((types, types))
        np.add.at(succession, (kind[:-1][follows], kind[1:][follows]), 1.0)
        return cls(start / start.sum(), succession / succession.sum(axis=1, keepdims=True), observed)

    def sample(self, real: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw where values are missing, shape [N, T, F], in the rows that `real` [N, T] marks."""
        stays, time_points = real.shape
        missing = np.zeros((stays, time_points, self.observed.shape[1]), bool)
        kind = _choose(np.broadcast_to(self.start, (stays, len(self.start))), rng)
        for t in range(time_points):
            if t:
                kind = np.where(real[:, t - 1], _choose(self.succession[kind], rng), kind)
            missing[:, t] = (rng.random(missing[:, t].shape) >= self.observed[kind]) & real[:, t, None]
        return missing


def _choose(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one index a row of `probabilities` [N, K]."""
    draw = rng.random((len(probabilities), 1))
    return np.minimum((probabilities.cumsum(axis=1) < draw).sum(axis=1), probabilities.shape[1] - 1)
