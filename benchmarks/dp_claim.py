"""Is a hider's claim of differential privacy true? Canaries through the hider, and a lower bound on epsilon.

A canary is one patient as extreme as can be: every feature at every time point, far outside its range. The hider runs
many times with the canary and many times with an empty stay instead. A score tells the two apart. From how often it
errs follows, with 95 % confidence, the least epsilon that the hider can have:

- `any`: no assumption. epsilon is at least log((1 - delta - misses) / false alarms), with both rates at the upper end
  of their Clopper-Pearson intervals (Jagielski, Ullman and Oprea 2020). R runs of either kind show at most about
  log(R / 3.7).
- `gaussian`: for a hider that claims mu-Gaussian differential privacy, as hider_dp does. mu is at least
  Phi^-1(1 - false alarms) - Phi^-1(misses) (Nasr et al., "Tight Auditing of Differentially Private Machine Learning",
  2023), and dp-accounting turns mu into epsilon. It finds the same fault in far fewer runs.

Two scores are judged, each at half the error. The first is made from the released arrays of any hider: their summaries
along the direction that half of the runs give, judged on the other half. The second needs a hider that offers
`canary_evidence`, the likelihood ratio of all numbers that it draws stays from. It is the stronger one where the
numbers are noisy sums: what is drawn from them can only show less.

A hider is flagged if a lower bound exceeds its claim. Three broken copies of hider_dp are audited beside the correct
one: noise divided by 10, records that are not clipped, and ranges taken from the data without paying.

    python -m benchmarks.dp_claim --repeats 20
    python -m benchmarks.dp_claim --hider hider_dp.py --parameters epsilon=1 --runs 100
"""

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from dp_accounting import get_epsilon_gaussian
from scipy.stats import beta, norm
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import hider_dp
from examples.hider.dp import noise
from examples.hider.dp.ranges import Range
from utils.data_preprocess import PADDING_FILL
from utils.parameters import parse_parameters

CONFIDENCE = 0.95
NAMES = ["time", "HR", "SysABP", "Temp", "RespRate", "Na", "K", "HCT", "HCO3"]


