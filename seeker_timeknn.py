"""TimeKNN seeker: who was sampled at the same times as a generated stay was used to make it.

Wang, Wang and Srivastava (UCLA NESL, "Golden_Fleece"), runner-up of the 2020 Hide-and-Seek Privacy Challenge.

What it exploits: sampling times and lengths differ between patients more than values do, and most hiders leave them be.
Values are not looked at.
"""

from typing import Any

import numpy as np

from utils.data_preprocess import preprocess_imputed
from utils.distances import nearest_neighbours
from utils.stays import label_highest, padded_rows


def seeker(input_dict: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays whose times are nearest to a generated stay's, as many as there are generated stays.

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
    generated = times(input_dict["generated_data"], input_dict["generated_data_padding_mask"])
    enlarged = times(input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"])
    # A time later than any patient's is nearer to all of theirs when moved to the latest.
    np.minimum(generated, enlarged.max(), out=generated)
    distances, _ = nearest_neighbours(enlarged, generated)

    return label_highest(-distances, len(generated)), -distances


def times(data: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return the times since each stay's start, shape [N, T], -1 where padded.

    Without a mask, time points at which every feature is -1 count as padding.
    """
    padded = padded_rows(data, padding_mask)[:, :, None]
    with np.errstate(over="ignore"):  # a time too large for float32 becomes infinite, then the latest of all
        return preprocess_imputed(data[:, :, :1], padded)[:, :, 0]
