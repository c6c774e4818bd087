"""Lists set in columns: an index, items with marks, fields below a heading. They are read column by column.

Their rows are often level across the page, as those of a table are. But the cells of a table are about its row, and
here each column is a list by itself. Numbers of pages behind a comma, marks and labels show that. Inside of what the
layout reader calls a table, marks at two places in a row do, as slides have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from math import inf
from typing import NamedTuple

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.contents_list import entry_of, indents_of
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.paragraph_runs import blocks_of
from quire.reading.pdf.structure_tags import item_key
from quire.reading.pdf.text_lines import BULLETS, TextLine
from quire.reading.pdf.text_rows import TextRow, parted_rows

_ENTRY = re.compile(r"[^\W\d].*,\s\d{1,4}(?:\s?[–-]\s?\d{1,4})?[a-z*]?[.,]?$")
_PAGES = re.compile(r"\d{1,4}(?:[\s,–-]+\d{1,4})*[.,]?$")
_ITEM = re.compile(rf"[{BULLETS}]|\(?(?:\d{{1,3}}|[a-z])[.)](?=\s|$)")
_MARKS = re.compile(r"(?:\W|\(?\d{1,3}[.)]|\s)+")
_FIELD = re.compile(r"[^\W\d][^:]{0,40}:(?:\s|_|$)")
_GUTTER_PT = 8.0
_LEAST_ITEMS = 2
_LEAST_ENTRIES = 10
_MOSTLY, _NEARLY_ALL = 0.6, 0.8
_AT_LEFT_EM = 1.0
_NEXT_LINE_EM = 1.7
_WIDE_GAP_EM = 0.8
_EDGE = 0.13
_BULLET = re.compile(rf"[{BULLETS}–—−-](?:\s|$)")
_SAME_LEFT_PT = 3.0
_BEHIND_EM = 3.0
_WIDE_EM = 5.0
"""Marks that are nearer to each other than this, in sizes of the type, are those of a list in a list."""
_TEXT, _INDEX, _LISTS, _FIELDS = "text", "index", "lists", "fields"

Parts = list[TextRow]
"""What is at one height, from left to right."""


class _Section(NamedTuple):
    """Rows of a page: text, or what is side by side, in the order in which it is read."""

    kind: str
    columns: list[list[TextRow]]


def is_index(lines: Sequence[TextLine]) -> bool:
    """Whether most lines are entries of an index: terms with the numbers of their pages behind a comma."""
    if sum(line.text[-1].isdigit() for line in lines) < _LEAST_ENTRIES:
        return False  # most pages
    entries = sum(_ENTRY.match(line.text) is not None for line in lines)
    pages = sum(_PAGES.match(line.text) is not None for line in lines)
    return pages < entries >= max(_LEAST_ENTRIES, _MOSTLY * (len(lines) - pages))


def list_blocks(lines: Sequence[TextLine], height: float, items: frozenset[str]) -> list[FilledBlock] | None:
    """The blocks of a page on which nothing but lists is side by side; None where something else is."""
    has_index = is_index(lines)
    if not has_index and not _may_have_lists(lines):
        return None
    found = parted_rows(lines, may_stretch=not has_index)
    if found is None:
        return _uneven_index(lines, items) if has_index else None
    rows = list(map(_whole, found))
    parts = [part for band in _bands(rows) for part in ([band] if has_index else _between_gaps(band))]
    sections = [_section(part, height, has_index) for part in parts]
    if all(section is None or section.kind == _TEXT for section in sections):
        return None
    filled: list[FilledBlock] = []
    for kind, group in groupby(sections, key=lambda section: section.kind if section else None):
        columns = [column for section in group if section for column in section.columns]
        if kind is None:
            return None
        if kind == _TEXT:
            columns = [[row for column in columns for row in column]]
        for column in columns:
            filled += _index(column, items) if kind == _INDEX else _list(column, items)
    return filled


def _uneven_index(lines: Sequence[TextLine], items: frozenset[str]) -> list[FilledBlock] | None:
    """The blocks of an index whose columns are not level; None where no gutter is free from top to bottom."""
    extents = _extents([[TextRow([line], line.box)] for line in lines])
    filled: list[FilledBlock] = []
    for left, right in extents:
        column = parted_rows([line for line in lines if left <= line.box[0] <= right], gap_em=inf)
        if column is None:
            return None
        filled += _index([row for parts in column for row in parts], items)
    return filled if len(extents) > 1 else None


def _section(rows: Sequence[Parts], height: float, has_index: bool) -> _Section | None:
    """What the rows are; None for what is neither text nor lists side by side."""
    columns = _columns(rows)
    if len(rows) > 1 and len(columns) > 1:
        if has_index:
            return _Section(_INDEX, columns)
        if all(map(_is_list, columns)):
            return _Section(_LISTS, columns)
    if all(len(parts) == 1 or _is_at_edge(parts, height) for parts in rows):
        return _Section(_TEXT, [list(parts) for parts in rows])
    if all(_FIELD.match(row.text) for parts in rows for row in parts):
        return _Section(_FIELDS, [[row] for parts in rows for row in parts])
    return None


def are_list_cells(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the columns of what looks like a table are lists: each has marks, or labels below its head."""
    columns = [[cell for cell in column if cell] for column in zip_longest(*rows, fillvalue="")]
    columns = [cells for cells in columns if cells]
    if len(columns) > 1 and all(map(_are_fields, columns)):
        return True
    marked = [sum(_ITEM.match(cell) is not None for cell in cells) for cells in columns]
    are_items = [count >= _MOSTLY * len(cells) for count, cells in zip(marked, columns, strict=True)]
    has_texts_beside = [False, *(all(map(_MARKS.fullmatch, cells)) for cells in columns)]
    pairs = zip(has_texts_beside, are_items, strict=False)
    return sum(are_items) > 1 and all(is_beside or are for is_beside, are in pairs)


