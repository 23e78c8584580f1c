"""Binary predictor seeker: a recurrent network accuses the stays it takes for generated. A baseline of 2020.

Jordon et al., "Hide-and-Seek Privacy Challenge", NeurIPS 2020 competition track. A GRU is trained to tell generated
from enlarged data. The idea: an enlarged stay that it takes for generated is one the generator learned from.

Weak by design: it is trained on the very stays it then judges, members and others alike labelled "not generated", so it
finds only what members share with generated data and others lack. Strong where a hider changes stays so little that
both labels fall on nearly the same stay.
"""

from typing import Any

import numpy as np

from examples.seeker.binary_predictor.binary_predictor import enlarged_scores
from utils.data_preprocess import PADDING_FILL, FeatureStatistics, preprocess_imputed
from utils.stays import label_highest, padding_of

SLOW = True  # it trains a network; `--seeker all` waits for --slow


def seeker(input_dict: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays that look most generated, as many as there are generated ones.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Log-odds of being generated rather than enlarged: higher is more likely a member.
    """
    rng = np.random.default_rng(input_dict["seed"])
    enlarged, mask = input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"]
    generated, generated_mask = input_dict["generated_data"], input_dict["generated_data_padding_mask"]
    generated_mask = padding_of(generated, generated_mask)
    scale = FeatureStatistics(enlarged, mask)  # for both, since equal stays would differ if scaled apart
    enlarged = preprocess_imputed(enlarged, mask, statistics=scale)
    with np.errstate(over="ignore"):
        generated = preprocess_imputed(generated, generated_mask, statistics=scale)
    # One huge value would make all others of its feature look alike, so what lies outside the enlarged data's range is
    # moved to its edge.
    generated = np.where(generated_mask, PADDING_FILL, np.clip(generated, 0, enlarged.max(axis=(0, 1))))
    scores = enlarged_scores(generated, enlarged, rng)
    return label_highest(-scores, len(generated)), -scores
