"""Blocks of Markdown collected into pages of bearable size.

A page ends where the author ended one. Otherwise it is filled up to a bound and cut before the highest heading in its
second half, else before any block; a table that is larger than a page is cut between rows and shows its head again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from quire.domain.element import CellSpan, ElementKind
from quire.errors import TooLargeError
from quire.reading.office.inline_markdown import plain
from quire.reading.office.review_marks import ReviewMark, ReviewMarks

PAGE_CHARS = 16_000
"""Of a document that flows: about five printed pages."""
TABLE_PAGE_CHARS = 60_000
"""Of a sheet or a table file."""
MOST_CHARS = 100_000_000
"""Of a document: a table that names one long text a million times would have more."""
_NO_HEADING = 99


Spans = tuple[CellSpan, ...]


class RunningText(NamedTuple):
    """A header or a footer, as inline Markdown."""

    kind: ElementKind
    text: str


class CaptionOf(StrEnum):
    """Which block a caption belongs to, as far as the format says."""

    NEXT = "next"
    BEFORE = "before"
    UNKNOWN = "unknown"


class PageCaption(NamedTuple):
    """The line of a page's Markdown, counted from 0, where a caption begins."""

    line: int
    of: CaptionOf


@dataclass(frozen=True, slots=True)
class OfficePage:
    """A page's Markdown, and for each placeholder in it, in order, its picture's place ("" if not known).

    `spans` has, for each table in order, the cells that span several rows or columns, which Markdown can't say.
    `running` are headers and footers, which are not in the Markdown. `captions` are blocks of the Markdown that are
    captions; `marks` what the file says of the page's text beside it.
    """

    markdown: str
    pictures: tuple[str, ...] = ()
    spans: tuple[Spans, ...] = ()
    running: tuple[RunningText, ...] = ()
    captions: tuple[PageCaption, ...] = ()
    marks: tuple[ReviewMark, ...] = ()