def _are_fields(texts: Sequence[str]) -> bool:
    head, *fields = texts
    return (
        len(fields) >= _LEAST_ITEMS
        and _FIELD.match(head) is None
        and sum(_FIELD.match(text) is not None for text in fields) >= _NEARLY_ALL * len(fields)
    )


def _may_have_lists(lines: Sequence[TextLine]) -> bool:
    marked = sum(_ITEM.match(line.text) is not None for line in lines)
    labelled = sum(_FIELD.match(line.text) is not None for line in lines)
    return max(marked, labelled) >= 2 * _LEAST_ITEMS


def _is_entry(text: str) -> bool:
    return _ENTRY.match(text) is not None or _PAGES.match(text) is not None


def _is_at_edge(parts: Parts, height: float) -> bool:
    return parts[0].box[3] < _EDGE * height or parts[0].box[1] > (1 - _EDGE) * height


def _bands(rows: Sequence[Parts]) -> Iterator[list[Parts]]:
    """The rows from top to bottom, together where all of them leave a gutter free; other rows by themselves."""
    at = 0
    while at < len(rows):
        after = at + 1
        if len(rows[at]) > 1 and not _is_apart(rows, at):
            while (
                after < len(rows) and len(_extents(rows[at : after + 1])) > 1 and not _is_apart(rows, after)
            ):
                after += 1
            while not _ends_band(rows[at:after]):
                after -= 1
        yield list(rows[at:after])
        at = after


def _whole(parts: Parts) -> Parts:
    """The parts; those of a row of stars are one."""
    if len(parts) == 1 or any(map(str.isalnum, "".join(row.text for row in parts))):
        return parts
    return [TextRow([line for row in parts for line in row.lines], hull([row.box for row in parts]))]


def _is_apart(rows: Sequence[Parts], at: int) -> bool:
    """Whether it is the first or the last row, two lines apart from the others: a head or a foot of the page."""
    if at not in (0, len(rows) - 1) or len(rows) < _LEAST_ITEMS:
        return False
    above, below = (rows[0], rows[1]) if at == 0 else (rows[-2], rows[-1])
    return _gap(above, below) > 2 * max(row.size for row in (*above, *below))


def _gap(above: Parts, below: Parts) -> float:
    return min(row.box[1] for row in below) - max(row.box[3] for row in above)


