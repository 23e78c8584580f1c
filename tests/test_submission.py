"""A stranger's zip, folder or file is taken in whole and safe, or refused in one line."""

import io
import stat
import struct
import tracemalloc
import zipfile

import pytest

from scoring.submissions import submission
from scoring.submissions.submission import digest, take_in
from utils.errors import UserError

HIDER = "def hider(input_dict):\n    return input_dict['data']\n"


@pytest.fixture
def packed(tmp_path):
    """Make a zip of the given members: text, or a ZipInfo with content."""

    def pack(*members, name="team.zip", compression=zipfile.ZIP_DEFLATED):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", compression) as archive:
            for member, content in members:
                archive.writestr(member, content)
        return path

    return pack


def member(name, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def refusal(source, tmp_path, role=None):
    with pytest.raises(UserError) as caught:
        take_in(source, tmp_path / "in" / "folder", role)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_zip_is_unpacked_and_told_apart_with_its_image(packed, tmp_path):
    source = packed(("hider.py", HIDER), ("utils/x.py", "A = 1\n"), ("Dockerimage", "team/image:1.2\n"))
    taken = take_in(source, tmp_path / "folder")
    assert (taken.role, taken.image) == ("hider", "team/image:1.2")
    assert (taken.folder / "hider.py").read_text() == HIDER
    assert (taken.folder / "utils" / "x.py").is_file()


@pytest.mark.parametrize(
    "name", ["../evil.py", "a/../../evil.py", "/etc/evil.py", "..\\evil.py", "C:evil.py", "a\nb.py"]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(packed, tmp_path, name):
    assert "not a path inside it" in refusal(packed(("hider.py", HIDER), (name, "x")), tmp_path)
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_devices_are_refused(packed, tmp_path, kind):
    source = packed(("hider.py", HIDER), (member("data", kind | 0o777), "/etc/passwd"))
    assert "is a device" in refusal(source, tmp_path)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/etc/passwd", "leads to no file inside it"),
        ("../../etc/passwd", "leads to no file inside it"),
        ("x.py/../../../etc/passwd", "leads to no file inside it"),
        ("link", "or to another link"),
        (b"\xff\xfe", "leads to no file inside it"),
    ],
)
def test_a_link_that_leads_out_or_in_a_circle_is_refused(packed, tmp_path, target, reason):
    source = packed(("hider.py", HIDER), ("utils/x.py", "A = 1"), (member("utils/link", stat.S_IFLNK | 0o777), target))
    assert reason in refusal(source, tmp_path)


def test_a_link_to_a_file_of_the_zip_becomes_a_copy(packed, tmp_path):
    link = member("examples/hider/x.py", stat.S_IFLNK | 0o777)
    taken = take_in(packed(("hider.py", HIDER), ("utils/x.py", "A = 1"), (link, "../../utils/x.py")), tmp_path / "to")
    copy = taken.folder / "examples" / "hider" / "x.py"
    assert copy.read_text() == "A = 1"
    assert not copy.is_symlink()


def test_a_zip_with_one_folder_at_its_top_and_a_packers_clutter_is_taken_in(packed, tmp_path):
    source = packed(
        ("Archive 2/hider.py", HIDER),
        ("Archive 2/utils/x.py", "A = 1"),
        ("Archive 2/.DS_Store", "clutter"),
        ("Archive 2/utils/._x.py", "clutter"),
        ("__MACOSX/Archive 2/._hider.py", "clutter"),
        ("Archive 2/Dockerimage", "team/image:1"),
    )
    taken = take_in(source, tmp_path / "to")
    assert (taken.role, taken.image) == ("hider", "team/image:1")
    found = {path.relative_to(taken.folder).as_posix() for path in taken.folder.rglob("*") if path.is_file()}
    assert found == {"hider.py", "utils/x.py", "Dockerimage"}


def test_files_in_two_folders_are_no_submission(packed, tmp_path):
    source = packed(("one/hider.py", HIDER), ("two/seeker.py", HIDER))
    assert "neither hider.py nor seeker.py at its root" in refusal(source, tmp_path)


