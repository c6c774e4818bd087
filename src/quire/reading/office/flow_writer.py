"""Paragraphs, list items and table rows of a text document, in their order, written as pages.

Shared by readers whose format marks paragraphs and cells one after the other (DOC, RTF).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quire.reading.office.inline_markdown import Run, block, plain, render
from quire.reading.office.office_pages import (
    CaptionOf,
    Lists,
    MarkdownBlock,
    MergedCells,
    OfficePage,
    Pager,
    kept_spans,
)
from quire.reading.office.review_marks import ReviewMarks

MAX_DEPTH = 8
_NUMBER = re.compile(r"(\d{1,6})[.)]?")
_TOLERANCE = 30
"""Twentieths of a point: borders of two rows closer than this are the same border."""
_MOST_BORDERS = 256
"""With more, cells are placed by their number in the row."""
_MOST_PLACED = 4_000_000
"""Cells: so often they are placed anew at most, to leave out borders that divide nothing."""


class FlowCell(NamedTuple):
    """A cell of a row. `right` is its right border in twentieths of a point, 0 where it is not known."""

    text: str
    right: int = 0
    is_merged: bool = False
    """It is the first or a further part of cells merged down a column."""
    goes_on: bool = False
    """It belongs to the cell above."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`level` is that of a heading, 0 for text. `marker` is "-" or "1." for an item of a list."""

    runs: Sequence[Run]
    level: int = 0
    marker: str = ""
    depth: int = 0
    notes: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    label: str = ""
    """The number of an item or a heading as a reader sees it, where the file tells it."""
    is_caption: bool = False


class FlowWriter:
    def __init__(self) -> None:
        self._pager = Pager()
        self._lists = Lists()
        self._counts = [0] * (MAX_DEPTH + 1)
        self._rows: list[list[FlowCell]] = []
        self._lefts: list[int] = []
        self._pictures: list[str] = []
        self._notes: list[str] = []

    def add(self, paragraph: Paragraph) -> None:
        """Raises TooLargeError where the document has too much text."""
        self._end_table()
        text = render(paragraph.runs)
        if not text:
            return
        pictures, notes = paragraph.pictures, paragraph.notes
        if paragraph.level:
            self._end_list()
            words = text.replace("\n", " ")
            words = words[2:-2] if words.count("**") == 2 and words[:2] == words[-2:] == "**" else words
            words = f"{plain(paragraph.label)} {words}" if paragraph.label else words
            shown = f"{'#' * min(paragraph.level, 6)} {words}"
            self._pager.add(MarkdownBlock(shown, paragraph.level, pictures=pictures, notes=notes))
        elif paragraph.marker:
            item = self._item(paragraph, text)
            self._pager.add(MarkdownBlock(item, tight=True, pictures=pictures, notes=notes))
        else:
            self._end_list()
            self._add_text(paragraph, text)

    def _add_text(self, paragraph: Paragraph, text: str) -> None:
        caption = CaptionOf.UNKNOWN if paragraph.is_caption else None
        pictures, notes = paragraph.pictures, paragraph.notes
        self._pager.add(MarkdownBlock(block(text), pictures=pictures, notes=notes, caption=caption))

    def add_row(
        self,
        cells: Sequence[FlowCell],
        pictures: Sequence[str] = (),
        notes: Sequence[str] = (),
        *,
        left: int = 0,
    ) -> None:
        """A row of the table that begins or goes on here; `left` is where its first cell begins."""
        if cells:
            self._rows.append(list(cells))
            self._lefts.append(left)
        self._pictures += pictures
        self._notes += notes

    def end_page(self) -> None:
        self._end_table()
        self._pager.end_page()

    @property
    def marks(self) -> ReviewMarks:
        """What the file says beside the text that is added next."""
        return self._pager.marks

    @property
    def page_count(self) -> int:
        """How many pages have ended."""
        return len(self._pager.pages)

    def finish(self) -> list[OfficePage]:
        self._end_table()
        return self._pager.finish()

    def _item(self, paragraph: Paragraph, text: str) -> str:
        depth = max(0, min(paragraph.depth, MAX_DEPTH))
        if paragraph.label:
            number = _NUMBER.fullmatch(paragraph.label)
            if number:
                return self._lists.item(depth, f"{int(number[1])}.", block(text))
            return self._lists.item(depth, "-", block(f"{plain(paragraph.label)} {text}"))
        text = block(text)
        self._counts[depth + 1 :] = [0] * (MAX_DEPTH - depth)
        is_numbered = paragraph.marker != "-"
        self._counts[depth] = self._counts[depth] + 1 if is_numbered else 0
        return self._lists.item(depth, f"{self._counts[depth]}." if is_numbered else "-", text)

    def _end_list(self) -> None:
        self._lists.end()
        self._counts = [0] * (MAX_DEPTH + 1)

    def _end_table(self) -> None:
        rows, self._rows = self._rows, []
        lefts, self._lefts = self._lefts, []
        if not rows:
            return
        # A row that begins late has an empty place before its first cell.
        rows = [
            [FlowCell("", left), *row] if left > max(0, min(lefts) + _TOLERANCE) else row
            for left, row in zip(lefts, rows, strict=True)
        ]
        self._end_list()
        pictures, notes = tuple(self._pictures), tuple(self._notes)
        self._pictures, self._notes = [], []
        if len(rows) == 1 and len(rows[0]) == 1:  # a frame around text, not a table
            self._pager.add(MarkdownBlock(block(rows[0][0].text), pictures=pictures, notes=notes))
            return
        shown, merged = _grid(rows)
        kept, spans = kept_spans(merged.spans(), shown)
        self._pager.add_table(kept, pictures, notes, spans)


def _grid(rows: Sequence[Sequence[FlowCell]]) -> tuple[list[list[str]], MergedCells]:
    """The rows with every cell in the column where its borders are, and the cells that span several."""
    borders = _borders(rows)
    if len(borders) > _MOST_BORDERS:
        borders = []
    left = _MOST_PLACED
    while True:
        shown, merged, crossed = _laid_out(rows, borders)
        left -= sum(map(len, shown))
        useless = next((at for at in sorted(crossed) if not _divides(at, shown)), None)
        if useless is None or left < 0:
            return shown, merged
        del borders[useless]


def _laid_out(
    rows: Sequence[Sequence[FlowCell]], borders: Sequence[int]
) -> tuple[list[list[str]], MergedCells, set[int]]:
    """The rows, the merged cells, and the borders that some cell crosses."""
    merged = MergedCells()
    shown: list[list[str]] = []
    crossed: set[int] = set()
    for at, row in enumerate(rows):
        cells: list[str] = []
        for one in row:
            end = bisect_left(borders, one.right - _TOLERANCE) + 1 if one.right else 0
            width = max(1, end - len(cells))
            merged.add(at, len(cells), width, is_merged=one.is_merged, goes_on=one.goes_on)
            crossed.update(range(len(cells), len(cells) + width - 1))
            cells += ["" if one.goes_on else one.text, *[""] * (width - 1)]
        shown.append(cells)
    return shown, merged, crossed


def _divides(border: int, rows: Sequence[Sequence[str]]) -> bool:
    """Whether any row has text on both sides of the border. One that none has is there by a change of widths."""
    return any(len(row) > border + 1 and row[border] and row[border + 1] for row in rows)


def _borders(rows: Sequence[Sequence[FlowCell]]) -> list[int]:
    """The right borders of the columns, each once."""
    found: list[int] = []
    for right in sorted({one.right for row in rows for one in row if one.right}):
        if not found or right > found[-1] + _TOLERANCE:
            found.append(right)
    return found
