"""MuPDF's text of a page, kept for pages that were read ahead.

The last pages of a chunk are compared with the pages after it, and the next chunk begins with these: their text, the
dearest part of a page, is read once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from quire.reading.files.document_source import PdfSource
from quire.reading.pdf.dingbats import set_dingbats
from quire.reading.pdf.layer_words import LayerWords
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


def text_of(source: PdfSource, number: int) -> PageText:
    """The text of page `number` (from 1). Raises PageError where there is no such page, and what MuPDF raises."""
    ahead: dict[int, PageText] = source.kept.get("ahead", {})
    if number in ahead:
        return ahead.pop(number)
    page = source.page(number)
    textpage = page.get_textpage(flags=text_flags())
    content = textpage.extractDICT()
    if has_leftward(content):
        textpage = leftward_text(page)
        content = textpage.extractDICT()
    words = LayerWords(textpage.extractWORDS)
    mend_ligatures(page, textpage, content, words)
    set_marks(content, words)
    set_dingbats(content, words)
    set_scripts(content, words)
    return PageText(page, words, content)


def read_ahead(source: PdfSource, number: int) -> PageText:
    """The same of a neighbour, kept for its own turn."""
    found = text_of(source, number)
    ahead: dict[int, PageText] = source.kept.setdefault("ahead", {})
    ahead[number] = found
    if len(ahead) > REACH:
        del ahead[next(iter(ahead))]
    return found
