"""Whether conclusions carry over: a researcher who fits a regression to the release should write the same paper.

The regressions are the plainest there are: a feature's mean in the second half of a stay on its own mean and those of
three other features in the first half, and each static column on the means of four features over the stay. Features are
standardised by the real stays' means and spreads. Stays with a gap in these numbers are left out.
"""

from typing import Any

import numpy as np

from scoring.utility.observed import Observed
from scoring.utility.tasks import Plan, first_half

_OTHERS = 3  # features beside a feature's own
_LEAST_CASES = 60  # complete stays, or a regression is not fitted
_Z = 1.96


def conclusions(halves: list[Observed], lessons: list[Observed], torn: list[Observed], plan: Plan) -> dict[str, Any]:
    """Compare the coefficients of a release with the intervals of real ones.

    Parameters
    ----------
    halves : list of two Observed
        The real stays. Each half's intervals are held against the other half's coefficients, which is the ceiling.
    lessons, torn : list of two Observed
        The release, and independent columns of each half, which is the floor.
    plan : Plan

    Returns
    -------
    dict
        `coefficients`: how many there are, over both halves. `inside`: the share that lies in the 95 % interval of the
        real one, for `release`, `other_real_stays` and `independent_columns`. `same_sign`: the share with the real
        sign, of the coefficients whose real interval leaves out 0 (`sure`: how many). None if nothing can be fitted.
    """
    scale = _scale(halves, plan)
    real = [_coefficients(half, plan, scale) for half in halves]
    sources = {
        "release": [_coefficients(lesson, plan, scale) for lesson in lessons],
        "other_real_stays": real[::-1],
        "independent_columns": [_coefficients(part, plan, scale) for part in torn],
    }
    value, error = np.concatenate([half[0] for half in real]), np.concatenate([half[1] for half in real])
    fitted = np.isfinite(value) & np.isfinite(error)
    sure = fitted & (np.abs(value) > _Z * error)
    found: dict[str, Any] = {"coefficients": int(fitted.sum()), "sure": int(sure.sum()), "inside": {}, "same_sign": {}}
    for name, parts in sources.items():
        theirs = np.concatenate([part[0] for part in parts])  # NaN, if it cannot be fitted, is not inside
        inside = np.abs(theirs - value) <= _Z * error
        found["inside"][name] = float(inside[fitted].mean()) if fitted.any() else None
        found["same_sign"][name] = float((theirs * value > 0)[sure].mean()) if sure.any() else None
    return found


def _scale(halves: list[Observed], plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    values = np.concatenate([plan.clipped(half).values for half in halves])
    values = values.reshape(-1, values.shape[2])
    known = np.isfinite(values)
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, values, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, np.square(values - centre), 0.0).sum(axis=0) / count)
    return centre, np.where(spread > 0, spread, 1.0)


def _coefficients(stays: Observed, plan: Plan, scale: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return every slope and its standard error, in an order that depends on the plan alone."""
    clipped = plan.clipped(stays)
    half = first_half(clipped)
    before, after, whole = (
        (clipped.summarise(rows)["mean"] - scale[0]) / scale[1] for rows in (half, clipped.rows & ~half, clipped.rows)
    )
    fits = []
    for place, feature in enumerate(plan.targets):
        others = np.delete(plan.targets, place)[:_OTHERS]
        fits.append(_slopes(before[:, [feature, *others]], after[:, feature]))
    for feature in plan.static:
        fits.append(_slopes(whole[:, plan.targets[: _OTHERS + 1]], whole[:, feature]))
    if not fits:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([fit[0] for fit in fits]), np.concatenate([fit[1] for fit in fits])


def _slopes(inputs: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return least-squares slopes and their standard errors, robust to unequal variances (White 1980)."""
    unknown = np.full(inputs.shape[1], np.nan)
    complete = np.isfinite(target) & np.isfinite(inputs).all(axis=1)
    if complete.sum() < _LEAST_CASES:
        return unknown, unknown
    design = np.column_stack([np.ones(int(complete.sum())), inputs[complete]])
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ (design.T @ target[complete])
    weighted = design * (target[complete] - design @ slopes)[:, None]
    variance = inverse @ (weighted.T @ weighted) @ inverse
    return slopes[1:], np.sqrt(np.maximum(np.diag(variance)[1:], 0.0))
