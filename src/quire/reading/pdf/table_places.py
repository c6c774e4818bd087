"""Finds where the columns of the tables at the edges of a page are, by the lines that their cells are made of.

The page after may go on with the same table; that is decided when all pages are there (`domain/table_seams.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import Box, Element, TableGrid, TablePlace
from quire.domain.table_seams import edge_tables
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.text_lines import TextLine

_SLACK = 3.0
_LEAST_PART = 4


def with_places(elements: list[Element], lines: Sequence[TextLine]) -> list[Element]:
    """The elements, the tables at the top and at the foot with the places of their columns."""
    wanted = {place for place in edge_tables(elements) if place is not None}
    if not wanted:
        return elements
    return [
        replace(element, columns=_place(element.table, element.box, lines))
        if place in wanted and element.table is not None and element.box is not None
        else element
        for place, element in enumerate(elements)
    ]


def _place(table: TableGrid, box: Box, lines: Sequence[TextLine]) -> TablePlace:
    inside = [(compact(line.text), line) for line in lines if _is_inside(line, box)]
    columns = range(max(map(len, table.rows), default=0))
    spanning = {(span.row, span.column) for span in table.spans if span.column_span > 1}
    whole = _boxes_of_rows(table, inside)
    edges: list[tuple[float, float] | None] = []
    for column in columns:
        texts = [
            compact(row[column])
            for at, row in enumerate(table.rows)
            if column < len(row) and row[column] and (at, column) not in spanning
        ]
        boxes = [
            found[column] for at, found in whole.items() if column in found and (at, column) not in spanning
        ]
        edges.append(_hull(boxes or _own_boxes(texts, table, column, inside)))
    return TablePlace(tuple(edges), _has_bold_head(table, inside))


def _boxes_of_rows(table: TableGrid, inside: Sequence[tuple[str, TextLine]]) -> dict[int, dict[int, Box]]:
    """The boxes of cells by row and column, of rows whose texts are those of lines at one height."""
    rows: list[list[tuple[str, TextLine]]] = []
    for text, line in sorted(inside, key=lambda one: one[1].middle[1]):
        if rows and rows[-1][0][1].box[1] < line.middle[1] < rows[-1][0][1].box[3]:
            rows[-1].append((text, line))
        else:
            rows.append([(text, line)])
    boxes: dict[tuple[str, ...], list[Box]] = {}
    for row in rows:
        row.sort(key=lambda one: one[1].box[0])
        boxes[tuple(text for text, _ in row)] = [line.box for _, line in row]
    found: dict[int, dict[int, Box]] = {}
    for at, texts in enumerate(table.rows):
        filled = [column for column, text in enumerate(texts) if text]
        known = boxes.get(tuple(compact(texts[column]) for column in filled))
        if known:
            found[at] = dict(zip(filled, known, strict=True))
    return found


def _is_inside(line: TextLine, box: Box) -> bool:
    x, y = line.middle
    return box[0] - _SLACK <= x <= box[2] + _SLACK and box[1] - _SLACK <= y <= box[3] + _SLACK


def _own_boxes(
    texts: Sequence[str], table: TableGrid, column: int, inside: Sequence[tuple[str, TextLine]]
) -> list[Box]:
    """Those of the lines that only cells of this column begin with."""
    others = Counter(
        compact(text) for row in table.rows for at, text in enumerate(row) if text and at != column
    )
    own = {text for text in texts if text and text not in others}
    starts = {text[:_LEAST_PART] for text in own}
    return [
        line.box
        for text, line in inside
        if text in own
        or (
            len(text) >= _LEAST_PART
            and text[:_LEAST_PART] in starts
            and any(one.startswith(text) for one in own)
            and not any(one.startswith(text) for one in others)
        )
    ]


def _hull(boxes: Sequence[Box]) -> tuple[float, float] | None:
    return (min(box[0] for box in boxes), max(box[2] for box in boxes)) if boxes else None


def _has_bold_head(table: TableGrid, inside: Sequence[tuple[str, TextLine]]) -> bool:
    """Whether all that is known of the first row is in bold, and nothing of the second one."""
    weights: list[list[bool]] = []
    for row in table.rows[:2]:
        texts = {compact(text) for text in row if text}
        weights.append([line.bold for text, line in inside if text in texts])
    return len(weights) > 1 and all(map(bool, weights)) and all(weights[0]) and not any(weights[1])
