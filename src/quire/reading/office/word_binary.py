"""The structures of a Word file of before 2007 ([MS-DOC]): text, properties of paragraphs and letters, styles, lists.

Offsets outside the file end what is being read; they never raise.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from quire.errors import DamagedError, PasswordRequiredError
from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.doc_lists import read_lists
from quire.reading.office.doc_sections import DocSection, has_even_pages, read_sections
from quire.reading.office.flow_text import NoteKind
from quire.reading.office.inline_markdown import BOLD, HIDDEN, ITALIC, RAISED, STRIKE
from quire.reading.office.review_marks import ReviewKind, ReviewMark
from quire.reading.office.word_dates import packed_date
from quire.reading.office.word_notes import WordNote, read_notes
from quire.reading.office.word_styles import Label

_IDENT = 0xA5EC
_PAIRS_AT = 0x9A
_STYLES, _CHARACTERS, _PARAGRAPHS, _PIECES, _AUTHORS, _LISTS, _LIST_USES = 1, 12, 13, 33, 51, 73, 74
"""Places in the header's table of (offset, length)."""
_PAGE = 512
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
_LOOKS = {0x0835: BOLD, 0x0836: ITALIC, 0x0837: STRIKE, 0x2A48: RAISED, 0x083C: HIDDEN}
_POSITION = 0x4845
"""By how many half points letters are raised."""
_NO_OUTLINE = 9
_PARAGRAPH_STYLE = 1
_DEEPEST_LINEAGE = 12
_TITLE_STYLE = 62
_LIST_STYLES = {48: ("-", 0), 49: ("1.", 0)}
_LIST_STYLES |= {54 + n: ("-", n + 1) for n in range(4)} | {58 + n: ("1.", n + 1) for n in range(4)}
_CAPTION_STYLE = 34
_CHANGES = ((0x0800, 0x4863, 0x6864, ReviewKind.DELETION), (0x0801, 0x4804, 0x6805, ReviewKind.INSERTION))
"""Properties of letters that a tracked change has taken away or put in: that it did, its author, its date."""
_MOST_COLUMNS = 64


class ParagraphLook(NamedTuple):
    """What the file says of a paragraph."""

    style: int = 0
    in_table: bool = False
    is_inner: bool = False
    """It is in a table that is in a cell."""
    ends_row: bool = False
    ends_inner_cell: bool = False
    ends_inner_row: bool = False
    outline: int = _NO_OUTLINE
    list_use: int | None = None
    """Which list it is in; 0 for none, None where only its style says that."""
    list_depth: int = 0
    breaks_before: bool = False
    cells: tuple[tuple[int, bool, bool], ...] = ()
    """At the end of a row: right border, merged down, part of the cell above, for each cell."""


class CharacterLook(NamedTuple):
    """What the file says of letters. `author` is a place in the list of authors."""

    look: int = 0
    change: ReviewKind | None = None
    author: int = 0
    date: int = 0


class _Style(NamedTuple):
    built_in: int = -1
    parent: int = -1
    look: ParagraphLook = ParagraphLook()


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    offset: int
    is_narrow: bool


