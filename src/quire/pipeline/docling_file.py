"""Writes a finished document as a DoclingDocument in JSON. Its lists go through files: it is never whole in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from quire.domain.job import MainJob
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.document_formats import compact_json
from quire.rendering.docling_json import SECTIONS, DoclingItems, body_start, document_head, document_origin

_IN_MEMORY_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10


async def docling_document(job: MainJob, elements: DocumentElements) -> AsyncGenerator[bytes, None]:
    """The DoclingDocument of a job's elements, as JSON in UTF-8. The first piece comes after the last page was read."""
    name = Path(job.filename or job.id)
    head = document_head(name.stem, document_origin(job.mime, job.sha256, name.name))
    with _Lists() as lists:
        async with aclosing(elements.joined_runs()) as runs:
            async for run in runs:
                await asyncio.to_thread(lists.add, run)
        pieces = lists.pieces(head)
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


class _Lists:
    """The lists of a DoclingDocument while its pages are added, each in a file of its own once it is large."""

    def __init__(self) -> None:
        self._items = DoclingItems()
        self._open = ExitStack()
        self._files = {
            name: self._open.enter_context(SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 - closed by the stack
            for name in (*SECTIONS, "body", "pages")
        }

    def __enter__(self) -> _Lists:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, run: list[ElementPage]) -> None:
        for one in run:
            added = self._items.add(one.page, one.note)
            for section in SECTIONS:
                self._write(section, [compact_json(item) for item in added.items[section]])
            self._write("body", [compact_json({"$ref": ref}) for ref in added.top])
            if added.entry is not None:
                self._write("pages", [f'"{one.page.number}":{compact_json(added.entry)}'])

    def _write(self, name: str, texts: list[str]) -> None:
        if texts:
            file = self._files[name]
            before = "," if file.tell() else ""
            file.write((before + ",".join(texts)).encode("utf-8", "replace"))

    def pieces(self, head: dict[str, Any]) -> Iterator[bytes]:
        """The document: the head, the body with its references, then each list."""
        yield f'{compact_json(head)[:-1]},"body":{body_start()}'.encode("utf-8", "replace")
        yield from self._content("body")
        yield b"]}"
        for section in SECTIONS:
            yield f',"{section}":['.encode()
            yield from self._content(section)
            yield b"]"
        yield b',"pages":{'
        yield from self._content("pages")
        yield b"}}"

    def _content(self, name: str) -> Iterator[bytes]:
        file = self._files[name]
        file.seek(0)
        while piece := file.read(_PIECE_BYTES):
            yield piece
