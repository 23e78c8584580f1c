"""One match: load, hide, check utility, seek, score, report."""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scoring.attacks import ALL, Lineup, failures, find_worst, line_up, seek_with_all, with_code
from scoring.contract import check_generated
from scoring.data import datasets as data_sets
from scoring.data.datasets import DataSet
from scoring.data.release import read_description
from scoring.outputs import MEMBERS, PlayedMatch
from scoring.report.comparison import compare
from scoring.report.result import match_result
from scoring.round import Round, divide_as_2020
from scoring.submissions.players import Player, check_player, find_player, play
from scoring.utility.of_round import kept_facts
from utils.errors import UserError
from utils.misc import tf115_found
from utils.solutions import UNREADABLE_NPZ, load_release

RMSE_THRESHOLD = 5.0  # the contract's: generated RMSE at most this multiple of the original's


@dataclass(frozen=True)
class MatchSettings:
    """What the user asked for. The fields are the options of the command line.

    Attributes
    ----------
    home : Path
        The folder of `main.py`, where named hiders and seekers are.
    """

    home: Path
    data_path: Path
    output_dir: Path
    outcomes: Path | None = None
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
    without: tuple[str, ...] = ()
    slow: bool = False
    release: str | None = None

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
            raise UserError("--generated takes the place of a hider: leave out --hider and --hider_parameters")
        if self.every_seeker and self.seeker_parameters:
            raise UserError("--seeker_parameters goes with one seeker; name it with --seeker")
        for name in ("without", "slow"):
            if getattr(self, name) and not self.every_seeker:
                raise UserError(f"--{name} goes with --seeker all")

    @property
    def every_seeker(self) -> bool:
        """Whether all seekers are played: if that is asked for, or none is named and there is no `seeker.py`."""
        return self.seeker == ALL or (self.seeker is None and not (self.home / "seeker.py").is_file())


@dataclass(frozen=True)
class Release:
    """What a hider generated, or generated data that the user brought.

    Attributes
    ----------
    generated : ndarray of float64, shape [n, T, F]
    padding_mask : ndarray of bool, shape [n, T, F], or None
    facts : dict
        The `hider` part of report.json.
    warnings : list of str
        What a reader of the results should know about where the data come from.
    """

    generated: np.ndarray
    padding_mask: np.ndarray | None
    facts: dict[str, Any]
    warnings: list[str]


def play_match(settings: MatchSettings) -> dict[str, Any]:
    """Play one hider against one seeker or all of them, and write the outputs.

    Earlier outputs stay until all new ones are there.

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
        If the settings or the data are bad, or a hider or seeker fails or returns what it must not.
    """
    if settings.output_dir.exists() and not settings.output_dir.is_dir():
        raise UserError(f"{settings.output_dir} is a file; -o names the folder of the match")
    match = run_match(settings, *find_players(settings))
    match.write(settings.output_dir, settings.release)
    if settings.release:
        folder = settings.output_dir / "hider"
        print(f"release: {folder / f'release.{settings.release}'}, made from the stays in {folder / MEMBERS}")
    return match.result


def run_match(
    settings: MatchSettings, hider: Player | None, lineup: Lineup, stays: DataSet | None = None
) -> PlayedMatch:
    """Play a match and write nothing.

    Parameters
    ----------
    settings : MatchSettings
    hider : Player or None
        None if `settings.generated` takes its place.
    lineup : Lineup
        Who attacks.
    stays : DataSet, optional
        What to play on, if it is not to be loaded from `settings.data_path`.

    Raises
    ------
    UserError
        As `play_match`.
    """
    clock = _Clock()
    with clock.stage("load"):
        played_on = _load(settings) if stays is None else stays
        round_ = _make_round(settings, played_on)
        features = _tested_features(settings, round_.feature_names)
    _say_what_is_played(round_)
    with clock.stage("hider"):
        release = _hide(settings, hider, round_)
    utility_skipped = _why_checks_are_skipped(settings)
    with clock.stage("utility"):
        utility: dict[str, Any] = {"kept": kept_facts(round_, release.generated, release.padding_mask)}
    if utility_skipped is None:
        with clock.stage("2020 checks"):
            utility |= _check_utility(settings, round_, release, features)
    arrays = compare(round_, release.generated, release.padding_mask, np.random.default_rng(settings.seed))
    with clock.stage("seeker"):
        attacks, not_played = seek_with_all(lineup, round_, release.generated, release.padding_mask)
        worst = find_worst(arrays.labels, attacks) if lineup.every else None
    strongest = worst.attack if worst else attacks[0]
    result = match_result(
        hider=release.facts,
        seeker=strongest.facts,
        data=round_.facts(),
        arrays=arrays,
        labels=strongest.labels,
        scores=strongest.scores,
        settings=_settings_facts(settings, features),
        utility=utility,
        utility_skipped=utility_skipped,
        warnings=round_.warnings + release.warnings + [f"The seeker {failed}" for failed in failures(not_played)],
        seconds=clock.seconds(),
        attacks=worst.facts(not_played) if worst else None,
    )
    return PlayedMatch(
        result=result,
        arrays=replace(arrays, scores=strongest.scores),
        generated=release.generated,
        padding_mask=release.padding_mask,
        labels=round_.in_file_order(strongest.labels),
        made_from=round_.made_from,
        description=read_description(settings.data_path) if stays is None else {},
        member_ids=None if played_on.ids is None else played_on.ids[round_.order][round_.members],
    )


