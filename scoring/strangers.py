"""What a stranger's submission may cause: the failure of that submission, and one fixed text about it.

Two rules hold everywhere that something of a stranger's is taken in, run, read or reported.

1. Whatever it makes our code raise fails that submission and nothing else (`untrusted`). Trouble of this machine, such
   as a full disk, is a `HostError`: nobody is blamed, nothing is stored, and the work is tried again.
2. Others read of it one text of `Reason` and no word or number that the submission chose: a shape, a count or a name
   could spell a patient's values. The organiser, who owns the data, may read more (`Failed.detail`).
"""

import contextlib
import ctypes
import errno
import threading
from collections.abc import Iterator

from utils.errors import UserError
from utils.text import printable

# Errors of the operating system that no submission is blamed for.
_HOST_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Reason:
    """Every text that others may read about a failed submission."""

    REFUSED = "is no sound submission"
    IMAGE = "asks for an image that the organiser does not allow"
    NO_START = "its image cannot be started"
    RAISED = "raised an exception"
    TIMEOUT = "ran out of time"
    MEMORY = "ran out of memory"
    FULL = "wrote more than it may"
    NO_ANSWER = "ended without an answer"
    FORM = "returned no form that the contract knows"
    FILE = "its output is no file of plain arrays"
    NUMBERS = "returned something else than plain numbers"
    SHAPE = "returned an array of another shape than expected"
    INFINITE = "returned infinite values"
    TOO_LARGE = "returned values beyond 1e30"
    ALL_NAN = "returned data in which every cell is NaN"
    NAN = "returned NaN or infinity among labels or scores"
    MASK = "returned a padding mask that holds more than True and False"
    ALL_PADDED = "returned a padding mask that covers every cell"
    EVAL_SEEDS = "returned eval_seeds outside 0 to 5"
    TEXT = "returned a text other than 'rescore'"
    NO_EARLIER = "asks for earlier data to be rescored, and there is none of that name here"
    HOST = "could not be played, for no fault of its own; the next start tries again"
    LOST_WORKER = "its worker died again and again"
    SCORING = "returned what cannot be scored"
    SLOW = "took too long to read or to score"


REASONS = frozenset(text for name, text in vars(Reason).items() if name.isupper())


class Failed(UserError):
    """A submission failed by its own doing.

    Parameters
    ----------
    reason : str
        One of `Reason`: what others read.
    detail : str
        What the organiser reads. The reason where there is nothing to add.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail or reason

    def __reduce__(self) -> tuple[type["Failed"], tuple[str, str]]:
        return Failed, (self.reason, self.detail)  # it crosses to other processes


class HostError(UserError):
    """Trouble of this machine (its disk, its Docker engine): no submission's fault, to be tried again."""


class _DeadlineError(Exception):
    """The time for reading or scoring something of a stranger's is over."""


@contextlib.contextmanager
def untrusted(reason: str, seconds: float | None = None) -> Iterator[None]:
    """Turn whatever the block raises into the failure of the submission that it works on.

    Parameters
    ----------
    reason : str
        One of `Reason`, for what has none of its own.
    seconds : float, optional
        The block is interrupted after this time. A single call into a C library is not: sizes bound those.

    Raises
    ------
    Failed
        For any Exception, also MemoryError and RecursionError.
    HostError
        For an error of this machine: a full disk, say.
    """
    try:
        with _deadline(seconds):
            yield
    except (Failed, HostError):
        raise
    except _DeadlineError as error:
        raise Failed(Reason.SLOW) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _HOST_ERRORS:
            where = f" ({error.filename})" if error.filename else ""
            raise HostError(printable(f"{error.strerror}{where}; mend it and start again")) from error
        detail = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        raise Failed(reason, printable(detail, 500)) from error


@contextlib.contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Raise `_DeadlineError` in this thread when the time is over: workers are threads, so no signal can do it."""
    if seconds is None:
        yield
        return
    thread, lock, running = ctypes.c_ulong(threading.get_ident()), threading.Lock(), True
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def expire() -> None:
        with lock:
            if running:
                raise_in(thread, ctypes.py_object(_DeadlineError))

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            running = False
            raise_in(thread, None)  # what was raised and has not arrived
        timer.cancel()
