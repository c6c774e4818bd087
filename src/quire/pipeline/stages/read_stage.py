"""Read: a chunk of pages in one call, or one page alone. A page that breaks its reader fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from quire.coordination.early_pages import OcrRight
from quire.coordination.job_records import Claim, PageOutcome
from quire.dispatch.page_task import Exhausted
from quire.domain.job import (
    INSTEAD_OF_AI,
    STOPGAP_REASONS,
    JobStatus,
    PageRecord,
    UnitKind,
    chunk_places,
    unit_page,
)
from quire.domain.page import PageClass, PageSource
from quire.domain.page_ranges import PageRanges
from quire.domain.routing import Route, best_route
from quire.errors import PageError, QuireError
from quire.pipeline.early_text_policy import early_text_delay_s
from quire.pipeline.local_readers import local_reader
from quire.pipeline.object_keys import chunk_key, local_document
from quire.pipeline.page_reuse import ReusedPage, planned_pages, reused_pages, reused_record
from quire.pipeline.parts import Parts
from quire.pipeline.stages.ai_pages import AiPage, failed_call, with_spent
from quire.pipeline.stages.illustrations import Illustrations
from quire.reading.files.image_source import HEIC_OVER_BOUND
from quire.reading.files.page_chunks import Chunk, PageSlice
from quire.reading.local_reader import LocalReader, UnreadPage, class_for_route, page_source, unread_scan
from quire.reading.ocr.page_ocr import OCR_READERS
from quire.reading.pdf.page_reader import MARKUP_READERS

_OCR_POLL_S = 0.2
_SOURCES = {
    Route.LOCAL: {PageSource.LOCAL},
    Route.OCR: {PageSource.OCR},
    Route.AI: {PageSource.AI, PageSource.CACHE, PageSource.BATCH},
}


class PageReader:
    """Reads pages of one claimed unit. What is read is stored before it is recorded."""

    def __init__(self, claim: Claim, parts: Parts) -> None:
        self._claim = claim
        self._parts = parts
        self._job = claim.job
        self._password = parts.sealer.unseal(claim.job.id, claim.job.sealed).password
        self._started_at = parts.clock.now()

    async def chunk(self) -> None:
        first, last = chunk_places(self._claim.hint.unit)
        numbers = PageRanges.parse(self._job.ranges).numbers(first, last + 1)
        planned = await planned_pages(self._parts, self._job, numbers)
        reused = await reused_pages(
            self._parts, [one for one in planned if self._is_by_best_route(one.record)]
        )
        taken = {one.planned.number for one in reused}
        rest = [number for number in numbers if number not in taken]
        found: list[Chunk | UnreadPage] = []
        if rest:
            async with self._local() as reader:
                found = await reader.read(rest)
        await self._record(found, reused)

    def _is_by_best_route(self, record: PageRecord) -> bool:
        """Whether a page of the version before was read as it would be read now."""
        route = self._best_route(record.page_class, record.reader, record.reasons)
        return record.source in _SOURCES[route]

    async def page(self) -> None:
        """One page by its own route: again, or by a reader that takes its time."""
        number = unit_page(self._claim.hint.unit)
        known = self._claim.page
        route = Route.LOCAL
        if known and known.ref:
            route = self._best_route(known.page_class, known.reader, known.reasons)
        if known and route is Route.AI:
            await self._by_ai(known)
            return
        async with self._local() as reader:
            found = await reader.read([number])
            local = found[0]
            route = self._route(local.pages[0]) if isinstance(local, Chunk) else Route.LOCAL
            if isinstance(local, Chunk) and route is Route.OCR:
                found = [await reader.recognise(local)]
        if isinstance(local, Chunk) and route is Route.AI:
            stored = await self._stored(local)
            await self._expect_early_text([stored])
            await self._by_ai(stored)
        else:
            await self._record(found)

    async def early_text(self, local: PageRecord) -> PageRecord:
        """The page by OCR while it waits for AI, stored and still queued. Raises PageError if it can't be drawn."""
        found = await self._stored(await self._ocr(local.number))
        return replace(
            found,
            status=JobStatus.QUEUED,
            source=PageSource.OCR,
            page_class=local.page_class,
            reasons=local.reasons,
            started_at=local.started_at,
            completed_at=None,
        )

    async def _by_ai(self, local: PageRecord) -> None:
        """AI; if every candidate fails, the page's local text or OCR, and a dead letter."""
        ai = self._parts.ai
        assert ai is not None  # noqa: S101 - there is no such route without it
        question = Illustrations(self._claim, self._parts, local) if local.reader in MARKUP_READERS else None
        outcome = await AiPage(self._claim, self._parts, ai, _as_asked(local), question).read()
        if outcome is None:
            return
        if isinstance(outcome, Exhausted):
            record = await self._without_ai(local, outcome)
            await self._parts.queues.add_dead_letter(
                self._claim.hint, f"AI failed: {', '.join(outcome.reasons)}", failed_call(outcome)
            )
        else:
            record = outcome
        # A worker that died may have made a call: no page is paid more often than it has attempts.
        record = replace(record, attempts=record.attempts + self._claim.lost_starts)
        await self._parts.jobs.pages_done(self._claim, [PageOutcome(record)])

    async def _without_ai(self, local: PageRecord, outcome: Exhausted) -> PageRecord:
        now = self._parts.clock.now()
        if not local.words and self._parts.readers.ocr:
            local = await self._early_text_of(local)
        recognised = local.reader in OCR_READERS
        if local.words or recognised:
            source = PageSource.OCR if recognised else PageSource.MUPDF_FALLBACK
            fallback = replace(local, status=JobStatus.COMPLETED, source=source, completed_at=now, error=None)
            return with_spent(_instead_of_ai(fallback) if recognised else fallback, outcome)
        why = PageError(
            f"The page has no text of its own, and AI could not read it ({', '.join(outcome.reasons)})."
        )
        if self._parts.readers.ocr:
            try:
                return with_spent(_instead_of_ai(await self._stored(await self._ocr(local.number))), outcome)
            except PageError as error:
                if error.retryable:
                    raise
                if not outcome.spent.calls:  # no model was asked: the page itself can't be drawn
                    why = error
        failed = self._failed(local.number, why)
        return with_spent(
            replace(failed, page_class=local.page_class, reasons=(*local.reasons, *failed.reasons)), outcome
        )

    async def _early_text_of(self, local: PageRecord) -> PageRecord:
        """The page with the text that OCR read while AI did not answer; unchanged if this unit is to read it."""
        while True:
            right = await self._parts.jobs.early.take(self._claim, local.number)
            if right is not OcrRight.HELD:
                return right if isinstance(right, PageRecord) and right.ref else local
            await asyncio.sleep(_OCR_POLL_S)

    async def _expect_early_text(self, records: Sequence[PageRecord]) -> None:
        """Issues the unit that reads pages by OCR if AI does not answer, where pages without text wait for AI."""
        delay_s = early_text_delay_s(self._parts.settings)
        if delay_s is None or self._parts.ai is None or not self._parts.readers.ocr:
            return
        if any(self._waits_unread(one) for one in records):
            await self._parts.jobs.early.issue(self._claim, delay_s)

    def _waits_unread(self, record: PageRecord) -> bool:
        is_unread = not record.status.terminal or self._claim.hint.kind is UnitKind.PAGE
        route = self._best_route(record.page_class, record.reader, record.reasons)
        return is_unread and not record.words and route is Route.AI and record.reader not in MARKUP_READERS

    async def _ocr(self, number: int) -> Chunk:
        """The page by OCR, also if it has no text. Raises PageError if it can't be drawn."""
        async with self._local() as reader:
            return await reader.ocr_page(number)

    @asynccontextmanager
    async def _local(self) -> AsyncIterator[LocalReader]:
        async with local_document(self._parts.objects, self._job.content_ref or "") as path:
            yield local_reader(self._claim, self._parts, str(path), self._password)

    async def _stored(self, chunk: Chunk) -> PageRecord:
        """One page that was read here, its text stored, its record not yet counted."""
        key = chunk_key(self._job.id, self._claim.hint.epoch, self._claim.hint.unit, self._claim.token)
        page = chunk.pages[0]
        key = f"{key}-{page.number}-{page.reader}"
        await self._parts.objects.put(key, chunk.block)
        return self._page_record(page, key, 0)

    def _failed(self, number: int, error: QuireError) -> PageRecord:
        return failed_page(number, error, self._claim.starts, self._started_at, self._parts.clock.now())

    async def _record(self, found: Sequence[Chunk | UnreadPage], reused: Sequence[ReusedPage] = ()) -> None:
        records: list[PageRecord] = []
        blocks: list[bytes] = []
        at = 0
        key = chunk_key(self._job.id, self._claim.hint.epoch, self._claim.hint.unit, self._claim.token)
        for one in found:
            if isinstance(one, UnreadPage):
                failed = self._failed(one.number, one.error)
                reasons = (*one.reasons, *failed.reasons)
                records.append(replace(failed, page_class=one.page_class, reasons=reasons))
                continue
            records += (self._page_record(page, key, at) for page in one.pages)
            blocks.append(one.block)
            at += len(one.block)
        for page in reused:
            now = self._parts.clock.now()
            records.append(reused_record(page, key, at, self._claim.starts, now))
            blocks += (page.text, page.elements)
            at += len(page.text) + len(page.elements)
        if blocks:
            await self._parts.objects.put(key, b"".join(blocks) if len(blocks) > 1 else blocks[0])
        if self._claim.hint.kind is UnitKind.READ:
            await self._expect_early_text(records)
        await self._parts.jobs.pages_done(self._claim, [PageOutcome(record) for record in records])

    def _page_record(self, page: PageSlice, key: str, at: int) -> PageRecord:
        status, error = JobStatus.COMPLETED, None
        source: PageSource | None = page_source(page, timed_out=self._job.timed_out)
        if self._waits(page):
            status, source = JobStatus.QUEUED, None
        elif source and (unread := unread_scan(page, source, text_only=self._job.options.text_only)):
            status, error = JobStatus.FAILED, unread.as_dict()
        return PageRecord(
            number=page.number,
            status=status,
            source=source,
            page_class=page.page_class,
            reasons=page.reasons,
            reader=page.reader,
            attempts=self._claim.starts,
            confidence=page.confidence,
            words=page.words,
            started_at=self._started_at,
            completed_at=None if status is JobStatus.QUEUED else self._parts.clock.now(),
            error=error,
            ref=key,
            offset=at + page.offset,
            length=page.length,
            elements_offset=at + page.elements_offset if page.elements_length else 0,
            elements_length=page.elements_length,
            words_missing=page.words_missing,
            grade=page.grade,
            headings=page.headings,
            tables=page.tables,
        )

    def _waits(self, page: PageSlice) -> bool:
        """Whether a page of a chunk is to be read again, alone, by a reader that takes its time."""
        return (
            self._claim.hint.kind is UnitKind.READ
            and not self._job.timed_out
            and self._route(page) is not Route.LOCAL
        )

    def _route(self, page: PageSlice) -> Route:
        return self._best_route(class_for_route(page), page.reader, page.reasons)

    def _best_route(
        self, page_class: PageClass | None, reader: str | None, reasons: Sequence[str] = ()
    ) -> Route:
        if self._job.timed_out or page_class is None:
            return Route.LOCAL
        options = self._job.options
        readers = self._parts.readers
        if HEIC_OVER_BOUND in reasons:
            readers = replace(readers, ai=False)
        route = best_route(page_class, options.mode, readers, text_only=options.text_only)
        if route is Route.LOCAL and self._forces_ocr(reader):
            return Route.OCR
        # A text has no picture that a model could see, unless there are pictures in it.
        seen = reader not in MARKUP_READERS or page_class is PageClass.HAS_GRAPHICS
        return route if seen or route is not Route.AI else Route.LOCAL

    def _forces_ocr(self, reader: str | None) -> bool:
        """Whether a page with a text layer is read by OCR because the caller asked for that."""
        options = self._job.options
        is_drawn = reader not in (*MARKUP_READERS, *OCR_READERS)
        return options.force_ocr and not options.text_only and self._parts.readers.ocr and is_drawn


