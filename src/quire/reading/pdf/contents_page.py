"""Reads a page that is a contents list row by row: most of its rows end in dots and the number of a page at one edge.

Dots in lines of their own, and chapters without dots, tear such a page into columns of titles and of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.contents_list import ENDS_IN_PAGE, ContentsEntry, entry_of, indents_of
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.paragraph_runs import blocks_of
from quire.reading.pdf.text_lines import TextLine
from quire.reading.pdf.text_rows import TextRow, parted_rows

_LEAST_ENTRIES = 6
_MOSTLY = 0.5
_SAME_EDGE_PT = 4.0
_NEXT_LINE_EM = 1.6
_PAGE = re.compile(r"(?<![^\s.])(?:(?:[A-Z]{1,2}-?)?\d{1,4}|[ivxlc]{1,7})$")
_DOTS = ("...", ". . .", "…", "···")


def contents_blocks(lines: Sequence[TextLine], items: frozenset[str]) -> list[FilledBlock] | None:
    """The blocks of a contents page from top to bottom; None for another page."""
    rows = _rows(lines)
    if not rows:
        return None
    right = _right_edge(rows)
    are_entries = _are_entries(rows, right)
    blocks: list[FilledBlock] = []
    for is_entry, group in groupby(zip(are_entries, rows, strict=True), key=lambda pair: pair[0]):
        part = [row for _, row in group]
        blocks += [_list_of(part, right)] if is_entry else blocks_of(part, items)
    return blocks


def is_contents_page(lines: Sequence[TextLine]) -> bool:
    """Whether most rows of the page end in dots and a number at one edge."""
    return bool(_rows(lines))


def _rows(lines: Sequence[TextLine]) -> list[TextRow]:
    """The rows of a contents page; none of another one."""
    dotted = [line for line in lines if any(dots in line.text for dots in _DOTS)]
    if len(dotted) < _LEAST_ENTRIES:
        return []  # most pages
    found = parted_rows(lines, may_stretch=False, gap_em=float("inf"))
    rows = [row for (row,) in found or ()]
    ends = [row for row in rows if ENDS_IN_PAGE.search(row.text)]
    if len(ends) < max(_LEAST_ENTRIES, _MOSTLY * len(rows)):
        return []
    right = _right_edge(rows)
    # Entries in two columns end at two edges.
    return rows if all(abs(row.box[2] - right) <= _SAME_EDGE_PT for row in ends) else []


def _right_edge(rows: Sequence[TextRow]) -> float:
    rights = sorted(row.box[2] for row in rows if ENDS_IN_PAGE.search(row.text))
    return rights[len(rights) // 2]


def _are_entries(rows: Sequence[TextRow], right: float) -> list[bool]:
    """Whether each row is an entry: it ends in a number at the edge, or goes on in the next row, which does."""
    are = [_has_page(row, right) for row in rows]
    for place, (row, following) in reversed(list(enumerate(pairwise(rows)))):
        if not are[place] and are[place + 1]:
            is_near = following.box[3] - row.box[3] < _NEXT_LINE_EM * row.size
            are[place] = is_near and _same_type(row.lines[0], following.lines[0])
    return are


def _same_type(line: TextLine, other: TextLine) -> bool:
    return line.size == other.size


def _has_page(row: TextRow, right: float) -> bool:
    return abs(row.box[2] - right) <= _SAME_EDGE_PT and _PAGE.search(row.text) is not None


def _list_of(rows: Sequence[TextRow], right: float) -> FilledBlock:
    entries = list(_entries(rows, right))
    return FilledBlock(LayoutBlock("contents", hull([row.box for row in rows]), entries=tuple(entries)))


def _entries(rows: Sequence[TextRow], right: float) -> Iterator[ContentsEntry]:
    indents = indents_of([row.lines[0] for row in rows])
    waiting: list[TextLine] = []
    for row in rows:
        waiting += row.lines
        if _has_page(row, right):
            yield entry_of(waiting, indents)
            waiting = []
    if waiting:
        yield entry_of(waiting, indents)
