"""Owns the element model: a page is a sequence of typed elements, each with its text and its place.

Boxes are (x0, y0, x1, y1) in points of the page as it is read, upright, with the origin at the top left. An element
without a box comes from a source that has no positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Box = tuple[float, float, float, float]


class ElementKind(StrEnum):
    TITLE = "title"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    FIGURE = "figure"
    CAPTION = "caption"
    FORMULA = "formula"
    CODE = "code"
    QUOTE = "quote"
    FOOTNOTE = "footnote"
    RUNNING_HEADER = "running_header"
    RUNNING_FOOTER = "running_footer"
    PAGE_NUMBER = "page_number"
    FORM_FIELD = "form_field"
    ATTACHMENT = "attachment"


RUNNING_KINDS = frozenset({ElementKind.RUNNING_HEADER, ElementKind.RUNNING_FOOTER, ElementKind.PAGE_NUMBER})


class TableCell(NamedTuple):
    """One cell of a table. Rows and columns count from 0."""

    row: int
    column: int
    row_span: int
    column_span: int
    is_head: bool
    text: str
    markdown: str = ""


class CellSpan(NamedTuple):
    """A cell that covers more than one row or column."""

    row: int
    column: int
    row_span: int
    column_span: int


class CellMarkdown(NamedTuple):
    """The inline Markdown of a cell whose text has links, emphasis or code."""

    row: int
    column: int
    markdown: str


@dataclass(frozen=True, slots=True)
class TableGrid:
    """A table as rows of texts. The text of a spanning cell is at its top left; the places it covers are empty."""

    rows: tuple[tuple[str, ...], ...]
    head_rows: int = 1
    spans: tuple[CellSpan, ...] = ()
    marked: tuple[CellMarkdown, ...] = ()

    @classmethod
    def from_cells(cls, cells: Iterable[TableCell]) -> TableGrid:
        """The grid of the given cells; a place that no cell has or covers is an empty cell."""
        listed = list(cells)
        height = max((cell.row + cell.row_span for cell in listed), default=0)
        width = max((cell.column + cell.column_span for cell in listed), default=0)
        rows = [[""] * width for _ in range(height)]
        head_rows = 0
        for cell in listed:
            rows[cell.row][cell.column] = cell.text
            if cell.is_head:
                head_rows = max(head_rows, cell.row + 1)
        return cls(
            tuple(map(tuple, rows)),
            head_rows,
            tuple(
                CellSpan(cell.row, cell.column, cell.row_span, cell.column_span)
                for cell in listed
                if cell.row_span > 1 or cell.column_span > 1
            ),
            tuple(CellMarkdown(cell.row, cell.column, cell.markdown) for cell in listed if cell.markdown),
        )

    def cells(self) -> list[TableCell]:
        """Every cell, row by row; places that a spanning cell covers have none."""
        spans = {(span.row, span.column): span for span in self.spans}
        marked = {(mark.row, mark.column): mark.markdown for mark in self.marked}
        covered = {
            (row, column)
            for span in self.spans
            for row in range(span.row, span.row + span.row_span)
            for column in range(span.column, span.column + span.column_span)
        } - spans.keys()
        found: list[TableCell] = []
        for row, texts in enumerate(self.rows):
            for column, text in enumerate(texts):
                if (row, column) in covered:
                    continue
                span = spans.get((row, column))
                found.append(
                    TableCell(
                        row,
                        column,
                        span.row_span if span else 1,
                        span.column_span if span else 1,
                        row < self.head_rows,
                        text,
                        marked.get((row, column), ""),
                    )
                )
        return found


class FileFacts(NamedTuple):
    """What is known of an attached file. `type` is told by its content; the size is None where it is not known."""

    name: str
    size: int | None
    type: str


class ElementLine(NamedTuple):
    """A line of an element as the page has it: where it begins in the element's text, and its box."""

    start: int
    box: Box


class HeadingLook(NamedTuple):
    """What the type of a heading is like, as long as its page is read: elements are stored without it.

    `is_told` says that its level is that of the file's outline or tags.
    """

    size: float
    is_bold: bool
    is_told: bool


class TablePlace(NamedTuple):
    """Where the columns of a table are, as long as its page is read: their left and right edges, None where unknown.

    `has_bold_head` says that its first row is in bold, and the one below it is not.
    """

    columns: tuple[tuple[float, float] | None, ...]
    has_bold_head: bool


class TablePart(NamedTuple):
    """A part of a table that was joined over page breaks: its page, its element, and the first of its rows."""

    page: int
    id: str
    box: Box | None
    first_row: int


@dataclass(frozen=True, slots=True)
class Element:
    """One part of a page. Its order is its place in the page's sequence; `parent` is the id of another element.

    `text` has no markup. `markdown` is the same text as inline Markdown where it has links, emphasis or code, and is
    empty otherwise. `grounded` is False for text of a model that the page's own words do not support, and None where
    there are no words to compare it with. `repeated` marks what Markdown leaves out: a running line that an earlier
    page has, a page number, a form field whose value other elements have. The `marker` of a form field is its name;
    an attachment with a marker is an item of a list of attachments.
    """

    id: str
    kind: ElementKind
    text: str = ""
    box: Box | None = None
    parent: str | None = None
    level: int = 0
    marker: str = ""
    depth: int = 0
    table: TableGrid | None = None
    latex: str = ""
    language: str = ""
    confidence: float | None = None
    grounded: bool | None = True
    reader: str = ""
    markdown: str = ""
    repeated: bool = False
    lines: tuple[ElementLine, ...] = ()
    file: FileFacts | None = None
    continues: str = ""
    """Of a table that goes on after a page break: the id of the part on the page before."""
    look: HeadingLook | None = field(default=None, compare=False, repr=False)
    columns: TablePlace | None = field(default=None, compare=False, repr=False)
    parts: tuple[TablePart, ...] = field(default=(), compare=False, repr=False)
    """Of a table that is joined in a view of the whole document: where its rows come from."""

    def is_written(self, *, keep_running: bool) -> bool:
        """Whether the text of the page has it. `keep_running`: running lines and page numbers on each page."""
        return not self.repeated or (keep_running and self.kind in RUNNING_KINDS)

    @property
    def is_item(self) -> bool:
        """Whether it is written as an item of a list."""
        return self.kind is ElementKind.LIST_ITEM or (
            self.kind is ElementKind.ATTACHMENT and self.marker != ""
        )

    @property
    def plain_text(self) -> str:
        """All its words: its text, or those of its cells, row by row."""
        if self.table is None:
            return self.text
        return "\n".join("\t".join(row) for row in self.table.rows)


def element_id(page: int, place: int) -> str:
    """The id of the element at `place` (from 0) of page `page` (from 1); unique in the document."""
    return f"p{page}-e{place + 1}"


@dataclass(frozen=True, slots=True)
class PageElements:
    """The elements of page `number` in reading order. Width and height are 0 where the source has no positions.

    `turns` is how many quarter turns to the left made the page upright; boxes and size are of the upright page.
    """

    number: int
    elements: tuple[Element, ...] = ()
    reader: str = ""
    width: float = 0.0
    height: float = 0.0
    turns: int = 0


def has_point(box: Box, point: tuple[float, float]) -> bool:
    """Whether the point is inside the box."""
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def hull(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of the given ones, of which there must be at least one."""
    if len(boxes) == 1:
        return boxes[0]
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
