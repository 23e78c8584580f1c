"""The three risks of the European guidance, for stays: singling out, linkability and attribute inference.

The Article 29 Working Party names them (Opinion 05/2014, WP216). Each is measured by an attacker who uses the release
on a target patient, once with members as targets and once with others. What succeeds with others is what the release
tells about everybody, and that is what a release is for. So

    risk = (success with members - success with others) / (1 - success with others)

is the share of members whom the release harms because they are in it. To compare with controls in this way is the idea
of Giomi et al. (PoPETs 2023). The attacks here are made for stays, which are described by summaries of each feature.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import fisher_exact

from scoring.round import Round
from scoring.statistics import wilson_interval
from utils.distances import nearest_neighbours
from utils.representations import summary_scores
from utils.stays import SUMMARIES, padded_rows

TARGETS = 2_000  # of either side, at most
GUESSES = 4_000  # released stays that a guess is made from, at most
FACTS = 3  # an attacker knows in singling out
EXPECTED = 0.3  # patients whom such facts fit by chance
POOL = 10  # candidates in linkability, one of them right
NEAR = 0.05  # a guessed value this near in rank counts as right
_MEAN = SUMMARIES.index("mean")


def measure(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Measure the three risks.

    Parameters
    ----------
    round_ : Round
    generated, generated_mask : ndarray, shape [n, T, F]
        The release.
    rng : numpy.random.Generator
        Draws targets, facts, decoys and secrets.

    Returns
    -------
    dict
        `singling_out`, `linkability`, `attribute_inference`, each as `risk_of` returns it.
    """
    count = min(len(round_.members), len(round_.others), TARGETS)
    sides = [rng.permutation(side)[:count] for side in (round_.members, round_.others)]
    chosen = np.concatenate(sides)
    made = rng.permutation(len(generated))[:GUESSES]
    # One ruler for members, others and the release.
    real, released = summary_scores(
        round_.data[chosen],
        padded_rows(round_.data[chosen], round_.padding_mask[chosen]),
        generated[made],
        padded_rows(generated[made], generated_mask[made]),
        parts=1,
    )
    features = round_.data.shape[2]
    blocks = [_without_time(scores, features) for scores in (real, released)]
    halves = np.arange(count), np.arange(count, 2 * count)
    found = {}
    for name, attack in (
        ("singling_out", _singled_out),
        ("linkability", _linked),
        ("attribute_inference", _inferred),
    ):
        success = attack(blocks[0], blocks[1], halves, rng)
        known = [side[success[side] >= 0] for side in halves]
        found[name] = risk_of(*(int((success[side] > 0).sum()) for side in known), *(len(side) for side in known))
    return found


def risk_of(of_members: int, of_others: int, members: int, others: int) -> dict[str, Any]:
    """Return a risk with its 95 % interval, from successes and numbers of targets of either side.

    Returns
    -------
    dict
        `risk` and `risk_ci95`, below 0 if others were hit more often; the counts; `p_value` of no difference (Fisher,
        one-sided). The interval is that of a ratio of two proportions from each one's own interval (MOVER; Donner and
        Zou, Stat. Methods Med. Res. 2012).
    """
    if not members or not others:
        return {"risk": None, "risk_ci95": None, "p_value": None, "members": [0, 0], "others": [0, 0]}
    spared = [1 - of_members / members, 1 - of_others / others]
    limits = [wilson_interval(members - of_members, members), wilson_interval(others - of_others, others)]
    low, high = _ratio_interval(spared[0], limits[0], spared[1], limits[1])
    risk = 1 - spared[0] / spared[1] if spared[1] else 0.0
    table = [[of_members, members - of_members], [of_others, others - of_others]]
    return {
        "risk": risk,
        "risk_ci95": [1 - high, 1 - low],
        "p_value": float(fisher_exact(table, alternative="greater")[1]),
        "members": [of_members, members],
        "others": [of_others, others],
    }


