"""Every rate we report and its 95 % interval, computed in one place.

The trials are stays: the intervals answer "how far could this figure move with other stays from the same
hospital", not "how far with another attack".
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtri
from scipy.stats import binom, rankdata

Interval: TypeAlias = tuple[float, float]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_TAIL = 0.025
_Z = float(ndtri(1 - _TAIL))
_MEMBER_THRESHOLD = 0.5  # the challenge's contract: a label above 0.5 means "was used by the hider"


def wilson_interval(successes: int, trials: int) -> Interval:
    """95 % score interval of a proportion (Wilson, JASA 1927).

    Parameters
    ----------
    successes, trials : int
        0 <= successes <= trials, trials >= 1.

    Returns
    -------
    (float, float)
        Lower and upper limit, inside [0, 1]; never of width 0, also at 0 and `trials` successes.

    Raises
    ------
    ValueError
        Where the counts are impossible.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    return _wilson(successes / trials, trials)


def difference_interval(successes: Sequence[int], trials: Sequence[int]) -> Interval:
    """95 % interval of a first minus a second, independent proportion (Newcombe, Stat. Med. 1998, method 10).

    Parameters
    ----------
    successes, trials : two int each
        The two counts.

    Raises
    ------
    ValueError
        Where the counts are impossible.
    """
    (low_1, high_1), (low_2, high_2) = (wilson_interval(*pair) for pair in zip(successes, trials, strict=True))
    rate_1, rate_2 = (s / n for s, n in zip(successes, trials, strict=True))
    return _combine(rate_1 - rate_2, (low_1 - rate_1, high_1 - rate_1), (rate_2 - high_2, rate_2 - low_2))


