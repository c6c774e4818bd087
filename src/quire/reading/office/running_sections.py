"""Headers and footers by sections: once for each section where they differ, on its first page.

A section that names none has those of the section before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import ElementKind
from quire.reading.office.office_pages import OfficePage, RunningText

FIRST, DEFAULT, EVEN = "first", "default", "even"
_KINDS = (ElementKind.RUNNING_HEADER, ElementKind.RUNNING_FOOTER)


class RunningSections:
    """Sections begin and end in the order of the document; `name` gives a section its own header or footer."""

    def __init__(self) -> None:
        self._named: dict[tuple[ElementKind, str], str] = {}
        self._shown: tuple[RunningText, ...] = ()
        self._found: dict[int, list[RunningText]] = {}
        self._first_page = 0

    def name(self, kind: ElementKind, use: str, text: str) -> None:
        """The header or footer of first, of even, or of all other pages, from this section on."""
        self._named[kind, use] = text

    def end(self, *, has_first: bool, has_even: bool) -> None:
        """The section ends. Whether its first page, and its even pages, have lines of their own."""
        uses = [FIRST] if has_first else []
        uses += [DEFAULT, *([EVEN] if has_even else [])]
        texts = (RunningText(kind, self._named.get((kind, use), "")) for kind in _KINDS for use in uses)
        lines = tuple(dict.fromkeys(one for one in texts if one.text))
        if lines != self._shown:
            self._found.setdefault(self._first_page, []).extend(lines)
            self._shown = lines

    def begin(self, page: int) -> None:
        """A section begins on that page, counted from 0."""
        self._first_page = page

    def placed(self, pages: Sequence[OfficePage]) -> list[OfficePage]:
        """The pages with their headers and footers."""
        return [
            replace(page, running=tuple(self._found[at])) if at in self._found else page
            for at, page in enumerate(pages)
        ]
