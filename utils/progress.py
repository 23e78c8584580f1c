"""Progress bars that suit a terminal and a log file."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

_shown = True
LOG_INTERVAL = 30.0  # seconds between lines where nobody is watching


def progress_bar(total: int, description: str, unit: str, show: bool = True, done: int = 0) -> Any:
    """Return a `tqdm` bar on standard error. In a log file it writes a line every 30 s and at the end.

    Parameters
    ----------
    total : int
        Steps in all.
    description, unit : str
        What is done, and what one step is called.
    show : bool
        Whether to show it at all.
    done : int
        Steps done by an earlier run.
    """
    watched = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=done,
        desc=description,
        unit=unit,
        disable=not (show and _shown),
        ascii=not watched,
        dynamic_ncols=watched,
        mininterval=0.2 if watched else LOG_INTERVAL,
        maxinterval=10.0 if watched else LOG_INTERVAL,
        leave=True,
    )


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Show no bar inside this block: of many short steps, only the bar around them tells anything."""
    global _shown
    before, _shown = _shown, False
    try:
        yield
    finally:
        _shown = before