def auroc(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[float, Interval]:
    """Area under the ROC curve and its 95 % interval, in O(n log n).

    The variance is that of DeLong et al. (Biometrics 1988), computed from mid-ranks (Sun & Xu, IEEE SPL 2014);
    the interval is formed on the logit scale, so that it stays inside [0, 1]. Where that variance is 0 (scores
    that separate perfectly or not at all) or cannot be had (a single stay in a group), the largest variance
    possible, A (1 - A) / min(members, non-members) (Bamber, J. Math. Psychol. 1975), gives a Wilson interval.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member. Ties count half.

    Raises
    ------
    ValueError
        Where shapes differ, a score is NaN, or there are no members or no non-members.
    """
    members, non_members = _groups(labels, scores)
    n_members, n_non_members = len(members), len(non_members)
    ranks = rankdata(np.concatenate([members, non_members]))
    # The share of the other group that each stay is ranked above.
    member_wins = (ranks[:n_members] - rankdata(members)) / n_non_members
    non_member_wins = (ranks[n_members:] - rankdata(non_members)) / n_members
    area = float(member_wins.mean())
    smaller = min(n_members, n_non_members)
    variance = 0.0
    if smaller > 1:
        variance = float(member_wins.var(ddof=1) / n_members + non_member_wins.var(ddof=1) / n_non_members)
    if variance == 0 or not 0 < area < 1:
        return area, _wilson(area, smaller)
    reach = _Z * np.sqrt(variance) / (area * (1 - area))
    return area, (float(expit(logit(area) - reach)), float(expit(logit(area) + reach)))


def tpr_at_fpr(labels: npt.ArrayLike, scores: npt.ArrayLike, fpr: float = 0.01) -> tuple[float, Interval]:
    """Share of members found while at most a share `fpr` of non-members is named wrongly, with its 95 % interval.

    A stay is named when its score is above the score of the (k+1)-th highest non-member, k = floor(fpr x
    non-members): the most a threshold can find without more than k false alarms. Stays tied with that
    non-member are not named, and nothing is interpolated.

    Two errors make up the interval, put together as variances are (MOVER; Zou & Donner, Stat. Med. 2008): that of
    the share of members (Wilson), and that of the threshold, of which the non-members tell only that the number
    of them above the true one is binomial. Over simulated matches of 100 to 4,000 stays, from no leak to a strong one
    (2,000 each), this covers 96 to 100 % and Wilson alone 17 to 94 %; tests/test_statistics.py repeats it in small.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member.
    fpr : float
        Share of non-members that may be named wrongly, in (0, 1).

    Raises
    ------
    ValueError
        As `auroc`, and where `fpr` is outside (0, 1).
    """
    if not 0 < fpr < 1:
        raise ValueError(f"fpr must lie between 0 and 1, got {fpr}")
    members, non_members = _groups(labels, scores)
    n_members, n_non_members = len(members), len(non_members)
    highest_first = -np.sort(-non_members)

    def found(false_alarms: int) -> float:
        """Share of members above all but `false_alarms` of the non-members."""
        if false_alarms < 0:
            return 0.0
        if false_alarms >= n_non_members:
            return 1.0
        return float(np.mean(members > highest_first[false_alarms]))

    allowed = int(np.floor(fpr * n_non_members + 1e-9))  # 0.29 * 100 is 28.999999999999996
    tpr = found(allowed)
    low, high = _wilson(tpr, n_members)
    # With 95 % probability this many non-members lie above the threshold whose true rate is `fpr`.
    fewest, most = (int(count) for count in binom.ppf([_TAIL, 1 - _TAIL], n_non_members, fpr))
    threshold_error = found(min(fewest - 1, allowed)) - tpr, found(max(most, allowed)) - tpr
    low, high = _combine(tpr, (low - tpr, high - tpr), threshold_error)
    return tpr, (max(low, 0.0), min(high, 1.0))


def roc_curve(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """All points of the ROC curve, from (0, 0) to (1, 1).

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member; tied stays enter together.

    Returns
    -------
    fpr, tpr : [distinct scores + 1] float
        Shares of non-members and of members at or above each threshold, strictest first.

    Raises
    ------
    ValueError
        As `auroc`.
    """
    members, non_members = (np.sort(group) for group in _groups(labels, scores))
    thresholds = np.unique(np.concatenate([members, non_members]))[::-1]
    fpr, tpr = (1 - np.searchsorted(group, thresholds, side="left") / len(group) for group in (non_members, members))
    return np.concatenate([[0.0], fpr]), np.concatenate([[0.0], tpr])


def reidentification(
    labels: npt.ArrayLike, predicted: npt.ArrayLike, scores: npt.ArrayLike | None = None
) -> dict[str, Any]:
    """Every figure of a seeker's success, with its 95 % interval; what report.json holds.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    predicted : [n] bool or float
        The seeker's labels; above 0.5 means member.
    scores : [n] float, optional
        The seeker's scores, higher meaning more likely a member.

    Returns
    -------
    dict
        `score` is the accuracy of the labels and `chance` that of the better constant guess. `advantage` is the rate
        of members found minus that of false alarms (Yeom et al., CSF 2018): unlike the score it shows a leak also
        where members are few. Plain floats, ints and two-element lists; None for what needs scores.

    Raises
    ------
    ValueError
        Where shapes differ, a value is NaN, or there are no members or no non-members.
    """
    members, non_members = (group > _MEMBER_THRESHOLD for group in _groups(labels, predicted, name="predicted"))
    n_members, n_non_members = len(members), len(non_members)
    found, false_alarms = int(members.sum()), int(non_members.sum())
    correct, stays = found + n_non_members - false_alarms, n_members + n_non_members
    figures: dict[str, Any] = {
        "members": n_members,
        "non_members": n_non_members,
        "score": correct / stays,
        "score_ci95": list(wilson_interval(correct, stays)),
        "chance": max(n_members, n_non_members) / stays,
        "members_found": found,
        "members_found_rate": found / n_members,
        "members_found_rate_ci95": list(wilson_interval(found, n_members)),
        "false_alarms": false_alarms,
        "false_alarm_rate": false_alarms / n_non_members,
        "false_alarm_rate_ci95": list(wilson_interval(false_alarms, n_non_members)),
        "advantage": found / n_members - false_alarms / n_non_members,
        "advantage_ci95": list(difference_interval((found, false_alarms), (n_members, n_non_members))),
        "auroc": None,
        "auroc_ci95": None,
        "tpr_at_1_percent_fpr": None,
        "tpr_at_1_percent_fpr_ci95": None,
    }
    if scores is not None:
        for name, (value, interval) in {
            "auroc": auroc(labels, scores),
            "tpr_at_1_percent_fpr": tpr_at_fpr(labels, scores, 0.01),
        }.items():
            figures |= {name: value, f"{name}_ci95": list(interval)}
    return figures


def _wilson(rate: float, trials: int) -> Interval:
    """Wilson's interval, also for a rate that is no whole number of successes."""
    shrunk = (rate + _Z**2 / (2 * trials)) / (1 + _Z**2 / trials)
    reach = _Z * np.sqrt(rate * (1 - rate) / trials + _Z**2 / (4 * trials**2)) / (1 + _Z**2 / trials)
    # At the ends the limit is the rate itself; rounding must not move it.
    return (0.0 if rate == 0 else float(shrunk - reach)), (1.0 if rate == 1 else float(shrunk + reach))


def _combine(estimate: float, *errors: Interval) -> Interval:
    """Interval of a sum of independent parts from each part's errors (below, above): they add as squares do."""
    below, above = np.sqrt(np.square(np.array(errors, dtype=np.float64)).sum(axis=0))
    return float(estimate - below), float(estimate + above)


def _groups(labels: npt.ArrayLike, values: npt.ArrayLike, name: str = "scores") -> tuple[FloatArray, FloatArray]:
    """The values of the members and of the non-members, checked."""
    is_member, checked = np.asarray(labels), np.asarray(values, dtype=np.float64)
    if is_member.ndim != 1 or checked.shape != is_member.shape:
        raise ValueError(f"labels and {name} must both be of shape (n,), got {is_member.shape} and {checked.shape}")
    if not np.isin(is_member, (0, 1)).all():
        raise ValueError("labels must be booleans, True for members")
    if np.isnan(checked).any():
        raise ValueError(f"{name} must not hold NaN; {int(np.isnan(checked).sum())} of {checked.size} do")
    is_member = is_member.astype(bool)
    if is_member.all() or not is_member.any():
        raise ValueError(f"labels must hold members and non-members, got {int(is_member.sum())} of {is_member.size}")
    return checked[is_member], checked[~is_member]
