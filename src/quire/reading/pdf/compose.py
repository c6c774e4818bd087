"""Puts a page together from the layout reader's order, MuPDF's lines and the tables found.

The result is a list of blocks with their lines; `block_elements` makes elements of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from quire.domain.element import hull
from quire.reading.pdf.backward_words import with_words_forwards
from quire.reading.pdf.block_matching import FilledBlock, block_text, compact, match
from quire.reading.pdf.code_lines import as_text, with_indents, without_false_code
from quire.reading.pdf.column_order import column_order
from quire.reading.pdf.column_regions import in_column_order
from quire.reading.pdf.cut_lines import is_cut_prose, without_prose_below
from quire.reading.pdf.drawn_rules import NO_RULES, Box, Rules, crosses_bars
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.layout_paragraphs import with_whole_paragraphs
from quire.reading.pdf.list_columns import are_list_cells, list_lefts, list_runs
from quire.reading.pdf.rows_above import with_rows_above
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine, body_size
from quire.reading.pdf.texts_beside import are_texts_beside, text_runs
from quire.reading.pdf.typewriter_prose import are_words, is_typewritten_prose

_TOUCHED = 0.05
_FEW = 0.25
_HALF = 0.5
_LONG_LINE = 15
"""Letters and digits: more than most cells of a table have in a line."""
_MOSTLY_LONG = 0.6
_LEAST_CUT, _OFTEN_CUT = 5, 0.3
_LEVEL = 0.2
_TWICE = 1.2
_LARGE_PART = 0.25
_MOST_LINES = 400
"""Of a table: lines are compared with each other."""
_MARK = re.compile(r"\W{1,2}|o")
_MARKS = re.compile(r"[*•●▪■◦‣·/#\s]+")
_ENDED = re.compile(r"[.!?:;][\"'”’)\]]*$")
NOWHERE = (-1e6, -1e6, -1e6, -1e6)
"""The box of prose that shares a table's frame: no other block is placed relative to it."""


def compose(
    blocks: Sequence[LayoutBlock],
    lines: Sequence[TextLine],
    tables: Sequence[Table],
    dropped: Sequence[TextLine],
    rules: Rules = NO_RULES,
    *,
    items: frozenset[str] = frozenset(),
) -> list[FilledBlock]:
    """The blocks of the whole page without the lines `dropped`, in whole paragraphs.

    No other line is lost: a line that is in no block becomes a block of its own. Tables keep all they have. `items`
    are keys of texts that are tagged as items of lists.
    """
    blocks = with_words_forwards(blocks, lines)
    is_typed = any(line.mono for line in lines) and is_typewritten_prose(lines)
    blocks = list(map(_typed, blocks)) if is_typed else without_false_code(blocks, lines)
    blocks = with_rows_above(_without_false_tables(blocks, lines, dropped, rules), lines)
    kept, cut = _with_tables(blocks, tables)
    filled, orphans = match(kept, outside(lines, tables), cut)
    place_lines(filled, [*orphans, *_take_turned(filled)])
    filled = _without(filled, dropped)
    gone = set(map(id, dropped))
    rest = [line for line in outside(lines, tables) if id(line) not in gone]
    filled = in_column_order(filled, rest, [table.box for table in tables])
    filled = with_indents(filled, lines)
    return with_whole_paragraphs(filled, body_size(lines), items=items, may_be_mono=is_typed)


def _take_turned(filled: Sequence[FilledBlock]) -> list[TextLine]:
    """The turned lines in blocks of upright text, taken out of them: the label of an axis is no part of a caption."""
    taken: list[TextLine] = []
    for item in filled:
        turned = [line for line in item.lines if not line.upright]
        if 0 < len(turned) < len(item.lines):
            item.lines = [line for line in item.lines if line.upright]
            taken += turned
    return taken


def _typed(block: LayoutBlock) -> LayoutBlock:
    """A block of a page in typewriter type: what is of words is a paragraph, not code."""
    return as_text(block) if block.kind == "code" and are_words(block.lines) else block


def _without(filled: Sequence[FilledBlock], dropped: Sequence[TextLine]) -> list[FilledBlock]:
    """The blocks without the lines dropped; a block that consisted of nothing else goes too."""
    if not dropped:
        return list(filled)
    gone = {id(line) for line in dropped}
    texts = {compact(line.text) for line in dropped}
    kept: list[FilledBlock] = []
    for item in filled:
        lines = [line for line in item.lines if id(line) not in gone]
        if item.lines and not lines:
            continue
        if not item.lines and item.block.text and compact(item.block.text) in texts:
            continue
        kept.append(FilledBlock(item.block, lines))
    return kept


