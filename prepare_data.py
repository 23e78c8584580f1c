"""Make the longitudinal CSV that a match is played on: `admissionid,time,f1,...`, one row per time point.

python prepare_data.py physionet2012 set-a.tar.gz -o data/train_longitudinal_data.csv
python prepare_data.py simulate --stays 300 --features 70 --seed 0 -o data/simulated.csv
"""

import argparse
import sys
from pathlib import Path

from scoring import cli


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make the longitudinal CSV that a match is played on.")
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")

    physionet = sources.add_parser("physionet2012", help="read PhysioNet 2012 as it is downloaded (see data/README.md)")
    physionet.add_argument("paths", type=Path, nargs="+", metavar="ARCHIVE_OR_FOLDER",
        help="one or several of set-a, set-b, set-c: .tar.gz, .zip or folder")  # fmt: skip

    simulate = sources.add_parser("simulate", help="simulate ICU stays",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    simulate.add_argument("--stays", type=int, required=True, metavar="N", help="number of stays, at least 2")
    simulate.add_argument("--features", type=int, default=70, metavar="N", help="number of features besides time")
    simulate.add_argument("--seed", type=int, default=0, metavar="INT", help="the same seed gives the same file")

    for source in (physionet, simulate):
        source.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="the file to write")
        source.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main() -> int:
    """Parse the command line, write the CSV and say what is in it."""
    arguments = _parser().parse_args()
    cli.quiet_libraries()

    def command() -> None:
        from scoring.data import longitudinal, physionet, simulate

        if arguments.source == "physionet2012":
            tables = physionet.tables(arguments.paths)
        else:
            tables = simulate.tables(arguments.stays, arguments.features, arguments.seed)
        print(longitudinal.write_csv(tables, arguments.output))

    return cli.run(command, debug=arguments.debug)


if __name__ == "__main__":
    sys.exit(main())
