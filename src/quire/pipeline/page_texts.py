"""Reads the Markdown of a finished document page by page, many pages with one read of the object store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from quire.domain.job import PageRecord
from quire.objects.object_store import ObjectStore
from quire.pipeline.stages.merge_stage import failure_note, text_runs

_RUN_BYTES = 1 << 20


async def page_texts(
    objects: ObjectStore, records: Sequence[PageRecord]
) -> AsyncGenerator[tuple[PageRecord, str], None]:
    """Yields each page with its Markdown. Raises MissingError if a retry has replaced the result."""
    for run in text_runs(records, _RUN_BYTES):
        if run[0].ref is None:
            for record in run:
                yield record, failure_note(record).decode()
            continue
        start, end = run[0].offset, run[-1].offset + run[-1].length
        block = b"".join([piece async for piece in objects.stream(run[0].ref, start=start, end=end)])
        for record in run:
            at = record.offset - start
            yield record, block[at : at + record.length].decode("utf-8", "replace")
