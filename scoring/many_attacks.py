"""The strongest of many attacks on one release, and whether chance explains it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from scoring.statistics import (
    FPR,
    MEMBER_THRESHOLD,
    BoolArray,
    FloatArray,
    auroc,
    checked_groups,
    tpr_at_fpr,
    wilson_interval,
)

_BLOCK = 100  # permutations of the labels looked at at once
_SURE = 0.05  # a p-value up to this is called a leak


def worst_of(
    labels: npt.ArrayLike,
    scores: Mapping[str, npt.ArrayLike],
    predicted: Mapping[str, npt.ArrayLike] | None = None,
    permutations: int = 1999,
    rng: np.random.Generator | None = None,
) -> dict[str, Any]:
    """Pick the strongest of many attacks on one release, and say whether chance explains it.

    If a release tells nothing about membership, every assignment of labels to stays is as likely as the true one. So
    all figures of all attacks are taken again with labels drawn at random. Each figure is judged by its rank among its
    own draws, and the best of them by its rank among the best of each draw (min-P; Westfall & Young, 1993). As all
    attacks see the same draw, agreement between attacks costs nothing. Whatever the attacks, a release without leak has
    a p-value of at most 0.05 in at most 5 of 100 cases.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : mapping of attack to [n] float
        Higher means more likely a member.
    predicted : mapping of attack to [n] bool or float, optional
        The attacks' labels; above 0.5 means member.
    permutations : int
        How many random assignments. The smallest p-value is about the number of figures / (permutations + 1).
    rng : numpy.random.Generator, optional
        Draws them; by default the same ones each time.

    Returns
    -------
    dict
        `attack` and `figure` (auroc, tpr_at_1_percent_fpr or score) that are hardest to explain by chance, its `value`
        and `interval` (95 %, corrected for the number of attacks), `p_value` (corrected for all attacks and figures),
        `leak` (p_value at most 0.05), `attacks`, their number, and `p_values`, the corrected one of each attack.

    Raises
    ------
    ValueError
        As `statistics.auroc`, and without an attack.
    """
    if not scores:
        raise ValueError("expected the scores of at least one attack")
    for name, values in scores.items():
        checked_groups(labels, values, name=f"scores of {name}")
    rng = rng or np.random.default_rng(0)
    member = np.asarray(labels).astype(bool)
    guesses = {name: np.asarray(values) > MEMBER_THRESHOLD for name, values in (predicted or {}).items()}
    judged = [(name, figure) for name in scores for figure in ("auroc", "tpr_at_1_percent_fpr")]
    judged += [(name, "score") for name in guesses]
    figures = np.empty((permutations + 1, len(judged)))
    figures[0] = _figures(member[None], scores, guesses)[0]
    for start in range(1, permutations + 1, _BLOCK):
        rows = figures[start : start + _BLOCK]
        rows[:] = _figures(rng.permuted(np.tile(member, (len(rows), 1)), axis=1), scores, guesses)
    ranks = rankdata(-figures.round(12), method="max", axis=0) / (permutations + 1)
    excess = figures[0] - figures[1:].mean(axis=0)
    best = int(np.lexsort((-excess, ranks[0]))[0])  # among equally rare ones the one furthest above chance
    rarest = np.sort(ranks.min(axis=1))
    corrected = np.searchsorted(rarest, ranks[0], side="right") / len(rarest)
    p_values: dict[str, float] = {}
    for (name, _), value in zip(judged, corrected, strict=True):
        p_values[name] = min(float(value), p_values.get(name, 1.0))
    name, figure = judged[best]
    p_value = p_values[name]
    count = len(set(scores) | set(guesses))
    if figure == "score":
        interval = wilson_interval(int((guesses[name] == member).sum()), member.size, count)
    elif figure == "auroc":
        interval = auroc(member, scores[name], count)[1]
    else:
        interval = tpr_at_fpr(member, scores[name], comparisons=count)[1]
    return {
        "attack": name,
        "figure": figure,
        "value": float(figures[0, best]),
        "interval": list(interval),
        "p_value": p_value,
        "leak": p_value <= _SURE,
        "attacks": count,
        "p_values": p_values,
    }


def _figures(members: BoolArray, scores: Mapping[str, npt.ArrayLike], guesses: Mapping[str, BoolArray]) -> FloatArray:
    """AUROC and members found at 1 % false alarms of each attack, then accuracies, for each row of labels [B, n]."""
    count = int(members[0].sum())
    others = members.shape[1] - count
    allowed = int(np.floor(FPR * others + 1e-9))
    columns = []
    for values in scores.values():
        negative = -np.asarray(values, dtype=np.float64)
        ranks = rankdata(-negative)
        columns.append((members @ ranks - count * (count + 1) / 2) / (count * others))
        order = np.argsort(negative, kind="stable")
        # Stays above the score of the (allowed + 1)-th highest non-member are named.
        last = (np.cumsum(~members[:, order], axis=1) <= allowed).sum(axis=1)
        named = np.searchsorted(negative[order], negative[order][np.minimum(last, members.shape[1] - 1)])
        found = np.cumsum(members[:, order], axis=1)
        columns.append(np.where(named > 0, np.take_along_axis(found, named[:, None] - 1, axis=1)[:, 0], 0) / count)
    columns += [(members == guess).mean(axis=1) for guess in guesses.values()]
    return np.stack(columns, axis=1)
