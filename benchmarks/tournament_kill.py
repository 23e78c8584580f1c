"""Play a tournament of every method here undisturbed and killed at random moments, and compare the leaderboards.

    python benchmarks/tournament_kill.py DATA.csv -o FOLDER [--stays 600] [--kills 5] [--seed 0] [--sandbox process]

The slow methods run with fewer iterations, or this would take a day.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHORTENED = {
    "timegan": "embedding_iterations=20,supervised_iterations=20,joint_iterations=10",
    "adversarial": "iterations=100,steps=10",
    "genetic": "clusters=50,utility_models=2,generations=2",
}


def first_stays(data: Path, count: int, output: Path) -> None:
    """Write the rows of the first `count` stays, in the file's order, to another CSV."""
    seen: set[str] = set()
    with data.open() as source, output.open("w") as kept:
        header = next(source)
        column = header.rstrip("\n").split(",").index("admissionid")
        kept.write(header)
        for line in source:
            seen.add(line.split(",", column + 1)[column])
            if len(seen) > count:
                break
            kept.write(line)


def methods() -> list[str]:
    """Name every method here, the slow ones with a setting that shortens them."""
    sources = sorted(ROOT.glob("hider_*.py")) + sorted(ROOT.glob("seeker_*.py"))
    names = (source.stem.partition("_")[2] for source in sources)
    return [f"{name}:{SHORTENED[name]}" if name in SHORTENED else name for name in dict.fromkeys(names)]


def main() -> int:
    """Run both and compare. Exit code 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="longitudinal CSV")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--stays", type=int, default=600)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--sandbox", choices=("docker", "process"), default="process")
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    first_stays(options.data, options.stays, options.output / "stays.csv")
    command = [sys.executable, str(ROOT / "tournament.py"), *methods()]
    command += ["-d", str(options.output / "stays.csv"), "--sandbox", options.sandbox, "--skip_osa", "-f", "1"]
    command += ["--utility_seeds", "1", "--play_all", "--workers", "2", "--key", str(options.output / "key")]

    began = time.perf_counter()
    subprocess.run([*command, "-o", str(options.output / "calm")], check=True)
    seconds = time.perf_counter() - began
    moments = np.random.default_rng(options.seed).uniform(0.05, 0.5, options.kills) * seconds
    for moment in moments:
        running = subprocess.Popen([*command, "-o", str(options.output / "killed")], start_new_session=True)
        try:
            running.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        results = len(list((options.output / "killed" / "store").glob("*/*.npz")))
        print(f"killed after {moment:.1f} s, {results} results are stored", flush=True)
    subprocess.run([*command, "-o", str(options.output / "killed")], check=True)
    names = ("leaderboard.json", "leaderboard.csv", "leaderboard.html")
    same = [
        (options.output / "calm" / name).read_bytes() == (options.output / "killed" / name).read_bytes()
        for name in names
    ]
    print(f"undisturbed: {seconds:.0f} s; same leaderboard: {dict(zip(names, same, strict=True))}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
