"""What each seeker finds where the truth is known: planted leaks of growing dose, and releases that leak nothing.

    python benchmarks/known_answers.py DATA [--members 200] [--runs 20] [--nulls 200] [--seekers moments density ...]

DATA is PhysioNet 2012 set-a as downloaded, or a longitudinal CSV. In each run, stays are drawn at random: members, as
many others, and as many strangers. The release is made of the strangers (`null_release`), so it leaks nothing until a
leak is planted (scoring/audit/known_answers.py). A leak is found if the report would call it one: `worst_of` of the
seeker's scores and labels (scoring/attacks.py) has a p-value of at most 0.05. Prints Markdown.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scoring.attacks import worst_of  # noqa: E402
from scoring.audit import known_answers  # noqa: E402
from scoring.audit.known_answers import Data, Mask  # noqa: E402
from scoring.data import datasets  # noqa: E402
from scoring.statistics import tpr_at_fpr, wilson_interval  # noqa: E402
from utils.progress import progress_bar, without_bars  # noqa: E402

SEEKERS = ("knn", "matching", "moments", "density")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
NUMBERS = (10, 30, 100, 300)  # means kept exactly


class Round(NamedTuple):
    """One drawing of stays: the enlarged data, who is a member, and a release of strangers."""

    enlarged: Data
    mask: Mask
    member: np.ndarray
    release: Data
    release_mask: Mask
    rng: np.random.Generator

    @property
    def members(self) -> tuple[Data, Mask]:
        """The members' stays and their padding."""
        return self.enlarged[self.member], self.mask[self.member]


def draw(data: Data, mask: Mask, members: int, seed: int) -> Round:
    """Draw members, as many others and as many strangers, and make the strangers' release."""
    rng = np.random.default_rng(seed)
    stays = rng.choice(len(data), 3 * members, replace=False)
    enlarged, strangers = stays[: 2 * members], stays[2 * members :]
    release = known_answers.null_release(data[strangers], mask[strangers], members, rng, noise=0.1)
    return Round(data[enlarged], mask[enlarged], rng.permutation(2 * members) < members, *release, rng)


Planted = tuple[Data, Mask, np.ndarray]  # the release, its padding, and which members stand in it


def leaks() -> dict[str, Callable[[Round], Planted]]:
    """Return every planted leak by its name, smallest dose first."""

    def copies(share: float, noise: float) -> Callable[[Round], Planted]:
        return lambda game: known_answers.plant_copies(
            game.release, game.release_mask, *game.members, share, game.rng, noise
        )

    def means(numbers: int) -> Callable[[Round], Planted]:
        def plant(game: Round) -> Planted:
            release, mask, _ = known_answers.plant_means(game.release, game.release_mask, *game.members, numbers)
            return release, mask, np.empty(0, dtype=int)

        return plant

    def overfitted(game: Round) -> Planted:
        made = known_answers.smoothed_release(*game.members, len(game.release), game.rng, noise=0.3)
        return *made, np.empty(0, dtype=int)

    planted = {f"verbatim copies, {share:.0%}": copies(share, 0.0) for share in SHARES}
    planted |= {f"copies with noise 0.3, {share:.0%}": copies(share, 0.3) for share in SHARES}
    planted |= {f"{numbers} exact means": means(numbers) for numbers in NUMBERS}
    return planted | {"overfitted generator": overfitted}


def play(seeker: Callable[..., Any], game: Round, release: Data, release_mask: Mask) -> tuple[np.ndarray, np.ndarray]:
    """Return a seeker's labels and scores."""
    given = {
        "generated_data": release,
        "generated_data_padding_mask": release_mask,
        "enlarged_data": game.enlarged,
        "enlarged_data_padding_mask": game.mask,
        "seed": 0,
    }
    with without_bars():
        labels, scores = seeker(given)
    return np.ravel(labels), np.ravel(scores)


def judge(game: Round, played: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, dict[str, Any]]:
    """Say for each seeker alone, and for all of them together, whether the report would call a leak."""

    def verdict(names: Sequence[str]) -> dict[str, Any]:
        return worst_of(
            game.member,
            {name: played[name][1] for name in names},
            {name: played[name][0] for name in names},
            permutations=999,
        )

    return {name: verdict([name]) for name in played} | {"all": verdict(list(played))}


def main() -> int:
    """Play and print. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20, help="of each planted leak")
    parser.add_argument("--nulls", type=int, default=200, help="null releases")
    parser.add_argument("--seekers", nargs="+", default=list(SEEKERS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    loaded = datasets.load(options.data, 100)
    data, mask = loaded.data, loaded.padding_mask
    seekers = {name: importlib.import_module(f"seeker_{name}").seeker for name in options.seekers}

    lines = [
        f"{options.members} members of {2 * options.members} stays, {options.runs} runs, {options.nulls} null releases",
        "",
        "| release | " + " | ".join([*seekers, "all together"]) + " |",
        "|---|" + "---:|" * (len(seekers) + 1),
    ]
    print("\n".join(lines), flush=True)
    plans = {"null": (None, options.nulls)} | {name: (plant, options.runs) for name, plant in leaks().items()}
    with progress_bar(sum(runs for _, runs in plans.values()), "playing known answers", "release") as bar:
        for kind, (plant, runs) in plans.items():
            called: dict[str, list[bool]] = {name: [] for name in [*seekers, "all"]}
            named: dict[str, list[float]] = {name: [] for name in seekers}
            for run in range(runs):
                game = draw(data, mask, options.members, options.seed + run)
                release, release_mask, copied = (
                    plant(game) if plant else (game.release, game.release_mask, np.empty(0, dtype=int))
                )
                played = {name: play(seeker, game, release, release_mask) for name, seeker in seekers.items()}
                for name, verdict in judge(game, played).items():
                    called[name].append(verdict["leak"])
                if copied.size:
                    kept = ~game.member
                    kept[np.flatnonzero(game.member)[copied]] = True
                    for name, (_, scores) in played.items():
                        named[name].append(tpr_at_fpr(game.member[kept], scores[kept])[0])
                bar.update(1)
            print(*row(kind, called, named), sep="\n", flush=True)
    return 0


def row(kind: str, called: dict[str, list[bool]], named: dict[str, list[float]]) -> list[str]:
    """Write how often a leak was called, with its 95 % interval for null releases, and how many copies were named."""
    if not called["all"]:
        return []
    cells = []
    for name, calls in called.items():
        cell = f"{np.mean(calls):.0%}"
        if kind == "null":
            low, high = wilson_interval(sum(calls), len(calls))
            cell += f" ({low:.0%} to {high:.0%})"
        elif named.get(name):
            cell += f", {np.mean(named[name]):.0%} of copies"
        cells.append(cell)
    return [f"| {kind} | " + " | ".join(cells) + " |"]


if __name__ == "__main__":
    sys.exit(main())
