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
    cli.add_round_options(parser)
    add = parser.add_argument
    add("submissions", nargs="*", metavar="WHO", help="zips, folders, .py files, folders of these, or names (addnoise)")
    add("-o", "--output_dir", type=Path, default=Path("./tournament"), metavar="PATH", help="the tournament's folder")
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
