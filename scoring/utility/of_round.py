"""Kept utility of a round's releases: the others of the round are the real stays to test on."""

from typing import Any

import numpy as np

from scoring.round import Round
from scoring.utility.kept import Yardstick
from scoring.utility.observed import Stays

_YARDSTICK, _RELEASE = 1, 2  # uses of the round's seed


def yardstick(round_: Round) -> Yardstick:
    """Measure ceiling and floor on the stays that the hider never saw."""
    others = Stays(round_.data[round_.others], round_.padding_mask[round_.others])
    return Yardstick(others, round_.feature_names, np.random.default_rng([_YARDSTICK, round_.hider_seed]))


def kept_facts(
    round_: Round, generated: np.ndarray, padding_mask: np.ndarray | None, ruler: Yardstick | None = None
) -> dict[str, Any]:
    """Return `utility.kept` of report.json.

    Parameters
    ----------
    round_ : Round
    generated : ndarray, shape [n, T, F]
    padding_mask : ndarray of bool, shape [n, T, F], or None
    ruler : Yardstick, optional
        That of this round, if it was made before.
    """
    ruler = ruler or yardstick(round_)
    rng = np.random.default_rng([_RELEASE, round_.hider_seed])
    return ruler.judge(Stays(generated, padding_mask), rng).to_json()
