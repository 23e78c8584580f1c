"""TimeGAN's quality on Google stocks, by the published post-hoc metrics.

    python benchmarks/timegan_stocks.py DATA                     train, generate, print Markdown
    python benchmarks/timegan_stocks.py DATA --figure out.svg    and draw original against generated, by PCA and t-SNE

DATA is a CSV of daily prices: Open, High, Low, Close, Adj_Close, Volume. As published: scaled to [0, 1], cut into
sequences of 24 days at every day, shuffled. GRU, 24 units, 3 layers. Published: discriminative score 0.102 +- 0.021,
predictive 0.038 +- 0.001, predictive when trained on the original 0.036. The settings were chosen with seed 0.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402

import hider_timegan  # noqa: E402
from examples.hider.timegan.timegan import timegan  # noqa: E402
from scoring.report.projections import project  # noqa: E402
from scoring.utility.posthoc import PUBLISHED_CODE, STRONGER, discriminative_score, predictive_score  # noqa: E402
from utils.files import atomic_path  # noqa: E402
from utils.parameters import parse_parameters  # noqa: E402

DAYS = 24


def sequences(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Return shuffled, overlapping sequences [N, 24, 6], each feature scaled to [0, 1] over the whole file."""
    rows = np.genfromtxt(path, delimiter=",", skip_header=1)
    rows = (rows - rows.min(axis=0)) / (np.ptp(rows, axis=0) + 1e-7)
    windows = np.lib.stride_tricks.sliding_window_view(rows, DAYS, axis=0).transpose(0, 2, 1)
    return windows[rng.permutation(len(windows))]


def draw(original: np.ndarray, generated: np.ndarray, seed: int, path: Path) -> None:
    """Write the two plots as one SVG: a sequence stands for the mean of its features on each day, as in the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    drawn = np.random.default_rng(seed).permutation(min(len(original), len(generated)))[:1000]
    planes = project(original[drawn].mean(axis=2), generated[drawn].mean(axis=2), seed)
    for axes, (name, plane) in zip(figure.subplots(1, 2), planes.items(), strict=True):
        axes.scatter(*plane.original.T, s=6, alpha=0.3, color="#c0392b", label="original", linewidths=0)
        axes.scatter(*plane.generated.T, s=6, alpha=0.3, color="#2c6fbb", label="generated", linewidths=0)
        axes.set(title=name, xticks=[], yticks=[])
    axes.legend(markerscale=2.5)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="svg")


def spread(scores: list[float]) -> str:
    """Write a mean and a standard deviation."""
    return f"{np.mean(scores):.4f} ± {np.std(scores):.4f}"


def main() -> None:
    """Train, generate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10, help="of each metric")
    parser.add_argument("--parameters", default="stocks", help="name=value,... of hider_timegan.py")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()

    parameters = parse_parameters(hider_timegan, options.parameters)
    rng = np.random.default_rng(options.seed)
    original = sequences(options.data, rng)
    began = time.perf_counter()
    generated = timegan(original, parameters, rng)
    seconds = time.perf_counter() - began

    runs = range(options.seed, options.seed + options.runs)
    print(f"{len(original)} sequences of {DAYS} days; seed {options.seed}; training took {seconds / 60:.1f} min\n")
    print(f"| metric ({options.runs} runs) | generated | original | published |")
    print("|---|---|---|---|")
    for name, model, published in (("as published", PUBLISHED_CODE, "0.102 ± 0.021"), ("stronger", STRONGER, "")):
        scores = [discriminative_score(original, generated, run, model) for run in runs]
        print(f"| discriminative, {name} | {spread(scores)} | | {published} |", flush=True)
    for name, model, published in (("as published", PUBLISHED_CODE, "0.038 ± 0.001 (original 0.036)"),):
        scores = [[predictive_score(original, data, run, model) for run in runs] for data in (generated, original)]
        print(f"| predictive, {name} | {spread(scores[0])} | {spread(scores[1])} | {published} |")
    if options.figure:
        draw(original, generated, options.seed, options.figure)
        print(f"\nPCA and t-SNE: {options.figure}")


if __name__ == "__main__":
    main()
