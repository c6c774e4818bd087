"""What an office file says beside its text: changes that were tracked, comments, text that is hidden."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

LONGEST_MARK = 4_000
MOST_MARKS = 10_000


class ReviewKind(StrEnum):
    """All but HIDDEN are changes; their values are those of the JSON."""

    INSERTION = "insertion"
    DELETION = "deletion"
    MOVED_FROM = "moved_from"
    MOVED_TO = "moved_to"
    COMMENT = "comment"
    HIDDEN = "hidden"


class ReviewMark(NamedTuple):
    """Plain text with its kind; `date` is as the file has it, "" where the file names no date or no author."""

    kind: ReviewKind
    text: str
    author: str = ""
    date: str = ""


class ReviewMarks:
    """Gathers marks until a block takes them. Pieces of one change that follow each other are one mark."""

    def __init__(self) -> None:
        self._held: list[ReviewMark] = []
        self._count = 0
        self.is_open = False
        """Whether a further piece of the same change goes on with it: a reader unsets it at text between both."""

    def add(self, kind: ReviewKind, text: str, author: str = "", date: str = "") -> None:
        """Adds a piece of text. Of a document, one mark more than are shown is kept, so that the rest is known of."""
        if self.is_open and self._held:
            last = self._held[-1]
            if (last.kind, last.author, last.date) == (kind, author, date):
                self._held[-1] = last._replace(text=(last.text + text)[:LONGEST_MARK])
                return
        if self._count <= MOST_MARKS and text.strip():
            self._count += 1
            self._held.append(ReviewMark(kind, text[:LONGEST_MARK], author, date))
            self.is_open = kind is not ReviewKind.COMMENT

    def end_paragraph(self) -> None:
        """The next piece is of another paragraph: a space is between the words of both."""
        if self._held and not self._held[-1].text.endswith(" "):
            self._held[-1] = self._held[-1]._replace(text=self._held[-1].text + " ")

    def taken(self) -> tuple[ReviewMark, ...]:
        """The marks since the last call, their words with single spaces."""
        if not self._held:
            return ()
        held, self._held = self._held, []
        return tuple(one._replace(text=" ".join(one.text.split())) for one in held)

    def put_back(self, marks: tuple[ReviewMark, ...]) -> None:
        """Adds marks that were taken before, as those of a note that is only now referred to."""
        self._held += marks
