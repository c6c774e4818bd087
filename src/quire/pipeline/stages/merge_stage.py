"""Merge: joins the pages in order, once, and deletes the chunks.

It copies bytes. A page is changed only where its headings have other levels in the document than on the page alone,
or where it goes on with the table of the page before.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from quire.coordination.job_records import Claim
from quire.domain.job import JobStatus, MainJob, PageRecord
from quire.domain.page import Grade, PageSource
from quire.domain.page_ranges import PageRanges
from quire.domain.page_settling import PageNotes, PageScheme, SettledPage, page_schemes, settled
from quire.errors import DocumentError, MissingError, ObjectsError, QuireError
from quire.objects.object_store import ObjectStore
from quire.pipeline.object_keys import chunks_prefix, elements_ref, pages_key, result_key
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.job_journal import finished_result, write_finished
from quire.reading.grading.page_grade import ALTERED_WORDS, NOT_CHECKED, TEXT_LEFT_OUT

_LOG = logging.getLogger(__name__)
SEPARATOR = b"\n\n---\n\n"
_RUN_BYTES = 4 << 20
_RUNS_AT_ONCE = 16
_BY_MODELS = (PageSource.AI, PageSource.CACHE)
_FALLBACKS = (PageSource.MUPDF_FALLBACK, PageSource.MUPDF_TIMEOUT_FALLBACK)


async def run_merge(claim: Claim, parts: Parts) -> None:
    """Raises DocumentError if no page at all could be read."""
    job = claim.job
    records = await parts.jobs.pages(job.id)
    ranges = PageRanges.parse(job.ranges)
    ordered = [records[number] for number in ranges.numbers(0, len(ranges)) if number in records]
    if len(ordered) != job.total_pages:
        raise QuireError("Some page records are missing; the merge will be tried again.", retryable=True)
    if not any(record.status is JobStatus.COMPLETED for record in ordered):
        raise _nothing_read(ordered)
    try:
        result, pages, moved = await _write(parts.objects, claim, ordered)
    except MissingError:
        await _recover(claim, parts, ordered)
        return
    found = {"key": result, "pages_key": pages, "metadata": summary(job, moved)}
    if await parts.jobs.merged(claim, found):
        if parts.ai is not None and job.slow_pages:
            await parts.jobs.early.forget(job.id, claim.hint.epoch)
        await write_finished(parts, job.id)  # first: what is left over here expires with the job
        await _tidy(parts.objects, job)


async def _recover(claim: Claim, parts: Parts, ordered: list[PageRecord]) -> None:
    """Continues after chunks were found missing: Redis has lost that an earlier merge was done and deleted them."""
    job, epoch = claim.job, claim.hint.epoch
    earlier = await finished_result(parts.objects, job.id, epoch)
    if earlier is not None:
        await parts.jobs.merged(claim, earlier)
        return
    refs = {ref for record in ordered for ref in _refs(record)}
    gone = {ref for ref in refs if await parts.objects.size(ref) is None}
    numbers = [record.number for record in ordered if _refs(record) & gone]
    if not numbers:
        raise QuireError(
            "A text was missing and is there again; the merge will be tried again.", retryable=True
        )
    _LOG.warning(
        "pages are read again: their texts are gone", extra={"job_id": job.id, "pages": len(numbers)}
    )
    if await parts.jobs.lost.reread(claim, numbers) == "too often":
        raise ObjectsError(
            "Texts of pages are gone again, after the pages were read again several times. "
            "Check the object store, then retry the job.",
            retryable=False,
        )


def _refs(record: PageRecord) -> set[str]:
    """The objects that have the page's text and its elements."""
    if record.ref is None:
        return set()
    return {record.ref, elements_ref(record.ref)} if record.elements_length else {record.ref}


