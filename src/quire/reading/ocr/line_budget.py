"""Bounds the work of the careful reader on one page: which of its lines are left to the quick reader, or unread.

The work grows with the width of the lines. Where a page has more of it than its budget, the lines that the quick
reader is surest of keep its words, those with figures last, for in them it errs without a doubt. On a page in letters
that the quick reader can't read at all, lines from all over the page are read first: where the careful reader is not
sure of them either, more lines would tell no more. A page whose budget was reached says so.

Weakness: the budget is one of work, not of time, and doubtful lines are read beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quire.reading.ocr.ocr_words import Box, RecognisedPage
from quire.reading.ocr.sure_lines import SureLines

OCR_BUDGET = "ocr_budget"
"""The reason of a page with lines that the careful reader was to read and did not."""

BALANCED_PX = 70_000
"""The width of all lines at the height that they are read at: a page full of prose has some 60,000. It takes 3 s."""
QUICK_PX = 30_000
"""What the quick reader's work is worth: a page that it did not read has so much more."""
UNREADABLE_PX = 45_000
"""Of a page that the quick reader can't read: enough to tell whether the careful one can."""
_GOLDEN = 0.618034
_SURE_ENOUGH = 0.9
_KNOWN_LETTERS = 0.95
"""The careful reader is surer than this of letters that it knows, even in type that is hard to read."""


@dataclass(frozen=True, slots=True)
class LineBudget:
    """What may be read of a page, and how to know what the quick reader makes of its lines.

    `is_unreadable` says that the quick reader can't read the page at all, so that it has no words for them.
    """

    width_px: float
    guesses: Callable[[], SureLines] = SureLines
    is_unreadable: bool = False

    @classmethod
    def of(
        cls, seen: RecognisedPage | None, hardly_sure: float | None, read: Callable[[], RecognisedPage | None]
    ) -> LineBudget:
        """The budget of a page that the quick reader has seen; `hardly_sure` says that it can't read the page.

        `read` has a page read by it that it has not seen, for the case that there are too many lines.
        """
        if hardly_sure is not None:
            return cls(UNREADABLE_PX, is_unreadable=True)
        if seen is not None:
            return cls(BALANCED_PX, lambda: SureLines.of(seen))
        return cls(BALANCED_PX + QUICK_PX, lambda: SureLines.of(late) if (late := read()) else SureLines())

    def left_to_quick(
        self, boxes: Mapping[int, Box], widths: Mapping[int, float]
    ) -> dict[int, tuple[str, float]]:
        """The quick reader's text for as many of the lines as are too much, and how sure it is of each."""
        excess = sum(widths.values()) - self.width_px
        if excess <= 0:
            return {}
        lines = self.guesses()
        guesses = {place: guess for place, box in boxes.items() if (guess := lines.guess_in(box))}
        sure = [place for place, (_, sureness) in guesses.items() if sureness >= _SURE_ENOUGH]
        found: dict[int, tuple[str, float]] = {}
        for place in sorted(sure, key=lambda place: (_has_figures(guesses[place][0]), -guesses[place][1])):
            if excess <= 0:
                break
            found[place] = guesses[place]
            excess -= widths[place]
        return found

    def first_lines(self, places: Sequence[int], widths: Mapping[int, float]) -> list[int]:
        """The lines to read first: all, or some from all over a page that may be unreadable."""
        if not self.is_unreadable:
            return list(places)
        left, first = self.width_px, list[int]()
        # Not every third line, say: that would be the lines of one of three columns.
        for at in sorted(range(len(places)), key=lambda at: at * _GOLDEN % 1.0):
            if left > 0:
                first.append(places[at])
                left -= widths[places[at]]
        return sorted(first)

    def is_spent(self, scores: Sequence[tuple[str, float]]) -> bool:
        """Whether what was read of the first lines says that the others need not be read."""
        weight = sum(len(text) for text, _ in scores)
        sure = sum(len(text) * score for text, score in scores) / max(1, weight)
        return self.is_unreadable and sure < _KNOWN_LETTERS


def _has_figures(text: str) -> bool:
    return any(map(str.isdigit, text))
