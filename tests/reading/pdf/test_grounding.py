"""Answers of models against the words of the page: what the page supports gets its box, what it does not is marked."""

from __future__ import annotations

from quire.domain.element import ElementKind
from quire.domain.element_codec import decode
from quire.reading.files.markdown_elements import markdown_elements
from quire.reading.pdf.grounding import Grounded, ground, ground_answer
from quire.reading.pdf.line_pieces import PageWord
from tests.reading.conftest import Make, text_pdf

LINES = (
    "Annual report of the harbour office",
    "The committee met in the large hall and heard the report of the secretary.",
    "Receipts were 1,204 pounds in 2021 and 1 311 pounds in 2022, which is com-",
    "plete proof of the growth of trade at the North Pier.",
)


def page_words() -> list[PageWord]:
    words: list[PageWord] = []
    for row, line in enumerate(LINES):
        for column, text in enumerate(line.split()):
            x, y = 70.0 + 30 * column, 100.0 + 20 * row
            words.append(PageWord(text, (x, y, x + 25, y + 10)))
    return words


def grounded(markdown: str) -> Grounded:
    return ground(markdown_elements(markdown, 1), page_words())


def test_text_of_the_page_gets_its_box() -> None:
    found = grounded(f"# {LINES[0]}\n\n{LINES[1]}\n\nReceipts were 1204 pounds, which is complete proof.")
    assert [one.grounded for one in found.elements] == [True, True, True]
    assert (found.ungrounded, found.ungrounded_numbers) == (0, 0)
    boxes = [one.box for one in found.elements]
    assert boxes[0] == (70.0, 100.0, 245.0, 110.0)
    assert boxes[1] is not None
    assert (boxes[1][1], boxes[1][3]) == (120.0, 130.0)
    assert boxes[2] is not None
    assert boxes[2][1] == 140.0


def test_invented_sentence_is_marked_and_counted() -> None:
    found = grounded(f"{LINES[1]}\n\nThe mayor praised every sailor and promised a bigger lighthouse.")
    assert [(one.grounded, one.box is None) for one in found.elements] == [(True, False), (False, True)]
    assert (found.ungrounded, found.ungrounded_numbers) == (1, 0)
    sure, invented = (one.confidence or 0.0 for one in found.elements)
    assert sure == 1.0
    assert invented < 0.5


def test_description_of_a_figure_is_marked_and_not_counted() -> None:
    found = grounded(f"{LINES[1]}\n\n[A photograph of sailing ships in front of a lighthouse]")
    assert [one.grounded for one in found.elements] == [True, False]
    assert (found.ungrounded, found.support) == (0, 1.0)


def test_sentence_of_words_from_all_over_the_page_is_marked() -> None:
    found = grounded("Harbour secretary of 2022 pounds met North trade in report heard.")
    assert found.elements[0].grounded is False


def test_invented_number_is_marked_and_counted() -> None:
    found = grounded("Receipts were 1,294 pounds in 2021 and 1,311 pounds in 2022.")
    assert [one.grounded for one in found.elements] == [False]
    assert (found.ungrounded, found.ungrounded_numbers) == (1, 1)


def test_table_is_grounded_wherever_its_cells_are() -> None:
    found = grounded("| year | pounds |\n|---|---|\n| 2022 | 1311 |\n| 2021 | 1,204 |")
    (table,) = found.elements
    assert (table.kind, table.grounded) == (ElementKind.TABLE, True)


def test_nothing_is_said_when_the_page_has_no_words_of_its_own() -> None:
    found = ground(markdown_elements("Some words of a scan.", 1), [])
    assert (found.elements[0].grounded, found.ungrounded) == (None, 0)


def test_answer_about_a_page_is_stored_with_boxes(save: Make) -> None:
    path = save(text_pdf(2))
    answer = "# Chapter 2\n\nThe committee met in the large hall.\n\nIt ended at 23:59 with fireworks over Atlantis."
    found = ground_answer(path, None, 2, answer, True)
    page = decode(found.elements)
    assert (page.number, page.reader, page.width > 0) == (2, "ai", True)
    assert [one.grounded for one in page.elements] == [True, True, False]
    assert (found.ungrounded, found.ungrounded_numbers) == (1, 1)
    assert decode(ground_answer(path, None, 2, answer, False).elements).elements[0].grounded is None
