"""What each change from the published adversarial hider buys: re-identification, one change after another.

    python benchmarks/adversarial_changes.py DATA

DATA is PhysioNet 2012 set-a as downloaded, or a longitudinal CSV. Played on the half of its stays that the defaults
were chosen on, half of them members. Prints Markdown. The embedding is trained once for the published kind of target
and once for ours, so that rows differ in nothing else.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from table1 import half_of  # noqa: E402

import hider_adversarial as method  # noqa: E402
import seeker_matching  # noqa: E402
import seeker_timeknn  # noqa: E402
from scoring.data.datasets import load  # noqa: E402
from utils.data_utils import data_division  # noqa: E402

DEFAULT = method.Parameters()
PUBLISHED = replace(method.PUBLISHED, filters=DEFAULT.filters, iterations=DEFAULT.iterations)
OWN = replace(PUBLISHED, cluster_size=1)
CHANGES = {
    "as published, with our filters": PUBLISHED,
    "each record its own delta": OWN,
    "and steps as large as ours": replace(OWN, steps=DEFAULT.steps, step_size=DEFAULT.step_size),
    "crowd target, published steps": replace(DEFAULT, steps=PUBLISHED.steps, step_size=PUBLISHED.step_size),
    "crowd target, our steps: the default": DEFAULT,
    "the crowd record itself, no descent": DEFAULT,
}
SEEKERS = {
    "matching": seeker_matching.seeker,
    "matching, stays": lambda given: seeker_matching.seeker(given, seeker_matching.Parameters(compare="stays")),
    "timeknn": seeker_timeknn.seeker,
}


def keep_embeddings() -> None:
    """Train the embedding once for each kind of target."""
    kept: dict[str, Any] = {}
    train = method._train

    def trained(records: np.ndarray, present: np.ndarray, parameters: method.Parameters, rng: Any) -> Any:
        if parameters.target not in kept:
            kept[parameters.target] = train(records, present, parameters, rng)
        return kept[parameters.target]

    method._train = trained


def main() -> None:
    """Hide, seek and print a row a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stays = load(half_of(options.data, 1, Path(folder) / "half.csv"), 100)
    _, (members, _) = data_division(range(len(stays.data)), 1, [0.5, 0.5])
    truth = np.isin(np.arange(len(stays.data)), members)
    given = {"data": stays.data[members], "padding_mask": stays.padding_mask[members], "seed": 1}
    keep_embeddings()
    descend = method.descend
    print("| change | " + " | ".join(SEEKERS) + " |\n" + "|---" * (len(SEEKERS) + 1) + "|", flush=True)
    for name, parameters in CHANGES.items():
        stand_still = "no descent" in name
        method.descend = (lambda _, own, target, *__: target - own) if stand_still else descend
        generated, mask = method.hider(dict(given), parameters)
        shown = {
            "generated_data": generated,
            "generated_data_padding_mask": mask,
            "enlarged_data": stays.data,
            "enlarged_data_padding_mask": stays.padding_mask,
            "seed": 1,
        }
        found = [np.mean(seeker(dict(shown))[0] == truth) for seeker in SEEKERS.values()]
        print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in found) + " |", flush=True)


if __name__ == "__main__":
    main()
