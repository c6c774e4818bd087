"""Makes captions of the paragraphs that an office file marks as such, each with its table or figure as parent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from quire.domain.element import Element, ElementKind
from quire.reading.office.office_pages import CaptionOf

_HOLDERS = frozenset({ElementKind.TABLE, ElementKind.FIGURE, ElementKind.CODE, ElementKind.FORMULA})
_OF_TABLE = re.compile(r"tab(?:le|\.|elle|la|ella|leau)?\b", re.IGNORECASE)
_OF_FIGURE = re.compile(r"(?:fig|abb|ill|image|bild|photo|chart|diagram)", re.IGNORECASE)


def with_captions(elements: Sequence[Element], captions: Mapping[int, CaptionOf]) -> tuple[Element, ...]:
    """The elements of which those at the given places are captions, if they are paragraphs."""
    made = list(elements)
    for at in captions:
        if made[at].kind is ElementKind.PARAGRAPH:
            made[at] = replace(made[at], kind=ElementKind.CAPTION)
    for at, of in captions.items():
        if made[at].kind is ElementKind.CAPTION:
            made[at] = replace(made[at], parent=_parent(made, at, of))
    return tuple(made)


def _parent(elements: Sequence[Element], at: int, of: CaptionOf) -> str | None:
    """What the caption is about: directly next to it, but for other captions, and None where nothing is."""
    before = _neighbour(elements, at, -1) if of is not CaptionOf.NEXT else None
    after = _neighbour(elements, at, 1) if of is not CaptionOf.BEFORE else None
    found = [one for one in (before, after) if one is not None]
    if len(found) == 2:
        found.sort(key=lambda one: not _suits(elements[at].text, one, is_before=one is before))
    return found[0].id if found else None


def _neighbour(elements: Sequence[Element], at: int, step: int) -> Element | None:
    """What is beside the caption; behind another caption only what its own words don't speak against."""
    text, place = elements[at].text, at + step
    while 0 <= place < len(elements) and elements[place].kind is ElementKind.CAPTION:
        place += step
    found = elements[place] if 0 <= place < len(elements) else None
    if found is None or found.kind not in _HOLDERS:
        return None
    other = _OF_FIGURE if found.kind is ElementKind.TABLE else _OF_TABLE
    return None if place != at + step and other.match(text) else found


def _suits(text: str, holder: Element, *, is_before: bool) -> bool:
    """Whether the caption's first word names what it is about; else tables are below theirs, figures above."""
    is_table = holder.kind is ElementKind.TABLE
    if _OF_TABLE.match(text):
        return is_table and not is_before
    if _OF_FIGURE.match(text):
        return not is_table and is_before
    return is_table is not is_before
