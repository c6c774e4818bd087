"""Word documents of before 2007 (DOC): paragraphs, headings, lists, tables, footnotes, links, text boxes.

Headers and footers are left out, and so is text that a tracked change has removed. Pictures are placeholders without
a picture. Files of Word 6 and 95 are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from quire.reading.office.compound_file import CompoundFile
from quire.reading.office.flow_writer import FlowCell, FlowWriter, Paragraph
from quire.reading.office.inline_markdown import RAW, Run, placeholder, render
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import Opened
from quire.reading.office.word_binary import HIDDEN, ParagraphLook, WordBinary
from quire.reading.office.zip_container import OfficeLimits

READER = "doc"
_LINK = re.compile(r'\s*HYPERLINK\s+"([^"]*)"')
_CELL_END, _PAGE_BREAK, _PARAGRAPH_END = "\x07", "\x0c", "\r"
_FIELD_BEGIN, _FIELD_RESULT, _FIELD_END = "\x13", "\x14", "\x15"
_LONGEST_CODE, _DEEPEST_FIELD = 4000, 64
_NOTE_MARK, _PICTURE, _SHAPE = "\x02", "\x01", "\x08"
_SHOWN = {"\x0b": "\n", "\t": " ", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x05": "", "\x03": "", "\x04": ""}


def open_doc(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    with CompoundFile(path, limits) as file:
        reader = _Document(WordBinary(file))
        title, author = file.credits()
    pages = reader.pages()
    return Opened(READER, pages, title, author)


class _Document:
    def __init__(self, file: WordBinary) -> None:
        self._file = file
        self._writer = FlowWriter()
        self._runs: list[tuple[str, int, str]] = []
        self._fields: list[str | None] = []
        """Of each open field: its code while that is read, None after it."""
        self._hrefs: list[str] = []
        self._cells: list[str] = []
        self._texts: list[str] = []
        self._notes: list[str] = []
        self._pictures: list[str] = []
        self._note_places = file.notes()
        self._notes_seen = 0

    def pages(self) -> list[OfficePage]:
        self._read(0, self._file.main_end)
        self._read(*self._file.boxes)
        return self._writer.finish()

    def _read(self, start: int, end: int) -> None:
        offset = 0
        stray = _stray_marks(self._file.characters(start, end))
        for character, offset in self._file.characters(start, end):
            if offset in stray:
                continue
            if character == _CELL_END:
                self._end_cell(self._file.paragraph(offset))
            elif character in (_PARAGRAPH_END, _PAGE_BREAK):
                self._end_paragraph(self._file.paragraph(offset))
                if character == _PAGE_BREAK:
                    self._writer.end_page()
            else:
                self._take(character, self._file.look(offset))
        self._end_paragraph(self._file.paragraph(offset))

    def _take(self, character: str, look: int) -> None:
        if character == _FIELD_BEGIN:
            self._fields.append("")
            self._hrefs.append("")
        elif character == _FIELD_RESULT and self._fields:
            found = _LINK.match(self._fields[-1] or "")
            self._hrefs[-1] = found[1] if found else ""
            self._fields[-1] = None
        elif character == _FIELD_END and self._fields:
            self._fields.pop()
            self._hrefs.pop()
        elif self._fields and self._fields[-1] is not None:
            self._fields[-1] += character
        elif any(code is not None for code in self._fields) or look & HIDDEN:
            return
        elif character == _NOTE_MARK:
            self._refer()
        elif character in (_PICTURE, _SHAPE):
            self._pictures.append("")
            self._runs.append((placeholder(), RAW, ""))
        else:
            href = next((one for one in reversed(self._hrefs) if one), "")
            shown = _SHOWN.get(character, character if character >= " " else "")
            self._runs.append((shown, look, href))

    def _refer(self) -> None:
        """The mark of a footnote, whose text goes to the end of the page."""
        if self._notes_seen >= len(self._note_places):
            return
        start, end = self._note_places[self._notes_seen]
        self._notes_seen += 1
        shown = [one for one, at in self._file.characters(start, end) if not self._file.look(at) & HIDDEN]
        text = render([Run("".join(_SHOWN.get(c, c if c >= " " else " ") for c in shown))])
        if text:
            mark = f"[^{self._notes_seen}]"
            self._runs.append((mark, RAW, ""))
            self._notes.append(f"{mark}: {text}")

    def _gathered(self) -> list[Run]:
        runs, self._runs = self._runs, []
        return [
            Run("".join(text for text, _, _ in alike), look, href)
            for (look, href), alike in groupby(runs, key=lambda run: run[1:])
        ]

    def _end_paragraph(self, look: ParagraphLook) -> None:
        runs = self._gathered()
        if look.in_table:
            self._texts.append(render(runs).replace("\n", " "))
            return
        self._end_row(())
        if look.breaks_before:
            self._writer.end_page()
        marker, depth = self._file.list_marker(look)
        notes, pictures = self._taken()
        level = self._file.level(look)
        self._writer.add(Paragraph(runs, level, "" if level else marker, depth, notes, pictures))

    def _end_cell(self, look: ParagraphLook) -> None:
        self._texts.append(render(self._gathered()).replace("\n", " "))
        if look.ends_row:
            self._texts.clear()
            self._end_row(look.cells)
        else:
            self._cells.append(" ".join(filter(None, self._texts)))
            self._texts.clear()

    def _end_row(self, defined: tuple[tuple[int, bool, bool], ...]) -> None:
        if self._texts:
            self._cells.append(" ".join(filter(None, self._texts)))
            self._texts.clear()
        texts, self._cells = self._cells, []
        if not texts:
            return
        notes, pictures = self._taken()
        known = defined if len(defined) == len(texts) else ((0, False, False),) * len(texts)
        cells = [FlowCell(text, *one) for text, one in zip(texts, known, strict=True)]
        self._writer.add_row(cells, pictures, notes)

    def _taken(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        notes, pictures = tuple(self._notes), tuple(self._pictures)
        self._notes, self._pictures = [], []
        return notes, pictures


def _stray_marks(characters: Iterable[tuple[str, int]]) -> set[int]:
    """Offsets of the marks of fields that have no end, or a code too long to be one: all of them is text."""
    stray: set[int] = set()
    fields: list[tuple[int, list[int]]] = []
    """Of each open field: where it begins in the text, the offsets of its marks."""
    for at, (character, offset) in enumerate(characters):
        if character == _FIELD_BEGIN:
            fields.append((at, [offset]))
            if len(fields) > _DEEPEST_FIELD:
                stray.add(offset)
        elif character in (_FIELD_RESULT, _FIELD_END):
            if not fields:
                stray.add(offset)
                continue
            begin, marks = fields[-1]
            if len(marks) == 1 and at - begin > _LONGEST_CODE:
                stray.add(marks[0])
            marks.append(offset)
            if character == _FIELD_END:
                fields.pop()
                if marks[0] in stray:
                    stray.update(marks)
    return stray.union(*(marks for _, marks in fields))
