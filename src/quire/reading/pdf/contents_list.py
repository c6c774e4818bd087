"""Tells the entries of a contents list from prose.

They are lines that end in a row of dots and the number of a page, or numbered titles of sections one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.reading.pdf.text_lines import TextLine

ENDS_IN_PAGE = re.compile(
    r"\s*(?:\.{4,}|(?:\s\.){4,}|…{2,}|_{4,}|·{4,})[\s.]*(?=(?:[A-Z]{1,2}-?)?\d{1,4}$|[ivxlc]{1,7}$)"
)
SECTION = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[^\W\d_a-z][^.;:,]{2,70}[^\W\d_)?]")
"""A number of two levels or more, a capital, and no sentence: of a contents list the last sign is a digit."""
LEADER = " ... "
"""What is written for a row of dots: it keeps a number at the end of a title apart from that of the page."""
_SIGNS = ("....", ". . .", "……", "____", "····")
_MIN_ENTRIES = 3
_MOSTLY = 0.6
_LONGEST_NUMBER = 7
_INDENT_PT = 5.0
_DEEPEST = 3
_FIGURES = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ContentsEntry:
    """An entry with its lines; a long title has several."""

    text: str
    depth: int
    lines: tuple[TextLine, ...]


def contents_entries(lines: Sequence[TextLine]) -> list[ContentsEntry]:
    """The entries, where the lines are a contents list; else none. Indents become depths."""
    if len(lines) < _MIN_ENTRIES:
        return []
    whole = "\n".join([line.text for line in lines])
    if not any(sign in whole for sign in _SIGNS):
        return _numbered_titles(lines)  # most blocks are prose
    apart = [_is_number_of(line, above) for line, above in zip(lines, [None, *lines], strict=False)]
    ends = [
        is_apart or ENDS_IN_PAGE.search(line.text) is not None
        for line, is_apart in zip(lines, apart, strict=True)
    ]
    if sum(ends) < _MIN_ENTRIES or sum(ends) < _MOSTLY * (len(lines) - sum(apart)):
        return []
    indents = indents_of(lines)
    found: list[ContentsEntry] = []
    waiting: list[TextLine] = []
    for line, is_end in zip(lines, ends, strict=True):
        waiting.append(line)
        if is_end:
            found.append(entry_of(waiting, indents))
            waiting = []
    if waiting:
        found.append(entry_of(waiting, indents))
    return found


def _numbered_titles(lines: Sequence[TextLine]) -> list[ContentsEntry]:
    """The entries, where each line is the title of a section by its number, and the numbers count on.

    A title with its text below it is a heading; below a title of a contents list is the next one. Titles in bold may
    be those of sections and their first parts.
    """
    if any(line.bold for line in lines):
        return []
    if not all(line.text[:1].isdigit() and SECTION.fullmatch(line.text) for line in lines):
        return []
    numbers = [tuple(map(int, _FIGURES.findall(line.text.split(None, 1)[0]))) for line in lines]
    if any(a >= b for a, b in pairwise(numbers)):
        return []
    least = min(map(len, numbers))
    return [
        ContentsEntry(line.text, min(len(number) - least, _DEEPEST), (line,))
        for line, number in zip(lines, numbers, strict=True)
    ]


def _is_number_of(line: TextLine, above: TextLine | None) -> bool:
    """Whether the line is the page number that the dots at the end of another line beside it lead to."""
    if (
        above is None
        or len(line.text) > _LONGEST_NUMBER
        or abs(line.middle[1] - above.middle[1]) > line.size / 2
    ):
        return False
    return ENDS_IN_PAGE.search(f"{above.text} {line.text}") is not None


def entry_of(lines: Sequence[TextLine], indents: Sequence[float]) -> ContentsEntry:
    """The entry that the lines are; `indents` are those of the whole list."""
    text = ENDS_IN_PAGE.sub(LEADER, " ".join(line.text.strip() for line in lines))
    return ContentsEntry(text, _depth_of(lines[0], indents), tuple(lines))


def indents_of(lines: Sequence[TextLine]) -> list[float]:
    """The places at which lines begin, from left to right."""
    indents: list[float] = []
    for x in sorted(line.box[0] for line in lines):
        if not indents or x - indents[-1] > _INDENT_PT:
            indents.append(x)
    return indents


def _depth_of(line: TextLine, indents: Sequence[float]) -> int:
    return min(sum(x < line.box[0] - _INDENT_PT for x in indents), _DEEPEST)