class MarkdownBlock(NamedTuple):
    """`heading` is its level, 0 for everything else. Tight blocks (items of a list) follow each other line by line."""

    text: str
    heading: int = 0
    tight: bool = False
    pictures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Footnotes, which are put at the end of the page that refers to them."""
    spans: Spans = ()
    """Of a table."""
    caption: CaptionOf | None = None
    marks: tuple[ReviewMark, ...] = ()
    begins: bool = False
    """It is the first item of a list, which is not that of the items before it."""

    @property
    def is_table(self) -> bool:
        """Only tables begin like this: in other texts the sign is escaped."""
        return self.text.startswith("| ")


class Pager:
    def __init__(self, bound: int = PAGE_CHARS) -> None:
        self._bound = bound
        self._blocks: list[MarkdownBlock] = []
        self._chars = 0
        self._total = 0
        self.pages: list[OfficePage] = []
        self.marks = ReviewMarks()
        """Those that were gathered belong to the block that is added next, or to the last page."""
        self.added = 0
        """How many blocks were added."""

    def add(self, block: MarkdownBlock) -> None:
        if not block.text:
            return
        self.added += 1
        if marks := self.marks.taken():
            block = block._replace(marks=marks)
        self._total += len(block.text)
        if self._total > MOST_CHARS:
            raise TooLargeError(
                f"The document has more than {MOST_CHARS // 10**6} million characters of text. Send it in parts."
            )
        if len(block.text) > self._bound:
            self._add_in_parts(block)
            return
        self._blocks.append(block)
        self._chars += len(block.text) + 2
        while self._chars > self._bound and len(self._blocks) > 1:
            self._cut(self._best_cut())

    def add_table(
        self,
        rows: Sequence[Sequence[str]],
        pictures: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        spans: Spans = (),
    ) -> None:
        """Rows of cells that are Markdown already. The first is the head."""
        lines = table_lines(rows)
        if not lines:
            return
        head, size, start = lines[:2], 0, 2
        for at in range(2, len(lines)):
            size += len(lines[at]) + 1
            if size > self._bound - len(head[0]) * 2 and at > start:
                part = _spans_between(spans, start - 1, at - 1)
                self.add(MarkdownBlock("\n".join([*head, *lines[start:at]]), spans=part))
                self.end_page()
                size, start = len(lines[at]), at
        text, part = "\n".join([*head, *lines[start:]]), _spans_between(spans, start - 1, len(rows))
        self.add(MarkdownBlock(text, pictures=pictures, notes=notes, spans=part))

    def end_page(self) -> None:
        """The author ended a page here."""
        if self._blocks:
            self._cut(len(self._blocks))

    def finish(self) -> list[OfficePage]:
        self.end_page()
        if self.pages and (marks := self.marks.taken()):
            self.pages[-1] = replace(self.pages[-1], marks=(*self.pages[-1].marks, *marks))
        return self.pages

    def _add_in_parts(self, block: MarkdownBlock) -> None:
        text = block.text
        while len(text) > self._bound:
            at = max(
                text.rfind("\n", self._bound // 2, self._bound),
                text.rfind(" ", self._bound // 2, self._bound),
            )
            at = at if at > 0 else self._bound
            self._blocks.append(MarkdownBlock(text[:at].rstrip()))
            self.end_page()
            text = text[at:].lstrip()
        # Which of them a picture was on is not worth finding out: they go with the last.
        self.marks.put_back(block.marks)
        self.add(MarkdownBlock(text, pictures=block.pictures, notes=block.notes))

    def _best_cut(self) -> int:
        best, best_rank = len(self._blocks) - 1, (_NO_HEADING, 0)
        chars = 0
        for at, block in enumerate(self._blocks):
            if at and (chars >= self._bound // 2 or at == len(self._blocks) - 1):
                rank = (block.heading or (_NO_HEADING + block.tight), -at)
                if rank < best_rank or best_rank == (_NO_HEADING, 0):
                    best, best_rank = at, rank
            chars += len(block.text) + 2
        # A heading must not be the last thing on a page.
        while best > 1 and self._blocks[best - 1].heading:
            best -= 1
        return best

    def _cut(self, at: int) -> None:
        gone, self._blocks = self._blocks[:at], self._blocks[at:]
        self._chars = sum(len(block.text) + 2 for block in self._blocks)
        pictures = tuple(ref for block in gone for ref in block.pictures)
        notes = [MarkdownBlock(note, tight=True) for block in gone for note in block.notes]
        marks = tuple(mark for block in gone for mark in block.marks)
        captions = block_captions(gone) if any(block.caption for block in gone) else ()
        page = OfficePage(
            joined([*gone, *notes]), pictures, table_spans(gone), captions=captions, marks=marks
        )
        self.pages.append(page)


def table_spans(blocks: Iterable[MarkdownBlock]) -> tuple[Spans, ...]:
    """The spans of each table among the blocks."""
    return tuple(block.spans for block in blocks if block.is_table)


def _spans_between(spans: Spans, first: int, end: int) -> Spans:
    """The spans in the head and in the rows from `first` to before `end`, which follow the head."""
    found: list[CellSpan] = []
    for span in spans:
        top, bottom = max(span.row, first), min(span.row + span.row_span, end)
        if span.row == 0:
            found.append(span._replace(row_span=1 + max(0, bottom - first) if first == 1 else 1))
        elif top < bottom and span.row >= first:
            found.append(span._replace(row=span.row - first + 1, row_span=bottom - top))
    return tuple(span for span in found if span.row_span > 1 or span.column_span > 1)


def kept_spans(spans: Iterable[CellSpan], rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], Spans]:
    """The rows that have any text, and the spans among these rows."""
    places = [at for at, row in enumerate(rows) if any(row)]
    place = {at: new for new, at in enumerate(places)}
    moved: list[CellSpan] = []
    for span in spans:
        height = sum(at in place for at in range(span.row, span.row + span.row_span))
        if span.row in place and (height > 1 or span.column_span > 1):
            moved.append(CellSpan(place[span.row], span.column, height, span.column_span))
    return [list(rows[at]) for at in places], tuple(moved)


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    parts: list[str] = []
    before: MarkdownBlock | None = None
    for block in blocks:
        parts += (_between(before, block), block.text)
        before = block
    return "".join(parts)


def block_captions(blocks: Iterable[MarkdownBlock]) -> tuple[PageCaption, ...]:
    """Where the captions among the blocks are, once these are joined."""
    found: list[PageCaption] = []
    line = 0
    before: MarkdownBlock | None = None
    for block in blocks:
        line += len(_between(before, block))
        if block.caption is not None:
            found.append(PageCaption(line, block.caption))
        line += block.text.count("\n")
        before = block
    return tuple(found)


def _between(before: MarkdownBlock | None, block: MarkdownBlock) -> str:
    if before is None:
        return ""
    # A footnote right below an item would go on with the item.
    alike = before.text.startswith("[^") == block.text.startswith("[^")
    return "\n" if before.tight and block.tight and alike and not block.begins else "\n\n"


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a pipe table whose cells are Markdown already.

    Only the head is filled up to the width of the widest row: Markdown asks no more, and a file with one wide row and
    a million short ones would grow a thousandfold.
    """
    width = max(map(len, rows), default=0)
    if not width:
        return []
    lines: list[str] = []
    for row in rows:
        cells = [
            one.replace("|", "\\|").replace("\n", " ") if "|" in one or "\n" in one else one for one in row
        ]
        if not lines:
            cells += [""] * (width - len(cells))
        lines.append(f"| {' | '.join(cells)} |")
    lines.insert(1, "|" + "---|" * width)
    return lines


