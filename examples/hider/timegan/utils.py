"""TimeGAN's small helpers under their 2020 names, for submissions that changed TimeGAN and kept these.

Our own TimeGAN does not use them. They draw from a generator that NumPy's legacy one seeds, as their callers expect.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from utils.misc import legacy_rng


def train_test_divide(
    data_x: Sequence[Any],
    data_x_hat: Sequence[Any],
    data_t: Sequence[int],
    data_t_hat: Sequence[int],
    train_rate: float = 0.8,
) -> tuple[list[Any], ...]:
    """Split original and generated stays, and their lengths, into training and test stays, each at random.

    Parameters
    ----------
    data_x, data_x_hat : sequence of ndarray
        Original and generated stays.
    data_t, data_t_hat : sequence of int
        Their numbers of time points.
    train_rate : float
        Share of the stays to train on.

    Returns
    -------
    tuple of eight lists
        train_x, train_x_hat, test_x, test_x_hat, train_t, train_t_hat, test_t, test_t_hat.
    """
    rng = legacy_rng()
    order, order_hat = rng.permutation(len(data_x)), rng.permutation(len(data_x_hat))
    cut, cut_hat = int(len(order) * train_rate), int(len(order_hat) * train_rate)
    train, test, train_hat, test_hat = order[:cut], order[cut:], order_hat[:cut_hat], order_hat[cut_hat:]
    stays = ((data_x, train), (data_x_hat, train_hat), (data_x, test), (data_x_hat, test_hat))
    lengths = ((data_t, train), (data_t_hat, train_hat), (data_t, test), (data_t_hat, test_hat))
    return tuple([values[i] for i in chosen] for values, chosen in stays + lengths)


def extract_time(data: Sequence[Any]) -> tuple[list[int], int]:
    """Return each stay's number of rows, padding among them, and the largest of these numbers (0 without stays)."""
    time = [len(stay) for stay in data]
    return time, max(time, default=0)


def rnn_cell(module_name: str, hidden_dim: int) -> Any:
    """Return one of today's Keras cells with tanh, with `hidden_dim` units.

    Raises
    ------
    ModuleNotFoundError
        Without TensorFlow.
    ValueError
        For a name other than "gru" and "lstm". "lstmLN" was TensorFlow 1's alone.
    """
    if module_name == "lstmLN":
        raise ValueError("rnn_cell: lstmLN was a cell of TensorFlow 1 and is in no later one; take gru or lstm")
    if module_name not in ("gru", "lstm"):
        raise ValueError(f"rnn_cell: module_name must be gru or lstm, not {module_name!r}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"rnn_cell needs TensorFlow ({error}); install tensorflow") from error
    cell = keras.layers.GRUCell if module_name == "gru" else keras.layers.LSTMCell
    return cell(hidden_dim, activation="tanh")


def random_generator(batch_size: int, z_dim: int, T_mb: Sequence[int], max_seq_len: int) -> list[np.ndarray]:
    """Draw uniform noise for the generator.

    Parameters
    ----------
    batch_size : int
        Stays.
    z_dim : int
        Noise values a time point.
    T_mb : sequence of int, shape [batch_size]
        Each stay's time points.
    max_seq_len : int
        Rows of each stay. Those after its last time point are 0.

    Returns
    -------
    list of ndarray, shape [max_seq_len, z_dim]
    """
    noise = legacy_rng().random((batch_size, max_seq_len, z_dim))
    ahead = np.arange(max_seq_len) < np.asarray(T_mb)[:batch_size, None]
    return list(np.where(ahead[:, :, None], noise, 0.0))


def batch_generator(data: Sequence[Any], time: Sequence[int], batch_size: int) -> tuple[list[Any], list[int]]:
    """Return a random batch of different stays, and their lengths. It is smaller where there are fewer stays."""
    rows = legacy_rng().permutation(len(data))[:batch_size]
    return [data[i] for i in rows], [time[i] for i in rows]
