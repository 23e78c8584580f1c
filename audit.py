"""Audit a release, to decide whether this synthetic table may leave the building.

    python audit.py --members a.csv --others b.csv --synthetic c.csv -o audit
    python audit.py --data all.csv --split member --synthetic c.csv -o audit

Writes audit/report.html (print this), audit/report.json and audit/patients.csv. docs/audit.md says what they mean.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from scoring import cli

HOME = Path(__file__).resolve().parent


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        description="Run every attack and every utility measure on a release, and write one report.",
        epilog="Exit codes: 0 the report is written; 2 a user's error; with --fail-on leak: 3 if a leak is found; with "
        "--fail-on unsure: 3 for a leak and 4 if it cannot be judged.",
    )
    add = parser.add_argument
    add("--members", type=Path, metavar="TABLE", help="the patients that the release was made from")
    add("--others", type=Path, metavar="TABLE", help="other patients, drawn as the members were")
    add("--data", type=Path, metavar="TABLE", help="in place of both: one table, divided by --split")
    add("--split", metavar="WHAT", help="a column of --data (1: member, 0: other) or a file with the members' ids")
    add("--synthetic", type=Path, required=True, metavar="TABLE", help="the release: any number of stays, any lengths")
    add("-o", "--output", type=Path, default=Path("./audit"), metavar="PATH", help="where the report goes (./audit)")
    add("-m", "--max_seq_len", type=cli.whole(1, 10**6), default=100, metavar="INT",
        help="time points kept of each stay (100)")  # fmt: skip
    add("-s", "--seed", type=cli.whole(0, 2**32 - 1), default=0, metavar="INT", help="seed of everything drawn (0)")
    add("--hider", metavar="WHO", help="the generator's code, a name or a .py file: it is run on other halves, too")
    add("--hider_parameters", metavar="K=V", help="a parameter for it")
    add("--shadow_parameters", default="", metavar="K=V,...", help="parameters for attacks that run it (runs=8)")
    add("--slow", action="store_true", help="also run attacks that train networks for long")
    add(
        "--skip_power", action="store_true", help="do not plant known leaks; no release can then be called without leak"
    )
    add("--provenance_unknown", action="store_true",
        help="say that nobody knows whether the release was made from the members")  # fmt: skip
    add("--fail-on", choices=("leak", "unsure"), help="exit with 3 for a leak (and 4 if it cannot be judged)")
    add("--workers", type=cli.whole(1, 1024), metavar="INT", help="processes (default: one a core, at most 4)")
    add("--scheduler", metavar="tcp://...", help="work on a Dask cluster instead")
    add("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main() -> int:
    """Parse the command line, audit, and say what was found."""
    arguments: dict[str, Any] = vars(_parser().parse_args())
    debug, fail_on = arguments.pop("debug"), arguments.pop("fail_on")
    cli.quiet_libraries()
    evidence: list[str] = []

    def command() -> None:
        from scoring.audit.command import audit_to_files

        evidence.append(audit_to_files(HOME, **arguments))

    code = cli.run(command, debug=debug)
    if code or not fail_on:
        return code
    from scoring.audit.verdict import exit_code

    return exit_code(evidence[0], fail_on)


if __name__ == "__main__":
    sys.exit(main())
