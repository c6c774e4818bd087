"""Puts the replies of an ended batch into the rows of the parts that its pages are in."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from quire.bulk.ai_pass import AiPassOutcome, answered_row
from quire.bulk.answered_chunks import AnsweredChunks, elements_without_ground
from quire.bulk.batch_records import BatchPage, BatchRecord
from quire.bulk.page_rows import PageRow, by_document, needs_ai, read_rows, stats_of, to_parquet
from quire.bulk.shard_plan import part_name
from quire.bulk.source_documents import FetchedDocument, SourceDocuments
from quire.coordination.ai_admission import Target
from quire.dispatch.answer_checks import check, visible_text
from quire.dispatch.candidates import Candidate
from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered
from quire.errors import DocumentError, MissingError, PageError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread
from quire.pipeline.page_vision import PageVision, VisionSource
from quire.providers.batch_services import PRICE_SHARE, BatchReply
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage, VisionAnswer

T = TypeVar("T")
D = TypeVar("D")


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
    chunks: AnsweredChunks
    outcome: AiPassOutcome

    async def collect(self, record: BatchRecord, replies: Sequence[BatchReply]) -> None:
        """Writes the parts again, one after the other. Raises ObjectsError where a store can't be used."""
        replies_by_page = {
            record.pages[place]: one
            for one in replies
            if (place := record.place_of(one.request_id)) is not None
        }
        for shard in sorted({page.shard for page in record.pages}):
            documents = by_document(await rows_of_part(self.target, shard))
            done = [
                await self._apply(record, rows, self._answers(shard, rows, replies_by_page))
                for rows in documents
            ]
            if any(done):
                new = [row for rows in documents for row in rows]
                await self.target.put(part_name(shard), await in_thread(to_parquet, new, stats_of(new)))

    def _answers(
        self, shard: int, rows: Sequence[PageRow], replies: Mapping[BatchPage, BatchReply]
    ) -> dict[int, VisionAnswer]:
        """The answers for rows that still need them, by the place of the row."""
        found: dict[int, VisionAnswer] = {}
        for place, row in enumerate(rows):
            reply = replies.get(page_of(shard, row)) if needs_ai(row) else None
            if reply is not None and reply.answer is not None:
                found[place] = reply.answer
            elif reply is not None:
                self.outcome.give_up(reply.error)
        return found

    async def _apply(
        self, record: BatchRecord, rows: list[PageRow], found: Mapping[int, VisionAnswer]
    ) -> bool:
        """Replaces rows of one document at these places; says whether any was replaced."""
        if not found:
            return False
        try:
            async with self.source.fetched(rows[0]) as document:
                return await self._replace(record, rows, found, document)
        except (MissingError, StateConflictError):  # paid for, and counts without its ground
            return await self._replace(record, rows, found, None)

    async def _replace(
        self,
        record: BatchRecord,
        rows: list[PageRow],
        found: Mapping[int, VisionAnswer],
        document: FetchedDocument | None,
    ) -> bool:
        answered: dict[int, bytes] = {}
        for place, answer in found.items():
            source = self.source.page(document, rows[place]) if document is not None else None
            elements = await self._answer(record, rows, place, answer, source)
            if elements is not None:
                answered[rows[place].page] = elements
        if answered and "chunks" in self.formats:
            await self.chunks.cut_again(document, rows, answered)
        return bool(answered)

    async def _answer(
        self,
        record: BatchRecord,
        rows: list[PageRow],
        place: int,
        answer: VisionAnswer,
        source: VisionSource | None,
    ) -> bytes | None:
        """Replaces one row and returns its packed elements; None where the answer is rejected."""
        row = rows[place]
        usd = self.prices.usd(record.provider, record.model, answer.usage)
        answer = replace(answer, text=visible_text(answer.text))
        verdict = check(answer, await _or(self.vision.layer(source), "") if source else "")
        self.outcome.cost_usd += usd
        if verdict.reason:
            record.rejected_usd += usd
            self.outcome.give_up(verdict.reason)
            return None
        usage, found = answer.usage, None
        if source is not None:
            found = await _or(self.vision.ground(source, answer.text, record.provider), None)
        if found is None:
            found = await elements_without_ground(self.vision, row.page, answer.text)
        read = Answered(
            answer.text.strip(),
            Candidate(Target(record.provider, record.model), 0.0),
            verdict.confidence,
            Spent(calls=1, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, cost_usd=usd),
        )
        rows[place] = answered_row(row, read, found, self.formats)
        self.outcome.read += 1
        return found.elements


async def rows_of_part(target: BulkLocation, shard: int) -> list[PageRow]:
    """Raises DamagedError where the part is damaged."""
    return await in_thread(read_rows, await target.get(part_name(shard)))


def page_of(shard: int, row: PageRow) -> BatchPage:
    return BatchPage(shard, row.key, row.etag, row.page)


async def _or(work: Awaitable[T], default: D) -> T | D:
    try:
        return await work
    except (DocumentError, PageError):
        return default
