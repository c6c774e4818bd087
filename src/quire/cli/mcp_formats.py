"""The formats in which `quire mcp` gives a document besides Markdown: text, HTML, elements, DoclingDocument."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

from quire.client import AsyncQuire
from quire.errors import RequestError

FORMATS = ("md", "text", "html", "json", "docling")


async def written(quire: AsyncQuire, main: str, pages: str, form: str) -> AsyncIterator[str]:
    """The document with this main job, or one page of it, piece by piece.

    Raises RequestError for a format that there is not, or for several pages.
    """
    if pages and not pages.isdecimal():
        raise RequestError("pages: this format is given for one page, such as 3, or for the whole document.")
    job_id = f"{main}-p{int(pages)}" if pages else main
    if form == "html":
        async with aclosing(quire.html(job_id)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                yield piece
    elif form == "docling":
        yield json.dumps(await quire.docling(job_id), ensure_ascii=False)
    elif form in ("json", "text"):
        async with aclosing(quire.elements(main, pages=pages or None)) as found:  # type: ignore[type-var]
            async for one in found:
                if form == "json":
                    yield json.dumps(asdict(one), ensure_ascii=False) + "\n"
                    continue
                for element in one.elements:
                    if element.get("text") and not element.get("repeated"):
                        yield f"{element['text']}\n\n"
    else:
        raise RequestError(f"format: expected one of {', '.join(FORMATS)}.")
