"""Tells prose that the layout reader cuts at a space between words and calls a table of two columns.

Below the number of a heading, which is apart from its title, spaces of some lines may happen to be above each other:
"5.4 | Kinematics", "The | modules have been removed". A border of a table is a gap; here lines run on over it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.line_pieces import is_number
from quire.reading.pdf.text_lines import TextLine

_SECTION = re.compile(r"(?:\d{1,2}|[A-Z](?=\.\d))(?:\.\d{1,2}){0,4}\.?")
_LONG_LINE = 15
_MOSTLY = 0.5
_LEAST_ROWS, _LEAST_LINES = 2, 2


def is_cut_prose(block: LayoutBlock, inside: Sequence[TextLine]) -> bool:
    """Whether most full rows of the table are lines that run on over its border, or headings with their numbers.

    A cell that wraps has its first row as a line only, so the text of the row is looked for where the line begins.
    Figures may be as close to their labels as words are to each other.
    """
    if max(map(len, block.rows), default=0) != 2:
        return False
    full = [(row[0], row[1]) for row in block.rows if len(row) == 2 and all(row)]
    heads = sum(_is_head(*row, inside) for row in full)
    texts = [compact(line.text) for line in inside]
    rest = [row for row in full if not _is_head(*row, inside)]
    cut = sum(_is_cut(left, right, texts) for left, right in rest)
    if not rest:
        return heads > 0
    return cut >= max(1, _MOSTLY * len(rest)) and (heads > 0 or cut > 1)


def without_prose_below(block: LayoutBlock, inside: Sequence[TextLine]) -> LayoutBlock:
    """The table without its last rows that are lines of a paragraph below it.

    Their text goes on from row to row in the first column, and each is one line of the page.
    """
    first, top = len(block.rows), 0.0
    lines = [(compact(line.text), line.box[1]) for line in inside]
    while first > _LEAST_ROWS and (found := _whole_line(block.rows[first - 1], lines)) is not None:
        first, top = first - 1, found
        if not block.rows[first][0][:1].islower():
            break
    if len(block.rows) - first < _LEAST_LINES or not block.rows[first + 1][0][:1].islower():
        return block
    x0, y0, x1, _ = block.box
    return replace(block, box=(x0, y0, x1, top), rows=block.rows[:first])


def _whole_line(row: Sequence[str], lines: Sequence[tuple[str, float]]) -> float | None:
    """Where the line begins that has the texts of several cells of the row; None if there is none."""
    text = compact(" ".join(row))
    if len(text) < _LONG_LINE or sum(map(bool, row)) < _LEAST_LINES:
        return None
    return next((y for key, y in lines if key == text), None)


def _is_head(left: str, right: str, inside: Sequence[TextLine]) -> bool:
    """Whether it is the number of a section before its title, both in bold."""
    if not _SECTION.fullmatch(left) or is_number(right):
        return False
    title = compact(right)
    bold = [line.text for line in inside if line.bold]
    return left in bold and any(title.startswith(compact(text)) for text in bold if text != left)


def _is_cut(left: str, right: str, texts: Sequence[str]) -> bool:
    """Whether one line has the end of the left cell and the beginning of the right one."""
    if is_number(right) or is_number(left):
        return False
    key, following = compact(left), compact(right)
    return any(
        len(text) >= _LONG_LINE
        and key
        and text.startswith(key)
        and following.startswith(text[len(key) :])
        and len(text) > len(key)
        for text in texts
    )
