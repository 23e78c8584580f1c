"""Shadow seeker: who holds the hider's code can see what membership does, and then look for it in the release.

Shadow models are from Shokri et al. (IEEE S&P 2017). Comparing a stay with its own scores as a non-member is
difficulty calibration (Watson et al., ICLR 2022). Likelihood ratios per stay are those of LiRA (Carlini et al., IEEE
S&P 2022). The hider's code counts as known (Kerckhoffs): a release must be safe even then.

What it does: it runs the hider on random halves of the enlarged data. In these shadow releases it knows the members. It
takes the scores of other seekers (`seekers`) on every shadow release, learns what membership does to them, and applies
that to the scores on the real release.

What it exploits: whatever any of the other seekers sees, combined in the way that is best for this hider.

What it cannot see: what none of the other seekers sees. A hider that needs hours needs hours times `runs` here.

It finds the hider and the other seekers when it runs, beside its own file (`utils/methods.py`). It runs their code in
this process. With `folder`, finished shadow runs are kept there and a later start goes on with the next one.
"""

import contextlib
import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from utils.errors import UserError
from utils.files import atomic_path
from utils.methods import Method, find_method, load_method, seeker_scores, source_digest
from utils.progress import progress_bar, without_bars
from utils.solutions import parse_hider_output
from utils.stays import label_highest

HOME = Path(__file__).resolve().parent
SLOW = True  # it runs the hider and the other seekers 16 times; `--seeker all` waits for --slow
ALSO_GIVEN = ("feature_names",)  # the hider that it runs may ask for them
CHEAP = ("moments", "density", "classifier", "forecast", "matching:stays", "matching:time_points", "knn", "timeknn")


@dataclass(frozen=True)
class Parameters:
    hider: str = ""  # a name (addnoise), a name and a setting (addnoise:noise_size=0.2) or the path of a .py file
    runs: int = 16  # shadow releases
    # Whose scores are used: names joined by +, each with a setting after a colon if wanted (matching:time_points).
    # Empty: those of CHEAP that lie beside this file.
    seekers: str = ""
    folder: str = ""  # where finished shadow runs are kept. Empty: nowhere

    def __post_init__(self) -> None:
        if self.runs < 2:
            raise ValueError(f"runs must be at least 2, not {self.runs}")


_PRIOR = 2.0  # shadow runs that the pooled mean counts for beside a stay's own
_FOLDS = 4  # of shadow runs, to choose between logistic regression and boosting


def seeker(input_dict: dict[str, Any], parameters: Parameters = Parameters()) -> tuple[np.ndarray, np.ndarray]:
    """Label the enlarged stays with the highest learnt evidence, as many as there are generated stays.

    Parameters
    ----------
    input_dict : dict
        `generated_data` [N, T, F], `enlarged_data` [M, T, F], their padding masks (or None), `seed`.
    parameters : Parameters
        `hider` must be given.

    Returns
    -------
    labels : ndarray of int, shape [M]
        1 for "was used by the hider".
    scores : ndarray of float, shape [M]
        Learnt log-odds of membership.

    Raises
    ------
    UserError
        If no hider is named, or the hider or a seeker is not there or fails, or there are fewer than four stays.
    """
    if not parameters.hider:
        raise UserError("shadow needs the hider's code; name it: --seeker_parameters hider=NAME_OR_PATH,runs=16")
    names = chosen_seekers(parameters.seekers)
    hider = load_method("hider", parameters.hider, HOME)
    seekers = {name: load_method("seeker", name, HOME) for name in names}
    stays, count = len(input_dict["enlarged_data"]), len(input_dict["generated_data"])
    if stays < 4:
        raise UserError(f"shadow needs at least 4 enlarged stays, to split them in halves; got {stays}")

    members = np.zeros((parameters.runs, stays), dtype=bool)
    scores = np.zeros((parameters.runs, len(names), stays))
    key = _key(input_dict, parameters, names) if parameters.folder else ""
    size = count if count < stays else stays // 2
    with progress_bar(parameters.runs + 1, "shadow runs", "run") as bar:
        for run in range(parameters.runs):
            kept = Path(parameters.folder) / f"shadow-{key}-{run}.npz" if parameters.folder else None
            found = _kept_run(kept, (len(names), stays)) if kept else None
            if found is None:
                rng = np.random.default_rng([input_dict["seed"], run])
                with without_bars():
                    found = shadow_run(hider, seekers, input_dict, size, rng)
                if kept:
                    _keep_run(kept, *found)
            members[run], scores[run] = found
            bar.update()
        with without_bars():
            released = np.stack([seeker_scores(play, input_dict, name) for name, play in seekers.items()])
        bar.update()
    evidence = learnt_evidence(members, scores, released, np.random.default_rng(input_dict["seed"]))
    return label_highest(evidence, count), evidence


