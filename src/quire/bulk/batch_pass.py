"""The second pass of a bulk run through the providers' batch interfaces: half the price, answers within a day.

All state is in the target (`batch_records.py`), so the pass may be ended at any time and run again. It submits every
page once: a batch whose hand-in was not confirmed is first looked for at the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from quire.bulk.ai_pass import MAX_COST, AiPassOutcome, OnPage
from quire.bulk.answered_chunks import AnsweredChunks
from quire.bulk.batch_answers import BatchAnswers, BatchPrices
from quire.bulk.batch_records import (
    COLLECTED,
    FAILED,
    OPEN,
    BatchPage,
    BatchRecord,
    BatchRecords,
    DriverLock,
)
from quire.bulk.request_bundles import BatchRequests, PricedRequest, RequestBundle
from quire.bulk.source_documents import SourceDocuments
from quire.bulk.worker_process import document_options
from quire.clock import Clock
from quire.errors import RequestError
from quire.objects.bulk_locations import BulkLocation
from quire.pipeline.page_vision import PageVision, VisionParts
from quire.providers.batch_services import BatchService, BatchStatus
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import (
    ModelMissingError,
    ProviderError,
    ProviderNetworkError,
    ProviderServerError,
    ProviderTimeoutError,
)

T = TypeVar("T")

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
        self._services = services
        self._options = options
        self._clock = clock
        self._records = BatchRecords(target)
        self._lock = DriverLock(target, clock)
        self._tried: set[BatchPage] = set()
        self.outcome = AiPassOutcome()
        vision, documents = PageVision(parts), SourceDocuments(source, options.spool, options.password)
        prices = BatchPrices(PriceList(parts.settings.ai.prices))
        local = document_options(parts.settings, ocr=False)
        self._requests = BatchRequests(
            parts.settings.ai,
            vision,
            documents,
            target,
            prices,
            self._first.name,
            options.model,
            self.outcome,
        )
        self._answers = BatchAnswers(
            vision,
            documents,
            target,
            prices,
            options.formats,
            AnsweredChunks(parts.pool, vision, documents, local),
            self.outcome,
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
        bundle = RequestBundle(self._first)
        async for one in self._new_requests(shards, busy):
            if self._exceeds(bundle.usd + one.usd):
                self.outcome.stopped = MAX_COST
                break
            if bundle.is_full:
                await self._hand_in(bundle)
                bundle = RequestBundle(self._first)
            bundle.add(one)
        if bundle.requests:
            await self._hand_in(bundle)

    async def _new_requests(
        self, shards: Sequence[int], busy: Collection[BatchPage]
    ) -> AsyncIterator[PricedRequest]:
        for shard in shards:
            async for one in self._requests.of_shard(shard, busy):
                await self._lock.renew()
                yield one

    @property
    def _first(self) -> BatchService:
        return next(iter(self._services.values()))

    def _exceeds(self, usd: float) -> bool:
        most = self._options.max_cost_usd
        return bool(most) and self._options.paid_usd + self._records.bound_usd + usd > most

    async def _hand_in(self, bundle: RequestBundle) -> None:
        record = bundle.record(len(self._records.all) + 1, self._options.model, self._clock.now())
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
        requests = await self._requests.of_record(record, self._services[record.provider])
        record.count = len(requests)
        if not requests:
            record.state = COLLECTED
        await self._records.save(record)
        if requests:
            await self._submit(record, requests)

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
