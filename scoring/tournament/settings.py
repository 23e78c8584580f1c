"""What the organiser of a tournament asked for, and what each worker is told of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scoring import match
from scoring.data.datasets import DataSet
from scoring.sandbox import Limits
from scoring.store import Store
from scoring.submissions.submission import HOME
from utils.errors import UserError

# The seeds and the thresholds are those of the 2020 competition.
DATA_SEED = 12345
UTILITY_SEEDS = (12345, 42, 1, 123, 777)
TESTED_FEATURES = 10


@dataclass(frozen=True)
class Settings:
    """What the organiser asked for. The fields are the options of the command line."""

    data_path: Path
    output_dir: Path
    outcomes: Path | None = None
    max_seq_len: int = 100
    train_frac: float = 0.5
    hider_eval_threshold: float = 0.85
    feature_prediction_no: int | None = None  # 10, or all if there are fewer
    seed: int = DATA_SEED
    utility_seeds: int = len(UTILITY_SEEDS)
    debug_data: int = 0
    skip_fp: bool = False
    skip_osa: bool = False
    play_all: bool = False
    sandbox: Literal["docker", "process"] | None = None
    python: str | None = None
    images: tuple[str, ...] = ()
    retry: bool = False
    key: Path | None = None  # by default `key` in the tournament's folder
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 1 <= self.utility_seeds <= len(UTILITY_SEEDS):
            raise UserError(f"--utility_seeds must be 1 to {len(UTILITY_SEEDS)}, not {self.utility_seeds}")
        # A match has the other settings too, and checks them.
        match.MatchSettings(
            home=HOME,
            data_path=self.data_path,
            output_dir=self.output_dir,
            max_seq_len=self.max_seq_len,
            train_frac=self.train_frac,
            hider_eval_threshold=self.hider_eval_threshold,
            feature_prediction_no=TESTED_FEATURES if self.feature_prediction_no is None else self.feature_prediction_no,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Context:
    """What every unit of work is given. It is small, and the same on every machine.

    Attributes
    ----------
    output : Path
        The tournament's folder, which all workers share: `store/`, `submissions/`, `matches/`.
    data : str
        Key of the data in the store.
    key : Path
        The file of the organiser's key, from which every hider's split is drawn.
    features : tuple of int
        The features that utility models predict.
    utility_seeds : tuple of int
        Seeds of the utility models. Empty means that utility is not checked.
    sandbox : str
        "docker" or "process".
    images : tuple of str
        Docker images that submissions may ask for, beside the default one.
    """

    output: Path
    data: str
    key: Path
    seed: int
    train_frac: float
    features: tuple[int, ...]
    utility_seeds: tuple[int, ...]
    skip_osa: bool
    auroc_threshold: float
    rmse_threshold: float
    sandbox: Literal["docker", "process"]
    python: str | None
    images: tuple[str, ...]
    limits: Limits
    retry: bool

    @property
    def store(self) -> Store:
        """Where finished work is kept."""
        return Store(self.output / "store")

    def facts_of_a_match(self) -> dict[str, Any]:
        """Return the `settings` part of a match's report.json."""
        return {
            "seed": self.seed,
            "train_frac": self.train_frac,
            "utility_seeds": list(self.utility_seeds),
            "features": list(self.features),
            "sandbox": self.sandbox,
        }

    def facts(self, data_set: DataSet, members: int) -> dict[str, Any]:
        """Return the `settings` part of leaderboard.json. `members` is the number of members in each split."""
        stays = len(data_set.data)
        return {
            "data": data_set.name,
            "sha256": self.data,
            "stays": stays,
            "members": members,
            "chance": max(members, stays - members) / stays,
            "seed": self.seed,
            "train_frac": self.train_frac,
            "features": list(self.features),
            "utility_seeds": list(self.utility_seeds),
            "auroc_threshold": self.auroc_threshold,
            "rmse_threshold": self.rmse_threshold,
            "sandbox": self.sandbox,
        }
