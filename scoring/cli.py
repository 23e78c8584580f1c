"""What the command-line tools share: one-line errors, exit codes, numbers within bounds, quiet libraries."""

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from utils.errors import UserError
from utils.text import printable

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


def quiet_libraries() -> None:
    """Keep the libraries' own chatter from the user. Must run before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Switched on, oneDNN announces itself on every import and rounds differently from processor to processor.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its font cache, on a fresh machine
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # advice to programmers on tracing
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all others, without the list of all options."""

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and exit with code 2."""
        self.exit(EXIT_USER_ERROR, f"error: {printable(message, 500)}; {self.prog} --help lists the options\n")


def names(text: str) -> tuple[str, ...]:
    """Argument type: names with commas between them."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return an argument type: a whole number from `low` to `high`."""

    def parse(text: str) -> int:
        value = int(text) if len(text) <= 20 else high + 1  # int() of a million digits takes minutes
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be a whole number from {low} to {high}, not {text[:40]}")
        return value

    parse.__name__ = "whole number"  # argparse names it where the text is no number at all
    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    """Return an argument type: a finite number from `low` to `high`."""

    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:  # NaN neither
            raise argparse.ArgumentTypeError(f"must be a number from {low:g} to {high:g}, not {text[:40]}")
        return value

    parse.__name__ = "number"
    return parse


def add_round_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that a match and a tournament share: the data, the split and the checks of 2020."""
    add = parser.add_argument
    add("-d", "--data_path", type=Path, default=Path("./data/train_longitudinal_data.csv"), metavar="PATH",
        help="longitudinal table (CSV, gzip, Parquet), or a PhysioNet 2012 archive or folder")  # fmt: skip
    add("--outcomes", type=Path, default=argparse.SUPPRESS, metavar="FILE",
        help="a table admissionid,label: one number a stay, carried as a feature that does not change")  # fmt: skip
    add("-m", "--max_seq_len", type=whole(1, 100_000), default=100, metavar="INT", help="time points kept of each stay")
    add("-t", "--train_frac", type=number(0, 1), default=0.5, metavar="FLOAT",
        help="share of the stays that a hider is given")  # fmt: skip
    add("-e", "--hider_eval_threshold", type=number(0, 1e6), default=0.85, metavar="FLOAT",
        help="AUROC on generated data must be at least this multiple of that on original data")  # fmt: skip
    add("-g", "--debug_data", type=whole(0, 2**31), default=0, metavar="INT",
        help="read only the first INT rows; 0 reads all")  # fmt: skip
    add("--skip_fp", action="store_true", help="skip the feature prediction check of 2020")
    add("--skip_osa", action="store_true", help="skip the one-step-ahead check of 2020")
    add("--debug", action="store_true", help="show the traceback of an error")


def run(command: Callable[[], None], *, debug: bool) -> int:
    """Run a command and turn what the user can mend into one line on standard error.

    Parameters
    ----------
    command : callable
        The work. Raises `UserError` for anything the user can put right.
    debug : bool
        Show the traceback of such an error too.

    Returns
    -------
    int
        The exit code: 0, 2 after a user's error, a full disk or too little memory, 130 after Ctrl-C.
    """
    before = os.umask(0o077)  # what is written tells of patients: for its owner's eyes
    try:
        command()
    except UserError as error:
        if debug:
            raise
        _tell(str(error))
        return EXIT_USER_ERROR
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        _tell(f"{error.strerror or error}{where}; earlier output was left as it was")
        return EXIT_USER_ERROR
    except MemoryError as error:
        if debug:
            raise
        _tell(f"out of memory ({error or 'no more is to be had'}); use fewer stays or time points (-m)")
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("stopped; earlier output was left as it was", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        os.umask(before)
    return 0


def _tell(message: str) -> None:
    print(f"error: {printable(message, 2000)}", file=sys.stderr)
