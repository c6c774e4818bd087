"""MuPDF's text of a page, kept for pages that were opened before their turn.

The first and the last pages of a chunk are compared with the pages beside it. Most of these need only be searched for a
few lines: their plain text costs half of the text with its places and types. A page that is read next has its text
kept, so that no page is opened twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from quire.reading.files.document_source import PdfSource
from quire.reading.grading.layer_damage import may_lack_ligatures
from quire.reading.pdf.dingbats import set_dingbats
from quire.reading.pdf.layer_words import LayerWords
from quire.reading.pdf.leftward_order import LEFTWARD
from quire.reading.pdf.leftward_text import has_leftward, leftward_text
from quire.reading.pdf.lost_ligatures import mend_ligatures
from quire.reading.pdf.mupdf import text_flags
from quire.reading.pdf.running_lines import REACH
from quire.reading.pdf.script_letters import set_scripts
from quire.reading.pdf.symbol_marks import set_marks


class PageText(NamedTuple):
    """MuPDF's page, its words, and the dictionary of its text."""

    page: Any
    words: LayerWords
    content: dict[str, Any]


class _OpenedPage:
    """A page whose letters MuPDF has found. What is made of them is made when it is first asked for."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._textpage = page.get_textpage(flags=text_flags())
        self._plain: str | None = None
        self._text: PageText | None = None

    def plain(self) -> str:
        """The text as MuPDF has it; nothing in it is mended."""
        if self._plain is None:
            self._plain = self._textpage.extractText()
        return self._plain

    def text(self) -> PageText:
        if self._text is None:
            self._text = self._mended()
        return self._text

    def _mended(self) -> PageText:
        textpage = self._textpage
        content = textpage.extractDICT()
        if has_leftward(content):
            textpage = leftward_text(self._page)
            content = textpage.extractDICT()
        words = LayerWords(textpage.extractWORDS)
        mend_ligatures(self._page, textpage, content, words)
        set_marks(content, words)
        set_dingbats(content, words)
        set_scripts(content, words)
        return PageText(self._page, words, content)


def text_of(source: PdfSource, number: int) -> PageText:
    """The text of page `number` (from 1). Raises PageError where there is no such page, and what MuPDF raises."""
    opened = _kept(source).pop(number, None)
    return (opened or _OpenedPage(source.page(number))).text()


def text_ahead(source: PdfSource, number: int) -> PageText:
    """The same of a neighbour, kept for its own turn."""
    return _opened(source, number).text()


def may_have(source: PdfSource, number: int, lines: Sequence[Sequence[str]]) -> bool:
    """Whether a neighbour may have a line with all words (parts of them, in small letters) of one of `lines`.

    Texts that are put in order, or whose ligatures are mended, are not searched: such a page may have any line.
    """
    plain = _opened(source, number).plain()
    folded = plain.casefold()
    for words in lines:
        if all(word in folded for word in words) and any(
            all(word in line for word in words) for line in folded.split("\n")
        ):
            return True
    return may_lack_ligatures(plain) or (not plain.isascii() and LEFTWARD.search(plain) is not None)


def _opened(source: PdfSource, number: int) -> _OpenedPage:
    kept = _kept(source)
    if number not in kept:
        kept[number] = _OpenedPage(source.page(number))
        if len(kept) > REACH:
            del kept[next(iter(kept))]
    return kept[number]


def _kept(source: PdfSource) -> dict[int, _OpenedPage]:
    kept: dict[int, _OpenedPage] = source.kept.setdefault("ahead", {})
    return kept