async def _write(
    objects: ObjectStore, claim: Claim, ordered: list[PageRecord]
) -> tuple[str, str, list[PageRecord]]:
    """Writes the Markdown and its elements; returns both keys and the records as they are in the result."""
    job, epoch, token = claim.job, claim.hint.epoch, claim.token
    key = result_key(job.id, epoch, token)
    has_elements = any(record.elements_length for record in ordered)
    schemes = iter(await asyncio.to_thread(page_schemes, list(map(_notes, ordered))))
    result = _Result(key)
    async with AsyncExitStack() as stack:
        out = await stack.enter_async_context(objects.writer(key))
        beside = await stack.enter_async_context(objects.writer(elements_ref(key))) if has_elements else None
        for runs in _batches(text_runs(ordered, _RUN_BYTES)):
            found = await asyncio.gather(*(page_contents(objects, run) for run in runs))
            records = list(chain.from_iterable(runs))
            wanted = list(islice(schemes, len(records)))
            text, elements = await asyncio.to_thread(
                result.add, records, list(chain.from_iterable(found)), wanted
            )
            await out.write(text)
            if beside is not None:
                await beside.write(elements)
    pages = pages_key(job.id, epoch, token)
    await objects.put(pages, await asyncio.to_thread(pack_pages, result.records))
    return key, pages, result.records


