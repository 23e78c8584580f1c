"""Play one match: a hider turns private stays into data for release, a seeker tries to tell whose they were.

    python main.py                                    hider.py against seeker.py, as in 2020
    python main.py -d DATA --hider addnoise --seeker knn

Writes output/report.html (read this), output/report.json, and the 2020 outputs. docs/challenge.md has the rules.
"""

import argparse
import re
import sys
from pathlib import Path

from scoring import cli

HOME = Path(__file__).resolve().parent


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        description="Play one hider against one seeker or all of them, check the generated data's utility, and report.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    cli.add_round_options(parser)
    add = parser.add_argument
    add("-o", "--output_dir", type=Path, default=Path("./output"), metavar="PATH", help="where the report goes")
    add(
        "-f",
        "--feature_prediction_no",
        type=cli.whole(1, 10**6),
        default=5,
        metavar="INT",
        help="number of features tested",
    )
    add("--features", type=cli.names, metavar="I,J,...", help="test these features, by number (0: time) or name")
    add(
        "-s",
        "--seed",
        type=cli.whole(0, 2**32 - 1),
        default=0,
        metavar="INT",
        help="seed of the players, the models and the split of 2020: public, so no secret from who knows the data",
    )
    add("--eval_verbose", action="store_true", help="print how each predictor's training went")
    add("--hider", metavar="WHO", help="a name (addnoise), a .py file, a folder or a submission zip")
    add("--seeker", metavar="WHO", help="likewise (knn, ...); all plays every seeker here and leads with the worst")
    add("--slow", action="store_true", help="let --seeker all play the slow seekers too")
    add("--without", type=cli.names, default=(), metavar="NAME,...", help="seekers that --seeker all leaves out")
    add("--hider_parameters", metavar="K=V,...",
        help="parameters for the hider, or a named setting where it has one (published)")  # fmt: skip
    add("--seeker_parameters", metavar="K=V,...", help="parameters for the seeker")
    add("--generated", type=Path, metavar="NPZ",
        help="score this generated_data instead of running a hider; made from the same split and seed")  # fmt: skip
    add("--release", choices=("csv", "parquet"),
        help="write the release as a table too (output/hider/release.*), in the data's columns and units")  # fmt: skip
    return parser


def main() -> int:
    """Parse the command line, play, and say where the report is."""
    arguments = vars(_parser().parse_args())
    debug = arguments.pop("debug")
    cli.quiet_libraries()

    def command() -> None:
        from scoring.match import MatchSettings, play_match

        settings = MatchSettings(home=HOME, **arguments)
        result = play_match(settings)
        clauses = re.sub(r"; (?![^(]*\))", ";\n  ", result["verdict"])  # but not within brackets
        print(f"\n{clauses}\n\nreport: {settings.output_dir / 'report.html'}")

    return cli.run(command, debug=debug)


if __name__ == "__main__":
    sys.exit(main())
