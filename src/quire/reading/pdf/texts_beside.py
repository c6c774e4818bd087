"""Tells texts that are side by side from a table of two columns, which the layout reader takes them for.

Two addresses of a letter, fields of a form and headings in the margin leave one gutter too. So a table of two columns
needs more than that: figures, rules, a head in bold, or many short rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.line_pieces import is_number
from quire.reading.pdf.text_lines import TextLine

_FIGURES = 0.3
_MANY_ROWS = 6
_SHORT_WORDS = 6
_NEAR_PT = 12.0
_WIDE = 0.5
_MOSTLY = 0.6
_GUTTER_PT = 4.0
_NEXT_LINE_EM = 1.6


def are_texts_beside(block: LayoutBlock, lines: Sequence[TextLine], rules: Rules) -> bool:
    """Whether a table of the layout reader is only texts side by side; `lines` are those inside it."""
    if not lines or max(map(len, block.rows), default=0) != 2:
        return False
    cells = [cell for row in block.rows for cell in row if cell]
    if not cells or sum(map(is_number, cells)) >= _FIGURES * len(cells):
        return False
    upright, level = _rules_of(block, rules)
    is_form = sum(cell.rstrip("_ ").endswith(":") for cell in cells) >= _MOSTLY * len(cells)
    if upright > 1 or (level > 1 and not is_form) or _has_bold_head(lines):
        return False
    are_short = sum(len(cell.split()) for cell in cells) <= _SHORT_WORDS * len(cells)
    return is_form or not (are_short and len(block.rows) >= _MANY_ROWS)


def text_runs(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines as runs without much space between them, those on each side of the gutter by themselves."""
    sides: list[list[TextLine]] = []
    reached = 0.0
    for line in sorted(lines, key=lambda line: line.box[0]):
        if sides and line.box[0] < reached + _GUTTER_PT:
            sides[-1].append(line)
        else:
            sides.append([line])
        reached = max(reached, line.box[2])
    runs: list[list[TextLine]] = []
    for side in sides:
        last: TextLine | None = None
        for line in sorted(side, key=lambda line: (line.box[3], line.box[0])):
            if (
                last is not None
                and line.box[3] - last.box[3] < _NEXT_LINE_EM * line.size
                and line.bold == last.bold
            ):
                runs[-1].append(line)
            else:
                runs.append([line])
            last = line
    return runs


def _rules_of(block: LayoutBlock, rules: Rules) -> tuple[int, int]:
    """How many upright rules it has, and how many level ones across it. Those of a form are there to write on."""
    left, top, right, bottom = block.box
    upright = sum(
        left - _NEAR_PT < v.at < right + _NEAR_PT and v.start < bottom and v.end > top for v in rules.vertical
    )
    level = sum(
        top - _NEAR_PT < h.at < bottom + _NEAR_PT
        and min(h.end, right) - max(h.start, left) > _WIDE * (right - left)
        for h in rules.horizontal
    )
    return upright, level


def _has_bold_head(lines: Sequence[TextLine]) -> bool:
    """Whether the first row is bold and the others are not."""
    if not lines:
        return False
    first = min(line.box[3] for line in lines)
    head = [line.bold for line in lines if line.box[1] < first]
    rest = [line.bold for line in lines if line.box[1] >= first]
    return len(head) > 1 and all(head) and not any(rest)
