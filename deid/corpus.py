"""Notes and their annotations: i2b2 2014 / MEDDOCAN XML and brat stand-off folders.

A `Note` is a text and the spans of protected health information (PHI) in it, as character offsets. Reading repairs what
annotated corpora are known to get wrong (offsets that miss their text, tags that overlap) and counts every repair in a
`Repairs`, so that nothing is mended silently.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from deid.files import read_text, write_text
from utils.errors import UserError

NEARBY = 100  # characters around a tag's offsets in which its text is sought
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, order=True)
class Span:
    """PHI of one type: characters [start, end) of the note's text."""

    start: int
    end: int
    type: str


@dataclass(frozen=True)
class Note:
    """One note: its file's name without suffix, text, PHI in order of position (None: not annotated) and file."""

    name: str
    text: str
    spans: tuple[Span, ...] | None
    path: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return str(self.path or f"note {self.name}")


@dataclass
class Repairs:
    """What reading had to mend."""

    recounted: int = 0  # tags of notes whose offsets count line ends or characters in another way
    moved: int = 0  # tags whose offsets missed their text, found nearby
    dropped: int = 0  # tags whose text is nowhere near their offsets
    overlapping: int = 0  # tags that overlapped a longer one
    files: list[str] = field(default_factory=list)  # names of the files mended
    elements: dict[str, str] = field(default_factory=dict)  # PHI type -> XML element it was written in

    @property
    def count(self) -> int:
        """All repairs."""
        return self.recounted + self.moved + self.dropped + self.overlapping

    def __str__(self) -> str:
        parts = [
            f"{self.recounted} tags count line ends or emoji as two characters or none" if self.recounted else "",
            f"{self.moved} tags moved to their text nearby" if self.moved else "",
            f"{self.dropped} tags dropped, their text is not near their offsets" if self.dropped else "",
            f"{self.overlapping} tags dropped, each overlaps a longer one" if self.overlapping else "",
        ]
        told = ", ".join(self.files[:3]) + (f" and {len(self.files) - 3} more files" if len(self.files) > 3 else "")
        return "; ".join(part for part in parts if part) + (f" (in {told})" if self.files else "")


def read_notes(folder: Path, annotated: bool, repairs: Repairs | None = None) -> list[Note]:
    """Read every note of a folder: `*.xml`, and `*.txt` with the brat file `*.ann` beside it where there is one.

    Parameters
    ----------
    folder : Path
        Read without its subfolders, in order of name.
    annotated : bool
        Whether every note must be annotated. If False, annotations are read if there are any.
    repairs : Repairs, optional
        Counts what had to be mended.

    Raises
    ------
    UserError
        Naming the file: missing folder, no notes, broken XML, not UTF-8, an empty note, a note without annotations.
    """
    repairs = Repairs() if repairs is None else repairs
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".xml", ".txt") and path.is_file())
    if not paths:
        raise UserError(f"{folder}: holds no notes (*.xml or *.txt)")
    notes: list[Note] = []
    names: set[str] = set()
    for path in paths:
        if path.stem in names:
            raise UserError(f"{path}: a second note of that name. Keep one of {path.stem}.xml and {path.stem}.txt")
        names.add(path.stem)
        before = repairs.count
        note = _read_xml(path, repairs) if path.suffix.lower() == ".xml" else _read_brat(path, repairs)
        if repairs.count > before:
            repairs.files.append(path.name)
        if not note.text.strip():
            raise UserError(f"{path}: an empty note. Take it out of the folder")
        if annotated and note.spans is None:
            raise UserError(f"{path}: not annotated. This command needs notes with their PHI marked")
        notes.append(note)
    return notes


