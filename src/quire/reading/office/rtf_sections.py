"""Sections of an RTF document: where their pages begin, and their headers and footers."""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import ElementKind
from quire.reading.office.flow_text import FlowText
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.running_sections import DEFAULT, EVEN, FIRST, RunningSections

_USES = {"": DEFAULT, "r": DEFAULT, "l": EVEN, "f": FIRST}
RUNNING = {
    f"{name}{side}": (kind, use)
    for name, kind in (("header", ElementKind.RUNNING_HEADER), ("footer", ElementKind.RUNNING_FOOTER))
    for side, use in _USES.items()
}
"""Control words that begin a header or a footer."""
WORDS = frozenset({"titlepg", "facingp", "sectd", "sbknone", "sbkcol"})


class RtfSections:
    """What is said of a section comes before its text, the word that ends it after."""

    def __init__(self, flow: FlowText) -> None:
        self._flow = flow
        self._lines = RunningSections()
        self._has_first = self._has_even = False
        self._begins = self._goes_on = False
        """A section has ended and no text has followed; the next one begins on the same page."""

    def take(self, word: str) -> None:
        """One of `WORDS`."""
        if word == "facingp":
            self._has_even = True
        elif word in ("sbknone", "sbkcol"):
            self._goes_on = True
        else:
            self._has_first = word == "titlepg"

    def name(self, word: str, text: str) -> None:
        """The header or footer that one of the words in `RUNNING` began."""
        self._lines.name(*RUNNING[word], text)

    def end(self) -> None:
        self._lines.end(has_first=self._has_first, has_even=self._has_even)
        self._begins, self._goes_on = True, False

    def begin(self) -> None:
        """Text follows, perhaps the first of a section."""
        if self._begins:
            if not self._goes_on:
                self._flow.end_page()
            self._lines.begin(self._flow.page_count)
            self._begins = False

    def placed(self, pages: Sequence[OfficePage]) -> list[OfficePage]:
        """The pages with their headers and footers."""
        return self._lines.placed(pages)
