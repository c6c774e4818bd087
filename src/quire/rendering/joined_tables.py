"""Joins tables over page breaks in a view of the whole document, page by page.

The joined table is on the page where it begins; an element without a table is in the place of each further part, so
that its id is not lost. Pages are held back only while their last table may go on, and no table grows without bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from quire.domain.element import Element, PageElements, TablePart
from quire.domain.table_joining import join_tables

MOST_CELLS = 200_000
"""Of a joined table. One that has as many ends there, and another one begins."""


def is_joined_part(element: Element) -> bool:
    """Whether the element is only the place of a part whose rows are in the table that it continues."""
    return bool(element.continues) and element.table is None


class TableJoiner:
    """Takes the pages of a document one after another, and returns those that are complete, in the same order."""

    def __init__(self) -> None:
        self._held: list[PageElements] = []
        self._open: list[tuple[int, Element]] = []
        """The parts of the table that may go on, with their pages. The first page that is held has the first part."""
        self._cells = 0

    def add(self, page: PageElements) -> list[PageElements]:
        """The pages that no later page changes."""
        part = next((one for one in page.elements if one.continues and one.table is not None), None)
        if part is None or not self._open or self._open[-1][1].id != part.continues:
            return [*self.end(), *self._begin(page)]
        self._cells += _cells(part)
        if self._cells > MOST_CELLS:
            return [*self.end(), *self._begin(page)]
        self._open.append((page.number, part))
        self._held.append(_replaced(page, part, replace(part, table=None, text="", markdown="")))
        if _last_table(page) is part:
            return []
        *before, last = self.end()
        return [*before, *self._begin(last)]

    def end(self) -> list[PageElements]:
        """All pages that are held back; there are none if no table was open."""
        held, parts = self._held, self._open
        self._held, self._open, self._cells = [], [], 0
        if len(parts) > 1:
            held[0] = _replaced(held[0], parts[0][1], _joined(parts))
        return held

    def _begin(self, page: PageElements) -> list[PageElements]:
        """The page, if none of its tables may go on."""
        table = _last_table(page)
        if table is None:
            return [page]
        self._held, self._open, self._cells = [page], [(page.number, table)], _cells(table)
        return []


def joined_pages(pages: Iterable[PageElements]) -> Iterator[PageElements]:
    """The pages of a document with their tables joined."""
    joiner = TableJoiner()
    for page in pages:
        yield from joiner.add(page)
    yield from joiner.end()


def _last_table(page: PageElements) -> Element | None:
    return next((one for one in reversed(page.elements) if one.table is not None and not one.repeated), None)


def _cells(element: Element) -> int:
    return sum(map(len, element.table.rows)) if element.table else 0


def _joined(parts: Sequence[tuple[int, Element]]) -> Element:
    first = parts[0][1]
    found = join_tables([element.table for _, element in parts if element.table is not None])
    places = tuple(
        TablePart(page, element.id, element.box, row)
        for (page, element), row in zip(parts, found.first_rows, strict=True)
    )
    sure = [element.confidence for _, element in parts if element.confidence is not None]
    grounds = {element.grounded for _, element in parts}
    grounded = False if False in grounds else None if None in grounds else True
    return replace(
        first, table=found.grid, parts=places, confidence=min(sure, default=None), grounded=grounded
    )


def _replaced(page: PageElements, old: Element, new: Element) -> PageElements:
    return replace(page, elements=tuple(new if one is old else one for one in page.elements))
