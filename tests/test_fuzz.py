"""2,000 mutated files of strangers: each is refused with a fixed text or read rightly, and none stops the tournament.

The mutations are drawn from one seed, so what fails here fails again. Whatever comes through must be what was written:
a value that changed without anybody's noticing is worse than a refusal.
"""

import io
import json
import shutil
import struct
import zipfile

import numpy as np
import pytest

from scoring.sandbox.exchange import Exchange
from scoring.store import Store, StoredResult
from scoring.strangers import REASONS, Failed
from scoring.submissions.submission import digest, take_in

ROUNDS = 500  # of each of the four kinds
SHAPE = (4, 3, 2)
GIVEN = {"data": np.zeros(SHAPE), "padding_mask": np.zeros(SHAPE, bool)}
SOURCE = "def hider(input_dict):\n    return input_dict['data'] / 0\n"
NASTY = (
    b"4711", b"-1", b"9" * 40, b"1e400", b"(((((((((", b"'", b'"', b"\n", b"\0", b"\xff\xfe", b"{", b"}", b"__import__",
    b"|O", b"<U999999", b"nan", b"[[[[[[[[", b"\\", b"PK\5\6", b"PK\1\2", b"\xff" * 8, b"\x80" + b"\0" * 7, b"..", b"/",
    b"\x1b[2J", b"'descr'", b"True", b"(10000000000000,)", struct.pack("<Q", 2**62), struct.pack("<I", 2**32 - 1),
)  # fmt: skip


@pytest.fixture
def rng():
    return np.random.default_rng(14)


def mutated(content, rng):
    """Return `content` with one to four random changes: bits, bytes, nasty text, pieces cut, doubled or moved."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at, size = (int(number) for number in rng.integers(0, max(1, len(content)), 2))
        size = min(size, 64)
        match rng.integers(7):
            case 0:
                content[at : at + 1] = bytes([int(rng.integers(256))])
            case 1 if content:
                content[at] ^= 1 << int(rng.integers(8))
            case 2:
                text = NASTY[rng.integers(len(NASTY))]
                content[at : at + len(text)] = text
            case 3:
                content[at:at] = NASTY[rng.integers(len(NASTY))]
            case 4:
                del content[at : at + size]
            case 5:
                content[at:at] = content[at : at + size]
            case 6:
                del content[at:]
    return bytes(content)


def written(data, rng):
    """An honest output, stored as the runner stores it; with and without a mask."""
    file = io.BytesIO()
    more = {"padding_mask": GIVEN["padding_mask"]} if rng.random() < 0.5 else {}
    np.savez(file, generated_data=data, **more)
    return file.getvalue()


def repacked(content):
    """The same arrays with their checksums put right again, so that a mutated header is looked at."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


@pytest.fixture
def exchange(tmp_path):
    exchange = Exchange(tmp_path)
    exchange.source = tmp_path / "source"
    exchange.source.mkdir()
    (exchange.source / "hider.py").write_text(SOURCE)
    exchange.outputs.mkdir()
    exchange.error.touch()
    return exchange


def test_mutated_outputs_are_refused_with_a_fixed_text_or_read_rightly(exchange, rng):
    ended = {"ok": 0, "invalid_output": 0}
    data = rng.normal(size=SHAPE)
    for number in range(ROUNDS):
        content = written(data, rng)
        if number % 2:  # the header and values, under a checksum that holds
            at, size = content.index(b"\x93NUMPY"), 128
            header = mutated(content[at : at + size], rng)
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("generated_data.npy", header + content[at + size : at + size + data.nbytes])
            content = file.getvalue()
        else:
            content = mutated(content, rng)
        exchange.output.write_bytes(content)
        outcome = exchange.outcome(0, "hider", GIVEN)
        ended[outcome.status] += 1
        if outcome.status == "ok":
            found = outcome.outputs.get("generated_data")
            assert found is None or found.shape == SHAPE
            if number % 2 == 0:  # under a checksum of its own a stranger may say what it likes
                np.testing.assert_array_equal(found, data)
        else:
            assert outcome.reason in REASONS
            assert outcome.reason.isprintable()
    assert min(ended.values()) > 0, ended


def test_mutated_error_files_tell_a_line_of_the_submission_and_no_more(exchange, rng):
    allowed = {f'  File "hider.py", line {number}' for number in (1, 2)}
    allowed |= {f"    {line.strip()}" for line in SOURCE.splitlines()}
    allowed |= {"Traceback (the submission's own last line):", ""}
    told = 0
    for number in range(ROUNDS):
        honest = {"class": "ZeroDivisionError", "line": ["hider.py", 2]}
        forged = ({}, [], 5, {"class": 5, "line": 5}, {"class": [[]], "line": {}}, ["hider.py", 1, 5],
                  {"class": "x", "line": [["hider.py"], True]}, {"class": "x", "line": ["hider.py", 2.0]})  # fmt: skip
        text = json.dumps(honest if number % 3 else forged[number % len(forged)])
        exchange.error.write_bytes(mutated(text.encode(), rng) if number % 3 else text.encode())
        outcome = exchange.outcome(1, "hider", GIVEN)
        assert (outcome.status, outcome.reason in REASONS) == ("failed", True)
        for line in outcome.submitter_log.splitlines():
            assert line in allowed or line.endswith("<message redacted>"), line
        assert "4711" not in outcome.submitter_log
        told += "line 2" in outcome.submitter_log
    assert told > 0


def test_mutated_zips_are_refused_in_one_line_or_taken_in(tmp_path, rng):
    packed = tmp_path / "team.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hider.py", SOURCE * 20)
        archive.writestr("utils/x.py", "A = 1\n")
        archive.writestr("Dockerimage", "team/image:1\n")
    honest, refused = packed.read_bytes(), 0
    for number in range(ROUNDS):
        packed.write_bytes(mutated(honest, rng))
        told = ""
        try:
            taken = take_in(packed, tmp_path / str(number))
            assert digest(taken.folder) == taken.digest
        except Failed as failed:
            told, reason = failed.detail, failed.reason
        if told:
            refused += 1
            assert reason in REASONS
            assert told.isprintable()
        for path in (tmp_path / str(number)).rglob("*"):
            assert path.resolve().is_relative_to(tmp_path / str(number))
        shutil.rmtree(tmp_path / str(number))
        assert list(tmp_path.iterdir()) == [packed]  # nothing was written anywhere else
    assert 0 < refused < ROUNDS


def test_mutated_pieces_of_the_store_count_as_missing(tmp_path, rng):
    store = Store(tmp_path)
    kept = StoredResult({"status": "ok"}, {"labels": rng.random(12) > 0.5})
    store.put("seeker", "k", kept)
    path = store.path("seeker", "k")
    honest = path.read_bytes()
    for _ in range(ROUNDS):
        changed = mutated(honest, rng)
        path.write_bytes(changed)
        found = store.get("seeker", "k")
        assert store.has("seeker", "k") == (found is not None)
        assert found is None or changed == honest
    store.put("seeker", "k", kept)
    assert store.get("seeker", "k").facts == kept.facts
