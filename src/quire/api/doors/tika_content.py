"""Writes a document with the files in it as Apache Tika gives it: one text, or one XHTML file."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from html import escape

from quire.domain.job import MainJob
from quire.pipeline.document_formats import html_sections
from quire.pipeline.finished_document import FinishedDocument
from quire.rendering.document_html import DOCUMENT_END, document_start

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """The document of a request (depth 0), or a file in it. `document` is None if it could not be read."""

    depth: int
    path: str
    job: MainJob
    document: FinishedDocument | None

    @property
    def problem(self) -> str:
        return str((self.job.error or {}).get("error", "The file was not read."))


async def whole_text(family: Sequence[FamilyMember]) -> AsyncIterator[str]:
    """The text of the document, then the name and the text of each file in it."""
    for one in family:
        if one.depth:
            yield f"\n\n{one.job.filename}" + ("\n\n" if one.document else f": {one.problem}")
        if one.document is not None:
            async for piece in one.document.text():
                yield piece


async def whole_html(family: Sequence[FamilyMember]) -> AsyncIterator[str]:
    """Well-formed XHTML: the pages of the document, then a `div` of class `package-entry` for each file in it."""
    title = family[0].document.stem if family[0].document else ""
    yield _in_xml(document_start(title))
    for one in family:
        if one.depth:
            yield f'<div class="package-entry"><h1>{escape(_in_xml(one.job.filename))}</h1>\n'
        if one.document is None:
            yield f"<p>{escape(_in_xml(one.problem))}</p>\n"
        else:
            async with aclosing(html_sections(one.document.elements)) as sections:
                async for piece in sections:
                    yield _in_xml(piece)
        if one.depth:
            yield "</div>\n"
    yield DOCUMENT_END


def _in_xml(text: str) -> str:
    return _NOT_IN_XML.sub("", text)