def cell(text: str) -> str:
    """A table cell's text, none of it markup."""
    return text if text.isalnum() else plain(" ".join(text.split()))


class MergedCells:
    """Collects cells that are merged down a column, of which each row only has its own part."""

    def __init__(self) -> None:
        self._open: dict[int, CellSpan] = {}
        self._closed: list[CellSpan] = []

    def add(self, row: int, column: int, width: int, *, is_merged: bool, goes_on: bool) -> None:
        """The part of a cell in one row. `goes_on` says that it belongs to the cell above."""
        above = self._open.pop(column, None)
        if goes_on and above is not None and above.row + above.row_span == row:
            self._open[column] = above._replace(row_span=above.row_span + 1)
            return
        if above is not None:
            self._closed.append(above)
        if is_merged:
            self._open[column] = CellSpan(row, column, 1, width)
        elif width > 1:
            self._closed.append(CellSpan(row, column, 1, width))

    def spans(self) -> list[CellSpan]:
        """The cells that cover more than one place."""
        found = [*self._closed, *self._open.values()]
        return sorted(span for span in found if span.row_span > 1 or span.column_span > 1)


class Lists:
    """Items one after the other; each is indented to the first word of the one it belongs to, as Markdown wants it."""

    def __init__(self) -> None:
        self._around: list[tuple[int, int]] = []
        """Depth of each item that the next one may belong to, and the column of its first word."""

    def item(self, depth: int, marker: str, text: str) -> str:
        while self._around and self._around[-1][0] >= depth:
            self._around.pop()
        indent = self._around[-1][1] if self._around else 0
        self._around.append((depth, indent + len(marker) + 1))
        body = text.replace("\n", "\n" + " " * (indent + len(marker) + 1))
        return f"{' ' * indent}{marker} {body}"

    def column(self, depth: int) -> int:
        """Where the words begin of the last item that is less deep."""
        return next((column for above, column in reversed(self._around) if above < depth), 0)

    def end(self) -> None:
        self._around.clear()
