"""The console command: `hide-and-seek match|tournament|audit|prepare|deid|methods ...`."""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hide_and_seek import HOME, __version__

COMMANDS = {
    "match": ("main", "one hider against one seeker or all of them"),
    "tournament": ("tournament", "every hider against every seeker: a leaderboard"),
    "audit": ("audit", "may this synthetic table leave the building?"),
    "prepare": ("prepare_data", "a hospital's table, PhysioNet 2012 or simulated stays, ready to play on"),
    "deid": ("deid.cli", "the text track: medical notes"),
}
WITH_REPORT = {"match": "output", "audit": "audit"}  # and where that is by default


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the tools. The arguments behind its name are the tool's own.

    Returns
    -------
    int
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog="hide-and-seek",
        description="Red-teams a synthetic clinical data set before it is released.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {name:11} {what}" for name, (_, what) in COMMANDS.items()),
                "  methods     list the hiders and seekers",
                "",
                "hide-and-seek COMMAND --help lists the options of a command.",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hide-and-seek {__version__}")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument(
        "--json", action="store_true", help="print report.json of a match or an audit, and all else on standard error"
    )
    parser.add_argument("command", choices=[*COMMANDS, "methods"], metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the command's own")
    chosen = parser.parse_args(arguments)
    if chosen.command == "methods":
        return list_methods()
    if chosen.json and chosen.command not in WITH_REPORT:
        parser.error(f"--json goes with {' and '.join(WITH_REPORT)}")
    module, _ = COMMANDS[chosen.command]
    before = sys.argv
    sys.argv = [f"hide-and-seek {chosen.command}", *chosen.arguments]
    try:
        with contextlib.ExitStack() as stack:
            if chosen.quiet:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(nowhere))
            elif chosen.json:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))
            code = int(importlib.import_module(module).main() or 0)
    finally:
        sys.argv = before
    if chosen.json and code == 0:
        print(report_path(chosen.command, chosen.arguments).read_text(encoding="utf-8"), end="")
    return code


def report_path(command: str, arguments: Sequence[str]) -> Path:
    """Return where a match or an audit leaves its report.json."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-o", "--output_dir", type=Path, default=Path(WITH_REPORT[command]))
    return Path(parser.parse_known_args(arguments)[0].output_dir) / "report.json"


def list_methods() -> int:
    """Print each hider and seeker with the first line of its docstring."""
    import ast

    for role in ("hider", "seeker"):
        print(f"{role}s:")
        for path in sorted(HOME.glob(f"{role}_*.py")):
            told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(f"  {path.stem.removeprefix(role + '_'):18} {told.splitlines()[0] if told else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
