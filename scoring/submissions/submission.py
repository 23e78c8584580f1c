"""Taking a stranger's submission in: a zip, a folder or a single `.py` file, checked and bounded on the way.

A submission's root holds `hider.py` or `seeker.py`, never both, usually `utils/` and `examples/`, and optionally
`Dockerimage`, one line that names the image to run it in.
"""

import hashlib
import posixpath
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from scoring.contract import ROLES, Role
from scoring.strangers import Reason, untrusted
from utils.arrays import UnsoundFileError, check_directory, sound_zip
from utils.errors import UserError

HOME = Path(__file__).resolve().parents[2]
SHARED = ("utils", "examples")  # what a single .py file may import
LEFT_OUT = {"__pycache__", "__MACOSX", ".git", ".DS_Store", ".ipynb_checkpoints"}  # clutter: never code that should run

MAX_FILES = 5_000
MAX_BYTES = 1 << 30
# Text packs 3 to 10 times smaller and DEFLATE can reach 1,032 times, which nothing but a bomb does.
MAX_RATIO = 100
RATIO_FREE_BYTES = 16 << 20  # below this, a high ratio hurts nobody (an array of zeros)
MAX_DIRECTORY_BYTES = MAX_FILES * 512
MAX_NAME_BYTES = 200  # file systems take 255, and copies get longer names for a while
MAX_DEPTH = 32
_LONGEST_LINK = 4096
INTAKE_SECONDS = 300.0

# The reference grammar of the distribution project: [host[:port]/]path[:tag][@digest].
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_IMAGE = re.compile(
    rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*(?::[0-9]{{1,5}})?/)?"
    rf"{_PATH_PART}(?:/{_PATH_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True)
class Submission:
    """A submission, unpacked and checked.

    Attributes
    ----------
    role : "hider" or "seeker"
    folder : Path
        Holds `hider.py` or `seeker.py`.
    image : str or None
        The Docker image it asks for.
    digest : str
        SHA-256 of its files' names and contents, in hexadecimal.
    """

    role: Role
    folder: Path
    image: str | None
    digest: str


def take_in(source: Path, destination: Path, role: Role | None = None) -> Submission:
    """Copy or unpack a submission into an empty folder, refusing what is not one.

    Parameters
    ----------
    source : Path
        A zip, a folder, or a `.py` file (which gets this repository's `utils/` and `examples/` beside it).
    destination : Path
        An empty or new folder.
    role : "hider" or "seeker", optional
        What it must be. Needed for a `.py` file whose name does not start with one of the two.

    Raises
    ------
    scoring.strangers.Failed
        Where it is missing, malformed, too large, unsafe to unpack, or not of that role.
    scoring.strangers.HostError
        Where this machine has no room for it.
    """
    destination.mkdir(parents=True, exist_ok=True)
    with untrusted(Reason.REFUSED, INTAKE_SECONDS):
        if source.is_dir():
            writer = _Writer(source.name, destination)
            for name, path in _files(source):
                writer.add_file(name, path)
        elif source.is_file() and source.suffix == ".py":
            role = role or _role_of_name(source)
            writer = _Writer(source.name, destination)
            writer.add_file(f"{role}.py", source)
            for name, path in package_files():
                writer.add_file(name, path)
        elif source.is_file():
            unpack(source, destination)
        else:
            raise UserError(f"there is no submission {source}")
        return inspect(destination, source.name, role)


def inspect(folder: Path, name: str, role: Role | None = None) -> Submission:
    """Tell an unpacked submission's role, image and digest.

    Raises
    ------
    UserError
        Where its root does not hold exactly one of hider.py and seeker.py, or that is not `role`, or `Dockerimage`
        is not one image reference.
    """
    found: list[Role] = [r for r in ROLES if (folder / f"{r}.py").is_file()]
    if len(found) != 1:
        what = "both hider.py and seeker.py" if found else "neither hider.py nor seeker.py"
        raise UserError(f"{name} holds {what} at its root; a submission is one of the two")
    if role is not None and found[0] != role:
        raise UserError(f"{name} is a {found[0]}, not a {role}")
    return Submission(found[0], folder, _image(folder, name), digest(folder))


