"""RTF documents: paragraphs, headings, lists, tables, footnotes, links, pictures.

Headers and footers are left out, and so is hidden text. Groups nested too deep are read as if they were one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.flow_writer import MAX_DEPTH, FlowCell, FlowWriter, Paragraph
from quire.reading.office.inline_markdown import RAW, Run, placeholder, render
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import Opened
from quire.reading.office.rtf_words import (
    CHARSETS,
    KEPT_OPTIONAL,
    LOOKS,
    SIGNS,
    SKIPPED,
    TEXTS,
    TOKEN,
    RtfPictures,
)
from quire.reading.office.zip_container import OfficeLimits

READER = "rtf"
_MOST_BYTES = 200 << 20
_DEEPEST = 500
_DEEPEST_NOTE = 8
_LINK = re.compile(r'\s*HYPERLINK\s+"([^"]*)"')
_HEADING_NAME = re.compile(r"heading ([1-9])\b", re.IGNORECASE)


def open_rtf(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    file = Path(path)
    if file.stat().st_size > min(_MOST_BYTES, limits.max_archive_bytes):
        raise TooLargeError("The RTF document is larger than this service reads. Send it in parts.")
    reader = _Reader()
    reader.read(file.read_bytes())
    pages = reader.finish()
    about = {key: " ".join(text.split()) or None for key, text in reader.about.items()}
    return Opened(READER, pages, about.get("title"), about.get("author"), reader.pictures.get)


@dataclass(slots=True)
class _State:
    """What a group inherits from the group around it."""

    destination: str = "text"
    look: int = 0
    is_hidden: bool = False
    encoding: str = "cp1252"
    replaced: int = 1
    """How many characters follow a Unicode one for readers that don't know it."""


@dataclass(slots=True)
class _Marks:
    """Properties of the paragraph that is being read."""

    in_table: bool = False
    style: int = -1
    outline: int = 9
    depth: int = 0
    breaks_before: bool = False


@dataclass(slots=True)
class _Row:
    """The definition of a row: (right border, merged down, part of the cell above) of each cell."""

    cells: list[tuple[int, bool, bool]] = field(default_factory=list)
    merged: bool = False
    goes_on: bool = False


