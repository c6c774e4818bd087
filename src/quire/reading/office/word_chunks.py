"""Web pages and texts that a Word document imports as they are (`altChunk`), which Word shows as its own text.

Programs that make documents of web pages put everything there. A chunk is on pages of its own; one of another kind,
such as a whole document, is listed as an embedded file.
"""

from __future__ import annotations

from email import message_from_bytes
from email.errors import MessageError
from xml.etree.ElementTree import Element

from quire.reading.files.file_kinds import EML, HTML, SNIFF_BYTES, TEXT, sniff
from quire.reading.office.charsets import declared_in_markup, decode
from quire.reading.office.html_reader import convert
from quire.reading.office.inline_markdown import block, plain
from quire.reading.office.office_pages import MarkdownBlock, OfficePage, Pager
from quire.reading.office.ooxml_package import Package

_MOST_BYTES = 32 << 20
_SINGLE_FILE = b"mime-version:"
"""A web page with its pictures in one file (MHT) begins as a mail does."""


def add_chunk(package: Package, part: str, element: Element, pager: Pager) -> None:
    """Adds the pages of the chunk that an element of the part names. Raises DamagedError or TooLargeError."""
    found = package.relations(part).get(package.attribute(element, "id"))
    if found is not None and not found.external:
        pager.end_page()
        pager.pages += _chunk_pages(package, found.target)


def _chunk_pages(package: Package, part: str) -> list[OfficePage]:
    """The pages of the chunk; none for one that is empty."""
    text, is_html = _text(package, part)
    if text and is_html:
        return [
            OfficePage(page.markdown, ("",) * len(page.pictures), page.spans) for page in convert(text).pages
        ]
    pager = Pager()
    line = "" if text else package.embedded.line(part)
    pager.add(MarkdownBlock(line))
    for paragraph in text.split("\n\n"):
        pager.add(MarkdownBlock(block(plain(paragraph.strip()))))
    return pager.finish()


def _text(package: Package, part: str) -> tuple[str, bool]:
    """The text of the chunk and whether it is HTML; no text for what is neither HTML nor plain."""
    archive = package.archive
    head = archive.head(part, SNIFF_BYTES)
    kind = sniff(head)
    is_single = _SINGLE_FILE in head[:2_000].lower()
    if archive.size(part) > _MOST_BYTES or not (is_single or kind in (HTML, TEXT, EML)):
        return "", False
    data = archive.read(part)
    if is_single:
        return _single_file(data), True
    return decode(data, declared_in_markup(data[:4096])), kind == HTML


def _single_file(data: bytes) -> str:
    try:
        parts = [one for one in message_from_bytes(data).walk() if one.get_content_type() == "text/html"]
        content = parts[0].get_payload(decode=True) if parts else b""
        charset = parts[0].get_content_charset() or "" if parts else ""
    except (MessageError, RecursionError, ValueError, LookupError, AssertionError, TypeError):
        return ""
    return decode(content if isinstance(content, bytes) else b"", charset)
