"""Documents with a table that goes on over page breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pymupdf

_LEFTS = (72.0, 200.0, 330.0, 430.0)
_RIGHT = 523.0
_TOP, _FOOT = 80.0, 760.0
_STEP = 20.0
_PROSE = "The harbour office keeps a list of all boats and of the fees that they pay in a year."


@dataclass
class LongTables:
    """Draws tables row by row; a row that does not fit goes to the next page."""

    rules: bool = False
    repeats_head: bool = True
    running: bool = False
    footnotes: bool = False
    lefts: Sequence[float] = _LEFTS
    document: pymupdf.Document = field(default_factory=pymupdf.open)
    y: float = _TOP
    head: Sequence[str] = ()
    bold_head: bool = True

    def __post_init__(self) -> None:
        self.turn()

    @property
    def foot(self) -> float:
        return _FOOT - 40 if self.footnotes else _FOOT

    def turn(self) -> None:
        """Goes on to a new page."""
        self.page = self.document.new_page()
        number = self.document.page_count
        if self.running:
            self.page.insert_text((72, 45), "Fees of the harbour", fontsize=8)
            self.page.insert_text((290, 810), f"{number}", fontsize=8)
        if self.footnotes:
            note = f"{number} Fees are those of the year before, without the tax on landing fish."
            self.page.insert_text((72, 775), note, fontsize=7)
        self.y = _TOP

    def text(self, words: str = _PROSE, *, size: float = 10, bold: bool = False) -> None:
        self.y += 1.5 * size
        self.page.insert_text((72, self.y), words, fontsize=size, fontname="hebo" if bold else "helv")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = "") -> None:
        """A table; `note` is written above each part but the first."""
        self.head = head
        self.y += 14
        self._row(head, bold=self.bold_head)
        for row in rows:
            if self.y + _STEP > self.foot:
                self.turn()
                if note:
                    self.text(note)
                    self.y += 8
                if self.repeats_head:
                    self._row(head, bold=self.bold_head)
            self._row(row)

    def _row(self, texts: Sequence[str], *, bold: bool = False) -> None:
        top = self.y
        self.y += _STEP
        font = "hebo" if bold else "helv"
        for left, text in zip(self.lefts, texts, strict=False):
            self.page.insert_text((left, self.y - 6), text, fontsize=9, fontname=font)
        if self.rules:
            edges = [*(left - 5 for left in self.lefts[: len(texts)]), _RIGHT]
            for y in (top, self.y):
                self.page.draw_line((edges[0], y), (_RIGHT, y))
            for x in edges:
                self.page.draw_line((x, top), (x, self.y))

    def pdf(self) -> bytes:
        content: bytes = self.document.tobytes()
        self.document.close()
        return content


HEAD = ("Boat", "Harbour", "Places", "Fee")


def fees(count: int, first: int = 1) -> list[tuple[str, str, str, str]]:
    """Rows that are all different."""
    return [
        (f"Boat {number}", f"Quay of {number} ropes", f"{number + 300}", f"{number * 7}.50")
        for number in range(first, first + count)
    ]
