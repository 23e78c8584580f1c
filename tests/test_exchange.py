"""What the host does with a run's private folder: its troubles are its own, and strangers' files cost it little."""

import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from scoring.sandbox import exchange as exchanges
from scoring.sandbox.exchange import MAX_SOURCE_BYTES, private_exchange, rebuild_traceback
from scoring.sandbox.runner import FULL
from scoring.strangers import HostError, Reason

SHAPE = (50, 20, 10)
GIVEN = {"data": np.zeros(SHAPE), "padding_mask": np.zeros(SHAPE, bool)}


@pytest.fixture
def filled(tmp_path):
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "hider.py").write_text("1 / 0\n")
    with private_exchange(tmp_path) as exchange:
        exchange.fill(tmp_path / "submission", "hider", GIVEN, 1, None)
        yield exchange


def test_room_for_the_answer_is_taken_before_the_run(filled):
    assert filled.output.stat().st_blocks * 512 >= 9 * np.prod(SHAPE)


def test_a_disk_that_others_filled_is_no_fault_of_a_run(filled, monkeypatch):
    assert filled.outcome(FULL, "hider", GIVEN).reason == Reason.FULL
    monkeypatch.setattr(exchanges, "SPARE_BYTES", 1 << 60)
    with pytest.raises(HostError, match="is full"):
        filled.outcome(FULL, "hider", GIVEN)


def test_a_disk_without_room_for_the_input_is_no_fault_of_a_run(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "submission").mkdir()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with private_exchange(tmp_path) as exchange, pytest.raises(HostError, match="No space"):
        exchange.fill(tmp_path / "submission", "hider", GIVEN, 1, None)


def test_a_header_of_a_gigabyte_costs_no_memory(filled):
    with zipfile.ZipFile(filled.output, "w") as archive, archive.open("generated_data.npy", "w") as member:
        member.write(b"\x93NUMPY\x02\x00" + (200 << 20).to_bytes(4, "little"))
        for _ in range(200):
            member.write(b" " * (1 << 20))
    tracemalloc.start()
    try:
        assert filled.outcome(0, "hider", GIVEN).reason == Reason.FILE
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_source_of_newlines_costs_no_memory(filled):
    (filled.source / "hider.py").write_bytes(b"\n" * (32 << 20))
    (filled.source / "long.py").write_bytes(b"\n" * MAX_SOURCE_BYTES)
    tracemalloc.start()
    try:
        for file in ("hider.py", "long.py"):
            rebuild_traceback({"class": "ValueError", "line": [file, 10**6]}, filled.source)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_one_line_of_the_submission_is_all_that_an_error_file_tells(filled):
    (filled.source / "hider.py").write_text("".join(f"x = {line}\n" for line in range(200)))
    told = rebuild_traceback({"class": "ValueError", "line": ["hider.py", 91]}, filled.source)
    assert told.splitlines()[1:] == ['  File "hider.py", line 91', "    x = 90", "ValueError: <message redacted>"]
