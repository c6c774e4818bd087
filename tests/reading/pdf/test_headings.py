"""Headings by numbering and by the document's outline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.headings import PageType, groups_of, is_heading
from quire.reading.pdf.outline import outline_titles, title_key
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, prose, write


def line(text: str, y: float, right: float, x: float = 72.0) -> TextLine:
    return TextLine(text, (x, y, right, y + 10), 10.0, False, False, True, False, 0)


def sections(*lines: TextLine) -> list[str]:
    return [group.text for group in groups_of(lines, False) if group.is_section]


def test_a_numbered_row_that_ends_early_is_the_title_of_a_section() -> None:
    text = [
        line("as was said above in the last part of the text.", 80, 500),
        line("We chose the data set", 106, 500),
    ]
    assert sections(text[0], line("5.1", 93, 85), line("Hyper Parameters", 93, 180, x=95), text[1]) == [
        "5.1 Hyper Parameters"
    ]


def test_a_title_is_one_heading_when_its_number_is_set_in_another_size() -> None:
    large = replace(line("2.1", 93, 85), size=12.0)
    assert sections(large, line("Tokenizer", 93, 180, x=95), line("The text of the section", 106, 500)) == [
        "2.1 Tokenizer"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "3.5 million people live in the region",
        "2.1 Savings from driving 12",
        "1.2 The tenant pays the rent, and the landlord keeps the house.",
        "4.2 percent",
    ],
)
def test_amounts_contents_lines_and_sentences_are_no_titles(text: str) -> None:
    assert (
        sections(line("A line of prose that fills the column to its end", 80, 500), line(text, 93, 300)) == []
    )


def test_a_numbered_line_that_fills_its_column_is_no_title() -> None:
    assert (
        sections(line("A line of prose", 80, 500), line("4.2 Method that goes on to the end", 93, 498)) == []
    )


def test_a_line_in_larger_type_is_a_heading_where_there_are_no_bold_ones() -> None:
    (group,) = groups_of([replace(line("The grasshopper", 80, 200), size=12.0)], False)
    assert is_heading(group, PageType(10.0, 842.0))
    assert not is_heading(group, PageType(10.0, 842.0, has_bold_headings=True))
    assert not is_heading(group, PageType(11.0, 842.0))


def test_keys_of_titles_do_not_have_their_numbers() -> None:
    assert title_key("III-A Google DeepDream") == title_key("A. Google Deep Dream") == "googledeepdream"
    assert title_key("2.1 ") == "21"
    assert title_key("PASSWORD MANAGEMENT") == "passwordmanagement"


def _with_outline(entries: list[list[Any]]) -> Any:
    document = pymupdf.open()
    page = document.new_page()
    prose(page, 72, 90, 450, paragraphs=1)
    write(page, 72, 200, "Opening words", size=10)
    prose(page, 72, 215, 450, paragraphs=1)
    document.set_toc(entries)
    return document


def test_a_line_that_the_outline_names_is_a_heading_of_that_level(save: Make) -> None:
    plain = read_pages(save(_with_outline([]), "plain.pdf"), None, [1])[0]
    assert "heading" not in [one.kind for one in plain.elements]
    named = read_pages(save(_with_outline([[1, "Part", 1], [2, "1.1 Opening words", 1]])), None, [1])[0]
    (heading,) = [one for one in named.elements if one.kind is ElementKind.HEADING]
    assert (heading.text, heading.level) == ("Opening words", 2)


def test_a_document_without_an_outline_has_no_titles(save: Make) -> None:
    with pymupdf.open(save(_with_outline([]))) as document:
        assert outline_titles(document) == {}


def test_a_line_of_nothing_but_odd_spaces_is_no_title() -> None:
    assert sections(
        line("", 80, 90), line("5.1 Method", 93, 150), line("The text of the section", 106, 500)
    ) == ["5.1 Method"]


def test_label_in_bold_before_its_value_is_no_heading_but_a_larger_line_is_one(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, "Rules of the court for motions", size=14)
    for y in (120, 180, 240):
        write(page, 72, y, "Date received by the clerk:", bold=True)
        write(page, 72 + pymupdf.get_text_length("Date received by the clerk: ", "hebo", 11), y, "6 May")
        write(page, 72, y + 26, "All the members of the society met in the hall and heard the long report.")
    found = [one.text for one in read_pages(save(document), None, [1])[0].elements if one.level]
    assert found == ["Rules of the court for motions"]


@pytest.mark.parametrize("text", ["Figure BR2. | Age of the cases", "Table A-3 Costs", "Fig. S3 Spectrum"])
def test_bold_line_is_no_heading_when_it_is_a_caption_with_a_letter_before_its_number(text: str) -> None:
    (group,) = groups_of([replace(line(text, 93, 300), bold=True)], True)
    assert not is_heading(group, PageType(10.0, 800.0))


@pytest.mark.parametrize(
    ("text", "size", "bold"),
    [
        ("set_mp_mmapsize", 12.0, True),
        ("simpleFX.dsp", 12.0, True),
        ("5.8 The size of the canvas is huge, and it stays so after a restart.", 12.0, False),
    ],
)
def test_larger_line_is_a_heading_when_it_is_a_name_or_a_numbered_sentence(
    text: str, size: float, bold: bool
) -> None:
    (group,) = groups_of([replace(line(text, 93, 300), size=size, bold=bold)], False)
    assert is_heading(group, PageType(10.0, 800.0, has_bold_headings=True))
    (group,) = groups_of([replace(line(text, 93, 300), bold=bold)], False)
    assert not is_heading(group, PageType(10.0, 800.0, has_bold_headings=True))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("# cp -p afs.rc /etc/init.d/afs", 10.0),
        ("Example 4.7. An example of a remark", 10.0),
        ("by Annalyse McGee", 12.0),
        ("vii", 12.0),
        (":x^3 :EndFunc", 12.0),
        ("▶ The worst", 12.0),
    ],
)
def test_bold_line_is_no_heading_when_it_is_a_command_a_caption_or_a_name(text: str, size: float) -> None:
    (group,) = groups_of([replace(line(text, 93, 300), size=size, bold=True)], True)
    assert not is_heading(group, PageType(10.0, 800.0))


def test_larger_line_is_no_heading_when_an_amount_begins_it() -> None:
    (group,) = groups_of([replace(line("82.65 ■ upstage", 93, 300), size=12.0)], False)
    assert not is_heading(group, PageType(10.0, 800.0, has_bold_headings=True))


def test_slanted_line_is_no_heading_when_it_is_large() -> None:
    slanted = replace(line("Northern council", 93, 300), size=50.0, upright=False, box=(120, 200, 500, 580))
    (group,) = groups_of([slanted], True)
    assert not is_heading(group, PageType(10.0, 800.0))


def test_line_is_no_heading_when_a_page_number_is_in_its_row(save: Make) -> None:
    document = pymupdf.open()
    for number in range(1, 6):
        page = document.new_page()
        write(page, 72, 50, f"{number}.2. THE FARMS OF VALLEY {'ABCDE'[number - 1]}", size=10)
        write(page, 510, 50, str(number + 10), size=10)
        write(page, 72, 90 + 40 * number, f"Rents of the {number} farms", size=14, bold=True)
        prose(page, 72, 105 + 40 * number, 450, paragraphs=2)
    for reading in read_pages(save(document), None, range(1, 6)):
        heads = [one.text for one in reading.elements if one.kind in (ElementKind.HEADING, ElementKind.TITLE)]
        assert heads == [f"Rents of the {reading.number} farms"]


def test_bold_line_is_a_heading_when_it_fills_its_column_and_the_text_below_begins_anew(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(
        page,
        72,
        90,
        "Of the members of the society who came to the hall on the second of May",
        size=10,
        bold=True,
    )
    for i in range(4):
        write(
            page,
            72,
            103 + 13 * i,
            "All the members of the society met in the hall and heard the report",
            size=10,
        )
    write(page, 72, 155, "of the secretary.", size=10)
    elements = read_pages(save(document), None, [1])[0].elements
    assert [element.kind for element in elements] == [ElementKind.HEADING, ElementKind.PARAGRAPH]


def test_bold_line_is_a_heading_when_the_line_above_it_is_full_and_ends_a_sentence(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    wide = "All the members of the society met in the hall and heard the report."
    for i in range(4):
        write(page, 72, 90 + 13 * i, wide, size=10)
    write(page, 72, 142, "The second meeting", size=10, bold=True)
    for i in range(4):
        write(page, 72, 155 + 13 * i, wide, size=10)
    kinds = [element.kind for element in read_pages(save(document), None, [1])[0].elements]
    assert kinds == [ElementKind.PARAGRAPH, ElementKind.HEADING, ElementKind.PARAGRAPH]
