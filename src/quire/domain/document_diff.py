"""Owns the comparison of two readings of a document: which pages correspond, and which elements of them differ.

Pages are compared by their elements' kinds and words, not by boxes: the same words at another place are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from quire.domain.element import Element, PageElements


@dataclass(frozen=True, slots=True)
class PagePair:
    """A page of the first document and the one of the second that corresponds to it; None where there is none."""

    a: int | None
    b: int | None
    equal: bool = False

    @property
    def change(self) -> str:
        if self.equal:
            return "equal"
        return "added" if self.a is None else "removed" if self.b is None else "changed"


@dataclass(frozen=True, slots=True)
class ElementPair:
    """The same for elements; `changed` where one replaces the other."""

    a: Element | None
    b: Element | None

    @property
    def change(self) -> str:
        return "added" if self.a is None else "removed" if self.b is None else "changed"


def page_signature(page: PageElements, note: str = "") -> bytes:
    """Equal for pages with the same kinds and words in the same order."""
    found = hashlib.sha256()
    for element in _compared(page):
        found.update(f"{_signature(element)}\0".encode("utf-8", "replace"))
    found.update(note.encode("utf-8", "replace"))
    return found.digest()


def paired_pages(a: Sequence[tuple[int, bytes]], b: Sequence[tuple[int, bytes]]) -> list[PagePair]:
    """Pages that correspond, in order: equal ones first, then those between them by their order."""
    matcher = SequenceMatcher(None, [one[1] for one in a], [one[1] for one in b], autojunk=False)
    pairs: list[PagePair] = []
    for what, a0, a1, b0, b1 in matcher.get_opcodes():
        for place in range(max(a1 - a0, b1 - b0)):
            left = a[a0 + place][0] if a0 + place < a1 else None
            right = b[b0 + place][0] if b0 + place < b1 else None
            pairs.append(PagePair(left, right, what == "equal"))
    return pairs


def changed_elements(a: PageElements | None, b: PageElements | None) -> list[ElementPair]:
    """Elements that differ between two pages, in reading order."""
    left, right = _compared(a) if a else [], _compared(b) if b else []
    matcher = SequenceMatcher(
        None, [_signature(one) for one in left], [_signature(one) for one in right], autojunk=False
    )
    pairs: list[ElementPair] = []
    for what, a0, a1, b0, b1 in matcher.get_opcodes():
        if what == "equal":
            continue
        for place in range(max(a1 - a0, b1 - b0)):
            pairs.append(
                ElementPair(
                    left[a0 + place] if a0 + place < a1 else None,
                    right[b0 + place] if b0 + place < b1 else None,
                )
            )
    return pairs


def _compared(page: PageElements) -> list[Element]:
    return [element for element in page.elements if not element.repeated]


def _signature(element: Element) -> str:
    words = " ".join((element.plain_text or element.latex).split())
    return f"{element.kind.value}\1{element.level}\1{words}"