def _with_tables(
    blocks: Sequence[LayoutBlock], tables: Sequence[Table]
) -> tuple[list[LayoutBlock], frozenset[int]]:
    """The blocks with those that our own tables replace taken out, and which of the rest lost a part."""
    kept: list[LayoutBlock] = []
    cut: set[int] = set()
    placed: set[int] = set()
    for block in blocks:
        if block.kind == "table" and not _is_table(block):
            kept.extend(_bullets(block))
            continue
        shares = [_share(block.box, table.box) for table in tables]
        most = max(range(len(tables)), key=lambda i: shares[i], default=None)
        if most is None or shares[most] <= _TOUCHED:
            kept.append(block)
        elif shares[most] > _HALF or block.kind == "table":
            for i, table in enumerate(tables):
                if i not in placed and (i == most or _share(table.box, block.box) > _HALF):
                    placed.add(i)
                    kept.extend(_table_blocks(table))
        else:
            cut.add(len(kept))
            kept.append(_without_rows(block, tables[most]) if block.kind == "code" else block)
    for i, table in enumerate(tables):
        if i not in placed:
            at = next((k for k, b in enumerate(kept) if b.box[1] >= table.box[3] - 2), len(kept))
            new = _table_blocks(table)
            kept[at:at] = new
            cut = {c + len(new) if c >= at else c for c in cut}
    return kept, frozenset(cut)


def _without_rows(block: LayoutBlock, table: Table) -> LayoutBlock:
    """Code without the lines that a table beside it has, below or above the table."""
    rows = compact(" ".join(cell for row in table.rows for cell in row))
    repeated = [compact(line) in rows for line in block.lines]
    x0, top, x1, bottom = block.box
    top = max(top, table.box[3]) if repeated[:1] == [True] else top
    bottom = min(bottom, table.box[1]) if repeated[-1:] == [True] and top < table.box[1] else bottom
    kept = tuple(line for line, is_row in zip(block.lines, repeated, strict=True) if not is_row)
    return replace(block, box=(x0, top, x1, bottom), lines=kept)


def _is_table(block: LayoutBlock) -> bool:
    """Not one column, one row or a list: the layout reader calls framed prose and bullets a table."""
    if sum(map(any, block.rows)) < 2 or _is_bulleted(block) or _is_prose(block):
        return False
    return max(map(len, block.rows)) >= 2 or _is_framed_list(block)


def _without_false_tables(
    blocks: Sequence[LayoutBlock], lines: Sequence[TextLine], dropped: Sequence[TextLine], rules: Rules
) -> list[LayoutBlock]:
    """The blocks without tables of which most lines are running lines, and with texts side by side as paragraphs."""
    gone = {id(line) for line in dropped}
    texts = [(block.box, compact(block_text(block))) for block in blocks if block.kind != "table"]
    kept: list[LayoutBlock] = []
    for block in blocks:
        if block.kind != "table":
            kept.append(block)
            continue
        held = _lines_in(lines, block.box)
        inside = [line for line in held if line.upright]
        if 2 * sum(id(line) in gone for line in inside) > len(inside):
            continue
        lefts = list_lefts(inside)
        if lefts:
            free = [line for line in inside if id(line) not in gone and not _is_in_one(line, texts)]
            gone.update(map(id, free))
            kept += _paragraphs(list_runs(free, lefts))
            continue
        repeats = _repeats_prose(block, held)
        mixes = repeats or _has_marked_lines(block) or _mixes_columns(block, inside)
        mixes = mixes or crosses_bars(block.box, rules) or is_cut_prose(block, inside)
        is_beside = not mixes and _is_table(block) and _is_side_by_side(block, inside, rules)
        if not (mixes or is_beside):
            kept.append(without_prose_below(block, inside))
            continue
        free = [line for line in inside if id(line) not in gone and not _is_in_one(line, texts)]
        gone.update(map(id, free))
        runs = text_runs(free) if is_beside else _block_runs(free)
        kept += column_order(_paragraphs(runs), may_be_labels=is_beside or repeats)
    return kept


def _is_side_by_side(block: LayoutBlock, inside: Sequence[TextLine], rules: Rules) -> bool:
    return are_list_cells(block.rows) or are_texts_beside(block, inside, rules)


