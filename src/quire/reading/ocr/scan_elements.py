"""Turns the parts of a recognised picture into elements of a page, with boxes in points and a confidence each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from quire.domain.element import Box as PointBox
from quire.domain.element import Element, ElementKind, TableGrid, element_id
from quire.reading.ocr.ocr_words import Box, RecognisedPage
from quire.reading.ocr.picture_elements import FIGURE, LIST, TABLE, TITLE, LayoutElement
from quire.rendering import markdown_writer

_ITEM = re.compile(r"(\(?\w{1,3}[.)]|[^\w\s])\s+(?=\S)")


def scan_elements(
    number: int, parts: Iterable[LayoutElement], seen: RecognisedPage, points_per_px: float, reader: str
) -> tuple[Element, ...]:
    """The elements of page `number`, in the order of its parts; a list becomes one element for each item."""
    found: list[Element] = []
    for part in parts:
        box = _points(part.bbox, points_per_px)
        sure = _confidence(part.bbox, seen)
        for kind, text, marker, table in _content(part):
            found.append(
                Element(
                    element_id(number, len(found)),
                    kind,
                    text,
                    box,
                    level=1 if kind is ElementKind.HEADING else 0,
                    marker=marker,
                    table=table,
                    confidence=sure,
                    reader=reader,
                )
            )
    return tuple(found)


def _content(part: LayoutElement) -> Iterator[tuple[ElementKind, str, str, TableGrid | None]]:
    """Kind, text, list marker and table of each element of a part."""
    if part.label == TABLE:
        rows = [
            tuple(markdown_writer.clean(cell) for cell in row.split(" | ")) for row in part.text.splitlines()
        ]
        width = max(map(len, rows))
        yield ElementKind.TABLE, "", "", TableGrid(tuple(row + ("",) * (width - len(row)) for row in rows))
    elif part.label == LIST:
        for line in part.text.splitlines():
            mark = _ITEM.match(line)
            text = markdown_writer.clean(line[mark.end() :] if mark else line)
            yield ElementKind.LIST_ITEM, text, mark.group(1) if mark else "", None
    elif part.label == FIGURE:
        yield ElementKind.FIGURE, "", "", None
    else:
        kind = ElementKind.HEADING if part.label == TITLE else ElementKind.PARAGRAPH
        yield kind, markdown_writer.clean(part.text), "", None


def _points(box: Box, points_per_px: float) -> PointBox:
    left, top, right, bottom = (side * points_per_px for side in box)
    return left, top, right, bottom


def _confidence(box: Box, seen: RecognisedPage) -> float | None:
    """How sure the reader is of a character in the box, on average; None where it has no words there."""
    left, top, right, bottom = box
    total, sure = 0, 0.0
    for word in seen.words():
        if left <= (word.left + word.right) / 2 <= right and top <= (word.top + word.bottom) / 2 <= bottom:
            total += len(word.text)
            sure += len(word.text) * word.confidence
    return round(sure / total, 3) if total else None