def ward(stays: int, time_points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return simulated stays with public names: data [N, T, F] and padding mask. The last one is the canary's place."""
    features = len(NAMES) - 1
    data = np.full((stays, time_points, features + 1), np.nan)
    data[:, :, 0] = np.arange(time_points)
    lows, highs = np.array([(hider_dp.RANGES[name].low, hider_dp.RANGES[name].high) for name in NAMES[1:]]).T
    level = rng.standard_normal((stays, 1, features)) * 0.03
    values = 0.35 + level + 0.01 * rng.standard_normal((stays, time_points, features))
    data[:, :, 1:] = lows + (highs - lows) * np.clip(values, 0.1, 0.6)
    data[:, :, 1:][rng.random((stays, time_points, features)) < 0.4] = np.nan
    return data, np.zeros(data.shape, dtype=bool)


def with_canary(data: np.ndarray, mask: np.ndarray, present: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return copies in which the last stay is the canary, or empty."""
    data, mask = data.copy(), mask.copy()
    if present:
        data[-1, :, 1:], mask[-1] = 1e6, False
    else:
        data[-1], mask[-1] = PADDING_FILL, True
    return data, mask


# -------------------------------------------------------------------------------------------------------- the audit


def audit(
    module: ModuleType, parameters: Any, stays: int, time_points: int, runs: int, seed: int, score: str = "both"
) -> dict[str, Any]:
    """Audit one hider.

    Parameters
    ----------
    module : module
        Has `hider` and `privacy_claim`, and optionally `canary_evidence`.
    parameters : Parameters
        The hider's own.
    stays, time_points : int
        Size of the simulated data.
    runs : int
        With the canary. As many without.
    seed : int
        Of the data and of the runs. The hider's noise is its own.
    score : str
        "arrays", "evidence", or "both". One alone saves time and is judged as strictly as if there were both.

    Returns
    -------
    dict
        `claimed`, `any` and `gaussian` (lower bounds on epsilon), `errors` (rate of the better score), `flagged`.
    """
    rng = np.random.default_rng(seed)
    data, mask = ward(stays, time_points, rng)
    claim = module.privacy_claim(parameters, data.shape, NAMES)

    def play(present: bool, run: int) -> dict[str, Any]:
        changed, changed_mask = with_canary(data, mask, present)
        return {"data": changed, "padding_mask": changed_mask, "seed": 1000 * seed + run, "feature_names": NAMES}

    worlds = (True, False)
    scores: list[np.ndarray] = []
    if score != "evidence":
        seen = [[summary(*module.hider(play(there, run), parameters)[:2]) for run in range(runs)] for there in worlds]
        scores.append(scores_from_summaries(np.array(seen)))
    if score != "arrays" and hasattr(module, "canary_evidence"):
        weigh = module.canary_evidence
        told = [
            [weigh(play(True, run), parameters, place=stays - 1, present=there) for run in range(runs)]
            for there in worlds
        ]
        scores.append(np.array(told))
    found: dict[str, Any] = {"claimed": claim["epsilon"], "any": 0.0, "gaussian": 0.0, "errors": 1.0}
    confidence = 1 - (1 - CONFIDENCE) / 2  # each of two scores has half of the error
    for there, empty in scores:
        misses, alarms = int((there <= 0).sum()), int((empty > 0).sum())
        rates = upper_rate(misses, len(there), confidence), upper_rate(alarms, len(empty), confidence)
        found["any"] = max(found["any"], epsilon_any(*rates, claim["delta"]))
        if "mu" in claim:
            found["gaussian"] = max(found["gaussian"], epsilon_gaussian(*rates, claim["delta"]))
        found["errors"] = min(found["errors"], (misses + alarms) / (2 * len(there)))
    return {**found, "flagged": max(found["any"], found["gaussian"]) > claim["epsilon"]}


def summary(generated: np.ndarray, padding_mask: np.ndarray | None) -> np.ndarray:
    """Return a release as one vector: each feature's mean, deviation, extremes and how often it is there."""
    padded = np.zeros(generated.shape, bool) if padding_mask is None else padding_mask
    values = np.where(padded, np.nan, generated).reshape(-1, generated.shape[2])
    there = np.isfinite(values)
    filled = np.where(there, values, 0.0)
    count = np.maximum(there.sum(axis=0), 1)
    mean = filled.sum(axis=0) / count
    spread = np.sqrt(np.where(there, np.square(values - mean), 0.0).sum(axis=0) / count)
    low, high = (edge(np.where(there, values, mean), axis=0) for edge in (np.min, np.max))
    return np.concatenate([mean, spread, low, high, there.mean(axis=0)])


def scores_from_summaries(seen: np.ndarray) -> np.ndarray:
    """Return scores of the second half of the runs along the direction that the first half gives.

    Parameters
    ----------
    seen : ndarray, shape [2, R, D]
        Summaries with the canary and without.

    Returns
    -------
    ndarray, shape [2, R - R // 2]
    """
    half = seen.shape[1] // 2
    first, second = seen[:, :half], seen[:, half:]
    centre, spread = (
        first.mean(axis=(0, 1)),
        first.std(axis=1).mean(axis=0) + 1e-9 * np.abs(first).max(axis=(0, 1)) + 1e-9,
    )
    moved = np.clip((first[0].mean(axis=0) - first[1].mean(axis=0)) / spread, -10, 10)
    return np.asarray(np.clip((second - centre) / spread, -10, 10) @ moved)


def upper_rate(errors: int, runs: int, confidence: float) -> float:
    """Return the upper end of a rate's Clopper-Pearson interval. Two such bounds hold together with `confidence`."""
    return float(beta.ppf(1 - (1 - confidence) / 2, errors + 1, runs - errors)) if errors < runs else 1.0


def epsilon_any(miss: float, alarm: float, delta: float) -> float:
    """Return the least epsilon that these rates of error allow, whatever the hider does."""
    return max(0.0, *(float(np.log(max(1 - delta - a, 1e-9) / b)) for a, b in ((miss, alarm), (alarm, miss))))


def epsilon_gaussian(miss: float, alarm: float, delta: float) -> float:
    """Return the least epsilon that these rates of error allow a hider that is Gaussian differentially private."""
    mu = float(norm.ppf(1 - alarm) - norm.ppf(miss)) if max(miss, alarm) < 1 else 0.0
    return float(get_epsilon_gaussian(1 / mu, delta)) if mu > 0 else 0.0


# ------------------------------------------------------------------------------------------------ three broken hiders


@contextmanager
def noise_divided_by_ten() -> Iterator[None]:
    """Somebody mistook a variance for a deviation."""
    whole = noise.discrete_gaussian
    with mock.patch.object(noise, "discrete_gaussian", lambda count, bits: whole(count, bits) // 10):
        yield


@contextmanager
def clip_forgotten() -> Iterator[None]:
    """Records are added up as long as they are."""

    def total(
        self: noise.Ledger, name: str, vectors: np.ndarray, stays: np.ndarray, bound: float, mu: float
    ) -> noise.Total:
        grid = int(noise.SIGMA * mu) / bound
        sums = np.trunc(vectors.astype(float) / stays[:, None] * grid).sum(axis=0)
        if self.bits is not None:
            sums = sums + noise.discrete_gaussian(sums.size, self.bits)
        return noise.Total(sums / grid, bound / mu)

    with mock.patch.object(noise.Ledger, "total", total):
        yield


@contextmanager
def scaling_not_paid_for() -> Iterator[None]:
    """Ranges are the data's own smallest and largest values."""
    proper = hider_dp.release

    def release(data: np.ndarray, rows: np.ndarray, sharing: np.ndarray, ranges: Any, *rest: Any) -> Any:
        values = np.where(rows[:, :, None] & np.isfinite(data), data, np.nan)[:, :, 1:]
        ends = zip(np.nanmin(values, axis=(0, 1)), np.nanmax(values, axis=(0, 1)), strict=True)
        return proper(data, rows, sharing, [Range(float(low), float(high), 2) for low, high in ends], *rest)

    with mock.patch.object(hider_dp, "release", release):
        yield


@contextmanager
def correct() -> Iterator[None]:
    """Nothing is changed."""
    yield


VARIANTS: dict[str, Callable] = {
    "correct": correct,
    "noise divided by 10": noise_divided_by_ten,
    "clip forgotten": clip_forgotten,
    "scaling not paid for": scaling_not_paid_for,
}


def main() -> None:
    """Audit the correct and the broken hiders, or one hider of the user's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hider", default=None, help="file name of a hider that claims (hider_dp.py) to audit alone")
    parser.add_argument("--parameters", default="", help="the hider's parameters, name=value,...")
    parser.add_argument("--stays", type=int, default=800)
    parser.add_argument("--time-points", type=int, default=8)
    parser.add_argument("--runs", type=int, default=30, help="with the canary, and as many without")
    parser.add_argument("--score", choices=["both", "arrays", "evidence"], default="both", help="one alone is faster")
    parser.add_argument("--variant", choices=list(VARIANTS), help="one of the four alone")
    parser.add_argument("--repeats", type=int, default=1, help="audits of each variant")
    arguments = parser.parse_args()
    module = importlib.import_module((arguments.hider or "hider_dp.py").removesuffix(".py"))
    parameters = parse_parameters(module, arguments.parameters)
    variants = {"as it is": correct} if arguments.hider else VARIANTS
    if arguments.variant:
        variants = {arguments.variant: VARIANTS[arguments.variant]}
    began = time.perf_counter()
    sizes = arguments.stays, arguments.time_points, arguments.runs
    setting = f"{arguments.stays} stays, {arguments.runs} runs with the canary and as many without"
    print(f"{setting}, {arguments.repeats} audits")
    print(f"{'hider':<22} flagged  claimed  found (any)  found (gaussian)  rate of error")
    with threadpool_limits(1):
        for name, broken in variants.items():
            with broken():
                found = [
                    audit(module, parameters, *sizes, seed, arguments.score)
                    for seed in tqdm(range(arguments.repeats), desc=name, leave=False)
                ]
            middle = {key: float(np.median([each[key] for each in found])) for key in ("any", "gaussian", "errors")}
            print(
                f"{name:<22} {sum(each['flagged'] for each in found):>3}/{len(found):<3}  {found[0]['claimed']:7g}"
                f"  {middle['any']:11.2f}  {middle['gaussian']:16.2f}  {middle['errors']:13.2f}",
                flush=True,
            )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
