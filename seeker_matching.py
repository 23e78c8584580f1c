"""Matching seeker: each generated stay was made from one patient. Find whom, one to one.

Mikan, winner of the 2020 Hide-and-Seek Privacy Challenge.

What it exploits: most hiders move a stay without making it nearer to another patient's, and keep its length. Where the
lengths of the generated stays are among those of the enlarged data, stays of equal length are matched greedily, nearest
first. Where they are not (the hider made up lengths, or changed one), time points are compared instead of stays, which
finds less in data whose time points belong together, and is what finds shuffled ones.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from utils.data_preprocess import FeatureStatistics, preprocess_imputed
from utils.progress import progress_bar
from utils.stays import label_highest, padded_rows, real_rows_first, stay_lengths


@dataclass(frozen=True)
class Parameters:
    # The winner's rule, or one of the two whether or not lengths fit. Stays of different lengths are compared at evenly
    # spaced time points, as many of each.
    compare: Literal["stays_if_lengths_fit", "stays", "time_points"] = "stays_if_lengths_fit"
    # How many time points of each enlarged stay are looked up, evenly spaced, among all generated ones. None: all, as
    # the winner did. Ten find as many (docs/methods.md).
    time_points: int | None = 10

    def __post_init__(self) -> None:
        if self.time_points is not None and self.time_points < 1:
            raise ValueError(f"time_points must be at least 1 or none, not {self.time_points}")


PUBLISHED = Parameters(time_points=None)
STAYS = Parameters(compare="stays")
TIME_POINTS = Parameters(compare="time_points")
ALSO_PLAYED = ("stays", "time_points")  # settings that `--seeker all` plays too: each finds hiders that others miss

_BLOCK = 256  # generated stays compared at once: 256 x 20,000 float32 distances are 20 MB
_SPACED = 50  # time points at which stays of different lengths are compared
_CANDIDATES = 64  # enlarged stays listed for each generated one
_POINTS = 1024  # time points compared at once, with as many generated ones: 4 MiB of distances stay in the cache


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Label as many enlarged stays as there are generated ones: those matched, or those with the nearest time points.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.
    parameters : Parameters
        What is compared, and how many time points.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        1 / (1 + distance) to the matched stay, 0 without one. Or of the mean distance to the nearest time points.
        Higher is more likely a member.
    """
    generated, enlarged = input_dict["generated_data"], input_dict["enlarged_data"]
    real_generated = ~padded_rows(generated, input_dict["generated_data_padding_mask"])
    real_enlarged = ~padded_rows(enlarged, input_dict["enlarged_data_padding_mask"])
    # Both are scaled alike, and moved so that few digits cancel in the squared distances below.
    statistics = FeatureStatistics(enlarged, _as_mask(real_enlarged, enlarged))
    enlarged = values_without_time(enlarged, real_enlarged, statistics)
    generated = values_without_time(generated, real_generated, statistics)
    centre = enlarged.mean(axis=(0, 1))
    enlarged -= centre
    generated -= centre

    lengths, enlarged_lengths = stay_lengths(~real_generated), stay_lengths(~real_enlarged)
    if parameters.compare == "stays_if_lengths_fit" and fits_inside(lengths, enlarged_lengths):
        distances = match_within_lengths(generated, lengths, enlarged, enlarged_lengths)
    elif parameters.compare == "stays":
        first, second = squeeze(generated, real_generated, _SPACED), squeeze(enlarged, real_enlarged, _SPACED)
        distances = np.sqrt(match_greedily(first, second)[0])
    else:
        kept = evenly_spaced(real_enlarged, parameters.time_points or enlarged.shape[1])
        nearest = nearest_distances(enlarged[kept], generated[real_generated])
        distances = _mean_per_stay(nearest, kept)

    return label_highest(-distances, len(generated)), 1 / (1 + distances)


# ------------------------------------------------------------------------------------------------- preparation


