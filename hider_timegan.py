"""TimeGAN hider: stays made up by a generative adversarial network. A baseline of the 2020 challenge.

Yoon, Jarrett and van der Schaar, "Time-series Generative Adversarial Networks", NeurIPS 2019. No generated stay
belongs to a patient. In the order of a run: impute and scale, learn (examples/hider/timegan/timegan.py), generate, let
time run forward, take values away in the data's own pattern of missingness, return to the input's units.

What it does not protect against: the networks were trained on the patients, without any formal guarantee, and may have
memorised some. Each feature's range is the data's own, so extremes show. Lengths of stay are drawn from the real ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import examples.hider.timegan.timegan as model
from examples.hider.timegan.missingness import MissingnessModel
from utils.data_preprocess import PADDING_FILL, get_scaler, inverse_process, preprocess_imputed, start_times
from utils.stays import padded_rows, padding_of


@dataclass(frozen=True)
class Parameters(model.Parameters):
    """TimeGAN's own parameters, in examples/hider/timegan/timegan.py, and what happens around it."""

    missing: bool = True  # whether generated values go missing as the data's do


# For Google stocks, on which the paper reports 0.102 and 0.038 (table 2). The sizes are those of the authors' notebook.
# The decay, and more iterations than the notebook's 10,000 a phase, are ours (docs/timegan.md).
STOCKS = Parameters(
    hidden=24,
    embedding_iterations=20_000,
    supervised_iterations=20_000,
    joint_iterations=12_000,
    decay=0.3,
    missing=False,
)


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Train on the stays and return as many generated ones, of the input's shape and in its units.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F] or None, `seed`.
    parameters : Parameters

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
        NaN where missing, -1 where padded. Time rises within a stay.
    padding_mask : ndarray of bool, shape [N, T, F]

    Raises
    ------
    UserError
        When there is nothing to learn from, or training diverges.
    """
    data = input_dict["data"]
    padding_mask = padding_of(data, input_dict["padding_mask"])
    rng = np.random.default_rng(input_dict["seed"])

    scaled = preprocess_imputed(data, padding_mask)
    generated = model.timegan(scaled, parameters, rng)
    padded = padded_rows(generated, None)
    real = ~padded

    # Time since the first time point: it begins at 0 and does not run backwards.
    time = np.sort(np.where(real, generated[:, :, 0], -np.inf), axis=1)
    first = np.where(real, time, np.inf).min(axis=1, keepdims=True)
    generated[:, :, 0] = np.where(real, time - first, PADDING_FILL)

    # Stays begin at times like the data's: drawn between the ordered real ones, not copied.
    starts = np.quantile(start_times(data, padding_mask), rng.random(len(data)))
    mask = np.repeat(padded[:, :, None], data.shape[2], axis=2)
    restored = inverse_process(generated, mask, get_scaler(data, padding_mask), starts)
    if parameters.missing:
        restored[MissingnessModel.fit(np.isnan(data), ~padding_mask[:, :, 0], rng).sample(real, rng)] = np.nan
    return restored, mask
