"""The lines that the elements of a page have in a text layer."""

from __future__ import annotations

from quire.domain.element import Element, ElementKind, ElementLine, PageElements, TableGrid
from quire.pipeline.searchable_file import element_lines, page_bookmarks
from quire.reading.pdf.searchable_pdf import Bookmark, LayerLine

BOX = (10.0, 20.0, 110.0, 60.0)


def test_lines_of_ocr_have_their_own_boxes() -> None:
    lines = (ElementLine(0, (10, 20, 110, 40)), ElementLine(6, (10, 40, 60, 60)))
    item = Element("p1-e1", ElementKind.LIST_ITEM, "first second", BOX, marker="1.", lines=lines)
    assert element_lines(item) == [LayerLine("1. first ", lines[0].box), LayerLine("second", lines[1].box)]


def test_lines_share_the_box_where_only_that_is_known() -> None:
    text = "words of a model that " * 4
    found = element_lines(Element("p1-e1", ElementKind.PARAGRAPH, text, BOX))
    assert len(found) > 1
    assert " ".join(line.text for line in found).split() == text.split()
    assert (found[0].box[1], found[-1].box[3]) == (20.0, 60.0)
    table = Element("p1-e1", ElementKind.TABLE, box=BOX, table=TableGrid((("a", "b"), ("c", ""))))
    assert element_lines(table) == [
        LayerLine("a", (10, 20, 60, 40)),
        LayerLine("b", (60, 20, 110, 40)),
        LayerLine("c", (10, 40, 60, 60)),
    ]


def test_text_without_place_or_ground_is_in_no_layer() -> None:
    for one in (
        Element("p1-e1", ElementKind.PARAGRAPH, "words"),
        Element("p1-e1", ElementKind.PARAGRAPH, "words", BOX, grounded=False),
        Element("p1-e1", ElementKind.FIGURE, "A ship in a harbour", BOX),
        Element("p1-e1", ElementKind.PARAGRAPH, " ", BOX),
        Element("p1-e1", ElementKind.PARAGRAPH, "words", (10, 20, 10, 20)),
    ):
        assert element_lines(one) == []


def test_headings_are_bookmarks() -> None:
    page = PageElements(
        3,
        (
            Element("p3-e1", ElementKind.TITLE, "Fees"),
            Element("p3-e2", ElementKind.PARAGRAPH, "words"),
            Element("p3-e3", ElementKind.HEADING, "May", level=2),
            Element("p3-e4", ElementKind.HEADING, "Invented", level=2, grounded=False),
        ),
    )
    assert list(page_bookmarks(page, 3)) == [Bookmark(1, "Fees", 3), Bookmark(2, "May", 3)]
