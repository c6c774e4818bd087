"""Gives the headings of one page their levels in the document: in its Markdown and in its stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quire.domain.element_codec import decode, encode
from quire.domain.heading_scheme import DEEPEST, HeadingMark
from quire.errors import QuireError

_SIGN = ord("#")


@dataclass(frozen=True, slots=True)
class LeveledPage:
    """The bytes of a page, and where its headings are in them."""

    markdown: bytes
    elements: bytes
    marks: tuple[HeadingMark, ...]


def with_levels(page: LeveledPage, levels: Sequence[int]) -> LeveledPage:
    """The page with these levels of its marked headings; the very same where it has them already.

    A page whose marks don't fit its bytes, or whose elements are damaged, keeps the levels that it has.
    """
    found = [_signs(page.markdown, mark.offset) for mark in page.marks]
    if found == list(levels) or 0 in found:
        return page
    stored = page.elements
    if stored:
        try:
            stored = _stored(page, levels)
        except QuireError:
            return page
    pieces: list[bytes] = []
    marks: list[HeadingMark] = []
    at = length = 0
    for mark, signs, level in zip(page.marks, found, levels, strict=True):
        before = page.markdown[at : mark.offset]
        length += len(before)
        marks.append(mark._replace(offset=length))
        pieces += (before, b"#" * level)
        length += level
        at = mark.offset + signs
    pieces.append(page.markdown[at:])
    return LeveledPage(b"".join(pieces), stored, tuple(marks))


def _signs(markdown: bytes, offset: int) -> int:
    """How many signs of a heading the line has that begins there; 0 if it is no heading."""
    at = offset
    while at - offset <= DEEPEST and at < len(markdown) and markdown[at] == _SIGN:
        at += 1
    is_line = offset == 0 or markdown[offset - 1 : offset] == b"\n"
    return at - offset if is_line and at - offset <= DEEPEST and markdown[at : at + 1] == b" " else 0


def _stored(page: LeveledPage, levels: Sequence[int]) -> bytes:
    decoded = decode(page.elements)
    elements = list(decoded.elements)
    for mark, level in zip(page.marks, levels, strict=True):
        if mark.place >= len(elements):
            raise QuireError("A heading of this page is not among its elements.")
        elements[mark.place] = replace(elements[mark.place], level=level)
    return encode(replace(decoded, elements=tuple(elements)))
