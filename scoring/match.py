"""One match: load, hide, check utility, seek, score, report."""

import contextlib
import datetime
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from scoring.data import datasets as data_sets
from scoring.report.comparison import compare
from scoring.report.match_page import distance_figures, verdict, write_report
from scoring.statistics import reidentification
from scoring.submissions.players import Player, check_generated, check_labels, check_player, find_player, play
from utils.data_preprocess import preprocess_imputed
from utils.data_utils import data_division
from utils.errors import UserError
from utils.misc import tf115_found
from utils.solutions import UNREADABLE_NPZ, load_generated_data

VERSION = "0.1.0"
RMSE_THRESHOLD = 5.0  # the contract's: generated RMSE at most this multiple of the original's


@dataclass(frozen=True)
class MatchSettings:
    """What the user asked for; the fields are the command line's.

    Attributes
    ----------
    home : Path
        The folder of `main.py`, where named hiders and seekers are.
    """

    home: Path
    data_path: Path
    output_dir: Path
    max_seq_len: int = 100
    train_frac: float = 0.5
    hider_eval_threshold: float = 0.85
    feature_prediction_no: int = 5
    features: tuple[str, ...] | None = None
    seed: int = 0
    debug_data: int = 0
    skip_fp: bool = False
    skip_osa: bool = False
    eval_verbose: bool = False
    hider: str | None = None
    seeker: str | None = None
    hider_parameters: str | None = None
    seeker_parameters: str | None = None
    generated: Path | None = None

    def __post_init__(self) -> None:
        if not 0 < self.train_frac < 1:
            raise UserError(f"--train_frac must lie between 0 and 1, not {self.train_frac:g}")
        for name in ("max_seq_len", "feature_prediction_no"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"--seed must lie between 0 and {2**32 - 1}, not {self.seed}")
        if self.hider_eval_threshold < 0 or not math.isfinite(self.hider_eval_threshold):
            raise UserError(f"--hider_eval_threshold must be at least 0, not {self.hider_eval_threshold:g}")
        if self.generated and (self.hider or self.hider_parameters):
            raise UserError("--generated takes the place of a hider; leave out --hider and --hider_parameters")


def play_match(settings: MatchSettings) -> dict[str, Any]:
    """Play one hider against one seeker and write the outputs; nothing old is replaced before all is there.

    Parameters
    ----------
    settings : MatchSettings

    Returns
    -------
    dict
        What report.json holds.

    Raises
    ------
    UserError
        For bad settings, bad data, or a hider or seeker that fails or returns what it must not.
    """
    clock = _Clock()
    hider = None if settings.generated else find_player("hider", settings.hider, settings.home)
    seeker = find_player("seeker", settings.seeker, settings.home)
    for player, wanted in ((hider, settings.hider), (seeker, settings.seeker)):
        if player and wanted is None and player.source.name != f"{player.role}.py":
            print(f"no {player.role}.py here: playing {player.name}")
    hider_module = check_player(hider, settings.hider_parameters) if hider else None
    seeker_module = check_player(seeker, settings.seeker_parameters)

    with clock.stage("load"):
        stays = data_sets.load(settings.data_path, settings.max_seq_len, max(0, settings.debug_data))
        features = _tested_features(settings, stays.feature_names)
        _, (train, test) = data_division(
            range(len(stays.data)), settings.seed, [settings.train_frac, 1 - settings.train_frac]
        )
        if not len(train) or not len(test):
            raise UserError(f"--train_frac {settings.train_frac:g} leaves no stay on one side of {len(stays.data)}")
        order, seeker_seed = data_sets.shown_to_seekers(stays.data, settings.seed)
        stays = replace(stays, data=stays.data[order], padding_mask=stays.padding_mask[order])
        place = np.argsort(order)  # of each stay of the file
        train, test = place[train], place[test]
    warnings = list(stays.warnings)
    if settings.debug_data > 0:
        warnings.append(f"only the first {settings.debug_data:,} rows of the data were read (--debug_data)")
    for warning in warnings:
        print(f"warning: {warning}")
    origin = _origin(stays, train)
    print(f"{len(stays.data)} stays x {stays.data.shape[1]} time points x {stays.data.shape[2]} features")

    with clock.stage("hider"):
        generated, generated_mask, hider_facts = _hide(settings, hider, hider_module, stays, train, origin, warnings)

    utility, skipped = None, _why_skipped(settings)
    if skipped:
        print(f"warning: utility checks skipped: {skipped}")
    else:
        with clock.stage("utility"):
            utility = _utility(settings, stays, train, test, generated, generated_mask, features)

    # Before the seeker runs: it is handed the arrays themselves and may change them.
    rng = np.random.default_rng(settings.seed)
    arrays = compare(stays.data, stays.padding_mask, train, generated, generated_mask, rng)
    facts = data_facts(stays, train)

    with _staging(settings.output_dir) as folder:
        _write_hider_output(folder / "hider", generated, generated_mask, origin, utility)
        with clock.stage("seeker"):
            seeker_input = {
                "generated_data": generated,
                "enlarged_data": stays.data,
                "seed": seeker_seed,
                "generated_data_padding_mask": generated_mask,
                "enlarged_data_padding_mask": stays.padding_mask,
            }
            output, seeker_parameters = play(seeker, seeker_input, settings.seeker_parameters, seeker_module)
            labels, scores = check_labels(f"seeker '{seeker.name}'", output, len(stays.data))
        (folder / "seeker").mkdir()
        np.savez(folder / "seeker" / "data.npz", reidentified_data=labels[place].astype(int))

        result = {
            "format": 1,
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "hider": hider_facts,
            "seeker": {"name": seeker.name, "source": seeker.source.name, "parameters": seeker_parameters},
            "data": facts,
            "settings": _settings_facts(settings, features),
            "versions": versions(),
            "reidentification": reidentification(arrays.labels, labels, scores),
            "utility": utility,
            "utility_skipped": skipped,
            "warnings": warnings,
            "seconds": clock.seconds(),
        }
        result["distance"] = distance_figures(arrays)
        result["verdict"] = verdict(result)
        report = json.dumps(plain_json(result), indent=1, allow_nan=False)
        (folder / "report.json").write_text(report + "\n", encoding="utf-8")
        write_report(result, replace(arrays, scores=scores), folder / "report.html")
    return result