def _ratio_interval(
    top: float, of_top: tuple[float, float], bottom: float, of_bottom: tuple[float, float]
) -> tuple[float, float]:
    (low, high), (below, above) = of_top, of_bottom
    product = top * bottom
    root = np.sqrt(max(0.0, product**2 - low * above * (2 * top - low) * (2 * bottom - above)))
    least = (product - root) / (above * (2 * bottom - above)) if 2 * bottom > above else 0.0
    root = np.sqrt(max(0.0, product**2 - high * below * (2 * top - high) * (2 * bottom - below)))
    most = (product + root) / (below * (2 * bottom - below)) if below > 0 else np.inf
    return float(max(0.0, least)), float(min(most, 1e6))


def _without_time(scores: np.ndarray, features: int) -> np.ndarray:
    """Return the normal scores of the summaries of all features but time, shape [N, F - 1, 7]."""
    return scores[:, : features * len(SUMMARIES)].reshape(len(scores), features, len(SUMMARIES))[:, 1:]


def _singled_out(
    real: np.ndarray, made: np.ndarray, halves: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Say of each target whether some guess from the release fits this patient and nobody else of the same side.

    A guess takes `FACTS` features of one released stay: "the mean of each lies within so much of this". The width is
    chosen such that a guess fits `EXPECTED` patients of a side if features are independent.
    """
    ranks, guesses = ndtr(real[:, :, _MEAN]), ndtr(made[:, :, _MEAN])
    seen_real, seen_made = real[:, :, _MEAN] != 0, made[:, :, _MEAN] != 0
    facts = min(FACTS, ranks.shape[1])
    width = 0.5 * (EXPECTED / len(halves[0])) ** (1 / facts)
    success = np.zeros(len(real), dtype=int)
    order = np.argsort(np.where(seen_made, rng.random(guesses.shape), 2.0), axis=1)[:, :facts]
    for guess, chosen in enumerate(order):
        if not seen_made[guess, chosen].all():
            continue
        fits = (np.abs(ranks[:, chosen] - guesses[guess, chosen]) <= width) & seen_real[:, chosen]
        for side in halves:
            hit = side[fits[side].all(axis=1)]
            if len(hit) == 1:
                success[hit] = 1
    return success


def _linked(
    real: np.ndarray, made: np.ndarray, halves: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Say of each target whether the release links two parts of the record.

    The attacker has half of the features of a target, and the other half of `POOL` patients, one of whom is the target.
    The released stay nearest in the first half is the bridge. The candidate nearest to it in the second half is chosen.
    """
    order = rng.permutation(real.shape[1])
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    if not len(first):
        return np.full(len(real), -1)
    bridge = nearest_neighbours(real[:, first], made[:, first])[1]
    wanted = made[:, second].reshape(len(made), -1)[bridge]
    candidates = real[:, second].reshape(len(real), -1)
    success = np.zeros(len(real), dtype=int)
    for side in halves:
        decoys = _others_of(side, min(POOL, len(side)) - 1, rng)
        own = np.linalg.norm(candidates[side] - wanted[side], axis=1)
        best = np.full(len(side), np.inf)
        for column in decoys.T:
            best = np.minimum(best, np.linalg.norm(candidates[column] - wanted[side], axis=1))
        success[side] = own < best
    return success


def _others_of(side: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw for each of a side's patients `count` different others of that side, shape [n, count]."""
    steps = np.stack([rng.choice(len(side) - 1, count, replace=False) for _ in side]) + 1
    return side[(np.arange(len(side))[:, None] + steps) % len(side)]


def _inferred(
    real: np.ndarray, made: np.ndarray, halves: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Say of each target whether the release tells a secret: the mean of one feature, if all others are known.

    The guess is that of the released stay nearest in all other features. -1 for a target without a secret.
    """
    seen = real[:, :, _MEAN] != 0
    secret = np.where(seen.any(axis=1), np.argmax(np.where(seen, rng.random(seen.shape), -1), axis=1), -1)
    success = np.full(len(real), -1)
    for feature in np.unique(secret[secret >= 0]):
        targets = np.flatnonzero(secret == feature)
        known = np.arange(real.shape[1]) != feature
        if not known.any():
            return success
        nearest = nearest_neighbours(real[targets][:, known], made[:, known])[1]
        told = made[nearest, feature]
        gap = np.abs(ndtr(told[:, _MEAN]) - ndtr(real[targets, feature, _MEAN]))
        success[targets] = (gap <= NEAR) & (told[:, _MEAN] != 0)
    return success
