"""The published table on open data: every hider against every seeker, utility beside it.

    python benchmarks/table1.py DATA [--seeds 1 2 3] [-o FOLDER] [--write whole]
    python benchmarks/table1.py DATA --half 2 -o FOLDER2      half of the stays: those our defaults were not chosen on

DATA is PhysioNet 2012 set-a as downloaded, or a longitudinal CSV. Each seed is a tournament (another split into members
and non-members) in FOLDER, so what is finished is not done again. `--setting timegan:joint_iterations=3000` gives a
hider other parameters. `--slow_seeds 1` plays TimeGAN, genetic and the published adversarial with seed 1 alone.
Prints Markdown. `--write NAME` also puts it into docs/table1.md between that name's marks, and draws table1-NAME.svg.

The seekers are those of this repository, matching also by stays and by time points whatever the lengths.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT))

from scoring.statistics import wilson_interval  # noqa: E402
from scoring.utility.challenge import geometric_mean, rmse_rows  # noqa: E402
from utils.files import atomic_path, write_text  # noqa: E402

# Name in the table, module, setting. In the published table's order, then those that are not in it.
HIDERS = (
    ("addnoise", "hider_addnoise", ""),
    ("timegan", "hider_timegan", ""),
    ("genetic", "hider_genetic", ""),
    ("adversarial-published", "hider_adversarial", "published"),
    ("crowd", "hider_crowd", ""),
    ("binning", "hider_binning", ""),
    ("shuffle", "hider_shuffle", ""),
)
SLOW = ("timegan", "genetic", "adversarial-published")
SEEKER_SETTINGS = {
    "matching-stays": ("seeker_matching", "compare=stays"),
    "matching-time-points": ("seeker_matching", "compare=time_points"),
}
PUBLISHED = {  # AmsterdamUMCdb, 10 features, worst of nine seekers: feature prediction, one-step-ahead, max Re-ID
    "addnoise": ("8/10", "pass", 0.5734),
    "timegan": ("6/10", "pass", 0.5047),
    "genetic": ("8/10", "pass", 0.6315),
    "adversarial-published": ("10/10", "pass", 0.5037),
}
_WITH_SETTING = """

from utils.parameters import parse_parameters as _parse
import sys as _sys

_method, _chosen = {role}, _parse(_sys.modules[__name__], {setting!r})


def {role}(input_dict):
    return _method(input_dict, _chosen)
