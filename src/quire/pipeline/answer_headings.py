"""Finds the headings of a model's answer that the page's own reading has too: they look as those do.

A heading that only the answer has keeps the level that the model gave it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from quire.domain.element import Element, ElementKind
from quire.domain.element_codec import decode
from quire.domain.heading_scheme import MOST_MARKS, HeadingMark, packed_marks, unpacked_marks
from quire.domain.job import PageRecord
from quire.errors import MissingError, QuireError
from quire.objects.object_store import ObjectStore
from quire.pipeline.object_keys import elements_ref
from quire.reading.pdf.block_matching import compact

_HEADING = re.compile(rb"#{1,6} [^\n]*")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})")
_HEADINGS = (ElementKind.TITLE, ElementKind.HEADING)


async def answer_headings(
    objects: ObjectStore, local: PageRecord, answer: str, packed_elements: bytes
) -> tuple[int, ...]:
    """The marks of an answer's headings for its page's record; none where nothing is known of the page's own."""
    if not local.headings or not local.ref or not local.elements_length or not packed_elements:
        return ()
    start = local.elements_offset
    try:
        parts = objects.stream(elements_ref(local.ref), start=start, end=start + local.elements_length)
        own = b"".join([part async for part in parts])
    except MissingError:  # the answer counts without them
        return ()
    marks = await asyncio.to_thread(_marks, unpacked_marks(local.headings), own, answer, packed_elements)
    return packed_marks(marks)


def _marks(known: tuple[HeadingMark, ...], own: bytes, answer: str, found: bytes) -> list[HeadingMark]:
    try:
        mine, theirs = decode(own).elements, decode(found).elements
    except QuireError:
        return []
    looks = {compact(mine[mark.place].text): mark for mark in known if mark.place < len(mine)}
    headings = [(place, one) for place, one in enumerate(theirs) if one.kind in _HEADINGS]
    lines = list(_lines(answer.encode("utf-8", "replace")))
    if len(lines) != len(headings):  # underlined ones, or such as are in another block
        return []
    made = [
        _mark(looks.get(compact(element.text)), place, offset, element)
        for (place, element), offset in zip(headings, lines, strict=True)
        if element.grounded
    ]
    return [mark for mark in made if mark is not None][:MOST_MARKS]


def _mark(look: HeadingMark | None, place: int, offset: int, element: Element) -> HeadingMark | None:
    if look is None:
        return None
    return look._replace(place=place, offset=offset, level=look.level if look.is_told else element.level)


def _lines(markdown: bytes) -> Iterator[int]:
    """Where lines that are headings begin, outside of fenced code."""
    at, fence = 0, b""
    for line in markdown.splitlines(keepends=True):
        found = _FENCE.match(line)
        if fence:
            fence = b"" if found and found[1].startswith(fence) else fence
        elif found:
            fence = found[1]
        elif _HEADING.match(line):
            yield at
        at += len(line)