class _Reader:
    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        self.pictures = RtfPictures()
        self._writer = FlowWriter()
        self._stack: list[_State] = []
        self._state = _State()
        self._marks = _Marks()
        self._row = _Row()
        self._runs: list[tuple[str, int, str]] = []
        self._gathered: list[str] = []
        """Text of a destination that is not the document's: a marker, a field's code, a name, a picture."""
        self._marker = ""
        self._hrefs: list[tuple[int, str]] = []
        self._texts: list[str] = []
        self._cells: list[str] = []
        self._notes: list[str] = []
        self._notes_before = 0
        self._outer_runs: list[list[tuple[str, int, str]]] = []
        """Of the texts around the footnotes that are being read."""
        self._shown_pictures: list[str] = []
        self._levels: dict[int, int] = {}
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._style = -1
        self._optional = False
        self._skip = 0
        self._high = 0
        """The first half of a character written as two, until the second half follows."""
        self._bytes = bytearray()
        self._picture_kind = ""

    # ---- tokens --------------------------------------------------------------------------------------------

    def read(self, data: bytes) -> None:
        """Raises DamagedError where it is no RTF."""
        if not data.lstrip().startswith(b"{\\rtf"):
            raise DamagedError("The RTF document is damaged: it does not begin as one.")
        at, end = 0, len(data)
        while at < end:
            found = TOKEN.match(data, at)
            if found is None:
                at += 1
                continue
            at = found.end()
            word, number, code, sign, brace, text = found.groups()
            if code is not None:
                self._add_byte(bytes([int(code, 16)]))
                continue
            if text is not None:
                self._add_bytes(text)
                continue
            self._flush()
            if word == b"bin":
                at += max(0, min(int(number or 0), end - at))
            elif word is not None:
                self._word(word.decode("ascii"), int(number) if number is not None else None)
            elif brace == b"{":
                self._open()
            elif brace == b"}":
                self._close()
            elif sign == b"*":
                self._optional = True
            elif sign is not None:
                self._add(SIGNS.get(sign.decode("latin-1"), ""))
        self._flush()

    def finish(self) -> list[OfficePage]:
        self._end_paragraph()
        self._end_row()
        return self._writer.finish()

    def _add_byte(self, byte: bytes) -> None:
        if self._skip:
            self._skip -= 1
        else:
            self._bytes += byte

    def _add_bytes(self, text: bytes) -> None:
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        self._bytes += text[skipped:]

    def _flush(self) -> None:
        if self._bytes:
            data, self._bytes = bytes(self._bytes), bytearray()
            try:
                self._add(data.decode(self._state.encoding, "replace"))
            except LookupError:
                self._add(data.decode("cp1252", "replace"))

    def _open(self) -> None:
        self._optional = False
        if len(self._stack) < _DEEPEST:
            self._stack.append(replace(self._state))

    def _close(self) -> None:
        self._optional, self._skip = False, 0
        ended = self._state.destination
        before = self._stack.pop() if self._stack else _State()
        self._state = before
        if ended != before.destination:
            handle = _ENDS.get(ended)
            if handle is not None:
                handle(self)
        while self._hrefs and self._hrefs[-1][0] > len(self._stack):
            self._hrefs.pop()

    # ---- control words -------------------------------------------------------------------------------------

    def _word(self, word: str, number: int | None) -> None:
        optional, self._optional = self._optional, False
        state = self._state
        if word in SKIPPED or (optional and word not in KEPT_OPTIONAL and word not in _DESTINATIONS):
            state.destination = "skipped"
        elif word in _DESTINATIONS:
            if state.destination != "skipped":
                _DESTINATIONS[word](self, word)
        elif word in TEXTS:
            self._add(TEXTS[word])
        elif word == "u" and number is not None:
            self._add_unicode(number)
        elif word in LOOKS:
            bit = LOOKS[word]
            state.look = state.look & ~bit if number == 0 else state.look | bit
        elif not self._state_word(word, number):
            if state.destination in ("text", "note"):
                self._layout_word(word, number)
            else:
                self._table_word(word, number)
        if word in ("f", "ansicpg", "mac", "fcharset"):
            self._encode(word, number or 0)

    def _state_word(self, word: str, number: int | None) -> bool:
        """Whether the word sets something that holds until its group ends."""
        state = self._state
        if word == "v":
            state.is_hidden = number != 0
        elif word == "plain":
            state.look, state.is_hidden = 0, False
        elif word == "uc":
            state.replaced = max(0, min(number or 0, 8))
        elif word in ("pngblip", "jpegblip"):
            self._picture_kind = word
        else:
            return False
        return True

    def _encode(self, word: str, number: int) -> None:
        state = self._state
        if word == "ansicpg":
            state.encoding = "utf-8" if number == 65001 else f"cp{number}"
            self._fonts.clear()
        elif word == "mac":
            state.encoding = "mac_roman"
        elif word == "fcharset" and number in CHARSETS and number:
            self._fonts[self._font] = CHARSETS[number]
        elif word == "f":
            self._font = number
            if state.destination != "fonts" and self._fonts:
                state.encoding = self._fonts.get(
                    number, self._stack[1].encoding if len(self._stack) > 1 else "cp1252"
                )

    def _add_unicode(self, number: int) -> None:
        point = number + 0x10000 if number < 0 else number
        self._skip = self._state.replaced
        high, self._high = self._high, point if 0xD800 <= point < 0xDC00 else 0
        if 0xDC00 <= point < 0xE000:
            self._add(chr(0x10000 + ((high - 0xD800) << 10) + point - 0xDC00) if high else "")
        elif not self._high:
            self._add(chr(point) if 0x20 <= point < 0x110000 else "")

    def _table_word(self, word: str, number: int | None) -> None:
        """Words of the tables before the text."""
        if self._state.destination == "styles":
            if word == "s":
                self._style = number or 0
            elif word == "outlinelevel" and 0 <= (number or 0) < 9:
                self._levels[self._style] = (number or 0) + 1

    def _layout_word(self, word: str, number: int | None) -> None:
        marks = self._marks
        if word in ("par", "sect"):
            self._end_paragraph()
            if word == "sect":
                self._marks = _Marks()
        elif word == "pard":
            self._marks = _Marks()
        elif word in ("page", "pagebb"):
            if word == "page" and not marks.in_table:
                self._end_paragraph()
                self._writer.end_page()
            marks.breaks_before = word == "pagebb"
        elif word == "intbl":
            marks.in_table = True
        elif word == "s":
            marks.style = number or 0
        elif word == "outlinelevel":
            marks.outline = number if number is not None else 9
        elif word == "ilvl":
            marks.depth = max(0, min(number or 0, MAX_DEPTH))
        elif word in ("cell", "nestcell"):
            self._end_cell()
        elif word in ("row", "nestrow"):
            self._end_row()
        else:
            self._row_word(word, number)

    def _row_word(self, word: str, number: int | None) -> None:
        row = self._row
        if word == "trowd":
            self._row = _Row()
        elif word == "clvmgf":
            row.merged = True
        elif word == "clvmrg":
            row.merged = row.goes_on = True
        elif word == "cellx" and len(row.cells) < 64:
            row.cells.append((max(1, number or 0), row.merged, row.goes_on))
            row.merged = row.goes_on = False

    # ---- destinations --------------------------------------------------------------------------------------

    def _gather(self, word: str) -> None:
        """A destination whose text is kept until it ends."""
        self._state.destination = {"listtext": "marker", "pntext": "marker", "pict": "picture"}.get(
            word, word
        )
        self._gathered = []
        self._picture_kind = ""

    def _enter(self, word: str) -> None:
        self._state.destination = {"fonttbl": "fonts", "stylesheet": "styles"}.get(word, word)
        self._gathered = []

    def _begin_note(self, _: str) -> None:
        if len(self._outer_runs) < _DEEPEST_NOTE:
            self._outer_runs.append(self._runs)
            self._runs = []
            self._state.destination = "note"

    def _end_note(self) -> None:
        if not self._outer_runs:
            return
        text = render(self._made_runs()).replace("\n", " ")
        self._runs = self._outer_runs.pop()
        if text:
            mark = f"[^{len(self._notes) + self._notes_before + 1}]"
            self._runs.append((mark, RAW, ""))
            self._notes.append(f"{mark}: {text}")

    def _end_marker(self) -> None:
        self._marker = "".join(self._gathered).strip() or self._marker

    def _end_link(self) -> None:
        found = _LINK.match("".join(self._gathered))
        if found and len(self._stack) < _DEEPEST:
            self._hrefs.append((len(self._stack), found[1]))

    def _end_picture(self) -> None:
        ref = self.pictures.hold("".join(self._gathered)) if self._picture_kind else ""
        if self._state.destination in ("text", "note"):
            self._shown_pictures.append(ref)
            self._runs.append((placeholder(), RAW, ""))

    def _end_about(self, name: str) -> None:
        self.about[name] = "".join(self._gathered)

    def _result(self, _: str) -> None:
        """What a field shows is text of the document."""

    # ---- text ----------------------------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        state = self._state
        if not text or state.destination == "skipped":
            return
        self._high = 0
        if state.destination in ("text", "note"):
            if not state.is_hidden:
                href = self._hrefs[-1][1] if self._hrefs else ""
                self._runs.append((text, state.look, href))
        elif state.destination == "styles":
            found = _HEADING_NAME.search(text)
            if found:
                self._levels.setdefault(self._style, int(found[1]))
        elif state.destination not in ("fonts", "info"):
            self._gathered.append(text)

    def _made_runs(self) -> list[Run]:
        runs, self._runs = self._runs, []
        return [
            Run("".join(text for text, _, _ in alike), look, href)
            for (look, href), alike in groupby(runs, key=lambda run: run[1:])
        ]

    def _end_paragraph(self) -> None:
        if self._state.destination == "note":
            self._runs.append((" ", 0, ""))
            return
        runs, marks = self._made_runs(), self._marks
        marker, self._marker = self._marker, ""
        if marks.in_table:
            self._texts.append(render(runs).replace("\n", " "))
            return
        if self._cells or self._texts:
            self._end_row()
        if marks.breaks_before:
            self._writer.end_page()
        level = marks.outline + 1 if marks.outline < 9 else self._levels.get(marks.style, 0)
        kind = "" if level or not marker else "1." if marker[-1:] in ".)" and marker[:-1].strip("(") else "-"
        if level and marker:
            runs = [Run(f"{marker} "), *runs]
        self._writer.add(Paragraph(runs, level, kind, marks.depth, *self._taken()))

    def _end_cell(self) -> None:
        self._texts.append(render(self._made_runs()).replace("\n", " "))
        self._cells.append(" ".join(filter(None, self._texts)))
        self._texts, self._marker = [], ""

    def _end_row(self) -> None:
        texts = [" ".join(filter(None, self._texts))] if any(self._texts) else []
        texts, self._cells, self._texts = [*self._cells, *texts], [], []
        if not texts:
            return
        defined = self._row.cells
        known = defined if len(defined) == len(texts) else [(0, False, False)] * len(texts)
        notes, pictures = self._taken()
        cells = [FlowCell(text, *one) for text, one in zip(texts, known, strict=True)]
        self._writer.add_row(cells, pictures, notes)

    def _taken(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        notes, pictures = tuple(self._notes), tuple(self._shown_pictures)
        self._notes_before += len(notes)
        self._notes, self._shown_pictures = [], []
        return notes, pictures


_DESTINATIONS: dict[str, Callable[[_Reader, str], None]] = {
    "fonttbl": _Reader._enter,
    "stylesheet": _Reader._enter,
    "info": _Reader._enter,
    "title": _Reader._gather,
    "author": _Reader._gather,
    "listtext": _Reader._gather,
    "pntext": _Reader._gather,
    "fldinst": _Reader._gather,
    "pict": _Reader._gather,
    "footnote": _Reader._begin_note,
    "fldrslt": _Reader._result,
}
_ENDS: dict[str, Callable[[_Reader], None]] = {
    "marker": _Reader._end_marker,
    "fldinst": _Reader._end_link,
    "picture": _Reader._end_picture,
    "note": _Reader._end_note,
    "title": lambda reader: reader._end_about("title"),
    "author": lambda reader: reader._end_about("author"),
}