def _extents(rows: Sequence[Parts]) -> list[tuple[float, float]]:
    """The left and right edges of the columns, between gutters that no row crosses."""
    found: list[tuple[float, float]] = []
    for x0, _, x1, _ in sorted(row.box for parts in rows for row in parts):
        if found and x0 < found[-1][1] + _GUTTER_PT:
            found[-1] = (found[-1][0], max(x1, found[-1][1]))
        else:
            found.append((x0, x1))
    return found


def _ends_band(band: Sequence[Parts]) -> bool:
    """Whether its last row goes on with a column. What is below the columns may be as narrow as one of them."""
    if len(band) == 1 or len(band[-1]) > 1:
        return True
    last = band[-1][0]
    left, right = next((a, b) for a, b in _extents(band) if a <= last.box[0] <= b)
    above = [row.box[3] for parts in band[:-1] for row in parts if left <= row.box[0] <= right]
    return bool(above) and last.box[3] - max(above) < _NEXT_LINE_EM * last.size


def _between_gaps(band: list[Parts]) -> list[list[Parts]]:
    """The band cut where more space than usual is across it: what is below is another group of lists."""
    gaps = [_gap(above, below) for above, below in pairwise(band)]
    usual = sorted(gaps)[len(gaps) // 2] if gaps else 0.0
    found = [[band[0]]]
    for gap, parts in zip(gaps, band[1:], strict=True):
        if gap > max(2 * usual, usual + _WIDE_GAP_EM * parts[0].size):
            found.append([])
        found[-1].append(parts)
    return found


def _columns(band: Sequence[Parts]) -> list[list[TextRow]]:
    rows = [row for parts in band for row in parts]
    return [[row for row in rows if left <= row.box[0] <= right] for left, right in _extents(band)]


def _is_list(column: Sequence[TextRow]) -> bool:
    """Whether most rows that begin at its left edge have a mark, or all below a heading have a label."""
    left = min(row.box[0] for row in column)
    first = [row for row in column if row.box[0] < left + _AT_LEFT_EM * row.size]
    marked = sum(_ITEM.match(row.text) is not None for row in first)
    if marked >= max(_LEAST_ITEMS, _MOSTLY * len(first)):
        return True
    return column[0].all_bold and _are_fields([row.text for row in column])


def _list(column: Sequence[TextRow], items: frozenset[str]) -> list[FilledBlock]:
    marked = {item_key(row.text) for row in column if _ITEM.match(row.text)}
    return blocks_of(column, items | marked if len(marked) > 1 else items)


def _index(column: Sequence[TextRow], items: frozenset[str]) -> Iterator[FilledBlock]:
    """The entries of an index in one column, and the headings between them."""
    for is_heading, rows in groupby(column, key=lambda row: row.all_bold and not _is_entry(row.text)):
        if is_heading:
            yield from blocks_of(list(rows), items)
        else:
            yield _entries(list(rows))


def _entries(rows: Sequence[TextRow]) -> FilledBlock:
    groups: list[list[TextRow]] = []
    right = max(row.box[2] for row in rows)
    for row in rows:
        if groups and _carries_on(groups[-1], row, right):
            groups[-1].append(row)
        else:
            groups.append([row])
    indents = indents_of([group[0].lines[0] for group in groups])
    entries = tuple(entry_of([line for row in group for line in row.lines], indents) for group in groups)
    return FilledBlock(LayoutBlock("contents", hull([row.box for row in rows]), entries=entries))


def _carries_on(entry: Sequence[TextRow], row: TextRow, right: float) -> bool:
    """Whether the row goes on with the entry: with more pages, or with a word that had no room behind it."""
    last, text = entry[-1], row.text
    if row.box[0] <= entry[0].box[0] + 1 or last.text.endswith(","):
        return last.text.endswith(",")
    if _PAGES.match(text):
        return True
    first = text.split(" ", 1)[0]
    width = (row.box[2] - row.box[0]) * (len(first) + 1) / len(text)
    return not last.text[-1].isdigit() and last.box[2] + width > right


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
    found = _BULLET.match(line.text)
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
