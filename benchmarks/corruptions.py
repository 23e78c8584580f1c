"""Does kept utility fall as a release gets worse? Eight corruptions of the members themselves, at five doses each.

    python benchmarks/corruptions.py -d physionet2012-set-a.tar.gz [--part 1/2] [--seed 0]

Prints one table: what each family and the headline keep at each dose. A pair of measure and corruption falls if it is
lower at the last dose than without corruption by more than `MOVED`, and if it goes down with the dose (Spearman's rank
correlation at most -0.8). It is only lower at the end if the second does not hold. It stays if it never moves by more
than `MOVED`. It rises otherwise.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scoring.data.datasets import load
from scoring.utility.kept import KeptUtility, Yardstick
from scoring.utility.observed import Observed, Stays

MOVED = 0.02
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
Corrupted = tuple[np.ndarray, np.ndarray]  # values [N, T, F] and rows [N, T] as in `Observed`
Corruption = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], Corrupted]


def time_shuffled(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Permute a share of each stay's rows against its times."""
    moved = rows & (rng.random(rows.shape) < dose)
    drawn = np.where(moved, rng.random(rows.shape), np.inf)
    source = np.broadcast_to(np.arange(rows.shape[1]), rows.shape).copy()
    places = np.argsort(~moved, axis=1, kind="stable")  # the places that take part, in order
    taken = np.argsort(drawn, axis=1, kind="stable")  # the same places, in random order
    np.put_along_axis(source, places, np.where(np.arange(rows.shape[1]) < moved.sum(1)[:, None], taken, places), 1)
    out = values.copy()
    out[:, :, 1:] = np.take_along_axis(values[:, :, 1:], source[:, :, None], axis=1)
    return out, rows


