"""Finds the columns of prose on a page: what is in one of them is never in a row with what is beside it.

Words of a table in one column of a page and lines of prose in the other are often at the same height, so that rows
across the page would mix them. Prose is told from labels, which are as wide at times, by its lines: most of them run to
the end of the column, and many begin in the middle of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.drawn_rules import Box
from quire.reading.pdf.text_lines import TextLine

_LEAST_WORDS = 4
_LEAST_LINES = 6
_SAME_LEFT_PT = 3.0
_FAR_EM = 3.2
"""Between two full lines may be the short last line of a paragraph and the space below it."""
_FULL = 0.85
_MOSTLY_FULL = 0.6
_OFTEN_GO_ON = 0.4
_NEXT_LINE_EM = 1.6
_LEAST_RUNNING, _MOSTLY_GO_ON, _LINE_WORDS = 3, 0.6, 5
_ENDS = (".", "!", "?", ":", ";")


def prose_columns(lines: Sequence[TextLine]) -> list[Box]:
    """The boxes of stretches of prose, each in one column."""
    full = sorted(
        (line for line in lines if line.upright and line.text.count(" ") >= _LEAST_WORDS - 1),
        key=lambda line: line.box[0],
    )
    found: list[Box] = []
    for group in _with_one_left(full):
        for run in _runs(group):
            if _is_prose(run):
                found.append(_with_last_line(hull([line.box for line in run]), run[-1], lines))
    return found


def runs_on(texts: Sequence[str]) -> bool:
    """Whether lines below one another are sentences that go on from line to line, as cells of a table are not."""
    going_on = sum(below[:1].islower() and not above.endswith(_ENDS) for above, below in pairwise(texts))
    words = sum(text.count(" ") + 1 for text in texts)
    return (
        len(texts) >= _LEAST_RUNNING
        and going_on >= _MOSTLY_GO_ON * (len(texts) - 1)
        and words >= _LINE_WORDS * len(texts)
    )


def _with_one_left(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines, which are ordered by their left edges, in groups that share it."""
    groups: list[list[TextLine]] = []
    for line in lines:
        if groups and line.box[0] - groups[-1][-1].box[0] <= _SAME_LEFT_PT:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _runs(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    runs: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: line.box[3]):
        last = runs[-1][-1] if runs else None
        if last is not None and line.box[3] - last.box[3] <= _FAR_EM * line.size:
            runs[-1].append(line)
        else:
            runs.append([line])
    return [run for run in runs if len(run) >= _LEAST_LINES]


def _is_prose(run: Sequence[TextLine]) -> bool:
    left, right = min(line.box[0] for line in run), max(line.box[2] for line in run)
    full = sum(line.box[2] >= left + _FULL * (right - left) for line in run)
    going_on = sum(line.text[0].islower() for line in run)
    return (
        full >= _MOSTLY_FULL * len(run)
        and going_on >= _OFTEN_GO_ON * len(run)
        and _longest_paragraph(run) >= _LEAST_LINES
    )


def _longest_paragraph(run: Sequence[TextLine]) -> int:
    """How many lines follow one another without more space between them; cells of a table have fewer."""
    longest = count = 1
    for above, line in pairwise(run):
        count = count + 1 if line.box[3] - above.box[3] < _NEXT_LINE_EM * line.size else 1
        longest = max(longest, count)
    return longest


def _with_last_line(box: Box, last: TextLine, lines: Sequence[TextLine]) -> Box:
    """The box with the short line that ends its last paragraph."""
    x0, y0, x1, y1 = box
    below = [
        line.box[3]
        for line in lines
        if abs(line.box[0] - x0) <= _SAME_LEFT_PT
        and line.box[2] <= x1
        and 0 < line.box[3] - y1 < _NEXT_LINE_EM * last.size
        and line.text[0].islower()
    ]
    return x0, y0, x1, max(below, default=y1)
