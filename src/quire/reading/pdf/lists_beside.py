"""Lists side by side, as slides have them, which the layout reader takes for a table with columns of marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quire.reading.pdf.text_lines import BULLETS, TextLine

_MARK = re.compile(rf"[{BULLETS}–—−-](?:\s|$)")
_SAME_LEFT_PT = 3.0
_LEAST_ITEMS = 2
_BEHIND_EM = 3.0
_WIDE_EM = 5.0
"""Marks that are nearer to each other than this, in sizes of the type, are those of a list in a list."""


def list_lefts(lines: Sequence[TextLine]) -> list[float]:
    """Where the marks of lists begin that are beside each other; empty unless there are two such lists at least."""
    marks = sorted((line for line in lines if _is_mark(line, lines)), key=lambda line: line.box[0])
    groups: list[list[TextLine]] = []
    for mark in marks:
        if groups and mark.box[0] - groups[-1][-1].box[0] <= _SAME_LEFT_PT:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    lefts: list[float] = []
    last: list[TextLine] = []
    for group in groups:
        if len(group) < _LEAST_ITEMS:
            continue
        if not lefts:
            lefts, last = [group[0].box[0]], group
        elif group[0].box[0] - lefts[-1] > _WIDE_EM * group[0].size and _are_level(last, group):
            lefts.append(group[0].box[0])
            last = group
    return lefts if len(lefts) > 1 else []


def list_runs(lines: Sequence[TextLine], lefts: Sequence[float]) -> list[list[TextLine]]:
    """The lines in reading order: what goes over several lists and is above them, each list, and the rest.

    What is left of the first list is read before it.
    """
    columns: list[list[TextLine]] = [[] for _ in (*lefts, None)]
    across: list[TextLine] = []
    for line in lines:
        place = sum(left - _SAME_LEFT_PT <= line.box[0] for left in lefts)
        following = lefts[place] if place < len(lefts) else float("inf")
        (columns[place] if line.box[2] <= following else across).append(line)
    top = min(line.box[1] for column in columns for line in column)
    above = [[line] for line in _from_top(across) if line.box[1] < top]
    below = [[line] for line in _from_top(across) if line.box[1] >= top]
    return [*above, *(_from_top(column) for column in columns if column), *below]


def _is_mark(line: TextLine, lines: Sequence[TextLine]) -> bool:
    """Whether the line begins with a mark, and words follow: a dash before figures is an empty cell."""
    found = _MARK.match(line.text)
    if not found:
        return False
    text = line.text[found.end() :].strip()
    if text:
        return text[0].isalpha()
    y, reach = line.middle[1], line.box[2] + _BEHIND_EM * line.size
    behind = (one.text for one in lines if one.box[1] < y < one.box[3] and line.box[2] <= one.box[0] < reach)
    return next(behind, " ")[0].isalpha()


def _are_level(marks: Sequence[TextLine], others: Sequence[TextLine]) -> bool:
    """Whether the lists are at one height, at least where one of them begins."""
    first, last = min(line.box[1] for line in marks), max(line.box[3] for line in marks)
    return sum(first - 1 <= line.middle[1] <= last + 1 for line in others) >= _LEAST_ITEMS


def _from_top(lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines row by row. A mark may be a little lower or higher than its text."""
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: line.middle[1]):
        if rows and line.middle[1] - rows[-1][0].middle[1] < 0.5 * line.size:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda one: one.box[0])]
