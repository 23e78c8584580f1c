"""Kept utility where the answer is known: members, independent columns, medians, and simple hiders.

    python benchmarks/kept_utility.py -d physionet2012-set-a.tar.gz [--outcomes FILE] [--seeds 0,1,2] [--stays 4000]

Prints a row a release: the headline under each seed of the judge, and the families under the last one.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scoring.data.datasets import load
from scoring.utility.kept import KeptUtility, Yardstick
from scoring.utility.observed import Stays, independent_columns

HIDERS = ("binning", "addnoise", "shuffle")


def medians(members: Stays, real_times: bool) -> Stays:
    """Return the features' medians in every row; with the members' own times and lengths if asked for."""
    assert members.padding_mask is not None
    middle = np.nanmedian(members.data[~members.padding_mask[:, :, 0]], axis=0)
    data = np.broadcast_to(middle, members.data.shape).copy()
    if not real_times:
        return Stays(data, None)
    data[:, :, 0] = members.data[:, :, 0]
    return Stays(np.where(members.padding_mask, -1.0, data), members.padding_mask)


def releases(members: Stays) -> dict[str, Stays]:
    """Return every release by name."""
    found = {
        "members themselves": members,
        "independent columns": independent_columns(members, np.random.default_rng(9)),
        "medians": medians(members, real_times=False),
        "medians, real times and lengths": medians(members, real_times=True),
    }
    for name in HIDERS:
        given = {"data": members.data.copy(), "padding_mask": members.padding_mask, "seed": 1}
        found[name] = Stays(*importlib.import_module(f"hider_{name}").hider(given))
    return found


def row(name: str, results: list[KeptUtility]) -> str:
    """Return a row of the table."""
    headlines = [result.headline for result in results]
    if headlines[-1].value is None:
        return f"| {name} | too few stays to judge |"
    values = ", ".join("-" if headline.value is None else f"{headline.value:.3f}" for headline in headlines)
    families = " | ".join("-" if f.kept.value is None else f"{f.kept.value:.2f}" for f in results[-1].families)
    return f"| {name} | {values} | {headlines[-1].low:.3f} to {headlines[-1].high:.3f} | {families} |"


def main() -> None:
    """Judge every release and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--data_path", type=Path, required=True)
    parser.add_argument("--outcomes", type=Path)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--stays", type=int, default=4000)
    arguments = parser.parse_args()
    data = load(arguments.data_path, 100, outcomes=arguments.outcomes)
    stays = Stays(data.data, data.padding_mask)
    drawn = np.random.default_rng(5).permutation(len(data.data))[: arguments.stays]
    members, others = stays.take(drawn[: len(drawn) // 2]), stays.take(drawn[len(drawn) // 2 :])
    made = releases(members)
    results: dict[str, list[KeptUtility]] = {name: [] for name in made}
    began, judged = time.process_time(), 0
    for seed in arguments.seeds.split(","):
        rng = np.random.default_rng(int(seed))
        yardstick = Yardstick(others, data.feature_names, rng)
        for name, release in made.items():
            results[name].append(yardstick.judge(release, rng))
            judged += 1
    families = [family.name for family in results["medians"][-1].families]
    print(f"| release | headline, a seed each | 95 % interval | {' | '.join(families)} |")
    print("|---|---|---|" + "---|" * len(families))
    for name, found in results.items():
        print(row(name, found))
    print(
        f"\n{len(members)} members, {len(others)} others; {(time.process_time() - began) / judged:.0f} CPU s a release"
    )


if __name__ == "__main__":
    main()
