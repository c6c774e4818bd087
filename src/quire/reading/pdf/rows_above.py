"""Gives a table of the layout reader the rows right above it that the reader took for text: a head in bold, or a row
whose texts are longer than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import hull
from quire.reading.pdf.block_matching import block_text, compact
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine

_SAME_PT = 2.0
_NEAR_EM = 1.0
_LEAST_ROWS, _SHARE = 3, 0.5
_MOST_LINES = 400


def with_rows_above(blocks: Sequence[LayoutBlock], lines: Sequence[TextLine]) -> list[LayoutBlock]:
    """The blocks, with a block above a table as its first row if its texts begin where those of all columns do."""
    found: list[LayoutBlock] = []
    for block in blocks:
        if found and block.kind == "table" and found[-1].kind != "table" and len(block.rows) >= _LEAST_ROWS:
            row = _row_above(block, found[-1], lines)
            if row:
                texts = tuple(line.text for line in row)
                box = hull([block.box, *(line.box for line in row)])
                found[-1] = replace(block, box=box, rows=(texts, *block.rows))
                continue
        found.append(block)
    return found


def _row_above(table: LayoutBlock, above: LayoutBlock, lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines of the block above, from left to right, if they are a row of the table; else none."""
    x0, y0, x1, y1 = table.box
    inside = [line for line in lines if x0 <= line.middle[0] <= x1 and y0 <= line.middle[1] <= y1]
    near = [
        line for line in lines if line.upright and 0 <= y0 - line.middle[1] <= (_NEAR_EM + 0.5) * line.size
    ]
    row = sorted(near, key=lambda line: line.box[0])
    if len(row) != len(table.rows[0]) or len(row) < 2 or len(inside) > _MOST_LINES:
        return []
    if compact(" ".join(line.text for line in row)) != compact(block_text(above)):
        return []
    starts = [sum(abs(line.box[0] - one.box[0]) <= _SAME_PT for one in inside) for line in row]
    return row if min(starts) >= _SHARE * len(table.rows) else []
