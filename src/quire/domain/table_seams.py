"""Says which tables of a document go on after a page break, from what the records of its pages say of their tables.

A false join is worse than a missed one. Two parts are one table only if all of this holds: the pages follow one
another; the first part is the last thing on its page and leaves no room for another row; the second is the first thing
on its page; both have the same columns at the same places; the second has no caption of its own. And there must be a
sign that it has no other head: it repeats the head word for word, or is called "continued", or begins with a row of
figures below columns of figures, or with the rest of a row, or without bold type where the first has a head in bold,
or with a text that its column has had before.

Weakness: tables in columns of text, and tables of texts alone whose head looks like their rows and whose texts are all
different, are not joined.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from quire.domain.element import RUNNING_KINDS, Element, ElementKind, TableGrid, TablePlace, element_id

_TOP, _BOTTOM, _BOLD_HEAD, _CONTINUED, _GOES_ON, _REST = 1, 2, 4, 8, 16, 32
_UNKNOWN = -1
_TENTHS = 10
_MOST_COLUMNS = 30
_SAME = 30
"""Tenths of a point that edges of a column may be off."""
_FOOT, _LEAST_ROOM, _ROWS_OF_ROOM = 0.93, 0.1, 2
_HEAD_ZONE = 0.25
_FIGURES = 0.7
_LONGEST_NOTE = 90
_MOST_TEXTS = 60
_LEAST_CHARS = 2
_CONTINUED_NOTE = re.compile(
    r"\bcontinue[ds]?\b|\bcont[’']?d\b|\bcont\.|\bfortsetzung\b|\bforts\.|\(suite\)|\bcontinua(?:ci[oó]n|ção|zione)\b|\bvervolg\b",
    re.I,
)
_LABEL = re.compile(r"\s*([^\W\d_]+)\.?\s*\(?([A-Z]?[-.]?[\dIVX]+(?:[.\-–]\d+)*)", re.I)
_YEAR = re.compile(r"(?:19|20)\d\d\D?")


class TableEdge(NamedTuple):
    """What a page's record says of a table that begins or ends the page, in points or, where it says so, in tenths."""

    place: int
    flags: int
    top: int
    bottom: int
    limit: int
    """Where the text of the page ends."""
    height: int
    row_height: int
    head: int
    """A checksum of the words of its first row."""
    label: int
    """A checksum of its caption's label, such as "Table 3"; 0 without one."""
    figures: int
    """A bit for each column of figures."""
    first_figures: int
    first_texts: int
    columns: tuple[int, ...]
    """Left and right edge of each column in tenths, -1 where they are not known."""
    first: tuple[int, ...] = ()
    """Checksums of the texts of its first row, and"""
    body: tuple[int, ...] = ()
    """of the last texts below it, both with their columns; of a table without figures that has no head in bold."""


_NUMBERS = TableEdge._fields.index("columns")


def packed_edges(edges: Iterable[TableEdge]) -> tuple[tuple[int, ...], ...]:
    """The edges as a page's record has them: the numbers, then each list behind its length."""
    return tuple(
        (
            *(value for value in edge if isinstance(value, int)),
            *(
                number
                for listed in (edge.columns, edge.first, edge.body)
                for number in (len(listed), *listed)
            ),
        )
        for edge in edges
    )


def unpacked_edges(packed: Sequence[Sequence[int]]) -> tuple[TableEdge, ...]:
    """What `packed_edges` was given, without what that can't have given."""
    found = (_unpacked(list(map(int, one))) for one in packed[:2] if len(one) > _NUMBERS)
    return tuple(edge for edge in found if edge is not None and edge.place >= 0)


def _unpacked(numbers: list[int]) -> TableEdge | None:
    lists: list[tuple[int, ...]] = []
    at = _NUMBERS
    count = len(TableEdge._fields) - _NUMBERS
    while at < len(numbers) and len(lists) < count:
        end = at + 1 + max(0, numbers[at])
        lists.append(tuple(numbers[at + 1 : end]))
        at = end
    if len(lists) != count or at != len(numbers):
        return None
    return TableEdge._make((*numbers[:_NUMBERS], *lists))


def first_table(edges: Sequence[TableEdge]) -> int | None:
    """The place of the table that begins the page; None where something else does."""
    return next((edge.place for edge in edges if edge.flags & _TOP), None)


