"""Words of a scan are laid out as those of a text PDF are: columns, lists, tables, headings, right-to-left lines."""

from __future__ import annotations

from dataclasses import replace

from PIL import Image, ImageDraw

from quire.domain.element import ElementKind, ElementLine
from quire.reading.grading.page_doubts import is_read_across
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.scan_elements import lay_out_scan
from quire.reading.ocr.scan_rules import rules_in
from quire.reading.pdf.drawn_rules import DrawnRule, Rules

POINTS = 72 / 200
TALL, DEEP = set("bdfhklt"), set("gjpqy")


def line(left: int, top: int, text: str, height: int = 28) -> OcrLine:
    """A line as Tesseract sees it: each word in its own box, as tall as its letters are."""
    words: list[OcrWord] = []
    for part in text.split():
        above = top if any(sign in TALL or not sign.islower() for sign in part) else top + height // 4
        below = top + height + (height // 4 if DEEP & set(part) else 0)
        right = left + round(0.5 * height) * len(part)
        words.append(OcrWord(left, above, right, below, part, 0.9))
        left = right + round(0.4 * height)
    return OcrLine(words)


def page(*paragraphs: list[OcrLine]) -> RecognisedPage:
    return RecognisedPage(1700, 2200, list(paragraphs))


def columns(names: str) -> list[list[str]]:
    """Fourteen lines of text for each name, no two of them equal."""
    made = [
        "harbour",
        "office",
        "paid",
        "for",
        "repairs",
        "because",
        "old",
        "bridge",
        "was",
        "no",
        "longer",
        "safe",
    ]
    return [
        [f"{name}{row} " + " ".join(made[(row + place) % 12] for place in range(4)) for row in range(14)]
        for name in names.split()
    ]


def test_columns_are_read_one_after_the_other_when_the_reader_read_across_them() -> None:
    texts = columns("alpha beta gamma")
    rows: list[OcrLine] = []
    for height, row in enumerate(zip(*texts, strict=True)):
        pieces = [line(90 + 540 * place, 300 + 42 * height, text) for place, text in enumerate(row)]
        rows.append(OcrLine([word for piece in pieces for word in piece.words]))
    found = lay_out_scan(1, page(rows), Rules(), POINTS)
    plain = " ".join(" ".join(element.text for element in found.elements).split())
    assert plain == " ".join(text for column in texts for text in column)
    assert not is_read_across(found.elements)


def test_order_is_doubted_when_lines_go_on_into_the_next_column() -> None:
    texts = columns("alpha beta")
    apart = [line(90 + 800 * (row % 2), 300 + 42 * (row // 2), texts[row % 2][row // 2]) for row in range(28)]
    found = lay_out_scan(1, page(apart), Rules(), POINTS)
    assert not is_read_across(found.elements)
    boxes = [one.box for element in found.elements for one in element.lines]
    assert len(boxes) == 28
    # The same lines in the order of their heights are what reading across gives.
    boxes.sort(key=lambda box: (box[1], box[0]))
    lines = tuple(ElementLine(30 * place, box) for place, box in enumerate(boxes))
    assert is_read_across([replace(found.elements[0], text="x" * 30 * len(lines), lines=lines)])


def test_words_are_a_table_when_rules_are_drawn_around_them() -> None:
    rows = [("Grain", "Tons"), ("Wheat", "120"), ("Oats", "40")]
    lines = [
        line(110 + 300 * column, 310 + 80 * row, cell)
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
    ]
    flat = tuple(DrawnRule(290 + 80 * row, 90, 690) for row in range(4))
    tall = tuple(DrawnRule(90 + 300 * column, 290, 530) for column in range(3))
    found = lay_out_scan(1, page(lines), Rules(flat, tall), POINTS)
    (element,) = found.elements
    assert element.kind is ElementKind.TABLE
    assert element.table is not None
    assert element.table.rows == tuple(rows)
    assert element.confidence == 0.9


def test_rules_are_found_when_they_are_drawn_in_a_picture() -> None:
    picture = Image.new("L", (1700, 2200), 255)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((100, 300, 900, 700), outline=0, width=3)
    pen.line((500, 300, 500, 700), fill=0, width=3)
    pen.text((120, 320), "some words that are no rules", fill=0, font_size=30)
    found = rules_in(picture)
    assert [round(rule.at, -1) for rule in found.horizontal] == [300, 700]
    assert [round(rule.at, -1) for rule in found.vertical] == [100, 500, 900]


def test_words_come_in_their_order_when_they_are_written_from_right_to_left() -> None:
    words = ["قررت", "اللجنة", "إصلاح"]
    boxes = [(1000, 1200), (800, 980), (600, 780)]
    row = OcrLine(
        [OcrWord(left, 300, right, 340, text) for text, (left, right) in zip(words, boxes, strict=True)]
    )
    assert lay_out_scan(1, page([row]), Rules(), POINTS).markdown == " ".join(words)


def test_a_larger_line_is_a_heading_when_the_rest_is_body() -> None:
    body = [line(90, 400 + 42 * row, text) for row, text in enumerate(columns("alpha")[0])]
    sheet = page([line(90, 200, "Minutes of the Board", height=56)], body)
    found = lay_out_scan(2, sheet, Rules(), POINTS)
    assert lay_out_scan(1, sheet, Rules(), POINTS).elements[0].kind is ElementKind.TITLE
    assert found.elements[0].kind is ElementKind.HEADING
    assert found.elements[0].text == "Minutes of the Board"
    assert [element.kind for element in found.elements[1:]] == [ElementKind.PARAGRAPH]


def test_a_caption_s_parent_is_an_element_of_its_own_page_when_figures_come_between() -> None:
    body = [line(90, 400 + 42 * row, text) for row, text in enumerate(columns("alpha")[0])]
    caption = [line(90, 1500, "Figure 2: The old bridge")]
    sheet = page(body, caption)
    sheet.blank.extend([(90, 60, 800, 360), (90, 1080, 900, 1480)])
    found = lay_out_scan(7, sheet, Rules(), POINTS)
    above, below = (one for one in found.elements if one.kind is ElementKind.FIGURE)
    (named,) = (one for one in found.elements if one.kind is ElementKind.CAPTION)
    assert named.parent == below.id
    assert all(one.id.startswith("p7-") for one in found.elements)
    assert above.id != below.id
