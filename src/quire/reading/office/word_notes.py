"""Where the notes and comments of a Word file of before 2007 are, and which marks refer to them ([MS-DOC])."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from quire.reading.office.flow_text import NoteKind

_PLACES = {NoteKind.FOOTNOTE: (2, 3, 2), NoteKind.ENDNOTE: (46, 47, 2), NoteKind.COMMENT: (4, 5, 30)}
"""Places of the tables of marks and of texts in the header, and the bytes that the first has for each mark."""
_AUTHORS = 36
_AUTHOR_AT = 20


class WordNote(NamedTuple):
    """A note's text is between `start` and `end` of the document's text; only comments have an author."""

    kind: NoteKind
    start: int
    end: int
    author: str = ""


def read_notes(
    table: bytes, pair: Callable[[int], tuple[int, int]], kind: NoteKind, base: int
) -> Iterator[tuple[int, WordNote]]:
    """(position of its mark, note) of each note. The first mark belongs to the first text, and so on.

    `pair` gives offset and length of a table by its place in the header; texts are counted from `base`. A text that
    overlaps one before it is left out.
    """
    mark_place, text_place, width = _PLACES[kind]
    at, size = pair(mark_place)
    count = max(0, min(size, len(table) - at) - 4) // (4 + width)
    marks = _numbers(table, at, 4 * count)
    details = at + 4 * (count + 1)
    authors = _authors(table, *pair(_AUTHORS)) if kind is NoteKind.COMMENT else []
    read = 0
    for place, (mark, (start, end)) in enumerate(
        zip(marks, pairwise(_numbers(table, *pair(text_place))), strict=False)
    ):
        if not read <= start < end:
            continue
        read = end
        author = _u16(table, details + width * place + _AUTHOR_AT) if authors else 0
        name = authors[author] if author < len(authors) else ""
        yield mark, WordNote(kind, base + start, base + end, name)


def _authors(table: bytes, at: int, size: int) -> list[str]:
    names: list[str] = []
    end = min(at + size, len(table))
    while at + 2 <= end:
        length = 2 * _u16(table, at)
        names.append(table[at + 2 : min(at + 2 + length, end)].decode("utf-16-le", "replace"))
        at += 2 + length
    return names


def _numbers(data: bytes, at: int, size: int) -> list[int]:
    count = max(0, min(size, len(data) - at)) // 4
    return list(struct.unpack_from(f"<{count}I", data, at)) if count else []


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
