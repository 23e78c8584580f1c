"""Seconds a model of the utility checks: our engine against Keras' own fit of the same model, in one run.

    python benchmarks/utility_models.py [--models 12] [--stays 2000] [--features 38]

Keras fits one model for `--keras_epochs` epochs and is scaled up to all. Its time to build and trace the model
is left out, ours to compile is left in.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from utils import gru_ensemble
from utils.general_rnn import GeneralRNN


def make_stays(rng: np.random.Generator, stays: int, time_points: int, features: int) -> np.ndarray:
    """Random walks in [0, 1] with hours before them, of set-a's lengths (mean 71 of 100), padding at the front."""
    steps = rng.normal(0, 0.05, (stays, time_points, features)).astype(np.float32)
    data = np.clip(0.5 + np.cumsum(steps, axis=1), 0, 1)
    data[:, :, 0] = np.cumsum(rng.random((stays, time_points)), axis=1)
    lengths = np.clip(rng.normal(0.71, 0.19, stays) * time_points, 1, time_points).astype(int)
    data[np.arange(time_points) < (time_points - lengths)[:, None]] = -1
    return data


def clocks() -> np.ndarray:
    """Return wall time and the process's CPU time: on a shared machine the second is what compares."""
    return np.array([time.perf_counter(), time.process_time()])


def time_engine(data: np.ndarray, models: int, workers: int | None) -> np.ndarray:
    """Return `clocks` to train `models` predictors, every sixth of them one-step-ahead, compiling included."""
    predictors = [gru_ensemble.Predictor("data", i % 6 or None, i // 6) for i in range(models)]
    series = {"data": gru_ensemble.Series.from_padded(data)}
    start = clocks()
    gru_ensemble.fit(predictors, series, workers=workers)
    return clocks() - start


def time_keras(data: np.ndarray, epochs: int) -> np.ndarray:
    """Return `clocks` of one Keras fit of one feature's predictor, scaled from `epochs` to all epochs."""
    features = data.shape[2]
    parameters = {"task": "regression", "model_type": "gru", "h_dim": features, "n_layer": gru_ensemble.LAYERS}
    parameters |= {"batch_size": gru_ensemble.BATCH, "learning_rate": gru_ensemble.LEARNING_RATE}

    def fit(epochs: int) -> np.ndarray:
        start = clocks()
        GeneralRNN({**parameters, "epoch": epochs}).fit(np.delete(data, 1, axis=2), data[:, :, [1]])
        return clocks() - start

    first = fit(1)
    return (fit(1 + epochs) - first) / epochs * gru_ensemble.EPOCHS


def main() -> None:
    """Run both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--stays", type=int, default=2000)
    parser.add_argument("--time_points", type=int, default=100)
    parser.add_argument("--features", type=int, default=38)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--keras_epochs", type=int, default=3)
    arguments = parser.parse_args()
    data = make_stays(np.random.default_rng(0), arguments.stays, arguments.time_points, arguments.features)
    keras = time_keras(data, arguments.keras_epochs)
    ours = time_engine(data, arguments.models, arguments.workers) / arguments.models
    print(f"{arguments.stays} stays x {arguments.time_points} x {arguments.features}, {gru_ensemble.EPOCHS} epochs")
    print("| engine | models | seconds a model | CPU seconds a model | ratio of seconds |")
    print("|---|---|---|---|---|")
    print(f"| one Keras fit | 1 | {keras[0]:.1f} | {keras[1]:.1f} | 1 |")
    print(f"| gru_ensemble | {arguments.models} | {ours[0]:.1f} | {ours[1]:.1f} | {keras[0] / ours[0]:.1f} x faster |")


if __name__ == "__main__":
    main()
