"""Whatever a stranger makes our code raise fails that stranger alone, and others read one fixed text about it."""

import errno
import pickle
import time

import numpy as np
import pytest

from scoring.contract import check_generated, check_labels
from scoring.strangers import REASONS, Failed, HostError, Reason, untrusted
from utils.errors import UserError
from utils.text import printable


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RecursionError("deep"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), OverflowError("large"),
     IndexError("4711"), SyntaxError("4711"), UserError("patient 4711"), OSError(errno.ENAMETOOLONG, "long")],
)  # fmt: skip
def test_any_error_is_the_strangers_own(error):
    with pytest.raises(Failed) as caught, untrusted(Reason.SCORING):
        raise error
    assert caught.value.reason == Reason.SCORING
    assert "4711" not in caught.value.reason


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE])
def test_a_full_disk_is_nobodys_fault(number):
    with pytest.raises(HostError), untrusted(Reason.SCORING):
        raise OSError(number, "No space left on device")


def test_a_reason_of_its_own_is_kept_and_ctrl_c_goes_through():
    with pytest.raises(Failed, match="infinite") as caught, untrusted(Reason.SCORING):
        raise Failed(Reason.INFINITE)
    assert caught.value.reason == Reason.INFINITE
    with pytest.raises(KeyboardInterrupt), untrusted(Reason.SCORING):
        raise KeyboardInterrupt


def forever():
    while True:
        pass


def test_what_takes_too_long_is_interrupted_in_any_thread():
    started = time.monotonic()
    with pytest.raises(Failed) as caught, untrusted(Reason.SCORING, seconds=0.2):
        forever()
    assert caught.value.reason == Reason.SLOW
    assert time.monotonic() - started < 30
    with untrusted(Reason.SCORING, seconds=30):
        pass  # and nothing is raised later


def test_a_failure_crosses_to_other_processes():
    failed = pickle.loads(pickle.dumps(Failed(Reason.SHAPE, "shape (4711,)")))
    assert (failed.reason, failed.detail) == (Reason.SHAPE, "shape (4711,)")


def test_no_reason_holds_anything_but_the_table(rng):
    data = rng.normal(size=(4, 3, 2))
    answers = [data[:3], data * np.inf, data * 1e31, data * np.nan, (data, data[:1] > 0), (data, 4711), "4711", None,
               (data, data), (data, np.ones(data.shape, bool)), data.astype(str)]  # fmt: skip
    for answer in answers:
        with pytest.raises(Failed) as caught:
            check_generated("it", answer, data.shape)
        assert caught.value.reason in REASONS
    for answer in ([1, 0], [np.nan] * 4, ["4711"] * 4, ([1] * 4, [np.inf] * 4), None):
        with pytest.raises(Failed) as caught:
            check_labels("it", answer, 4)
        assert caught.value.reason in REASONS


def test_escape_codes_line_ends_and_invisible_marks_are_shown_and_not_obeyed():
    assert printable("a\x1b[2Jb\nc\u202e\u2028\udcff") == "a\\x1b[2Jb\\nc\\u202e\\u2028\\udcff"
    assert printable("one\n\ttwo\r\x07", lines=True) == "one\n\ttwo\\r\\x07"
    assert printable("ñandú 胰岛素") == "ñandú 胰岛素"
    assert printable("x" * 100, 10) == "x" * 10 + "..."
