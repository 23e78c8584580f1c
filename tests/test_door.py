"""Attacks on a whole tournament: a submission learns nothing by them, and they cost and stop no other.

Each of these worked once. docs/security.md lists them.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from conftest import write_csv
from tournament_cases import PLAYERS, QUICK, write_all, write_folder, write_zip

from scoring.strangers import REASONS, HostError, Reason
from scoring.tournament import reports, work
from scoring.tournament.secret import organiser_key
from utils.errors import UserError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process sandbox needs Linux")


def board(out):
    return json.loads((out / "leaderboard.json").read_text())


def scores(out, role):
    return {row["name"]: row["score"] for row in board(out)[role]}


def statuses(out, role):
    return {row["name"]: row["status"] for row in board(out)[role]}


def cell(out, hider, seeker):
    cells = {line["hider"]: line["cells"] for line in board(out)["matrix"]}[hider]
    return next(entry for entry in cells if entry["seeker"] == seeker)


# --- what can be learnt ---


def test_the_key_is_drawn_once_and_is_its_owners_alone(tmp_path):
    key = organiser_key(tmp_path / "key")
    assert len(key) == 32
    assert organiser_key(tmp_path / "key") == key != organiser_key(tmp_path / "other")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "00" * 31, "zz" * 32, "00" * 33, "ñ" * 64])
def test_what_is_no_key_is_refused(tmp_path, content):
    (tmp_path / "key").write_text(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UserError, match="holds no key"):
        organiser_key(tmp_path / "key")


def test_a_key_that_others_may_read_is_refused(tmp_path):
    organiser_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        organiser_key(tmp_path / "key")


def test_who_knows_data_code_and_all_seeds_cannot_compute_the_split(run_tournament, tmp_path, rng):
    """On public data under the default seed the first guess once scored 1.000 against pure noise."""
    stays = 60
    guess = """
        import numpy as np
        def seeker(input_dict):
            data = input_dict["enlarged_data"]
            first = [stay[np.flatnonzero(stay[:, 0] != -1)[0], 0] for stay in data]
            order = np.argsort(first)  # the file's, for time grows from stay to stay
            np.random.seed({seed})
            labels = np.zeros({stays})
            labels[order[np.random.permutation({stays})[:{stays} // 2]]] = 1
            return labels
    """
    for name, seed in (("default", 12345), ("told", 'input_dict["seed"] % 2**32')):
        source = textwrap.dedent(guess).format(seed=seed, stays=stays)
        write_folder(tmp_path / "all", f"seeker_{name}", source)
    write_folder(tmp_path / "all", "hider_noise", PLAYERS["hider_noise"])
    lines = ["admissionid,time,f1"]
    lines += [f"{stay},{1000 * stay + hour},{rng.normal():.3f}" for stay in range(stays) for hour in range(3)]
    (tmp_path / "stays.csv").write_text("\n".join(lines) + "\n")
    assert run_tournament(tmp_path / "all", "-d", tmp_path / "stays.csv", "-o", tmp_path / "out", *QUICK)[0] == 0
    assert all(0.2 < score < 0.8 for score in scores(tmp_path / "out", "seekers").values())


def test_what_a_seeker_learnt_from_one_hider_is_worth_nothing_about_another(run_tournament, tmp_path, rng):
    """A seeker once carried the members from a weak hider to pure noise, in the page cache; here, in a file."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as shared:
        Path(shared).chmod(0o777)
        carrier = f"""
            import os
            import numpy as np
            def seeker(input_dict):
                path = {shared!r} + "/members"
                stays = [np.nan_to_num(stay).tobytes() for stay in input_dict["enlarged_data"]]
                if os.path.exists(path):
                    members = open(path).read().split()
                else:
                    known = {{np.nan_to_num(stay).tobytes() for stay in input_dict["generated_data"]}}
                    members = [stay.hex() for stay in stays if stay in known]
                    open(path, "w").write(" ".join(members))
                return np.array([stay.hex() in members for stay in stays])
        """
        csv = write_csv(tmp_path / "stays.csv", rng, stays=80)
        seeker = write_folder(tmp_path, "seeker_carrier", carrier)
        weak = write_folder(tmp_path, "hider_copy", PLAYERS["hider_copy"])
        strong = write_folder(tmp_path, "hider_noise", PLAYERS["hider_noise"])
        for hiders in ((weak,), (weak, strong)):
            assert run_tournament(*hiders, seeker, "-d", csv, "-o", tmp_path / "out", *QUICK)[0] == 0
    assert cell(tmp_path / "out", "copy", "carrier")["score"] == 1.0
    assert 0.25 < cell(tmp_path / "out", "noise", "carrier")["score"] < 0.75


def test_players_are_handed_no_seed_that_tells_of_the_split(run_tournament, tmp_path, rng):
    source = "def hider(d):\n    print('seed', d['seed'])\n    return d['data']\n"
    for name in ("one", "two"):
        write_folder(tmp_path / "all", f"hider_{name}", source)
    seeker = "def seeker(d):\n    print('seed', d['seed'])\n    return [0] * len(d['enlarged_data'])\n"
    write_folder(tmp_path / "all", "seeker_s", seeker)
    csv = write_csv(tmp_path / "stays.csv", rng)
    assert run_tournament(tmp_path / "all", "-d", csv, "-o", tmp_path / "out", *QUICK)[0] == 0
    logs = [path.read_text() for path in (tmp_path / "out/logs/organiser").rglob("*.txt")]
    seeds = [int(text.partition("seed ")[2].split()[0]) for text in logs]
    assert len(set(seeds)) == 4
    assert 12345 not in seeds


# --- one submission costs the others nothing ---


WILD = {
    "hider_diverges": "def hider(d):\n    x = d['data'].copy()\n    x[0, -1, 1] = 1e25\n    return x\n",
    "hider_far": "def hider(d):\n    x = d['data'].copy()\n    x[:, -1, 1:] = 1e308\n    return x\n",
    "hider_forges": """
        import json, os, sys
        def hider(d):
            with open(os.path.join(sys.argv[3], "error.json"), "w") as file:
                json.dump(["hider.py", 1, 5], file)
            os._exit(1)
    """,
    "hider_header": """
        import os, sys, zipfile
        def hider(d):
            header = b"{'descr': '<f8', 'fortran_order': False, 'shape': ((((((((("
            with zipfile.ZipFile(os.path.join(sys.argv[3], "output.npz"), "w") as archive:
                archive.writestr("generated_data.npy", b"\\x93NUMPY\\x01\\x00" + bytes([len(header), 0]) + header)
            os._exit(0)
    """,
    "seeker_extreme": """
        import numpy as np
        def seeker(d):
            sign = np.where(np.arange(len(d["enlarged_data"])) % 2, 1e308, -1e308)
            return sign > 0, sign
    """,
}


def test_strange_answers_fail_their_own_submission_and_the_others_are_scored(run_tournament, csv, tmp_path):
    write_all(tmp_path / "all")
    for name, source in WILD.items():
        write_folder(tmp_path / "all", name, source)
    out = tmp_path / "out"
    for _ in range(2):  # and again at the restart
        code, _, err = run_tournament(tmp_path / "all", "-d", csv, "-o", out, *QUICK)
        assert (code, "Traceback" in err) == (0, False), err
    hiders = statuses(out, "hiders")
    assert {name for name, status in hiders.items() if status == "ok"} == {"copy", "noise", "diverges"}
    assert {status for status in hiders.values() if status != "ok"} <= REASONS
    assert cell(out, "copy", "equal")["score"] == 1.0
    assert all(status == "ok" for status in statuses(out, "seekers").values())


def test_strange_files_and_folders_are_refused_and_the_others_play(run_tournament, csv, tmp_path):
    folder = write_all(tmp_path / "all")
    deep = write_folder(folder, "hider_deep", PLAYERS["hider_copy"])
    place = os.open(deep, os.O_RDONLY)
    for _ in range(1500):  # one by one: no path is that long
        os.mkdir("d", dir_fd=place)
        place, before = os.open("d", os.O_RDONLY, dir_fd=place), place
        os.close(before)
    os.close(place)
    bytes_ = write_folder(folder, "hider_bytes", PLAYERS["hider_copy"])
    Path(os.fsdecode(os.fsencode(bytes_) + b"/\xff\xfe.py")).write_text("")
    write_zip(folder / f"hider_{'n' * 240}.zip", "hider", PLAYERS["hider_copy"])
    write_zip(folder / "hider_members.zip", "hider", PLAYERS["hider_copy"])
    (folder / "bad.zip").write_bytes(b"PK\5\6" + bytes(18))
    (folder / "esc\x1b[2J.zip").write_bytes(b"no zip")
    out = tmp_path / "out"
    try:
        code, printed, err = run_tournament(folder, "-d", csv, "-o", out, *QUICK)
    finally:  # Python's own rmtree, with which pytest tidies up, fails at this depth
        subprocess.run(["/bin/rm", "-rf", deep], check=True)
    assert (code, "Traceback" in err) == (0, False), err
    assert "\x1b[2J" not in printed
    assert len(board(out)["refused"]) == 4
    assert statuses(out, "hiders")["members"] == "ok"
    assert statuses(out, "hiders")["n" * 64] == "ok"


def test_trouble_of_this_machine_is_nobodys_fault_and_the_next_start_tries_again(
    run_tournament, csv, tmp_path, monkeypatch
):
    arguments = (write_all(tmp_path / "all"), "-d", csv, "-o", tmp_path / "out", *QUICK)
    real = work._sandbox

    class Full:
        def run(self, folder, role, arrays, *rest, **more):
            if role == "seeker":
                raise HostError("the disk of /tmp is full")
            return real("process", None, ()).run(folder, role, arrays, *rest, **more)

    monkeypatch.setattr(work, "_sandbox", lambda *_: Full())
    code, _, err = run_tournament(*arguments)
    assert code == 0
    assert "the disk of /tmp is full" in err
    assert cell(tmp_path / "out", "copy", "equal")["reason"] == Reason.HOST
    monkeypatch.setattr(work, "_sandbox", real)
    assert run_tournament(*arguments)[0] == 0
    assert cell(tmp_path / "out", "copy", "equal")["score"] == 1.0


def test_a_report_that_cannot_be_drawn_costs_that_report_alone(run_tournament, csv, tmp_path, monkeypatch):
    real = reports.write_report

    def draw(result, arrays, path):
        if result["seeker"]["name"] == "equal":
            raise OverflowError("4711")
        real(result, arrays, path)

    monkeypatch.setattr(reports, "write_report", draw)
    code, _, err = run_tournament(write_all(tmp_path / "all"), "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert code == 0
    assert "no report of copy against equal" in err
    assert (cell(tmp_path / "out", "copy", "equal")["score"], cell(tmp_path / "out", "copy", "equal")["report"]) == (
        1.0,
        None,
    )
    assert (tmp_path / "out" / cell(tmp_path / "out", "copy", "nobody")["report"]).is_file()


# --- names, folders, logs, rights ---


def test_no_name_takes_anothers_place_or_data(run_tournament, csv, tmp_path):
    write_zip(tmp_path / "all/zed.zip", "hider", PLAYERS["hider_copy"])
    write_folder(tmp_path / "all", "seeker_nobody", PLAYERS["seeker_nobody"])
    out = tmp_path / "out"
    assert run_tournament(tmp_path / "all", "-d", csv, "-o", out, *QUICK)[0] == 0
    thief = "def hider(d):\n    return 'rescore'\n"
    write_zip(tmp_path / "all/hider_zed.zip", "hider", thief)
    write_zip(tmp_path / "all/again.zip", "hider", thief)
    assert run_tournament(tmp_path / "all", "-d", csv, "-o", out, *QUICK)[0] == 0
    assert statuses(out, "hiders") == {"zed": "ok", "hider_zed": Reason.NO_EARLIER, "again": Reason.NO_EARLIER}
    write_zip(tmp_path / "all/zed.zip", "hider", thief)  # its own it may have
    assert run_tournament(tmp_path / "all", "-d", csv, "-o", out, *QUICK)[0] == 0
    assert statuses(out, "hiders") == {"zed": "ok", "hider_zed": Reason.NO_EARLIER, "again": Reason.NO_EARLIER}


def test_no_two_matches_share_a_folder(run_tournament, csv, tmp_path):
    for name in ("good", "good-knn"):
        write_folder(tmp_path / "all", f"hider_{name}", PLAYERS["hider_copy"])
    for name in ("knn-v2", "v2"):
        write_folder(tmp_path / "all", f"seeker_{name}", PLAYERS["seeker_nobody"])
    assert run_tournament(tmp_path / "all", "-d", csv, "-o", tmp_path / "out", *QUICK)[0] == 0
    told = {entry["report"] for line in board(tmp_path / "out")["matrix"] for entry in line["cells"]}
    assert len(told) == 4
    for path in told:
        report = json.loads((tmp_path / "out" / path).with_name("report.json").read_text())
        assert path == f"matches/{report['hider']['name']}/{report['seeker']['name']}/report.html"


def test_escape_codes_reach_neither_terminal_nor_logs(run_tournament, csv, tmp_path):
    write_all(tmp_path / "all")
    source = "def hider(d):\n    print('\\x1b]0;owned\\x07\\x1b[2J', flush=True)\n    raise ValueError  # \x1b[31m\n"
    write_folder(tmp_path / "all", "hider_esc", source)
    code, printed, err = run_tournament(tmp_path / "all", "-d", csv, "-o", tmp_path / "out", *QUICK)
    assert code == 0
    texts = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.suffix in (".txt", ".json", ".csv")]
    assert not [text for text in (*texts, printed, err.replace("\r", "")) if "\x1b" in text or "\x07" in text]
    assert any("\\x1b]0;owned\\x07" in text for text in texts)


@pytest.mark.parametrize("program", ["match", "tournament"])
def test_what_is_written_is_its_owners_alone_also_in_a_folder_that_was_there(
    run_tournament, run_main, csv, tmp_path, program
):
    out = tmp_path / "out"
    out.mkdir(mode=0o755)
    if program == "match":
        assert run_main("-d", csv, "-o", out, "--skip_fp", "--skip_osa")[0] == 0
    else:
        assert run_tournament(write_all(tmp_path / "all"), "-d", csv, "-o", out, *QUICK)[0] == 0
    for path in out.rglob("*"):
        if path.is_file() and "submissions" not in path.parts:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert np.all([path.is_file() for path in out.glob("*.html")])


def test_the_console_names_the_cause_and_the_public_pages_do_not(run_tournament, tmp_path, rng):
    hider = write_folder(tmp_path / "all", "hider_broken", "import no_such_library\n\n\ndef hider(d):\n    pass\n")
    seeker = write_folder(tmp_path / "all", "seeker_s", "def seeker(d):\n    return [0] * len(d['enlarged_data'])\n")
    csv = write_csv(tmp_path / "stays.csv", rng)
    out = tmp_path / "out"
    code, _, console = run_tournament(hider, seeker, "-d", csv, "-o", out, *QUICK)
    assert code == 0
    cause = "ModuleNotFoundError: No module named 'no_such_library'"
    assert f"failed: hider broken: raised {cause}" in console
    assert cause in (out / "logs/organiser/hider_broken/hider.txt").read_text()
    for path in [*out.glob("leaderboard.*"), *(out / "logs/submitters").rglob("*.txt")]:
        assert cause not in path.read_text()