def _block_runs(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Runs of lines that MuPDF takes for one block."""
    return [list(same) for _, same in groupby(lines, key=lambda line: line.block)]


def _paragraphs(runs: Sequence[Sequence[TextLine]]) -> list[LayoutBlock]:
    """A block for each run of lines."""
    return [
        LayoutBlock("paragraph", hull([line.box for line in run]), " ".join(line.text for line in run))
        for run in runs
    ]


def _has_marked_lines(block: LayoutBlock) -> bool:
    """Whether the first of several columns has nothing but marks, as a comment has one before each of its lines."""
    widest = max(map(len, block.rows), default=0)
    return widest > 2 and len(block.rows) > 1 and all(_MARKS.fullmatch(row[0]) for row in block.rows)


def _mixes_columns(block: LayoutBlock, inside: Sequence[TextLine]) -> bool:
    """Whether its cells mix words of several columns of text.

    A border of a table divides texts. Here most lines are long, and borders cut many of them in two that have another
    long line beside them. A long line by itself may be a row of close cells.
    """
    long = [(line, text) for line in inside if len(text := compact(line.text)) >= _LONG_LINE]
    if not max(_LEAST_CUT, _MOSTLY_LONG * len(inside)) <= len(long) <= _MOST_LINES:
        return False
    cells = [compact(cell) for row in block.rows for cell in row]
    cut = [line for line, text in long if not any(text in cell for cell in cells)]
    beside = sum(any(_are_beside(line, other) for other, _ in long) for line in cut)
    return beside >= max(_LEAST_CUT, _OFTEN_CUT * len(long))


def _repeats_prose(block: LayoutBlock, held: Sequence[TextLine]) -> bool:
    """Whether its cells have more letters than the lines there, and one of them a large part of those.

    A head over several columns may stand in each of them; a text of many lines that does was none of the table's.
    """
    there = sum(len(compact(line.text)) for line in held)
    cells = [len(compact(cell)) for row in block.rows for cell in row]
    return 0 < _TWICE * there < sum(cells) and max(cells) > _LARGE_PART * there


def _are_beside(line: TextLine, other: TextLine) -> bool:
    """Whether they share a height and no place. Lines of two columns need not be level."""
    (x0, y0, x1, y1), (left, top, right, bottom) = line.box, other.box
    return (x1 < left or right < x0) and min(y1, bottom) - max(y0, top) > _LEVEL * (y1 - y0)


def is_in_table(line: TextLine, table: LayoutBlock) -> bool:
    """Whether a table that the layout reader found has the line's text at the line's place."""
    return _inside(line.middle, table.box) and compact(line.text) in compact(block_text(table))


def _is_in_one(line: TextLine, texts: Sequence[tuple[Box, str]]) -> bool:
    """Whether a block has the line. A block of two lines may have the box of its first."""
    (x, y), key = line.middle, compact(line.text)
    return any(
        x0 <= x <= x1 and y0 <= y <= y1 + 2 * line.size and key in text for (x0, y0, x1, y1), text in texts
    )


def _is_prose(block: LayoutBlock) -> bool:
    """Whether sentences run through the rows, from cell to cell and from row to row: lines of text cut at a gap.

    A text that goes on below in its own column is a cell of several lines; then the cells beside it are empty.
    """
    full = [row for row in block.rows if len(row) > 1 and all(row)]
    across = [any(_goes_on(*pair) for pair in pairwise(row)) for row in full]
    down = [_goes_on(above[-1], below[0]) for above, below in pairwise(full)]
    prose = sum(map(all, zip(across, down, strict=False)))
    return 2 * prose >= len(full) > 1


def _goes_on(text: str, following: str) -> bool:
    return following[0].islower() and not _ENDED.search(text)


def _is_framed_list(block: LayoutBlock) -> bool:
    """One column of short texts in boxes; longer ones are prose, shorter ones the scale of a chart."""
    return len(block.rows) >= 5 and all(10 <= len("".join(row)) <= 90 for row in block.rows)


def _is_bulleted(block: LayoutBlock) -> bool:
    """Whether the first of two columns has hardly anything but marks: a row without one goes on with the item above."""
    rows = block.rows
    if not rows or any(len(row) != 2 for row in rows) or not _MARK.fullmatch(rows[0][0]):
        return False
    words = sum(bool(row[0]) and not _MARK.fullmatch(row[0]) for row in rows)
    return words <= _FEW * len(rows)


def _bullets(block: LayoutBlock) -> list[LayoutBlock]:
    if not _is_bulleted(block):
        return []
    x0, top, x1, bottom = block.box
    step = (bottom - top) / len(block.rows)
    items: list[LayoutBlock] = []
    for at, (mark, text) in enumerate(block.rows):
        end = top + (at + 1) * step
        box = (x0, end - step, x1, end)
        if _MARK.fullmatch(mark):
            items.append(LayoutBlock("list_item", box, text, marker=mark))
        elif mark:
            items.append(LayoutBlock("paragraph", box, f"{mark} {text}"))
        else:
            items[-1] = replace(items[-1], box=(*items[-1].box[:3], end), text=f"{items[-1].text} {text}")
    return items


def _table_blocks(table: Table) -> list[LayoutBlock]:
    nowhere = NOWHERE
    if table.entries:
        return [LayoutBlock("contents", table.box, entries=table.entries)]
    if table.lines:
        texts, boxes = zip(*table.lines, strict=True)
        return [LayoutBlock("numbered_lines", table.box, lines=texts, line_boxes=boxes)]
    return [
        *(LayoutBlock("paragraph", nowhere, text) for text in table.before),
        LayoutBlock("table", table.box, rows=table.rows, spans=table.spans),
        *(LayoutBlock("paragraph", nowhere, text) for text in table.after),
    ]


def with_whole_lines(filled: Sequence[FilledBlock], lines: Sequence[TextLine]) -> list[FilledBlock]:
    """The blocks, with tables as wide as their lines: an edge that was found between two words may cut a line."""
    return [
        FilledBlock(_with_whole_lines(item.block, lines), item.lines) if item.block.kind == "table" else item
        for item in filled
    ]


def _with_whole_lines(table: LayoutBlock, lines: Sequence[TextLine]) -> LayoutBlock:
    x0, y0, x1, y1 = table.box
    across = [
        line
        for line in lines
        if line.upright
        and y0 <= line.middle[1] <= y1
        and (line.box[0] < x0 < line.box[2] or line.box[0] < x1 < line.box[2])
    ]
    if not across:
        return table
    text = compact(block_text(table))
    cut = [line.box for line in across if compact(line.text) in text]
    return replace(table, box=hull([table.box, *cut]))


def _inside(point: tuple[float, float], box: Box) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _lines_in(lines: Sequence[TextLine], box: Box) -> list[TextLine]:
    """The lines whose middle is in the box."""
    x0, y0, x1, y1 = box
    found: list[TextLine] = []
    for line in lines:
        x, y = line.middle
        if y0 <= y <= y1 and x0 <= x <= x1:
            found.append(line)
    return found


def _share(box: Box, other: Box) -> float:
    """Which share of `box` is inside `other`."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    return width * height / area if width > 0 and height > 0 and area > 0 else 0.0


def compose_lines(
    lines: Sequence[TextLine], tables: Sequence[Table], dropped: Sequence[TextLine]
) -> list[FilledBlock]:
    """The blocks that MuPDF alone gives, for a page that the layout reader could not read."""
    gone = {id(line) for line in dropped}
    blocks: dict[int, list[TextLine]] = {}
    for line in outside(lines, tables):
        if id(line) not in gone:
            blocks.setdefault(line.block, []).append(line)
    filled = [
        FilledBlock(LayoutBlock("paragraph", hull([line.box for line in run])), run)
        for run in blocks.values()
    ]
    return with_tables_between(filled, tables)


def with_tables_between(filled: Sequence[FilledBlock], tables: Sequence[Table]) -> list[FilledBlock]:
    """The blocks with each table in front of the first that begins below it."""
    result = list(filled)
    for table in tables:
        at = next((i for i, f in enumerate(result) if f.block.box[1] >= table.box[3] - 2), len(result))
        result[at:at] = [FilledBlock(block) for block in _table_blocks(table)]
    return result


def outside(lines: Sequence[TextLine], tables: Sequence[Table]) -> list[TextLine]:
    """The lines that are not in a table."""
    if not tables:
        return list(lines)
    boxes = [table.box for table in tables]
    found: list[TextLine] = []
    for line in lines:
        x, y = line.middle
        if not [box for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3]]:
            found.append(line)
    return found


