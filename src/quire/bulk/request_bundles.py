"""The requests of AI batches: pages drawn for a model, each with an estimate of its price, in bundles for a batch."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field

from quire.bulk.ai_pass import AiPassOutcome
from quire.bulk.batch_answers import BatchPrices, page_of, rows_of_part
from quire.bulk.batch_records import BatchPage, BatchRecord
from quire.bulk.page_rows import PageRow, by_document, needs_ai
from quire.bulk.source_documents import SourceDocuments
from quire.dispatch.ledger import Size, estimate
from quire.errors import DocumentError, MissingError, PageError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.pipeline.page_vision import PageVision, VisionSource
from quire.providers.batch_services import BatchService
from quire.providers.provider_protocol import VisionRequest
from quire.settings.ai_settings import AiSettings

_BATCH_BYTES = 48 << 20
_BATCH_PAGES = 2_000


@dataclass(frozen=True, slots=True)
class PricedRequest:
    """The request for one page. `usd` is a generous estimate."""

    page: BatchPage
    request: VisionRequest
    usd: float


@dataclass(slots=True)
class RequestBundle:
    """Requests that go into one batch."""

    service: BatchService
    token: str = field(default_factory=lambda: secrets.token_hex(10))
    pages: list[BatchPage] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    usd: float = 0.0
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self._bytes > _BATCH_BYTES or len(self.requests) >= _BATCH_PAGES

    def add(self, one: PricedRequest) -> None:
        encoded = self.service.encode(f"{self.token}-{len(self.pages)}", one.request)
        self.pages.append(one.page)
        self.requests.append(encoded)
        self.usd += one.usd
        self._bytes += len(encoded)

    def record(self, number: int, model: str, now: float) -> BatchRecord:
        """Returns the record to store before the batch is handed in."""
        return BatchRecord(
            number=number,
            token=self.token,
            provider=self.service.name,
            model=model,
            created_at=now,
            reserved_usd=self.usd,
            count=len(self.requests),
            pages=self.pages,
        )


@dataclass(frozen=True, slots=True)
class BatchRequests:
    """Draws pages of the rows in a target. Pages that can't be drawn are counted in `outcome` and left out."""

    ai: AiSettings
    vision: PageVision
    source: SourceDocuments
    target: BulkLocation
    prices: BatchPrices
    provider: str
    model: str
    outcome: AiPassOutcome

    async def of_shard(self, shard: int, left_out: Collection[BatchPage]) -> AsyncIterator[PricedRequest]:
        """Yields requests for the pages that AI has not read, document by document."""
        rows = await rows_of_part(self.target, shard)
        wanted = (row for row in rows if needs_ai(row) and page_of(shard, row) not in left_out)
        for document in by_document(wanted):
            for one in await self._of_document(shard, document):
                yield one

    async def of_record(self, record: BatchRecord, service: BatchService) -> list[bytes]:
        """Returns the requests of a record, drawn again, without pages that are gone or were read meanwhile."""
        places = {page: place for place, page in enumerate(record.pages)}
        found: list[bytes] = []
        for shard in sorted({page.shard for page in record.pages}):
            rows = await rows_of_part(self.target, shard)
            wanted = (row for row in rows if page_of(shard, row) in places and needs_ai(row))
            for document in by_document(wanted):
                for one in await self._of_document(shard, document):
                    found.append(service.encode(record.request_id(places[one.page]), one.request))
        return found

    async def _of_document(self, shard: int, rows: Sequence[PageRow]) -> list[PricedRequest]:
        try:
            async with self.source.fetched(rows[0]) as document:
                found = await asyncio.gather(
                    *(
                        self._of_page(page_of(shard, row), row, self.source.page(document, row))
                        for row in rows
                    )
                )
        except (MissingError, StateConflictError):
            self.outcome.gone += len(rows)
            return []
        return [one for one in found if one is not None]

    async def _of_page(self, page: BatchPage, row: PageRow, source: VisionSource) -> PricedRequest | None:
        try:
            picture = await self.vision.picture(source, row.markdown or "")
        except (PageError, DocumentError) as error:
            self.outcome.give_up(error.code)
            return None
        request = VisionRequest(
            model=self.model,
            instructions=self.ai.system_prompt,
            text=picture.text,
            image=picture.image,
            image_mime=picture.mime,
            max_tokens_out=self.ai.max_tokens_out,
            timeout_s=0.0,
            crops=picture.crops,
        )
        size = Size(
            len(request.text) + len(request.instructions),
            len(picture.layer or picture.text),
            picture.pixels,
        )
        guess = estimate(size, self.ai.max_tokens_out)
        return PricedRequest(page, request, self.prices.usd(self.provider, self.model, guess))
