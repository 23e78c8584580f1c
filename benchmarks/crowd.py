"""What the crowd hider keeps and what it leaks: kept utility and the attack on means, one row a setting and split.

    python benchmarks/crowd.py DATA [--settings default cells leak=0.6] [--seeds 1 2]

DATA is PhysioNet 2012 set-a as downloaded, or a longitudinal CSV. Half of the stays are members. Prints Markdown.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import hider_crowd  # noqa: E402
import seeker_moments  # noqa: E402
from scoring.data.datasets import load  # noqa: E402
from scoring.utility.kept import Yardstick  # noqa: E402
from scoring.utility.observed import Stays  # noqa: E402
from utils.data_utils import data_division  # noqa: E402
from utils.parameters import parse_parameters  # noqa: E402

FAMILIES = ("forecast", "next hours", "imputation", "measurement", "structure")


def main() -> None:
    """Hide, attack, judge, and print a row for each split and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--settings", nargs="+", default=["default", "cells"], help="as --hider_parameters")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    stays = load(options.data, 100)
    print("| split | setting | seconds | moments, Re-ID | AUROC | kept utility | " + " | ".join(FAMILIES) + " |")
    print("|---|---" + "|---:" * (4 + len(FAMILIES)) + "|", flush=True)
    for seed in options.seeds:
        _, (members, others) = data_division(range(len(stays.data)), seed, [0.5, 0.5])
        truth = np.isin(np.arange(len(stays.data)), members)
        real = Stays(stays.data, stays.padding_mask)
        yardstick = Yardstick(real.take(others), stays.feature_names, np.random.default_rng(seed))
        for setting in options.settings:
            parameters = parse_parameters(hider_crowd, "" if setting == "default" else setting)
            given = {"data": stays.data[members], "padding_mask": stays.padding_mask[members], "seed": seed}
            began = time.perf_counter()
            generated, mask = hider_crowd.hider(given, parameters)
            seconds = time.perf_counter() - began
            shown = {
                "generated_data": generated,
                "generated_data_padding_mask": mask,
                "enlarged_data": stays.data,
                "enlarged_data_padding_mask": stays.padding_mask,
                "seed": seed,
            }
            labels, scores = seeker_moments.seeker(shown)
            kept = yardstick.judge(Stays(generated, mask), np.random.default_rng(seed))
            families = {family.name: family.unclipped for family in kept.families}
            cells = [f"{seconds:.1f}", f"{np.mean(labels == truth):.3f}", f"{roc_auc_score(truth, scores):.3f}"]
            cells += [f"{kept.headline.value:.2f}", *(f"{families[name]:.2f}" for name in FAMILIES)]
            print(f"| {seed} | {setting} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
