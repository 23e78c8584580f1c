"""200 bad inputs at the command line: one line that says what was wrong, exit code 2, and nothing lost."""

import gc
import io
import os
import struct
import sys
import zipfile

import numpy as np
import pytest
from conftest import ROOT, write_csv

import main
import prepare_data
import tournament
from scoring.report import match_page
from utils import data_preprocess

NONSENSE = ("nan", "inf", "-inf", "1e400", "-1", "", "abc", "0x10", "9" * 5000, "1,5")
WHOLE = ("1.5", "1e3", "99999999999999999999999")

MATCH_NUMBERS = {"-m": WHOLE, "-t": ("2", "-0.1"), "-e": (), "-f": WHOLE, "-s": WHOLE, "-g": WHOLE}
TOURNAMENT_NUMBERS = {
    "--seconds": ("0", "1e300"), "--memory": ("0", "1e300"), "--cpus": ("0", "1e9"), "--workers": WHOLE,
    "--utility_seeds": ("6", "0"), "-m": WHOLE, "-g": WHOLE, "-s": WHOLE,
}  # fmt: skip
SIMULATED_NUMBERS = {"--stays": WHOLE, "--features": WHOLE, "--seed": ("1.5",)}
CASES = [
    *((main, option, value) for option, more in MATCH_NUMBERS.items() for value in (*NONSENSE, *more)),
    *((tournament, option, value) for option, more in TOURNAMENT_NUMBERS.items() for value in (*NONSENSE, *more)),
    *((prepare_data, option, value) for option, more in SIMULATED_NUMBERS.items() for value in (*NONSENSE, *more)),
]


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Run a command that must be refused in one line and leave everything as it was; returns the line."""

    def run(program, *arguments):
        kept = tmp_path / "out" / "kept.txt"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("of an earlier match")
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.chdir(tmp_path)
        try:
            code = program.main()
        except SystemExit as stop:
            code = stop.code
        error = capsys.readouterr().err
        told = [line for line in error.splitlines() if not line.startswith("notice: ")]
        assert (code, len(told)) == (2, 1), error
        assert told[0].startswith("error: ")
        assert told[0].isprintable()
        assert len(told[0]) < 2500
        assert kept.read_text() == "of an earlier match"
        return told[0]

    return run


@pytest.mark.parametrize(
    ("program", "option", "value"),
    [pytest.param(*case, id=f"{case[0].__name__} {case[1]} {case[2][:12]}") for case in CASES],
)
def test_a_number_that_makes_no_sense_is_refused(refused, program, option, value):
    more = ("simulate", "-o", "o.csv", "--stays", "5") if program is prepare_data else ("-o", "out")
    assert option in refused(program, *more, f"{option}={value}" if option.startswith("--") else f"{option}{value}")


def csv_files():
    ordinary = "admissionid,time,f1\n1,0,5\n1,1,6\n2,0,7\n"
    wide = ",".join(f"f{i}" for i in range(5000))
    return {
        "open quote": ordinary.replace("5", '"5'),
        "open quote in the header": ordinary.replace("time", '"time'),
        "open quote, large": ordinary + '"' + "3,0,1\n" * 100_000,
        "no rows": "admissionid,time,f1\n",
        "empty": "",
        "spaces": "  \n \n",
        "text": ordinary + "3,0,fever\n",
        "infinity": ordinary + "3,0,inf\n",
        "overflow": ordinary + "3,0,1e999\n",
        "beyond all measure": ordinary + "3,0,1e300\n",
        "no id": ordinary + ",0,1\n",
        "other columns": "a,b,c\n1,2,3\n",
        "more cells than columns": ordinary + "3,0,1,2,3\n",
        "one stay": "admissionid,time,f1\n1,0,5\n",
        "UTF-16": ordinary.encode("utf-16"),
        "bytes": bytes(range(256)) * 20,
        "zeros": bytes(10_000),
        "a zip": b"PK\3\4" + bytes(100),
        "escape codes": "admissionid,time,\x1b[2J\n1,0,\x1b[31mred\n",
        "5,000 columns of which one is text": f"admissionid,time,{wide}\n1,0,{'1,' * 4999}x\n2,0,{'1,' * 4999}1\n",
    }


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in csv_files().items()])
@pytest.mark.parametrize("program", [main, tournament])
def test_a_file_that_holds_no_stays_is_refused(refused, tmp_path, program, content):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    players = ("addnoise", "knn", "--sandbox", "process") if program is tournament else ()
    refused(program, *players, "-d", path, "-o", "out", "--skip_fp", "--skip_osa")


@pytest.mark.parametrize("place", ["nowhere.csv", "folder", "pipe", "/dev/zero", "loop.csv", "x" * 300 + ".csv", ""])
@pytest.mark.parametrize("program", [main, tournament])
def test_what_is_no_file_is_refused(refused, tmp_path, program, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    players = ("addnoise", "knn", "--sandbox", "process") if program is tournament else ()
    refused(program, *players, "-d", place, "-o", "out", "--skip_fp", "--skip_osa")


def npz(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return packed.getvalue()


def npy(header, content=b"", version=b"\1\0"):
    text = (header + "\n").encode("latin-1")
    size = struct.pack("<H", len(text)) if version == b"\1\0" else struct.pack("<I", len(text))
    return b"\x93NUMPY" + version + size + text + content


def header(shape, descr="<f8", order="False"):
    return f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"


def saved(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def releases():
    good = np.zeros((6, 100, 6))
    bad = {f"header {text[:30]!r}": npz(generated_data=npy(text), padding_mask=npy(header("(0,)"))) for text in (
        header("(6, 100, 6"), header("(6, 100, 6)", "|O"), header("(6, -100, 6)"), header("(10000000000000, 10)"),
        header("(" + "9" * 4000 + ",)"), "(" * 3000, "{'descr': [('a', '<f8'), ('b', '|O')]}", "", "\0" * 50, "1e9",
        header("(6, 100, 6)", "<f8", "__import__('os')"), header("(" + "1, " * 40 + ")"),
    )}  # fmt: skip
    return bad | {
        "no zip": b"generated",
        "empty": b"",
        "a single array": npy(header("(1,)"), bytes(8)),
        "other names": saved(data=good),
        "no mask": saved(generated_data=good),
        "text": saved(generated_data=good.astype(str), padding_mask=[]),
        "complex": saved(generated_data=good.astype(complex), padding_mask=[]),
        "a bomb of zeros": saved(generated_data=np.zeros((60, 1000, 60)), padding_mask=[]),
        "728 TiB": npz(generated_data=npy(header("(100000000000000,)")), padding_mask=npy(header("(0,)"))),
        "version 9": npz(generated_data=npy(header("(6, 100, 6)"), version=b"\x09\0")),
        "infinite": saved(generated_data=good + np.inf, padding_mask=[]),
        "beyond 1e30": saved(generated_data=good + 1e31, padding_mask=[]),
        "cut short": saved(generated_data=good, padding_mask=[])[:-40],
    }


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in releases().items()])
def test_generated_data_that_cannot_be_read_are_refused(refused, csv, tmp_path, content):
    path = tmp_path / "release.npz"
    path.write_bytes(content)
    refused(main, "-d", csv, "-o", "out", "--generated", path, "--skip_fp", "--skip_osa")


@pytest.mark.parametrize(
    "who", ["", " ", "nobody", "/dev/null", "folder", "bad.zip", "bad.py", "/", "\x1b[2Jred", "a\nb"]
)
@pytest.mark.parametrize("program", [main, tournament])
def test_a_player_that_is_none_is_refused(refused, csv, tmp_path, program, who):
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.zip").write_bytes(b"PK\5\6" + bytes(18))
    (tmp_path / "bad.py").write_text("def (")
    players = ("--hider", who) if program is main else (who, "knn", "--sandbox", "process")
    refused(program, *players, "-d", csv, "-o", "out", "--skip_fp", "--skip_osa")


def test_an_empty_name_does_not_play_the_current_folder(refused, csv, tmp_path):
    (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
    for program, players in ((main, ("--hider", "")), (tournament, ("", "knn", "--sandbox", "process"))):
        refused(program, *players, "-d", csv, "-o", "out", "--skip_fp", "--skip_osa")


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://127.0.0.1:1", "http://[", "tcp://127.0.0.1:99999999"])
def test_a_scheduler_that_is_none_is_refused(refused, csv, address):
    pytest.importorskip("distributed")
    refused(tournament, "addnoise", "knn", "-d", csv, "-o", "out", "--sandbox", "process", "--scheduler", address)
    gc.collect()  # Dask's client, taken away while another starts in the same process, would wait for it for ever


def test_so_many_time_points_that_no_memory_holds_them_are_refused(refused, csv, monkeypatch):
    monkeypatch.setattr(data_preprocess, "_memory_bytes", lambda: 1 << 20)
    assert "GiB" in refused(main, "-d", csv, "-o", "out", "-m", 10_000, "--skip_fp", "--skip_osa")


def test_there_are_two_hundred_of_them():
    assert len(CASES) + 2 * len(csv_files()) + 14 + len(releases()) + 20 + 5 >= 200


def test_a_table_of_thousands_of_columns_is_played_in_seconds(run_main, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(match_page, "_MARGINALS_DRAWN", 10)  # it once drew them all, for minutes
    path = write_csv(tmp_path / "wide.csv", rng, stays=4, features=5000)
    code, _, err = run_main("-d", path, "-o", tmp_path / "out", "-m", "3", "--skip_fp", "--skip_osa", home=ROOT)
    assert code == 0, err
    assert (tmp_path / "out/report.html").read_text().count('aria-labelledby="marginal-') == 10
