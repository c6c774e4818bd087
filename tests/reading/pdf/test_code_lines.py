"""Code keeps its indents and its empty lines."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from quire.rendering.page_html import render_html
from tests.reading.conftest import Make, write

CODE = """\
def add(a, b):
    # sum of both
    if a > b:
        return a + b
    return [x for x in range(10)]

print(add(1, 2))


class Stack:
  items = []"""


def code_page(code: str, *, by_place: bool, size: float = 10, left: float = 90) -> Any:
    """Code between two lines of text, indented by spaces or by the places of its lines."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, "The following function adds two numbers and prints the result of it:")
    y = 110.0
    for line in code.split("\n"):
        text = line.lstrip() if by_place else line
        x = left + 0.6 * size * (len(line) - len(text))
        if text:
            page.insert_text((x, y), text, fontname="cour", fontsize=size)
        y += 1.2 * size
    write(page, 72, y + 30, "It is called from the main program, which is shown in the next part.")
    return document


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize("size", [8, 10])
def test_code_keeps_its_indents_and_empty_lines(by_place: bool, size: float, save: Make) -> None:
    reading = read_pages(save(code_page(CODE, by_place=by_place, size=size)), None, [1])[0]
    assert [e.text for e in reading.elements if e.kind is ElementKind.CODE] == [CODE]
    assert f"```\n{CODE}\n```" in reading.markdown
    assert CODE.replace(">", "&gt;") in render_html(reading.elements)
    assert reading.words_missing == 0


def test_indents_count_from_the_leftmost_line_when_the_first_is_indented(save: Make) -> None:
    code = "    return a + b;\n}\nint main(void) {\n    return 0;\n}"
    reading = read_pages(save(code_page(code, by_place=False)), None, [1])[0]
    assert [e.text for e in reading.elements if e.kind is ElementKind.CODE] == [code]


def test_lines_are_not_indented_when_they_are_centred(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    texts = ["int main(void) {", "x = f(y);", "return g(0, x);", "}"]
    for at, text in enumerate(texts):
        page.insert_text(
            (300 - 3 * len(text) + 1.5 * (at % 2), 100 + 12 * at), text, fontname="cour", fontsize=10
        )
    reading = read_pages(save(document), None, [1])[0]
    assert [e.text for e in reading.elements if e.kind is ElementKind.CODE] == ["\n".join(texts)]


def with_names(*rows: tuple[tuple[str, str], ...]) -> Any:
    """Text with names in type of one width (`cour`), in rows of (font, text), and code below it."""
    document = pymupdf.open()
    page = document.new_page()
    for at, row in enumerate(rows):
        x, y = 72.0, 100 + 14.0 * at
        for font, text in row:
            page.insert_text((x, y), text, fontname=font, fontsize=11)
            x += pymupdf.get_text_length(text, font, 11)
    for at, text in enumerate(("for (i = 0; i < n; i++) {", "    total += row[i];", "}")):
        page.insert_text((90, 260 + 13 * at), text, fontname="cour", fontsize=11)
    return document


def test_line_of_a_paragraph_is_text_when_it_begins_with_a_name_in_type_of_one_width(save: Make) -> None:
    document = with_names(
        (("helv", "Only one package may contain this binary, and that package must either be the"),),
        (("cour", "interpreter_base"), ("helv", " or a dependency of that package (see the next section).")),
        (("helv", "The value of "), ("cour", "limit"), ("helv", " says how many of them are kept in all.")),
    )
    reading = read_pages(save(document), None, [1])[0]
    assert [e.text for e in reading.elements if e.kind is ElementKind.CODE] == [
        "for (i = 0; i < n; i++) {\n    total += row[i];\n}"
    ]
    text = reading.elements[0].text
    assert text.endswith(
        "must either be the interpreter_base or a dependency of that package (see the next section). The value of "
        "limit says how many of them are kept in all."
    )


def test_name_alone_in_its_line_is_text_when_the_sentence_above_ends_with_it(save: Make) -> None:
    document = with_names(
        (("helv", "Packages should use the facilities of the base rather than declare that they need"),),
        (("cour", "interpreter_base."),),
    )
    reading = read_pages(save(document), None, [1])[0]
    assert reading.elements[0].text.endswith("rather than declare that they need interpreter_base.")
    assert reading.markdown.count("```") == 2


def test_command_is_code_when_a_sentence_introduces_it(save: Make) -> None:
    document = with_names(
        (("helv", "To see all that the service knows about itself, call it in the following way:"),),
        (("cour", "service --describe --all"),),
    )
    reading = read_pages(save(document), None, [1])[0]
    assert "```\nservice --describe --all\n```" in reading.markdown
