"""Makes blocks of elements: Markdown that is never cut again, small enough for a chunk wherever that can be.

A paragraph is cut after a sentence, else after a word; code after a line; a table after a row, with its head
repeated. A row, and rows that share a cell, are never cut, so a block can be larger than asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, zip_longest

from quire.domain.element import Box, Element, ElementKind, TableGrid, hull
from quire.domain.text_chunk import ChunkPlace, size_of
from quire.rendering.page_markdown import render_markdown

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+|(?<=[。！？])|\n+")
_LINE_END = re.compile(r"\n")
_WORD_END = re.compile(r"\s+")
_FENCE_BYTES = 40
_SMALLEST = 16


@dataclass(frozen=True, slots=True)
class ChunkBlock:
    """Markdown of one element, or of a part of it."""

    text: str
    size: int
    page: int
    element: Element
    box: Box | None
    rows: tuple[int, int] = (0, 0)
    """Of a table over page breaks: the first of its rows here, and the one behind the last."""

    def places(self) -> Iterator[ChunkPlace]:
        """Where its text is from, with the place in it where each begins."""
        parts = self.element.parts
        if not parts:
            yield ChunkPlace(self.page, self.element.id, self.box)
            return
        first, end = self.rows
        lines = self.text.split("\n")
        above = max(1, len(lines) - (end - first))
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        for part, following in zip_longest(parts, parts[1:]):
            row = max(part.first_row, first)
            # A row that a page break cuts is of both parts.
            last = following.first_row if following else end
            if row < end and (last > row or part.first_row == row == last):
                yield ChunkPlace(
                    part.page, part.id, part.box, starts[above + row - first] if row > first else 0
                )

    @property
    def is_item(self) -> bool:
        return self.element.is_item

    @property
    def is_heading(self) -> bool:
        return self.element.kind in (ElementKind.HEADING, ElementKind.TITLE)


def blocks_of(element: Element, page: int, most: int) -> Iterator[ChunkBlock]:
    """The element as blocks of at most `most` bytes each, except where a row of a table is longer."""
    alone = replace(element, parent=None, repeated=False)
    text = render_markdown([alone])
    if element.kind is ElementKind.LIST_ITEM and element.depth:
        text = "\n".join("  " * element.depth + line for line in text.split("\n"))
    size = size_of(text)
    if not size:
        return
    if size <= most:
        rows = (0, len(element.table.rows)) if element.table else (0, 0)
        yield ChunkBlock(text, size, page, element, element.box, rows)
    elif element.table is not None:
        for part, rows in _table_parts(text, element.table, most):
            yield ChunkBlock(part, size_of(part), page, element, element.box, rows)
    else:
        yield from _text_parts(alone, page, most)


def _text_parts(element: Element, page: int, most: int) -> Iterator[ChunkBlock]:
    is_code = element.kind is ElementKind.CODE
    room = most - _FENCE_BYTES - len(element.language) if is_code else most
    kind = ElementKind.CODE if is_code else ElementKind.PARAGRAPH
    source = element.text or element.latex or element.markdown
    waiting = [(0, len(source), max(room, _SMALLEST))]
    while waiting:
        first, last, room = waiting.pop()
        for start, end in [
            (first + a, first + b) for a, b in spans_of(source[first:last], room, by_line=is_code)
        ]:
            part = source[start:end].strip("\n" if is_code else None)
            text = render_markdown([replace(element, kind=kind, text=part, markdown="", lines=())])
            size = size_of(text)
            if size > most and room > _SMALLEST:  # escapes made it longer than its text
                waiting.append((end, last, room))
                waiting.append((start, end, room // 2))
                break
            if text:
                yield ChunkBlock(text, size, page, element, _box_of(element, start, end))


def spans_of(text: str, most: int, *, by_line: bool = False) -> Iterator[tuple[int, int]]:
    """Where to cut the text so that no part is larger than `most` bytes: after sentences, else words, else anywhere."""
    start = end = size = 0
    for first, last in _pieces(text, most, _LINE_END if by_line else _SENTENCE_END):
        more = size_of(text[first:last])
        if size + more > most and end > start:
            yield start, end
            start, size = first, 0
        end, size = last, size + more
    if end > start:
        yield start, end


def _pieces(text: str, most: int, ending: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The sentences or lines of the text; one that is larger than `most` bytes is cut."""
    start = 0
    for end in [*(found.end() for found in ending.finditer(text)), len(text)]:
        if size_of(text[start:end]) <= most:
            yield start, end
        else:
            for first, last in _forced(text[start:end], most):
                yield start + first, start + last
        start = end


def _forced(text: str, most: int) -> list[tuple[int, int]]:
    """Cuts a text without sentences: after a word where there is one, else after as many characters as fit."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = start + len(
            text[start : start + most].encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
        )
        end = max(end, start + 1)
        if end < len(text):
            words = [word.end() for word in _WORD_END.finditer(text, start, end)]
            end = words[-1] if words else end
        found.append((start, end))
        start = end
    return found


def _box_of(element: Element, start: int, end: int) -> Box | None:
    """The box of the lines between two places of the text; the element's own where its lines are not known."""
    if not element.lines or not element.text:
        return element.box
    ends = [line.start for line in element.lines[1:]] + [len(element.text)]
    boxes = [
        line.box
        for line, until in zip(element.lines, ends, strict=True)
        if line.start < end and until > start
    ]
    return hull(boxes) if boxes else element.box


def _table_parts(markdown: str, table: TableGrid, most: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Rows of the written table, cut between rows that no cell joins, and which they are.

    `markdown` has one line a row, and its rule.
    """
    first, rule, *others = markdown.split("\n")
    rows = [first, *others]
    head = rows[: table.head_rows]
    repeated = [*head[:1], rule, *head[1:]] if head else []
    head_size = size_of("\n".join(repeated))
    if head_size > most // 2:  # repeated, it would leave too little room
        repeated, head = [], []
    start = (head_size if repeated else len(rule)) + 2
    held: list[str] = []
    size = start
    begin = len(head)
    for first_row, end in _row_groups(table, len(head), len(rows)):
        lines = rows[first_row:end]
        more = sum(map(size_of, lines)) + len(lines)
        if held and size + more > most:
            yield _joined_rows(repeated, held, rule), (begin, first_row)
            held, size, begin = [], start, first_row
        held += lines
        size += more
    if held or repeated:
        yield _joined_rows(repeated, held, rule), (begin, len(rows))


def _joined_rows(head: Sequence[str], rows: Sequence[str], rule: str) -> str:
    return "\n".join([*head, *rows] if head else [rows[0], rule, *rows[1:]])


def _row_groups(table: TableGrid, first: int, rows: int) -> list[tuple[int, int]]:
    """The runs of rows that cells over several rows hold together."""
    joined = {
        row
        for span in table.spans
        for row in range(span.row + 1, min(span.row + span.row_span, rows))
        if span.row_span > 1
    }
    starts = [row for row in range(first, rows) if row == first or row not in joined]
    return list(pairwise([*starts, rows]))
