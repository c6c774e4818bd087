"""Raised and lowered letters are in the line of their word, and never make another number of one."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest

from quire.reading.pdf.page_reader import read_pages

SIZE, SMALL = 10.0, 6.0
RAISED, LOWERED, LEVEL = -3.5, 2.0, 0.0
Part = tuple[str, float]
"""A text, and how far it is below the line; a text that is not level is small."""


def write(page: pymupdf.Page, x: float, y: float, *parts: Part) -> None:
    """The parts one behind the other."""
    for text, drop in parts:
        size = SIZE if drop == LEVEL else SMALL
        page.insert_text((x, y + drop), text, fontsize=size)
        x += pymupdf.get_text_length(text, fontsize=size)


def markdown_of(path: Path, *lines: tuple[Part, ...]) -> str:
    with pymupdf.open() as document:
        page = document.new_page()
        for at, parts in enumerate(lines):
            write(page, 72, 100 + 30 * at, *parts)
        document.save(path)
    return read_pages(str(path), None, [1])[0].markdown


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((("area in km", LEVEL), ("2", RAISED), (", at most", LEVEL)), "area in km², at most"),
        ((("as Smith says.", LEVEL), ("12", RAISED)), "as Smith says.¹²"),
        ((("total of 1,234", LEVEL), ("1,2", RAISED)), "total of 1,234¹,²"),
        ((("about 10", LEVEL), ("-3", RAISED), (" of it", LEVEL)), "about 10⁻³ of it"),
        ((("ions of Ca", LEVEL), ("2+", RAISED), (" and H", LEVEL), ("+", RAISED)), "ions of Ca²⁺ and H⁺"),
        ((("see SPB", LEVEL), ("+", RAISED), ("14 there", LEVEL)), "see SPB+14 there"),
        ((("where a", LEVEL), ("n+1", RAISED), (" is it", LEVEL)), "where an+1 is it"),
        ((("on the 5", LEVEL), ("th", RAISED), (" of May", LEVEL)), "on the 5th of May"),
        ((("water is H", LEVEL), ("2", LOWERED), ("O for us", LEVEL)), "water is H2O for us"),
        ((("that is 101", LEVEL), ("2", LOWERED), (" or five", LEVEL)), "that is 101₂ or five"),
        ((("take log", LEVEL), ("10", LOWERED), ("100 of it", LEVEL)), "take log₁₀100 of it"),
    ],
)
def test_small_figures_are_written_by_their_height_when_they_are_behind_a_word(
    tmp_path: Path, parts: tuple[Part, ...], expected: str
) -> None:
    assert markdown_of(tmp_path / "a.pdf", parts) == expected


def test_mark_of_a_note_stays_a_figure_when_it_begins_the_note(tmp_path: Path) -> None:
    assert (
        markdown_of(tmp_path / "a.pdf", (("1", RAISED), (" See page three.", LEVEL))) == "1 See page three."
    )


def apart(path: Path, drop: float, text: str, before: str = "used a UF", after: str = "of three") -> str:
    """The Markdown of a line whose small letters were drawn after all else, as some printers do."""
    with pymupdf.open() as document:
        page = document.new_page()
        x = 72 + pymupdf.get_text_length(before, fontsize=SIZE)
        width = pymupdf.get_text_length(text, fontsize=SMALL)
        page.insert_text((72, 100), before, fontsize=SIZE)
        page.insert_text((x + width + 3, 100), after, fontsize=SIZE)
        page.insert_text((72, 112), "and the line below it goes on to the end.", fontsize=SIZE)
        page.insert_text((x + 0.3, 100 + drop), text, fontsize=SMALL)
        document.save(path)
    return read_pages(str(path), None, [1])[0].markdown


@pytest.mark.parametrize(
    ("drop", "text", "expected"),
    [(2.3, "A", "UFA of"), (2.3, "3", "UF3 of"), (-4.0, "2", "UF² of"), (-4.0, "a", "UFa of")],
)
def test_letters_join_their_word_when_they_are_a_line_of_their_own(
    tmp_path: Path, drop: float, text: str, expected: str
) -> None:
    found = apart(tmp_path / "a.pdf", drop, text)
    assert found.startswith(f"used a {expected} three")
    assert found.endswith("and the line below it goes on to the end.")


def test_joined_letters_have_no_space_behind_them_when_a_sign_follows_closely(tmp_path: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        x = 72 + pymupdf.get_text_length("used a UF", fontsize=SIZE)
        page.insert_text((72, 100), "used a UF", fontsize=SIZE)
        page.insert_text((x + 4.2, 100), ". It goes on.", fontsize=SIZE)
        page.insert_text((x + 0.3, 102.3), "L", fontsize=SMALL)
        document.save(tmp_path / "a.pdf")
    assert read_pages(str(tmp_path / "a.pdf"), None, [1])[0].markdown == "used a UFL. It goes on."


def test_letter_of_a_note_is_no_part_of_a_number_when_it_is_a_line_of_its_own(tmp_path: Path) -> None:
    assert "1,234a" not in apart(tmp_path / "a.pdf", -4.0, "a", before="used 1,234")


def test_small_label_stays_a_line_when_no_word_ends_beside_it(tmp_path: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_text((72, 100), "used a UF of three", fontsize=SIZE)
        page.insert_text((300, 102), "A", fontsize=SMALL)
        document.save(tmp_path / "a.pdf")
    assert "A" in read_pages(str(tmp_path / "a.pdf"), None, [1])[0].markdown.split()


def test_mark_is_no_part_of_a_number_when_the_number_is_in_a_table(tmp_path: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        for row, (label, one, two) in enumerate(
            [
                ("Item", "2001", "2002"),
                ("Apples", "1,234", "77"),
                ("Pears", "905", "1,040"),
                ("Figs", "8", "9"),
            ]
        ):
            y = 100 + 16 * row
            for x, text in ((72, label), (200, one), (300, two)):
                page.insert_text((x, y), text, fontsize=SIZE)
            page.draw_line((72, y + 4), (360, y + 4))
        width = pymupdf.get_text_length("1,234", fontsize=SIZE)
        page.insert_text((200 + width, 116 + RAISED), "1", fontsize=SMALL)
        document.save(tmp_path / "a.pdf")
    (reading,) = read_pages(str(tmp_path / "a.pdf"), None, [1])
    assert "| Apples | 1,234¹ | 77 |" in reading.markdown
    assert reading.words_missing == 0