def _tested_features(settings: MatchSettings, names: Sequence[str]) -> list[int]:
    from scoring.utility.challenge import draw_features

    count = len(names)
    if settings.features is None:
        if settings.feature_prediction_no > count:
            raise UserError(
                f"--feature_prediction_no {settings.feature_prediction_no}: the data have only {count} features"
            )
        return draw_features(count, settings.feature_prediction_no, settings.seed)
    chosen = []
    for feature in settings.features:
        if feature in names:
            chosen.append(names.index(feature))
        elif feature.isdecimal() and int(feature) < count:
            chosen.append(int(feature))
        else:
            raise UserError(f"--features {feature}: the data have features 0 to {count - 1}: {', '.join(names)}")
    return list(dict.fromkeys(chosen))


def _origin(stays: data_sets.DataSet, train: np.ndarray) -> str:
    """Return a digest of what the hider is given: generated data is scored against these stays and no others."""
    digest = hashlib.sha256()
    for stay in train:  # one at a time: no copy of the half
        digest.update(stays.data[stay].tobytes())
    return digest.hexdigest()


def _hide(
    settings: MatchSettings,
    hider: Player | None,
    module: ModuleType | None,
    stays: data_sets.DataSet,
    train: np.ndarray,
    origin: str,
    warnings: list[str],
) -> tuple[np.ndarray, np.ndarray | None, dict[str, Any]]:
    shape = (len(train), *stays.data.shape[1:])
    if hider is None:
        assert settings.generated is not None
        generated, mask = _load_generated(settings.generated, shape, origin, warnings)
        return generated, mask, {"name": settings.generated.stem, "source": settings.generated.name, "parameters": {}}
    input_dict = {"data": stays.data[train], "padding_mask": stays.padding_mask[train], "seed": settings.seed}
    output, parameters = play(hider, input_dict, settings.hider_parameters, module)
    del input_dict
    checked = check_generated(f"hider '{hider.name}'", output, shape)
    if checked is None:
        previous = settings.output_dir / "hider" / "data.npz"
        if not previous.is_file():
            raise UserError(f"hider '{hider.name}' asks to rescore its earlier data, but {previous} is not there")
        checked = (*_load_generated(previous, shape, origin, warnings), None)
    facts = {"name": hider.name, "source": hider.source.name, "parameters": parameters}
    return checked[0], checked[1], facts


