"""Blocks of a page that is plain to read: upright lines, one below the other. Found from MuPDF's lines alone.

Most pages of reports, books and letters are such pages, and the layout reader is the dearest part of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.column_regions import column_regions
from quire.reading.pdf.contents_page import contents_blocks
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.list_columns import list_blocks
from quire.reading.pdf.mirrored_lines import MirroredLines, are_leftward, mirrored
from quire.reading.pdf.paragraph_runs import blocks_of
from quire.reading.pdf.prose_stretches import stretches
from quire.reading.pdf.several_columns import column_stretches
from quire.reading.pdf.text_lines import Box, TextLine
from quire.reading.pdf.text_rows import WORD_GAP_EM, TextRow, labels_of, parted_rows
from quire.reading.pdf.typewriter_prose import is_typewritten_prose, may_have_code

_EDGE = 0.13
_MOST_PARTED, _FEWEST_WHOLE, _SAME_LEFT = 2, 8, 3.0
"""One or two rows of a page may have gaps, as a letter's head has. Rows with equally many parts are a table."""
_STAMP_WORDS = 4
_PIECES, _PIECED_ROWS = 2, 4
"""Rows of so many pieces may be lines of columns with narrow gutters."""


def flow(
    lines: Sequence[TextLine],
    tables: Sequence[Box],
    height: float,
    *,
    has_grid: bool = False,
    items: frozenset[str] = frozenset(),
) -> list[FilledBlock] | None:
    """The page's blocks from top to bottom; None where it takes more than that to find the order.

    `lines` are those outside the tables, whose boxes are `tables`. `has_grid` says that a grid is drawn on the page:
    then a row with gaps may be the only one of a table. `items` are keys of texts that are tagged as items of lists.
    """
    stamps: list[FilledBlock] = []
    if any(not line.upright or line.mono for line in lines):
        stamps = _stamps(lines)
        lines = [line for line in lines if line.upright] if stamps else lines
        if not _are_plain(lines):
            return None
    if tables and any(_is_beside(line, tables) for line in lines):
        return None
    in_order = _flow_leftward if are_leftward(lines) else _flow_upright
    filled = in_order(lines, tables, height, has_grid, items)
    return None if filled is None else [*filled, *stamps]


def _are_plain(lines: Sequence[TextLine]) -> bool:
    """Whether all lines are upright, and in proportional type or in typewriter type throughout."""
    if not all(line.upright for line in lines):
        return False
    is_mono = any(line.mono for line in lines)
    return not is_mono or (not may_have_code(lines) and is_typewritten_prose(lines))


def _flow_upright(
    lines: Sequence[TextLine], tables: Sequence[Box], height: float, has_grid: bool, items: frozenset[str]
) -> list[FilledBlock] | None:
    contents = contents_blocks(lines, items) if not tables else None
    if contents is not None:
        return contents
    rows = _rows(lines, height, may_part=not has_grid and not tables)
    if rows is not None and (tables or sum(len(row.lines) > _PIECES for row in rows) < _PIECED_ROWS):
        return blocks_of(rows, items)
    if tables:
        return None
    columns = column_stretches(lines)
    if rows is not None and not columns:
        return blocks_of(rows, items)
    lists = list_blocks(lines, height, items) if not columns else None
    return lists if lists is not None else _flow_columns(columns or stretches(lines), height, items)


def _flow_columns(
    columns: Sequence[Sequence[TextLine]], height: float, items: frozenset[str]
) -> list[FilledBlock] | None:
    filled: list[FilledBlock] = []
    for stretch in columns:
        # Lines of references are stretched to fill their narrow columns: no gap parts them.
        rows = _rows(stretch, height, gap_em=inf if labels_of(stretch) else WORD_GAP_EM)
        if rows is None:
            return None
        filled += blocks_of(rows, items)
    return filled or None


def _flow_leftward(
    lines: Sequence[TextLine], tables: Sequence[Box], height: float, has_grid: bool, items: frozenset[str]
) -> list[FilledBlock] | None:
    """The same of lines that are read from right to left: pieces, columns and indents count from the right."""
    mirror = mirrored(lines)
    own = {id(copy): line for copy, line in zip(mirror.lines, lines, strict=True)}
    filled = _flow_upright(mirror.lines, list(map(mirror.box, tables)), height, has_grid, items)
    if filled is None and not tables:
        filled = _flow_columns(column_regions(mirror.lines), height, items)
    return filled and [_as_seen(item, mirror, own) for item in filled]


def _as_seen(item: FilledBlock, mirror: MirroredLines, own: Mapping[int, TextLine]) -> FilledBlock:
    """A block of mirrored lines with the lines of the page, which `own` has by the `id` of their copies."""
    entries = tuple(
        replace(entry, lines=tuple(own[id(one)] for one in entry.lines)) for entry in item.block.entries
    )
    block = replace(item.block, box=mirror.box(item.block.box), entries=entries)
    return FilledBlock(block, [own[id(one)] for one in item.lines])


def _stamps(lines: Sequence[TextLine]) -> list[FilledBlock]:
    """Turned text beside all other text, as the stamp of an archive, one block for each line; none if not all is so.

    A word or two in the margin may be the heading of what is beside them.
    """
    upright = [line.box for line in lines if line.upright]
    if not upright:
        return []
    left, right = min(box[0] for box in upright), max(box[2] for box in upright)
    turned = [line for line in lines if not line.upright]
    if any(left < line.box[2] and line.box[0] < right for line in turned):
        return []
    if any(len(line.text.split()) < _STAMP_WORDS for line in turned):
        return []
    return [FilledBlock(LayoutBlock("running", line.box), [line]) for line in turned]


def _is_beside(line: TextLine, tables: Sequence[Box]) -> bool:
    y = line.middle[1]
    return any(box[1] < y < box[3] for box in tables)


def _rows(
    lines: Sequence[TextLine], height: float, may_part: bool = False, gap_em: float = WORD_GAP_EM
) -> list[TextRow] | None:
    """The lines in rows from top to bottom, or None if lines are side by side that are not one line.

    With `may_part` single rows may have gaps. A gap is at least `gap_em` wide.
    """
    found = parted_rows(lines, gap_em=gap_em)
    if found is None:
        return None
    result: list[TextRow] = []
    parted: list[list[TextRow]] = []
    for parts in found:
        if len(parts) > 1 and _EDGE * height <= parts[0].box[3] and parts[0].box[1] <= (1 - _EDGE) * height:
            parted.append(parts)
        result.extend(parts)
    return result if not parted or (may_part and _are_single(parted, result)) else None


def _are_single(parted: Sequence[Sequence[TextRow]], rows: Sequence[TextRow]) -> bool:
    """Whether these rows with gaps are alone, as those of a letter's head: no column goes on below or above them."""
    if len(parted) > min(_MOST_PARTED, len(rows) / _FEWEST_WHOLE) or len(set(map(len, parted))) < len(parted):
        return False
    lefts = [part.box[0] for parts in parted for part in parts[1:]]
    return all(sum(abs(row.box[0] - left) < _SAME_LEFT for row in rows) == 1 for left in lefts)
