"""Hider with a proof: stays drawn from differentially private statistics.

What it promises. Whoever sees the release learns whether a given patient was in the data only as well as (epsilon,
delta)-differential privacy allows. That holds for every attack, known or not, by somebody who knows this code, the seed
and every other patient: at epsilon 3 and delta 1e-5 no guess is right more than 64 % of the time. The unit is a
patient, with all stays if `patients` says whose each stay is. Neighbouring data sets differ in one patient, whose stays
are there or empty (without a time point). The number of stays is public.

How. All that is learnt of the patients is a few sums of vectors. There is one vector a stay, made from that stay and
from earlier sums alone (examples/hider/dp/measure.py). It is cut to a length and added up in integers with exact
discrete Gaussian noise (examples/hider/dp/noise.py, where the proof is). Stays are then drawn from these sums
(examples/hider/dp/draw.py), which costs nothing.

What is public: the shape of the data, this code, the parameters, and the ranges in examples/hider/dp/ranges.py or in
the custodian's own file, for features whose names are given. Ranges of other features are learnt and paid for.

What it does not protect. For a group of k patients (a family) epsilon is k times as large. What is true of the patients
as a whole is released on purpose. How long the program ran is not hidden. With `seed_noise=true` whoever knows the seed
can take the noise away: such a release has no proof. docs/privacy-proof.md says all this to a custodian.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.hider.dp import measure
from examples.hider.dp.copula import Marginals, distributions
from examples.hider.dp.draw import Released, draw
from examples.hider.dp.measure import CLASSES, GAPS, SPANS, Stays
from examples.hider.dp.noise import (
    LENGTH_CLASSES,
    Ledger,
    Total,
    epsilon_if_replaced,
    secret_bits,
    seeded_bits,
    strength,
)
from examples.hider.dp.ranges import RANGES, Range
from utils.errors import UserError
from utils.stays import padded_rows, real_rows_first

FEWEST_STAYS = 100  # with fewer, the noise hides everything at any epsilon worth promising
LEAST_VALUES = 2.0  # standard deviations of noise that a class of values must exceed to count
LEAST_CLOCK = 3.0  # the same for classes of counts, paces, spans, starts and gaps, most of which are empty
STATIC = 0.9  # a feature is static if this share of the patients have one and the same value at all their time points
TWO_VALUES = 0.98  # a feature has two values if two of its classes hold this share
STATIC_WEIGHT = 4.0  # of a static feature among the levels: outcomes deserve less noise

ALSO_GIVEN = ("feature_names", "patients")  # names have public ranges; a patient is the unit of the promise


@dataclass(frozen=True)
class Parameters:
    """What is promised, and how the budget is spent.

    The shares are of mu**2, which adds up over the parts. They need not sum to 1.
    """

    epsilon: float = 3.0
    delta: float = 1e-5
    seed_noise: bool = False  # noise from the match's seed: for tests only, a release with it has no proof
    ranges: str = ""  # the custodian's own file of ranges: CSV with columns name, low, high, decimals, log (0 or 1)
    share_ranges: float = 0.12  # if no feature's range is public, and less the more are
    share_values: float = 0.15  # histograms of values
    share_clock: float = 0.18  # histograms of counts, paces, spans, starts and gaps
    share_levels: float = 0.40  # second moments between stays
    share_course: float = 0.18  # second moments over time within a feature, means by part of the stay
    share_rows: float = 0.15  # second moments between features at one time point

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta <= 0.01:
            raise ValueError(f"delta must be above 0 and at most 0.01, not {self.delta}")
        shares = (self.share_values, self.share_clock, self.share_levels, self.share_course, self.share_rows)
        if not min(*shares, self.share_ranges) > 0:
            raise ValueError("every share of the budget must be above 0")


def privacy_claim(
    parameters: Parameters, shape: tuple[int, int, int], feature_names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Say what a release promises. Public quantities alone decide it.

    Parameters
    ----------
    parameters : Parameters
    shape : tuple of int
        N, T, F of the data.
    feature_names : sequence of str, length F, optional

    Returns
    -------
    dict
        `epsilon`, `delta`, `mu` (the same as Gaussian differential privacy), `epsilon_if_replaced` (between data sets
        in which one patient is another person), `unit`, `neighbours`, `proof` (False if the noise is not secret),
        `noise`, `public` (what was taken as known) and `numbers` (released, by part).
    """
    stays, time_points, features = shape
    known = public_ranges(parameters, feature_names, features)
    unknown = sum(entry is None for entry in known)
    kept = features - 1
    levels = 2 * kept + measure.CLOCK
    numbers = {
        "ranges": (unknown * (measure.MAGNITUDES + CLASSES) + 2 * LENGTH_CLASSES) if unknown else 0,
        "values": kept * CLASSES + LENGTH_CLASSES,
        "clock": kept * (len(measure.count_edges(time_points)) + 1) + 4 * len(SPANS) + len(GAPS),
        "levels": levels * (levels + 1) // 2 + LENGTH_CLASSES,
        "course": 2 * kept * (len(measure.LAGS) + len(measure.BLOCKS) + 1) + kept + LENGTH_CLASSES,
        "rows": kept * (kept + 1) + LENGTH_CLASSES,
    }
    mu = strength(parameters.epsilon, parameters.delta, most_numbers(time_points, features))
    return {
        "epsilon": parameters.epsilon,
        "delta": parameters.delta,
        "mu": mu,
        "epsilon_if_replaced": epsilon_if_replaced(mu, parameters.delta),
        "unit": "patient, with all stays if `patients` is given; else stay",
        "neighbours": "one patient's stays are there or empty; the number of stays is public",
        "proof": not parameters.seed_noise,
        "noise": "discrete Gaussian, " + ("from the seed: no proof" if parameters.seed_noise else "secret"),
        "public": [
            f"{stays} stays, {time_points} time points, {features} features",
            f"ranges of {kept - unknown} features; those of {unknown} are learnt and paid for",
        ],
        "numbers": numbers,
    }