def edge_tables(elements: Sequence[Element]) -> tuple[int | None, int | None]:
    """The places of the table that begins the page, and of the one that ends it; None where it is something else."""
    body = [
        (place, one)
        for place, one in enumerate(elements)
        if not one.repeated
        and one.kind not in RUNNING_KINDS
        and one.kind not in (ElementKind.FOOTNOTE, ElementKind.FORM_FIELD)
    ]
    if not any(one.table is not None for _, one in body):
        return None, None
    top, bottom = _outermost(body), _outermost(body[::-1])
    if bottom is not None:
        box = elements[bottom].box
        if box is None or any(one.box and one.box[1] >= box[3] and not _is_note(one) for _, one in body):
            bottom = None
    return top, bottom


def _outermost(body: Sequence[tuple[int, Element]]) -> int | None:
    """The first of the elements if it is a table, or the one behind a note that the table is continued."""
    for place, one in body[:2]:
        if one.table is not None:
            return place if one.box is not None else None
        if one.kind is not ElementKind.CAPTION and not _is_note(one):
            return None
    return None


def _is_note(element: Element) -> bool:
    text = element.text
    return element.table is None and len(text) <= _LONGEST_NOTE and _CONTINUED_NOTE.search(text) is not None


def page_edges(elements: Sequence[Element], height: float) -> tuple[TableEdge, ...]:
    """The tables at the edges of a page, whose columns have been found."""
    top, bottom = edge_tables(elements)
    if bottom is not None and _has_caption_below(elements, bottom):
        bottom = None
    return tuple(
        edge
        for place in sorted({place for place in (top, bottom) if place is not None})
        if (edge := _edge(elements, place, height, is_top=place == top, is_bottom=place == bottom))
        is not None
    )


def _has_caption_below(elements: Sequence[Element], place: int) -> bool:
    """Whether a caption ends the table, which then does not go on."""
    after = elements[place + 1 :]
    return any(
        one.kind is ElementKind.CAPTION and not one.repeated and not _is_note(one) for one in after[:1]
    )


def _edge(
    elements: Sequence[Element], place: int, height: float, *, is_top: bool, is_bottom: bool
) -> TableEdge | None:
    element = elements[place]
    table, box, found = element.table, element.box, element.columns
    if table is None or box is None or found is None or not 0 < len(found.columns) <= _MOST_COLUMNS:
        return None
    above = [one for one in elements[:place] if not one.repeated and one.kind not in RUNNING_KINDS][-1:]
    captions = [one for one in elements if one.kind is ElementKind.CAPTION and one.parent == element.id]
    captions += [one for one in above if one.kind is ElementKind.CAPTION and one not in captions]
    notes = [one for one in (*above, *captions) if _is_note(one)]
    below = [one for one in elements[place + 1 :] if _is_note(one)]
    first = table.rows[0]
    figures = _bits(_is_column_of_figures(table, column) for column in range(len(first)))
    is_plain = not figures and not found.has_bold_head
    flags = _TOP * is_top | _BOTTOM * is_bottom | _BOLD_HEAD * found.has_bold_head
    flags |= _CONTINUED * bool(notes) | _GOES_ON * bool(below) | _REST * _is_rest(first)
    return TableEdge(
        place,
        flags,
        round(box[1]),
        round(box[3]),
        _limit(elements, box[3], height),
        round(height),
        round((box[3] - box[1]) / max(1, len(table.rows))),
        _checksum("\x1f".join(first)),
        _label(captions),
        figures,
        _bits(_is_figure(text) and not _YEAR.fullmatch(text) for text in first),
        _bits(bool(text) and not _is_figure(text) for text in first),
        _edges_of(found),
        _texts(table.rows[:1], len(first)) if is_top and is_plain else (),
        _texts(table.rows[:0:-1], _MOST_TEXTS) if is_bottom and is_plain else (),
    )


def _texts(rows: Iterable[Sequence[str]], most: int) -> tuple[int, ...]:
    """Checksums of the texts of rows with their columns, of the first `most` that differ."""
    found = (
        _checksum(f"{column}\x1f{text}")
        for row in rows
        for column, text in enumerate(row)
        if len(text) >= _LEAST_CHARS
    )
    return tuple(islice(dict.fromkeys(found), most))


def _edges_of(found: TablePlace) -> tuple[int, ...]:
    return tuple(
        number
        for edges in found.columns
        for number in (
            (round(edges[0] * _TENTHS), round(edges[1] * _TENTHS)) if edges else (_UNKNOWN, _UNKNOWN)
        )
    )


