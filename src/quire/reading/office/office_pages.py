"""Blocks of Markdown collected into pages of bearable size.

A page ends where the author ended one. Otherwise it is filled up to a bound and cut before the highest heading in its
second half, else before any block; a table that is larger than a page is cut between rows and shows its head again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quire.errors import TooLargeError
from quire.reading.office.inline_markdown import plain

PAGE_CHARS = 16_000
"""Of a document that flows: about five printed pages."""
TABLE_PAGE_CHARS = 60_000
"""Of a sheet or a table file."""
MOST_CHARS = 100_000_000
"""Of a document: a table that names one long text a million times would have more."""
_NO_HEADING = 99


@dataclass(frozen=True, slots=True)
class OfficePage:
    """A page's Markdown, and for each placeholder in it, in order, its picture's place ("" if not known)."""

    markdown: str
    pictures: tuple[str, ...] = ()


class MarkdownBlock(NamedTuple):
    """`heading` is its level, 0 for everything else. Tight blocks (items of a list) follow each other line by line."""

    text: str
    heading: int = 0
    tight: bool = False
    pictures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Footnotes, which are put at the end of the page that refers to them."""


class Pager:
    def __init__(self, bound: int = PAGE_CHARS) -> None:
        self._bound = bound
        self._blocks: list[MarkdownBlock] = []
        self._chars = 0
        self._total = 0
        self.pages: list[OfficePage] = []

    def add(self, block: MarkdownBlock) -> None:
        if not block.text:
            return
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
        self, rows: Sequence[Sequence[str]], pictures: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> None:
        """Rows of cells that are Markdown already. The first is the head."""
        lines = table_lines(rows)
        if not lines:
            return
        head, size, start = lines[:2], 0, 2
        for at in range(2, len(lines)):
            size += len(lines[at]) + 1
            if size > self._bound - len(head[0]) * 2 and at > start:
                self.add(MarkdownBlock("\n".join([*head, *lines[start:at]])))
                self.end_page()
                size, start = len(lines[at]), at
        self.add(MarkdownBlock("\n".join([*head, *lines[start:]]), pictures=pictures, notes=notes))

    def end_page(self) -> None:
        """The author ended a page here."""
        if self._blocks:
            self._cut(len(self._blocks))

    def finish(self) -> list[OfficePage]:
        self.end_page()
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
        self.pages.append(OfficePage(joined([*gone, *notes]), pictures))


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    parts: list[str] = []
    before: MarkdownBlock | None = None
    for block in blocks:
        if before is not None:
            parts.append("\n" if before.tight and block.tight else "\n\n")
        parts.append(block.text)
        before = block
    return "".join(parts)


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


class Lists:
    """Items one after the other; each is indented to the first word of the one it belongs to, as Markdown wants it."""

    def __init__(self) -> None:
        self._columns: list[int] = []

    def item(self, depth: int, marker: str, text: str) -> str:
        depth = min(depth, len(self._columns))
        del self._columns[depth:]
        indent = self._columns[-1] if self._columns else 0
        self._columns.append(indent + len(marker) + 1)
        body = text.replace("\n", "\n" + " " * (indent + len(marker) + 1))
        return f"{' ' * indent}{marker} {body}"

    def end(self) -> None:
        self._columns.clear()
