"""Simulated ICU stays, for tests, demonstrations and benchmarks: nobody's data.

They have what attacks on synthetic data live on: irregular sampling times of each patient's own, stays of one to over
a hundred rows, vital signs measured often and laboratory values rarely and more so in sicker patients, features moved
together by a few latent states, and a baseline that is the patient's own.

Every feature j of patient i at time t is, on a standard scale,

    z = OWN * baseline[i, j] + STATE * (loadings[j] . states[i, t]) + NOISE * noise[i, t, j]

with OWN**2 + STATE**2 + NOISE**2 = 1, mapped to the feature's unit, clipped to its physiological range and rounded to
the precision it is charted with. The states (severity, circulation, respiration, inflammation) are a patient's level,
a drift over the stay and slow oscillations with random periods. The numbers are chosen by hand to look like an ICU.
OWN, STATE and NOISE put about 0.6 of a feature's variance between patients, the median over 13 features of PhysioNet
2012 set-a. There it runs from 0.16 (glucose) to 0.95 (creatinine), here it is much the same for all.

One seed gives one file: each block of stays has its own PCG64 stream, so a stay does not depend on how many follow it,
and rounding hides what processors' arithmetic differs in (the last bit). NumPy may change a distribution's stream
between versions. Ours is pinned.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars
from tqdm import tqdm

from utils.errors import UserError

STATES = ("severity", "circulation", "respiration", "inflammation")
OWN, STATE, NOISE = 0.50, 0.65, 0.57  # their squares sum to 1
MEAN_ROWS = 55  # of a stay of average severity. Lengths are geometric: discharge comes at any time
MAX_ROWS = 400
MEAN_GAP = 1.1  # hours between rows at average severity

_BLOCK = 256  # stays made at once: 15,000 rows x 70 features x 8 bytes = 8 MB an array
_OSCILLATIONS = 3


class _Feature(NamedTuple):
    """How one feature looks.

    `scale` says what z does: "normal" is centre + spread * z. "log" is centre * exp(spread * z). "below" is a
    distance of centre * exp(-spread * z) below `high`. "binary" is 1 where z exceeds `centre`.
    """

    name: str
    unit: str
    panel: str
    scale: str
    centre: float
    spread: float
    low: float
    high: float
    decimals: int
    loadings: tuple[float, float, float, float]  # on STATES


# Panels are ordered together. The chance that one is recorded in a row at average severity.
PANELS = {
    "monitor": 0.75,
    "hourly": 0.40,
    "blood gas": 0.12,
    "chemistry": 0.07,
    "blood count": 0.06,
    "liver": 0.04,
    "coagulation": 0.04,
    "special": 0.02,
}
_WITHIN_PANEL = 0.92  # of a recorded panel's features, the share that has a value

FEATURES = tuple(
    _Feature(*row)
    for row in (
        # name, unit, panel, scale, centre, spread, low, high, decimals, loadings on severity, circulation, resp., infl.
        ("heart_rate", "1/min", "monitor", "normal", 88, 18, 20, 220, 0, (0.5, 0.5, 0.2, 0.5)),
        ("mean_arterial_pressure", "mmHg", "monitor", "normal", 80, 14, 25, 180, 0, (-0.5, -0.8, 0.0, -0.2)),
        ("spo2", "%", "monitor", "below", 3.2, 0.55, 50, 100, 0, (-0.3, -0.1, -0.9, 0.0)),
        ("temperature", "deg C", "hourly", "normal", 37.1, 0.8, 31, 42, 1, (0.0, -0.1, 0.0, 1.0)),
        ("lactate", "mmol/l", "blood gas", "log", 1.7, 0.6, 0.3, 25, 1, (0.8, 0.6, 0.1, 0.1)),
        ("mechanical_ventilation", "0/1", "hourly", "binary", 0.2, 0, 0, 1, 0, (0.6, 0.1, 0.8, 0.0)),
        ("creatinine", "umol/l", "chemistry", "log", 95, 0.65, 20, 1200, 0, (0.7, 0.4, 0.0, 0.1)),
        ("respiratory_rate", "1/min", "monitor", "normal", 20, 5, 4, 60, 0, (0.3, 0.1, 0.7, 0.4)),
        ("white_cell_count", "10^9/l", "blood count", "log", 11.5, 0.45, 0.2, 90, 1, (0.3, 0.0, 0.1, 0.9)),
        ("systolic_pressure", "mmHg", "monitor", "normal", 122, 21, 40, 260, 0, (-0.5, -0.8, 0.0, -0.2)),
        ("diastolic_pressure", "mmHg", "monitor", "normal", 61, 12, 15, 140, 0, (-0.4, -0.8, 0.0, -0.2)),
        ("glasgow_coma_score", "points", "hourly", "normal", 11, 3.5, 3, 15, 0, (-0.9, -0.1, -0.3, -0.1)),
        ("fio2", "fraction", "hourly", "normal", 0.42, 0.15, 0.21, 1, 2, (0.3, 0.1, 0.9, 0.0)),
        ("ph", "", "blood gas", "normal", 7.38, 0.08, 6.8, 7.7, 2, (-0.7, -0.4, -0.4, 0.0)),
        ("pao2", "kPa", "blood gas", "log", 12.5, 0.35, 4, 60, 1, (-0.1, 0.0, -0.9, 0.0)),
        ("paco2", "kPa", "blood gas", "log", 5.3, 0.22, 2, 15, 1, (0.1, 0.0, 0.7, 0.0)),
        ("bicarbonate", "mmol/l", "blood gas", "normal", 24, 4.5, 5, 50, 0, (-0.7, -0.3, 0.2, 0.0)),
        ("base_excess", "mmol/l", "blood gas", "normal", -0.5, 4.5, -25, 25, 1, (-0.7, -0.4, 0.1, 0.0)),
        ("urine_output", "ml/h", "hourly", "log", 75, 0.8, 0, 1500, 0, (-0.6, -0.5, 0.0, 0.0)),
        ("sodium", "mmol/l", "chemistry", "normal", 139, 4.8, 110, 175, 0, (0.2, 0.0, 0.0, 0.2)),
        ("potassium", "mmol/l", "chemistry", "normal", 4.1, 0.5, 2, 8, 1, (0.5, 0.2, 0.0, 0.0)),
        ("chloride", "mmol/l", "chemistry", "normal", 105, 5.5, 75, 140, 0, (0.2, 0.1, -0.1, 0.1)),
        ("urea", "mmol/l", "chemistry", "log", 8.5, 0.6, 1, 70, 1, (0.7, 0.3, 0.0, 0.2)),
        ("glucose", "mmol/l", "blood gas", "log", 7.6, 0.28, 1.5, 40, 1, (0.4, 0.1, 0.0, 0.4)),
        ("haemoglobin", "mmol/l", "blood gas", "normal", 6.4, 1.1, 2, 12, 1, (-0.4, -0.3, 0.0, -0.2)),
        ("platelets", "10^9/l", "blood count", "log", 190, 0.5, 3, 1200, 0, (-0.6, 0.0, 0.0, 0.2)),
        ("c_reactive_protein", "mg/l", "chemistry", "log", 75, 0.95, 1, 600, 0, (0.2, 0.0, 0.1, 1.0)),
        ("bilirubin", "umol/l", "liver", "log", 14, 0.8, 1, 700, 0, (0.7, 0.1, 0.0, 0.3)),
        ("alanine_aminotransferase", "U/l", "liver", "log", 38, 0.95, 3, 9000, 0, (0.6, 0.5, 0.0, 0.0)),
        ("aspartate_aminotransferase", "U/l", "liver", "log", 48, 0.95, 5, 15000, 0, (0.6, 0.5, 0.0, 0.0)),
        ("alkaline_phosphatase", "U/l", "liver", "log", 88, 0.5, 15, 2000, 0, (0.3, 0.0, 0.0, 0.4)),
        ("albumin", "g/l", "chemistry", "normal", 27, 6, 8, 52, 0, (-0.6, -0.1, 0.0, -0.6)),
        ("inr", "", "coagulation", "log", 1.25, 0.25, 0.8, 12, 1, (0.8, 0.2, 0.0, 0.1)),
        ("aptt", "s", "coagulation", "log", 38, 0.3, 18, 180, 0, (0.6, 0.2, 0.0, 0.1)),
        ("magnesium", "mmol/l", "chemistry", "normal", 0.9, 0.15, 0.3, 2.5, 2, (0.2, 0.0, 0.0, 0.0)),
        ("phosphate", "mmol/l", "chemistry", "log", 1.1, 0.35, 0.2, 5, 2, (0.6, 0.2, 0.0, 0.0)),
        ("ionised_calcium", "mmol/l", "blood gas", "normal", 1.14, 0.08, 0.6, 1.8, 2, (-0.4, -0.2, 0.0, -0.1)),
        ("troponin_t", "ug/l", "special", "log", 0.06, 1.3, 0.01, 25, 2, (0.3, 0.9, 0.0, 0.0)),
        ("creatine_kinase", "U/l", "special", "log", 210, 1.1, 10, 50000, 0, (0.4, 0.6, 0.0, 0.1)),
        ("peep", "cmH2O", "hourly", "normal", 7, 2.5, 0, 24, 0, (0.3, 0.0, 0.9, 0.0)),
        ("vasopressor", "0/1", "hourly", "binary", 0.4, 0, 0, 1, 0, (0.6, 0.8, 0.0, 0.3)),
        ("central_venous_pressure", "mmHg", "hourly", "normal", 9, 4, -3, 35, 0, (0.3, 0.6, 0.3, 0.0)),
        ("tidal_volume", "ml", "hourly", "normal", 470, 95, 100, 1000, 0, (-0.1, 0.0, -0.6, 0.0)),
        ("haematocrit", "fraction", "blood count", "normal", 0.31, 0.05, 0.1, 0.6, 2, (-0.4, -0.3, 0.0, -0.2)),
        ("neutrophils", "10^9/l", "blood count", "log", 9, 0.5, 0.1, 80, 1, (0.3, 0.0, 0.1, 0.9)),
        ("procalcitonin", "ug/l", "special", "log", 0.9, 1.4, 0.02, 200, 2, (0.5, 0.1, 0.0, 0.9)),
    )
)


def simulate(stays: int, features: int, seed: int) -> polars.DataFrame:
    """Simulate ICU stays as one longitudinal table.

    Parameters
    ----------
    stays : int
        N, at least 2. A seed's first stays are the same whatever N is.
    features : int
        Number of features besides time, at least 1: the first of `FEATURES`, then `lab_1`, `lab_2`, ... At 70, some
        80 % of the cells are missing. Fewer features hold a larger share of vital signs and miss less.
    seed : int
        Not negative.

    Returns
    -------
    polars.DataFrame
        `admissionid` (1..N), `time` (hours since admission, to 0.01) and the features (Float64, null where missing),
        in ascending order of the first two.

    Raises
    ------
    UserError
        Where an argument is out of its range.
    """
    return polars.concat(list(_tables(stays, features, seed)))


def tables(stays: int, features: int, seed: int) -> Iterator[polars.DataFrame]:
    """Yield what `simulate` returns block by block, under a progress bar. Memory does not grow with `stays`."""
    with tqdm(total=stays, unit=" stays", desc="simulate", leave=False) as bar:
        for table in _tables(stays, features, seed):
            yield table
            bar.update(table["admissionid"].n_unique())


def _tables(stays: int, features: int, seed: int) -> Iterator[polars.DataFrame]:
    for name, value, least in (("stays", stays, 2), ("features", features, 1), ("seed", seed, 0)):
        if value < least:
            raise UserError(f"{name} must be at least {least}, not {value}")
    described = _described(features, _generator(seed, 0))
    for first in range(0, stays, _BLOCK):
        table = _block(described, _generator(seed, 1 + first // _BLOCK), first)
        yield table.filter(polars.col("admissionid") <= stays) if first + _BLOCK > stays else table


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def _described(count: int, generator: np.random.Generator) -> list[_Feature]:
    """The first `count` features. Beyond the named ones, laboratory values drawn by the seed."""
    described = list(FEATURES[:count])
    panels = [name for name in PANELS if name not in ("monitor", "hourly")]
    for number in range(1, count - len(described) + 1):
        centre = round(float(np.exp(generator.uniform(np.log(0.5), np.log(300)))), 2)
        loadings = tuple(generator.normal(0, 0.5, len(STATES)).tolist())
        spread, panel = generator.uniform(0.2, 0.8), panels[generator.integers(len(panels))]
        decimals = 2 if centre < 3 else 1 if centre < 30 else 0
        described.append(
            _Feature(f"lab_{number}", "", panel, "log", centre, spread, 0, 50 * centre, decimals, loadings)
        )
    return described


def _block(features: list[_Feature], generator: np.random.Generator, first: int) -> polars.DataFrame:
    """Simulate `_BLOCK` stays, numbered from `first` + 1, as one flat table of rows."""
    level = generator.normal(size=(_BLOCK, len(STATES)))
    level[:, 1:] = 0.4 * level[:, :1] + np.sqrt(1 - 0.4**2) * level[:, 1:]  # all go with severity
    severity = level[:, 0]

    lengths = 1 + np.floor(generator.exponential(MEAN_ROWS * np.exp(0.3 * severity)))
    lengths = np.minimum(lengths, MAX_ROWS).astype(np.int64)
    stay = np.repeat(np.arange(_BLOCK), lengths)
    first_row = np.cumsum(lengths) - lengths

    # Rows of a stay come at gamma-distributed gaps, closer together in sicker patients. They are hundredths of an hour.
    pace = MEAN_GAP * np.exp(-0.4 * severity + 0.3 * generator.normal(size=_BLOCK))
    gaps = 1 + np.floor(100 * pace[stay] * generator.gamma(1.5, 1 / 1.5, stay.size)).astype(np.int64)
    elapsed = np.cumsum(gaps)
    elapsed -= elapsed[first_row][stay]
    hours = elapsed / 100

    states = _states(level, stay, hours, generator)
    z = _standard_values(features, states, stay, generator)
    values = _in_units(features, z)
    values[~_measured(features, states, generator)] = np.nan

    table = polars.from_numpy(values, schema=[feature.name for feature in features]).fill_nan(None)
    table.insert_column(0, polars.Series("admissionid", first + 1 + stay))
    return table.insert_column(1, polars.Series("time", hours))


def _states(level: np.ndarray, stay: np.ndarray, hours: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Latent states at each row, [rows, states]: level, a drift that fades over days, slow oscillations."""
    shape = (_OSCILLATIONS, *level.shape)
    period = np.exp(generator.uniform(np.log(6), np.log(72), shape))  # hours
    phase = generator.uniform(0, 2 * np.pi, shape)
    height = generator.normal(0, 0.45, shape)
    drift = generator.normal(-0.2, 0.6, level.shape)  # most recover
    states = level[stay] + drift[stay] * np.tanh(hours / 48)[:, None]
    for oscillation in range(_OSCILLATIONS):
        angle = 2 * np.pi * hours[:, None] / period[oscillation][stay] + phase[oscillation][stay]
        states += height[oscillation][stay] * np.sin(angle)
    return states


