"""Crowd hider: stays that no patient is behind, drawn from a model of all patients. Plain NumPy, seconds.

Ours. Until 2026 it was the default of `hider_adversarial.py`, and it was said there to be at chance for every seeker.
That is withdrawn. The model holds the patients' mean at every cell, 3,801 numbers at 100 time points and 38 features,
and each patient's share in those means is found: an attack on means (Homer et al. 2008) labels 0.60 of
4,000 stays of PhysioNet 2012 set-a rightly, and 0.66 to 0.74 of 1,000. Forecasters trained on its release are worse
than a constant for most vital signs. docs/methods.md has the figures.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.hider.crowd.cells import fit_crowd
from utils.stays import padding_of, real_rows_last


@dataclass(frozen=True)
class Parameters:
    components: int = 20  # directions kept of how patients differ
    patients_per_direction: int = 50  # a direction is kept only if so many patients stand behind each

    def __post_init__(self) -> None:
        for name in ("components", "patients_per_direction"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Fit the model of all patients and draw as many stays.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        In the input's units. Nothing is missing.
    padding_mask : ndarray of bool, shape [N, T, F]
        That of the new lengths.
    """
    data = np.asarray(input_dict["data"], dtype=float)
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])
    kept = max(1, min(parameters.components, len(data) // parameters.patients_per_direction))
    _, _, crowd = fit_crowd(data, padding_mask, kept, rng)
    rows, lengths = crowd.draw(len(data), data.shape[1], rng)
    return crowd.to_units(real_rows_last(rows, lengths, fill=0), lengths, rng)