def _read_xml(path: Path, repairs: Repairs) -> Note:
    source = read_text(path)
    if "<!ENTITY" in source:
        raise UserError(f"{path}: declares XML entities, which notes do not need. It is refused")
    try:
        root = ElementTree.fromstring(source)  # noqa: S314 - entities are refused above
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: broken XML: {error}") from error
    element = root.find("TEXT")
    if element is None:
        raise UserError(f"{path}: no TEXT element. Is this i2b2 2014 / MEDDOCAN XML?")
    if len(element):
        raise UserError(f"{path}: elements within TEXT. i2b2 2014 / MEDDOCAN XML has its tags in TAGS")
    text, tags = element.text or "", root.find("TAGS")
    if tags is None:
        return Note(path.stem, text, None, path)
    marked: list[tuple[Span, str | None]] = []
    for tag in tags:
        try:
            start, end = int(tag.attrib["start"]), int(tag.attrib["end"])
        except (KeyError, ValueError) as error:
            raise UserError(f"{path}: tag {tag.get('id', tag.tag)} has no whole-number start and end") from error
        phi = tag.get("TYPE", tag.tag)
        repairs.elements[phi] = tag.tag
        marked.append((Span(start, end, phi), tag.get("text")))
    spans = _locate_all(text, marked, "\r\n" in source, repairs)  # XML reads \r\n as one character
    return Note(path.stem, text, longest_spans(spans, repairs), path)


def _read_brat(path: Path, repairs: Repairs) -> Note:
    text, annotations = read_text(path), path.with_suffix(".ann")
    if not annotations.is_file():
        return Note(path.stem, text, None, path)
    found: list[tuple[Span, str | None]] = []
    for number, line in enumerate(read_text(annotations).split("\n"), 1):
        if not line.startswith("T"):
            continue  # relations, attributes and remarks mark no text
        match = re.fullmatch(r"T\S*\t(\S+) (\d+) (?:\d+;\d+ )*(\d+)(?:\t(.*))?", line.rstrip("\r"))
        if match is None:
            raise UserError(f"{annotations}: line {number} is not 'T<id>\\t<TYPE> <start> <end>\\t<text>'")
        fragments = ";" in line.split("\t")[1]  # then everything from first to last is PHI
        found.append((Span(int(match[2]), int(match[3]), match[1]), None if fragments else match[4]))
    return Note(path.stem, text, longest_spans(_locate_all(text, found, False, repairs), repairs), path)


def _flat(text: str) -> str:
    """Return text as attributes and brat lines hold it: every white space a space."""
    return re.sub(r"\s", " ", text)


def _locate_all(
    text: str, marked: Sequence[tuple[Span, str | None]], line_ends_were_two: bool, repairs: Repairs
) -> list[Span]:
    """Return the spans where their texts are: a note's offsets count characters in the one way that fits most tags."""
    flat = _flat(text)

    def fitting(spans: Sequence[Span]) -> int:
        pairs = zip(spans, marked, strict=True)
        return sum(bool(told) and flat[span.start : span.end] == _flat(told or "") for span, (_, told) in pairs)

    best, most = [span for span, _ in marked], -1
    for counting in _countings(text, line_ends_were_two):
        spans = [span if counting is None else _recount(span, counting) for span, _ in marked]
        fit = fitting(spans)
        if fit > most:
            best, most = spans, fit
    repairs.recounted += sum(span != old for span, (old, _) in zip(best, marked, strict=True))
    window = NEARBY + text.count("\n") * line_ends_were_two  # line ends of both kinds in one file fit no counting
    located = [_locate(text, span, told, window, repairs) for span, (_, told) in zip(best, marked, strict=True)]
    return [span for span in located if span is not None]


def _recount(span: Span, counting: np.ndarray) -> Span:
    start, end = np.searchsorted(counting, [max(0, span.start), max(0, span.end)])
    return Span(int(start), int(end), span.type)