def _standard_values(
    features: list[_Feature], states: np.ndarray, stay: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Every feature at each row on a scale of mean 0 and standard deviation about 1, [rows, features]."""
    loadings = np.array([feature.loadings for feature in features])
    loadings /= np.maximum(np.linalg.norm(loadings, axis=1, keepdims=True), 1)
    baseline = generator.normal(size=(_BLOCK, len(features)))
    noise = np.array([NOISE / 5 if feature.scale == "binary" else NOISE for feature in features])  # on stays on
    z = noise * generator.normal(size=(stay.size, len(features)))
    z += (OWN * baseline)[stay]
    z += STATE * (states @ loadings.T)
    return z


def _in_units(features: list[_Feature], z: np.ndarray) -> np.ndarray:
    """Map z, [rows, features], to each feature's unit, range and precision, in place."""
    for column, feature in zip(z.T, features, strict=True):
        if feature.scale == "normal":
            column[:] = feature.centre + feature.spread * column
        elif feature.scale == "log":
            column[:] = feature.centre * np.exp(feature.spread * column)
        elif feature.scale == "below":
            column[:] = feature.high - feature.centre * np.exp(-feature.spread * column)
        else:
            column[:] = column > feature.centre
        np.clip(column, feature.low, feature.high, out=column)
        np.round(column, feature.decimals, out=column)
    z += 0.0  # no "-0.0" in the file
    return z


def _measured(features: list[_Feature], states: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Which features have a value at each row, [rows, features]. Panels are ordered together, more if severe."""
    chance = np.array(list(PANELS.values()))
    odds = chance / (1 - chance) * np.exp(0.5 * states[:, :1])
    ordered = generator.random((len(states), len(PANELS))) < odds / (1 + odds)
    panel = [list(PANELS).index(feature.panel) for feature in features]
    measured = ordered[:, panel] & (generator.random((len(states), len(features))) < _WITHIN_PANEL)
    measured[:, 0] |= ~measured.any(axis=1)  # a row is there because something was recorded
    return measured