def _instead_of_ai(record: PageRecord) -> PageRecord:
    return replace(record, reasons=(*record.reasons, INSTEAD_OF_AI))


def _as_asked(local: PageRecord) -> PageRecord:
    """The page as a model is asked for it: with nothing of an earlier stopgap, and no OCR text as the page's own."""
    own = replace(local, reasons=tuple(one for one in local.reasons if one not in STOPGAP_REASONS))
    return replace(own, words=0, grade=None) if local.source is PageSource.OCR else own


def failed_page(
    number: int, error: QuireError, attempts: int, started_at: float, completed_at: float
) -> PageRecord:
    return PageRecord(
        number=number,
        status=JobStatus.FAILED,
        reasons=(error.code,),
        attempts=attempts,
        started_at=started_at,
        completed_at=completed_at,
        error=error.as_dict(),
    )


def fallen_back(local: PageRecord | None, error: QuireError, attempts: int, now: float) -> PageRecord | None:
    """The page with the local text it already has, if its better reader failed; None if it has none."""
    if local is None or not local.ref or not local.words:
        return None
    return replace(
        local,
        status=JobStatus.COMPLETED,
        source=local.source or PageSource.MUPDF_FALLBACK,
        reasons=(*local.reasons, error.code),
        attempts=attempts,
        completed_at=now,
    )
