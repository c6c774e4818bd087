"""The second pass of a bulk run through the providers' batch interfaces: half the price, answers within a day.

All state is in the target (`batch_records.py`), so the pass may be ended at any time and run again. It submits every
page once: a batch whose hand-in was not confirmed is first looked for at the provider.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from quire.bulk.ai_pass import MAX_COST, AiPassOutcome, OnPage
from quire.bulk.batch_answers import BatchAnswers, BatchPrices, page_of, rows_of_part
from quire.bulk.batch_records import (
    COLLECTED,
    FAILED,
    OPEN,
    BatchPage,
    BatchRecord,
    BatchRecords,
    DriverLock,
)
from quire.bulk.page_rows import PageRow, needs_ai
from quire.bulk.source_documents import SourceDocuments
from quire.clock import Clock
from quire.dispatch.ledger import Size, estimate
from quire.errors import DocumentError, MissingError, PageError, RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.pipeline.page_vision import PageVision, VisionParts, VisionSource
from quire.providers.batch_services import BatchService, BatchStatus
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import (
    ModelMissingError,
    ProviderError,
    ProviderNetworkError,
    ProviderServerError,
    ProviderTimeoutError,
    VisionRequest,
)

T = TypeVar("T")

_BATCH_BYTES = 48 << 20
_BATCH_PAGES = 2_000
_PATIENCE_S = 900.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_UNCONFIRMED = (ProviderTimeoutError, ProviderNetworkError, ProviderServerError)
"""After these the batch may have been handed in."""
NOT_ENDED = "batches"


@dataclass(frozen=True, slots=True)
class BatchPassOptions:
    """`max_cost_usd` is for the target, all runs together; 0 is no ceiling. Without `waits` the pass does not wait for
    batches to end."""

    spool: Path
    model: str
    formats: frozenset[str] = frozenset()
    password: str | None = None
    max_cost_usd: float = 0.0
    paid_usd: float = 0.0
    waits: bool = True


@dataclass(slots=True)
class _Bundle:
    """Requests that go into one batch."""

    token: str = field(default_factory=lambda: secrets.token_hex(10))
    pages: list[BatchPage] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    size: int = 0
    usd: float = 0.0


class BatchPass:
    """`services` are the batch interfaces by provider; the first one gets new batches."""

    def __init__(
        self,
        parts: VisionParts,
        services: Mapping[str, BatchService],
        source: BulkLocation,
        target: BulkLocation,
        options: BatchPassOptions,
        *,
        clock: Clock,
    ) -> None:
        self._parts = parts
        self._services = services
        self._source = SourceDocuments(source, options.spool, options.password)
        self._target = target
        self._options = options
        self._clock = clock
        self._vision = PageVision(parts)
        self._prices = BatchPrices(PriceList(parts.settings.ai.prices))
        self._records = BatchRecords(target)
        self._lock = DriverLock(target, clock)
        self._tried: set[BatchPage] = set()
        self.outcome = AiPassOutcome()
        self._answers = BatchAnswers(
            self._vision, self._source, target, self._prices, options.formats, self.outcome
        )

    async def run(self, shards: Sequence[int], on_page: OnPage) -> AiPassOutcome:
        """Hands in what no open batch has, and collects what has ended. Raises RequestError, StateConflictError where
        another driver is alive, ObjectsError and ProviderError where a store or a provider can't be used."""
        self._on_page = on_page
        await self._lock.take()
        try:
            await self._records.load()
            self._check_providers()
            for record in self._records.open:
                await self._confirm(record)
            await self._hand_in_new(shards)
            await self._collect_all()
        finally:
            await self._lock.release()
        if self._records.open and not self.outcome.stopped:
            self.outcome.stopped = NOT_ENDED
        return self.outcome

    def _check_providers(self) -> None:
        for record in self._records.open:
            if record.provider not in self._services:
                raise RequestError(
                    f"A batch of {record.provider} is not collected yet, but {record.provider} is not configured. "
                    "Set its key to go on."
                )

    # ---- handing in ----------------------------------------------------------------------------------------

    async def _hand_in_new(self, shards: Sequence[int]) -> None:
        busy = {page for record in self._records.open for page in record.pages} | self._tried
        bundle = _Bundle()
        for shard in shards:
            rows = await rows_of_part(self._target, shard)
            wanted = [row for row in rows if needs_ai(row) and page_of(shard, row) not in busy]
            for document in _by_document(wanted):
                await self._lock.renew()
                for row, request, usd in await self._requests(document):
                    if self._exceeds(bundle.usd + usd):
                        self.outcome.stopped = MAX_COST
                        break
                    if bundle.requests and (
                        bundle.size > _BATCH_BYTES or len(bundle.requests) >= _BATCH_PAGES
                    ):
                        await self._hand_in_bundle(bundle)
                        bundle = _Bundle()
                    encoded = self._first.encode(f"{bundle.token}-{len(bundle.pages)}", request)
                    bundle.pages.append(page_of(shard, row))
                    bundle.requests.append(encoded)
                    bundle.size += len(encoded)
                    bundle.usd += usd
                if self.outcome.stopped:
                    break
            if self.outcome.stopped:
                break
        if bundle.requests:
            await self._hand_in_bundle(bundle)

    @property
    def _first(self) -> BatchService:
        return next(iter(self._services.values()))

    def _exceeds(self, usd: float) -> bool:
        most = self._options.max_cost_usd
        return bool(most) and self._options.paid_usd + self._records.bound_usd + usd > most

    async def _hand_in_bundle(self, bundle: _Bundle) -> None:
        record = BatchRecord(
            number=len(self._records.all) + 1,
            token=bundle.token,
            provider=self._first.name,
            model=self._options.model,
            created_at=self._clock.now(),
            reserved_usd=bundle.usd,
            count=len(bundle.requests),
            pages=bundle.pages,
        )
        await self._records.add(record)
        await self._submit(record, bundle.requests)

    async def _submit(self, record: BatchRecord, requests: Sequence[bytes]) -> None:
        """Hands in a batch that was not handed in before. Where the provider does not confirm, its list is asked."""
        service = self._services[record.provider]

        async def attempt() -> str:
            await self._lock.renew(at_once=True)
            try:
                return await service.submit(requests, record.token)
            except _UNCONFIRMED:
                await asyncio.sleep(_FIRST_PAUSE_S)
                found = await self._search(record)
                if found == "":
                    raise
                return found or ""  # where it can't be said yet, `_confirm` asks again

        record.batch_id = await self._patiently(attempt)
        await self._records.save(record)

    async def _search(self, record: BatchRecord) -> str | None:
        """The id of the record's batch, '' if it was not handed in, None if that can't be said yet."""
        service = self._services[record.provider]
        others = self._records.batch_ids
        found = await self._patiently(
            lambda: service.find(record.token, since=record.created_at, count=record.count, others=others)
        )
        return found.batch_id or ("" if found.is_sure else None)

    async def _confirm(self, record: BatchRecord) -> None:
        """Finds the batch of a record that a dead driver left without an id, or hands it in."""
        if record.batch_id:
            return
        found = await self._search(record)
        if found is None:
            return  # asked again until it is known
        if found:
            record.batch_id = found
            await self._records.save(record)
            return
        requests = await self._requests_of(record)
        record.count = len(requests)
        if not requests:
            record.state = COLLECTED
        await self._records.save(record)
        if requests:
            await self._submit(record, requests)

    async def _requests_of(self, record: BatchRecord) -> list[bytes]:
        """The requests of a record, drawn again; pages that are gone or were read meanwhile are left out."""
        places = {page: place for place, page in enumerate(record.pages)}
        found: list[bytes] = []
        for shard in sorted({page.shard for page in record.pages}):
            rows = [
                row
                for row in await rows_of_part(self._target, shard)
                if page_of(shard, row) in places and needs_ai(row)
            ]
            for document in _by_document(rows):
                for row, request, _ in await self._requests(document):
                    request_id = record.request_id(places[page_of(shard, row)])
                    found.append(self._services[record.provider].encode(request_id, request))
        return found

    async def _requests(self, rows: Sequence[PageRow]) -> list[tuple[PageRow, VisionRequest, float]]:
        """The requests for pages of one document, with a generous estimate of their prices.

        What can't be drawn or is gone is left as it is.
        """
        ai = self._parts.settings.ai

        async def one(source: VisionSource, row: PageRow) -> tuple[PageRow, VisionRequest, float] | None:
            try:
                picture = await self._vision.picture(source, row.markdown or "")
            except (PageError, DocumentError) as error:
                self.outcome.give_up(error.code)
                return None
            request = VisionRequest(
                model=self._options.model,
                instructions=ai.system_prompt,
                text=picture.text,
                image=picture.image,
                image_mime=picture.mime,
                max_tokens_out=ai.max_tokens_out,
                timeout_s=0.0,
                crops=picture.crops,
            )
            size = Size(
                len(request.text) + len(request.instructions),
                len(picture.layer or picture.text),
                picture.pixels,
            )
            guess = estimate(size, ai.max_tokens_out)
            return row, request, self._prices.usd(self._first.name, self._options.model, guess)

        try:
            async with self._source.fetched(rows[0]) as document:
                sources = [self._source.page(document, row) for row in rows]
                found = await asyncio.gather(*map(one, sources, rows))
        except (MissingError, StateConflictError):
            self.outcome.gone += len(rows)
            return []
        return [pair for pair in found if pair is not None]

    # ---- collecting ----------------------------------------------------------------------------------------

    async def _collect_all(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            ended = False
            for record in self._records.open:
                await self._lock.renew()
                ended = await self._collect_if_ended(record) or ended
            if not self._records.open or not (ended or self._options.waits):
                return
            if not ended:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _collect_if_ended(self, record: BatchRecord) -> bool:
        await self._confirm(record)
        if not record.batch_id or record.state != OPEN:
            return record.state != OPEN
        service = self._services[record.provider]
        status = await self._patiently(lambda: service.status(record.batch_id))
        if status is BatchStatus.RUNNING:
            return False
        self._tried.update(record.pages)
        if status is BatchStatus.FAILED:
            record.state, record.error = FAILED, "batch_failed"
            for _ in record.pages:
                self.outcome.give_up(record.error)
        else:
            replies = await self._patiently(lambda: service.replies(record.batch_id))
            await self._answers.collect(record, replies)
            record.state = COLLECTED
        await self._records.save(record)
        self._on_page(self.outcome)
        return True

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Waits out a provider that does not answer or limits the rate. Raises ProviderError at the end."""
        pause_s, left_s = _FIRST_PAUSE_S, _PATIENCE_S
        while True:
            try:
                return await call()
            except ProviderError as error:
                if not error.retryable or left_s <= 0 or isinstance(error, ModelMissingError):
                    raise
                pause_s = max(pause_s, error.retry_after_s or 0.0)
            await asyncio.sleep(pause_s)
            left_s -= pause_s
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _by_document(rows: Sequence[PageRow]) -> list[list[PageRow]]:
    found: dict[str, list[PageRow]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return list(found.values())
