"""Clinically plausible ranges that are public: physiology and the units that measurements are charted in.

Nothing here was read from patients who are to be protected. A range need not hold every value: values outside are
moved to its end. `log` says that equal ratios, rather than equal differences, matter. PhysioNet 2012's names and the
names of simulated stays are here.
"""

from typing import NamedTuple


class Range(NamedTuple):
    """A feature's public range.

    `decimals` are those it is charted with. `log`: classes of values are equally wide on the logarithm's scale.
    """

    low: float
    high: float
    decimals: int
    log: bool = False


RANGES: dict[str, Range] = {
    # PhysioNet/Computing in Cardiology Challenge 2012, units as there
    "ALP": Range(20, 1000, 0, True),
    "ALT": Range(5, 5000, 0, True),
    "AST": Range(5, 10000, 0, True),
    "Albumin": Range(1, 5.5, 1),
    "BUN": Range(2, 150, 0, True),
    "Bilirubin": Range(0.1, 40, 1, True),
    "Cholesterol": Range(40, 350, 0),
    "Creatinine": Range(0.2, 15, 1, True),
    "DiasABP": Range(20, 120, 0),
    "FiO2": Range(0.21, 1, 2),
    "GCS": Range(3, 15, 0),
    "Glucose": Range(40, 600, 0, True),
    "HCO3": Range(8, 45, 0),
    "HCT": Range(15, 55, 1),
    "HR": Range(30, 180, 0),
    "K": Range(2, 8, 1),
    "Lactate": Range(0.3, 20, 1, True),
    "MAP": Range(30, 160, 0),
    "MechVent": Range(0, 1, 0),
    "Mg": Range(1, 4, 1),
    "NIDiasABP": Range(15, 125, 0),
    "NIMAP": Range(30, 160, 0),
    "NISysABP": Range(50, 220, 0),
    "Na": Range(115, 165, 0),
    "PaCO2": Range(15, 100, 0),
    "PaO2": Range(30, 500, 0, True),
    "Platelets": Range(10, 1000, 0, True),
    "RespRate": Range(4, 50, 0),
    "SaO2": Range(70, 100, 0),
    "SysABP": Range(50, 220, 0),
    "Temp": Range(33, 41, 1),
    "TroponinI": Range(0.1, 50, 1, True),
    "TroponinT": Range(0.01, 25, 2, True),
    "Urine": Range(5, 1500, 0, True),
    "WBC": Range(0.5, 60, 1, True),
    "Weight": Range(30, 200, 1),
    "pH": Range(6.9, 7.7, 2),
    "Age": Range(15, 90, 0),
    "Gender": Range(0, 1, 0),
    "Height": Range(130, 210, 1),
    "ICUType": Range(1, 4, 0),
    "In-hospital_death": Range(0, 1, 0),
    # simulated stays
}
