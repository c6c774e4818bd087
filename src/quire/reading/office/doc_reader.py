"""Word documents of before 2007 (DOC): paragraphs, headings, lists, tables, notes, comments, links, text boxes.

Headers and footers are beside the Markdown. The text is as if all tracked changes were accepted; the changes and hidden
text are beside it. Pictures are placeholders without a picture. Files of Word 6 and 95 are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.doc_sections import DocSection
from quire.reading.office.embedded_files import stored_files, with_last_lines
from quire.reading.office.flow_text import FlowText, link_address
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import Opened
from quire.reading.office.review_marks import ReviewKind
from quire.reading.office.running_sections import RunningSections
from quire.reading.office.word_binary import CharacterLook, ParagraphLook, WordBinary
from quire.reading.office.word_notes import WordNote
from quire.reading.office.zip_container import OfficeLimits

READER = "doc"
_CELL_END, _PAGE_BREAK, _PARAGRAPH_END = "\x07", "\x0c", "\r"
_FIELD_BEGIN, _FIELD_RESULT, _FIELD_END = "\x13", "\x14", "\x15"
_LONGEST_CODE, _DEEPEST_FIELD = 4000, 64
_DATA_CODE = "ADDIN"
"""The code of a field in which a program keeps data, citations for example; it may have any length."""
_CODE_BEGIN = 10
"""How many characters of a code are enough to tell."""
_ENDS = (_CELL_END, _PAGE_BREAK, _PARAGRAPH_END)
_PICTURE, _SHAPE = "\x01", "\x08"
_BULLET = "•"
_SHOWN = {"\x0b": "\n", "\t": " ", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x05": "", "\x03": "", "\x04": ""}


def open_doc(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    with CompoundFile(path, limits) as file:
        reader = _Document(WordBinary(file))
        title, author = file.credits()
        notes = stored_files(file)
    pages, files = with_last_lines(reader.pages(), notes)
    return Opened(READER, pages, title, author, files=files)


class _Document:
    def __init__(self, file: WordBinary) -> None:
        self._file = file
        self._flow = FlowText()
        self._fields: list[str | None] = []
        """Of each open field: its code while that is read, None after it."""
        self._hrefs: list[str] = []
        self._notes = file.notes()
        self._sections = file.sections()
        self._lines = RunningSections()
        """Those that have not ended yet, by where they end."""
        ends = list(self._sections)
        self._goes_on = {at: self._sections[after].goes_on for at, after in pairwise(ends)}
        """Whether the section after the one that ends there begins on the same page."""

    def pages(self) -> list[OfficePage]:
        self._read(0, self._file.main_end)
        for section in self._sections.values():
            self._end_section(section)
        self._read(*self._file.boxes)
        return self._lines.placed(self._flow.finish())

    def _read(self, start: int, end: int) -> None:
        offset = 0
        for character, offset in self._characters(start, end):
            if character == _CELL_END:
                self._end_cell(self._file.paragraph(offset))
            elif character == _PARAGRAPH_END and self._joins_next(offset):
                self._flow.marks.end_paragraph()
            elif character in (_PARAGRAPH_END, _PAGE_BREAK):
                self._end_paragraph(self._file.paragraph(offset))
                if character == _PAGE_BREAK and not self._goes_on.get(offset, False):
                    self._flow.end_page()
                if offset in self._sections:
                    self._end_section(self._sections.pop(offset))
            else:
                self._take(character, offset)
        self._end_paragraph(self._file.paragraph(offset))

    def _joins_next(self, offset: int) -> bool:
        """Whether a tracked change removes the end of the paragraph, so that the next one goes on with it."""
        is_removed = self._file.look(offset).change is ReviewKind.DELETION
        return is_removed and not self._file.paragraph(offset).in_table and offset not in self._sections

    def _end_section(self, section: DocSection) -> None:
        base = self._file.headers_start
        for one in section.stories:
            if self._flow.begin_note():
                self._read_inline(base + one.start, base + one.end)
                self._lines.name(one.kind, one.use, self._flow.end_running())
        self._lines.end(has_first=section.has_first, has_even=self._file.has_even_pages)
        self._lines.begin(self._flow.page_count)

    def _characters(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        stray = _stray_marks(self._file.characters(start, end))
        return (one for one in self._file.characters(start, end) if one[1] not in stray)

    def _take(self, character: str, offset: int) -> None:
        look = self._file.look(offset)
        if character == _FIELD_BEGIN:
            self._fields.append("")
            self._hrefs.append("")
        elif character == _FIELD_RESULT and self._fields:
            self._hrefs[-1] = link_address(self._fields[-1] or "")
            self._fields[-1] = None
        elif character == _FIELD_END and self._fields:
            self._fields.pop()
            self._hrefs.pop()
        elif self._fields and (code := self._fields[-1]) is not None:
            self._fields[-1] = code + character if len(code) < _LONGEST_CODE else code
        elif any(code is not None for code in self._fields) or self._is_gone(look, character):
            return
        elif character in (_PICTURE, _SHAPE):
            self._flow.add_picture()
        else:
            href = next((one for one in reversed(self._hrefs) if one), "")
            self._flow.add(_SHOWN.get(character, character if character >= " " else ""), look.look, href)
            note = self._notes.pop(offset, None)  # once: in a damaged file a note may hold its own mark
            if note is not None:
                self._read_note(note)

    def _is_gone(self, look: CharacterLook, character: str) -> bool:
        """Whether the text does not have the character, which is then beside it; so is what a change has put in."""
        mark = self._file.review_mark(look, _SHOWN.get(character, character if character >= " " else ""))
        if mark is not None:
            self._flow.marks.add(*mark)
        elif self._flow.marks.is_open:
            self._flow.marks.is_open = False
        return mark is not None and mark.kind is not ReviewKind.INSERTION

    def _read_note(self, note: WordNote) -> None:
        if not self._flow.begin_note():
            return
        self._read_inline(note.start, note.end)
        self._flow.end_note(note.kind, note.author)

    def _read_inline(self, start: int, end: int) -> None:
        """A text in one line, apart from the one around it."""
        fields, hrefs = self._fields, self._hrefs
        self._fields, self._hrefs = [], []
        for character, offset in self._characters(start, end):
            if character in _ENDS:
                self._flow.add(" ")
            else:
                self._take(character, offset)
        self._fields, self._hrefs = fields, hrefs

    def _end_paragraph(self, look: ParagraphLook) -> None:
        if not look.in_table:
            self._end_outside(look)
            return
        marker = self._file.list_label(look)[0] if self._flow.has_text else None
        if look.ends_inner_row:
            self._flow.end_inner_row()
        elif look.ends_inner_cell:
            self._flow.end_inner_cell(_BULLET if marker else "")
        else:
            self._flow.end_cell_paragraph(_BULLET if marker else "", is_inner=look.is_inner)

    def _end_outside(self, look: ParagraphLook) -> None:
        """A paragraph outside of tables. One without a text has no number, which the next one gets."""
        label, depth = self._file.list_label(look) if self._flow.has_text else (None, 0)
        self._flow.end_paragraph(
            self._file.level(look),
            label.marker if label else "",
            depth,
            label=label.text if label else "",
            breaks_before=look.breaks_before,
            is_caption=self._file.is_caption(look),
        )

    def _end_cell(self, look: ParagraphLook) -> None:
        if look.ends_row:
            self._flow.end_row(look.cells)
        else:
            self._flow.end_cell(_BULLET if self._file.list_label(look)[0] else "")


def _stray_marks(characters: Iterable[tuple[str, int]]) -> set[int]:
    """Offsets of the marks of fields that have no end, or a code too long to be one: all of them is text."""
    stray: set[int] = set()
    fields: list[tuple[int, list[int], list[str]]] = []
    """Of each open field: where it begins in the text, the offsets of its marks, how its code begins."""
    for at, (character, offset) in enumerate(characters):
        if character == _FIELD_BEGIN:
            fields.append((at, [offset], []))
            if len(fields) > _DEEPEST_FIELD:
                stray.add(offset)
        elif character in (_FIELD_RESULT, _FIELD_END):
            if not fields:
                stray.add(offset)
                continue
            begin, marks, code = fields[-1]
            is_text = at - begin > _LONGEST_CODE and not "".join(code).lstrip().startswith(_DATA_CODE)
            if len(marks) == 1 and is_text:
                stray.add(marks[0])
            marks.append(offset)
            if character == _FIELD_END:
                fields.pop()
                if marks[0] in stray:
                    stray.update(marks)
        elif fields and len(fields[-1][2]) < _CODE_BEGIN:
            fields[-1][2].append(character)
    return stray.union(*(marks for _, marks, _ in fields))
