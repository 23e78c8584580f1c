"""How long the parts of a match take, how that grows with stays, and how it compares with the 2020 kit.

    python benchmarks/speed.py                          the table, on simulated stays
    python benchmarks/speed.py --match DATA             a whole match in a process of its own: seconds and peak memory
    python benchmarks/speed.py --method binning         the hider on 10,000 stays; or matching: 20,000 against 10,000

Prints Markdown. The kit's figures were measured on 2 cores with its own code (TensorFlow 1.15). Machines are noisy,
so read the growth (within one run) before the seconds.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402

from scoring.data.simulate import simulate  # noqa: E402
from utils.data_preprocess import load_and_reshape, preprocess_data, preprocess_imputed  # noqa: E402
from utils.distances import nearest_neighbours  # noqa: E402

KIT_PREPROCESS = 4.5  # seconds for 1,000 stays x 100 x 71, the kit's code
KIT_KNN = 3.9  # seconds for 1,000 x 500 pairs of 100 x 71
KIT_MATCH = 487.0  # seconds for set-a, 5 features, add-noise against KNN


def timed(function: Callable, *arguments: object, repeats: int = 3) -> tuple[float, object]:
    """Return the best of `repeats` times in seconds, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        began = time.perf_counter()
        result = function(*arguments)
        best = min(best, time.perf_counter() - began)
    return best, result


def parts(stays: int, utility: bool) -> dict[str, float]:
    """Time each part on `stays` simulated stays x 100 x 71. The utility checks train one model on half of them."""
    with tempfile.TemporaryDirectory() as folder:
        csv = Path(folder) / "stays.csv"
        simulate(stays, 70, seed=0).write_csv(csv)
        load, (data, mask) = timed(load_and_reshape, csv, 100, repeats=1 if stays > 5000 else 3)
    preprocess, _ = timed(preprocess_data, data, mask, repeats=1 if stays > 5000 else 3)
    scaled = preprocess_imputed(data, mask)
    half = scaled[: stays // 2] + np.float32(0.01)
    knn, _ = timed(nearest_neighbours, scaled, half, repeats=1 if stays > 5000 else 3)
    seconds = {"load": load, "preprocess": preprocess, "KNN": knn}
    if utility:
        from utils.metric_utils import utility_scores

        half = scaled[: stays // 2]
        began = time.perf_counter()
        utility_scores({"original": half}, scaled[stays // 2 :], [5, 9, 12], [0])
        seconds["utility, a model"] = (time.perf_counter() - began) / 4
    return seconds


def table(sizes: list[int], utility_up_to: int) -> None:
    """Print seconds per part and size, with the growth from the size before."""
    columns = ["load", "preprocess", "KNN", "utility, a model"]
    print("| stays | " + " | ".join(columns) + " |\n|" + "---:|" * (len(columns) + 1))
    before: dict[str, float] = {}
    for stays in sizes:
        seconds = parts(stays, utility=stays <= utility_up_to)
        cells = []
        for column in columns:
            cell = f"{seconds[column]:.2f} s" if column in seconds else "-"
            if column in seconds and column in before:
                cell += f" (x{seconds[column] / before[column]:.1f})"
            cells.append(cell)
        print(f"| {stays:,} | " + " | ".join(cells) + " |", flush=True)
        before = seconds
        if stays == 1000:
            ratio = KIT_PREPROCESS / seconds["preprocess"], KIT_KNN / seconds["KNN"]
            kit = f"preprocess {ratio[0]:.0f} x, KNN {ratio[1]:.0f} x"
    if 1000 in sizes:
        print(f"\nFaster than the 2020 kit at 1,000 stays: {kit}.")


def match(data: Path, arguments: list[str]) -> None:
    """Play one match in a process of its own and print its seconds and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "main.py"), "-d", str(data), "-o", folder, *arguments]
        began = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    kit = f"; the kit took {KIT_MATCH / seconds:.1f} x that" if "set-a" in data.name else ""
    print(f"\nmatch: {seconds:.1f} s, peak memory of its largest process {peak:.2f} GiB{kit}")


def method(name: str) -> None:
    """Run one method on stays x 100 x 71 in which nothing is missing. Print its seconds and the peak over its input."""
    import hider_binning
    import seeker_matching

    rng = np.random.default_rng(0)
    stays = 10_000 if name == "binning" else 20_000
    data = rng.standard_normal((stays, 100, 71))
    padded = np.repeat((np.arange(100) < 100 - rng.integers(20, 101, size=stays)[:, None])[:, :, None], 71, axis=2)
    data[padded] = -1
    inputs = {"data": data, "padding_mask": padded, "seed": 0}
    if name == "matching":
        inputs = {"enlarged_data": data, "enlarged_data_padding_mask": padded, "seed": 0}
        inputs |= {"generated_data": data[::2] + 0.1, "generated_data_padding_mask": padded[::2]}
        inputs["generated_data"][padded[::2]] = -1
    size = sum(array.nbytes for array in inputs.values() if isinstance(array, np.ndarray)) / 2**30
    began = time.perf_counter()
    hider_binning.hider(inputs) if name == "binning" else seeker_matching.seeker(inputs)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {seconds:.1f} s, peak memory {peak:.2f} GiB, its input of {size:.2f} GiB included")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000], metavar="STAYS")
    parser.add_argument("--utility_up_to", type=int, default=2000, metavar="STAYS", help="train models up to this size")
    parser.add_argument("--match", type=Path, metavar="DATA", help="time a whole match on DATA instead")
    parser.add_argument("--method", choices=("binning", "matching"), help="time this method instead")
    arguments, rest = parser.parse_known_args()
    if arguments.method:
        method(arguments.method)
    elif arguments.match:
        match(arguments.match, rest)
    else:
        table(arguments.sizes, arguments.utility_up_to)


if __name__ == "__main__":
    main()
