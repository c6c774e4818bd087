"""Gives one page what only the whole document knows: the levels of its headings, and the table that it goes on with.

Its Markdown changes where levels do; its stored elements change with either. A page that has all of it stays the very
same, so that the result may be made again from any of its pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quire.domain.element import Element
from quire.domain.element_codec import decode, encode
from quire.domain.heading_scheme import (
    DEEPEST,
    HeadingMark,
    document_levels,
    packed_marks,
    unpacked_marks,
)
from quire.domain.table_seams import continued_tables, first_table, unpacked_edges
from quire.errors import QuireError

_SIGN = ord("#")


@dataclass(frozen=True, slots=True)
class PageNotes:
    """What the record of a page says of its headings and its tables, in their packed forms."""

    number: int
    headings: tuple[int, ...] = ()
    tables: tuple[tuple[int, ...], ...] = ()
    continues: str = ""


@dataclass(frozen=True, slots=True)
class SettledPage:
    """The bytes of a page, and what its record says of them."""

    markdown: bytes
    elements: bytes
    notes: PageNotes


@dataclass(frozen=True, slots=True)
class PageScheme:
    """What the document says of a page: the levels of its headings, and the table that its first one continues."""

    levels: tuple[int, ...] = ()
    continues: str = ""


def page_schemes(pages: Sequence[PageNotes]) -> list[PageScheme]:
    """The scheme of each page of a document, of which all pages are given in order."""
    levels = document_levels([unpacked_marks(page.headings) for page in pages])
    continues = continued_tables([(page.number, unpacked_edges(page.tables)) for page in pages])
    return [PageScheme(*one) for one in zip(levels, continues, strict=True)]


def settled(page: SettledPage, scheme: PageScheme) -> SettledPage:
    """The page with what its document says of it; the very same where it has that already.

    A page whose notes don't fit its bytes, or whose elements are damaged, stays as it is.
    """
    marks = unpacked_marks(page.notes.headings)
    signs = [_signs(page.markdown, mark.offset) for mark in marks]
    is_leveled = signs == list(scheme.levels) or 0 in signs
    if is_leveled and page.notes.continues == scheme.continues:
        return page
    levels = dict(zip((mark.place for mark in marks), scheme.levels, strict=True)) if not is_leveled else {}
    try:
        elements = _stored(page, levels, scheme.continues)
    except QuireError:
        return page
    notes = replace(page.notes, continues=scheme.continues if elements else "")
    if is_leveled:
        return SettledPage(page.markdown, elements, notes)
    markdown, moved = _leveled(page.markdown, marks, signs, scheme.levels)
    return SettledPage(markdown, elements, replace(notes, headings=packed_marks(moved)))


def _leveled(
    markdown: bytes, marks: Sequence[HeadingMark], signs: Sequence[int], levels: Sequence[int]
) -> tuple[bytes, list[HeadingMark]]:
    """The Markdown with other levels, and where its headings are then."""
    pieces: list[bytes] = []
    moved: list[HeadingMark] = []
    at = length = 0
    for mark, count, level in zip(marks, signs, levels, strict=True):
        before = markdown[at : mark.offset]
        length += len(before)
        moved.append(mark._replace(offset=length))
        pieces += (before, b"#" * level)
        length += level
        at = mark.offset + count
    return b"".join([*pieces, markdown[at:]]), moved


def _signs(markdown: bytes, offset: int) -> int:
    """How many signs of a heading the line has that begins there; 0 if it is no heading."""
    at = offset
    while at - offset <= DEEPEST and at < len(markdown) and markdown[at] == _SIGN:
        at += 1
    is_line = offset == 0 or markdown[offset - 1 : offset] == b"\n"
    return at - offset if is_line and at - offset <= DEEPEST and markdown[at : at + 1] == b" " else 0


def _stored(page: SettledPage, levels: dict[int, int], continues: str) -> bytes:
    if not page.elements:
        return b""
    decoded = decode(page.elements)
    elements: list[Element] = list(decoded.elements)
    if max(levels, default=-1) >= len(elements):
        raise QuireError("A heading of this page is not among its elements.")
    for place, level in levels.items():
        elements[place] = replace(elements[place], level=level)
    table = first_table(unpacked_edges(page.notes.tables))
    if table is not None and table < len(elements) and elements[table].table is not None:
        elements[table] = replace(elements[table], continues=continues)
    elif continues:
        raise QuireError("The table of this page is not among its elements.")
    return encode(replace(decoded, elements=tuple(elements)))
