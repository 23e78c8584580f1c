"""Play every hider against every seeker and rank them.

    python tournament.py addnoise binning -d DATA -o OUT             against every seeker here
    python tournament.py addnoise binning knn matching -d DATA -o OUT
    python tournament.py submissions/ -d DATA -o OUT --workers 4

Started again it goes on where it stopped. Writes OUT/leaderboard.html (read this), .json and .csv. docs/tournament.md
has the rest.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from scoring import cli


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        description="Play every hider against every seeker and rank them.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("submissions", nargs="*", metavar="WHO", help="zips, folders, .py files, folders of these, or names (addnoise)")
    add("-d", "--data_path", type=Path, default=Path("./data/train_longitudinal_data.csv"), metavar="PATH",
        help="longitudinal CSV, or a PhysioNet 2012 archive or folder")  # fmt: skip
    add("--outcomes", type=Path, default=argparse.SUPPRESS, metavar="FILE",
        help="a table admissionid,label: one number a stay, carried as a feature that does not change")  # fmt: skip
    add("-o", "--output_dir", type=Path, default=Path("./tournament"), metavar="PATH", help="the tournament's folder")
    add(
        "-m",
        "--max_seq_len",
        type=cli.whole(1, 100_000),
        default=100,
        metavar="INT",
        help="time points kept of each stay",
    )
    add(
        "-t",
        "--train_frac",
        type=cli.number(0, 1),
        default=0.5,
        metavar="FLOAT",
        help="share of the stays the hiders are given",
    )
    add("-e", "--hider_eval_threshold", type=cli.number(0, 1e6), default=0.85, metavar="FLOAT",
        help="AUROC on generated data must be at least this multiple of that on original data")  # fmt: skip
    add("-f", "--feature_prediction_no", type=cli.whole(1, 10**6), default=argparse.SUPPRESS, metavar="INT",
        help="number of features tested (default: 10, or all where there are fewer)")  # fmt: skip
    add(
        "-s",
        "--seed",
        type=cli.whole(0, 2**32 - 1),
        default=12345,
        metavar="INT",
        help="seed of which features are tested; the splits come from --key",
    )
    add(
        "--utility_seeds",
        type=cli.whole(1, 5),
        default=5,
        metavar="INT",
        help="seeds the utility models are averaged over, 1 to 5",
    )
    add(
        "-g",
        "--debug_data",
        type=cli.whole(0, 2**31),
        default=0,
        metavar="INT",
        help="read only the first INT rows; 0 reads all",
    )
    add("--skip_fp", action="store_true", help="skip the feature prediction check")
    add("--skip_osa", action="store_true", help="skip the one-step-ahead check")
    add("--play_all", action="store_true", help="let hiders that fail the utility check play too")
    add("--sandbox", choices=("docker", "process"), default=argparse.SUPPRESS,
        help="where strangers' code runs (default: docker where an engine answers, else process)")  # fmt: skip
    add("--images", type=cli.names, default=argparse.SUPPRESS, metavar="A,B,...",
        help="Docker images that submissions may ask for, beside the default one; none is ever pulled")  # fmt: skip
    add("--key", type=Path, default=argparse.SUPPRESS, metavar="PATH",
        help="the organiser's key, of which each hider's split is drawn (default: the file key in -o)")  # fmt: skip
    add("--python", default=argparse.SUPPRESS, metavar="PATH", help="interpreter of the process sandbox")
    add("--seconds", type=cli.number(0.001, 3e8), default=86400, metavar="FLOAT", help="time limit of one run")
    add("--memory", type=cli.number(2**-6, 2**20), default=16, metavar="GIB", help="memory limit of one run")
    add(
        "--cpus",
        type=cli.number(0.01, 4096),
        default=argparse.SUPPRESS,
        metavar="FLOAT",
        help="cores of one run (default: all)",
    )
    add("--gpus", action="store_true", help="let submissions use the GPUs")
    add("--retry", action="store_true", help="run again what failed")
    add(
        "--workers",
        type=cli.whole(1, 1024),
        default=1,
        metavar="INT",
        help="pieces worked on at a time on this machine",
    )
    add("--scheduler", default=argparse.SUPPRESS, metavar="tcp://...", help="work on a Dask cluster instead")
    add("--codabench", type=Path, default=argparse.SUPPRESS, metavar="OUT",
        help="instead of playing, write a Codabench competition; WHO are its reference hiders and seekers")  # fmt: skip
    add("--queue", default=argparse.SUPPRESS, metavar="VHOST",
        help="your own queue at Codabench, whose workers have no network; --codabench needs it")  # fmt: skip
    add("--image", default=argparse.SUPPRESS, help="the Docker image Codabench is to use")
    add("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main() -> int:
    """Parse the command line, play, and say where the leaderboard is."""
    arguments: dict[str, Any] = vars(_parser().parse_args())
    debug = arguments.pop("debug")
    cli.quiet_libraries()

    def command() -> None:
        from scoring.tournament.run import run

        run(**arguments)

    return cli.run(command, debug=debug)


if __name__ == "__main__":
    sys.exit(main())
