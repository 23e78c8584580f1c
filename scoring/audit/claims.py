"""A claim of differential privacy, and what the attacks say about it."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from scoring.round import Round
from scoring.submissions.players import Player, load_player
from utils.errors import UserError
from utils.parameters import parse_parameters

CONFIDENCE = 0.99
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5)  # of the stays that an attack names


def privacy_claim(hider: Path, setting: str | None, round_: Round) -> dict[str, Any] | None:
    """Ask a hider what it promises: `privacy_claim(parameters, shape)`, an optional function of its module.

    Parameters
    ----------
    hider : Path
        Its `.py` file.
    setting : str, optional
        Its parameters as `name=value,...`.
    round_ : Round

    Returns
    -------
    dict or None
        What it returned, with at least `epsilon` and `delta`. None if it promises nothing.

    Raises
    ------
    UserError
        If it cannot be imported, or its claim fails or has no epsilon.
    """
    module = load_player(Player("hider", hider.stem.removeprefix("hider_"), hider, setting))
    claim = getattr(module, "privacy_claim", None)
    if claim is None:
        return None
    parameters = parse_parameters(module, setting or "") if hasattr(module, "Parameters") else None
    extra = {"feature_names": round_.feature_names} if "feature_names" in inspect.signature(claim).parameters else {}
    try:
        found = dict(claim(parameters, round_.hider_shape, **extra))
        return {**found, "epsilon": float(found["epsilon"]), "delta": float(found.get("delta", 0.0))}
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(f"{hider.name}: privacy_claim failed or gave no epsilon: {error}") from error


def epsilon_found(truth: np.ndarray, scores: Mapping[str, np.ndarray], delta: float) -> dict[str, Any]:
    """Return a lower bound of epsilon from the errors of the attacks.

    Under (epsilon, delta)-differential privacy every attack has TPR <= exp(epsilon) FPR + delta (Kairouz et al., ICML
    2015). So TPR and FPR bound epsilon from below. Both are put at the unfavourable end of an exact interval (Clopper
    and Pearson, 1934), with the error shared among all attacks and thresholds that were looked at. The bound is for the
    average member, and the truth may be far above it.

    Parameters
    ----------
    truth : ndarray of bool, shape [N]
    scores : mapping of attack to ndarray of float, shape [N]
    delta : float

    Returns
    -------
    dict
        `epsilon` (at least 0), `attack`, `confidence`.
    """
    sides = [truth, ~truth]
    tail = (1 - CONFIDENCE) / (4 * len(SHARES) * max(1, len(scores)))
    best: dict[str, Any] = {"epsilon": 0.0, "attack": None, "confidence": CONFIDENCE}
    for name, values in scores.items():
        for share in SHARES:
            for sign, (here, there) in ((1, sides), (-1, sides[::-1])):
                ordered = np.sort(-sign * values)
                named = -sign * values <= ordered[max(0, round(share * len(values)) - 1)]
                low = _clopper_pearson(int((named & here).sum()), int(here.sum()), tail)[0]
                high = _clopper_pearson(int((named & there).sum()), int(there.sum()), tail)[1]
                if low > delta:
                    found = float(np.log((low - delta) / high))
                    if found > best["epsilon"]:
                        best |= {"epsilon": found, "attack": name}
    return best


def _clopper_pearson(successes: int, trials: int, tail: float) -> tuple[float, float]:
    low = float(beta.ppf(tail, successes, trials - successes + 1)) if successes else 0.0
    high = float(beta.ppf(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high
