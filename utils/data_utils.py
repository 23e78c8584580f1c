"""Splitting a data set, bit for bit as in 2020."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np


def data_division(
    data: np.ndarray | Sequence, seed: int, divide_rates: Sequence[float]
) -> tuple[list[list], list[np.ndarray]]:
    """Divide `data` at random into parts of the given rates.

    Sets the legacy global generators, as the contract demands: a submission's later draws depend on it.

    Parameters
    ----------
    data : ndarray or sequence, length N
        What to divide along its first axis.
    seed : int
        Seed of the split.
    divide_rates : sequence of float
        The parts' shares. They sum to 1.

    Returns
    -------
    parts : list of lists
        The elements of `data` (views, not copies, for an array), one list per part.
    indices : list of ndarray of int
        Their indices in `data`.

    Raises
    ------
    ValueError
        Where the rates do not sum to 1.
    """
    if not math.isclose(sum(divide_rates), 1.0):
        raise ValueError(f"divide_rates must sum to 1, not {sum(divide_rates):g}")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    count = len(data)
    order = np.random.permutation(count)  # noqa: NPY002
    cuts = [int(count * sum(divide_rates[:part])) for part in range(len(divide_rates))] + [count]
    indices = [order[start:end] for start, end in itertools.pairwise(cuts)]
    return [[data[i] for i in part] for part in indices], indices
