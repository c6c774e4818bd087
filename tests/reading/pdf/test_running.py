"""Running headers and footers: what repeats word for word is labelled and left out of Markdown, all else stays."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import RUNNING_KINDS, ElementKind
from quire.domain.page import PageReading
from quire.reading.pdf.page_reader import ReadOptions, read_pages
from quire.rendering.page_markdown import MarkdownOptions, render_markdown
from tests.reading.conftest import PROSE, Make, write


def document_with(lines: list[tuple[str, ...]], *, y: float = 40, x: float = 72) -> Any:
    """A PDF with a page for each entry, which has these lines at one height of the margin and prose below."""
    document = pymupdf.open()
    for number, texts in enumerate(lines, 1):
        page = document.new_page()
        for i, text in enumerate(texts):
            write(page, x + 250 * i, y, text, size=9)
        page.insert_textbox((72, 90, 520, 700), f"Body of {number}: " + PROSE * (3 + number % 3), fontsize=10)
    return document


def readings(path: str, pages: int) -> list[PageReading]:
    return read_pages(path, None, range(1, pages + 1))


KEPT = {
    "invoices": [f"Invoice 2024-00{number}" for number in range(17, 23)],
    "questions": [f"Question {number}" for number in range(1, 7)],
    "numbered questions": [f"{number}. How many members were there?" for number in range(1, 7)],
    "chapters": [f"Chapter {number}" for number in range(1, 7)],
    "cases": [f"Case 1:23-cv-00456 Document 12 Page {number} of 6" for number in range(1, 7)],
    "exhibits": [f"Exhibit {letter}" for letter in "ABCDEF"],
    "numbered exhibits": [f"EXHIBIT {number}" for number in range(1, 7)],
    "Bates numbers": [f"ACME{number:07d}" for number in range(120, 126)],
    "short Bates numbers": [f"{number:05d}" for number in range(120, 126)],
    "dates": [f"{day} March 2024" for day in range(11, 17)],
    "dates in figures": [f"2024-03-{day}" for day in range(11, 17)],
    "years": [str(year) for year in range(2019, 2025)],
    "numbers of items": [f"{number}." for number in range(1, 7)],
    "sections": [f"§ {number}" for number in range(1, 7)],
    "numbers of invoices": [f"#{number}" for number in range(1017, 1023)],
    "shares": [f"{number} %" for number in range(1, 7)],
    "amounts": [f"$ {number}" for number in range(41, 47)],
    "sums": [f"Carried forward {1000 + 317 * number}.50" for number in range(6)],
    "title with page": [f"Annual report | {number}" for number in range(1, 7)],
}


@pytest.mark.parametrize("y", [40, 810], ids=["top", "bottom"])
@pytest.mark.parametrize("what", KEPT)
def test_line_stays_on_every_page_when_it_carries_other_words_or_numbers(
    what: str, y: float, save: Make
) -> None:
    texts = KEPT[what]
    for reading, text in zip(
        readings(save(document_with([(text,) for text in texts], y=y)), 6), texts, strict=True
    ):
        assert text in reading.markdown.replace("\\", "")
        assert not any(element.repeated for element in reading.elements)


PAGE_NUMBERS = {
    "figures": "{}",
    "dashes": "- {} -",
    "page": "Page {}",
    "of": "Page {} of 6",
    "slash": "{} / 6",
    "German": "Seite {} von 6",
}


@pytest.mark.parametrize("y", [40, 810], ids=["top", "bottom"])
@pytest.mark.parametrize("form", PAGE_NUMBERS)
def test_page_number_is_labelled_and_left_out(form: str, y: float, save: Make) -> None:
    texts = [PAGE_NUMBERS[form].format(number) for number in range(1, 7)]
    path = save(document_with([(text,) for text in texts], y=y, x=290))
    for reading, text in zip(readings(path, 6), texts, strict=True):
        assert text not in reading.markdown.split("\n")
        (found,) = [one for one in reading.elements if one.kind is ElementKind.PAGE_NUMBER]
        assert (found.text, found.repeated) == (text, True)
        assert found.box is not None
        assert abs(found.box[3] - y) < 5


@pytest.mark.parametrize("y", [40, 810], ids=["top", "bottom"])
def test_first_occurrence_stays_and_later_ones_are_labelled(y: float, save: Make) -> None:
    texts = ["Part One", "Part One", "Part One", "Part Two", "Part Two", "Part Two", "Part Two"]
    found = readings(save(document_with([(text,) for text in texts], y=y)), 7)
    shown = [text in reading.markdown for reading, text in zip(found, texts, strict=True)]
    assert shown == [True, False, False, True, False, False, False]
    kind = ElementKind.RUNNING_HEADER if y < 400 else ElementKind.RUNNING_FOOTER
    for reading, text in zip(found, texts, strict=True):
        labelled = [one for one in reading.elements if one.kind in RUNNING_KINDS]
        assert [(one.kind, one.text) for one in labelled] == [(kind, text)]
        place = 0 if y < 400 else len(reading.elements) - 1
        assert reading.elements[place] is labelled[0]


def test_nothing_is_taken_away_when_pages_have_their_own_lines_beside_a_header(save: Make) -> None:
    lines = [("The Society", f"Minute {number}") for number in (31, 48, 77, 102)]
    found = readings(save(document_with(lines)), 4)
    assert [("The Society" in r.markdown, lines[r.number - 1][1] in r.markdown) for r in found] == [
        (True, True),
        (False, True),
        (False, True),
        (False, True),
    ]


def test_running_lines_are_shown_on_every_page_when_asked_for(save: Make) -> None:
    path = save(document_with([("The Society",)] * 4))
    for reading in readings(path, 4):
        assert "The Society" in render_markdown(reading.elements, MarkdownOptions(keep_running=True))


def test_header_of_two_pages_is_shown_once(save: Make) -> None:
    first, second = readings(save(document_with([("The Society",)] * 2)), 2)
    assert "The Society" in first.markdown
    assert "The Society" not in second.markdown


def _with_numbers(behind: list[str]) -> Any:
    document = pymupdf.open()
    for number, text in enumerate(behind, 41):
        page = document.new_page()
        write(page, 72, 810, str(number), size=9)
        write(page, 98, 810, text, size=9)
        page.insert_textbox((72, 90, 520, 700), f"Body of {number}: " + PROSE * (3 + number % 3), fontsize=10)
    return document


def test_page_number_is_left_out_when_the_same_title_is_behind_it_on_every_page(save: Make) -> None:
    pages = readings(save(_with_numbers(["Using the system"] * 6)), 6)
    assert all("\n4" not in reading.markdown for reading in pages[1:])
    assert all("Body of" in reading.markdown for reading in pages)


def test_number_stays_when_each_page_has_other_words_behind_it(save: Make) -> None:
    questions = [f"Which of the {word} is it?" for word in ("cats", "dogs", "birds", "fish", "trees", "cars")]
    pages = readings(save(_with_numbers(questions)), 6)
    for number, (reading, question) in enumerate(zip(pages, questions, strict=True), 41):
        assert str(number) in reading.markdown.replace(f"Body of {number}", "")
        assert question in reading.markdown


def test_page_number_is_left_out_whole_when_it_is_drawn_in_pieces(save: Make) -> None:
    document = document_with([("Facing the sea",)] * 4)
    for number, page in enumerate(document, 1):
        at = 500.0
        pieces: list[tuple[float, str]] = []
        for piece in (str(number), " of ", "4"):
            pieces.append((at, piece))
            at += pymupdf.get_text_length(piece, fontsize=9)
        for x, piece in pieces[1:] + pieces[:1]:
            write(page, x, 40, piece, size=9)
    for number, reading in enumerate(readings(save(document), 4), 1):
        assert reading.markdown.replace("Facing the sea", "").strip().startswith("Body")
        left_out = [one.text for one in reading.elements if one.kind is ElementKind.PAGE_NUMBER]
        assert sorted(" ".join(left_out).split()) == sorted([str(number), "of", "4"])


def test_words_stay_when_they_are_close_to_a_number_that_counts_on(save: Make) -> None:
    document = document_with([("Facing the sea",)] * 4)
    for number, page in enumerate(document, 1):
        write(page, 500, 40, str(number), size=9)
        write(page, 506, 40, f"pounds {number}0", size=9)
    for number, reading in enumerate(readings(save(document), 4), 1):
        assert f"pounds {number}0" in reading.markdown


@pytest.mark.parametrize("y", [40, 810], ids=["top", "bottom"])
def test_running_line_is_no_heading_when_it_is_bold_and_carries_a_number(y: float, save: Make) -> None:
    document = document_with([()] * 6)
    for number, page in enumerate(document, 1):
        write(page, 72, y, f"Chapter 17: Programming | {number}", size=10, bold=True)
    for number, reading in enumerate(readings(save(document), 6), 1):
        assert f"Chapter 17: Programming | {number}" in reading.markdown.split("\n")


def document_with_bold_head() -> Any:
    """Pages with a running head of two rows in large bold type, the second of which is below the margin."""
    document = pymupdf.open()
    for number in range(1, 6):
        page = document.new_page(height=400)
        write(page, 72, 44, "Annual report of the society for the", size=14, bold=True)
        write(page, 72, 60, "protection of the northern lakes", size=14, bold=True)
        page.insert_textbox((72, 90, 520, 360), f"Body of {number}: " + PROSE * (2 + number % 2), fontsize=10)
    return document


def test_running_head_of_two_rows_is_left_out_when_its_second_row_is_below_the_margin(save: Make) -> None:
    first, *others = readings(save(document_with_bold_head()), 5)
    assert "northern lakes" in first.markdown
    for reading in others:
        assert "Annual report" not in reading.markdown
        assert "northern lakes" not in reading.markdown


def test_running_head_is_no_heading_when_running_lines_are_kept(save: Make) -> None:
    path = save(document_with_bold_head())
    first, *others = read_pages(path, None, range(1, 6), ReadOptions(strip_running=False))
    assert first.elements[0].kind in (ElementKind.HEADING, ElementKind.TITLE)
    for reading in others:
        assert "northern lakes" in reading.markdown
        assert "# " not in reading.markdown
        assert reading.elements[0].kind is ElementKind.RUNNING_HEADER
        assert not any(element.repeated for element in reading.elements)