def values_without_time(data: np.ndarray, real: np.ndarray, statistics: FeatureStatistics) -> np.ndarray:
    """Impute and scale, with time set to 0. float32 [N, T, F].

    The enlarged data's values lie in [0, 1], so a generated value outside is nearer to all of them when moved there.
    """
    with np.errstate(over="ignore"):  # a value too large for float32 becomes 1 like any other that is too large
        values = preprocess_imputed(data, _as_mask(real, data), statistics=statistics)
    values[:, :, 0] = 0
    return np.clip(values, 0, 1, out=values)


def _as_mask(real: np.ndarray, data: np.ndarray) -> np.ndarray:
    return np.broadcast_to(~real[:, :, None], data.shape)


# ------------------------------------------------------------------------------------------------------- stays


def fits_inside(lengths: np.ndarray, enlarged_lengths: np.ndarray) -> bool:
    """Whether every length occurs among the enlarged stays at least as often as among the generated ones."""
    bins = 1 + max(lengths.max(), enlarged_lengths.max())
    return bool((np.bincount(lengths, minlength=bins) <= np.bincount(enlarged_lengths, minlength=bins)).all())


def match_within_lengths(
    generated: np.ndarray, lengths: np.ndarray, enlarged: np.ndarray, enlarged_lengths: np.ndarray
) -> np.ndarray:
    """Match stays of equal length. See `match_greedily`.

    A generated stay has the length of the one it was made from, or lengths would hardly fit. As they fit, no
    generated stay is left over.

    Parameters
    ----------
    generated, enlarged : ndarray of float32, shapes [N, T, F] and [M, T, F]
    lengths, enlarged_lengths : ndarray of int, shapes [N] and [M]

    Returns
    -------
    ndarray of float, shape [M]
        Distance of each enlarged stay to the generated one matched to it. Infinite where there is none.
    """
    distances = np.full(len(enlarged), np.inf)
    with progress_bar(len(generated), "matching stays", "stay") as bar:
        for length in np.unique(lengths):
            here, there = np.flatnonzero(lengths == length), np.flatnonzero(enlarged_lengths == length)
            first = generated.shape[1] - length  # padding is at the front, and alike in both
            squared, _ = match_greedily(
                generated[here, first:].reshape(len(here), -1), enlarged[there, first:].reshape(len(there), -1)
            )
            distances[there] = np.sqrt(squared)
            bar.update(len(here))
    return distances


def squeeze(values: np.ndarray, real: np.ndarray, count: int) -> np.ndarray:
    """Return each stay [N, T, F] at `count` time points, evenly spaced over those `real` [N, T], as [N, count * F]."""
    lengths = np.maximum(1, real.sum(axis=1, keepdims=True))
    rank = np.arange(count) * lengths // count
    return np.take_along_axis(real_rows_first(values, ~real), rank[:, :, None], axis=1).reshape(len(values), -1)


