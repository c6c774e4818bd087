"""Files in a PDF are elements of its pages: with their names made harmless, their sizes and what they are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from quire.domain.element import Element, ElementKind, FileFacts
from quire.domain.element_codec import decode
from quire.domain.page import PageReading
from quire.reading.files.page_chunks import pack
from quire.reading.ocr.ocr_stages import QUICK, OcrOptions
from quire.reading.ocr.page_ocr import recognise_page
from quire.reading.pdf.grounding import ground_answer
from quire.reading.pdf.page_fingerprints import page_fingerprints
from quire.reading.pdf.page_reader import ReadOptions, read_pages
from quire.rendering.page_markdown import render_markdown

TEXT = "The harbour office answers every letter within a week."
INVOICE = b'<?xml version="1.0"?>\n<invoice><number>17</number></invoice>\n' * 40
NOTE_AT = (300.0, 200.0)


def saved(document: Any, folder: Path, **options: Any) -> str:
    path = folder / "files.pdf"
    document.save(path, **options)
    return str(path)


def with_text(pages: int = 1) -> Any:
    document = pymupdf.open()
    for _ in range(pages):
        document.new_page(width=400, height=600).insert_text((50, 100), TEXT, fontsize=11)
    return document


def files_of(reading: PageReading) -> list[Element]:
    return [one for one in reading.elements if one.kind is ElementKind.ATTACHMENT]


def test_a_file_of_the_document_is_on_its_first_page_and_one_at_a_place_has_its_box(tmp_path: Path) -> None:
    document = with_text(2)
    document.embfile_add("factur-x.xml", INVOICE, filename="factur-x.xml")
    document[1].add_file_annot(NOTE_AT, b"%PDF-1.7 " + b"x" * 3000, "plan é.pdf")
    first, second = read_pages(saved(document, tmp_path, deflate=True), None, [1, 2])
    (whole,) = files_of(first)
    assert whole.file == FileFacts("factur-x.xml", len(INVOICE), "application/xml")
    assert whole.box is None
    assert first.markdown == f"{TEXT}\n\n[Attachment: factur-x.xml (XML document, 2 kB)]"
    (placed,) = files_of(second)
    assert placed.file == FileFacts("plan é.pdf", 3009, "application/pdf")
    assert placed.box is not None
    assert placed.box[:2] == pytest.approx(NOTE_AT, abs=1)
    assert second.markdown.endswith("[Attachment: plan é.pdf (PDF document, 3 kB)]")
    assert [one.id for one in second.elements] == ["p2-e1", "p2-e2"]


def test_the_type_is_told_by_content_when_the_name_says_something_else(tmp_path: Path) -> None:
    document = with_text()
    document.embfile_add("a", b"MZ" + bytes(200), filename="holiday.pdf")
    document.embfile_add("b", b"", filename="nothing.txt")
    found = files_of(read_pages(saved(document, tmp_path), None, [1])[0])
    assert found[0].file == FileFacts("holiday.pdf", 202, "application/vnd.microsoft.portable-executable")
    assert found[1].file == FileFacts("nothing.txt", 0, "application/x-empty")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\u202efdp.exe", "afdp.exe"),
        ("line\none\x07.txt", "lineone.txt"),
        ("[x](javascript:alert(1)).txt", "[x](javascript_alert(1)).txt"),
        ("**bold** `x` <b>.txt", "__bold__ `x` _b_.txt"),
        ("", "file"),
        ("x" * 5_000 + ".txt", "x" * 120 + ".txt"),
    ],
)
def test_a_hostile_name_is_one_harmless_part(tmp_path: Path, name: str, shown: str) -> None:
    document = with_text()
    document.embfile_add("a", b"words", filename=name, ufilename=name)
    (reading,) = read_pages(saved(document, tmp_path), None, [1])
    (only,) = files_of(reading)
    assert only.file is not None
    assert only.file.name == shown or (name == "" and only.file.name in ("a", "file"))
    last = reading.markdown.split("\n\n")[-1]
    assert last.startswith("[Attachment: ")
    assert last.endswith("]")
    assert "](" not in last.replace("\\]", "")
    assert "<b>" not in last


def test_a_name_can_t_end_the_brackets_of_its_line(tmp_path: Path) -> None:
    document = with_text()
    document.embfile_add("a", b"words", filename="x](http:evil).txt")
    (reading,) = read_pages(saved(document, tmp_path), None, [1])
    assert reading.markdown.split("\n\n")[-1] == "[Attachment: x)(http_evil).txt (plain text, 5 bytes)]"


def test_the_size_is_counted_when_the_pdf_claims_another(tmp_path: Path) -> None:
    document = with_text()
    document.embfile_add("a", b"words " * 5000, filename="a.txt")
    number = next(
        at for at in range(1, document.xref_length()) if "EmbeddedFile\n" in document.xref_object(at) + "\n"
    )
    document.xref_set_key(number, "Params/Size", "7")
    (only,) = files_of(read_pages(saved(document, tmp_path, deflate=True), None, [1])[0])
    assert only.file is not None
    assert only.file.size == 30_000


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    document = with_text()
    for at in range(6):
        document.embfile_add(f"{at}", bytes(40 << 20), filename=f"zeros{at}")
    found = files_of(read_pages(saved(document, tmp_path, deflate=True), None, [1])[0])
    assert [one.file.size for one in found if one.file] == [40 << 20] * 6  # the later ones as the PDF claims


def test_a_stream_that_many_entries_name_is_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.reading.pdf.attached_files._MOST_STORED_OF_ALL", 7_000)
    data = b"%PDF-1.7 " + random.Random(1).randbytes(3_000)
    document = with_text()
    for at in range(4):
        document.embfile_add(f"{at}", data, filename=f"{at}.pdf")
    found = files_of(read_pages(saved(document, tmp_path), None, [1])[0])
    types = [one.file.type for one in found if one.file]
    assert types == ["application/pdf"] * 2 + ["application/octet-stream"] * 2
    assert {one.file.size for one in found if one.file} == {len(data)}


def test_a_file_of_a_protected_pdf_is_found_with_its_password(tmp_path: Path) -> None:
    document = with_text()
    document.embfile_add("a", INVOICE, filename="a.xml")
    path = saved(document, tmp_path, deflate=True, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open")
    (only,) = files_of(read_pages(path, "open", [1])[0])
    assert only.file == FileFacts("a.xml", len(INVOICE), "application/xml")


def test_a_damaged_list_of_files_costs_no_page(tmp_path: Path) -> None:
    document = with_text()
    catalog = document.pdf_catalog()
    document.xref_set_key(catalog, "Names", f"<</EmbeddedFiles {catalog} 0 R>>")
    (reading,) = read_pages(saved(document, tmp_path), None, [1])
    assert reading.markdown == TEXT
    document.xref_set_key(
        catalog, "Names", "<</EmbeddedFiles <</Names [(a) <</F (x.txt)>> (b) 7 (c) <</EF 9 0 R>>]>>>>"
    )
    (reading,) = read_pages(saved(document, tmp_path), None, [1])
    assert reading.markdown.startswith(TEXT)


def test_a_page_without_text_says_what_is_attached_to_it(tmp_path: Path) -> None:
    document = pymupdf.open()
    document.new_page().add_file_annot((50, 50), b"words", "only.txt")
    chunk = pack(read_pages(saved(document, tmp_path), None, [1], ReadOptions()))
    assert chunk.pages[0].has_text
    assert b"[Attachment: only.txt (plain text, 5 bytes)]" in chunk.block


def test_a_scan_keeps_its_files_where_they_are_when_ocr_reads_it(tmp_path: Path) -> None:
    drawn = pymupdf.open()
    drawn.new_page(width=400, height=300).insert_textbox((40, 40, 360, 280), f"{TEXT} " * 4, fontsize=14)
    picture = drawn[0].get_pixmap(dpi=200).tobytes("png")
    document = pymupdf.open()
    document.new_page(width=400, height=300).insert_image((0, 0, 400, 300), stream=picture)
    document[0].add_file_annot(NOTE_AT, b"words", "note.txt")
    chunk = recognise_page(saved(document, tmp_path), None, 1, OcrOptions(mode=QUICK))
    (page,) = chunk.pages
    stored = decode(chunk.block[page.elements_offset : page.elements_offset + page.elements_length])
    (only,) = (one for one in stored.elements if one.kind is ElementKind.ATTACHMENT)
    assert only.file == FileFacts("note.txt", 5, "text/plain")
    assert only.box is not None
    assert only.box[:2] == pytest.approx(NOTE_AT, abs=1)


def test_an_answer_of_a_model_keeps_the_files_of_its_page_whether_it_says_them_or_not(tmp_path: Path) -> None:
    document = with_text()
    document.embfile_add("a", INVOICE, filename="a.xml")
    document[0].add_file_annot(NOTE_AT, b"words", "note.txt")
    path = saved(document, tmp_path, deflate=True)
    answer = f"[Attachment: a.xml (XML document, 2 kB)]\n\n{TEXT}"
    found = ground_answer(path, None, 1, answer, True)
    assert found.text(answer) == f"{answer}\n\n[Attachment: note.txt (plain text, 5 bytes)]"
    elements = decode(found.elements).elements
    assert [(one.id, one.kind.value, one.grounded) for one in elements] == [
        ("p1-e1", "attachment", True),
        ("p1-e2", "paragraph", True),
        ("p1-e3", "attachment", True),
    ]
    assert (found.ungrounded, found.words_missing) == (0, 0)
    assert render_markdown(elements) == found.text(answer)


def test_a_page_is_read_again_when_another_file_is_attached_to_it(tmp_path: Path) -> None:
    paths = []
    for at, data in enumerate((b"words", b"other words", b"words")):
        document = with_text(2)
        document.embfile_add("a", data, filename="a.txt")
        (tmp_path / str(at)).mkdir()
        paths.append(saved(document, tmp_path / str(at)))
    (first, second), (changed, same), (again, _) = map(page_fingerprints, paths)
    assert first == again != changed
    assert second == same