"""


def write_submissions(folder: Path, settings: dict[str, str], only: Sequence[str]) -> None:
    """Write every method as one file, with its setting where it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    methods = [(name, module, settings.get(name, setting)) for name, module, setting in HIDERS]
    methods = [method for method in methods if method[0] in only]
    for source in sorted(ROOT.glob("seeker_*.py")):
        (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    methods += [(name, *method) for name, method in SEEKER_SETTINGS.items()]
    for name, module, setting in methods:
        role = module.partition("_")[0]
        text = (ROOT / f"{module}.py").read_text(encoding="utf-8")
        text += _WITH_SETTING.format(role=role, setting=setting) if setting else ""
        (folder / f"{role}_{name.replace('-', '_')}.py").write_text(text, encoding="utf-8")


def half_of(data: Path, half: int, output: Path) -> Path:
    """Write the stays of one half, drawn at random, as a CSV. Half 1 is the one our defaults were chosen on."""
    import polars

    from scoring.data import physionet

    frame = physionet.read([data]) if physionet.is_physionet(data) else polars.read_csv(data)
    stays = frame["admissionid"].unique(maintain_order=True)
    drawn = np.random.default_rng(99).permutation(len(stays))
    kept = stays[np.sort(np.array_split(drawn, 2)[half - 1])]
    frame.filter(polars.col("admissionid").is_in(kept.implode())).write_csv(output)
    return output


@dataclass(frozen=True)
class Row:
    """One hider over all seeds."""

    name: str
    features: list[str]
    one_step_ahead: list[bool]
    ratio: float
    learned: list[float]  # ratios of those predictors that on original data beat a constant guess, of all seeds
    tested: int  # predictors, of all seeds
    scores: dict[str, list[float]]  # by seeker, one a seed
    stays: int
    seconds: float

    def mean(self, seeker: str) -> tuple[float, float, float]:
        """Mean score over the seeds. The interval is one match's: seeds share the stays."""
        mean = float(np.mean(self.scores[seeker]))
        return mean, *wilson_interval(round(mean * self.stays), self.stays)

    @property
    def worst(self) -> str:
        """The seeker with the highest mean."""
        return max(self.scores, key=lambda seeker: np.mean(self.scores[seeker]))


def read(folders: Sequence[Path]) -> tuple[list[Row], dict[str, str]]:
    """Gather the tournaments' results. Those hiders that failed in any stand apart, with the reason."""
    boards = [json.loads((folder / "leaderboard.json").read_text()) for folder in folders]
    rows, failed = [], {}
    for name in [hider[0] for hider in HIDERS]:
        file_name = name.replace("-", "_")
        entries = [h for board in boards for h in board["hiders"] if h["name"] == file_name]
        reasons = [entry["status"] for entry in entries if entry["status"] != "ok"]
        if reasons:
            failed[name] = reasons[0]
        if reasons or not entries:
            continue
        scores: dict[str, list[float]] = {}
        seconds: list[float] = []
        learned: list[float] = []
        tested = 0
        for folder, board in zip(folders, boards, strict=True):
            cells = next((line["cells"] for line in board["matrix"] if line["hider"] == file_name), None)
            if cells is None:  # slow, and not played with this seed
                continue
            for cell in cells:
                scores.setdefault(cell["seeker"], []).append(cell["score"])
            report = json.loads((folder / f"matches/{file_name}-{cells[0]['seeker']}/report.json").read_text())
            seconds.append(report["seconds"]["hider"])
            checks = rmse_rows(report["utility"])
            learned += [check["ratio"] for check in checks if check["better_than_constant"]]
            tested += len(checks)
        rows.append(
            Row(
                name,
                [f"{entry['features_passed']}/{entry['features_tested']}" for entry in entries],
                [entry["one_step_ahead"] == "passes" for entry in entries],
                geometric_mean(entry["utility_ratio"] for entry in entries) or float("nan"),
                learned,
                tested,
                scores,
                boards[0]["settings"]["stays"],
                float(np.mean(seconds)),
            )
        )
    return rows, failed


def markdown(rows: Sequence[Row]) -> str:
    """Write the two tables: utility and the worst seeker. Then each seeker."""

    def interval(row: Row, seeker: str) -> str:
        mean, low, high = row.mean(seeker)
        return f"{mean:.3f} ({low:.3f} to {high:.3f})"

    lines = [
        "| hider | seeds | feature prediction | one-step-ahead | utility ratio | of predictors that learned "
        "| worst Re-ID (95 % interval) | by | in any match | hider's time | published: features, Re-ID |",
        "|---|---:|---|---|---:|---:|---|---|---:|---:|---|",
    ]
    for row in rows:
        published = PUBLISHED.get(row.name)
        told = f"{published[0]}, {published[2]:.4f}" if published else "-"
        highest = max(max(scores) for scores in row.scores.values())
        passed = sum(row.one_step_ahead)
        ahead = "pass" if passed == len(row.one_step_ahead) else f"{passed} of {len(row.one_step_ahead)} pass"
        learned = geometric_mean(row.learned) or float("nan")
        lines.append(
            f"| {row.name} | {len(row.features)} | {', '.join(row.features)} | {ahead} | {row.ratio:.2f} "
            f"| {learned:.2f} ({len(row.learned)} of {row.tested}) | {interval(row, row.worst)} "
            f"| {row.worst} | {highest:.3f} | {row.seconds:,.0f} s | {told} |"
        )
    seekers = sorted(rows[0].scores)
    lines += ["", "| Re-ID by | " + " | ".join(row.name for row in rows) + " |", "|---" * (len(rows) + 1) + "|"]
    lines += [f"| {seeker} | " + " | ".join(interval(row, seeker) for row in rows) + " |" for seeker in seekers]
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Plot the worst re-identification score against the utility ratio."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0.5, color="#888888", linewidth=1, linestyle="--")
    axes.annotate("chance", (0.99, 0.5), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#666666")
    for row in rows:
        mean, low, high = row.mean(row.worst)
        beside = min((other for other in rows if other is not row), key=lambda o: abs(o.ratio - row.ratio), default=row)
        axes.errorbar(row.ratio, mean, yerr=[[mean - low], [high - mean]], fmt="o", color="#2c6fbb", capsize=3)
        place = (6, 6 if mean >= beside.mean(beside.worst)[0] else -14)  # two side by side: one above, one below
        axes.annotate(row.name, (row.ratio, mean), xytext=place, textcoords="offset points", fontsize=9)
    axes.margins(x=0.15)
    axes.axvline(1.0, color="#888888", linewidth=1, linestyle=":")
    axes.set(xlabel="utility ratio: RMSE of predictors, generated / original (1: no worse)")
    axes.set(ylabel="worst re-identification score", ylim=(0.45, 1.05))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="svg")


def insert(page: Path, name: str, text: str) -> None:
    """Replace what stands between a name's marks."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    write_text(page, before + begin + text + "\n" + end + rest.split(end)[1])


def main() -> int:
    """Play the tournaments and print the table. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("table1"), help="folder of the tournaments")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--slow_seeds", type=int, nargs="+", help="those of --seeds with which the slow hiders play")
    parser.add_argument("--half", type=int, choices=(1, 2))
    parser.add_argument("--hiders", nargs="+", default=[], choices=[name for name, *_ in HIDERS])
    parser.add_argument("--setting", nargs="+", default=[], metavar="HIDER:NAME=VALUE,...", help="in place of its own")
    parser.add_argument("--write", metavar="NAME", help="whose marks in docs/table1.md the table goes between")
    options = parser.parse_args()
    settings = {name: text for name, _, text in (given.partition(":") for given in options.setting)}
    unknown = set(settings) - {name for name, *_ in HIDERS}
    if unknown:
        parser.error(
            f"--setting: no hider {', '.join(sorted(unknown))}; expected one of {', '.join(n for n, *_ in HIDERS)}"
        )

    data = options.data
    options.output.mkdir(parents=True, exist_ok=True)
    if options.half:
        data = half_of(data, options.half, options.output / f"half{options.half}.csv")
    every = options.hiders or [name for name, *_ in HIDERS]
    folders = []
    for seed in options.seeds:
        played = [name for name in every if name not in SLOW or seed in (options.slow_seeds or options.seeds)]
        write_submissions(options.output / "methods", settings, played)
        folders.append(options.output / f"seed{seed}")
        command = [sys.executable, str(ROOT / "tournament.py"), str(options.output / "methods"), "-d", str(data)]
        command += ["--seed", str(seed), "--utility_seeds", "1", "-f", "10", "--play_all", "--sandbox", "process"]
        code = subprocess.run([*command, "-o", str(folders[-1])], check=False).returncode
        if code:
            return code
    rows, failed = read(folders)
    if not rows:
        print("error: no hider ended well with every seed; see the tournaments' leaderboards", file=sys.stderr)
        return 2
    told = [f"{rows[0].stays:,} stays", f"seeds {' '.join(map(str, options.seeds))}"]
    told += [f"{name} with {text}" for name, text in settings.items() if name in {row.name for row in rows}]
    lines = [
        "; ".join(told),
        "",
        markdown(rows),
        *(f"\nNot in the table: {name}: {why}" for name, why in failed.items()),
    ]
    print("\n" + "\n".join(lines))
    if options.write:
        draw(rows, DOCS / f"table1-{options.write}.svg")
        insert(DOCS / "table1.md", options.write, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
