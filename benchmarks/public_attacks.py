"""Public attacks on tables beside ours, on the same releases.

    python benchmarks/public_attacks.py DATA [--half 2] [--hiders addnoise binning ...] [--seekers moments ...]

DATA is PhysioNet 2012 set-a as downloaded, or a longitudinal CSV. `--half` plays on half of the stays: 1 is the half
on which our defaults were chosen, 2 the other. Prints Markdown: re-identification score and AUROC of every attack.

The public attacks were written for tables, one row a record. Each gets the rows of `utils.stay_vectors` as normal
scores, which hold a stay's summaries, halves, length and clock, and their leading principal components (`COMPONENTS`).
They are written here from their papers: no package holds them for series.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.table1 import half_of  # noqa: E402
from scoring.data import datasets  # noqa: E402
from scoring.round import Round, divide_as_2020  # noqa: E402
from utils.methods import load_method, seeker_scores  # noqa: E402
from utils.solutions import parse_hider_output  # noqa: E402
from utils.stay_vectors import normal_scores, stay_vectors  # noqa: E402
from utils.stays import label_highest  # noqa: E402

COMPONENTS = 20
NEIGHBOURS = 20
_BLOCK = 512
OURS = [
    "moments",
    "density",
    "classifier",
    "forecast",
    "matching:stays",
    "matching:time_points",
    "knn",
    "timeknn",
    "binary_predictor",
    "ensemble",
]


def _distances(queries: np.ndarray, references: np.ndarray, count: int) -> np.ndarray:
    return NearestNeighbors(n_neighbors=min(count, len(references))).fit(references).kneighbors(queries)[0]


def _to_others(real: np.ndarray, count: int) -> np.ndarray:
    return NearestNeighbors(n_neighbors=min(count, len(real) - 1)).fit(real).kneighbors()[0]


def dcr(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Distance to the closest record."""
    return -_distances(real, made, 1)[:, 0]


def dcr_difference(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Distance to the closest real record minus that to the closest generated one."""
    return _to_others(real, 1)[:, 0] - _distances(real, made, 1)[:, 0]


def _log_kernels(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Gaussian kernels with Scott's bandwidth on whitened components."""
    width = len(centres) ** (-1 / (points.shape[1] + 4))
    squared = np.square(points).sum(1)[:, None] + np.square(centres).sum(1) - 2 * points @ centres.T
    return -squared.clip(0) / (2 * width**2)


def domias(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Density of generated over real records (van Breugel et al., AISTATS 2023), by kernels, oneself left out."""
    scores = np.empty(len(real))
    for start in range(0, len(real), _BLOCK):
        part = np.arange(start, min(start + _BLOCK, len(real)))
        to_real = _log_kernels(real[part], real)
        to_real[np.arange(len(part)), part] = -np.inf
        scores[part] = logsumexp(_log_kernels(real[part], made), axis=1) - logsumexp(to_real, axis=1)
    return scores


def dpi(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Data plagiarism index (Ward et al., 2024): share of generated records among the nearest of both kinds."""
    both = np.concatenate([made, real])
    nearest = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(both))).fit(both).kneighbors(real)[1]
    return (nearest < len(made)).mean(axis=1)


def gen_lra(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Likelihood of the nearest generated records with the record over without it (Ward et al., 2025), by kernels."""
    total = np.concatenate(
        [logsumexp(_log_kernels(made[i : i + _BLOCK], real), axis=1) for i in range(0, len(made), _BLOCK)]
    )
    nearest = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(made))).fit(made).kneighbors(real)[1]
    width = len(real) ** (-1 / (real.shape[1] + 4))
    squared = np.square(made[nearest] - real[:, None]).sum(axis=2)
    share = np.exp(-squared.astype(float) / (2 * width**2) - total[nearest]).clip(0, 1 - 1e-9)
    return -np.log1p(-share).sum(axis=1)


def _judged(model: Callable[[], object], made: np.ndarray, real: np.ndarray, folds: int) -> np.ndarray:
    fold = np.random.default_rng(0).permutation(len(real)) % folds
    scores = np.zeros(len(real))
    for k in range(folds):
        known = real if folds == 1 else real[fold != k]
        rows = np.concatenate([known, made])
        fitted = model().fit(rows, np.arange(len(rows)) >= len(known))  # type: ignore[attr-defined]
        scores[fold == k] = fitted.predict_proba(real[fold == k])[:, 1]
    return scores


def logan(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """LOGAN (Hayes et al., PoPETs 2019): a network's chance of "generated", on the records that it was trained on."""
    network = lambda: MLPClassifier((64,), early_stopping=True, max_iter=100, random_state=0)  # noqa: E731
    return _judged(network, made, real, 1)


def classifier(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Random forest's chance of "generated", cross-fitted."""
    return _judged(lambda: RandomForestClassifier(200, min_samples_leaf=2, random_state=0), made, real, 4)


def monte_carlo(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Generated records within the median nearest distance (Hilprecht et al., PoPETs 2019)."""
    radius = np.median(_distances(real, made, 1))
    found = NearestNeighbors(radius=radius).fit(made).radius_neighbors(real, return_distance=False)
    return np.array([len(near) for near in found], dtype=float)


def local_neighbourhood(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Distance to the k-th other real record over that to the k-th generated one (after TAPAS, Houssiau 2022)."""
    return np.log(_to_others(real, 5)[:, -1] + 1e-9) - np.log(_distances(real, made, 5)[:, -1] + 1e-9)


PUBLIC = (dcr, dcr_difference, domias, dpi, gen_lra, logan, classifier, monte_carlo, local_neighbourhood)


def main() -> None:
    """Play every attack on every release and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", type=int, choices=(1, 2))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hiders", nargs="+", default=["addnoise", "binning", "shuffle", "crowd"])
    parser.add_argument("--seekers", nargs="+", default=OURS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = half_of(arguments.data, arguments.half, Path(folder) / "half.csv") if arguments.half else arguments.data
        stays = datasets.load(path, 100, 0)
    round_ = Round.of(stays, divide_as_2020(stays, arguments.seed, 0.5))
    lines: dict[str, list[str]] = {}
    for hider in arguments.hiders:
        generated, mask, _ = parse_hider_output(load_method("hider", hider, ROOT)(round_.hider_input()))
        shown = round_.seeker_input(generated, mask)
        made, real = stay_vectors(shown)
        made, real = normal_scores(real, made), normal_scores(real, real)
        plane = PCA(min(COMPONENTS, *real.shape), whiten=True, random_state=0).fit(real)
        made, real = plane.transform(made), plane.transform(real)
        found = {f"{attack.__name__} (public)": attack(made, real) for attack in PUBLIC}
        for name in arguments.seekers:
            found[name] = seeker_scores(load_method("seeker", name, ROOT), shown, name)
        for name, scores in found.items():
            hit = np.mean(label_highest(scores, len(generated)) == round_.truth)
            lines.setdefault(name, []).append(f"{hit:.3f} ({roc_auc_score(round_.truth, scores):.3f})")
    print("| attack: Re-ID (AUROC) | " + " | ".join(arguments.hiders) + " |")
    print("|---" * (1 + len(arguments.hiders)) + "|")
    for name, cells in lines.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
