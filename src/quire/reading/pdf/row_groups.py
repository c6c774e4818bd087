"""Decides which lines of a table make up one row, by what divides rows: a rule, or more space than between lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.reading.pdf.line_pieces import LinePiece, is_number

_MORE_SPACE = 1.15
_LEAST_SPACE_PT = 1.5
_MOSTLY = 0.9
_LEAST_GROUPS = 3
_OFTEN_WRAPPED = 0.5
"""Where fewer lines go on, a little less space may be chance."""
_WRAPPED_GAP = 0.6
_EDGE_PT = 1.5
_SHORT_WORDS = 9


@dataclass(slots=True)
class Row:
    """A line of the page, cut in pieces."""

    pieces: list[LinePiece]
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line of a table: where it is, which columns have text in it, and which of these have a figure."""

    top: float
    bottom: float
    filled: frozenset[int]
    figures: frozenset[int]


def row_groups(lines: Sequence[TableLine], rules: Sequence[float]) -> list[int] | None:
    """The number of the row that each line is in; None if neither rules nor space tell the rows.

    `rules` are the heights of the rules that are as wide as the table.
    """
    for groups in (_between_rules(lines, rules), _between_spaces(lines)):
        if groups is not None and _are_rows(lines, groups):
            return groups
    return None


def _between_rules(lines: Sequence[TableLine], rules: Sequence[float]) -> list[int] | None:
    groups = [sum(at < (line.top + line.bottom) / 2 for at in rules) for line in lines]
    return groups if len(set(groups)) >= _LEAST_GROUPS else None


def _between_spaces(lines: Sequence[TableLine]) -> list[int] | None:
    steps = [below.bottom - above.bottom for above, below in pairwise(lines)]
    if not steps:
        return None
    usual = sorted(steps)[0]
    least = max(_MORE_SPACE * usual, usual + _LEAST_SPACE_PT)
    groups = [0]
    for step in steps:
        groups.append(groups[-1] + (step >= least))
    count, wrapped = groups[-1] + 1, len(lines) - groups[-1] - 1
    return groups if count >= _LEAST_GROUPS and wrapped >= _OFTEN_WRAPPED * count else None


def _are_rows(lines: Sequence[TableLine], groups: Sequence[int]) -> bool:
    """Whether nearly every group looks like one row.

    In a row of several lines some text is so short that it has one line, and no column has two figures.
    """
    fine = several = 0
    members: dict[int, list[TableLine]] = {}
    for line, group in zip(lines, groups, strict=True):
        members.setdefault(group, []).append(line)
    for held in members.values():
        if len(held) < 2:
            continue
        several += 1
        columns = frozenset[int]().union(*(line.filled for line in held))
        has_short = any(sum(column in line.filled for line in held) == 1 for column in columns)
        has_twice = any(sum(column in line.figures for line in held) > 1 for column in columns)
        fine += has_short and not has_twice
    return several > 0 and fine >= _MOSTLY * several


def table_line(top: float, bottom: float, cells: Sequence[str]) -> TableLine:
    filled = frozenset(i for i, cell in enumerate(cells) if cell)
    return TableLine(top, bottom, filled, frozenset(i for i in filled if is_number(cells[i])))


def merged_rows(grid: Sequence[Sequence[str]], groups: Sequence[int]) -> list[list[str]]:
    """The rows, made of the cells of lines; `groups` has the number of the row of each line."""
    rows: dict[int, list[str]] = {}
    for cells, group in zip(grid, groups, strict=True):
        above = rows.setdefault(group, [""] * len(cells))
        rows[group] = [f"{one} {other}".strip() for one, other in zip(above, cells, strict=True)]
    return list(rows.values())


def joined_rows(
    grid: Sequence[list[str]],
    lines: Sequence[Row],
    columns: Sequence[tuple[float, float]],
    rules: Sequence[float],
) -> list[list[str]]:
    """The rows that the lines of a table make up; `grid` has the cells of each line."""
    seen = [table_line(line.top, line.bottom, cells) for cells, line in zip(grid, lines, strict=True)]
    groups = row_groups(seen, rules)
    return _joined_by_text(grid, lines, columns) if groups is None else merged_rows(grid, groups)


def _joined_by_text(
    grid: Sequence[list[str]], run: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> list[list[str]]:
    """Rows that only carry on the row above are joined to it."""
    result: list[list[str]] = []
    previous: Row | None = None
    label_start = 0.0
    for cells, row in zip(grid, run, strict=True):
        filled = [i for i, c in enumerate(cells) if c]
        close = previous is not None and row.top - previous.bottom < _WRAPPED_GAP * row.height
        if result and close and previous is not None and filled:
            above = result[-1]
            text_only = not any(is_number(cells[i]) for i in filled)
            carries_on = text_only and len(filled) < len(columns) and all(above[i] for i in filled)
            if 0 in filled:  # a label that goes on never begins farther to the left
                carries_on = carries_on and row.pieces[0].x0 > label_start - _EDGE_PT
            lower = all(re.match(r"[a-z(]", cells[i]) for i in filled)
            wraps = 0 not in filled or lower or _fills(previous, columns[0])
            if carries_on and wraps and (lower or 0 not in filled or len(filled) == 1):
                for i in filled:
                    above[i] = f"{above[i]} {cells[i]}"
                previous = row
                continue
        result.append(list(cells))
        previous = row
        label_start = row.pieces[0].x0
    return result


def _fills(row: Row, column: tuple[float, float]) -> bool:
    """Whether the row's first piece runs to the end of the first column, as wrapped text does."""
    return row.pieces[0].x1 > column[1] - 0.15 * (column[1] - column[0])


def cells_of(row: Row, columns: Sequence[tuple[float, float]]) -> list[str]:
    """The text of each column in the row."""
    cells = [""] * len(columns)
    for piece in row.pieces:
        shares = [min(piece.x1, end) - max(piece.x0, start) for start, end in columns]
        over = [i for i, share in enumerate(shares) if share > 1.0]
        if len(over) <= 1:
            at = max(range(len(columns)), key=lambda i: shares[i])
            cells[at] = f"{cells[at]} {piece.text}".strip()
            continue
        # A piece over several columns is a head that spans them, or cells set close together, as figures always are.
        are_figures = all(is_number(word.text) for word in piece.words)
        if (are_figures or len(row.pieces) >= len(columns) - 2) and len(piece.words) >= len(over):
            for word in piece.words:
                at = max(
                    over, key=lambda i: min(word.box[2], columns[i][1]) - max(word.box[0], columns[i][0])
                )
                cells[at] = f"{cells[at]} {word.text}".strip()
        else:
            cells[over[0]] = f"{cells[over[0]]} {piece.text}".strip()
    return cells


def is_short(row: Row) -> bool:
    """Whether it may be the head of a section: one or two pieces of a few words."""
    return len(row.pieces) <= 2 and sum(len(p.words) for p in row.pieces) <= _SHORT_WORDS
