"""How often the intervals of the three risks cover the truth, if a known share of a release is near-copies.

python -m benchmarks.audit_risks --runs 200
"""

import argparse

import numpy as np

from scoring.audit import risks
from scoring.audit.known_answers import add_noise
from scoring.data.datasets import DataSet
from scoring.round import Round

NAMES = ["time", "a", "b", "c", "d", "e"]
STAYS, TIME_POINTS, PATIENTS_NOISE = 300, 6, 0.5


def simulated(rng: np.random.Generator, stays: int) -> np.ndarray:
    """Return stays [N, T, F]: each patient has a level of each feature, and moves about it."""
    levels = rng.normal(0, 1, (stays, 1, len(NAMES)))
    data = levels + PATIENTS_NOISE * rng.normal(size=(stays, TIME_POINTS, len(NAMES)))
    data[:, :, 0] = np.arange(TIME_POINTS)
    return data


def one_run(rng: np.random.Generator, share: float) -> dict[str, dict]:
    """Release near-copies of a share of the members, and fresh stays for the rest; return the risks."""
    members, others, fresh = (simulated(rng, STAYS) for _ in range(3))
    mask = np.zeros(members.shape, bool)
    release = fresh
    count = round(share * STAYS)
    release[:count] = add_noise(members, mask, 0.1, rng)[:count]
    sides = [DataSet(data, mask, NAMES, "", "") for data in (members, others)]
    round_ = Round.of_tables(*sides, seed=int(rng.integers(2**31)))
    return risks.measure(round_, release, mask, rng)


def coverage(runs: int, share: float, seed: int) -> dict[str, tuple[float, float]]:
    """Return for each risk the truth (from the successes of all runs together) and the share of intervals with it."""
    found = [one_run(np.random.default_rng([seed, run]), share) for run in range(runs)]
    result = {}
    for name in found[0]:
        hit, missed = (sum(run[name][side][0] for run in found) for side in ("members", "others"))
        total, control = (sum(run[name][side][1] for run in found) for side in ("members", "others"))
        truth = 1 - (1 - hit / total) / (1 - missed / control)
        inside = [run[name]["risk_ci95"][0] <= truth <= run[name]["risk_ci95"][1] for run in found]
        result[name] = (truth, float(np.mean(inside)))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print("near-copies   risk                  truth   covered")
    for copied in (0.0, 0.1, 0.5):
        for risk, (truth, covered) in coverage(chosen.runs, copied, chosen.seed).items():
            print(f"{copied:>8.0%}      {risk:<20} {truth:7.3f}   {covered:.1%}")