def match_greedily(generated: np.ndarray, enlarged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match one to one: the nearest pair of all first, then the nearest of those left, and so on.

    As a distance is the same from both sides, that is the one stable matching, and deferred acceptance (Gale and
    Shapley, 1962) finds it in any order of proposals: each generated record proposes to its nearest enlarged record. An
    enlarged record keeps the nearest proposal and turns down the others, who go on to their next. So all propose at
    once, and a list of the nearest few suffices. Whoever gets to its end gets a new one. Memory is a block of distances
    and the lists.

    Parameters
    ----------
    generated, enlarged : ndarray of float32, shapes [n, D] and [m, D]
        n is at most m.

    Returns
    -------
    squared : ndarray of float, shape [m]
        Squared distance to the matched generated record. Infinite where there is none.
    partner : ndarray of int, shape [m]
        Its index. -1 where there is none.
    """
    count = len(generated)
    partner = np.full(len(enlarged), -1)
    squared = np.full(len(enlarged), np.inf, dtype=np.float32)
    width = min(_CANDIDATES, len(enlarged))
    candidates = np.zeros((count, width + 1), dtype=np.int32)
    costs = np.full((count, width + 1), np.inf, dtype=np.float32)  # ascending, and infinite at the list's end
    position = np.full(count, width)
    single = np.arange(count)
    while single.size:
        proposing = single[np.isfinite(costs[single, position[single]])]
        if not proposing.size:  # all are at their lists' ends
            candidates[single, :width], costs[single, :width] = _nearest_who_accept(
                generated[single], enlarged, squared, width
            )
            position[single] = 0
            continue
        to, cost = candidates[proposing, position[proposing]], costs[proposing, position[proposing]]
        position[proposing] += 1
        order = np.lexsort((cost, to))
        order = order[np.diff(to[order], prepend=-1) != 0]  # the nearest of each one's proposals
        order = order[cost[order] < squared[to[order]]]
        partner[to[order]], squared[to[order]] = proposing[order], cost[order]
        single = np.setdiff1d(np.arange(count), partner)
    return squared, partner


def _nearest_who_accept(
    generated: np.ndarray, enlarged: np.ndarray, held: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """List, for each of `generated`, the `count` nearest of `enlarged` that hold no nearer one, and their distances.

    Where fewer would accept, distances are infinite. There is always one: an enlarged record still without a partner.
    """
    indices = np.empty((len(generated), count), dtype=np.int32)
    costs = np.empty((len(generated), count), dtype=np.float32)
    norms = np.einsum("md,md->m", enlarged, enlarged)
    for start in range(0, len(generated), _BLOCK):
        block = generated[start : start + _BLOCK]
        pairs = block @ enlarged.T
        pairs *= -2
        pairs += norms
        pairs += np.einsum("nd,nd->n", block, block)[:, None]
        np.maximum(pairs, 0, out=pairs)  # what rounding takes below 0
        pairs[pairs >= held] = np.inf
        nearest = np.argpartition(pairs, count - 1, axis=1)[:, :count]
        found = np.take_along_axis(pairs, nearest, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        indices[start : start + _BLOCK] = np.take_along_axis(nearest, order, axis=1)
        costs[start : start + _BLOCK] = np.take_along_axis(found, order, axis=1)
    return indices, costs


# ------------------------------------------------------------------------------------------------- time points


def evenly_spaced(real: np.ndarray, count: int) -> np.ndarray:
    """Choose `count` (at least 1) evenly spaced time points of each stay, or all where it has fewer.

    Parameters
    ----------
    real : ndarray of bool, shape [M, T]
        Time points that are not padding.
    count : int

    Returns
    -------
    ndarray of bool, shape [M, T]
    """
    lengths = np.maximum(1, real.sum(axis=1, keepdims=True))
    rank = np.cumsum(real, axis=1) - real  # how many come before
    count = np.clip(count, 1, lengths)
    return real & (rank * count // lengths != (rank - 1) * count // lengths)


def nearest_distances(points: np.ndarray, generated: np.ndarray) -> np.ndarray:
    """Return the distance of each of `points` [n, F] to the nearest of `generated` [m, F], both float32. Shape [n]."""
    # |p - g|^2 - |p|^2 = (p, 1) . (-2g, |g|^2): one matrix product and a minimum.
    left = np.column_stack([points, np.ones(len(points), dtype=np.float32)])
    right = np.column_stack([-2 * generated, np.einsum("mf,mf->m", generated, generated)])
    nearest = np.full(len(points), np.inf, dtype=np.float32)
    with progress_bar(len(points), "comparing time points", "point") as bar:
        for start in range(0, len(points), _POINTS):
            block, best = left[start : start + _POINTS], nearest[start : start + _POINTS]
            for first in range(0, len(right), _POINTS):
                np.minimum(best, (block @ right[first : first + _POINTS].T).min(axis=1), out=best)
            bar.update(len(block))
    nearest += np.einsum("nf,nf->n", points, points)
    return np.sqrt(np.maximum(nearest, 0))


def _mean_per_stay(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Average `values`, one for each True of `kept` [M, T], over each stay. Infinite where it has none."""
    counts = kept.sum(axis=1)
    sums = np.bincount(np.nonzero(kept)[0], weights=values, minlength=len(kept))
    return np.divide(sums, counts, out=np.full(len(kept), np.inf), where=counts > 0)
