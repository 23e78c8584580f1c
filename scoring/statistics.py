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
FPR = 0.01  # false alarms at which the members found are reported
MEMBER_THRESHOLD = 0.5  # the challenge's contract: a label above 0.5 means "was used by the hider"


def wilson_interval(successes: int, trials: int, comparisons: int = 1) -> Interval:
    """95 % score interval of a proportion (Wilson, JASA 1927).

    Parameters
    ----------
    successes, trials : int
        0 <= successes <= trials, trials >= 1.
    comparisons : int
        Of how many attacks this is the one that was picked out. See `corrected_tail`.

    Returns
    -------
    (float, float)
        Lower and upper limit, inside [0, 1]. The width is never 0, not even at 0 or `trials` successes.

    Raises
    ------
    ValueError
        Where the counts are impossible.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    return _wilson(successes / trials, trials, corrected_tail(comparisons))


def difference_interval(successes: Sequence[int], trials: Sequence[int], comparisons: int = 1) -> Interval:
    """95 % interval of a first minus a second, independent proportion (Newcombe, Stat. Med. 1998, method 10).

    Parameters
    ----------
    successes, trials : two int each
        The two counts.
    comparisons : int
        As in `wilson_interval`.

    Raises
    ------
    ValueError
        Where the counts are impossible.
    """
    pairs = zip(successes, trials, strict=True)
    (low_1, high_1), (low_2, high_2) = (wilson_interval(*pair, comparisons) for pair in pairs)
    rate_1, rate_2 = (s / n for s, n in zip(successes, trials, strict=True))
    return _combine(rate_1 - rate_2, (low_1 - rate_1, high_1 - rate_1), (rate_2 - high_2, rate_2 - low_2))


def mean_interval(values: npt.ArrayLike) -> Interval:
    """95 % interval of the mean of shares, one a stay, by the normal approximation, inside [0, 1].

    Parameters
    ----------
    values : [n] float
        Each between 0 and 1, n >= 2.
    """
    z = float(ndtri(1 - _TAIL))
    shares = np.asarray(values, dtype=np.float64)
    mean, error = float(shares.mean()), float(shares.std(ddof=1)) / np.sqrt(shares.size)
    return float(max(0.0, mean - z * error)), float(min(1.0, mean + z * error))


def auroc(labels: npt.ArrayLike, scores: npt.ArrayLike, comparisons: int = 1) -> tuple[float, Interval]:
    """Area under the ROC curve and its 95 % interval, in O(n log n).

    The variance is that of DeLong et al. (Biometrics 1988), computed from mid-ranks (Sun & Xu, IEEE SPL 2014).
    The interval is formed on the logit scale, so that it stays inside [0, 1]. Where that variance is 0 (scores
    that separate perfectly or not at all) or cannot be had (a single stay in a group), the largest variance
    possible, A (1 - A) / min(members, non-members) (Bamber, J. Math. Psychol. 1975), gives a Wilson interval.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member. Ties count half.
    comparisons : int
        Of how many attacks this is the one that was picked out. See `corrected_tail`.

    Raises
    ------
    ValueError
        Where shapes differ, a score is NaN, or there are no members or no non-members.
    """
    members, non_members = checked_groups(labels, scores)
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
        return area, _wilson(area, smaller, corrected_tail(comparisons))
    reach = _z(corrected_tail(comparisons)) * np.sqrt(variance) / (area * (1 - area))
    return area, (float(expit(logit(area) - reach)), float(expit(logit(area) + reach)))


def tpr_at_fpr(
    labels: npt.ArrayLike, scores: npt.ArrayLike, fpr: float = FPR, comparisons: int = 1
) -> tuple[float, Interval]:
    """Share of members found while at most a share `fpr` of non-members is named wrongly, with its 95 % interval.

    A stay is named when its score is above the score of the (k+1)-th highest non-member, k = floor(fpr x
    non-members): the most a threshold can find without more than k false alarms. Stays tied with that
    non-member are not named, and nothing is interpolated.

    Two errors make up the interval, put together as variances are (MOVER; Zou & Donner, Stat. Med. 2008): that of
    the share of members (Wilson), and that of the threshold, of which the non-members tell only that the number
    of them above the true one is binomial. Over simulated matches of 100 to 4,000 stays, from no leak to a strong one
    (2,000 each), this covers 96 to 100 % and Wilson alone 17 to 94 %. tests/test_statistics.py repeats it in small.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member.
    fpr : float
        Share of non-members that may be named wrongly, in (0, 1).
    comparisons : int
        Of how many attacks this is the one that was picked out. See `corrected_tail`.

    Raises
    ------
    ValueError
        As `auroc`, and where `fpr` is outside (0, 1).
    """
    if not 0 < fpr < 1:
        raise ValueError(f"fpr must lie between 0 and 1, got {fpr}")
    members, non_members = checked_groups(labels, scores)
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
    tpr, tail = found(allowed), corrected_tail(comparisons)
    low, high = _wilson(tpr, n_members, tail)
    # With 95 % probability this many non-members lie above the threshold whose true rate is `fpr`.
    fewest, most = (int(count) for count in binom.ppf([tail, 1 - tail], n_non_members, fpr))
    threshold_error = found(min(fewest - 1, allowed)) - tpr, found(max(most, allowed)) - tpr
    low, high = _combine(tpr, (low - tpr, high - tpr), threshold_error)
    return tpr, (max(low, 0.0), min(high, 1.0))


def corrected_tail(comparisons: int) -> float:
    """Return the error on either side with which `comparisons` intervals hold at once with 95 % (Bonferroni).

    The worst of many attacks is picked because its figure is high, so its own 95 % interval promises too much.

    Raises
    ------
    ValueError
        If there is not at least one.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons must be at least 1, got {comparisons}")
    return _TAIL / comparisons


