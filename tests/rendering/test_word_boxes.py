"""Words get boxes within those of their lines."""

from __future__ import annotations

from pathlib import Path

import pymupdf

from quire.domain.element import Element, ElementKind, ElementLine
from quire.rendering.word_boxes import line_words

TEXTS = ("Harbour fees of May rise by 3.5 %", "MIXED Case, illegible willow 100,000.00", "one")


def test_words_are_where_the_page_has_them() -> None:
    """Within a third of the height of the letters."""
    document = pymupdf.open()
    page = document.new_page()
    for number, text in enumerate(TEXTS):
        page.insert_text((50, 100 + 20 * number), text, fontsize=12)
    lines = page.get_text("dict")["blocks"]
    boxes = [tuple(line["bbox"]) for block in lines for line in block["lines"]]
    text, starts = "", []
    for one in TEXTS:
        starts.append(len(text))
        text += one + "\n"
    places = tuple(ElementLine(start, box) for start, box in zip(starts, boxes, strict=True))
    element = Element("p1-e1", ElementKind.PARAGRAPH, text.rstrip(), lines=places)
    found = list(line_words(element))
    assert [text[word.start : word.end] for word in found] == " ".join(TEXTS).split()
    for word, true in zip(found, page.get_text("words"), strict=True):
        assert max(abs(word.box[0] - true[0]), abs(word.box[2] - true[2])) < 4, (word, true)


def test_the_marker_of_an_item_takes_its_place_in_the_line(tmp_path: Path) -> None:
    line = ElementLine(0, (10.0, 0.0, 110.0, 10.0))
    marked = Element("p1-e1", ElementKind.LIST_ITEM, "aaaa", marker="1.", lines=(line,))
    (word,) = line_words(marked)
    assert 25 < word.box[0] < 50
    assert word.box[2] == 110.0
    assert list(line_words(Element("p1-e2", ElementKind.PARAGRAPH, " ", lines=(line,)))) == []
    wide = Element("p1-e3", ElementKind.PARAGRAPH, "日本 aa", lines=(line,))
    first, second = line_words(wide)
    assert first.box[2] - first.box[0] > second.box[2] - second.box[0]