def hider(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Release stays that are drawn from noisy statistics.

    Parameters
    ----------
    input_dict : dict
        `data` [N, T, F] raw, `padding_mask` [N, T, F], `seed`. Optional: `feature_names` (length F), which tell public
        ranges, and `patients` (length N), whose stay each is.
    parameters : Parameters

    Returns
    -------
    generated : ndarray of float64, shape [N, T, F]
    padding_mask : ndarray of bool, shape [N, T, F]

    Raises
    ------
    UserError
        Where there are fewer than 100 stays, or names or patients of the wrong number. All of it is public.
    """
    number, time_points, _ = np.shape(input_dict["data"])
    released = look(input_dict, parameters, Ledger)
    return draw(released, number, time_points, np.random.default_rng(input_dict["seed"]))


def canary_evidence(
    input_dict: dict[str, Any], parameters: Parameters = Parameters(), *, place: int, present: bool
) -> float:
    """Run the hider as far as its released numbers and weigh them as the strongest attacker would: for audits.

    The attacker knows this code, every other patient and all released numbers, and asks of each sum in turn how much
    more likely it is with the canary than without.

    Parameters
    ----------
    input_dict : dict
        As for `hider`.
    parameters : Parameters
    place : int
        The canary's stay.
    present : bool
        Whether the canary's vectors are added.

    Returns
    -------
    float
        The logarithm of the likelihood ratio: above 0 speaks for the canary.
    """
    evidence = 0.0

    class Watched(Ledger):
        def total(self, name: str, vectors: np.ndarray, stays: np.ndarray, bound: float, mu: float) -> Total:
            nonlocal evidence
            without = vectors.copy()
            without[place] = 0
            there, empty = (
                Ledger(self.mu, self.numbers, None).total(name, each, stays, bound, mu).values
                for each in (vectors, without)
            )
            total = super().total(name, vectors if present else without, stays, bound, mu)
            evidence += float((total.values - (there + empty) / 2) @ (there - empty)) / total.noise**2
            return total

    look(input_dict, parameters, Watched)
    return evidence


def look(input_dict: dict[str, Any], parameters: Parameters, kind: type[Ledger]) -> Released:
    """Check what is public, then ask a ledger for every number. See `hider` for the arguments."""
    data = np.asarray(input_dict["data"], dtype=float)
    number, time_points, features = data.shape
    if number < FEWEST_STAYS:
        raise UserError(f"hider_dp needs at least {FEWEST_STAYS} stays, not {number}: give it more or use another")
    if features < 2:
        raise UserError("hider_dp needs at least one feature besides time")
    ranges = public_ranges(parameters, input_dict.get("feature_names"), features)
    sharing = stays_of_same_patient(input_dict.get("patients"), number)
    most = most_numbers(time_points, features)
    bits = seeded_bits(input_dict["seed"]) if parameters.seed_noise else secret_bits
    ledger = kind(strength(parameters.epsilon, parameters.delta, most), most, bits)

    padded = padded_rows(data, input_dict.get("padding_mask"))
    data, rows = real_rows_first(data, padded), ~np.sort(padded, axis=1)
    return release(data, rows, sharing, ranges, ledger, parameters)


def release(
    data: np.ndarray,
    rows: np.ndarray,
    sharing: np.ndarray,
    ranges: list[Range | None],
    ledger: Ledger,
    parameters: Parameters,
) -> Released:
    """Ask the ledger for every number that the release is made from: the only function that sees data.

    Parameters
    ----------
    data : ndarray, shape [N, T, F]
        Time points first.
    rows : ndarray of bool, shape [N, T]
        Which time points there are.
    sharing : ndarray of int, shape [N]
        How many stays the patient of each stay has.
    ranges : list, length F - 1
        Public ranges, None where there is none.
    ledger : Ledger
    parameters : Parameters
    """
    features = data.shape[2] - 1
    levels_count = 2 * features + measure.CLOCK
    unknown = [feature for feature, entry in enumerate(ranges) if entry is None]
    mu = budget(parameters, len(unknown), features, ledger.mu)

    # 1. Ranges of features that have no public one: first the order of magnitude, then closer.
    known = np.ones(features, dtype=bool)
    found = list(ranges)
    if unknown:
        half = mu["ranges"] / np.sqrt(2)
        values = data[:, :, [feature + 1 for feature in unknown]]
        total = ledger.total_clipped("magnitudes", measure.magnitudes(values, rows), sharing, half)
        rough = measure.rough_ranges(total.values, total.noise, len(unknown))
        classes = [measure.to_classes(values[:, :, i], rows, entry or NOTHING) for i, entry in enumerate(rough)]
        total = ledger.total_clipped("ranges", measure.shares(np.stack(classes, axis=2), CLASSES), sharing, half)
        closer = measure.closer_ranges(total.values, total.noise, [entry or NOTHING for entry in rough])
        for feature, before, after in zip(unknown, rough, closer, strict=True):
            known[feature] = before is not None
            found[feature] = after
        del values, classes
    finite = [entry or NOTHING for entry in found]

    times, start = measure.clean_times(data[:, :, 0], rows)
    classes = [measure.to_classes(data[:, :, i + 1], rows & known[i], entry) for i, entry in enumerate(finite)]
    stays = Stays(times, start, rows, np.stack(classes, axis=2), measure.unchanged(data[:, :, 1:], rows))

    # 2. Histograms of each feature's values: every patient counts once, however often measured.
    total = ledger.total_clipped("values", measure.shares(stays.classes, CLASSES), sharing, mu["values"])
    shares = np.zeros((features, CLASSES))
    for feature, entry in enumerate(finite):
        count = measure.class_count(entry)
        cells = total.values[feature * CLASSES : feature * CLASSES + count]
        shares[feature, :count] = distributions(cells[None], total.noise, LEAST_VALUES)[0]
    marginals = Marginals(shares)

    # 3. Histograms of counts, paces, spans, starts and gaps.
    parts = measure.clock(stays)
    total = ledger.total("clock", np.concatenate(parts, axis=1), sharing, np.sqrt(features + 5), mu["clock"])
    cells = np.split(total.values, np.cumsum([part.shape[1] for part in parts])[:-1])
    patients = max(cells[0].sum() / features, 1.0)
    counts = Marginals(distributions(cells[0].reshape(features, -1), total.noise, LEAST_CLOCK))
    early, late, spans, starts, gaps = (distributions(part[None], total.noise, LEAST_CLOCK) for part in cells[1:])
    clock = Marginals(np.concatenate([early, late, spans]))
    whole = min(max(cells[3].sum() / patients, 0.01), 1.0)
    static = counts.shares[:, -1] > STATIC
    gap = max(float(GAPS[np.searchsorted(np.cumsum(gaps), 0.5)]), GAPS[1])
    span = max(float(SPANS[np.searchsorted(np.cumsum(spans), 0.5)]), gap)
    del parts

    # 4. Second moments of the stays' levels.
    vectors = measure.levels(stays, marginals, counts, clock)
    # A static feature of two values (an outcome) is +1 or -1: then the rare value is not the one that is shortened.
    two = static & (np.sort(marginals.shares, axis=1)[:, -2:].sum(axis=1) > TWO_VALUES)
    vectors[:, :features][:, two] = np.sign(vectors[:, :features][:, two])
    middle = np.zeros(levels_count)
    middle[:features][two] = (marginals.shares * np.sign(marginals.scores)).sum(axis=1)[two]
    weights = np.ones(levels_count)
    weights[:features][static] = STATIC_WEIGHT
    total = ledger.total_clipped("levels", measure.products(vectors, weights), sharing, mu["levels"])
    weights = weights[:, None] * weights
    levels = measure.triangle(total.values, levels_count) / weights
    levels_noise = total.noise / weights / np.sqrt(np.where(np.eye(len(levels)), 1, 2))

    # 5. How each feature runs within a stay. 6. How features go together at one time point.
    course = ledger.total_clipped("course", measure.course(stays, marginals, gap, span), sharing, mu["course"])
    together = ledger.total_clipped("rows", measure.rows_together(stays, marginals), sharing, mu["rows"])
    return Released(
        ranges=finite,
        known=known,
        patients=patients,
        values=marginals,
        counts=counts,
        clock=clock,
        whole=whole,
        starts=starts[0],
        gaps=gaps[0],
        static=static,
        levels=levels,
        levels_noise=levels_noise,
        middle=middle,
        course=course.values,
        course_noise=course.noise,
        rows=together.values,
        rows_noise=together.noise,
        gap=gap,
        span=span,
    )


NOTHING = Range(0, 1, 0)  # stands for the range of a feature that too few patients have: it is released as missing


def budget(parameters: Parameters, unknown: int, features: int, mu: float) -> dict[str, float]:
    """Split mu over the parts. Public quantities alone decide it."""
    shares = {
        "values": parameters.share_values,
        "clock": parameters.share_clock,
        "levels": parameters.share_levels,
        "course": parameters.share_course,
        "rows": parameters.share_rows,
    }
    if unknown:
        shares["ranges"] = parameters.share_ranges * np.sqrt(unknown / features)
    return {part: mu * np.sqrt(share / sum(shares.values())) for part, share in shares.items()}


def most_numbers(time_points: int, features: int) -> int:
    """Return a number that the released numbers never exceed, for the noise's account."""
    return 700 * features + 4 * features**2 + features * time_points + 2000


def public_ranges(parameters: Parameters, names: Sequence[str] | None, features: int) -> list[Range | None]:
    """Return the public range of each feature besides time, or None: the custodian's file first, then the table.

    Raises
    ------
    UserError
        Where the names are of the wrong number, or the file cannot be read.
    """
    if names is not None and len(names) != features:
        raise UserError(f"feature_names must have {features} names, not {len(names)}")
    table = {**RANGES, **(read_ranges(Path(parameters.ranges)) if parameters.ranges else {})}
    return [None] * (features - 1) if names is None else [table.get(str(name)) for name in names[1:]]


def read_ranges(path: Path) -> dict[str, Range]:
    """Read the custodian's own ranges from a CSV file with columns name, low, high, decimals, log."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = {
                row["name"]: Range(float(row["low"]), float(row["high"]), int(row["decimals"]), row["log"] == "1")
                for row in csv.DictReader(file)
            }
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: ranges need columns name, low, high, decimals, log ({error})") from error
    for name, entry in found.items():
        finite = np.isfinite([entry.low, entry.high]).all()
        if not finite or entry.high <= entry.low or entry.decimals < 0 or (entry.log and entry.low <= 0):
            raise UserError(f"{path}: the range of {name} must have low below high, and low above 0 if log is 1")
    return found


def stays_of_same_patient(patients: Sequence[Any] | None, stays: int) -> np.ndarray:
    """Return how many stays the patient of each stay has, shape [N]."""
    if patients is None:
        return np.ones(stays, dtype=np.int64)
    if len(patients) != stays:
        raise UserError(f"patients must have {stays} entries, one a stay, not {len(patients)}")
    _, which, count = np.unique(np.asarray(patients), return_inverse=True, return_counts=True)
    return np.asarray(count[which], dtype=np.int64)
