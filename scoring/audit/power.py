"""What the audit would have found: leaks of known size, planted in this very release.

In each trial a random half of the real stays plays the members, whoever the members are. So a leak that is in the
release already helps no trial: it is as likely to be about one half as about the other. The leak is planted for that
half, and the same attacks, the same corrections and the same search for real stays are asked. The smallest leak that is
found in every trial is the size that the verdict names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoring.attacks import worst_of
from scoring.audit.attackers import Attacker, attack
from scoring.audit.known_answers import plant_copies, plant_means
from scoring.audit.provenance import find_real_stays
from scoring.round import Round
from utils.errors import UserError

TRIALS = 10  # all of which must find a leak; a leak found with probability 0.8 passes in one of nine cases
STAYS = 500  # on either side, at most: a share that is found here is found more surely among more patients
SIGNIFICANCE = 0.01  # of all attacks together: one release in a hundred without a leak is called a leak
NOISE = 0.3  # of near-copies, in standard deviations of each feature
SIZES: dict[str, tuple[float, ...]] = {
    "verbatim copies": (1, 2, 5, 10),  # stays
    "near-copies": (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4),  # share of the members
    "exact means": (2, 5, 10, 20, 50, 100, 200),  # numbers
}


def permutations(attacks: int) -> int:
    """Return how many permutations resolve p-values well below `SIGNIFICANCE`, whatever the number of attacks.

    The smallest p-value is about three figures an attack over the number of permutations, here 0.003.
    """
    return max(4_999, 1_000 * attacks - 1)


@dataclass(frozen=True)
class Leak:
    """A leak of known size: a kind of `SIZES` and one of its sizes."""

    kind: str
    size: float


def sizes(kind: str, round_: Round) -> list[float]:
    """Return the sizes of a kind that fit the data, in ascending order."""
    if kind != "exact means":
        return list(SIZES[kind])
    most = (round_.data.shape[2] - 1) * round_.data.shape[1]
    return [size for size in SIZES[kind] if size <= most]


def trial(
    round_: Round,
    generated: np.ndarray,
    generated_mask: np.ndarray,
    attackers: Sequence[Attacker],
    leak: Leak,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Plant a leak once and look for it.

    Parameters
    ----------
    round_ : Round
    generated, generated_mask : ndarray, shape [n, T, F]
        The release.
    attackers : sequence of Attacker
    leak : Leak
    rng : numpy.random.Generator

    Returns
    -------
    dict
        `found`; `real_stays`, found by provenance; `p_value` of the best attack and its name `attack`, None if no
        attack was asked, because real stays were found or verbatim copies were planted.
    """
    pretended, made, made_mask = _smaller(round_, generated, generated_mask, rng)
    members = pretended.data[pretended.members], pretended.padding_mask[pretended.members]
    if leak.kind == "exact means":
        planted, planted_mask, _ = plant_means(made, made_mask, *members, int(leak.size))
    else:
        share = leak.size / len(pretended.members) if leak.kind == "verbatim copies" else leak.size
        share = min(share, len(made) / len(pretended.members), 1.0)
        noise = NOISE if leak.kind == "near-copies" else 0.0
        planted, planted_mask, _ = plant_copies(made, made_mask, *members, share, rng, noise)
    stays = find_real_stays(pretended, planted, planted_mask, rng).facts["stays"]
    result: dict[str, Any] = {"real_stays": stays, "p_value": None, "attack": None, "found": stays > 0}
    if leak.kind == "verbatim copies":
        return result | {"found": stays >= leak.size}
    if stays:  # found: no attack needs to be asked
        return result
    given = pretended.seeker_input(planted, planted_mask)
    scores, labels = {}, {}
    for attacker in attackers:
        try:
            answer = attack(attacker, given)
        except UserError:
            continue
        scores[attacker.name], labels[attacker.name] = answer.scores, answer.labels
    if scores:
        worst = worst_of(pretended.truth, scores, labels, permutations(len(scores)), rng)
        result |= {"p_value": worst["p_value"], "attack": worst["attack"]}
        result["found"] = worst["p_value"] <= SIGNIFICANCE
    return result


def _smaller(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray, rng: np.random.Generator
) -> tuple[Round, np.ndarray, np.ndarray]:
    """Draw at most `STAYS` stays for either half at random, and as large a part of the release."""
    real = len(round_.data)
    count = min(STAYS, real // 2)
    chosen = rng.permutation(real)[: 2 * count]
    part = max(1, round(len(generated) * min(1.0, count / len(round_.members))))
    made = rng.permutation(len(generated))[:part]
    pretended = replace(
        round_,
        data=round_.data[chosen],
        padding_mask=round_.padding_mask[chosen],
        members=np.arange(count),
        others=np.arange(count, 2 * count),
        order=np.arange(2 * count),
        seeker_seed=int(rng.integers(2**31)),
    )
    return pretended, generated[made], generated_mask[made]


def summary(kind: str, trials: dict[float, list[dict[str, Any]]], members: int) -> dict[str, Any]:
    """Say which size of a leak is found.

    Parameters
    ----------
    kind : str
    trials : dict of size to list of dict
        What `trial` returned.
    members : int

    Returns
    -------
    dict
        `size`: the smallest size found in every trial (of those tried), or None; `share`: the same as a share of the
        members; `members`: the same as a number of them; `tried`: for each size how many trials found it.
    """
    tried = [
        {
            "size": size,
            "found": sum(one["found"] for one in found),
            "by_real_stays": sum(one["real_stays"] > 0 for one in found),
            "trials": len(found),
        }
        for size, found in sorted(trials.items())
    ]
    size = next((row["size"] for row in tried if row["found"] == row["trials"] == TRIALS), None)
    share = size if kind == "near-copies" else None
    patients = round(size * members) if size and kind == "near-copies" else int(size) if size else None
    return {"kind": kind, "size": size, "share": share, "count": patients, "tried": tried}
