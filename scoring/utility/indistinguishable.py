"""Could you tell a released stay from a real one? It is shown beside kept utility and is no part of the headline.

A classifier can tell two data sets apart by a decimal place, and that costs a researcher nothing. So these figures say
how a release differs, and not what it is good for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from scoring.statistics import auroc
from scoring.utility.learning import BOOSTING
from scoring.utility.observed import Observed
from scoring.utility.tasks import Plan

LEAST_STAYS = 100  # real and generated, or there are too few stays to judge
CHANNELS = 16  # features that the encoder looks at, the most often measured first
KERNELS = 96
_KERNEL_LENGTH = 7
_CHANNELS_A_KERNEL = 3
_STEPS = 64  # points in time, at even distances over the stay, that the encoder sees
_VALUES = ("mean", "std", "min", "max", "first", "last")


def real_or_generated(real: Observed, generated: Observed, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
    """Tell generated stays from real ones by gradient boosting on summaries, with and without missingness and lengths.

    Parameters
    ----------
    real, generated : Observed
        The real stays are ones that the hider never saw.
    plan : Plan
    rng : numpy.random.Generator
        Draws the halves to learn from and to test on.

    Returns
    -------
    dict
        `with_missingness` and `without_missingness`, each with `auroc` and `auroc_ci95` on stays that were not learnt
        from: 0.5 is best. Without missingness there are no rates, lengths and counts, and a summary that is missing is
        the real stays' median. None if there are too few stays.
    """
    count = min(len(real), len(generated))
    if count < LEAST_STAYS:
        return {"with_missingness": None, "without_missingness": None}
    both = [stays.part(np.sort(rng.permutation(len(stays))[:count])) for stays in (real, generated)]
    labels = np.repeat([False, True], count)
    learnt = np.tile(rng.permutation(count) < count // 2, 2)
    found = [plan.clipped(stays).summarise(stays.rows) for stays in both]
    values = np.concatenate([np.hstack([each[name][:, plan.dynamic] for name in _VALUES]) for each in found])
    medians = np.nan_to_num(_medians(values[:count]))
    filled = np.where(np.isfinite(values), values, medians)
    counts = [np.hstack([each["rate"][:, plan.dynamic], s.size]) for each, s in zip(found, both, strict=True)]
    return {
        "with_missingness": _told(np.hstack([values, np.concatenate(counts)]), labels, learnt),
        "without_missingness": _told(filled, labels, learnt),
    }


def _told(inputs: np.ndarray, labels: np.ndarray, learnt: np.ndarray) -> dict[str, Any]:
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(**BOOSTING).fit(inputs[learnt], labels[learnt])
        area, interval = auroc(labels[~learnt], model.decision_function(inputs[~learnt]))
    return {"auroc": area, "auroc_ci95": list(interval)}


def _medians(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values, axis=0)  # NaN last
    known = np.isfinite(values).sum(axis=0)
    return ordered[np.maximum(known - 1, 0) // 2, np.arange(values.shape[1])]


@dataclass(frozen=True)
class Encoder:
    """A fixed encoder of stays: random convolutions over values carried forward, drawn from a seed.

    Random kernels with the share of positive outputs and the maximum of each are features that tell time series apart
    without any training (ROCKET, Dempster et al., Data Mining and Knowledge Discovery 2020). Nothing is learnt, so the
    code of a stay does not depend on the release.

    Attributes
    ----------
    features : ndarray of int
    centre, spread : ndarray, shape [channels]
    kernels : ndarray, shape [KERNELS, channels, _KERNEL_LENGTH]
    biases, dilations : ndarray, shape [KERNELS]
    """

    features: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    kernels: np.ndarray
    biases: np.ndarray
    dilations: np.ndarray

    @classmethod
    def of(cls, real: Observed, plan: Plan, seed: int) -> "Encoder":
        """Draw an encoder. The scale of each feature is that of the real stays."""
        rng = np.random.default_rng(seed)
        order = plan.dynamic[np.argsort(-real.seen[:, :, plan.dynamic].sum(axis=(0, 1)), kind="stable")]
        features = order[:CHANNELS]
        columns = [real.values[:, :, feature] for feature in features]
        known = [column[np.isfinite(column)] for column in columns]
        kernels = rng.normal(size=(KERNELS, len(features), _KERNEL_LENGTH))
        kernels -= kernels.mean(axis=2, keepdims=True)
        for kernel in kernels:
            kernel[rng.permutation(len(features))[_CHANNELS_A_KERNEL:]] = 0.0
        return cls(
            features,
            np.array([values.mean() for values in known]),
            np.array([max(float(values.std()), 1e-9) for values in known]),
            kernels,
            rng.uniform(-1, 1, KERNELS),
            2 ** rng.integers(0, 4, KERNELS),
        )

    def encode(self, stays: Observed) -> np.ndarray:
        """Return the codes of stays, shape [N, 2 * KERNELS]."""
        series = self._series(stays)
        codes = np.empty((len(series), 2 * KERNELS))
        for place, (kernel, bias, dilation) in enumerate(zip(self.kernels, self.biases, self.dilations, strict=True)):
            used = np.flatnonzero(kernel.any(axis=1))
            width = _STEPS - dilation * (_KERNEL_LENGTH - 1)
            out = np.full((len(series), width), bias)
            for tap in range(_KERNEL_LENGTH):
                start = tap * dilation
                out += np.einsum("nct,c->nt", series[:, used, start : start + width], kernel[used, tap])
            codes[:, 2 * place], codes[:, 2 * place + 1] = (out > 0).mean(axis=1), out.max(axis=1)
        return codes

    def _series(self, stays: Observed) -> np.ndarray:
        """Standardise, carry values forward, read the stay at even distances in time. Shape [N, channels, STEPS]."""
        values = (stays.values[:, :, self.features] - self.centre) / self.spread
        last = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(values.shape[1])[:, None], -1), axis=1)
        carried = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=1), 0.0)
        wanted = stays.durations[:, None] * np.linspace(0, 1, _STEPS)
        times = np.where(stays.rows, stays.times, np.inf)
        rows = (times[:, None, :] <= wanted[:, :, None] + 1e-9).sum(axis=2) - 1
        return np.take_along_axis(carried, np.maximum(rows, 0)[:, :, None], axis=1).transpose(0, 2, 1)


def context_fid(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Fréchet distance of two sets of codes [N, D], each taken as a normal distribution.

    Jeha et al., "PSA-GAN", ICLR 2022, call it Context-FID if the codes are of time series. 0 is best. It grows as sets
    get smaller, so it is read beside the distance of other real stays of the same number.
    """
    scale = np.maximum(first.std(axis=0), 1e-9)
    first, second = first / scale, second / scale
    between = np.cov(first.T) @ np.cov(second.T)
    # The trace of a root of a product of covariances is the sum of the roots of its eigenvalues.
    roots = np.sqrt(np.maximum(np.linalg.eigvals(between).real, 0)).sum()
    means = np.square(first.mean(axis=0) - second.mean(axis=0)).sum()
    return float(max(means + np.trace(np.cov(first.T)) + np.trace(np.cov(second.T)) - 2 * roots, 0.0))
