"""One text in four formats, as LibreOffice wrote it (`data/harbour.fodt` is the source): all are read alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quire.domain.page import PageReading
from quire.reading.document_details import document_details
from quire.reading.files.document_source import inspect
from quire.reading.office.word_dates import packed_date
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.page_reader import read_pages
from tests.reading.office.conftest import ReadMarkdown, ReadReading

_DATA = Path(__file__).parent / "data"
_FORMATS = ("odt", "docx", "doc", "rtf")


def _pages(path: Path) -> list[PageReading]:
    return read_pages(str(path), None, range(1, inspect(str(path), None, 100).page_count + 1))


@pytest.mark.parametrize("form", _FORMATS)
def test_text_lists_and_table_are_the_same_in_every_format(form: str) -> None:
    first, second, third = (one.markdown for one in _pages(_DATA / f"harbour.{form}"))
    assert first.startswith("# 1. Fees\n\nThe fee is twelve euro a week.[^c")
    assert (
        "1. First\n   - a) inner a\n   - b) inner b\n2. Second\n\nBetween the lists.\n\n3. Third\n" in first
    )
    assert "| Berth |  | Fee |\n|---|---|---|\n| A | north | 12 |\n|  | south | 14 |\n\n# 2. Rules" in first
    assert "**Comment by Cy Dock**: Really?" in first
    assert (second, third) == ("After a page break.", "In the annex.")


@pytest.mark.parametrize("form", _FORMATS)
def test_headers_captions_and_spans_are_the_same_in_every_format(form: str) -> None:
    pages = _pages(_DATA / f"harbour.{form}")
    running = [[f"{e.kind.value}: {e.text}" for e in one.elements if e.repeated] for one in pages]
    assert running == [
        ["running_header: Harbour report 2026", "running_footer: Page 2"],
        [],
        ["running_header: Annex of prices", "running_footer: Seaside Ltd"],
    ]
    caption = next(one for one in pages[0].elements if one.kind.value == "caption")
    table = next(one for one in pages[0].elements if one.table)
    assert (caption.text, caption.parent) == ("Table 1: Fees of berths", table.id)
    assert table.table is not None
    assert [tuple(one) for one in table.table.spans] == [(0, 0, 1, 2), (1, 0, 2, 1)]


@pytest.mark.parametrize("form", _FORMATS)
def test_changes_and_hidden_text_are_the_same_in_every_format(form: str) -> None:
    path = str(_DATA / f"harbour.{form}")
    wanted = ("changes", "hidden_text")
    found = json.loads(document_details(path, None, wanted, [1, 2, 3], OfficeLimits()))
    changes = [
        (one["page"], one["kind"], one["text"], one["author"], (one["date"] or "").rstrip("Z"))
        for one in found["changes"]
    ]
    assert changes == [
        (1, "deletion", "nine", "Ann Mole", "2026-05-06T07:08:00"),
        (1, "insertion", "twelve", "Ben Pier", "2026-05-07T09:00:00"),
        (1, "comment", "Really?", "Cy Dock", "" if form == "doc" else "2026-05-08T10:00:00"),
    ]
    assert found["hidden_text"] == [{"page": 1, "reason": "hidden", "text": "secret words"}]


def test_rtf_of_word_has_its_headers_by_their_use(reading: ReadReading) -> None:
    lines = r"{\headerl Left}{\headerr Right}{\headerf Cover}{\footerr Foot \chpgn}"
    found = reading(rf"{{\rtf1\ansi\sectd\titlepg{lines}One\par}}")
    kinds = [(one.kind.value, one.text) for one in found.elements if one.repeated]
    assert kinds == [("running_header", "Cover"), ("running_header", "Right"), ("running_footer", "Foot")]
    found = reading(rf"{{\rtf1\ansi\facingp\sectd{lines}One\par}}")
    kinds = [(one.kind.value, one.text) for one in found.elements if one.repeated]
    assert kinds == [("running_header", "Right"), ("running_header", "Left"), ("running_footer", "Foot")]


def test_rtf_section_that_goes_on_is_on_the_same_page(markdown: ReadMarkdown) -> None:
    assert markdown(r"{\rtf1\ansi One\par\sect\sectd\sbknone Two\par}") == "One\n\nTwo"


def test_rtf_paragraphs_are_one_when_a_change_removed_the_end(markdown: ReadMarkdown) -> None:
    table = r"{\*\revtbl{Unknown;}{Ann;}}"
    assert markdown(rf"{{\rtf1\ansi{table}One{{\deleted\revauthdel1 \par gone}} two\par}}") == "One two"


def test_rtf_header_inside_a_note_is_no_text(markdown: ReadMarkdown) -> None:
    assert markdown(r"{\rtf1\ansi One{\footnote A {\header H}note}\par}") == "One[^1]\n\n[^1]: A note"


def test_packed_date_is_empty_when_it_is_none() -> None:
    assert packed_date(0) == ""
    assert packed_date(0xFFFFFFFF) == ""