def _limit(elements: Sequence[Element], bottom: float, height: float) -> int:
    """Where the text of the page ends: at the first footnote or running line below the table."""
    tops = [
        one.box[1]
        for one in elements
        if one.box is not None
        and one.box[1] >= bottom
        and (one.kind in RUNNING_KINDS or one.kind is ElementKind.FOOTNOTE)
    ]
    return round(min([_FOOT * height, *tops]))


def _is_rest(row: Sequence[str]) -> bool:
    texts = [text for text in row if text]
    return bool(texts) and not row[0] and all(text[0].islower() for text in texts)


def _checksum(text: str) -> int:
    return zlib.crc32("".join(text.split(" ")).casefold().encode("utf-8", "replace"))


def _label(captions: Sequence[Element]) -> int:
    for caption in captions:
        found = _LABEL.match(caption.text)
        return _checksum(found[1] + found[2] if found else caption.text[:_LONGEST_NOTE]) or 1
    return 0


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << place for place, value in enumerate(values) if value)


def _is_column_of_figures(table: TableGrid, column: int) -> bool:
    texts = [row[column] for row in table.rows[1:] if column < len(row) and row[column]]
    return bool(texts) and sum(map(_is_figure, texts)) >= _FIGURES * len(texts)


def _is_figure(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return digits > 0 and digits >= sum(map(str.isalpha, text))


class _Chain(NamedTuple):
    """What is known of a table from all of its parts so far: its last part, and the head and label of its first."""

    page: int
    last: TableEdge
    head: int
    label: int
    figures: int
    has_bold_head: bool
    body: frozenset[int]


def continued_tables(pages: Sequence[tuple[int, Sequence[TableEdge]]]) -> list[str]:
    """For each page, given by its number and edges, the id of the table that its first one continues, or ''."""
    found: list[str] = []
    open_: _Chain | None = None
    for number, edges in pages:
        top = next((edge for edge in edges if edge.flags & _TOP), None)
        bottom = next((edge for edge in edges if edge.flags & _BOTTOM), None)
        goes_on = open_ is not None and top is not None and number == open_.page + 1 and _goes_on(open_, top)
        found.append(element_id(open_.page, open_.last.place) if goes_on and open_ else "")
        if bottom is None:
            open_ = None
        elif goes_on and open_ is not None and bottom is top:
            open_ = open_._replace(page=number, last=bottom, body=open_.body | {*bottom.body})
        else:
            bold = bool(bottom.flags & _BOLD_HEAD)
            known = (bottom.head, bottom.label, bottom.figures, bold, frozenset(bottom.body))
            open_ = _Chain(number, bottom, *known)
    return found


def _goes_on(chain: _Chain, edge: TableEdge) -> bool:
    last = chain.last
    room = max(_LEAST_ROOM * last.height, _ROWS_OF_ROOM * edge.row_height)
    if abs(last.height - edge.height) > 2 or last.limit - last.bottom > room:
        return False
    if edge.top > _HEAD_ZONE * edge.height or not _same_columns(last.columns, edge.columns):
        return False
    is_called_so = bool(edge.flags & _CONTINUED or last.flags & _GOES_ON)
    if edge.label and edge.label != chain.label and (chain.label or not is_called_so):
        return False
    return is_called_so or edge.head == chain.head or _has_no_head(chain, edge)


def _has_no_head(chain: _Chain, edge: TableEdge) -> bool:
    """Whether the first row is no head: figures below columns of figures, the rest of a row, regular type below a head
    in bold, or a value that the same column has had before."""
    if edge.flags & _REST:
        return True
    if edge.flags & _BOLD_HEAD:
        return False
    if chain.figures:
        return bool(edge.first_figures & chain.figures) and not edge.first_texts & chain.figures
    return chain.has_bold_head or not chain.body.isdisjoint(edge.first)


def _same_columns(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether as many columns are at the same places: their left or right edges, or their middles.

    Of more than three, one may be elsewhere, as figures are that are set by their points.
    """
    if len(one) != len(other):
        return False
    pairs = [
        (one[at], one[at + 1], other[at], other[at + 1])
        for at in range(0, len(one), 2)
        if _UNKNOWN not in (one[at], other[at])
    ]
    count = len(one) // 2
    if 2 * len(pairs) < count or len(pairs) < min(2, count):
        return False
    off = sum(
        min(
            abs(left - other_left),
            abs(right - other_right),
            abs(left + right - other_left - other_right) // 2,
        )
        > _SAME
        for left, right, other_left, other_right in pairs
    )
    overlap = all(left < other_right and other_left < right for left, right, other_left, other_right in pairs)
    return overlap and off <= (1 if count > 3 else 0)
