"""Gathers the text of a document whose format marks the ends of paragraphs, cells and rows (DOC, RTF).

Tables inside a cell become the text of that cell: its cells divided by commas, its rows by semicolons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby

from quire.reading.office.flow_writer import FlowCell, FlowWriter, Paragraph
from quire.reading.office.inline_markdown import RAW, Run, placeholder, plain, render
from quire.reading.office.office_pages import OfficePage
from quire.reading.office.office_source import PLACEHOLDER
from quire.reading.office.review_marks import ReviewKind, ReviewMarks

_LINK = re.compile(r'\s*HYPERLINK\s+"([^"]*)"')
_DEEPEST_NOTE = 8

CellPlace = tuple[int, bool, bool]
"""Right border, merged down, part of the cell above: what a row's definition says of a cell."""


class NoteKind(StrEnum):
    """The values are how the marks of the notes begin."""

    FOOTNOTE = ""
    ENDNOTE = "e"
    COMMENT = "c"


def link_address(code: str) -> str:
    """The address that the code of a field links to, "" where it is no link."""
    found = _LINK.match(code)
    return found[1] if found else ""


def comment_text(author: str, text: str) -> str:
    """A comment with its author, as Markdown."""
    name = plain(" ".join(author.split()))
    return f"**Comment by {name}**: {text}" if name else f"**Comment**: {text}"


class FlowText:
    """Text is added piece by piece; each end writes what was gathered since the end before it."""

    def __init__(self) -> None:
        self._writer = FlowWriter()
        self._runs: list[tuple[str, int, str]] = []
        self._around: list[tuple[list[tuple[str, int, str]], list[str]]] = []
        """The runs and pictures of the texts around the notes that are being read."""
        self._texts: list[str] = []
        """Paragraphs of the cell that is being read."""
        self._cells: list[str] = []
        self._inner_texts: list[str] = []
        self._inner_cells: list[str] = []
        self._inner_rows: list[str] = []
        self._notes: list[str] = []
        self._note_counts: Counter[NoteKind] = Counter()
        self._pictures: list[str] = []

    # ---- inside a paragraph --------------------------------------------------------------------------------

    def add(self, text: str, look: int = 0, href: str = "") -> None:
        self._runs.append((text, look, href))

    @property
    def has_text(self) -> bool:
        """Whether anything but space was gathered of the paragraph that is being read."""
        return any(text.strip() for text, _, _ in self._runs)

    def add_picture(self, ref: str = "") -> None:
        self._pictures.append(ref)
        self._runs.append((placeholder(), RAW, ""))

    def begin_note(self) -> bool:
        """Whether the text that follows is a note's. It is not where notes are nested too deep."""
        if len(self._around) >= _DEEPEST_NOTE:
            return False
        self._around.append((self._runs, self._pictures))
        self._runs, self._pictures = [], []
        return True

    def end_running(self) -> str:
        """Ends a text that was begun as a note and is none: a header or a footer. Its words, without pictures."""
        text = PLACEHOLDER.sub("", self._line())
        if self._around:
            self._runs, self._pictures = self._around.pop()
        return " ".join(text.split())

    def end_note(self, kind: NoteKind, author: str = "", date: str = "") -> None:
        """Puts the mark of the note into the text around it, and the note at the end of the page.

        The note's pictures stay placeholders: a page lists its pictures in the order of the text, without its notes.
        """
        if not self._around:
            return
        words = "".join(text for text, look, _ in self._runs if not look & RAW)
        text = self._line()
        self._runs, self._pictures = self._around.pop()
        if not text:
            return
        if kind is NoteKind.COMMENT:
            self.marks.add(ReviewKind.COMMENT, words, author, date)
        self._note_counts[kind] += 1
        mark = f"[^{kind}{self._note_counts[kind]}]"
        self.add(mark, RAW)
        shown = comment_text(author, text) if kind is NoteKind.COMMENT else text
        self._notes.append(f"{mark}: {shown}")

    @property
    def marks(self) -> ReviewMarks:
        """What the file says beside the text that is added next."""
        return self._writer.marks

    @property
    def page_count(self) -> int:
        """How many pages have ended."""
        return self._writer.page_count

    # ---- ends ----------------------------------------------------------------------------------------------

    def end_paragraph(
        self,
        level: int = 0,
        marker: str = "",
        depth: int = 0,
        *,
        label: str = "",
        breaks_before: bool = False,
        is_caption: bool = False,
    ) -> None:
        """A paragraph outside of tables; it ends a row that has no end of its own. `label` is its number as shown."""
        runs = self._gathered()
        self.end_row(())
        if breaks_before:
            self._writer.end_page()
        notes, pictures = self._taken()
        marker = "" if level else marker
        self._writer.add(Paragraph(runs, level, marker, depth, notes, pictures, label, is_caption))
        self.marks.end_paragraph()

    def end_cell_paragraph(self, label: str = "", *, is_inner: bool = False) -> None:
        """A paragraph of a cell, or with `is_inner` of a cell of a table in a cell. `label` marks an item of a list."""
        if not is_inner:
            self._end_inner_table()
        text = self._line()
        texts = self._inner_texts if is_inner else self._texts
        texts.append(f"{plain(label)} {text}" if label and text else text)

    def end_cell(self, label: str = "") -> None:
        self.end_cell_paragraph(label)
        self._cells.append(" ".join(filter(None, self._texts)))
        self._texts.clear()

    def end_row(self, defined: Sequence[CellPlace], left: int = 0) -> None:
        """The definition, and where the row begins, count only if it is of as many cells as the row has."""
        self._end_inner_table()
        if any(self._texts):
            self._cells.append(" ".join(filter(None, self._texts)))
        self._texts.clear()
        texts, self._cells = self._cells, []
        if not texts:
            return
        notes, pictures = self._taken()
        known = defined if len(defined) == len(texts) else ((0, False, False),) * len(texts)
        cells = [FlowCell(text, *one) for text, one in zip(texts, known, strict=True)]
        self._writer.add_row(cells, pictures, notes, left=left if len(defined) == len(texts) else 0)

    def end_inner_cell(self, label: str = "") -> None:
        self.end_cell_paragraph(label, is_inner=True)
        self._inner_cells.append(" ".join(filter(None, self._inner_texts)))
        self._inner_texts.clear()

    def end_inner_row(self) -> None:
        cells = [*self._inner_cells, *self._inner_texts]
        self._inner_rows.append(", ".join(filter(None, cells)))
        self._inner_cells.clear()
        self._inner_texts.clear()

    def end_page(self) -> None:
        self._writer.end_page()

    def finish(self) -> list[OfficePage]:
        self.end_row(())
        return self._writer.finish()

    # ---- what was gathered ---------------------------------------------------------------------------------

    def _end_inner_table(self) -> None:
        if self._inner_cells or self._inner_texts:
            self.end_inner_row()
        if self._inner_rows:
            self._texts.append("; ".join(filter(None, self._inner_rows)))
            self._inner_rows.clear()

    def _line(self) -> str:
        return render(self._gathered()).replace("\n", " ")

    def _gathered(self) -> list[Run]:
        runs, self._runs = self._runs, []
        return [
            Run("".join(text for text, _, _ in alike), look, href)
            for (look, href), alike in groupby(runs, key=lambda run: run[1:])
        ]

    def _taken(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        notes, pictures = tuple(self._notes), tuple(self._pictures)
        self._notes, self._pictures = [], []
        return notes, pictures
