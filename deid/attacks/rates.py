"""What an attack gives back: rates with their intervals, beside chance."""

from dataclasses import dataclass, field

import numpy as np

from deid.evaluation import DRAWS, wilson


@dataclass(frozen=True)
class Rate:
    """A rate over targets with its 95 % interval.

    The interval's lower end is the lower one of two intervals, and its upper end the upper one: Wilson's, and one that
    draws notes with replacement.
    """

    value: float
    low: float
    high: float
    trials: int


@dataclass
class Result:
    """One attack.

    Attributes
    ----------
    name : str
    rates : dict of str to Rate
        How often the attack was right, by the figure's name.
    chance : dict of str to float
        How often a guess is right, by the figure's name.
    series : dict of str to [n] array
        Values of the n targets.
    labels_alone : dict of str to float
        How often an attack that sees only the labels is right, if that is known.
    learned : (int, int), optional
        The epoch whose weights the attacker's network has, and the most epochs there could be. If they are equal, the
        network may not have learned all there is.
    """

    name: str
    rates: dict[str, Rate]
    chance: dict[str, float]
    series: dict[str, np.ndarray] = field(default_factory=dict)
    labels_alone: dict[str, float] = field(default_factory=dict)
    learned: tuple[int, int] | None = None


def rate(hits: np.ndarray, notes: np.ndarray, random: np.random.Generator) -> Rate:
    """Return the rate of `hits` [n] (0 or 1) of targets in `notes` [n]."""
    if not len(hits):
        return Rate(0.0, 0.0, 1.0, 0)
    low, high = wilson(round(float(np.sum(hits))), len(hits))
    from_notes = _by_notes(hits, notes, random)
    return Rate(float(np.mean(hits)), min(low, from_notes[0]), max(high, from_notes[1]), len(hits))


def gain(result: Result, without: Result, figure: str, random: np.random.Generator) -> Rate:
    """Return how much more often `result` is right than `without`, target by target. The interval draws notes."""
    more = result.series[figure] - without.series[figure]
    return Rate(float(np.mean(more)), *_by_notes(more, result.series["note"], random), len(more))


def _by_notes(values: np.ndarray, notes: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `values` [n] when the notes are drawn anew, with replacement."""
    _, place = np.unique(notes, return_inverse=True)
    sums, sizes = np.bincount(place, values), np.bincount(place)
    drawn = random.integers(len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(1) / sizes[drawn].sum(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
