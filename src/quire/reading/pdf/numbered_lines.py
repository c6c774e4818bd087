"""Finds text whose lines are numbered in the margin, as those of transcripts and pleadings: it is no table.

The numbers count the lines of the page, one by one, and sentences run on from line to line. A line keeps its number:
such texts are cited by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.contents_rows import side_by_side
from quire.reading.pdf.line_pieces import is_number
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine

_NUMBERED = re.compile(r"(\d{1,2})(?:\s+(\S.*))?")
_ENDED = re.compile(r"[.!?:;][\"'”’)\]]*$")
_LEAST_LINES = 8
_MARGIN_PT = 14.0
_OFTEN, _SELDOM = 0.3, 0.2

Row = list[TextLine]


def find_numbered_lines(lines: Sequence[TextLine]) -> list[Table]:
    """The numbered texts of a page, each as a table that has lines and no rows."""
    # Most pages have hardly a line that begins with a figure.
    if sum(line.text[:1].isdigit() for line in lines) < _LEAST_LINES:
        return []
    return [_table(run) for run in _runs(list(side_by_side(lines))) if _is_text(run)]


def _runs(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows one below the other whose first figures count up by one, at one place."""
    runs: list[list[Row]] = [[]]
    for row in rows:
        number, above = _number(row), runs[-1][-1] if runs[-1] else None
        if number is None:
            runs.append([])
        elif above is None or (
            number - (_number(above) or 0) == 1 and abs(row[0].box[0] - runs[-1][0][0].box[0]) <= _MARGIN_PT
        ):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [run for run in runs if len(run) >= _LEAST_LINES]


def _number(row: Row) -> int | None:
    found = _NUMBERED.fullmatch(row[0].text)
    return int(found[1]) if found else None


def _is_text(run: Sequence[Row]) -> bool:
    """Whether sentences run through the lines, or empty lines are counted too.

    Rows of a table are not empty, end in figures and begin with a capital.
    """
    texts = [_text(row).partition(" ")[2] for row in run]
    empty = texts.count("")
    figures = sum(len(row) > 1 and is_number(row[-1].text) for row in run)
    goes_on = sum(below[:1].islower() and not _ENDED.search(above) for above, below in pairwise(texts))
    return empty + goes_on >= _OFTEN * len(run) and figures <= _SELDOM * len(run)


def _text(row: Row) -> str:
    return " ".join(line.text for line in row)


def _table(run: Sequence[Row]) -> Table:
    boxes = [hull([line.box for line in row]) for row in run]
    return Table(hull(boxes), (), lines=tuple(zip(map(_text, run), boxes, strict=True)))
