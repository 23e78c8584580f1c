"""How many training steps a second each of TimeGAN's phases takes.

    python benchmarks/timegan_speed.py

Prints Markdown. Batch 128, 100 time points, 38 features, hidden 10, as the published TensorFlow 1 graph was measured on
a loaded 2-core machine. CPU only. Machines are noisy: the load and the share of the processor that the run got stand
beside the figures. A step's processor time is the steadier one.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402

from examples.hider.timegan import timegan  # noqa: E402

PUBLISHED = {"embedding": 18.0, "supervised": 33.0, "joint": 2.4}  # iterations/s
SCHEDULE = 20_000  # iterations of each phase
STAYS, TIME_POINTS, FEATURES = 2_000, 100, 38


def main() -> None:
    """Time each phase and print the table."""
    rng = np.random.default_rng(0)
    data = rng.random((STAYS, TIME_POINTS, FEATURES))
    series = timegan._Series.from_padded(data)
    seconds = {}
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| phase | iterations/s | TensorFlow 1 | ratio | processor ms/iteration | cores used |")
    print("|---|---|---|---|---|---|")
    for name, phase_rate, processor, cores in _rates(series):
        seconds[name] = SCHEDULE / phase_rate
        published = PUBLISHED[name]
        ratio = phase_rate / published
        print(f"| {name} | {phase_rate:.1f} | {published} | {ratio:.1f} | {processor:.1f} | {cores:.2f} |", flush=True)
    ours, theirs = sum(seconds.values()), sum(SCHEDULE / rate for rate in PUBLISHED.values())
    print(f"| all three | {ours / 60:.0f} min | {theirs / 60:.0f} min | {theirs / ours:.1f} | | |")
    print(f"\nload after: {os.getloadavg()[0]:.1f}")


def _rates(series: timegan._Series):
    """Yield the name of each phase, iterations/s, processor ms an iteration, and cores used."""
    parameters = timegan.Parameters()
    net = timegan._networks(parameters, FEATURES)
    weights = [network.first_weights(np.random.default_rng([0, i])) for i, network in enumerate(net)]
    state = timegan._Networks(*map(timegan.Adam.begin, weights))
    for phase in timegan._phases(parameters):
        run = timegan._compiled(phase, parameters, net)
        rows = 60 if phase.name == "joint" else 300
        rates = np.full(rows, parameters.learning_rate, np.float32)
        draws = timegan._draws([0, rows], rows, phase.batches, STAYS, parameters.batch)
        for steps in (1, rows):  # the first call compiles. Its arguments have the shapes of the second's
            began, processor = time.perf_counter(), time.process_time()
            state, losses = run(state, series.values, series.lengths.astype(np.int32), np.int32(steps), rates, *draws)
            losses.numpy()
            wall, processor = time.perf_counter() - began, time.process_time() - processor
        yield phase.name, steps / wall, 1e3 * processor / steps, processor / wall


if __name__ == "__main__":
    main()
