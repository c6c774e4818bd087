"""Writes a document as one HTML file, page by page: what comes before the pages, each page, what comes after them."""

from __future__ import annotations

from html import escape

from quire.domain.element import PageElements
from quire.rendering.page_html import inline_html, render_html

DOCUMENT_END = "</body>\n</html>\n"


def document_start(title: str) -> str:
    """Everything before the first page. `title` is untrusted."""
    return (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{escape(title) or 'Document'}</title>\n</head>\n<body>\n"
    )


def page_section(page: PageElements, note: str = "") -> str:
    """One page as a section. `note` is the line of Markdown that a page without elements has in the result."""
    content = render_html(page.elements)
    if note and not page.elements:
        content = f'<p class="note">{inline_html(note)}</p>'
    return f'<section id="page-{page.number}" data-page="{page.number}">\n{content}\n</section>\n'
