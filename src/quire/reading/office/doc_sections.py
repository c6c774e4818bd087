"""Sections of a Word file of before 2007 ([MS-DOC]): where they end, and where the texts of their headers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from quire.domain.element import ElementKind
from quire.reading.office.running_sections import DEFAULT, EVEN, FIRST

_SECTIONS, _HEADERS, _DOCUMENT = 6, 11, 31
_BEFORE_HEADERS = 6
"""Texts that separate notes come first."""
_STORIES = (
    (ElementKind.RUNNING_HEADER, EVEN),
    (ElementKind.RUNNING_HEADER, DEFAULT),
    (ElementKind.RUNNING_FOOTER, EVEN),
    (ElementKind.RUNNING_FOOTER, DEFAULT),
    (ElementKind.RUNNING_HEADER, FIRST),
    (ElementKind.RUNNING_FOOTER, FIRST),
)
_BREAK, _TITLE_PAGE = 0x3009, 0x300A
_SAME_PAGE = (0, 1)
_MOST_SECTIONS = 10_000

Pair = Callable[[int], tuple[int, int]]
"""Offset and length of a table by its place in the header of the file."""
Properties = Callable[[bytes], Iterator[tuple[int, bytes]]]


class DocStory(NamedTuple):
    """A header or a footer: what it is, on which pages it is, and where its text is, counted from that of the first."""

    kind: ElementKind
    use: str
    start: int
    end: int


class DocSection(NamedTuple):
    """A section ends at `end` of the text. `goes_on` says that it begins on the page where the one before ends."""

    end: int
    has_first: bool
    goes_on: bool
    stories: tuple[DocStory, ...]


def read_sections(data: bytes, table: bytes, pair: Pair, properties: Properties) -> list[DocSection]:
    """The sections in their order."""
    at, size = pair(_SECTIONS)
    count = min((min(size, len(table) - at) - 4) // 16, _MOST_SECTIONS)
    headers = _numbers(table, *pair(_HEADERS))
    found: list[DocSection] = []
    read = 0
    for place in range(max(0, count)):
        end = _u32(table, at + 4 * (place + 1))
        where = _u32(table, at + 4 * (count + 1) + 12 * place + 2)
        size = _u16(data, where) if where < len(data) else 0
        given = dict(properties(data[where + 2 : where + 2 + size]))
        stories: list[DocStory] = []
        first = _BEFORE_HEADERS + len(_STORIES) * place
        bounds = pairwise(headers[first : first + len(_STORIES) + 1])
        for (kind, use), (start, stop) in zip(_STORIES, bounds, strict=False):
            if read <= start < stop:  # texts of a damaged file may overlap
                read = stop
                stories.append(DocStory(kind, use, start, stop))
        is_first, begins = given.get(_TITLE_PAGE, b"")[:1] == b"\x01", given.get(_BREAK, b"\x02")[:1]
        found.append(DocSection(end, is_first, begins[:1] != b"" and begins[0] in _SAME_PAGE, tuple(stories)))
    return found


def has_even_pages(table: bytes, pair: Pair) -> bool:
    """Whether even pages have headers of their own."""
    at, size = pair(_DOCUMENT)
    return bool(size and at < len(table) and table[at] & 1)


def _numbers(table: bytes, at: int, size: int) -> list[int]:
    count = max(0, min(size, len(table) - at)) // 4
    return [_u32(table, at + 4 * place) for place in range(count)]


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
