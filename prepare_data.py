"""Make the longitudinal table that a match is played on: `admissionid,time,f1,...`, one row per time point.

python prepare_data.py physionet2012 set-a.tar.gz -o data/train_longitudinal_data.csv
python prepare_data.py simulate --stays 300 --features 70 --seed 0 -o data/simulated.csv
python prepare_data.py table icu.csv --id stay --time charted --patient patient -o data/icu.csv
python prepare_data.py table chartevents.csv.gz --like mimic-iv --stays icustays.csv --items d_items.csv -o data/icu.csv
python prepare_data.py release output/hider/data.npz --data data/icu.csv -o release.csv
"""

import argparse
import sys
from pathlib import Path

from scoring import cli


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _add_table(sources: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    table = sources.add_parser("table", help="read a hospital's own table, wide or long: CSV, gzip or Parquet")
    add = table.add_argument
    add("path", type=Path, metavar="TABLE", help="the table")
    add("--like", metavar="SOURCE", help="column names of a known source: mimic-iv or omop")
    add("--id", metavar="COLUMN", help="the stay's id (default admissionid)")
    add("--time", metavar="COLUMN", help="the time: a number, HH:MM or ISO (default time)")
    add("--patient", metavar="COLUMN", help="the patient's id, if a patient may have several stays")
    add("--admission", metavar="COLUMN", help="the time of admission, from which hours count")
    add("--item", metavar="COLUMN", help="of a long table: what was measured")
    add("--value", metavar="COLUMN", help="of a long table: its value")
    add("--stays", type=Path, metavar="TABLE", help="a table of stays that holds patient and time of admission")
    add("--items", type=Path, metavar="TABLE", help="a table that names the items")
    add("--item_id", metavar="COLUMN", help="the item's id in --items")
    add("--item_name", metavar="COLUMN", help="the item's name in --items (default label)")
    add("--most", type=cli.whole(1, 10**6), metavar="INT", help="keep the items that were measured in most stays")
    add("--drop", type=_names, metavar="A,B,...", help="columns or items to leave out")
    add("--category", type=_names, metavar="A,B,...", help="columns or items whose numbers are labels")
    add("--decimal", choices=("comma", "point"), help="how decimals are written, if both forms occur")
    add("--time_format", metavar="FORM", help="form of dates that are not ISO, such as '%%d.%%m.%%Y %%H:%%M'")
    return table


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(description="Make the longitudinal table that a match is played on.")
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")

    physionet = sources.add_parser("physionet2012", help="read PhysioNet 2012 as it is downloaded (see data/README.md)")
    physionet.add_argument("paths", type=Path, nargs="+", metavar="ARCHIVE_OR_FOLDER",
        help="one or several of set-a, set-b, set-c: .tar.gz, .zip or folder")  # fmt: skip

    simulate = sources.add_parser("simulate", help="simulate ICU stays",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    simulate.add_argument(
        "--stays", type=cli.whole(1, 10**7), required=True, metavar="N", help="number of stays, at least 2"
    )
    simulate.add_argument(
        "--features", type=cli.whole(1, 10**5), default=70, metavar="N", help="number of features besides time"
    )
    simulate.add_argument(
        "--seed", type=cli.whole(0, 2**63), default=0, metavar="INT", help="the same seed gives the same file"
    )

    table = _add_table(sources)

    release = sources.add_parser("release", help="write generated data as a table in the input's columns and units")
    release.add_argument("path", type=Path, metavar="NPZ", help="generated data, such as output/hider/data.npz")
    release.add_argument("--data", type=Path, required=True, metavar="TABLE", help="the table it was made from")

    for source in (physionet, simulate, table, release):
        source.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write")
        source.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main() -> int:
    """Parse the command line, write the file and say what is in it."""
    arguments = vars(_parser().parse_args())
    source, output, debug = arguments.pop("source"), arguments.pop("output"), arguments.pop("debug")
    cli.quiet_libraries()

    def command() -> None:
        from scoring.data import longitudinal, physionet, prepare, simulate
        from scoring.data.layout import layout_of

        if source == "table":
            path = arguments.pop("path")
            prepare.prepare_table(path, layout_of(arguments.pop("like"), **arguments), output)
        elif source == "release":
            prepare.write_release_of(arguments["path"], arguments["data"], output)
        elif source == "physionet2012":
            print(longitudinal.write_table(physionet.tables(arguments["paths"]), output))
        else:
            stays = simulate.tables(arguments["stays"], arguments["features"], arguments["seed"])
            print(longitudinal.write_table(stays, output))

    return cli.run(command, debug=debug)


if __name__ == "__main__":
    sys.exit(main())
