"""PhysioNet 2012 read as it is downloaded; prepare_data.py says what it wrote, or in one line what was wrong."""

import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile

import numpy as np
import polars
import pytest
from conftest import SHARED_DATA

import prepare_data
from scoring.data import longitudinal, physionet
from utils.data_preprocess import load_and_reshape, read_longitudinal_csv, reshape_longitudinal
from utils.errors import UserError

SET_A = SHARED_DATA / "physionet2012-set-a.tar.gz"


def record(identity, *lines, age=54):
    head = ["Time,Parameter,Value", f"00:00,RecordID,{identity}", f"00:00,Age,{age}"]
    return ("\n".join([*head, *lines]) + "\n").encode()


def make_tar(path, records, folder="set-a", mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in records.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def make_zip(path, records, folder="set-a"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in records.items():
            archive.writestr(f"{folder}/{name}", content)
    return path


def make_folder(path, records):
    path.mkdir(parents=True)
    for name, content in records.items():
        (path / name).write_bytes(content)
    return path


def make_tree(path, records):
    """A folder that holds the set one level below, as unpacking an archive leaves it."""
    make_folder(path / "set-a", records)
    return path


MAKERS = {"s.tar.gz": make_tar, "s.zip": make_zip, "folder": make_folder, "tree": make_tree}

TWO_STAYS = {
    "200.txt": record(200, "00:07,HR,73", "01:30,HR,80", "01:30,Temp,36.6"),
    "100.txt": record(100, "00:07,HR,60.5"),
}


def one_stay(tmp_path, *lines):
    return physionet.read([make_folder(tmp_path / "one", {"7.txt": record(7, *lines)})])


def refused(paths):
    """The error's text, which must be one line."""
    with pytest.raises(UserError) as caught:
        physionet.read(paths)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def prepare(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["prepare_data.py", *map(str, arguments)])
        try:
            code = prepare_data.main()
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# ------------------------------------------------------------------------------------------------ the rules


@pytest.mark.parametrize("name", MAKERS)
def test_an_archive_and_a_folder_give_the_same_table(tmp_path, name):
    table = physionet.read([MAKERS[name](tmp_path / name, TWO_STAYS)])
    assert table.columns == ["admissionid", "time", *physionet.FEATURES]
    assert table.select("admissionid", "time", "HR", "Temp").rows() == [
        (100, 0.0, None, None),
        (100, 7 / 60, 60.5, None),
        (200, 0.0, None, None),
        (200, 7 / 60, 73.0, None),
        (200, 1 + 30 / 60, 80.0, 36.6),
    ]
    assert physionet.is_physionet(tmp_path / name)


def test_the_features_are_the_37_parameters_in_ascii_order():
    assert len(physionet.FEATURES) == 37
    assert list(physionet.FEATURES) == sorted(physionet.FEATURES)


def test_a_value_of_minus_1_is_missing_but_its_row_stays(tmp_path):
    table = one_stay(tmp_path, "02:00,Weight,-1", "03:00,Weight,-1", "03:00,Weight,80")
    assert table.select("time", "Weight").rows() == [(0.0, None), (2.0, None), (3.0, 80.0)]


def test_only_minus_1_is_missing_not_every_negative_value(tmp_path):
    assert one_stay(tmp_path, "02:00,Temp,-17.8")["Temp"].to_list() == [None, -17.8]


def test_several_values_in_one_cell_are_averaged(tmp_path):
    values = [0.1, 0.2, 0.7, 1e-3, 1.422e4]
    table = one_stay(tmp_path, *(f"02:00,HR,{value}" for value in values))
    assert table["HR"].to_list()[1] == pytest.approx(np.mean(values), rel=1e-15)


def test_a_stay_with_nothing_but_descriptors_keeps_a_row(tmp_path):
    table = one_stay(tmp_path, "00:00,Height,170", "00:00,ICUType,4")
    assert table.height == 1
    assert table.select(polars.all().exclude("admissionid", "time")).null_count().sum_horizontal().item() == 37


def test_a_line_without_a_parameters_name_measures_nothing(tmp_path):
    assert one_stay(tmp_path, "02:00,HR,70", "07:11,,", "08:11,,5")["time"].to_list() == [0.0, 2.0]


def test_windows_line_ends_and_a_missing_last_newline_are_read(tmp_path):
    content = record(7, "02:00,HR,70").replace(b"\n", b"\r\n")[:-2]
    table = physionet.read([make_folder(tmp_path / "one", {"7.txt": content})])
    assert table["HR"].to_list() == [None, 70.0]


def test_outcomes_and_other_files_are_ignored(tmp_path):
    other = {"Outcomes-a.txt": b"RecordID,SAPS-I\n1,2\n", ".DS_Store": b"\0", "readme": b"hello"}
    expected = physionet.read([make_tar(tmp_path / "plain.tar.gz", TWO_STAYS)])
    for name, make in MAKERS.items():
        assert physionet.read([make(tmp_path / f"more-{name}", TWO_STAYS | other)]).equals(expected)


def test_several_sets_are_one_table_with_the_same_columns(tmp_path):
    one = make_tar(tmp_path / "set-b.tar.gz", {"300.txt": record(300, "00:07,pH,7.4")})
    two = make_zip(tmp_path / "set-a.zip", TWO_STAYS)
    table = physionet.read([one, two])
    assert table["admissionid"].unique().sort().to_list() == [100, 200, 300]
    assert table.columns == physionet.read([two]).columns


def test_a_csv_is_not_taken_for_physionet(tmp_path):
    (tmp_path / "stays.csv").write_text("admissionid,time\n")
    assert not physionet.is_physionet(tmp_path / "stays.csv")
    assert not physionet.is_physionet(tmp_path)


@pytest.mark.skipif(not SET_A.is_file(), reason=f"PhysioNet 2012 set-a is not at {SET_A}")
def test_set_a_is_what_the_2020_kit_loads(tmp_path):
    table = physionet.read([SET_A])
    assert "4,000 stays, 292,178 rows, 37 features" in longitudinal.write_table([table], tmp_path / "a.csv")
    data, mask = load_and_reshape(tmp_path / "a.csv", 100)
    assert data.shape == (4000, 100, 38)
    assert np.isnan(data).sum() == 8_920_918
    assert mask.sum() == 4_380_412
    assert f"{np.nansum(data):.3f}" == "124167389.052"
    np.testing.assert_array_equal(reshape_longitudinal(table, 100)[0], data)  # the CSV keeps every bit


# --------------------------------------------------------------------------------------------- bad records


@pytest.mark.parametrize(
    "line",
    ["02:00,HR", "02:00,HR,70,5", "02:00,HR,high", "2 o'clock,HR,70", "02:00,HR,nan", "02:75,HR,70", "", "02:00,HR,"],
)
@pytest.mark.parametrize("name", ["s.tar.gz", "s.zip"])
def test_a_malformed_line_is_named_by_member_and_number(tmp_path, line, name):
    records = TWO_STAYS | {"300.txt": record(300, "01:00,HR,70", line, "03:00,HR,71")}
    assert f"{name}:set-a/300.txt, line 5:" in refused([MAKERS[name](tmp_path / name, records)])


def test_an_unknown_parameter_is_named_with_its_file(tmp_path):
    records = TWO_STAYS | {"300.txt": record(300, "01:00,Mood,3")}
    said = refused([make_zip(tmp_path / "s.zip", records)])
    assert "300.txt" in said
    assert "'Mood'" in said


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "line 1"),
        (b"RecordID,SAPS\n1,2\n", "line 1"),
        (b"Time,Parameter,Value\n00:00,Age,5\n", "line 2"),
        (b"\xff\0", "line 1"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, content, what):
    assert f"300.txt, {what}" in refused([make_folder(tmp_path / "f", {"300.txt": content})])


def test_a_recordid_in_two_sets_is_an_error_that_names_both(tmp_path):
    one = make_tar(tmp_path / "set-a.tar.gz", TWO_STAYS)
    two = make_zip(tmp_path / "set-b.zip", {"100.txt": record(100)}, folder="set-b")
    said = refused([one, two])
    assert "RecordID 100" in said
    assert "set-a.tar.gz:set-a/100.txt" in said
    assert "set-b.zip:set-b/100.txt" in said


def test_a_stay_is_who_its_record_says_whatever_the_file_is_called(tmp_path):
    table = physionet.read([make_folder(tmp_path / "f", {"1.txt": record(42)})])
    assert table["admissionid"].to_list() == [42]


# -------------------------------------------------------------------------------------------- bad archives


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_an_archive_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("set-a/300.txt")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    assert "link or a device" in refused([tmp_path / "s.tar.gz"])


def test_links_in_a_zip_or_a_folder_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        member = zipfile.ZipInfo("set-a/300.txt")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    assert "link or a device" in refused([tmp_path / "s.zip"])
    folder = make_folder(tmp_path / "f", TWO_STAYS)
    (folder / "300.txt").symlink_to("/etc/passwd")
    assert "link or a device" in refused([folder])


def test_nothing_is_extracted_wherever_a_name_points(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    archive = make_tar(tmp_path / "s.tar.gz", TWO_STAYS, folder="../..")
    before = sorted(tmp_path.rglob("*"))
    assert physionet.read([archive])["admissionid"].n_unique() == 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", MAKERS)
def test_an_absurdly_large_record_is_refused(tmp_path, name):
    records = {"300.txt": record(300) + b"00:01,HR,70\n" * 100_000}
    assert "too large" in refused([MAKERS[name](tmp_path / name, records)])


@pytest.mark.parametrize("name", ["s.tar.gz", "s.zip"])
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr(physionet, "MAX_ARCHIVE_BYTES", 100_000)
    records = {f"{i}.txt": record(i) + b"00:01,HR,70\n" * 1000 for i in range(1, 30)}
    assert "too large" in refused([MAKERS[name](tmp_path / name, records)])


def test_a_bomb_hidden_in_a_tars_own_headers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(physionet, "MAX_ARCHIVE_BYTES", 100_000)
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 50_000_000
    with gzip.open(tmp_path / "s.tar.gz", "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(50_000_000))
    assert "too large" in refused([tmp_path / "s.tar.gz"])


@pytest.mark.parametrize("name", ["s.tar.gz", "s.zip"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_is_said_to_be_damaged(tmp_path, name, damage):
    generator = np.random.default_rng(0)
    records = {
        f"{i}.txt": record(i, *(f"{j:02d}:00,HR,{generator.integers(50, 150)}" for j in range(48)))
        for i in range(1, 30)
    }
    path = MAKERS[name](tmp_path / name, records)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    said = refused([path])
    assert "damaged" in said or "expected" in said


def test_a_zip_whose_index_points_outside_it_is_said_to_be_damaged(tmp_path):
    path = make_zip(tmp_path / "s.zip", TWO_STAYS)
    content = path.read_bytes()
    path.write_bytes(content[:-6] + b"\xff\xff\xff\x00" + content[-2:])  # the end record's offset of the index
    assert "damaged" in refused([path])


def test_what_is_no_archive_or_holds_no_records_or_is_missing_is_said(tmp_path):
    (tmp_path / "s.zip").write_text("not an archive at all")
    assert "damaged or no .tar.gz or .zip" in refused([tmp_path / "s.zip"])
    (tmp_path / "empty.tar.gz").write_bytes(b"")
    assert "damaged or no" in refused([tmp_path / "empty.tar.gz"])
    for name in ("none.tar.gz", "none.zip"):
        path = (make_tar if "tar" in name else make_zip)(tmp_path / name, {"readme": b"hi"})
        assert "no PhysioNet 2012 records" in refused([path])
    assert "no PhysioNet 2012 records" in refused([make_folder(tmp_path / "f", {"readme": b"hi"})])
    assert "not found" in refused([tmp_path / "nowhere.tar.gz"])


# ----------------------------------------------------------------------------------------- the command line


def test_the_command_writes_the_csv_and_says_what_is_in_it(tmp_path, prepare):
    code, out, err = prepare("physionet2012", make_tar(tmp_path / "s.tar.gz", TWO_STAYS), "-o", tmp_path / "o.csv")
    assert (code, err) == (0, "")
    assert f"{tmp_path / 'o.csv'}: 2 stays, 5 rows, 37 features, 97.8% missing" in out
    assert (tmp_path / "o.csv").read_text().splitlines()[0] == "admissionid,time," + ",".join(physionet.FEATURES)
    assert read_longitudinal_csv(tmp_path / "o.csv").equals(physionet.read([tmp_path / "s.tar.gz"]))


def test_the_simulate_command_gives_the_same_file_for_the_same_seed(tmp_path, prepare):
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        code, out, _ = prepare("simulate", "--stays", 5, "--features", 8, "--seed", seed, "-o", tmp_path / name)
        assert code == 0
        assert "5 stays" in out
        digests.append(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--stays", "1"],
        ["simulate", "--stays", "many"],
        ["simulate", "--stays", "5", "--features", "0"],
        ["simulate", "--stays", "5", "--seed", "-1"],
        ["simulate"],
        ["physionet2012", "nowhere.zip"],
        ["physionet2012"],
        ["mimic"],
        [],
    ],
)
def test_bad_arguments_exit_2_with_a_line_and_leave_an_existing_file_as_it_was(tmp_path, prepare, arguments):
    output = tmp_path / "o.csv"
    output.write_text("as it was")
    code, out, err = prepare(*arguments, "-o", output)
    assert (code, out) == (2, "")
    assert "error: " in err.splitlines()[-1]
    assert "Traceback" not in err
    assert output.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["o.csv"]


def test_an_existing_file_is_replaced_only_when_the_new_one_is_whole(tmp_path, prepare, monkeypatch):
    output = tmp_path / "o.csv"
    output.write_text("as it was")
    from scoring.data import simulate

    whole = simulate.tables(600, 3, 0)

    def killed(*_):
        yield next(whole)
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "tables", killed)
    code, _, err = prepare("simulate", "--stays", 600, "-o", output)
    assert code == 130
    assert "stopped" in err
    assert output.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["o.csv"]


def test_an_output_that_cannot_be_written_is_an_error(tmp_path, prepare):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for output, what in (
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "or a device"),
        (tmp_path / "file" / "o.csv", "file"),
    ):
        code, _, err = prepare("simulate", "--stays", 3, "-o", output)
        assert code == 2
        assert what in err
        assert len(err.strip().splitlines()) == 1
    if os.geteuid() != 0:  # root may write everywhere
        (tmp_path / "closed").mkdir(mode=0o555)
        assert prepare("simulate", "--stays", 3, "-o", tmp_path / "closed" / "o.csv")[0] == 2


def test_debug_shows_the_traceback(tmp_path, prepare):
    with pytest.raises(UserError):
        prepare("simulate", "--stays", 1, "--debug", "-o", tmp_path / "o.csv")