def _load_generated(
    path: Path, shape: tuple[int, ...], origin: str, warnings: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Load generated data that were made earlier or elsewhere, and see whether they are of these stays."""
    if not path.is_file():
        raise UserError(f"generated data not found: {path}")
    try:
        generated, mask = load_generated_data(path)
        with np.load(path, allow_pickle=False) as arrays:
            made_from = str(arrays["made_from"]) if "made_from" in arrays else None
    except UNREADABLE_NPZ as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} is not an .npz with generated_data and padding_mask (plain arrays, no pickles): {reason}"
        ) from error
    if made_from is not None and made_from != origin:
        raise UserError(
            f"{path} was made from other stays than those of this seed, split and data; a score would mean nothing: "
            "use the settings it was made with"
        )
    if made_from is None:
        warnings.append(
            f"{path.name} does not say which stays it was made from; unless they are this seed's members, every figure "
            "here is meaningless and looks like chance"
        )
        print(f"warning: {warnings[-1]}")
    checked = check_generated(path.name, (generated, mask), shape)
    assert checked is not None
    return checked[0], checked[1]


def _why_skipped(settings: MatchSettings) -> str | None:
    if settings.skip_fp and settings.skip_osa:
        return "--skip_fp and --skip_osa"
    return None if tf115_found else "TensorFlow is not installed"


def _utility(
    settings: MatchSettings,
    stays: data_sets.DataSet,
    train: np.ndarray,
    test: np.ndarray,
    generated: np.ndarray,
    generated_mask: np.ndarray | None,
    features: list[int],
) -> dict[str, Any]:
    from scoring.utility.challenge import check_utility

    return check_utility(
        preprocess_imputed(stays.data[train], stays.padding_mask[train]),
        preprocess_imputed(generated, generated_mask),
        preprocess_imputed(stays.data[test], stays.padding_mask[test]),
        features=features,
        names=stays.feature_names,
        seed=settings.seed,
        feature_prediction=not settings.skip_fp,
        one_step_ahead=not settings.skip_osa,
        auroc_threshold=settings.hider_eval_threshold,
        rmse_threshold=RMSE_THRESHOLD,
        verbose=settings.eval_verbose,
    )


def _write_hider_output(
    folder: Path, generated: np.ndarray, mask: np.ndarray | None, origin: str, utility: dict[str, Any] | None
) -> None:
    folder.mkdir()
    padding_mask = np.zeros(0, bool) if mask is None else mask
    np.savez(folder / "data.npz", generated_data=generated, padding_mask=padding_mask, made_from=np.array(origin))
    if utility and utility["feature_prediction"] is not None:
        lines = [f"{row['generated']!r}\n" for row in utility["feature_prediction"]]
        (folder / "feature_prediction_scores.txt").write_text("".join(lines))
    if utility and utility["one_step_ahead"] is not None:
        (folder / "osa_score.txt").write_text(f"{utility['one_step_ahead']['generated']!r}\n")


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """Yield a private folder in `output`; what is in it takes its place in `output` only if the block ends well."""
    output.mkdir(parents=True, exist_ok=True)
    for left in output.glob(".match-*"):
        with contextlib.suppress(ValueError, ProcessLookupError, PermissionError):
            os.kill(int(left.name.removeprefix(".match-")), 0)
            continue  # another match is running here
        shutil.rmtree(left, ignore_errors=True)
    folder = output / f".match-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
        replaced = folder / "replaced"
        replaced.mkdir()
        for new in sorted(folder.iterdir()):
            if new != replaced:
                old = output / new.name
                if old.exists():
                    old.rename(replaced / new.name)
                new.rename(old)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Clock:
    """Seconds per stage, told to the user as each ends."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._stages[name] = round(time.perf_counter() - began, 3)
        print(f"{name}: {self._stages[name]:.1f} s", flush=True)

    def seconds(self) -> dict[str, float]:
        return {**self._stages, "total": round(time.perf_counter() - self._began, 3)}


def data_facts(stays: data_sets.DataSet, train: np.ndarray) -> dict[str, Any]:
    """Return the `data` part of report.json; `train` holds the members' indices."""
    padded = int(stays.padding_mask.sum())
    cells = stays.data.size
    return {
        "name": stays.name,
        "sha256": stays.sha256,
        "stays": len(stays.data),
        "time_points": stays.data.shape[1],
        "feature_names": stays.feature_names,
        "members": len(train),
        "non_members": len(stays.data) - len(train),
        "missing_share": int(np.isnan(stays.data).sum()) / (cells - padded),
        "padded_share": padded / cells,
    }


def _settings_facts(settings: MatchSettings, features: list[int]) -> dict[str, Any]:
    private = (
        "home",
        "data_path",
        "output_dir",
        "generated",
        "hider",
        "seeker",
        "hider_parameters",
        "seeker_parameters",
    )
    facts = {name: value for name, value in asdict(settings).items() if name not in private}
    return {**facts, "features": features}


def versions() -> dict[str, str | None]:
    """Return the versions of what the numbers depend on; None for what is not installed."""
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "polars")}
    found = [name for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu") if _installed(name)]
    tensorflow = importlib.metadata.version(found[0]) if found else None
    return {"hide-and-seek": VERSION, "python": platform.python_version(), **packages, "tensorflow": tensorflow}


def _installed(package: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return False


def plain_json(value: Any) -> Any:
    """Make `value` plain JSON: no NumPy types, and NaN or infinity as null."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