def place_lines(filled: list[FilledBlock], orphans: Sequence[TextLine]) -> None:
    """Insert each run of orphans behind the last block that ends above it in its column, else at the end."""
    runs: list[list[TextLine]] = []
    for line in orphans:
        if runs and runs[-1][-1].block == line.block:
            runs[-1].append(line)
        else:
            runs.append([line])
    for run in runs:
        box = hull([line.box for line in run])
        block = LayoutBlock("paragraph", box, " ".join(line.text for line in run))
        at = _place_below(filled, box) if run[0].upright else len(filled)
        filled.insert(at, FilledBlock(block, run))


def with_figures(filled: Sequence[FilledBlock], figures: Sequence[Box]) -> list[FilledBlock]:
    """The blocks with each figure behind the last block that ends above it in its column."""
    result = list(filled)
    for box in figures:
        result.insert(_place_below(result, box), FilledBlock(LayoutBlock("figure", box)))
    return result


def _place_below(filled: Sequence[FilledBlock], box: Box) -> int:
    """The place behind the last block that holds the box or ends above it in its column; the first if none does."""
    at = 0
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    for i, item in enumerate(filled):
        x0, _, x1, y1 = item.block.box
        is_above = y1 <= box[1] + 2 and x0 < box[2] and box[0] < x1
        if is_above or _inside(middle, item.block.box):
            at = i + 1
    return at