def find_players(settings: MatchSettings) -> tuple[Player | None, Lineup]:
    """Find and import all players, so that a bad one is refused before anything long is run."""
    hider = None
    if settings.generated is None:
        hider = check_player(find_player("hider", settings.hider, settings.home, settings.hider_parameters))
        if settings.hider is None and hider.source.name != "hider.py":
            print(f"no hider.py here: playing {hider.name}")
    if not settings.every_seeker:
        seeker = check_player(find_player("seeker", settings.seeker, settings.home, settings.seeker_parameters))
        return hider, Lineup([with_code(seeker, hider)], [], every=False)
    lineup = line_up(settings.home, hider, settings.slow, settings.without)
    before = "" if settings.seeker else "no seeker.py here: "
    print(f"{before}playing {len(lineup.seekers)} seekers: {', '.join(seeker.name for seeker in lineup.seekers)}")
    for left in lineup.not_played:
        print(f"not played: {left['name']}: {left['reason']}")
    return hider, lineup


def _load(settings: MatchSettings) -> DataSet:
    stays = data_sets.load(settings.data_path, settings.max_seq_len, max(0, settings.debug_data), settings.outcomes)
    if settings.debug_data > 0:
        part = f"only the first {settings.debug_data:,} rows of the data were read (--debug_data)"
        stays = replace(stays, warnings=[*stays.warnings, part])
    return stays


def _make_round(settings: MatchSettings, stays: DataSet) -> Round:
    return Round.of(stays, divide_as_2020(stays, settings.seed, settings.train_frac))


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


def _say_what_is_played(round_: Round) -> None:
    for warning in round_.warnings:
        print(f"warning: {warning}")
    stays, time_points, features = round_.data.shape
    print(f"{stays} stays x {time_points} time points x {features} features")


def _hide(settings: MatchSettings, hider: Player | None, round_: Round) -> Release:
    """Run the hider on the members, or load the generated data that take its place."""
    if hider is None:
        assert settings.generated is not None
        facts = {"name": settings.generated.stem, "source": settings.generated.name, "parameters": {}}
        return _load_release(settings.generated, round_, facts)
    output, parameters = play(hider, round_.hider_input())
    facts = {"name": hider.name, "source": hider.source.name, "parameters": parameters}
    checked = check_generated(f"hider '{hider.name}'", output, round_.hider_shape)
    if checked is not None:
        return Release(checked[0], checked[1], facts, [])
    earlier = settings.output_dir / "hider" / "data.npz"
    if not earlier.is_file():
        raise UserError(f"hider '{hider.name}' asks to rescore its earlier data, but {earlier} is not there")
    return _load_release(earlier, round_, facts)


def _load_release(path: Path, round_: Round, facts: dict[str, Any]) -> Release:
    """Load generated data that were made earlier or elsewhere, and see whether they are of these stays."""
    if not path.is_file():
        raise UserError(f"generated data not found: {path}")
    try:
        generated, mask, made_from = load_release(path, 2 * math.prod(round_.hider_shape))
    except UNREADABLE_NPZ as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} is not an .npz with generated_data and padding_mask (plain arrays, no pickles): {reason}"
        ) from error
    warnings = []
    if made_from is None:
        warnings.append(
            f"{path.name} does not say which stays it was made from. Unless they are this seed's members, every figure "
            "here is meaningless and looks like chance."
        )
        print(f"warning: {warnings[-1]}")
    elif made_from != round_.made_from:
        raise UserError(
            f"{path} was made from other stays than those of this seed, split and data. A score would mean nothing. "
            "Use the settings it was made with."
        )
    checked = check_generated(path.name, (generated, mask), round_.hider_shape)
    assert checked is not None
    return Release(checked[0], checked[1], facts, warnings)


def _why_checks_are_skipped(settings: MatchSettings) -> str | None:
    skipped = None
    if settings.skip_fp and settings.skip_osa:
        skipped = "--skip_fp and --skip_osa"
    elif not tf115_found:
        skipped = "TensorFlow is not installed"
    if skipped:
        print(f"warning: 2020 checks of utility skipped: {skipped}")
    return skipped


def _check_utility(settings: MatchSettings, round_: Round, release: Release, features: list[int]) -> dict[str, Any]:
    from scoring.utility.challenge import check_utility
    from utils.data_preprocess import preprocess_imputed

    return check_utility(
        round_.imputed_members(),
        preprocess_imputed(release.generated, release.padding_mask),
        round_.imputed_others(),
        features=features,
        names=round_.feature_names,
        seed=settings.seed,
        feature_prediction=not settings.skip_fp,
        one_step_ahead=not settings.skip_osa,
        auroc_threshold=settings.hider_eval_threshold,
        rmse_threshold=RMSE_THRESHOLD,
        verbose=settings.eval_verbose,
    )


class _Clock:
    """Seconds of each stage, printed when the stage ends."""

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


def _settings_facts(settings: MatchSettings, features: list[int]) -> dict[str, Any]:
    private = (
        "home",
        "data_path",
        "outcomes",
        "output_dir",
        "generated",
        "hider",
        "seeker",
        "hider_parameters",
        "seeker_parameters",
        "without",
        "release",
    )
    facts = {name: value for name, value in asdict(settings).items() if name not in private}
    return {**facts, "features": features}
