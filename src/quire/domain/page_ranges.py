"""Which pages of a document are wanted: `1-5,8,12-`, and the same clipped to what there is.

Pages are handed out by their place in the selection (0, 1, 2 …), so that a selection of any shape is cut
into chunks with nothing but two numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from quire.errors import RequestError

_PART = re.compile(r"^\s*(\d{1,9})\s*(?:(-)\s*(\d{1,9})?)?\s*$")
_MAX_PARTS = 1000


@dataclass(frozen=True, slots=True)
class PageRanges:
    """Ascending, non-overlapping, inclusive ranges. `last=None` means up to the end."""

    parts: tuple[tuple[int, int | None], ...] = ((1, None),)

    @classmethod
    def parse(cls, text: str | None) -> PageRanges:
        """Reads `1-5,8,12-`. Raises RequestError with the offending part."""
        if text is None or not text.strip():
            return cls()
        pieces = text.split(",")
        if len(pieces) > _MAX_PARTS:
            raise RequestError(f"pages: at most {_MAX_PARTS} parts are allowed.")
        parts: list[tuple[int, int | None]] = []
        for piece in pieces:
            found = _PART.match(piece)
            if not found or int(found[1]) < 1:
                raise RequestError(
                    f"pages: {piece.strip()[:40]!r} is not a page or a range such as 3 or 1-5."
                )
            first = int(found[1])
            last: int | None = first
            if found[2]:
                last = int(found[3]) if found[3] else None
            if last is not None and last < first:
                raise RequestError(f"pages: {piece.strip()[:40]!r} ends before it begins.")
            parts.append((first, last))
        return cls(_merged(parts))

    def clip(self, page_count: int) -> PageRanges:
        """The same, ending at the document's last page. Raises RequestError if nothing is left."""
        kept = tuple(
            (first, min(last or page_count, page_count)) for first, last in self.parts if first <= page_count
        )
        if not kept:
            raise RequestError(f"pages: none of those asked for is there; the document has {page_count}.")
        return PageRanges(kept)

    def since(self, number: int) -> PageRanges:
        """The same without the pages before that one."""
        return PageRanges(
            tuple((max(first, number), last) for first, last in self.parts if last is None or last >= number)
        )

    def __len__(self) -> int:
        return sum(_closed(last) - first + 1 for first, last in self.parts)

    def numbers(self, start: int, stop: int) -> list[int]:
        """The page numbers at places start … stop - 1 of the selection."""
        found: list[int] = []
        place = 0
        for first, last in self.parts:
            size = _closed(last) - first + 1
            low, high = max(start - place, 0), min(stop - place, size)
            found.extend(range(first + low, first + high))
            place += size
            if place >= stop:
                break
        return found

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and any(
            first <= number and (last is None or number <= last) for first, last in self.parts
        )

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}-{'' if last is None else last}"
            for first, last in self.parts
        )


def _closed(last: int | None) -> int:
    if last is None:
        raise ValueError("an open range has no length; clip it first")
    return last


def _merged(parts: list[tuple[int, int | None]]) -> tuple[tuple[int, int | None], ...]:
    merged: list[tuple[int, int | None]] = []
    for first, last in sorted(parts, key=lambda part: part[0]):
        if merged:
            before_first, before_last = merged[-1]
            if before_last is None:
                break
            if first <= before_last + 1:
                merged[-1] = (before_first, None if last is None else max(before_last, last))
                continue
        merged.append((first, last))
    assert all(a[1] is not None for a, _ in pairwise(merged))  # noqa: S101 - an invariant of the loop above
    return tuple(merged)
