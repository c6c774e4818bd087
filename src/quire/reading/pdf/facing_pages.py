"""Two pages of a book on one landscape sheet: where the fold is, and the blocks of the left page before the right.

Two columns of a landscape page are read in that order anyway; what goes wrong without the fold are rows and tables that
go from one page to the other. So a sheet must show that it has two pages: by page numbers that follow one another, or
by heads or feet at one height on both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.column_order import column_order
from quire.reading.pdf.compose import with_tables_between
from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.layout_paragraphs import with_whole_paragraphs
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_flow import flow
from quire.reading.pdf.text_lines import TextLine, body_size

_LANDSCAPE = 1.15
_GUTTER = 0.03
"""Of the sheet's width: both pages have an inner margin."""
_EDGE = 0.12
_LEAST_LONG, _LONG_WORDS = 6, 5
_SAME_HEIGHT_PT = 3.0
_APART_EM = 0.9
Part = tuple[list[PageWord], list[TextLine], Rules]
_NUMBER = re.compile(r"\W*(\d{1,4})\W*")


def fold_of(lines: Sequence[TextLine], size: tuple[float, float]) -> float | None:
    """Where the left page ends and the right one begins; None for a sheet that is one page."""
    width, height = size
    if width < _LANDSCAPE * height:
        return None
    fold, half = width / 2, _GUTTER * width / 2
    if any(line.box[0] < fold + half and line.box[2] > fold - half for line in lines):
        return None
    sides = _sides(lines, fold)
    if any(sum(line.text.count(" ") >= _LONG_WORDS - 1 for line in side) < _LEAST_LONG for side in sides):
        return None
    left, right = (_edge_lines(side, height) for side in sides)
    return fold if _count_on(left, right) or _are_level(left, right) else None


def parts_of(
    words: Sequence[PageWord], lines: Sequence[TextLine], rules: Rules, fold: float
) -> tuple[Part, Part]:
    """Words, lines and rules of the left and of the right page. Rules that cross the fold are of neither."""
    left, right = _sides(lines, fold)
    left_words = [word for word in words if sum(word.box[::2]) / 2 < fold]
    right_words = [word for word in words if sum(word.box[::2]) / 2 >= fold]
    return (
        (left_words, left, _rules_between(rules, float("-inf"), fold)),
        (right_words, right, _rules_between(rules, fold, float("inf"))),
    )


def _sides(lines: Sequence[TextLine], fold: float) -> tuple[list[TextLine], list[TextLine]]:
    left = [line for line in lines if line.middle[0] < fold]
    return left, [line for line in lines if line.middle[0] >= fold]


def _rules_between(rules: Rules, left: float, right: float) -> Rules:
    return Rules(
        tuple(rule for rule in rules.horizontal if left <= rule.start and rule.end <= right),
        tuple(rule for rule in rules.vertical if left < rule.at < right),
        tuple(bar for bar in rules.bars if left <= bar[0] and bar[2] <= right),
    )


def facing_blocks(
    lines: Sequence[TextLine],
    tables: Sequence[Table],
    fold: float,
    height: float,
    *,
    items: frozenset[str] = frozenset(),
) -> list[FilledBlock]:
    """The blocks of both pages with their tables, the left page first. `lines` are those outside the tables."""
    found: list[FilledBlock] = []
    sides = _sides(lines, fold)
    edges = [_edge_lines(side, height) for side in sides]
    for place, side in enumerate(sides):
        own = [table for table in tables if (sum(table.box[::2]) / 2 >= fold) == bool(place)]
        level = [
            line for line in edges[place] if any(_is_at_height(line, other) for other in edges[1 - place])
        ]
        text = [line for line in side if line not in level]
        blocks = flow(text, [table.box for table in own], height, items=items)
        if blocks is None:
            blocks = _ordered_blocks(text, items)
        level.sort(key=lambda line: (round(line.middle[1]), line.box[0]))
        at_top = [line.middle[1] < height / 2 for line in level]
        found += [_running(line) for line, is_head in zip(level, at_top, strict=True) if is_head]
        found += with_tables_between(blocks, own)
        found += [_running(line) for line, is_head in zip(level, at_top, strict=True) if not is_head]
    return found


def _running(line: TextLine) -> FilledBlock:
    return FilledBlock(LayoutBlock("running", line.box), [line])


def _ordered_blocks(lines: Sequence[TextLine], items: frozenset[str]) -> list[FilledBlock]:
    """The blocks of a page that is not plain to read: MuPDF's, column after column, in whole paragraphs."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.block)]
    by_block = {}
    for run in runs:
        block = LayoutBlock("paragraph", hull([line.box for line in run]))
        by_block[id(block)] = FilledBlock(block, run)
    order = column_order([item.block for item in by_block.values()], may_be_labels=True)
    filled = [by_block[id(block)] for block in order]
    return with_whole_paragraphs(filled, body_size(lines), items=items)


def _edge_lines(lines: Sequence[TextLine], height: float) -> list[TextLine]:
    """The lines in the margins of a page, with the space of a line to the text."""
    edge = [line for line in lines if not _EDGE * height < line.middle[1] < (1 - _EDGE) * height]
    return [line for line in edge if all(_is_apart(line, other) for other in lines if other is not line)]


def _is_apart(line: TextLine, other: TextLine) -> bool:
    gap = max(other.box[1] - line.box[3], line.box[1] - other.box[3])
    is_level = gap < -0.5 * line.size
    return is_level or gap >= _APART_EM * line.size


def _count_on(left: Sequence[TextLine], right: Sequence[TextLine]) -> bool:
    """Whether a number in the margin of the right page follows one at the same height on the left page."""
    numbers = [(int(found[1]), line) for line in right if (found := _NUMBER.fullmatch(line.text))]
    return any(
        number == int(found[1]) + 1 and _is_at_height(line, other)
        for line in left
        if (found := _NUMBER.fullmatch(line.text))
        for number, other in numbers
    )


def _are_level(left: Sequence[TextLine], right: Sequence[TextLine]) -> bool:
    """Whether both pages have a head, or both a foot, at one height and in one size."""
    return any(
        _is_at_height(line, other) and abs(line.size - other.size) < 0.6 for line in left for other in right
    )


def _is_at_height(line: TextLine, other: TextLine) -> bool:
    return abs(line.middle[1] - other.middle[1]) <= _SAME_HEIGHT_PT