class WordBinary:
    """Raises DamagedError or PasswordRequiredError."""

    def __init__(self, file: CompoundFile) -> None:
        self._data = data = file.stream("WordDocument")
        if len(data) < 0x200 or _u16(data, 0) != _IDENT:
            raise DamagedError("The Word document is damaged, or was written before Word 97.")
        flags = _u16(data, 0x0A)
        if flags & 0x0100:
            raise PasswordRequiredError(
                "The document is protected by a password, which Quire can't use for office files. "
                "Save it without one and send that copy."
            )
        self._table = file.stream("1Table" if flags & 0x0200 else "0Table")
        counts = [max(0, count) for count in struct.unpack_from("<7i", data, 0x4C)]
        counts[3] = 0  # reserved
        starts = list(accumulate(counts, initial=0))  # texts follow each other in this order
        self.main_end = starts[1]
        self._note_starts = {
            NoteKind.FOOTNOTE: starts[1],
            NoteKind.COMMENT: starts[4],
            NoteKind.ENDNOTE: starts[5],
        }
        self.boxes = (starts[6], starts[7])
        """Where the texts of text boxes are."""
        self._pieces = list(self._read_pieces())
        self._piece_starts = [piece.start for piece in self._pieces]
        self._looks = _Ranges(self._read_looks())
        self._paragraphs = _Ranges(self._read_paragraphs())
        self._styles = list(self._read_styles())
        self._numbering = read_lists(self._table, self._pair(_LISTS), self._pair(_LIST_USES))
        self._authors = self._read_authors()
        self.has_even_pages = has_even_pages(self._table, self._pair)
        self.headers_start = starts[2]

    # ---- text ----------------------------------------------------------------------------------------------

    def characters(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        """(character, its offset in the file) of the text between two positions."""
        for place in range(max(0, bisect_right(self._piece_starts, start) - 1), len(self._pieces)):
            piece = self._pieces[place]
            if piece.start >= end:
                return
            first, last = max(start, piece.start), min(end, piece.end)
            if first >= last:
                continue
            width = 1 if piece.is_narrow else 2
            at = piece.offset + (first - piece.start) * width
            raw = self._data[at : at + (last - first) * width]
            text = raw.decode("cp1252", "replace") if piece.is_narrow else raw.decode("utf-16-le", "replace")
            for character in text:
                yield character, at
                at += width if ord(character) < 0x10000 else 4

    def notes(self) -> dict[int, WordNote]:
        """The notes and comments by the offsets of their marks in the file."""
        return {
            offset: note
            for kind, start in self._note_starts.items()
            for mark, note in read_notes(self._table, self._pair, kind, start)
            if (offset := self._offset(mark)) is not None
        }

    def sections(self) -> dict[int, DocSection]:
        """The sections by the offset of the last character of each in the file."""
        found = read_sections(self._data, self._table, self._pair, _sprms)
        offsets = ((self._offset(min(one.end, self.main_end) - 1), one) for one in found)
        return {offset: one for offset, one in offsets if offset is not None}

    def _offset(self, position: int) -> int | None:
        """Where the character at that position of the text is in the file."""
        place = bisect_right(self._piece_starts, position) - 1
        if place < 0 or position >= self._pieces[place].end:
            return None
        piece = self._pieces[place]
        return piece.offset + (position - piece.start) * (1 if piece.is_narrow else 2)

    def look(self, offset: int) -> CharacterLook:
        """The look of the character at that offset of the file."""
        found = self._looks.at(offset)
        return found if isinstance(found, CharacterLook) else _PLAIN_LOOK

    def review_mark(self, look: CharacterLook, text: str) -> ReviewMark | None:
        """What a tracked change, or its author, has made of the text; None for plain text."""
        if look.change is not ReviewKind.DELETION and look.look & HIDDEN:
            return ReviewMark(ReviewKind.HIDDEN, text)
        if look.change is None:
            return None
        author = self._authors[look.author] if look.author < len(self._authors) else ""
        return ReviewMark(look.change, text, author, packed_date(look.date))

    def paragraph(self, offset: int) -> ParagraphLook:
        """Of the paragraph whose end mark is at that offset of the file."""
        found = self._paragraphs.at(offset)
        return found if isinstance(found, ParagraphLook) else ParagraphLook()

    # ---- styles and lists ----------------------------------------------------------------------------------

    def level(self, look: ParagraphLook) -> int:
        """The level of a heading, 0 for other paragraphs."""
        if look.outline < _NO_OUTLINE:
            return look.outline + 1
        for place, style in self._lineage(look.style):
            number = place if 1 <= place <= 9 else style.built_in  # styles 1 to 9 of a file are its headings
            if 1 <= number <= 9:
                return number
            if number == _TITLE_STYLE:
                return 1
            if style.look.outline < _NO_OUTLINE:
                return style.look.outline + 1
        return 0

    def is_caption(self, look: ParagraphLook) -> bool:
        """Whether the paragraph is in the style of captions, or in one made from it."""
        return any(style.built_in == _CAPTION_STYLE for _, style in self._lineage(look.style))

    def list_label(self, look: ParagraphLook) -> tuple[Label | None, int]:
        """How a paragraph of a list begins, None for others, and its depth. To be asked for once of each, in order."""
        if look.list_use is not None:
            return self._label(look)
        for _, style in self._lineage(look.style):
            if style.look.list_use is not None:
                return self._label(style.look)
            if style.built_in in _LIST_STYLES:
                marker, depth = _LIST_STYLES[style.built_in]
                return Label(marker, ""), depth
        return None, 0

    def _label(self, look: ParagraphLook) -> tuple[Label | None, int]:
        if not look.list_use:
            return None, 0
        known = self._numbering.has(str(look.list_use))
        label = self._numbering.label(str(look.list_use), look.list_depth) if known else Label("-", "")
        return label, look.list_depth

    def _lineage(self, place: int) -> Iterator[tuple[int, _Style]]:
        """The style at that place of the file and those that it is made from."""
        for _ in range(_DEEPEST_LINEAGE):
            if not 0 <= place < len(self._styles):
                return
            yield place, self._styles[place]
            place = self._styles[place].parent

    # ---- reading the structures ----------------------------------------------------------------------------

    def _pair(self, place: int) -> tuple[int, int]:
        at = _PAIRS_AT + 8 * place
        return (_u32(self._data, at), _u32(self._data, at + 4)) if at + 8 <= len(self._data) else (0, 0)

    def _read_pieces(self) -> Iterator[_Piece]:
        at, size = self._pair(_PIECES)
        end = min(at + size, len(self._table))
        while at + 5 <= end and self._table[at] == 1:
            at += 3 + _u16(self._table, at + 1)
        if at + 5 > end or self._table[at] != 2:
            raise DamagedError("The Word document is damaged: its text can't be found.")
        count = (min(_u32(self._table, at + 1), end - at - 5) - 4) // 12
        at += 5
        read, length = 0, 0
        for place in range(count):
            start, stop = _u32(self._table, at + 4 * place), _u32(self._table, at + 4 * place + 4)
            where = _u32(self._table, at + 4 * (count + 1) + 8 * place + 2)
            is_narrow = bool(where & 0x40000000)
            offset = (where & 0x3FFFFFFF) // 2 if is_narrow else where & 0x3FFFFFFF
            if not read <= start < stop:  # pieces of a damaged file may overlap
                continue
            read, length = stop, length + stop - start
            if length > len(self._data):
                return
            yield _Piece(start, stop, offset, is_narrow)

    def _pages(self, place: int) -> Iterator[tuple[int, bytes]]:
        """(number of runs, page) of each page of properties."""
        at, size = self._pair(place)
        count = (min(size, len(self._table) - at) - 4) // 8
        numbers = (
            _u32(self._table, at + 4 * (count + 1) + 4 * one) & 0x3FFFFF for one in range(max(0, count))
        )
        for number in dict.fromkeys(numbers):
            page = self._data[number * _PAGE : (number + 1) * _PAGE]
            if len(page) == _PAGE:
                yield page[-1], page

    def _read_looks(self) -> Iterator[tuple[int, int, object]]:
        for runs, page in self._pages(_CHARACTERS):
            looks: dict[int, CharacterLook] = {}  # runs of the same look share their properties
            for one in range(runs):
                start, end = _u32(page, 4 * one), _u32(page, 4 * one + 4)
                at = 2 * page[(4 * (runs + 1) + one) % _PAGE]
                if at not in looks:
                    looks[at] = _character_look(page[at + 1 : at + 1 + page[at]]) if at else _PLAIN_LOOK
                yield start, end, looks[at]

    def _read_paragraphs(self) -> Iterator[tuple[int, int, object]]:
        for runs, page in self._pages(_PARAGRAPHS):
            looks = {0: ParagraphLook()}
            for one in range(runs):
                start, end = _u32(page, 4 * one), _u32(page, 4 * one + 4)
                at = 2 * page[(4 * (runs + 1) + 13 * one) % _PAGE]
                if at not in looks:
                    first = page[at]
                    begin, size = (at + 1, 2 * first - 1) if first else (at + 2, 2 * page[(at + 1) % _PAGE])
                    looks[at] = _paragraph_look(page[begin : begin + size])
                yield start, end, looks[at]

    def _read_styles(self) -> Iterator[_Style]:
        at, size = self._pair(_STYLES)
        table = self._table[at : at + size]
        name_at, at = _u16(table, 4), 2 + _u16(table, 0)
        while at + 2 <= len(table):
            length = _u16(table, at)
            entry = table[at + 2 : at + 2 + length]
            yield _style(entry, name_at) if length >= 10 else _Style()
            at += 2 + length + (length & 1)

    def _read_authors(self) -> list[str]:
        """Who made the tracked changes."""
        at, size = self._pair(_AUTHORS)
        table = self._table[at : at + size]
        if _u16(table, 0) != 0xFFFF:
            return []
        names: list[str] = []
        at, extra = 6, _u16(table, 4)
        for _ in range(_u16(table, 2)):
            length = 2 * _u16(table, at)
            names.append(table[at + 2 : at + 2 + length].decode("utf-16-le", "replace"))
            at += 2 + length + extra
            if at >= len(table):
                break
        return names


class _Ranges:
    """Values by ranges of offsets."""

    def __init__(self, ranges: Iterator[tuple[int, int, object]]) -> None:
        self._ranges = sorted(ranges, key=lambda one: one[0])
        self._starts = [one[0] for one in self._ranges]

    def at(self, offset: int) -> object:
        place = bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self._ranges[place][1]:
            return None
        return self._ranges[place][2]


_PLAIN_LOOK = CharacterLook()


def _character_look(data: bytes) -> CharacterLook:
    given = dict(_sprms(data))
    look = 0
    for sprm, bit in _LOOKS.items():
        look = look | bit if given.get(sprm, b"")[:1] in (b"\x01", b"\x81") else look
    if int.from_bytes(given.get(_POSITION, b""), "little", signed=True) > 0:
        look |= RAISED
    for sprm, author, date, kind in _CHANGES:
        if given.get(sprm, b"")[:1] == b"\x01":
            numbers = (int.from_bytes(given.get(one, b""), "little") for one in (author, date))
            return CharacterLook(look, kind, *numbers)
    return CharacterLook(look) if look else _PLAIN_LOOK


def _paragraph_look(data: bytes) -> ParagraphLook:
    if len(data) < 2:
        return ParagraphLook()
    given: dict[int, bytes] = dict(_sprms(data[2:]))

    def number(sprm: int, default: int = 0) -> int:
        return int.from_bytes(given[sprm], "little") if given.get(sprm) else default

    return ParagraphLook(
        style=_u16(data, 0),
        in_table=number(0x2416) == 1 or number(0x6649) > 0,
        is_inner=number(0x6649) > 1,
        ends_row=number(0x2417) == 1,
        ends_inner_cell=number(0x244B) == 1,
        ends_inner_row=number(0x244C) == 1,
        outline=min(number(0x2640, _NO_OUTLINE), _NO_OUTLINE),
        list_use=number(0x460B) if 0x460B in given else None,
        list_depth=min(number(0x260A), 8),
        breaks_before=number(0x2407) == 1,
        cells=_row_cells(given.get(0xD608, b"")),
    )


def _style(entry: bytes, name_at: int) -> _Style:
    kind, parent = _u16(entry, 2) & 15, _u16(entry, 2) >> 4
    at = name_at + 2 + 2 * (_u16(entry, name_at) + 1)
    at += at & 1
    size = _u16(entry, at)
    look = _paragraph_look(entry[at + 2 : at + 2 + size]) if kind == _PARAGRAPH_STYLE else ParagraphLook()
    return _Style(_u16(entry, 0) & 0x0FFF, parent, look)


def _row_cells(operand: bytes) -> tuple[tuple[int, bool, bool], ...]:
    """Of the definition of a table's row."""
    count = operand[0] if operand else 0
    if not 0 < count <= _MOST_COLUMNS or len(operand) < 1 + 2 * (count + 1):
        return ()
    borders = struct.unpack_from(f"<{count + 1}h", operand, 1)
    cells: list[tuple[int, bool, bool]] = []
    for place in range(count):
        at = 1 + 2 * (count + 1) + 20 * place
        flags = _u16(operand, at) if at + 2 <= len(operand) else 0
        vertical = flags >> 5 & 3
        cells.append((max(1, borders[place + 1] - borders[0]), vertical != 0, vertical == 1))
    return tuple(cells)


def _sprms(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(property, operand) of each property in the list."""
    at = 0
    while at + 2 <= len(data):
        sprm = _u16(data, at)
        at += 2
        size = _OPERAND_BYTES.get(sprm >> 13)
        if sprm == 0xD608 and at + 2 <= len(data):
            size, at = _u16(data, at) - 1, at + 2
        elif size is None:
            if at >= len(data) or (sprm == 0xC615 and data[at] == 255):
                return
            size, at = data[at], at + 1
        yield sprm, data[at : at + size]
        at += size


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