def test_an_encrypted_member_is_refused(packed, tmp_path):
    source = packed(("hider.py", HIDER))
    content = bytearray(source.read_bytes())
    content[6] |= 1  # the flag in the member's own header
    content[content.index(b"PK\1\2") + 8] |= 1  # and in the table of contents
    source.write_bytes(content)
    assert "is encrypted" in refusal(source, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_cannot_replace_another(packed, tmp_path):
    assert "twice" in refusal(packed(("hider.py", HIDER), ("hider.py", "evil")), tmp_path)


def test_a_file_cannot_be_a_folder_too(packed, tmp_path):
    assert "twice" in refusal(packed(("hider.py", HIDER), ("hider.py/x", "evil")), tmp_path)


def test_a_bomb_is_stopped_while_it_inflates(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "RATIO_FREE_BYTES", 1 << 16)
    source = packed(("hider.py", HIDER), ("zeros", bytes(4 << 20)))
    assert source.stat().st_size < 8192
    assert "too large" in refusal(source, tmp_path)
    assert (tmp_path / "in" / "folder" / "zeros").stat().st_size <= submission.MAX_RATIO * source.stat().st_size


def test_a_bomb_that_claims_to_be_small_is_stopped_too(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "RATIO_FREE_BYTES", 1 << 16)
    source = packed(("zeros", bytes(4 << 20)))
    content = bytearray(source.read_bytes())
    for at in (22, content.index(b"PK\1\2") + 24):  # the unpacked size, in both headers
        content[at : at + 4] = struct.pack("<L", 10)
    source.write_bytes(content)
    assert refusal(source, tmp_path)
    assert sum(p.stat().st_size for p in (tmp_path / "in").rglob("*") if p.is_file()) <= 1 << 20


def test_too_many_files_are_refused(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MAX_FILES", 5)
    source = packed(("hider.py", HIDER), *((f"f{i}", "x") for i in range(6)))
    assert "more than 5 files" in refusal(source, tmp_path)


def test_a_huge_table_of_contents_is_refused_before_it_is_read(packed, tmp_path, monkeypatch):
    source = packed(*((f"f{i}", "") for i in range(20_000)), compression=zipfile.ZIP_STORED)
    monkeypatch.setattr(submission, "MAX_DIRECTORY_BYTES", 1 << 16)
    tracemalloc.start()
    try:
        assert "too many files" in refusal(source, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_the_table_of_a_zip64_is_bounded_too(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 100)  # so that a small zip gets the large zips' records
    source = packed(*((f"f{i}", "") for i in range(200)))
    monkeypatch.setattr(submission, "MAX_DIRECTORY_BYTES", 1 << 10)
    assert b"PK\6\6" in source.read_bytes()
    assert "too many files" in refusal(source, tmp_path)


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\5\6" + bytes(18), b"PK\5\6"])
def test_what_is_no_zip_is_refused(tmp_path, content):
    source = tmp_path / "team.zip"
    source.write_bytes(content)
    assert refusal(source, tmp_path)


def test_a_damaged_zip_is_refused(packed, tmp_path):
    source = packed(("hider.py", HIDER * 100))
    content = bytearray(source.read_bytes())
    content[45] ^= 0xFF
    source.write_bytes(content)
    assert "no sound zip" in refusal(source, tmp_path)


def test_exactly_one_of_hider_and_seeker_is_at_the_root(packed, tmp_path):
    both = packed(("hider.py", HIDER), ("seeker.py", ""), name="both.zip")
    assert "both hider.py and seeker.py" in refusal(both, tmp_path)
    deeper = packed(("team/code/hider.py", HIDER), ("README", ""), name="deeper.zip")
    with pytest.raises(UserError, match=r"neither hider\.py nor seeker\.py"):
        take_in(deeper, tmp_path / "other")


def test_a_seeker_is_not_taken_for_a_hider(packed, tmp_path):
    assert "is a seeker, not a hider" in refusal(packed(("seeker.py", "")), tmp_path, role="hider")


@pytest.mark.parametrize(
    "image",
    [
        "python:3.6",
        "a/b_c/d-e:V1.0",
        "localhost:5000/x",
        "ghcr.io/t/i:1@sha256:" + "0" * 64,
        "tensorflow/tensorflow:1.15.2-py3",
    ],
)
def test_an_image_reference_is_read(packed, tmp_path, image):
    assert take_in(packed(("hider.py", HIDER), ("Dockerimage", image + "\n")), tmp_path / "folder").image == image


@pytest.mark.parametrize(
    "image", ["", "a/Upper", "a b", "a\nb", "a; rm -rf /", "--privileged", "a:b:c:d", "x" * 300, "../x", "é", "a//b"]
)
def test_what_is_no_image_reference_is_refused(packed, tmp_path, image):
    assert "Dockerimage must be one line" in refusal(packed(("hider.py", HIDER), ("Dockerimage", image)), tmp_path)


def test_a_single_file_travels_with_utils_and_examples(tmp_path):
    source = tmp_path / "hider_mine.py"
    source.write_text(HIDER)
    taken = take_in(source, tmp_path / "folder")
    assert taken.role == "hider"
    assert (taken.folder / "hider.py").read_text() == HIDER
    assert (taken.folder / "utils" / "data_preprocess.py").is_file()
    assert not list(taken.folder.rglob("__pycache__"))


def test_a_single_file_of_unknown_role_is_refused(tmp_path):
    source = tmp_path / "mine.py"
    source.write_text(HIDER)
    assert "cannot tell whether" in refusal(source, tmp_path)


def test_a_folder_goes_through_the_same_door(tmp_path):
    source = tmp_path / "team"
    source.mkdir()
    (source / "hider.py").write_text(HIDER)
    assert take_in(source, tmp_path / "folder").role == "hider"
    (source / "link").symlink_to("/etc/passwd")
    assert "is a link or device" in refusal(source, tmp_path)


def test_the_digest_tells_names_and_contents_and_nothing_else(packed, tmp_path):
    first = take_in(packed(("hider.py", HIDER), ("a", "1")), tmp_path / "1").digest
    reordered = take_in(packed(("a", "1"), ("hider.py", HIDER), name="other.zip"), tmp_path / "2")
    assert reordered.digest == first
    (reordered.folder / "__pycache__").mkdir()
    (reordered.folder / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert digest(reordered.folder) == first
    (reordered.folder / "a").write_text("2")
    assert digest(reordered.folder) != first
    (reordered.folder / "a").rename(reordered.folder / "b")
    (reordered.folder / "b").write_text("1")
    assert digest(reordered.folder) != first


def test_a_submission_is_not_mixed_into_what_is_there(packed, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old.py").touch()
    with pytest.raises(UserError, match="is not empty"):
        take_in(packed(("hider.py", HIDER)), tmp_path / "folder")


def test_a_missing_submission_is_named(tmp_path):
    assert "there is no submission" in refusal(tmp_path / "nothing.zip", tmp_path)


def test_only_deflate_is_unpacked(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("hider.py", HIDER)
    source = tmp_path / "team.zip"
    source.write_bytes(buffer.getvalue())
    assert "another method than deflate" in refusal(source, tmp_path)
