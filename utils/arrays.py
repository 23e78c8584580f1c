"""Reading `.npz` files that others wrote: nothing in them is believed before it is checked, and sizes come first.

NumPy's own reader hands a header to `ast.literal_eval` and allocates what the header claims. Here a header is at most
4 KiB, has one form, and claims exactly the bytes that follow it, so a file costs no more memory than its content.
"""

from __future__ import annotations

import contextlib
import errno
import math
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from utils.errors import UserError

MAX_HEADER_BYTES = 4096
MAX_DIMENSIONS = 8
MAX_MEMBERS = 64
MAX_RATIO = 1032  # of DEFLATE: two bits for 258 bytes
_CHUNK = 1 << 20
# What NumPy has written since its first version: three keys in this order, padded with spaces.
_HEADER = re.compile(
    r"\{'descr': '(?P<descr>[<>|=]?(?:[biuf][1248]|U\d{1,4}))', "
    r"'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}L?, ?)*(?:\d{1,18}L?)?)\),? ?\} *\n?"
)
_END, _END64, _LOCATOR = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")


class UnsoundFileError(ValueError):
    """A file is not what it should be. The text says what is wrong in our words. It may quote a size from the file."""


Expected = Callable[[str, tuple[int, ...], np.dtype], bool]


def read_npz(file: IO[bytes], expected: Expected, *, compressed: bool = True) -> dict[str, np.ndarray]:
    """Read the arrays of an `.npz` file of unknown origin.

    Parameters
    ----------
    file : binary file
        Open for reading, with a position that can be set.
    expected : callable
        Called with each array's name, shape and dtype before a byte of its values is read. It returns False to pass the
        array over, and raises if the file is to be refused. It bounds the memory that a compressed file can ask for.
    compressed : bool
        Take DEFLATE too, not only stored members.

    Returns
    -------
    dict of str to ndarray
        In the order of the file. The dtypes are bool, integers, floats or fixed-length text.

    Raises
    ------
    UnsoundFileError
        For any file that is not an archive of plain arrays. What `expected` raises goes through.
    OSError
        Where this machine cannot read.
    """
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
    check_directory(file, MAX_MEMBERS * 1024)
    size = file.seek(0, 2)
    found: dict[str, np.ndarray] = {}
    with sound_zip(), zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise UnsoundFileError(f"it holds more than {MAX_MEMBERS} arrays")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or member.compress_type not in methods or member.flag_bits & 1:
                raise UnsoundFileError("it holds an array twice, or one packed in another way")
            ratio = 1 if member.compress_type == zipfile.ZIP_STORED else MAX_RATIO
            if member.compress_size > size or member.file_size > ratio * member.compress_size:
                raise UnsoundFileError("an array is not as large as the archive says")
            with archive.open(member) as stream:
                shape, fortran, dtype, length = _read_header(stream)
                if not expected(name, shape, dtype):
                    continue
                if math.prod(shape) * dtype.itemsize != member.file_size - length:
                    raise UnsoundFileError("an array is not as large as its header says")
                found[name] = _read_values(stream, shape, fortran, dtype)
    return found


def check_directory(file: IO[bytes], limit: int) -> None:
    """Bound a zip's table of contents before `zipfile` reads it whole into memory.

    Raises
    ------
    UnsoundFileError
        Where the table is larger than `limit` bytes, lies outside the file, or there is none.
    """
    size = file.seek(0, 2)
    tail_at = max(0, size - (1 << 16) - _END.size - _LOCATOR.size - _END64.size)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    # zipfile takes a record that ends the file first, and else the last one it finds.
    at = len(tail) - _END.size if tail[-_END.size :].startswith(b"PK\5\6") else tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise UnsoundFileError("it is no zip")
    directory, begins = _END.unpack_from(tail, at)[5:7]
    if at >= _LOCATOR.size and tail.startswith(b"PK\6\7", at - _LOCATOR.size):
        at64 = at - _LOCATOR.size - _END64.size
        position = _LOCATOR.unpack_from(tail, at - _LOCATOR.size)[2]
        if at64 < 0 or not tail.startswith(b"PK\6\6", at64) or position != tail_at + at64:
            raise UnsoundFileError("its table of contents is malformed")
        directory64, begins64 = _END64.unpack_from(tail, at64)[8:10]
        directory = max(directory if directory != 0xFFFFFFFF else 0, directory64)
        begins = max(begins if begins != 0xFFFFFFFF else 0, begins64)
    if directory > limit:
        raise UnsoundFileError("it holds too many files")
    if begins + directory > size:
        raise UnsoundFileError("its table of contents is malformed")


@contextlib.contextmanager
def sound_zip() -> Iterator[None]:
    """Turn whatever `zipfile` and `zlib` raise on a malformed archive into `UnsoundFileError`."""
    try:
        yield
    except (UnsoundFileError, UserError):
        raise
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place before the file's beginning or beyond all ends
            raise UnsoundFileError("it is no sound zip") from error
        raise
    except Exception as error:  # ten kinds by the fuzz test, MemoryError and OverflowError among them
        raise UnsoundFileError("it is no sound zip") from error


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Read an array's header: shape, whether it is in Fortran's order, dtype, and the header's bytes."""
    begin = stream.read(8)
    sizes = {b"\x93NUMPY\x01\x00": "<H", b"\x93NUMPY\x02\x00": "<I", b"\x93NUMPY\x03\x00": "<I"}
    if begin not in sizes:
        raise UnsoundFileError("an array has no header that NumPy wrote")
    size = struct.calcsize(sizes[begin])
    field = stream.read(size)
    length = struct.unpack(sizes[begin], field)[0] if len(field) == size else MAX_HEADER_BYTES + 1
    if length > MAX_HEADER_BYTES:
        raise UnsoundFileError("an array's header is too long")
    text = stream.read(length).decode("latin-1")
    match = _HEADER.fullmatch(text)
    if len(text) != length or match is None:
        raise UnsoundFileError("an array is not one of plain numbers (no pickles)")
    shape = tuple(int(number.rstrip("L")) for number in match["shape"].replace(",", " ").split())
    if len(shape) > MAX_DIMENSIONS:
        raise UnsoundFileError(f"an array has more than {MAX_DIMENSIONS} dimensions")
    try:
        dtype = np.dtype(match["descr"])
    except TypeError as error:  # b8 or f1: no such type
        raise UnsoundFileError("an array is not one of plain numbers (no pickles)") from error
    if dtype.itemsize == 0:
        raise UnsoundFileError("an array holds empty texts")
    return shape, match["fortran"] == "True", dtype, len(begin) + size + length


def _read_values(stream: IO[bytes], shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> np.ndarray:
    content = np.empty(math.prod(shape) * dtype.itemsize, np.uint8)
    view = content.data
    at = 0
    while at < len(view):
        chunk = stream.read(min(_CHUNK, len(view) - at))
        if not chunk:
            raise UnsoundFileError("an array is cut short")
        view[at : at + len(chunk)] = chunk
        at += len(chunk)
    if stream.read(1):  # the end, where the archive's checksum is compared
        raise UnsoundFileError("an array is not as large as its header says")
    # Of a bool, any byte but 0 and 1 would be a truth of its own.
    array = content != 0 if dtype.kind == "b" else content.view(dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
