"""Finds contents lists whose page numbers are set apart from their titles, which would pass for tables of two columns.

A run of rows is one if the numbers begin or end at one edge and never go down, and a second sign says what they are:
dots that lead to them, titles that are numbered in more than one level, or the heading of a contents list above.

Weakness: a list set in two columns, and one without any of these signs, is a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quire.domain.element import hull
from quire.reading.pdf.contents_list import ENDS_IN_PAGE, entry_of, indents_of
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine

_PAGE = re.compile(r"(?:[A-Z]{1,2}-?)?(\d{1,4})|[ivxlc]{1,7}")
_LEADER = re.compile(r"\.{4,}|(?:\s\.){4,}|…{2,}|_{4,}|·{4,}")
_NUMBERING = re.compile(r"(?:[A-Z]|\d{1,2})(?:\.\d{1,2})*\.?")
_SECOND_LEVEL = re.compile(r"(?:[A-Z]|\d{1,2})\.\d{1,2}\b")
_HEADING = re.compile(
    r"\b(?:contents|inhalt|inhaltsverzeichnis|sommaire|índice|indice|inhoud)\b|目次|目录", re.I
)
_MIN_ENTRIES = 4
_MOSTLY = 0.6
_EDGE_PT = 4.0
_FIGURE_EM = 0.55
_FAR_ROW = 5.0
_WRAPPED = 0.6
_UNNUMBERED = 2
_LINES_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True)
class _Row:
    """Lines side by side; `page` is the last of them where that is the number of a page."""

    lines: tuple[TextLine, ...]
    page: str = ""

    @property
    def top(self) -> float:
        return min(line.box[1] for line in self.lines)

    @property
    def bottom(self) -> float:
        return max(line.box[3] for line in self.lines)

    @property
    def text(self) -> str:
        return " ".join(line.text.strip() for line in self.lines)

    @property
    def edges(self) -> tuple[float, float]:
        """Where the page number begins and ends; behind dots in one line with it that is known by its figures."""
        last = self.lines[-1]
        left, _, right, _ = last.box
        is_alone = last.text.strip() == self.page
        return left if is_alone else right - _FIGURE_EM * last.size * len(self.page), right

    @property
    def number(self) -> int | None:
        found = _PAGE.fullmatch(self.page)
        return int(found[1]) if found and found[1] else None


def find_contents(lines: Sequence[TextLine]) -> list[Table]:
    """The contents lists of a page, each as a table that has entries and no rows."""
    if len(lines) > _LINES_LOOKED_AT:
        return []
    rows = [_row(row) for row in side_by_side(lines)]
    return [_table(rows[first:after]) for first, after in _runs(rows) if _is_contents(rows, first, after)]


def side_by_side(lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """The upright lines in rows from top to bottom, each from left to right."""
    row: list[TextLine] = []
    for line in sorted((one for one in lines if one.upright), key=lambda one: one.middle[1]):
        if row and line.middle[1] - row[0].middle[1] > 0.45 * (line.box[3] - line.box[1]):
            yield sorted(row, key=lambda one: one.box[0])
            row = []
        row.append(line)
    if row:
        yield sorted(row, key=lambda one: one.box[0])


def _row(lines: Sequence[TextLine]) -> _Row:
    """The row, with its page number if it is one title and one number: figures of a table have more beside them."""
    *titles, last = lines
    page = last.text.strip()
    if titles and _PAGE.fullmatch(page):
        words = [one for one in titles if _LEADER.sub("", one.text).strip(" .")]
        numbering = len(words) == 2 and _NUMBERING.fullmatch(words[0].text.strip()) is not None
        has_title = bool(words) and any(map(str.isalpha, words[-1].text))
        return _Row(tuple(lines), page if has_title and (len(words) == 1 or numbering) else "")
    if not titles and (found := ENDS_IN_PAGE.search(last.text)):
        return _Row(tuple(lines), last.text[found.end() :])
    return _Row(tuple(lines))


def _runs(rows: Sequence[_Row]) -> Iterator[tuple[int, int]]:
    """Stretches of rows with page numbers at one edge that never go down; few rows between them may have none."""
    first: int | None = None
    last = 0
    for at, row in enumerate(rows):
        if first is not None and not _goes_on(rows, last, at):
            yield first, last + 1
            first = None
        if row.page:
            first, last = at if first is None else first, at
    if first is not None:
        yield first, last + 1


def _goes_on(rows: Sequence[_Row], last: int, at: int) -> bool:
    row, above, before = rows[at], rows[at - 1], rows[last]
    if row.top - above.bottom > _FAR_ROW * (row.bottom - row.top):
        return False
    if not row.page:
        return at - last <= _UNNUMBERED and len(row.lines) == 1
    is_later = row.number is None or before.number is None or row.number >= before.number
    return is_later and any(abs(x - y) <= _EDGE_PT for x, y in zip(row.edges, before.edges, strict=True))


def _is_contents(rows: Sequence[_Row], first: int, after: int) -> bool:
    entries = [row for row in rows[first:after] if row.page]
    if len(entries) < max(_MIN_ENTRIES, _MOSTLY * (after - first)):
        return False
    led = sum(_LEADER.search(row.text) is not None for row in entries)
    numbered = [row for row in entries if _NUMBERING.match(row.text)]
    has_levels = any(_SECOND_LEVEL.match(row.text) for row in numbered)
    above = rows[first - 1].text if first else ""
    return (
        led >= _MOSTLY * len(entries)
        or (has_levels and len(numbered) >= _MOSTLY * len(entries))
        or (len(above.split()) <= _MIN_ENTRIES and _HEADING.search(above) is not None)
    )


def _table(rows: Sequence[_Row]) -> Table:
    indents = indents_of([row.lines[0] for row in rows])
    groups: list[list[_Row]] = []
    for row in rows:
        above = groups[-1][-1] if groups else None
        if above and not above.page and row.top - above.bottom < _WRAPPED * (row.bottom - row.top):
            groups[-1].append(row)  # a title of two lines has its number behind the second
        else:
            groups.append([row])
    entries = tuple(entry_of([line for row in group for line in row.lines], indents) for group in groups)
    return Table(hull([line.box for row in rows for line in row.lines]), (), entries=entries)
