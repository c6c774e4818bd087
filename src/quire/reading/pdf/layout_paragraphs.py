"""Makes whole paragraphs of the blocks of the layout reader, which cuts some of them in the middle of a sentence.

What it knows is the order of the columns. Which rows of a column are a paragraph, an item or a heading is told as on
plain pages (`paragraph_runs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from quire.domain.element import Box, hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.mirrored_lines import MirroredLines, are_leftward, mirrored
from quire.reading.pdf.paragraph_runs import blocks_of, usual_steps
from quire.reading.pdf.text_lines import TextLine
from quire.reading.pdf.text_rows import RowSource, TextRow, parted_rows

_TEXT = ("paragraph", "heading", "list_item")
_BELOW_EM = 0.5
_SHARED = 0.5
"""Of the narrower one's width: what is above each other by less is in two columns."""
_WIDER = 0.25
_LABEL_LINES = 6
_WORD = re.compile(r"[^\W\d_]{3}")
_SAME_LEFT_PT = 2.0
_NOWHERE = -1e5


@dataclass(slots=True)
class _Stretch:
    """The rows of blocks of one column, from top to bottom."""

    rows: list[TextRow]
    box: Box
    is_column: bool
    """Several rows show how wide it is."""


def with_whole_paragraphs(
    filled: Sequence[FilledBlock],
    body: float,
    *,
    items: frozenset[str] = frozenset(),
    may_be_mono: bool = False,
) -> list[FilledBlock]:
    """The blocks in their order, with the rows of each column as paragraphs, items and headings.

    `body` is the size of the page's text, `items` are keys of texts that are tagged as items of lists. Tables, blocks
    with texts side by side and, unless it `may_be_mono`, text in type of one width stay as they are.
    """
    lines = [line for item in filled for line in item.lines]
    if lines and are_leftward(lines):
        mirror = mirrored(lines)
        own = {id(copy): line for copy, line in zip(mirror.lines, lines, strict=True)}
        copies = iter(mirror.lines)
        seen = [_in_mirror(item, mirror, [next(copies) for _ in item.lines]) for item in filled]
        whole = _whole(seen, body, items, may_be_mono)
        return [_in_mirror(item, mirror, [own[id(line)] for line in item.lines]) for item in whole]
    return _whole(filled, body, items, may_be_mono)


def _in_mirror(item: FilledBlock, mirror: MirroredLines, lines: list[TextLine]) -> FilledBlock:
    """The block with left and right changed; one that is not placed on the page stays so."""
    box = item.block.box
    return FilledBlock(replace(item.block, box=mirror.box(box) if box[0] > _NOWHERE else box), lines)


def _whole(
    filled: Sequence[FilledBlock], body: float, items: frozenset[str], may_be_mono: bool
) -> list[FilledBlock]:
    parts = list(_stretches(list(_without_labels(filled)), may_be_mono))
    steps = usual_steps([part.rows for part in parts if isinstance(part, _Stretch)])
    result: list[FilledBlock] = []
    for part in parts:
        if isinstance(part, FilledBlock):
            result.append(part)
        else:
            result += blocks_of(part.rows, items, body=body, steps=steps)
    return result


def _without_labels(filled: Sequence[FilledBlock]) -> Iterator[FilledBlock]:
    """The blocks; a label in the margin is one by itself where its block has the first line of the text beside it."""
    for item, below in zip(filled, [*filled, None][1:], strict=True):
        parts = _label_and_text(item, below) if below is not None and below.lines else []
        if not parts:
            yield item
        for row in parts:
            yield FilledBlock(replace(item.block, box=row.box, text=row.text), row.lines)


def _label_and_text(item: FilledBlock, below: FilledBlock) -> list[TextRow]:
    """The two texts of a block of one row, the second of which begins where the block below does."""
    if item.block.kind != "paragraph" or not 1 < len(item.lines) < _LABEL_LINES:
        return []
    parted = parted_rows(item.lines)
    if parted is None or len(parted) != 1 or len(parted[0]) != 2:
        return []
    label, text = parted[0]
    left = min(line.box[0] for line in below.lines)
    if not _WORD.search(label.text) or label.text.endswith(":"):
        return []  # "Table 6:" is a part of what is behind it, and so is a number
    return [label, text] if label.box[2] < left and abs(text.box[0] - left) <= _SAME_LEFT_PT else []


def _stretches(filled: Sequence[FilledBlock], may_be_mono: bool) -> Iterator[_Stretch | FilledBlock]:
    """The blocks as stretches of one column each, and those that are in none."""
    stretch: _Stretch | None = None
    for number, item in enumerate(filled, 1):
        mono = sum(len(line.text) for line in item.lines if line.mono)
        is_code = not may_be_mono and 2 * mono > sum(len(line.text) for line in item.lines)
        rows = _rows(item, number) if not is_code else []
        if not rows:
            if stretch is not None:
                yield stretch
            stretch = None
            yield item
            continue
        box = hull([row.box for row in rows])
        is_column = len(rows) > 1
        if stretch is not None and _goes_on(stretch, rows, box):
            stretch.rows += rows
            stretch.box = hull([stretch.box, box])
            stretch.is_column = stretch.is_column or is_column
            continue
        if stretch is not None:
            yield stretch
        stretch = _Stretch(rows, box, is_column)
    if stretch is not None:
        yield stretch


def _rows(item: FilledBlock, number: int) -> list[TextRow]:
    """The rows of a block that may be reflowed; none of one that is no text, or has texts side by side."""
    if item.block.kind not in _TEXT or any(not line.upright for line in item.lines):
        return []
    parted = parted_rows(item.lines) or []
    if any(len(parts) > 1 for parts in parted):
        return []
    rows = [row for (row,) in parted]
    if [id(line) for row in rows for line in row.lines] != list(map(id, item.lines)):
        return []
    is_bold = all(row.bold for row in rows)
    source = RowSource(number if item.block.kind == "heading" else 0, is_bold, item.block.box[2])
    for row in rows:
        row.source = source
    return rows


def _goes_on(stretch: _Stretch, rows: Sequence[TextRow], box: Box) -> bool:
    """Whether the rows are below the stretch, in its column."""
    last = stretch.rows[-1]
    if box[1] < last.box[3] - _BELOW_EM * last.size:
        return False
    x0, _, x1, _ = stretch.box
    width = min(x1 - x0, box[2] - box[0])
    if min(x1, box[2]) - max(x0, box[0]) < _SHARED * width:
        return False
    return not (stretch.is_column and len(rows) > 1) or abs(x1 - box[2]) <= _WIDER * width
