"""The text of a finished conversion: page by page for search, and its beginning for a classifier."""

from __future__ import annotations

import asyncio
from typing import Any

from quire.domain.job import JobStatus, PageRecord
from quire.domain.vault_document import ContentPage
from quire.objects.object_store import ObjectStore
from quire.pipeline.stages.merge_stage import unpack_pages

_MOST_BYTES = 16 << 20
"""Search keeps some million characters of a document; more is not read."""
_LAST_BYTES = 8 << 10


async def content_pages(objects: ObjectStore, result: dict[str, Any]) -> list[ContentPage]:
    """Returns the pages with text, in order, up to a bound. Raises MissingError if a retry has replaced the result."""
    raw = await objects.get(result["pages_key"])
    text = await _read(objects, result["key"], 0, _MOST_BYTES)
    return await asyncio.to_thread(_cut, raw, text)


async def text_excerpt(objects: ObjectStore, result: dict[str, Any], most_bytes: int) -> str:
    """Returns the beginning of a text and, if it is longer, a little of its end: letters are signed and dated there."""
    key, raw = result["key"], await objects.get(result["pages_key"])
    if not await asyncio.to_thread(_all_have_text, raw):
        # The result has notes in place of pages without text; a classifier must not see them.
        pages = await asyncio.to_thread(_cut, raw, await _read(objects, key, 0, 4 * most_bytes))
        return "\n\n".join(page.text for page in pages)[:most_bytes]
    size = await objects.size(key) or 0
    head = await _read(objects, key, 0, most_bytes)
    if size <= most_bytes:
        return head.decode("utf-8", "replace")
    tail = await _read(objects, key, max(most_bytes, size - _LAST_BYTES), size)
    return f"{head.decode('utf-8', 'ignore')}\n\n[…]\n\n{tail.decode('utf-8', 'ignore')}"


async def _read(objects: ObjectStore, key: str, start: int, end: int) -> bytes:
    return b"".join([piece async for piece in objects.stream(key, start=start, end=end)])


def _has_text(record: PageRecord) -> bool:
    return record.status is JobStatus.COMPLETED and record.words > 0


def _all_have_text(raw: bytes) -> bool:
    return all(map(_has_text, unpack_pages(raw).values()))


def _cut(raw: bytes, text: bytes) -> list[ContentPage]:
    records = unpack_pages(raw)
    found = []
    for number in sorted(records):
        record = records[number]
        if not _has_text(record) or record.offset >= len(text):
            continue
        page = text[record.offset : record.offset + record.length].decode("utf-8", "ignore")
        if page.strip():
            found.append(ContentPage(page, number))
    return found