def digest(folder: Path) -> str:
    """Return the SHA-256, in hexadecimal, over the sorted names and contents of a folder's files without caches."""
    total = hashlib.sha256()
    for name, path in sorted(_files(folder)):
        content = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                content.update(chunk)
        total.update(name.encode() + b"\0" + content.digest())
    return total.hexdigest()


def unpack(archive: Path, destination: Path) -> None:
    """Unpack a stranger's zip into an empty folder.

    Sizes are counted while inflating: what the headers claim is the sender's word. If all files lie in one folder, as
    many packers leave them, that folder is the root. A link to another file of the zip becomes a copy of that file.

    Raises
    ------
    UserError
        Where it is no readable zip, or holds absolute paths, `..`, links that lead out, devices, encrypted or doubled
        members, too many files, or too many bytes in all or for its packed size.
    """
    refused = f"{archive.name} was refused"
    budget = min(MAX_BYTES, max(RATIO_FREE_BYTES, MAX_RATIO * archive.stat().st_size))
    writer = _Writer(archive.name, destination, budget)
    try:
        with archive.open("rb") as file:
            check_directory(file, MAX_DIRECTORY_BYTES)
            with sound_zip(), zipfile.ZipFile(file) as members:
                wanted = members.infolist()
                for info in wanted:
                    _check_member(info, refused)
                inside = [info for info in wanted if not info.is_dir() and not _is_clutter(info.filename)]
                root = _root([info.filename for info in inside])
                for info in inside:
                    with members.open(_followed(info, members, refused)) as stream:
                        writer.add(info.filename.removeprefix(root), stream)
    except UnsoundFileError as error:
        raise UserError(f"{refused}: {error}") from error


def package_files() -> Iterator[tuple[str, Path]]:
    """Yield the names and paths of what travels with a single `.py` file: the `utils/` and `examples/` here."""
    for shared in SHARED:
        for name, path in _files(HOME / shared):
            yield f"{shared}/{name}", path


def check_image(image: str, where: str) -> None:
    """Check that a text is a Docker image reference.

    Raises
    ------
    UserError
        Starting with `where`, where it is none.
    """
    if len(image) > 255 or not _IMAGE.fullmatch(image):
        raise UserError(f"{where} must be one line, the name of a Docker image, not {_shown(image)}")


def _check_member(info: zipfile.ZipInfo, refused: str) -> None:
    check_name(info.filename, refused)
    # Windows packers leave the Unix mode 0. Where a link leads is looked at when it is followed.
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise UserError(f"{refused}: {_shown(info.filename)} is a device")
    if info.flag_bits & 0x1:
        raise UserError(f"{refused}: {_shown(info.filename)} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(f"{refused}: {_shown(info.filename)} is packed by another method than deflate")


def _is_clutter(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(LEFT_OUT.intersection(parts)) or parts[-1].startswith("._")  # macOS keeps file attributes in these


def _root(names: Sequence[str]) -> str:
    """Return the folder that holds all files, with a slash at its end, or nothing if the root holds a player."""
    if any(name in [f"{role}.py" for role in ROLES] for name in names):
        return ""
    first = {name.partition("/")[0] for name in names}
    return f"{first.pop()}/" if len(first) == 1 and all("/" in name for name in names) else ""


def _followed(info: zipfile.ZipInfo, members: zipfile.ZipFile, refused: str) -> zipfile.ZipInfo:
    """Return the plain member that a link leads to, or the member itself if it is no link."""
    if not stat.S_ISLNK(info.external_attr >> 16):
        return info
    with members.open(info) as stream:
        target = stream.read(_LONGEST_LINK)
    try:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(info.filename), target.decode("utf-8")))
        found = members.getinfo(path)
    except (KeyError, UnicodeDecodeError) as error:
        raise UserError(f"{refused}: the link {_shown(info.filename)} leads to no file inside it") from error
    if found.is_dir() or stat.S_ISLNK(found.external_attr >> 16):
        raise UserError(f"{refused}: the link {_shown(info.filename)} leads to a folder or to another link")
    return found


