"""Pages that are set in typewriter type throughout: prose is prose, code is code."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make

PROSE_LINES = (
    "The carriers of the material will be required to contact the state",
    "patrol and submit to an inspection on a quarterly basis. Upon being",
    "contacted by the carriers the patrol will conduct an inspection of the",
    "equipment at a designated place, and will issue a sticker that will be",
    "valid for ninety days.",
)
CODE_LINES = (
    "static int policy(void) {",
    "    int error = look_up(name, &value);",
    "    if (error != 0) {",
    "        return error;",
    "    }",
    "    return value->count + 1;",
    "}",
)


def typed(*runs: tuple[float, tuple[str, ...]]) -> Any:
    """A page in typewriter type, each run of lines from its height on."""
    document = pymupdf.open()
    page = document.new_page()
    for top, lines in runs:
        for at, text in enumerate(lines):
            page.insert_text((72, top + 12 * at), text, fontsize=10, fontname="cour")
    return document


def kinds(path: str) -> list[tuple[ElementKind, str]]:
    return [(element.kind, element.text) for element in read_pages(path, None, [1])[0].elements]


def test_typewritten_text_is_a_paragraph_when_its_sentences_run_on(save: Make) -> None:
    assert kinds(save(typed((100, PROSE_LINES)))) == [(ElementKind.PARAGRAPH, " ".join(PROSE_LINES))]


def test_typewritten_text_is_code_when_no_sentence_runs_on(save: Make) -> None:
    assert {kind for kind, _ in kinds(save(typed((100, CODE_LINES))))} == {ElementKind.CODE}


def test_code_stays_code_when_it_is_between_typewritten_prose(save: Make) -> None:
    found = kinds(save(typed((100, PROSE_LINES), (200, CODE_LINES), (340, PROSE_LINES))))
    assert [kind for kind, _ in found] == [ElementKind.PARAGRAPH, ElementKind.CODE, ElementKind.PARAGRAPH]


def test_typewritten_texts_are_paragraphs_when_the_layout_reader_reads_the_page(save: Make) -> None:
    document = typed((100, PROSE_LINES), (200, PROSE_LINES))
    for at, (name, value) in enumerate((("Clerk", "Jane Doe"), ("Place", "North Pier"))):
        for x, text in ((72, name), (300, value)):
            document[0].insert_text((x, 300 + 20 * at), text, fontsize=10, fontname="cour")
    path = save(document)
    assert read_pages(path, None, [1])[0].reader == "liteparse"
    texts = [text for kind, text in kinds(path) if kind is ElementKind.PARAGRAPH]
    assert texts[:2] == [" ".join(PROSE_LINES)] * 2
