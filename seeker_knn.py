"""KNN seeker: who lies near the generated data was used to make it. The organisers' baseline of 2020.

Jordon et al., "Hide-and-Seek Privacy Challenge", NeurIPS 2020 competition track.

Weak by design: time is in its own unit (hours) while all else lies in [0, 1], so distances are mostly time.
A hider that passes this seeker has shown little.
"""

from typing import Any

import numpy as np

from examples.seeker.knn.knn_seeker import knn_distances
from utils.data_preprocess import preprocess_imputed
from utils.stays import label_highest


def seeker(input_dict: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays nearest to the generated ones, as many as there are members.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Minus the distance to the nearest generated stay: higher is more likely a member.
    """
    generated = preprocess_imputed(input_dict["generated_data"], input_dict["generated_data_padding_mask"])
    enlarged = preprocess_imputed(input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"])
    distances = knn_distances(generated, enlarged)
    return label_highest(-distances, len(generated)), -distances
