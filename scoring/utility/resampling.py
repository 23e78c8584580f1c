"""How sure is a figure of utility: test stays drawn anew, and the judge trained a second time."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

RESAMPLED = 300  # times the test stays are drawn anew
_Z = 1.96


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval. `value` is None where it cannot be judged."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Resampling:
    """Weights of the test stays, the same for every task, so that figures of several tasks can be put together.

    The test stays are two halves. Each is the test of one judge.

    Attributes
    ----------
    half : int
    weights : ndarray of float32, shape [RESAMPLED + 3, 2 * half]
        All stays alike, then each resampling, then each half alone. Every figure has one value per row of this.
    """

    def __init__(self, half: int, rng: np.random.Generator) -> None:
        self.half = half
        share = np.full(half, 1 / max(half, 1))
        drawn = [rng.multinomial(half, share, RESAMPLED) if half else np.zeros((RESAMPLED, 0)) for _ in range(2)]
        alone = np.kron(np.eye(2), np.ones((1, half)))
        self.weights = np.vstack([np.ones((1, 2 * half)), np.hstack(drawn), alone]).astype(np.float32)

    def part(self, half: int) -> np.ndarray:
        """Return the weights of one half's stays: all alike, and each resampling. Shape [RESAMPLED + 1, half]."""
        return self.weights[: RESAMPLED + 1, half * self.half : (half + 1) * self.half]

    def join(self, figures: list[np.ndarray]) -> np.ndarray:
        """Put together one figure of each half [RESAMPLED + 1]: their mean, and at the end each half's own."""
        return np.concatenate([(figures[0] + figures[1]) / 2, [figures[0][0], figures[1][0]]])

    def r2(self, errors: np.ndarray, constant: np.ndarray) -> np.ndarray:
        """Return 1 - squared errors / squared errors of a constant under every weighting. NaN errors do not count."""
        known = np.isfinite(constant)
        weights = self.weights[:, known]
        floor = weights @ constant[known]
        return 1 - (weights @ errors[known]) / np.where(floor > 0, floor, np.inf)

    def auroc(self, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the AUROC under every weighting: the mean of the halves', whose scores come from two models."""
        return self.join(
            [
                weighted_auroc(labels[part], scores[part], self.part(half))
                for half, part in enumerate((slice(0, self.half), slice(self.half, None)))
            ]
        )


def weighted_auroc(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUROC under each weighting of the stays.

    Parameters
    ----------
    labels : ndarray, shape [n]
        1, 0, or NaN for stays that do not count.
    scores : ndarray, shape [n]
        Ties count half.
    weights : ndarray, shape [B, n]

    Returns
    -------
    ndarray, shape [B]
        0.5 where a weighting leaves no stay of one of the kinds.
    """
    known = np.isfinite(labels)
    ranks = rankdata(scores[known], method="dense").astype(int) - 1
    order = np.argsort(ranks, kind="stable")
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    positive = labels[known][order] > 0.5
    ordered = weights[:, known][:, order].astype(float)
    above = np.add.reduceat(ordered * positive, starts, axis=1)
    below = np.add.reduceat(ordered * ~positive, starts, axis=1)
    wins = (above * (np.cumsum(below, axis=1) - below / 2)).sum(axis=1)
    pairs = above.sum(axis=1) * below.sum(axis=1)
    return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1), 0.5)


def interval(draws: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval over resamplings of a figure that has one value per weighting."""
    low, high = np.nanquantile(draws[1 : RESAMPLED + 1], (0.025, 0.975))
    return float(low), float(high)


def estimate(draws: np.ndarray) -> tuple[Estimate, float]:
    """Return a figure from 0 to 1 with its interval, and the judges' spread.

    The two judges learn from other stays and are tested on others, so half their difference is a standard error of
    their mean. It joins the error of the resampling as squares add.
    """
    value = float(draws[0])
    low, high = interval(draws)
    spread = float(abs(draws[-2] - draws[-1]) / 2)
    down, up = np.hypot(max(value - low, 0), _Z * spread), np.hypot(max(high - value, 0), _Z * spread)
    return Estimate(value, float(max(value - down, 0.0)), float(min(value + up, 1.0))), spread
