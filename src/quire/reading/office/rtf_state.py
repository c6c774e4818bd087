"""What an RTF reader remembers between control words: of the group, of the paragraph, of the table's row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from quire.reading.office.flow_text import CellPlace
from quire.reading.office.review_marks import ReviewKind
from quire.reading.office.rtf_words import CHARSETS
from quire.reading.office.word_dates import packed_date

_HEADING_NAME = re.compile(r"heading ([1-9])\b", re.IGNORECASE)
_DEEPEST_LINEAGE = 12


@dataclass(slots=True)
class RtfState:
    """What a group inherits from the group around it."""

    destination: str = "text"
    begun: str = ""
    """The destination that began in this very group, and ends with it."""
    shown_destination: str = "skipped"
    """Of a text that is written twice, for older readers and in Unicode: the destination of the second."""
    look: int = 0
    is_hidden: bool = False
    is_deleted: bool = False
    """By a tracked change."""
    is_inserted: bool = False
    inserted: tuple[int, int] = (0, 0)
    """Author and packed date of the change."""
    deleted: tuple[int, int] = (0, 0)
    encoding: str = "cp1252"
    replaced: int = 1
    """How many characters follow a Unicode one for readers that don't know it."""

    def take_review(self, word: str, number: int | None) -> bool:
        """Whether the word says something of a tracked change."""
        given = (number or 0) & 0xFFFFFFFF
        if word == "deleted":
            self.is_deleted = number != 0
        elif word == "revised":
            self.is_inserted = number != 0
        elif word == "revauth":
            self.inserted = (given, self.inserted[1])
        elif word == "revdttm":
            self.inserted = (self.inserted[0], given)
        elif word == "revauthdel":
            self.deleted = (given, self.deleted[1])
        elif word == "revdttmdel":
            self.deleted = (self.deleted[0], given)
        else:
            return False
        return True

    @property
    def change(self) -> tuple[ReviewKind, int, int] | None:
        """What a change, or its author, has made of the text: kind, author and packed date."""
        if self.is_deleted:
            return (ReviewKind.DELETION, *self.deleted)
        if self.is_hidden:
            return (ReviewKind.HIDDEN, 0, 0)
        return (ReviewKind.INSERTION, *self.inserted) if self.is_inserted else None


class RtfFonts:
    """The encodings of fonts."""

    def __init__(self) -> None:
        self._encodings: dict[int, str] = {}
        self._font = 0

    def encoding(self, word: str, number: int, state: RtfState, around: str) -> str:
        """The encoding that holds after a word about fonts; `around` is that of the document."""
        if word == "ansicpg":
            self._encodings.clear()
            return "utf-8" if number == 65001 else f"cp{number}"
        if word == "mac":
            return "mac_roman"
        if word == "fcharset" and number in CHARSETS and number:
            self._encodings[self._font] = CHARSETS[number]
        elif word == "f":
            self._font = number
            if state.destination != "fonts" and self._encodings:
                return self._encodings.get(number, around)
        return state.encoding


class RtfAuthors:
    """Who made the tracked changes, and who made the comment that follows, and when."""

    def __init__(self) -> None:
        self._table: list[str] = []
        self._author = self._date = ""

    def end_table(self, text: str) -> None:
        self._table = text.split(";")

    def end_author(self, text: str) -> None:
        self._author = text

    def end_date(self, text: str) -> None:
        digits = text.strip()
        number = int(digits) if re.fullmatch(r"-?\d{1,11}", digits, re.ASCII) else 0
        self._date = packed_date(number & 0xFFFFFFFF)

    def of_change(self, place: int) -> str:
        """The author at that place of the table; the first is "Unknown"."""
        return self._table[place].strip() if 0 < place < len(self._table) else ""

    def of_comment(self) -> tuple[str, str]:
        """Author and date of the comment that ends, which are forgotten."""
        found = self._author, self._date
        self._author = self._date = ""
        return found


@dataclass(slots=True)
class RtfStyles:
    """What the sheet of styles says of paragraphs, by the numbers of the styles."""

    levels: dict[int, int] = field(default_factory=dict)
    bases: dict[int, int] = field(default_factory=dict)
    captions: set[int] = field(default_factory=set)
    read: int = -1
    """The style that is being read."""

    def take_word(self, word: str, number: int | None) -> None:
        if word == "s":
            self.read = number or 0
        elif word == "outlinelevel" and 0 <= (number or 0) < 9:
            self.levels[self.read] = (number or 0) + 1
        elif word == "sbasedon":
            self.bases[self.read] = number or 0

    def take_name(self, name: str) -> None:
        found = _HEADING_NAME.search(name)
        if found:
            self.levels.setdefault(self.read, int(found[1]))
        if name.strip(" ;").lower() == "caption":
            self.captions.add(self.read)

    def is_caption(self, style: int) -> bool:
        """Whether a style is that of captions, or made from it."""
        for _ in range(_DEEPEST_LINEAGE):
            if style in self.captions or style not in self.bases:
                return style in self.captions
            style = self.bases[style]
        return False


@dataclass(slots=True)
class RtfMarks:
    """Properties of the paragraph that is being read."""

    in_table: bool = False
    table_depth: int = 1
    style: int = -1
    outline: int = 9
    depth: int = 0
    breaks_before: bool = False


@dataclass(slots=True)
class RtfRow:
    """The definition of a row."""

    cells: list[CellPlace] = field(default_factory=list)
    merged: bool = False
    goes_on: bool = False
    left: int = 0
    """Where its first cell begins."""
