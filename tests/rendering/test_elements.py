"""The element model, its stored form, and Markdown that is rendered from it."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.domain.element import (
    CellMarkdown,
    CellSpan,
    Element,
    ElementKind,
    ElementLine,
    PageElements,
    TableCell,
    TableGrid,
    element_id,
)
from quire.domain.element_codec import decode, encode
from quire.domain.element_tree import with_item_parents
from quire.errors import QuireError
from quire.rendering.page_markdown import MarkdownOptions, render_markdown


def page(*elements: tuple[ElementKind, dict[str, object]]) -> PageElements:
    made = tuple(
        Element(id=element_id(3, i), kind=kind, **fields)  # type: ignore[arg-type]
        for i, (kind, fields) in enumerate(elements)
    )
    return PageElements(3, made, "mupdf", 595.0, 842.0)


def test_a_page_is_the_same_after_storing() -> None:
    grid = TableGrid(
        (("a", "", "b"), ("1", "2", "3")), 1, (CellSpan(0, 0, 1, 2),), (CellMarkdown(1, 2, "**3**"),)
    )
    made = page(
        (ElementKind.HEADING, {"text": "One", "level": 2, "box": (1.0, 2.5, 30.1, 40.0)}),
        (ElementKind.PARAGRAPH, {"text": "über\nzwei", "lines": (ElementLine(0, (1.0, 2.0, 3.0, 4.0)),)}),
        (ElementKind.LIST_ITEM, {"text": "item", "marker": "1.", "depth": 2, "parent": "p3-e1"}),
        (ElementKind.TABLE, {"table": grid, "confidence": 0.0, "grounded": False}),
        (ElementKind.RUNNING_HEADER, {"text": "Report", "repeated": True, "reader": "ocr"}),
        (ElementKind.CODE, {"text": "a\nb", "language": "python"}),
        (ElementKind.FORMULA, {"latex": "x^2", "markdown": "*x*"}),
    )
    assert decode(encode(made)) == made


@given(
    st.lists(
        st.builds(
            Element,
            id=st.text(min_size=1, max_size=8).filter(lambda t: t.isprintable()),
            kind=st.sampled_from(ElementKind),
            text=st.text(st.characters(exclude_categories=["Cs"])),
            level=st.integers(0, 6),
            depth=st.integers(0, 9),
            marker=st.sampled_from(["", "-", "1."]),
            grounded=st.none() | st.booleans(),
            repeated=st.booleans(),
        ),
        max_size=6,
    )
)
def test_any_element_is_the_same_after_storing(elements: list[Element]) -> None:
    made = PageElements(1, tuple(elements))
    assert decode(encode(made)) == PageElements(1, with_item_parents(elements))


def test_unknown_keys_and_kinds_of_a_later_writer_are_read_as_far_as_they_are_known() -> None:
    later = b'{"n":2,"zz":1,"e":[{"t":"new","x":"words","q":{"a":1}}]}'
    assert decode(b"\x01" + zlib.compress(later)).elements == (
        Element(id="p2-e1", kind=ElementKind.PARAGRAPH, text="words"),
    )


def test_another_version_is_refused() -> None:
    with pytest.raises(QuireError, match="version 9"):
        decode(b"\x09rest")


@pytest.mark.parametrize(
    "raw",
    [b"\x01", b"\x01nonsense", b"\x01" + zlib.compress(b"[]"), b"\x01" + zlib.compress(b" " * (65 << 20))],
)
def test_damaged_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(QuireError, match="damaged"):
        decode(raw)


def test_cells_and_grid_are_the_same_table() -> None:
    cells = [
        TableCell(0, 0, 1, 2, True, "Name"),
        TableCell(0, 2, 2, 1, True, "Sum", "**Sum**"),
        TableCell(1, 0, 1, 1, False, "first"),
        TableCell(1, 1, 1, 1, False, "last"),
    ]
    grid = TableGrid.from_cells(cells)
    assert grid.rows == (("Name", "", "Sum"), ("first", "last", ""))
    assert [cell._replace(is_head=False) for cell in grid.cells()] == [
        cell._replace(is_head=False) for cell in cells
    ]
    assert grid.head_rows == 1


def test_markdown_has_every_kind_in_order() -> None:
    made = page(
        (ElementKind.TITLE, {"text": "The <b>title"}),
        (ElementKind.HEADING, {"text": "Part", "level": 2}),
        (ElementKind.PARAGRAPH, {"text": "# not a heading"}),
        (ElementKind.LIST_ITEM, {"text": "one", "marker": "•"}),
        (ElementKind.LIST_ITEM, {"text": "inner", "marker": "a)", "depth": 1}),
        (ElementKind.LIST_ITEM, {"text": "two", "marker": "2."}),
        (
            ElementKind.TABLE,
            {"table": TableGrid((("a|b", "c"), ("1",)), marked=(CellMarkdown(0, 1, "*c*"),))},
        ),
        (ElementKind.CODE, {"text": "x = 1\n```", "language": "python"}),
        (ElementKind.QUOTE, {"text": "said"}),
        (ElementKind.FORMULA, {"latex": "x^2", "text": "x2"}),
        (ElementKind.FOOTNOTE, {"text": "a note", "marker": "1"}),
        (ElementKind.PARAGRAPH, {"text": "see there", "markdown": "see [there](http://e.example)"}),
    )
    assert render_markdown(made.elements) == (
        "# The &lt;b>title\n\n## Part\n\n\\# not a heading\n\n- one\n  - a) inner\n2. two\n\n"
        "| a\\|b | *c* |\n|---|---|\n| 1 |  |\n\n````python\nx = 1\n```\n````\n\n> said\n\n$$\nx^2\n$$\n\n"
        "[^1]: a note\n\nsee [there](http://e.example)"
    )


def test_repeated_running_lines_are_left_out_unless_asked_for() -> None:
    made = page(
        (ElementKind.RUNNING_HEADER, {"text": "Report", "repeated": True}),
        (ElementKind.RUNNING_HEADER, {"text": "Chapter 2"}),
        (ElementKind.PAGE_NUMBER, {"text": "7", "repeated": True}),
        (ElementKind.FORM_FIELD, {"text": "Ann", "marker": "Name", "repeated": True}),
    )
    assert render_markdown(made.elements) == "Chapter 2"
    kept = render_markdown(made.elements, MarkdownOptions(keep_running=True))
    assert kept == "Report\n\nChapter 2\n\n7", "a field whose value is in the text is no running line"


def test_blocks_of_an_item_and_of_a_quotation_are_inside_it() -> None:
    made = page(
        (ElementKind.LIST_ITEM, {"text": "one", "marker": "1."}),
        (ElementKind.CODE, {"text": "x\n\ny", "parent": "p3-e1"}),
        (ElementKind.QUOTE, {"text": "said"}),
        (ElementKind.PARAGRAPH, {"text": "and more", "parent": "p3-e3"}),
    )
    assert render_markdown(made.elements) == (
        "1. one\n\n   ```\n   x\n\n   y\n   ```\n\n> said\n>\n> and more"
    )
