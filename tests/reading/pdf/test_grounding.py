"""Answers of models against the words of the page: what the page supports gets its box, what it does not is marked."""

from __future__ import annotations

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.domain.element_codec import decode
from quire.reading.files.markdown_elements import markdown_elements, parsed_answer
from quire.reading.pdf.grounding import Grounded, ground, ground_answer
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.shown_page import ShownPage
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
    return ground(markdown_elements(markdown, 1), ShownPage(page_words()))


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


BALANCE = (
    "The harbour handled 1,234 ships in the year, and 5,678 containers were lifted from them.",
    "Fees rose by 3.5 percent, and the northern basin was closed for two weeks.",
    "The balance of the account was -450 euro within ten days of 2024.",
    "A pilot was paid $12.50 an hour, and 7% of it went to the fund.",
)


def balance(answer: str) -> Grounded:
    words = [
        PageWord(text, (70.0 + 30 * column, 100.0 + 20 * row, 95.0 + 30 * column, 110.0 + 20 * row))
        for row, line in enumerate(BALANCE)
        for column, text in enumerate(line.split())
    ]
    parsed = parsed_answer(answer, 1)
    return ground(parsed.elements, ShownPage(words), parsed.unshown, parsed.addresses)


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        *(("3.5", "35"), ("-450", "450"), ("1,234", "1.234"), ("1,234", "5,678"), ("2024", "450")),
        *(("$12.50", "€12.50"), ("$12.50", "12.50"), ("7%", "7"), ("7%", "7‰"), ("1,234", "$1,234")),
        *(("12.50", "{1250}"), ("5,678", "—5,678"), ("5,678", "\u20115,678"), ("5,678", "\uff0d5,678")),
        *(("5,678", "5,678-"), ("5,678", "≥5,678"), ("5,678", "$-{5,678}$"), ("5,678", "５,６７９")),
    ],
)
def test_number_of_another_value_or_place_is_marked(said: str, instead: str) -> None:
    found = balance(" ".join(BALANCE).replace(said, instead))
    assert (found.ungrounded, found.ungrounded_numbers) == (1, 1)


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        *(("1,234", "1234"), ("-450", "−450"), ("-450 euro", "-450 euro,"), ("5,678", "５,６７８")),
        *(
            ("$12.50", "$ 12.50"),
            ("7%", "7 %"),
            ("5,678", "5\u200b,678"),
            ("7%", "$7\\%$"),
            ("1,234", "$1{,}234$"),
        ),
    ],
)
def test_number_that_is_only_written_otherwise_is_not_marked(said: str, instead: str) -> None:
    found = balance(" ".join(BALANCE).replace(said, instead))
    assert (found.ungrounded, found.ungrounded_numbers, found.altered) == (0, 0, 0)


@pytest.mark.parametrize(
    ("said", "instead", "count"),
    [
        *(("was closed", "was not closed", 1), ("ten days", "ninety days", 1), ("euro", "dollars", 1)),
        *(("hour", "h\u043eur", 1), ("northern", "northerm", 1), ("closed", "☒ closed", 1)),
        ("hour", "hour<!-- The mayor praised the hour -->", 2),
        ("hour", "<b title='mayor praised'>hour</b>", 2),
        ("hour", "[hour](https://harbour.example/pay)", 1),
        ("hour", "hour ![](//harbour.example/pixel.png)", 1),
    ],
)
def test_word_that_the_page_has_not_there_is_counted(said: str, instead: str, count: int) -> None:
    found = balance(" ".join(BALANCE).replace(said, instead))
    assert (found.altered, found.ungrounded) == (count, 0)


def test_invented_sentence_inside_a_paragraph_is_marked() -> None:
    found = balance(f"{' '.join(BALANCE)} Nobody knows why the mayor sold every crane to a circus in Lisbon.")
    assert [one.grounded for one in found.elements] == [False]


