"""Real stays in a release: word for word, in part, nearly, or row by row, wherever they came from.

No membership is needed to call a real stay in a release a leak. A stay is known again by its values in their order. Its
id, its place in the table, its times and its length may differ. What counts as near is calibrated on the real stays
themselves: how near different patients come to each other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from scoring.round import Round
from utils.representations import cell_scores
from utils.stays import padded_rows, real_rows_first, stay_lengths

KINDS = ("verbatim", "in part", "nearly")
LEAST_VALUES = 5  # measured in a stay, or it is too little to know a patient by
PLENTY_OF_VALUES = 20  # measured in a stay: two patients do not share as many by chance
LEAST_OF_A_ROW = 3  # values measured in a row, or it is too little to know a row by
LEAST_ROWS = 3  # of one real stay, for a stay to count as a part of it
PART = 0.5  # of the rows of the released or of the real stay
POSITIONS = 24  # evenly spaced rows of a stay that are compared
CALIBRATED_ON = 2_000  # real stays, at most
QUANTILE = 0.001  # of real stays have a smaller ratio of nearest to second nearest
MARGIN = 0.7  # the threshold lies this much below that quantile
ROW_EXCESS = 0.01  # more verbatim rows than others share with members, as a share of all rows: no accident
_BLOCK = 512
_DROPPED_BITS = np.uint32(4)  # of a float32's 24: six digits of a number are kept
_EMPTY = np.uint64(0)


@dataclass(frozen=True)
class Provenance:
    """What was found, for each released stay.

    Attributes
    ----------
    kind : ndarray of int8, shape [n]
        0: no real stay. 1, 2, 3: one of `KINDS`.
    source : ndarray of int, shape [n]
        The real stay (index into the round's data); -1 if there is none.
    facts : dict
        The counts and thresholds, as plain JSON.
    """

    kind: np.ndarray
    source: np.ndarray
    facts: dict[str, Any]


def find_real_stays(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray, rng: np.random.Generator
) -> Provenance:
    """Find real stays in a release.

    Parameters
    ----------
    round_ : Round
        Members and others.
    generated, generated_mask : ndarray, shape [n, T, F]
        The release.
    rng : numpy.random.Generator
        Draws the real stays on which the threshold is calibrated.
    """
    real_rows = row_codes(round_.data, round_.padding_mask)
    made_rows = row_codes(generated, generated_mask)
    kind = np.zeros(len(generated), dtype=np.int8)
    source = np.full(len(generated), -1)
    nearest, ratio, threshold, calibration = _near_stays(round_, generated, generated_mask, rng)
    # A stay of a few values is near many others by chance.
    enough = made_rows.plenty & real_rows.plenty[nearest]
    for place, found in (
        (3, np.where((ratio < threshold) & enough, nearest, -1)),
        (2, _parts(real_rows, made_rows)),
        (1, _verbatim(real_rows, made_rows)),
    ):
        kind[found >= 0], source[found >= 0] = place, found[found >= 0]
    facts: dict[str, Any] = {"released": len(generated), "stays": int((kind > 0).sum())}
    for place, name in enumerate(KINDS, 1):
        of = round_.truth[source[kind == place]]
        facts[name.replace(" ", "_")] = {"members": int(of.sum()), "others": int((~of).sum())}
    of = round_.truth[np.unique(source[source >= 0])]
    facts["patients"] = {"members": int(of.sum()), "others": int((~of).sum())}
    facts["rows"] = _row_facts(round_, real_rows, made_rows)
    facts["near"] = {"threshold": threshold, **calibration}
    return Provenance(kind, source, facts)


# ------------------------------------------------------------------------------------------------- word for word


@dataclass(frozen=True)
class RowCodes:
    """Rows as numbers: equal values, equal number, whatever the time.

    Attributes
    ----------
    code : ndarray of uint64, shape [N, T]
        Real rows first; 0 behind them.
    values : ndarray of int, shape [N, T]
        How many values were measured in a row, time apart.
    """

    code: np.ndarray
    values: np.ndarray

    @property
    def plenty(self) -> np.ndarray:
        """Stays with enough rows and values to be told from others, bool [N]."""
        return ((self.values > 0).sum(axis=1) >= LEAST_ROWS) & (self.values.sum(axis=1) >= PLENTY_OF_VALUES)

    def telling(self) -> np.ndarray:
        """Return which rows [N, T] hold enough values to be known again."""
        least = min(LEAST_OF_A_ROW, int(self.values.max(initial=1)))
        return self.values >= least

    def stays(self) -> np.ndarray:
        """Return one number a stay [N]: of its rows in their order; 0 for a stay of too few values."""
        weights = _mixed(np.arange(self.code.shape[1], dtype=np.uint64)) | np.uint64(1)
        whole = _mixed((self.code * weights).sum(axis=1, dtype=np.uint64))
        return np.where(self.values.sum(axis=1) >= LEAST_VALUES, whole, _EMPTY)


def row_codes(data: np.ndarray, padding_mask: np.ndarray) -> RowCodes:
    """Turn each row [N, T, F] into a number, by its values to six digits; time (feature 0) has no part in it."""
    padded = padded_rows(data, padding_mask)
    code, count = np.zeros(padded.shape, np.uint64), np.zeros(padded.shape, np.int32)
    weights = _mixed(np.arange(1, data.shape[2], dtype=np.uint64)) | np.uint64(1)
    half = np.uint32(1 << (int(_DROPPED_BITS) - 1))
    for start in range(0, len(data), _BLOCK):
        block = slice(start, start + _BLOCK)
        values = real_rows_first(np.clip(data[block, :, 1:], -1e30, 1e30), padded[block]).astype(np.float32) + 0.0
        seen = np.isfinite(values)
        bits = (values.astype(np.float32).view(np.uint32) + half) >> _DROPPED_BITS
        mixed = np.where(seen, _mixed(bits.astype(np.uint64) + np.uint64(1)), _EMPTY)
        there = np.arange(padded.shape[1]) < stay_lengths(padded[block])[:, None]
        code[block] = np.where(there, _mixed((mixed * weights).sum(axis=2, dtype=np.uint64)) | np.uint64(1), _EMPTY)
        count[block] = np.where(there, seen.sum(axis=2), 0)
    return RowCodes(code, count)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Spread numbers over 64 bits (the finisher of SplitMix64, Steele et al., OOPSLA 2014)."""
    mixed = (numbers + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _verbatim(real: RowCodes, made: RowCodes) -> np.ndarray:
    """Return for each released stay a real stay with the same rows in the same order, or -1; shape [n]."""
    codes, first, counts = np.unique(real.stays(), return_index=True, return_counts=True)
    wanted = made.stays()
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    # If several patients share a short stay, a released one like it tells nothing.
    told = (counts[place] == 1) | (made.values.sum(axis=1) >= PLENTY_OF_VALUES)
    return np.where((codes[place] == wanted) & (wanted != _EMPTY) & told, first[place], -1)


def _parts(real: RowCodes, made: RowCodes) -> np.ndarray:
    """Return for each released stay the real stay that half of either's rows are from, or -1; shape [n]."""
    known = _telling_rows(real, "real").unique(["code", "real"])
    known = known.filter(polars.len().over("code") == 1)  # a row of several patients tells nothing
    rows = _telling_rows(made, "made").unique(["code", "made"])
    shared = rows.join(known, on="code").group_by("made", "real").len("rows")
    stay, whose, count = (shared[name].to_numpy() for name in ("made", "real", "rows"))
    of_made, of_real = made.telling().sum(axis=1)[stay], real.telling().sum(axis=1)[whose]
    enough = (count >= LEAST_ROWS) & (count >= PART * np.minimum(of_made, of_real))
    found = np.full(len(made.code), -1)
    order = np.argsort(count[enough], kind="stable")  # the real stay with most rows is written last
    found[stay[enough][order]] = whose[enough][order]
    return found


def _telling_rows(codes: RowCodes, name: str) -> polars.DataFrame:
    stay, row = np.nonzero(codes.telling())
    return polars.DataFrame({"code": codes.code[stay, row], name: stay.astype(np.int64)})


def _row_facts(round_: Round, real: RowCodes, made: RowCodes) -> dict[str, Any]:
    """Count released rows that are a patient's, beside the rows of others that are, by accident, a member's."""
    rows, whose = made.code[made.telling()], round_.truth
    telling = real.telling()
    members, others = (real.code[whose == side][telling[whose == side]] for side in (True, False))
    shares = [float(np.isin(rows, known).mean()) if len(rows) else 0.0 for known in (members, others)]
    by_accident = float(np.isin(others, members).mean()) if len(others) else 0.0
    verbatim = int(np.isin(rows, np.concatenate([members, others])).sum()) if len(rows) else 0
    return {
        "released": len(rows),
        "verbatim": verbatim,
        "share_of_members": shares[0],
        "share_of_others": shares[1],
        "share_by_accident": by_accident,
        "too_many": max(shares) > by_accident + ROW_EXCESS,
    }


# ------------------------------------------------------------------------------------------------------- nearly


def _near_stays(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float, dict[str, Any]]:
    """Return the nearest real stay, the ratio of nearest to second nearest, the threshold, and how it came about.

    The ratio has no unit, and is small only if a released stay belongs to one real stay and no other.
    """
    real, made = (
        _spread(*both)
        for both in cell_scores(
            round_.data,
            padded_rows(round_.data, round_.padding_mask),
            generated,
            padded_rows(generated, generated_mask),
        )
    )
    sample = rng.permutation(len(real))[:CALIBRATED_ON]
    _, among_real = two_nearest(real[sample], real, own=sample)
    alone = among_real[:, 0] > 0  # twins in the real data say nothing about different patients
    ratios = among_real[alone, 0] / np.maximum(among_real[alone, 1], 1e-12)
    usual = float(np.quantile(ratios, QUANTILE, method="lower")) if len(ratios) else 0.0
    nearest, distances = two_nearest(made, real)
    calibration = {"stays": len(ratios), "quantile": QUANTILE, "ratio_of_real": usual, "margin": MARGIN}
    ratio = np.where(distances[:, 1] > 0, distances[:, 0] / np.maximum(distances[:, 1], 1e-12), 1.0)
    return nearest[:, 0], ratio, MARGIN * usual, calibration


def _spread(scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Take evenly spaced rows of each stay, without times; float32 [N, POSITIONS * (F - 1)]."""
    positions = np.linspace(0, 1, min(POSITIONS, scores.shape[1]))
    rows = np.rint(positions * (lengths[:, None] - 1)).astype(int)
    return np.take_along_axis(scores[:, :, 1:], rows[:, :, None], axis=1).reshape(len(scores), -1)


def two_nearest(
    queries: np.ndarray, references: np.ndarray, own: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the two nearest references of each query.

    Parameters
    ----------
    queries, references : ndarray of float32, shapes [N, D] and [M, D]
        M >= 3.
    own : ndarray of int, shape [N], optional
        References that are the queries themselves and do not count.

    Returns
    -------
    nearest : ndarray of int, shape [N, 2]
    distances : ndarray of float64, shape [N, 2]
        Euclidean, in ascending order.
    """
    nearest, distances = np.zeros((len(queries), 2), np.intp), np.zeros((len(queries), 2))
    norms = np.einsum("md,md->m", references, references)
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        pairs = queries[block] @ references.T
        pairs *= -2
        pairs += norms
        if own is not None:
            pairs[np.arange(len(pairs)), own[block]] = np.inf
        two = np.argpartition(pairs, 1, axis=1)[:, :2]
        gaps = queries[block][:, None].astype(np.float64) - references[two]
        exact = np.sqrt(np.einsum("nkd,nkd->nk", gaps, gaps))
        order = np.argsort(exact, axis=1)
        nearest[block] = np.take_along_axis(two, order, axis=1)
        distances[block] = np.take_along_axis(exact, order, axis=1)
    return nearest, distances


def is_leak(facts: dict[str, Any]) -> bool:
    """Return whether real stays, or more real rows than accident explains, are in the release."""
    return facts["stays"] > 0 or facts["rows"]["too_many"]