def check_name(name: str, refused: str) -> tuple[str, ...]:
    """Return the parts of a file's path inside a submission, with slashes between them.

    Raises
    ------
    UserError
        Starting with `refused`, where it is empty, leads out, is no UTF-8, or is too long or deep for a file system.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or re.search(r"[\\:\x00-\x1f]", name):
        raise UserError(f"{refused}: {_shown(name)} is not a path inside it")
    try:
        sizes = [len(part.encode("utf-8")) for part in parts]
    except UnicodeEncodeError as error:
        raise UserError(f"{refused}: the name {_shown(name)} is not UTF-8") from error
    if max(sizes) > MAX_NAME_BYTES or len(parts) > MAX_DEPTH:
        raise UserError(
            f"{refused}: {_shown(name)} is longer than {MAX_NAME_BYTES} bytes or deeper than {MAX_DEPTH} folders"
        )
    return parts


class _Writer:
    """Writes a submission's files below one folder, within the bounds on their number and size."""

    def __init__(self, source: str, destination: Path, max_bytes: int = MAX_BYTES) -> None:
        self.refused = f"{source} was refused"
        self.destination = destination
        self.files = 0
        self.bytes_left = max_bytes
        if any(destination.iterdir()):
            raise UserError(f"{destination} is not empty; unpack a submission into a new folder")

    def add_file(self, name: str, path: Path) -> None:
        with path.open("rb") as stream:
            self.add(name, stream)

    def add(self, name: str, stream: IO[bytes]) -> None:
        parts = check_name(name, self.refused)
        if LEFT_OUT.intersection(parts):
            return
        self.files += 1
        if self.files > MAX_FILES:
            raise UserError(f"{self.refused}: it holds more than {MAX_FILES} files")
        target = self.destination.joinpath(*parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:  # x: on any file system, no member may replace another
                while chunk := stream.read(1 << 16):
                    self.bytes_left -= len(chunk)
                    if self.bytes_left < 0:
                        raise UserError(f"{self.refused}: unpacked it is too large, or too large for its packed size")
                    file.write(chunk)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise UserError(f"{self.refused}: it holds {_shown(name)} twice") from error


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names (relative, with slashes) and paths of a folder's files. Refuses links, devices and depths."""
    ahead: list[tuple[str, Path]] = [("", folder)]
    seen = 0
    while ahead:
        before, inside = ahead.pop()
        for path in inside.iterdir():
            if path.name in LEFT_OUT:
                continue
            seen += 1
            name = before + path.name
            check_name(name, f"{_shown(folder.name)} was refused")
            if seen > 2 * MAX_FILES:
                raise UserError(f"{_shown(folder.name)} was refused: it holds more than {MAX_FILES} files")
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                ahead.append((f"{name}/", path))
            elif stat.S_ISREG(mode):
                yield name, path
            else:
                raise UserError(f"{_shown(name)} is a link or device; a submission holds plain files only")


def _image(folder: Path, name: str) -> str | None:
    path = folder / "Dockerimage"
    if not path.is_file():
        return None
    with path.open("rb") as file:
        image = file.read(1024).strip().decode("ascii", errors="replace")
    check_image(image, f"{name}: Dockerimage")
    return image


def _role_of_name(source: Path) -> Role:
    for role in ROLES:
        if source.stem.startswith(role):
            return role
    raise UserError(
        f"cannot tell whether {source.name} is a hider or a seeker; name it hider_<name>.py or seeker_<name>.py"
    )


def _shown(text: str) -> str:
    return ascii(text[:80])
