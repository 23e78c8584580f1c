"""What a match's report measures and draws, as small arrays, and what the distances alone give away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scoring import statistics
from scoring.report.projections import Projection
from scoring.report.utility_plots import StaysBeside

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Histogram: TypeAlias = tuple[int, FloatArray, FloatArray, FloatArray]

UNCHANGED = 0.001  # A stay nearer than this counts as copied. Single precision alone gives 0.0002.


@dataclass(frozen=True)
class ReportArrays:
    """What the report's plots are drawn from.

    Attributes
    ----------
    member_distances, non_member_distances : [n1] and [n2] float
        Distance of (a sample of) the member and non-member stays to the nearest generated stay: root mean square
        per cell, values scaled, without time. May be empty.
    original_stay, generated_stay : [T, F] float
        One stay in original units, feature 0 = time, NaN = missing.
    original_stay_padded, generated_stay_padded : [T] bool
        True where a row is padding.
    histograms : list of (feature index, [B + 1] bin edges, [B] original density, [B] generated density)
        For every feature with observed values, in original units.
    labels : [n] bool
        True for members.
    scores : [n] float, optional
        The seeker's scores, higher meaning more likely a member.
    projections : dict of str to Projection
        Members and generated stays as points in a plane, by method.
    beside : StaysBeside, optional
        A released stay and real ones.
    """

    member_distances: FloatArray
    non_member_distances: FloatArray
    original_stay: FloatArray
    generated_stay: FloatArray
    original_stay_padded: BoolArray
    generated_stay_padded: BoolArray
    histograms: Sequence[Histogram]
    labels: BoolArray
    scores: FloatArray | None = None
    projections: Mapping[str, Projection] = field(default_factory=dict)
    beside: StaysBeside | None = None


def distance_figures(arrays: ReportArrays) -> dict[str, Any] | None:
    """Return what the distances to the generated data give away without any seeker: `distance` in report.json.

    Returns
    -------
    dict or None
        `auroc` and `auroc_ci95` say how well nearness tells members from non-members. `members` and `non_members` count
        the stays that were measured. `members_unchanged` and `non_members_unchanged` count those that lie within 0.001
        (a thousandth of a feature's range, root mean square) of a generated stay. `leaks` is true if the interval
        leaves 0.5 out, or members are there unchanged and no non-member is. None if there are no distances.
    """
    members, non_members = finite_distances(arrays)
    if not len(members) or not len(non_members):
        return None
    is_member = np.arange(len(members) + len(non_members)) < len(members)
    area, interval = statistics.auroc(is_member, -np.concatenate([members, non_members]))
    copies, coincidences = (int((distances < UNCHANGED).sum()) for distances in (members, non_members))
    return {
        "auroc": area,
        "auroc_ci95": list(interval),
        "members": len(members),
        "non_members": len(non_members),
        "members_unchanged": copies,
        "non_members_unchanged": coincidences,
        "leaks": not interval[0] <= 0.5 <= interval[1] or (copies > 0 and coincidences == 0),
    }


def finite_distances(arrays: ReportArrays) -> tuple[FloatArray, FloatArray]:
    """Return the distances of members and of non-members that could be computed."""
    members, non_members = (d[np.isfinite(d)] for d in (arrays.member_distances, arrays.non_member_distances))
    return members, non_members
