"""Puts the replies of an ended batch into the rows of the parts that its pages are in."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from quire.bulk.ai_pass import AiPassOutcome, answered_row
from quire.bulk.batch_records import BatchPage, BatchRecord
from quire.bulk.page_rows import PageRow, needs_ai, read_rows, stats_of, to_parquet
from quire.bulk.shard_plan import part_name
from quire.bulk.source_documents import FetchedDocument, SourceDocuments
from quire.coordination.ai_admission import Target
from quire.dispatch.answer_checks import check
from quire.dispatch.candidates import Candidate
from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered
from quire.errors import DocumentError, MissingError, PageError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread
from quire.pipeline.page_vision import PageVision
from quire.providers.batch_services import PRICE_SHARE, BatchReply
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage
from quire.reading.pdf.grounding import GroundedAnswer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchPrices:
    """The prices of tokens in a batch."""

    prices: PriceList

    def usd(self, provider: str, model: str, usage: TokenUsage) -> float:
        return self.prices.cost(provider, model, usage).usd * PRICE_SHARE


@dataclass(frozen=True, slots=True)
class BatchAnswers:
    """Counts what it does in `outcome`. Collecting a batch twice does no harm: rows that AI has read stay."""

    vision: PageVision
    source: SourceDocuments
    target: BulkLocation
    prices: BatchPrices
    formats: frozenset[str]
    outcome: AiPassOutcome

    async def collect(self, record: BatchRecord, replies: Sequence[BatchReply]) -> None:
        """Writes the parts again, one after the other. Raises ObjectsError where a store can't be used."""
        by_place = {place: one for one in replies if (place := record.place_of(one.request_id)) is not None}
        for shard in sorted({page.shard for page in record.pages}):
            rows = await rows_of_part(self.target, shard)
            places = {page_of(shard, row): place for place, row in enumerate(rows) if needs_ai(row)}
            answered: dict[str, list[tuple[int, BatchReply]]] = {}
            for number, page in enumerate(record.pages):
                if page in places and number in by_place:
                    answered.setdefault(page.key, []).append((places[page], by_place[number]))
            done = [await self._apply(record, rows, document) for document in answered.values()]
            if any(done):
                await self.target.put(part_name(shard), await in_thread(to_parquet, rows, stats_of(rows)))

    async def _apply(
        self, record: BatchRecord, rows: list[PageRow], answered: Iterable[tuple[int, BatchReply]]
    ) -> bool:
        """Replaces the rows of one document; says whether any was replaced."""
        good: list[tuple[int, BatchReply]] = []
        for place, reply in answered:
            if reply.answer is None:
                self.outcome.give_up(reply.error)
            else:
                good.append((place, reply))
        if not good:
            return False
        try:
            async with self.source.fetched(rows[good[0][0]]) as document:
                done = [await self._answer(record, rows, place, reply, document) for place, reply in good]
        except (MissingError, StateConflictError):  # paid for, and counts without its ground
            done = [await self._answer(record, rows, place, reply, None) for place, reply in good]
        return any(done)

    async def _answer(
        self,
        record: BatchRecord,
        rows: list[PageRow],
        place: int,
        reply: BatchReply,
        document: FetchedDocument | None,
    ) -> bool:
        row, answer = rows[place], reply.answer
        if answer is None:
            return False
        source = self.source.page(document, row) if document is not None else None
        usd = self.prices.usd(record.provider, record.model, answer.usage)
        verdict = check(answer, await _or(self.vision.layer(source), "") if source else "")
        self.outcome.cost_usd += usd
        if verdict.reason:
            record.rejected_usd += usd
            self.outcome.give_up(verdict.reason)
            return False
        usage, nothing = answer.usage, GroundedAnswer(b"")
        found = (
            await _or(self.vision.ground(source, answer.text, record.provider), nothing)
            if source
            else nothing
        )
        read = Answered(
            answer.text.strip(),
            Candidate(Target(record.provider, record.model), 0.0),
            verdict.confidence,
            Spent(calls=1, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, cost_usd=usd),
        )
        rows[place] = answered_row(row, read, found, self.formats)
        self.outcome.read += 1
        return True


async def rows_of_part(target: BulkLocation, shard: int) -> list[PageRow]:
    """Raises DamagedError where the part is damaged."""
    return await in_thread(read_rows, await target.get(part_name(shard)))


def page_of(shard: int, row: PageRow) -> BatchPage:
    return BatchPage(shard, row.key, row.etag, row.page)


async def _or(work: Awaitable[T], default: T) -> T:
    try:
        return await work
    except (DocumentError, PageError):
        return default