def _countings(text: str, line_ends_were_two: bool) -> list[np.ndarray | None]:
    """Return each character's offset [len(text) + 1] in other ways of counting. The first, None, is our own."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

    def before(those: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(those)])

    here = np.arange(len(codes) + 1)
    line_ends = [here]
    if line_ends_were_two:
        line_ends.append(here + before(codes == ord("\n")))
    if "\r\n" in text:
        line_ends.append(here - before(codes == ord("\r")))
    wide = [np.zeros_like(here)]
    if (codes > 0xFFFF).any():  # two units of UTF-16, as Java and JavaScript count
        wide.append(before(codes > 0xFFFF))
    return [None, *[ends + more for more in wide for ends in line_ends][1:]]


def _locate(text: str, span: Span, marked: str | None, window: int, repairs: Repairs) -> Span | None:
    """Return the span where its text is: at its offsets, else at the nearest place within `window` characters."""
    inside = 0 <= span.start < span.end <= len(text)
    if inside and (not marked or _flat(text[span.start : span.end]) == _flat(marked)):
        return span
    if marked:
        low, high = max(0, span.start - window), max(0, span.end + window)
        near, sought = _flat(text[low:high]), _flat(marked)
        places = [low + match.start() for match in re.finditer(f"(?={re.escape(sought)})", near)]
        if places:
            start = min(places, key=lambda place: abs(place - span.start))
            repairs.moved += 1
            return Span(start, start + len(sought), span.type)
    repairs.dropped += 1
    return None


def longest_spans(spans: Iterable[Span], repairs: Repairs | None = None) -> tuple[Span, ...]:
    """Return the spans in order but for those that overlap a longer one (of equals, the earlier stays). Count them."""
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda s: (s.start - s.end, s.start, s.type)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
        elif repairs is not None:
            repairs.overlapping += 1
    return tuple(sorted(kept))


def as_xml_holds_it(text: str) -> str:
    """Return text with what XML cannot hold (a form feed, say) replaced, character for character."""
    return _NOT_XML.sub("\ufffd", text)


def write_i2b2(path: Path, note: Note, elements: dict[str, str]) -> None:
    """Write a note as i2b2 2014 XML. `elements` gives each PHI type's XML element (default: PHI)."""
    text = as_xml_holds_it(note.text)
    tags = "".join(
        f'    <{elements.get(span.type, "PHI")} id="T{number}" start="{span.start}" end="{span.end}"'
        f' text={quoteattr(text[span.start : span.end])} TYPE={quoteattr(span.type)} comment=""/>\n'
        for number, span in enumerate(note.spans or (), 1)
    )
    body = escape(text, {"\r": "&#13;"})  # a bare \r would be read back as \n and \r\n would shift every offset
    write_text(
        path,
        "<?xml version='1.0' encoding='UTF-8'?>\n"
        f"<deIdi2b2>\n  <TEXT>{body}</TEXT>\n  <TAGS>\n{tags}  </TAGS>\n</deIdi2b2>\n",
    )


def write_brat(folder: Path, note: Note) -> None:
    """Write a note as brat's `NAME.txt` and `NAME.ann`."""
    spans = [(re.sub(r"\s", "_", span.type), span.start, span.end) for span in note.spans or ()]
    lines = [
        f"T{number}\t{phi} {start} {end}\t{_flat(note.text[start:end])}\n"
        for number, (phi, start, end) in enumerate(spans, 1)
    ]
    write_text(folder / f"{note.name}.txt", note.text)
    write_text(folder / f"{note.name}.ann", "".join(lines))


def replace_spans(note: Note, replacements: Iterable[str]) -> Note:
    """Return the note with its spans' texts replaced, one replacement a span, and the spans moved along."""
    pieces: list[str] = []
    spans: list[Span] = []
    position = length = 0
    for span, replacement in zip(note.spans or (), replacements, strict=True):
        before = note.text[position : span.start]
        start = length + len(before)
        pieces += [before, replacement]
        length, position = start + len(replacement), span.end
        spans.append(Span(start, length, span.type))
    pieces.append(note.text[position:])
    return Note(note.name, "".join(pieces), tuple(spans))


def redact(note: Note) -> Note:
    """Return the note with every span's text replaced by its type in brackets."""
    return replace_spans(note, [f"[{span.type}]" for span in note.spans or ()])