def test_paragraph_that_is_given_twice_is_marked_once() -> None:
    found = balance("\n\n".join((*BALANCE, BALANCE[0])))
    assert [one.grounded for one in found.elements] == [True, True, True, True, False]


def test_paragraphs_in_another_order_are_the_page() -> None:
    found = balance(f"{BALANCE[2]} {BALANCE[0]} {BALANCE[1]} {BALANCE[3]}")
    assert (found.ungrounded, found.altered, found.words_missing) == (0, 0, 0)


def test_words_that_an_answer_leaves_out_are_counted() -> None:
    assert balance(f"{BALANCE[0]} {BALANCE[2]} {BALANCE[3]}").words_missing == len(BALANCE[1].split())


TABLE = "| Port | 2022 | 2023 |\n|---|---|---|\n| Kiel | 101 | 202 |\n| Emden | 303 | 404 |"


@pytest.mark.parametrize(
    ("table", "numbers", "altered"),
    [
        (TABLE, 0, 0),
        (TABLE.replace("101", "X").replace("404", "101").replace("X", "404"), 2, 0),
        (TABLE.replace("Emden", "Hamburg"), 0, 1),
        (f"{TABLE}\n| Rostock | 202 | 404 |", 2, 1),
    ],
)
def test_cells_are_compared_at_their_places(table: str, numbers: int, altered: int) -> None:
    texts = ["Port", "2022", "2023", "Kiel", "101", "202", "Emden", "303", "404"]
    words = [
        PageWord(text, (70.0 + 30 * (i % 3), 100.0 + 20 * (i // 3), 95.0, 110.0))
        for i, text in enumerate(texts)
    ]
    found = ground(markdown_elements(table, 1), ShownPage(words))
    assert (found.ungrounded_numbers, found.altered) == (numbers, altered)


def test_table_is_grounded_wherever_its_cells_are() -> None:
    found = grounded("| year | pounds |\n|---|---|\n| 2022 | 1311 |\n| 2021 | 1,204 |")
    (table,) = found.elements
    assert (table.kind, table.grounded) == (ElementKind.TABLE, True)


def test_nothing_is_said_when_the_page_has_no_words_of_its_own() -> None:
    found = ground(markdown_elements("Some words of a scan.", 1), ShownPage())
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


def test_word_that_the_page_has_nowhere_is_counted_when_a_short_text_has_another_order() -> None:
    page = [
        PageWord(text, (70.0 + 30 * i, 100.0, 95.0 + 30 * i, 110.0))
        for i, text in enumerate(["Date", "12", "March", "was", "fair"])
    ]
    assert ground(markdown_elements("March 12 Date", 1), ShownPage(page)).altered == 0
    assert ground(markdown_elements("March 12 Date never", 1), ShownPage(page)).altered == 1


def test_numbers_in_comments_are_counted() -> None:
    found = balance(f"{' '.join(BALANCE)}\n\n<!-- 9,999 -->")
    assert (found.ungrounded, found.ungrounded_numbers) == (0, 1)


def test_text_of_html_beside_its_table_is_an_element() -> None:
    rows = "".join(f"<tr><td>{line}</td></tr>" for line in BALANCE)
    found = balance(f"<div>The mayor sold every crane.<table>{rows}</table></div>")
    assert [(one.kind.value, one.grounded) for one in found.elements] == [
        ("paragraph", False),
        ("table", True),
    ]


def test_minus_of_a_cell_is_compared_when_it_is_set_apart_or_in_brackets() -> None:
    words = [PageWord(text, (70.0 + 30 * i, 100.0, 95.0 + 30 * i, 110.0)) for i, text in enumerate(CELLS)]

    def numbers(*values: str) -> int:
        table = "| Port | Rent | Fees | Loss |\n|---|---|---|---|\n| Kiel | {} | {} | {} |".format(*values)
        return ground(markdown_elements(table, 1), ShownPage(words)).ungrounded_numbers

    assert numbers("450", "(120)", "— 30") == 0
    assert numbers("- 450", "(120)", "— 30") == 1
    assert numbers("(450)", "120", "— 30") == 2


CELLS = ("Port", "Rent", "Fees", "Loss", "Kiel", "450", "(120)", "—", "30")


def test_swapped_cells_are_seen_when_a_table_has_many_equal_words() -> None:
    rows = [[f"port{row}", "0", "yes", "0", "yes", str(1000 + row)] for row in range(120)]
    words = [
        PageWord(text, (70.0 + 60 * column, 5.0 * row, 120.0 + 60 * column, 5.0 * row + 4))
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]

    def numbers() -> int:
        table = "\n".join(f"| {' | '.join(row)} |" for row in (list("abcdef"), ["---"] * 6, *rows))
        found = ground(markdown_elements(table, 1), ShownPage(words))
        return found.ungrounded_numbers

    assert numbers() == 0
    rows[20][5], rows[90][5] = rows[90][5], rows[20][5]
    assert numbers() == 2


def test_brackets_are_a_description_only_where_the_page_has_a_figure() -> None:
    words = [PageWord(text, (9.0, 9.0, 20.0, 20.0)) for text in " ".join(BALANCE).split()]
    said = markdown_elements(f"{' '.join(BALANCE)}\n\n[The mayor sold every crane to a circus.]", 1)
    assert ground(said, ShownPage(words)).ungrounded == 0
    assert ground(said, ShownPage(words, has_figures=False)).ungrounded == 1
    notes = markdown_elements(f"{' '.join(BALANCE)}\n\n[a] The mayor sold every crane. [b]", 1)
    assert ground(notes, ShownPage(words)).ungrounded == 1


HIDDEN = "The mayor owes 9,999 pounds to every pilot of the harbour."


@pytest.mark.parametrize(
    "hide", ["white", "invisible", "tiny", "covered by a box", "covered by a picture", "below the page"]
)
def test_hidden_text_supports_no_answer(save: Make, hide: str) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for row, line in enumerate(BALANCE):
        page.insert_text((72, 100 + 20 * row), line, fontsize=10)
    place = (72, 900 if hide == "below the page" else 300)
    looks = {"white": {"color": (1, 1, 1)}, "invisible": {"render_mode": 3}, "tiny": {"fontsize": 0.5}}
    page.insert_text(place, HIDDEN, **{"fontsize": 10, **looks.get(hide, {})})
    if hide == "covered by a box":
        page.draw_rect(pymupdf.Rect(60, 285, 500, 310), color=None, fill=(0.7, 0.7, 0.7))
    if hide == "covered by a picture":
        grey = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 20, 20))
        grey.clear_with(200)
        page.insert_image(pymupdf.Rect(60, 285, 500, 310), pixmap=grey, keep_proportion=False)
    found = ground_answer(save(document), None, 1, "\n\n".join((*BALANCE, HIDDEN)), True)
    assert [one.grounded for one in decode(found.elements).elements] == [True] * len(BALANCE) + [False]
    assert (found.ungrounded, found.ungrounded_numbers) == (1, 1)


def test_link_of_the_page_may_be_in_the_answer(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), BALANCE[0], fontsize=10)
    page.insert_text((72, 120), "Write to www.harbour.example/fees for more.", fontsize=10)
    link = {"kind": pymupdf.LINK_URI, "from": pymupdf.Rect(72, 90, 120, 102), "uri": "https://port.example/a"}
    page.insert_link(link)
    path = save(document)

    def altered(address: str) -> int:
        return ground_answer(
            path, None, 1, BALANCE[0].replace("harbour", f"[harbour]({address})"), True
        ).altered

    assert altered("http://port.example/a/") == 0
    assert altered("https://www.harbour.example/fees") == 0
    assert altered("#fees") == 0
    assert altered("https://port.example/a?pay=1") == 1
