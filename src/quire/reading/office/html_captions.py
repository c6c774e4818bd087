"""Which paragraphs of a web page are captions, and of what: `caption` of a table, `figcaption` of a figure."""

from __future__ import annotations

from quire.reading.office.office_pages import CaptionOf

_MOST_FIGURES = 50


class HtmlCaptions:
    """`of` says what a paragraph that ends now is the caption of; None for other paragraphs."""

    def __init__(self) -> None:
        self.of: CaptionOf | None = None
        self._figures: list[int] = []
        """Of each open figure, how many blocks of the page precede it."""

    def start(self, tag: str, blocks: int) -> None:
        """A block begins, after so many of the page."""
        if tag == "caption":
            self.of = CaptionOf.NEXT
        elif tag == "figcaption":
            inside = bool(self._figures) and blocks > self._figures[-1]
            self.of = CaptionOf.BEFORE if inside else CaptionOf.NEXT
        elif tag == "figure" and len(self._figures) < _MOST_FIGURES:
            self._figures.append(blocks)

    def end(self, tag: str) -> None:
        """A block ends. A figure or a table ends its caption, if that has no end of its own."""
        if tag in ("caption", "figcaption", "figure", "table"):
            self.of = None
        if tag == "figure" and self._figures:
            self._figures.pop()