def features_permuted(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Give a share of the features to other stays, each feature's series as a whole."""
    out = values.copy()
    for feature in 1 + rng.permutation(values.shape[2] - 1)[: round(dose * (values.shape[2] - 1))]:
        out[:, :, feature] = values[rng.permutation(len(values)), :, feature]
    out[~rows] = np.nan
    return out, rows


def noise(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Add normal noise, a multiple of each feature's standard deviation."""
    spread = np.nanstd(values, axis=(0, 1)) * dose
    spread[0] = 0
    return values + spread * rng.normal(size=values.shape), rows


def smoothing(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Replace each value by the mean of those up to `dose` rows away on either side."""
    reach = int(dose)
    seen = np.isfinite(values)
    sums = np.cumsum(np.pad(np.where(seen, values, 0.0), ((0, 0), (1, 0), (0, 0))), axis=1)
    counts = np.cumsum(np.pad(seen, ((0, 0), (1, 0), (0, 0))), axis=1)
    place = np.arange(values.shape[1])
    high, low = np.minimum(place + reach + 1, values.shape[1]), np.maximum(place - reach, 0)
    mean = (sums[:, high] - sums[:, low]) / np.maximum(counts[:, high] - counts[:, low], 1)
    out = np.where(seen, mean, np.nan)
    out[:, :, 0] = values[:, :, 0]
    return out, rows


def mode_dropped(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Drop the stays that lie farthest along the first principal component, and repeat others in their place."""
    seen = np.isfinite(values)
    means = np.where(seen, values, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    standard = (means - means.mean(0)) / np.maximum(means.std(0), 1e-9)
    along = standard @ np.linalg.svd(standard, full_matrices=False)[2][0]
    left = np.argsort(along)[: round((1 - dose) * len(along))]
    chosen = np.concatenate([left, rng.choice(left, len(along) - len(left))])
    return values[chosen], rows[chosen]


def missingness_filled(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Fill a share of the missing cells with the last value, or the feature's median before the first."""
    place = np.where(np.isfinite(values), np.arange(values.shape[1])[:, None], -1)
    last = np.maximum.accumulate(place, axis=1)
    medians = np.nanmedian(values.reshape(-1, values.shape[2]), axis=0)
    carried = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=1), medians)
    fill = ~np.isfinite(values) & rows[:, :, None] & (rng.random(values.shape) < dose)
    return np.where(fill, carried, values), rows


def lengths_cut(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Cut the last share of each stay's rows off."""
    kept = np.maximum(np.ceil((1 - dose) * rows.sum(axis=1)), 2)
    left = rows & (np.arange(rows.shape[1]) < kept[:, None])
    return np.where(left[:, :, None], values, np.nan), left


def clock_jittered(values: np.ndarray, rows: np.ndarray, dose: float, rng: np.random.Generator) -> Corrupted:
    """Move each row's time by normal noise of `dose` hours."""
    out = values.copy()
    out[:, :, 0] += rng.normal(0, dose, rows.shape)
    return out, rows


CORRUPTIONS: dict[str, tuple[Corruption, tuple[float, ...]]] = {
    "time shuffled within a stay": (time_shuffled, SHARES),
    "features permuted across stays": (features_permuted, SHARES),
    "noise": (noise, (0.1, 0.25, 0.5, 1.0, 2.0)),
    "smoothing": (smoothing, (1, 2, 4, 8, 16)),
    "mode dropped": (mode_dropped, (0.1, 0.25, 0.4, 0.55, 0.7)),
    "missingness filled": (missingness_filled, SHARES),
    "lengths cut": (lengths_cut, (0.1, 0.25, 0.4, 0.6, 0.8)),
    "clock jittered": (clock_jittered, (0.25, 1.0, 3.0, 6.0, 12.0)),
}


def corrupted(members: Observed, name: str, dose: float, rng: np.random.Generator) -> Stays:
    """Return the members after one corruption."""
    values, rows = CORRUPTIONS[name][0](members.values, members.rows, dose, rng)
    mask = np.repeat(~rows[:, :, None], values.shape[2], axis=2)
    return Stays(np.where(mask, -1.0, values), mask)


def verdict(kept: list[float]) -> str:
    """Say whether kept utility falls, stays or rises over the doses, the first of which is none."""
    if max(abs(value - kept[0]) for value in kept) <= MOVED:
        return "stays"
    if kept[-1] >= kept[0] - MOVED:
        return "rises"
    return "falls" if spearmanr(range(len(kept)), kept).statistic <= -0.8 else "only lower at the end"


def figures(result: KeptUtility) -> dict[str, float]:
    """Return the headline and the families that are judged."""
    judged = {f.name: f.kept.value for f in result.families if f.kept.value is not None}
    assert result.headline.value is not None
    return {"headline": result.headline.value, **judged}


def main() -> None:
    """Corrupt, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--data_path", type=Path, required=True)
    parser.add_argument("--part", default="1/1", help="K/N: every N-th stay, from the K-th on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = load(arguments.data_path, 100)
    first, step = (int(number) for number in arguments.part.split("/"))
    rng = np.random.default_rng(arguments.seed)
    chosen = rng.permutation(np.arange(first - 1, len(data.data), step))
    stays = Stays(data.data, data.padding_mask)
    members = Observed.of(stays.take(chosen[: len(chosen) // 2]))
    yardstick = Yardstick(stays.take(chosen[len(chosen) // 2 :]), data.feature_names, rng)
    clean = figures(yardstick.judge(stays.take(chosen[: len(chosen) // 2]), np.random.default_rng(arguments.seed)))
    print(f"{len(members)} members, {len(chosen) - len(members)} others\n")
    print("| corruption | measure | none | " + " | ".join(f"dose {i}" for i in range(1, 6)) + " | |")
    print("|---|---|---|" + "---|" * 6)
    said: list[str] = []
    for name, (_, doses) in CORRUPTIONS.items():
        found = [clean]
        for dose in doses:
            release = corrupted(members, name, dose, np.random.default_rng([arguments.seed, 1]))
            found.append(figures(yardstick.judge(release, np.random.default_rng(arguments.seed))))
        for measure in clean:
            kept = [figure[measure] for figure in found]
            said.append(verdict(kept))
            row = " | ".join(f"{value:.2f}" for value in kept)
            shown = ", ".join(f"{dose:g}" for dose in doses)
            print(f"| {name} ({shown}) | {measure} | {row} | {said[-1]} |", flush=True)
    print()
    for word in ("falls", "only lower at the end", "stays", "rises"):
        print(f"{said.count(word)} of {len(said)} pairs: {word}")


if __name__ == "__main__":
    main()
