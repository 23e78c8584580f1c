"""Notes, tokens, labels, pseudonyms and evaluation of the text track."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED_DATA
from deid_notes import made_up_notes, write_folder

from deid import corpus, evaluation, tokens
from deid.corpus import Note, Repairs, Span, read_notes
from utils.errors import UserError

XML = "<?xml version='1.0' encoding='UTF-8'?><deIdi2b2><TEXT>{}</TEXT><TAGS>{}</TAGS></deIdi2b2>"


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in tokens.tokenize(text)]


@pytest.mark.parametrize("brat", [False, True])
def test_notes_written_are_read_back_the_same(tmp_path: Path, brat: bool) -> None:
    notes = made_up_notes(3)
    notes[0] = replace(notes[0], text=notes[0].text + 'R&D <a> "q" ]]>\r\nlast\rline')
    assert read_notes(write_folder(tmp_path / "n", notes, brat), True) == notes


def test_windows_line_ends_keep_offsets_through_xml(tmp_path: Path) -> None:
    note = Note("a", "one\r\ntwo Ana\r\n", (Span(9, 12, "PATIENT"),))
    (found,) = read_notes(write_folder(tmp_path / "n", [note]), True)
    assert found.text[9:12] == "Ana"


def test_a_text_file_without_annotations_is_a_note_to_label(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffNiña\r\n".encode())
    assert read_notes(tmp_path, False) == [Note("a", "Niña\r\n", None)]
    with pytest.raises(UserError, match=r"a\.txt: not annotated"):
        read_notes(tmp_path, True)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.xml", b"<deIdi2b2><TEXT>x</TEXT>", "broken XML"),
        ("a.xml", b"<x>no text</x>", "no TEXT"),
        ("a.xml", XML.format("One <b>Ana</b> two", "").encode(), "elements within TEXT"),
        ("a.xml", XML.format("\xf1", "").encode("latin-1"), "not UTF-8"),
        ("a.xml", XML.format(" \n", "").encode(), "empty note"),
        ("a.xml", XML.format("Ana", '<NAME start="x" end="3" TYPE="P"/>').encode(), "whole-number"),
        ("a.xml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x><TEXT>&a;</TEXT></x>", "entities"),
        ("a.txt", "ñ".encode("latin-1"), "not UTF-8"),
        ("a.txt", b"", "empty note"),
    ],
)
def test_bad_notes_are_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{re.escape(name)}: .*{says}"):
        read_notes(tmp_path, True)


def test_a_brat_line_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ana")
    (tmp_path / "a.ann").write_text("T1 NAME 0 3 Ana\n")
    with pytest.raises(UserError, match=r"a\.ann: line 1"):
        read_notes(tmp_path, True)


def test_tags_off_their_text_are_moved_and_overlaps_resolved(tmp_path: Path) -> None:
    tags = (
        '<NAME start="2" end="5" text="Ana" TYPE="P"/>'  # is at 3
        '<NAME start="3" end="11" text="Ana Ruiz" TYPE="P"/>'  # longer
        '<NAME start="0" end="3" text="Zoe" TYPE="P"/>'  # nowhere
        '<NAME start="90" end="93" TYPE="P"/>'  # outside, nothing to look for
    )
    (tmp_path / "a.xml").write_text(XML.format("Dr Ana Ruiz", tags))
    repairs = Repairs()
    (note,) = read_notes(tmp_path, True, repairs)
    assert note.spans == (Span(3, 11, "P"),)
    assert (repairs.moved, repairs.dropped, repairs.overlapping) == (1, 2, 1)
    assert str(repairs).startswith("1 tags moved")


REPETITIVE = "45 years 🏥\nroom 45 bed 45\n🏥 bed 45, 45 days\n" * 3


@pytest.mark.parametrize("counted_as", ["windows line ends", "utf-16", "both"])
def test_offsets_that_count_line_ends_or_emoji_twice_find_the_right_one_of_many(
    tmp_path: Path, counted_as: str
) -> None:
    places = [match.start() for match in re.finditer("45", REPETITIVE)]

    def offset(place: int) -> int:
        before = REPETITIVE[:place]
        more = before.count("\n") * (counted_as != "utf-16")
        return place + more + before.count("🏥") * (counted_as != "windows line ends")

    tags = "".join(f'<N start="{offset(p)}" end="{offset(p) + 2}" text="45" TYPE="AGE"/>' for p in places)
    source = XML.format(REPETITIVE if counted_as == "utf-16" else REPETITIVE.replace("\n", "\r\n"), tags)
    (tmp_path / "a.xml").write_bytes(source.encode())
    repairs = Repairs()
    (note,) = read_notes(tmp_path, True, repairs)
    assert note.spans == tuple(Span(p, p + 2, "AGE") for p in places)
    assert (repairs.moved, repairs.dropped) == (0, 0)
    assert "a.xml" in str(repairs)


def test_brat_offsets_that_leave_out_carriage_returns_find_the_right_one_of_many(tmp_path: Path) -> None:
    text = REPETITIVE.replace("\n", "\r\n")
    places = [match.start() for match in re.finditer("45", text)]
    lines = [
        f"T{i}\tAGE {p - text[:p].count(chr(13))} {p - text[:p].count(chr(13)) + 2}\t45\n" for i, p in enumerate(places)
    ]
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "a.ann").write_text("".join(lines))
    (note,) = read_notes(tmp_path, True)
    assert note.spans == tuple(Span(p, p + 2, "AGE") for p in places)


def test_tokens_of_several_scripts() -> None:
    assert words("IzaNºCol: 28 B12 13/05") == ["Iza", "NºCol"[:2], "Col", ":", "28", "B12", "13", "/", "05"]
    assert words("हिन्दी 東京都 Zoe\u0308 👩‍⚕️!")[:4] == ["हिन्दी", "東", "京", "都"]
    assert "Zoe\u0308" in words("हिन्दी 東京都 Zoe\u0308 👩‍⚕️!")


def test_casing_classes() -> None:
    examples = ("12", "12a", "ana", "ANA", "Ana", "ana7", "aNA")
    assert [tokens.CASINGS[tokens.casing(word)] for word in examples] == list(tokens.CASINGS)


def test_labels_decode_to_the_spans_they_came_from() -> None:
    for note in made_up_notes(6):
        found = [s for part in tokens.sentences(note) for s in tokens.decode_labels(part.offsets, part.labels)]
        assert tuple(found) == note.spans


def test_a_stray_inside_label_opens_a_span() -> None:
    assert tokens.decode_labels([(0, 1), (2, 3), (4, 5)], ["I-A", "I-B", "B-B"]) == [
        Span(0, 1, "A"),
        Span(2, 3, "B"),
        Span(4, 5, "B"),
    ]


def test_no_sentence_boundary_cuts_phi() -> None:
    text = "the patient came in on foot and was seen by the doctor hospital san juan. Norte and left"
    start = text.index("hospital")
    span = Span(start, text.index(" and left"), "HOSPITAL")
    assert len(tokens.sentences(Note("a", text, None))) == 2
    (whole,) = tokens.sentences(Note("a", text, (span,)))
    assert tokens.decode_labels(whole.offsets, whole.labels) == [span]


def test_redaction_leaves_no_phi() -> None:
    note = made_up_notes(1)[0]
    cleaned = corpus.redact(note)
    assert all(note.text[s.start : s.end] not in cleaned.text for s in note.spans or ())
    assert [cleaned.text[s.start : s.end] for s in cleaned.spans or ()] == ["[PATIENT]", "[CITY]", "[DATE]"]


def test_evaluation_counts_by_hand() -> None:
    text = "Ana Ruiz lives in Cork now"
    gold = [Note("a", text, (Span(0, 8, "P"), Span(18, 22, "C")))]
    guess = [Note("a", text, (Span(0, 3, "P"), Span(18, 22, "P")))]
    result = evaluation.evaluate(gold, guess)
    assert result.entities == evaluation.Counts(0, 2, 2)
    assert result.spans == evaluation.Counts(1, 2, 2)
    assert result.tokens == evaluation.Counts(1, 2, 3)
    assert result.binary == evaluation.Counts(2, 2, 3)
    assert result.by_type["P"][0] == evaluation.Counts(0, 2, 1)
    assert evaluation.evaluate(gold, gold).entities.f1 == 1.0
    assert "strict" in evaluation.as_text(result)


def test_evaluation_refuses_other_notes() -> None:
    note = made_up_notes(1)[0]
    with pytest.raises(UserError, match="not among the predictions"):
        evaluation.evaluate([note], [])
    with pytest.raises(UserError, match="text is not the gold"):
        evaluation.evaluate([note], [replace(note, text=note.text + "x")])


def test_few_notes_say_nothing_of_how_far_f1_may_be_off() -> None:
    notes = made_up_notes(8)
    assert evaluation.evaluate(notes[:2], notes[:2]).entity_interval == (0.0, 1.0)
    partly = [replace(notes[0], spans=()), *notes[1:]]
    low, high = evaluation.evaluate(notes, partly).entity_interval
    assert 0.0 < low < high <= 1.0


def test_wilson_interval_by_hand() -> None:
    low, high = evaluation.wilson(0, 10)
    assert low == 0.0
    assert high == pytest.approx(0.2775, abs=1e-4)


def test_pseudonyms_keep_form_and_say_nothing_of_the_old() -> None:
    pytest.importorskip("gensim")
    from deid.embeddings import train_embeddings
    from deid.pseudonyms import neighbors, pseudonymize

    notes = made_up_notes()
    vectors = train_embeddings([s.words for n in notes for s in tokens.sentences(n)], 8, 0, epochs=2)
    found = neighbors(vectors, ["Madrid", "12"], 5, np.random.default_rng(0))
    assert "Madrid" not in [vectors.words[row] for row in found[0]]
    assert all(vectors.words[row].isdigit() for row in found[1])
    for old, new in zip(notes, pseudonymize(notes, vectors, 5, np.random.default_rng(0)), strict=True):
        name, _, date = (new.text[s.start : s.end] for s in new.spans or ())
        assert name != old.text[old.spans[0].start : old.spans[0].end]
        assert name[0].isupper()
        assert re.fullmatch(r"\d\d/\d\d/\d{4}", date)
        assert new.text.endswith("No other complaints were reported .\n")


def test_pseudonyms_never_keep_a_word_in_another_casing_or_with_its_letters() -> None:
    pytest.importorskip("gensim")
    from deid.embeddings import Embeddings
    from deid.pseudonyms import neighbors, pseudonymize

    vectors = np.eye(6, 4, dtype=np.float32)
    few = Embeddings(["madrid", "Madrid", "MADRID", "in", "seen", "smith1975"], vectors, np.zeros((0, 4), np.float32))
    found = neighbors(few, ["Madrid", "smith1975"], 5, np.random.default_rng(0))
    assert found.shape == (2, 3)  # as many as there are for every word
    assert {few.words[row] for row in found[0]} == {"in", "seen", "smith1975"}
    note = Note("a", "SMITH1975 in Madrid", (Span(0, 9, "ID"), Span(13, 19, "CITY")))
    for seed in range(20):
        (new,) = pseudonymize([note], few, 5, np.random.default_rng(seed))
        assert "SMITH" not in new.text
        assert not new.text.upper().endswith("MADRID")
    alone = Embeddings(["Ana", "ana", "12"], vectors[:3], np.zeros((0, 4), np.float32))
    with pytest.raises(UserError, match="too few words"):
        pseudonymize([Note("a", "Ana", (Span(0, 3, "NAME"),))], alone, 5, np.random.default_rng(0))


def test_embeddings_with_rows_of_different_lengths_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    from deid.embeddings import read_embeddings

    (tmp_path / "v.txt").write_text("2 2\nana 1 0\nruiz 0 1\n")
    assert read_embeddings(tmp_path / "v.txt").words == ["ana", "ruiz"]
    (tmp_path / "v.txt").write_text("ana 1 0\n. . . 0 1\nruiz 0 1\n")  # GloVe has "words" with spaces
    assert read_embeddings(tmp_path / "v.txt").words == ["ana", "ruiz"]
    with pytest.raises(UserError, match=r"none\.bin: no such file"):
        read_embeddings(tmp_path / "none.bin")
    (tmp_path / "v.txt").write_text("ana 1 0\nruiz 0 1 2\n")
    with pytest.raises(UserError, match=r"v\.txt: line 2 has 3 numbers"):
        read_embeddings(tmp_path / "v.txt")
    (tmp_path / "v.bin").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match=r"v\.bin: not a fastText"):
        read_embeddings(tmp_path / "v.bin")


def test_meddocan_tokens_reach_almost_every_annotation(tmp_path: Path) -> None:
    archive = SHARED_DATA / "meddocan-train-dev-i2b2xml.tar.gz"
    if not archive.exists():
        pytest.skip(f"{archive} is not here")
    import tarfile

    with tarfile.open(archive) as file:
        members = [m for m in file.getmembers() if "dev/" in m.name][:60]
        file.extractall(tmp_path, members, filter="data")
    notes = read_notes(tmp_path / "dev", True)
    there = {(n.name, s) for n in notes for s in n.spans or ()}
    found = {
        (n.name, s)
        for n in notes
        for part in tokens.sentences(n)
        for s in tokens.decode_labels(part.offsets, part.labels)
    }
    assert len(found & there) / len(there) > 0.998
