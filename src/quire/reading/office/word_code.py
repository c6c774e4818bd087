"""Paragraphs of a Word document (DOCX) that are code: in a style for code, or in type of one width with signs of code.

Type of one width alone says nothing: a letter may be set in it.
"""

from __future__ import annotations

import re

from quire.reading.office.inline_markdown import MONO, RAW, Run, block, render
from quire.reading.office.office_pages import MarkdownBlock, Pager
from quire.reading.office.word_line import WordLine
from quire.reading.office.word_styles import WordStyle

_SIGN = re.compile(r"[{};]\s*$|^\s*[{}#$]|\w\([^)]*\)|\s:?=\s|[=!<>]=|[-=]>|//|/\*|\w\[\w+\]")
_FENCES = re.compile(r"`{3,}")
_TAB = 4


class WordCode:
    """Lines that follow each other are one block, which is added to `pager` when it ends."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._lines: list[list[Run]] = []
        self._is_certain = False

    def take(self, line: WordLine, style: WordStyle) -> bool:
        """Whether the paragraph is, or may be, a line of code, which is held then."""
        shown = [run for run in line.runs if run.text.strip()]
        has_more = line.notes or line.pictures or line.formulas or line.aside or line.boxes
        if has_more or style.level or style.is_caption or any(run.look & RAW or run.href for run in shown):
            return False
        if not shown:  # an empty line inside of code; at its end it is nothing
            if self._lines:
                self._lines.append([])
            return bool(self._lines)
        if not style.is_code and not all(run.look & MONO for run in shown):
            return False
        if self._lines and self._is_certain != style.is_code:
            self.end()
        self._is_certain = style.is_code
        self._lines.append(line.runs)
        return True

    def end(self) -> None:
        """Something else follows. Lines without any sign of code are paragraphs."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        texts = ["".join(run.text for run in runs).expandtabs(_TAB).rstrip() for runs in lines]
        if self._is_certain or any(map(_SIGN.search, texts)):
            text = "\n".join(texts).strip("\n")
            fence = "`" * max(3, 1 + max((len(one) for one in _FENCES.findall(text)), default=0))
            self._pager.add(MarkdownBlock(f"{fence}\n{text}\n{fence}"))
            return
        for runs in lines:
            self._pager.add(MarkdownBlock(block(render(runs))))
