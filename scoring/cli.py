"""What the command-line tools share: one-line errors, exit codes, quiet libraries."""

import logging
import os
import sys
import warnings
from collections.abc import Callable

from utils.errors import UserError

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


def quiet_libraries() -> None:
    """Keep the libraries' own chatter from the user; must run before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Switched on, oneDNN announces itself on every import and rounds differently from processor to processor.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its font cache, on a fresh machine
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # advice to programmers on tracing
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def run(command: Callable[[], None], *, debug: bool) -> int:
    """Run a command and turn what the user can mend into one line on standard error.

    Parameters
    ----------
    command : callable
        The work; raises `UserError` for anything the user can put right.
    debug : bool
        Show the traceback of such an error too.

    Returns
    -------
    int
        The exit code: 0, 2 after a user's error or a full disk, 130 after Ctrl-C.
    """
    try:
        command()
    except UserError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        print(f"error: {error.strerror or error}{where}; earlier output was left as it was", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("stopped; earlier output was left as it was", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0