def roc_curve(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """All points of the ROC curve, from (0, 0) to (1, 1).

    Parameters
    ----------
    labels : [n] bool
        True for members.
    scores : [n] float
        Higher means more likely a member. Tied stays enter together.

    Returns
    -------
    fpr, tpr : [distinct scores + 1] float
        Shares of non-members and of members at or above each threshold, strictest first.

    Raises
    ------
    ValueError
        As `auroc`.
    """
    members, non_members = (np.sort(group) for group in checked_groups(labels, scores))
    thresholds = np.unique(np.concatenate([members, non_members]))[::-1]
    fpr, tpr = (1 - np.searchsorted(group, thresholds, side="left") / len(group) for group in (non_members, members))
    return np.concatenate([[0.0], fpr]), np.concatenate([[0.0], tpr])


def reidentification(
    labels: npt.ArrayLike,
    predicted: npt.ArrayLike,
    scores: npt.ArrayLike | None = None,
    comparisons: int = 1,
) -> dict[str, Any]:
    """Every figure of a seeker's success, with its 95 % interval, as report.json holds them.

    Parameters
    ----------
    labels : [n] bool
        True for members.
    predicted : [n] bool or float
        The seeker's labels. Above 0.5 means member.
    scores : [n] float, optional
        The seeker's scores, higher meaning more likely a member.
    comparisons : int
        How many seekers this one was picked from. Intervals are corrected for that (`corrected_tail`).

    Returns
    -------
    dict
        `score` is the accuracy of the labels and `chance` that of the better constant guess. `advantage` is the rate
        of members found minus that of false alarms (Yeom et al., CSF 2018): unlike the score it shows a leak also
        where members are few. Values are plain floats, ints and two-element lists, and None for what needs scores.

    Raises
    ------
    ValueError
        Where shapes differ, a value is NaN, or there are no members or no non-members.
    """
    members, non_members = (group > MEMBER_THRESHOLD for group in checked_groups(labels, predicted, name="predicted"))
    n_members, n_non_members = len(members), len(non_members)
    found, false_alarms = int(members.sum()), int(non_members.sum())
    correct, stays = found + n_non_members - false_alarms, n_members + n_non_members
    figures: dict[str, Any] = {
        "members": n_members,
        "non_members": n_non_members,
        "score": correct / stays,
        "score_ci95": list(wilson_interval(correct, stays, comparisons)),
        "chance": max(n_members, n_non_members) / stays,
        "members_found": found,
        "members_found_rate": found / n_members,
        "members_found_rate_ci95": list(wilson_interval(found, n_members, comparisons)),
        "false_alarms": false_alarms,
        "false_alarm_rate": false_alarms / n_non_members,
        "false_alarm_rate_ci95": list(wilson_interval(false_alarms, n_non_members, comparisons)),
        "advantage": found / n_members - false_alarms / n_non_members,
        "advantage_ci95": list(difference_interval((found, false_alarms), (n_members, n_non_members), comparisons)),
        "auroc": None,
        "auroc_ci95": None,
        "tpr_at_1_percent_fpr": None,
        "tpr_at_1_percent_fpr_ci95": None,
    }
    if scores is not None:
        for name, (value, interval) in {
            "auroc": auroc(labels, scores, comparisons),
            "tpr_at_1_percent_fpr": tpr_at_fpr(labels, scores, 0.01, comparisons),
        }.items():
            figures |= {name: value, f"{name}_ci95": list(interval)}
    return figures


def _z(tail: float) -> float:
    """Return the standard normal quantile with `tail` above it."""
    return -float(ndtri(tail))


def _wilson(rate: float, trials: int, tail: float = _TAIL) -> Interval:
    """Wilson's interval, also for a rate that is no whole number of successes."""
    z = _z(tail)
    shrunk = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    reach = z * np.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2)) / (1 + z**2 / trials)
    # At the ends the limit is the rate itself, and rounding must not move it.
    return (0.0 if rate == 0 else float(shrunk - reach)), (1.0 if rate == 1 else float(shrunk + reach))


def _combine(estimate: float, *errors: Interval) -> Interval:
    """Interval of a sum of independent parts from each part's errors (below, above): they add as squares do."""
    below, above = np.sqrt(np.square(np.array(errors, dtype=np.float64)).sum(axis=0))
    return float(estimate - below), float(estimate + above)


def checked_groups(labels: npt.ArrayLike, values: npt.ArrayLike, name: str = "scores") -> tuple[FloatArray, FloatArray]:
    """Return the values of the members and of the non-members, checked.

    Raises
    ------
    ValueError
        Where shapes differ, a value is NaN, or there are no members or no non-members.
    """
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