def chosen_seekers(text: str) -> list[str]:
    """Return the names in `text`, joined by +, or those of CHEAP that are there.

    Raises
    ------
    UserError
        If one of them is not there, or none is.
    """
    if text:
        names = [name.strip() for name in text.split("+") if name.strip()]
        for name in names:
            find_method("seeker", name, HOME)
    else:
        names = [name for name in CHEAP if (HOME / f"seeker_{name.partition(':')[0]}.py").is_file()]
    if not names:
        raise UserError(f"shadow combines other seekers, and none lies beside it in {HOME}")
    return names


def shadow_run(
    hider: Method, seekers: dict[str, Method], input_dict: dict[str, Any], size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Release a random part of the enlarged data and let the seekers play against that.

    Parameters
    ----------
    hider : callable
    seekers : dict of callables
    input_dict : dict
        The seeker's.
    size : int
        Members of the shadow release.
    rng : numpy.random.Generator

    Returns
    -------
    members : ndarray of bool, shape [M]
    scores : ndarray of float, shape [J, M]
        One row for each seeker.
    """
    enlarged, mask = input_dict["enlarged_data"], input_dict["enlarged_data_padding_mask"]
    members = np.zeros(len(enlarged), dtype=bool)
    members[rng.permutation(len(enlarged))[:size]] = True
    given = {
        "data": enlarged[members],
        "padding_mask": None if mask is None else mask[members],
        "seed": int(rng.integers(2**31)),
    }
    if "feature_names" in input_dict:
        given["feature_names"] = input_dict["feature_names"]
    if mask is None:
        given["padding_mask"] = np.zeros(given["data"].shape, dtype=bool)
    try:
        generated, generated_mask, _ = parse_hider_output(hider(given))
    except RuntimeError as error:
        raise UserError(f"shadow: {error}") from error
    shown = {
        **input_dict,
        "generated_data": generated,
        "generated_data_padding_mask": generated_mask,
        "seed": int(rng.integers(2**31)),
    }
    return members, np.stack([seeker_scores(play, shown, name) for name, play in seekers.items()])


def learnt_evidence(
    members: np.ndarray, scores: np.ndarray, released: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Learn what membership does to the scores, and apply it to those of the release.

    Parameters
    ----------
    members : ndarray of bool, shape [R, M]
        Of each shadow release.
    scores : ndarray of float, shape [R, J, M]
        Of each seeker on each shadow release.
    released : ndarray of float, shape [J, M]
        Of each seeker on the release.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float, shape [M]
        Log-odds of membership, by logistic regression or gradient boosting, whichever has the higher AUROC on shadow
        releases that it did not learn from.
    """
    known = np.stack([_normal_ranks(run) for run in scores])
    asked = _normal_ranks(released)
    rows = np.concatenate([per_stay_evidence(members, known, known[run], run) for run in range(len(known))])
    truth = members.reshape(-1)
    fold = np.repeat(rng.permutation(len(members)) % min(_FOLDS, len(members)), members.shape[1])
    seed = int(rng.integers(2**31))
    areas = []
    for model in range(2):
        evidence = np.zeros(len(rows))
        for held_out in np.unique(fold):
            learner = _learner(model, seed).fit(rows[fold != held_out], truth[fold != held_out])
            evidence[fold == held_out] = learner.decision_function(rows[fold == held_out])
        areas.append(roc_auc_score(truth, evidence))
    learner = _learner(int(np.argmax(areas)), seed).fit(rows, truth)
    return np.asarray(learner.decision_function(per_stay_evidence(members, known, asked, None)))


def per_stay_evidence(members: np.ndarray, known: np.ndarray, asked: np.ndarray, without: int | None) -> np.ndarray:
    """Compare each stay's scores with its own in the shadow releases with it and without it.

    Parameters
    ----------
    members : ndarray of bool, shape [R, M]
    known : ndarray, shape [R, J, M]
        Scores on the shadow releases, as normal ranks.
    asked : ndarray, shape [J, M]
        Scores to judge.
    without : int or None
        The shadow release that `asked` comes from. It is left out of the comparison.

    Returns
    -------
    ndarray of float, shape [M, 3 * J]
        For each seeker: the score, the score minus the stay's mean as a non-member, and the log likelihood ratio of two
        normal distributions. Means are drawn towards those of all stays, since few releases stand behind each.
    """
    used = np.ones(len(members), dtype=bool)
    if without is not None:
        used[without] = False
    inside, values = members[used][:, None, :], known[used]
    means = []
    for group in (inside, ~inside):
        count = group.sum(axis=0)
        total = np.where(group, values, 0).sum(axis=0)
        pooled = total.sum(axis=1, keepdims=True) / max(int(count.sum()), 1)
        means.append((total + _PRIOR * pooled) / (count + _PRIOR))
    mean_in, mean_out = means
    squares = np.square(values - np.where(inside, mean_in, mean_out))
    own = (squares.sum(axis=0) + len(values) * squares.mean(axis=(0, 2))[:, None]) / (2 * len(values))
    ratio = (np.square(asked - mean_out) - np.square(asked - mean_in)) / (2 * np.maximum(own, 1e-6))
    return np.concatenate([asked, asked - mean_out, ratio]).T


def _learner(kind: int, seed: int) -> Any:
    if kind == 0:
        return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    return HistGradientBoostingClassifier(
        max_iter=100,
        learning_rate=0.05,
        max_leaf_nodes=8,
        l2_regularization=10.0,
        early_stopping=False,
        random_state=seed,
    )


def _normal_ranks(scores: np.ndarray) -> np.ndarray:
    """Return each row's standard normal quantiles of its ranks, shape [J, M]. Equal scores share their middle rank."""
    return np.asarray(ndtri((rankdata(scores, axis=1) - 0.5) / scores.shape[1]))


# ---------------------------------------------------------------------------------------------- finished runs


def _key(input_dict: dict[str, Any], parameters: Parameters, names: list[str]) -> str:
    """Return a digest of all that a shadow run depends on: data, code, setting and seed."""
    sources = [find_method("seeker", name, HOME)[0] for name in names]
    file, setting = find_method("hider", parameters.hider, HOME)
    sources += [file, *HOME.glob("utils/**/*.py"), *HOME.glob("examples/**/*.py")]
    digest = hashlib.sha256()
    facts = [source_digest(sources), setting, names, int(input_dict["seed"]), len(input_dict["generated_data"])]
    digest.update(json.dumps(facts).encode())
    for name in ("enlarged_data", "enlarged_data_padding_mask"):
        array = input_dict[name]
        if array is not None:
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:32]


def _keep_run(path: Path, members: np.ndarray, scores: np.ndarray) -> None:
    try:
        with atomic_path(path) as temporary:
            np.savez(temporary, members=members, scores=scores)
    except OSError as error:
        raise UserError(
            f"shadow cannot keep its runs in {path.parent}: {error.strerror}; name another folder"
        ) from error


def _kept_run(path: Path, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a finished run, or None if it is not there or damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        with np.load(path, allow_pickle=False) as arrays:
            members, scores = arrays["members"], arrays["scores"]
        if members.dtype == bool and members.shape == shape[1:] and scores.shape == shape and np.isfinite(scores).all():
            return members, scores
    return None