def _batches(runs: Iterable[list[PageRecord]]) -> Iterator[list[list[PageRecord]]]:
    """Runs of pages that are read together: of usual chunks several, of large ones one."""
    batch: list[list[PageRecord]] = []
    size = 0
    for run in runs:
        length = sum(record.length for record in run)
        if batch and (len(batch) == _RUNS_AT_ONCE or size + length > _RUN_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(run)
        size += length
    if batch:
        yield batch


class _Result:
    """The records of the pages as they are in the result, while it grows."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._length = self._elements_length = 0
        self.records: list[PageRecord] = []

    def add(
        self,
        records: Sequence[PageRecord],
        contents: Sequence[tuple[bytes, bytes]],
        schemes: Sequence[PageScheme],
    ) -> tuple[bytes, bytes]:
        """Takes the next pages in, each with what the document says of it. Returns the bytes to write.

        Most pages are copied as they are.
        """
        texts: list[bytes] = []
        packed: list[bytes] = []
        for record, content, scheme in zip(records, contents, schemes, strict=True):
            page = settled(SettledPage(*content, _notes(record)), scheme)
            if self.records:
                texts.append(SEPARATOR)
                self._length += len(SEPARATOR)
            texts.append(page.markdown)
            packed.append(page.elements)
            self.records.append(self._moved(record, page))
            self._length += len(page.markdown)
            self._elements_length += len(page.elements)
        return b"".join(texts), b"".join(packed)

    def _moved(self, record: PageRecord, page: SettledPage) -> PageRecord:
        return replace(
            record,
            ref=self._key,
            offset=self._length,
            length=len(page.markdown),
            elements_offset=self._elements_length if page.elements else 0,
            elements_length=len(page.elements),
            headings=page.notes.headings,
            continues=page.notes.continues,
        )


def _notes(record: PageRecord) -> PageNotes:
    return PageNotes(record.number, record.headings, record.tables, record.continues)


def text_runs(ordered: Sequence[PageRecord], most_bytes: int) -> Iterator[list[PageRecord]]:
    """Groups neighbours whose texts are in one object, in order and close together: one read fetches them all."""
    run: list[PageRecord] = []
    for record in ordered:
        if run and (
            record.ref != run[0].ref
            or record.ref is None
            or record.offset < run[-1].offset
            or record.offset + record.length - run[0].offset > most_bytes
        ):
            yield run
            run = []
        run.append(record)
    if run:
        yield run


async def page_contents(objects: ObjectStore, run: list[PageRecord]) -> list[tuple[bytes, bytes]]:
    """The Markdown and the encoded elements of every page of a run."""
    ref = run[0].ref
    if ref is None:
        return [(failure_note(record), b"") for record in run]
    texts = [(record.offset, record.length) for record in run]
    elements = [(record.elements_offset, record.elements_length) for record in run if record.elements_length]
    beside = elements_ref(ref)
    if elements and beside == ref and _reach([*texts, *elements]) <= 2 * _RUN_BYTES:
        found = await _ranges(objects, ref, [*texts, *elements])  # a chunk has both, so one read fetches all
    else:
        found = await _ranges(objects, ref, texts) + (
            await _ranges(objects, beside, elements) if elements else []
        )
    rest = iter(found[len(texts) :])
    return [
        (text, next(rest) if record.elements_length else b"")
        for record, text in zip(run, found, strict=False)
    ]


def _reach(ranges: Iterable[tuple[int, int]]) -> int:
    listed = list(ranges)
    return max(at + length for at, length in listed) - min(at for at, _ in listed)


async def _ranges(objects: ObjectStore, ref: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    """The bytes of each (offset, length), read in one go."""
    start = min(at for at, _ in ranges)
    end = start + _reach(ranges)
    block = b"".join([piece async for piece in objects.stream(ref, start=start, end=end)])
    return [block[at - start : at - start + length] for at, length in ranges]


def failure_note(record: PageRecord) -> bytes:
    """The text in the result in place of a page that could not be read."""
    why = (record.error or {}).get("error", "it could not be read")
    return f"*Page {record.number} could not be read: {why}*".encode()


def pack_pages(records: Iterable[PageRecord]) -> bytes:
    return json.dumps({record.number: record.packed() for record in records}, separators=(",", ":")).encode()


def unpack_pages(raw: bytes) -> dict[int, PageRecord]:
    return {int(number): PageRecord.unpack(int(number), packed) for number, packed in json.loads(raw).items()}


def _lacks_words(record: PageRecord) -> bool:
    """Whether words of the page are missing. A model may leave out a page number: there it has to be much."""
    return record.words_missing > 0 and (record.source not in _BY_MODELS or TEXT_LEFT_OUT in record.reasons)


def summary(job: MainJob, records: list[PageRecord]) -> dict[str, Any]:
    """The result's metadata, with the names of the source documents."""
    read = [record for record in records if record.status is JobStatus.COMPLETED]
    sources = Counter(record.source.value for record in read if record.source)
    failed = [record.number for record in records if record.status is JobStatus.FAILED]
    low = [record.number for record in read if record.grade is Grade.LOW]
    fallbacks = [record.number for record in records if record.source in _FALLBACKS]
    return {
        "pages": len(records),
        "total_words": sum(record.words for record in records),
        "total_size_bytes": sum(record.length for record in records),
        "sources": dict(sources),
        "ai_pages_succeeded": sources[PageSource.AI.value],
        "mupdf_fallback_count": len(fallbacks),
        "fallback_pages": fallbacks[:1000],
        "failed_pages": failed[:1000],
        "pages_failed": len(failed),
        "low_confidence_pages": low[:1000],
        "words_missing": sum(record.words_missing for record in read),
        "words_missing_pages": [record.number for record in read if _lacks_words(record)][:1000],
        "ungrounded_pages": [
            record.number for record in read if record.ungrounded or record.ungrounded_numbers
        ][:1000],
        "altered_pages": [record.number for record in read if ALTERED_WORDS in record.reasons][:1000],
        "unchecked_pages": [record.number for record in read if NOT_CHECKED in record.reasons][:1000],
        "ungrounded": sum(record.ungrounded for record in read),
        "ungrounded_numbers": sum(record.ungrounded_numbers for record in read),
        "grades": dict(Counter(record.grade.value for record in read if record.grade)),
        "timeout_occurred": job.timed_out,
        **({"pages_reused": reused} if (reused := sum(bool(one.reused_from) for one in records)) else {}),
        "title": job.info.get("title"),
        "author": job.info.get("author"),
        "filename": job.filename,
        "mime": job.mime,
    }


async def _tidy(objects: ObjectStore, job: MainJob) -> None:
    """Deletes chunks and an earlier result; if the process dies here, the rest expires with the job's objects."""
    for epoch in range(1, job.epoch + 1):  # of earlier ones only what a cancelled run had read
        await objects.delete_prefix(chunks_prefix(job.id, epoch))
    if job.result:
        await objects.delete(job.result["key"])
        await objects.delete(elements_ref(job.result["key"]))
        await objects.delete(job.result["pages_key"])


def _nothing_read(records: list[PageRecord]) -> DocumentError:
    reasons = Counter((record.error or {}).get("error", "unknown reason") for record in records)
    why = reasons.most_common(1)[0][0]
    if len(records) == 1:
        return DocumentError(f"The only page could not be read: {why}")
    return DocumentError(f"None of the {len(records)} pages could be read: {why}")
