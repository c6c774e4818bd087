"""RTF documents: paragraphs, headings, lists, tables, notes, comments, links, pictures.

Headers and footers are beside the Markdown. The text is as if all tracked changes were accepted; the changes and hidden
text are beside it. Groups nested too deep are read as if they were one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from quire.errors import DamagedError, TooLargeError
from quire.reading.office.embedded_files import with_last_lines
from quire.reading.office.flow_text import FlowText, NoteKind, link_address
from quire.reading.office.flow_writer import MAX_DEPTH
from quire.reading.office.inline_markdown import RAISED
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import Opened
from quire.reading.office.review_marks import ReviewKind
from quire.reading.office.rtf_sections import RUNNING, WORDS, RtfSections
from quire.reading.office.rtf_state import RtfAuthors, RtfFonts, RtfMarks, RtfRow, RtfState, RtfStyles
from quire.reading.office.rtf_words import (
    KEPT_OPTIONAL,
    LOOKS,
    SIGNS,
    SKIPPED,
    TEXTS,
    TOKEN,
    RtfFiles,
    RtfPictures,
    is_number,
)
from quire.reading.office.word_dates import packed_date
from quire.reading.office.zip_container import OfficeLimits

READER = "rtf"
_MOST_BYTES = 200 << 20
_DEEPEST = 500
_BULLET = "•"


def open_rtf(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    file = Path(path)
    if file.stat().st_size > min(_MOST_BYTES, limits.max_archive_bytes):
        raise TooLargeError("The RTF document is larger than this service reads. Send it in parts.")
    reader = _Reader()
    reader.read(file.read_bytes())
    pages, files = with_last_lines(reader.finish(), reader.files.notes)
    about = {key: " ".join(text.split()) or None for key, text in reader.about.items()}
    return Opened(READER, pages, about.get("title"), about.get("author"), reader.pictures.get, files=files)


class _Reader:
    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        self.pictures = RtfPictures()
        self.files = RtfFiles()
        self._flow = FlowText()
        self._stack: list[RtfState] = []
        self._state = RtfState()
        self._marks = RtfMarks()
        self._row = RtfRow()
        self._gathered: list[str] = []
        """Text of a destination that is not the document's: a marker, a field's code, a name, a picture."""
        self._marker = ""
        self._hrefs: list[tuple[int, str]] = []
        self._around: list[tuple[RtfMarks, NoteKind | None]] = []
        """Of each note that is being read: the properties of the paragraph around it, and its kind.

        A header or a footer is read like a note; it has no kind.
        """
        self._running = ""
        self._authors = RtfAuthors()
        self._sections = RtfSections(self._flow)
        self._styles = RtfStyles()
        self._fonts = RtfFonts()
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
        while self._around:
            self._end_note()
        self._state.destination = "text"
        self._end_paragraph()
        self._sections.end()
        return self._sections.placed(self._flow.finish())

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
            self._state.begun = ""

    def _close(self) -> None:
        self._optional, self._skip = False, 0
        handle = _ENDS.get(self._state.begun)
        self._state = self._stack.pop() if self._stack else RtfState()
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
            if state.destination != "skipped" or word == "ud":
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
            around = self._stack[1].encoding if len(self._stack) > 1 else "cp1252"
            state.encoding = self._fonts.encoding(word, number or 0, state, around)

    def _state_word(self, word: str, number: int | None) -> bool:
        """Whether the word sets something that holds until its group ends."""
        state = self._state
        if word == "v":
            state.is_hidden = number != 0
        elif word in WORDS and not self._around:
            self._sections.take(word)
        elif state.take_review(word, number):
            return True
        elif word == "plain":
            state.look, state.is_hidden, state.is_deleted, state.is_inserted = 0, False, False, False
        elif word in ("nosupersub", "sub"):
            state.look &= ~RAISED
        elif word == "up":  # by so many half points
            state.look = state.look | RAISED if number is None or number > 0 else state.look & ~RAISED
        elif word == "uc":
            state.replaced = max(0, min(number or 0, 8))
        elif word in ("pngblip", "jpegblip"):
            self._picture_kind = word
        else:
            return False
        return True

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
            self._styles.take_word(word, number)
        elif word == "nestrow":
            self._flow.end_inner_row()

    def _layout_word(self, word: str, number: int | None) -> None:
        marks = self._marks
        if word in ("par", "sect"):
            self._break_word(word)
        elif word == "pard":
            self._marks = RtfMarks()
        elif word == "intbl":
            marks.in_table = True
        elif word == "itap":
            marks.table_depth = number or 0
        elif word == "s":
            marks.style = number or 0
        elif word == "outlinelevel":
            marks.outline = number if number is not None else 9
        elif word == "ilvl":
            marks.depth = max(0, min(number or 0, MAX_DEPTH))
        elif self._around:
            self._note_word(word)
        elif word in ("page", "pagebb"):
            if word == "page" and not marks.in_table:
                self._end_paragraph()
                self._flow.end_page()
            marks.breaks_before = word == "pagebb"
        elif not self._end_word(word):
            self._row_word(word, number)

    def _break_word(self, word: str) -> None:
        """The end of a paragraph or a section. Where a change removes it, the next paragraph goes on with this one."""
        if word == "par" and self._state.is_deleted and not self._marks.in_table:
            self._flow.marks.end_paragraph()
            return
        self._end_paragraph()
        if word == "sect" and not self._around:
            self._marks = RtfMarks()
            self._sections.end()

    def _note_word(self, word: str) -> None:
        """A note is one paragraph, whatever it holds."""
        if word == "ftnalt" and self._around[-1][1] is not None:
            self._around[-1] = (self._around[-1][0], NoteKind.ENDNOTE)
        elif word in ("cell", "nestcell"):
            self._flow.add(" ")

    def _end_word(self, word: str) -> bool:
        """Whether the word ends a cell or a row."""
        if word == "cell":
            self._flow.end_cell(self._label())
        elif word == "nestcell":
            self._flow.end_inner_cell(self._label())
        elif word == "nestrow":
            self._flow.end_inner_row()
        elif word == "row":
            self._flow.end_row(self._row.cells, self._row.left)
        else:
            return False
        return True

    def _row_word(self, word: str, number: int | None) -> None:
        row = self._row
        if word == "trowd":
            self._row = RtfRow()
        elif word == "trleft":
            row.left = number or 0
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
        names = {"listtext": "marker", "pntext": "marker", "pict": "picture"}
        self._state.destination = self._state.begun = names.get(word, word)
        self._gathered = []
        self._picture_kind = ""

    def _enter(self, word: str) -> None:
        self._state.destination = {"fonttbl": "fonts", "stylesheet": "styles"}.get(word, word)
        self._gathered = []

    def _begin_note(self, word: str) -> None:
        if self._state.destination == "text" and self._flow.begin_note():
            kind = NoteKind.COMMENT if word == "annotation" else NoteKind.FOOTNOTE
            self._around.append((self._marks, kind))
            self._marks = RtfMarks()
            self._state.destination = self._state.begun = "note"

    def _end_note(self) -> None:
        if self._around:
            self._marks, kind = self._around.pop()
            if kind is None:
                self._sections.name(self._running, self._flow.end_running())
                return
            self._flow.end_note(kind, *self._authors.of_comment())

    def _begin_running(self, word: str) -> None:
        if self._state.destination != "text" or not self._flow.begin_note():
            self._state.destination = "skipped"
            return
        self._around.append((self._marks, None))
        self._marks = RtfMarks()
        self._running = word
        self._state.destination = self._state.begun = "note"

    def _enter_double(self, _: str) -> None:
        """A text for readers that don't know Unicode; the same in Unicode follows inside the group."""
        self._state.shown_destination = self._state.destination
        self._state.destination = "skipped"

    def _enter_unicode(self, _: str) -> None:
        if self._state.destination == "skipped":
            self._state.destination = self._state.shown_destination

    def _end_marker(self) -> None:
        self._marker = "".join(self._gathered).strip() or self._marker

    def _end_link(self) -> None:
        address = link_address("".join(self._gathered))
        if address and len(self._stack) < _DEEPEST:
            self._hrefs.append((len(self._stack), address))

    def _end_picture(self) -> None:
        ref = self.pictures.hold("".join(self._gathered)) if self._picture_kind else ""
        if self._state.destination in ("text", "note"):
            self._flow.add_picture(ref)

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
            self._add_words(text)
        elif state.destination == "styles":
            self._styles.take_name(text)
        elif state.destination not in ("fonts", "info"):
            self._gathered.append(text)

    def _add_words(self, text: str) -> None:
        """Text of the document, of a note, or of a header."""
        state = self._state
        if not self._around and text.strip():
            self._sections.begin()
        change = state.change
        if change is not None:
            kind, place, date = change
            self._flow.marks.add(kind, text, self._authors.of_change(place), packed_date(date))
        if change is None or change[0] is ReviewKind.INSERTION:
            href = self._hrefs[-1][1] if self._hrefs else ""
            self._flow.add(text, state.look, href)
            self._flow.marks.is_open = change is not None

    def _end_paragraph(self) -> None:
        marks = self._marks
        if self._state.destination == "note":
            self._flow.add(" ")
        elif marks.in_table:
            self._flow.end_cell_paragraph(self._label(), is_inner=marks.table_depth > 1)
        else:
            marker, self._marker = self._marker, ""
            level = marks.outline + 1 if marks.outline < 9 else self._styles.levels.get(marks.style, 0)
            self._flow.end_paragraph(
                level,
                "-" if marker else "",
                marks.depth,
                label=marker if level or is_number(marker) else "",
                breaks_before=marks.breaks_before,
                is_caption=self._styles.is_caption(marks.style),
            )

    def _label(self) -> str:
        """What marks the paragraph of a cell as an item of a list."""
        marker, self._marker = self._marker, ""
        return marker if not marker or is_number(marker) else _BULLET


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
    "objdata": _Reader._gather,
    "footnote": _Reader._begin_note,
    "annotation": _Reader._begin_note,
    "atnauthor": _Reader._gather,
    "atndate": _Reader._gather,
    "revtbl": _Reader._gather,
    **dict.fromkeys(RUNNING, _Reader._begin_running),
    "nesttableprops": _Reader._enter,
    "upr": _Reader._enter_double,
    "ud": _Reader._enter_unicode,
    "fldrslt": _Reader._result,
}
_ENDS: dict[str, Callable[[_Reader], None]] = {
    "marker": _Reader._end_marker,
    "fldinst": _Reader._end_link,
    "picture": _Reader._end_picture,
    "objdata": lambda reader: reader.files.hold("".join(reader._gathered)),
    "note": _Reader._end_note,
    "atnauthor": lambda reader: reader._authors.end_author("".join(reader._gathered)),
    "atndate": lambda reader: reader._authors.end_date("".join(reader._gathered)),
    "revtbl": lambda reader: reader._authors.end_table("".join(reader._gathered)),
    "title": lambda reader: reader._end_about("title"),
    "author": lambda reader: reader._end_about("author"),
}
