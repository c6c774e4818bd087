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
