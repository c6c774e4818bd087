"""The second pass of a bulk run: pages that local readers see badly are read by AI, and their rows are replaced.

Calls go through the dispatcher, so limits, breakers and ceilings hold over all processes on the same Redis. A part is
written again, atomically, when all its pages are answered or the pass stops. An answer is cached before it is used: a
pass that was killed does not pay for it again while the cache keeps it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from quire.bulk.answered_chunks import AnsweredChunks, elements_without_ground
from quire.bulk.page_rows import PAGE, PageRow, by_document, needs_ai, read_rows, stats_of, to_parquet
from quire.bulk.shard_plan import part_name
from quire.bulk.shard_reader import add_formats
from quire.bulk.source_documents import FetchedDocument, SourceDocuments
from quire.bulk.worker_process import document_options
from quire.dispatch.ledger import DOCUMENT_CEILING, TEAM_CEILING, Spent
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask
from quire.dispatch.waiting_policy import UNAVAILABLE
from quire.domain.page import PageSource, word_count
from quire.errors import (
    CoordinationError,
    DamagedError,
    DocumentError,
    MissingError,
    PageError,
    RequestError,
    StateConflictError,
)
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread
from quire.pipeline.page_vision import PageVision, VisionSource, answer_fingerprint, answer_source
from quire.pipeline.parts import Parts
from quire.pipeline.retry_delay import retry_delay_s
from quire.reading.grading.page_grade import judge_answer
from quire.reading.pdf.grounding import GroundedAnswer

_TEAM = "bulk"
_PAGES_AT_ONCE = 32
_DOCUMENTS_AT_ONCE = 8
_POLL_S = (0.05, 1.0)
_PATIENCE_S = 900.0
_LONGEST_PAUSE_S = 30.0
_AUTH = "auth"

MAX_COST = "max_cost"
NO_MODEL = "No AI provider is configured. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or leave out --ai."
_STOPS = {DOCUMENT_CEILING: MAX_COST, TEAM_CEILING: TEAM_CEILING, _AUTH: _AUTH}


@dataclass(slots=True)
class AiPassOutcome:
    """Pages by what became of them. `stopped` says why the pass ended before its last page; '' if it did not."""

    read: int = 0
    cached: int = 0
    failed: int = 0
    gone: int = 0
    """Pages of documents that have changed or vanished since they were read."""
    cost_usd: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    stopped: str = ""

    def give_up(self, reason: str) -> None:
        """Counts a page that keeps its local reading; the next run tries it again."""
        self.failed += 1
        self.failures[reason] = self.failures.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class AiPassOptions:
    """`account` is the name under which the cost of all passes of one target is booked.

    `spool` is a folder for copies of documents that the reader processes of the parts may read. `paid_usd` is what the
    rows say that earlier passes have paid; the account in Redis may be gone.
    """

    account: str
    spool: Path
    paid_usd: float = 0.0
    formats: frozenset[str] = frozenset()
    password: str | None = None


OnPage = Callable[[AiPassOutcome], None]


@dataclass(slots=True)
class _DocumentRows:
    """The rows of one document in a part. `answered` has the packed elements of pages that AI has read in this pass."""

    rows: list[PageRow]
    answered: dict[int, bytes] = field(default_factory=dict)


class AiPass:
    """Reads pages by AI, many at once. Raises RequestError where no provider is configured."""

    def __init__(
        self, parts: Parts, source: BulkLocation, target: BulkLocation, options: AiPassOptions
    ) -> None:
        if parts.ai is None:
            raise RequestError(NO_MODEL)
        self._parts = parts
        self._ai = parts.ai
        self._source = SourceDocuments(source, options.spool, options.password)
        self._target = target
        self._options = options
        self._vision = PageVision(parts)
        self._chunks = AnsweredChunks(
            parts.pool, self._vision, self._source, document_options(parts.settings, ocr=False)
        )
        self._pages = asyncio.Semaphore(_PAGES_AT_ONCE)
        self._documents = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)
        self.outcome = AiPassOutcome()

    async def run(self, shards: Sequence[int], on_page: OnPage) -> AiPassOutcome:
        """Reads what AI has not read in these shards. Raises ObjectsError where a store can't be used."""
        self._on_page = on_page
        await self._ai.dispatcher.preload()
        await self._ai.dispatcher.ledger.open_job(self._options.account, self._options.paid_usd)
        for shard in shards:
            if self.outcome.stopped:
                break
            await self._shard(shard)
        return self.outcome

    async def _shard(self, shard: int) -> None:
        name = part_name(shard)
        rows = await in_thread(read_rows, await self._target.get(name))
        documents = [_DocumentRows(one) for one in by_document(rows)]
        waiting = [one for one in documents if any(map(needs_ai, one.rows))]
        async with asyncio.TaskGroup() as group:
            for one in waiting:
                group.create_task(self._document(one))
        if any(one.answered for one in waiting):
            new = [row for one in documents for row in one.rows]
            await self._target.put(name, await in_thread(lambda: to_parquet(new, stats_of(new))))

    async def _document(self, found: _DocumentRows) -> None:
        """Replaces the rows of one document, as far as they are answered."""
        async with self._documents:
            if self.outcome.stopped:
                return
            places = [place for place, row in enumerate(found.rows) if needs_ai(row)]
            try:
                async with self._source.fetched(found.rows[0]) as document:
                    async with asyncio.TaskGroup() as group:
                        for place in places:
                            group.create_task(self._page(document, found, place))
                    if found.answered and "chunks" in self._options.formats:
                        await self._chunks.cut_again(document, found.rows, found.answered)
            except (MissingError, StateConflictError):
                self.outcome.gone += len(places)

    async def _page(self, document: FetchedDocument, rows: _DocumentRows, place: int) -> None:
        async with self._pages:
            if self.outcome.stopped:
                return
            row = rows.rows[place]
            source = self._source.page(document, row)
            task = self._task(document, source, row)
            answer = await self._answer(task)
            if answer is None:
                return
            if answer_source(answer) is PageSource.OCR:  # the last candidate, which has read the page before
                self._give_up(Exhausted((UNAVAILABLE,), answer.spent, retryable=True))
                return
            found = await self._grounded(source, answer)
            await self._ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
            rows.rows[place] = answered_row(row, answer, found, self._options.formats)
            rows.answered[row.page] = found.elements
            self.outcome.read += 1
            self.outcome.cached += answer.cached
            self.outcome.cost_usd += answer.spent.cost_usd
            self._on_page(self.outcome)

    def _task(self, document: FetchedDocument, source: VisionSource, row: PageRow) -> PageTask:
        settings = self._parts.settings
        held: list[PagePicture] = []

        async def prepare() -> PagePicture:
            if not held:
                held.append(await self._vision.picture(source, row.markdown or ""))
            return held[0]

        def fingerprint(model: str) -> str:
            page = (_TEAM, document.sha256, row.page, model)
            return answer_fingerprint(self._parts.sealer, settings, settings.ai.system_prompt, *page)

        return PageTask(
            job_id=self._options.account,
            epoch=int(document.sha256[:12], 16),  # with the page's number, the page's own account
            number=row.page,
            team=_TEAM,
            instructions=settings.ai.system_prompt,
            engine=None,
            tier=None,
            deadline_at=None,
            prepare=prepare,
            prepared=False,
            fingerprint=fingerprint,
            redraw=lambda dpi: self._vision.redraw(source, dpi),
        )

    async def _answer(self, task: PageTask) -> Answered | None:
        """The answer; None if the page is left as it is: no model could read it, or the pass has stopped."""
        failures, waited_s = 0, 0.0
        while not self.outcome.stopped:
            try:
                outcome = await self._ai.dispatcher.read(task)
            except CoordinationError as error:
                outcome = Exhausted((error.code,), Spent(), retryable=True)
            except (PageError, DocumentError) as error:
                outcome = Exhausted((error.code,), Spent(), retryable=error.retryable)
            if isinstance(outcome, Answered):
                return outcome
            if not isinstance(outcome, Exhausted):
                least, most = _POLL_S
                await asyncio.sleep(max(least, min(outcome.wait_s, most)))
                continue
            stop = next((_STOPS[one] for one in outcome.reasons if one in _STOPS), "")
            if stop:
                self.outcome.stopped = self.outcome.stopped or stop
                return None
            failures += 1
            away = outcome.reasons[-1:] in ((UNAVAILABLE,), (CoordinationError.code,))
            if away:
                pause_s = min(2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_S)
                over = waited_s + pause_s > _PATIENCE_S
            else:
                pause_s = retry_delay_s(failures, self._parts.settings.jobs)
                over = not outcome.retryable or failures >= self._parts.settings.jobs.max_attempts
            if over:
                self._give_up(outcome)
                return None
            if not away:
                again = replace(outcome.spent, seconds=0.0, reasons=(), waiting_since=0.0)
                await self._ai.dispatcher.another_round(task, again)
            waited_s += pause_s
            await asyncio.sleep(pause_s)
        return None

    def _give_up(self, outcome: Exhausted) -> None:
        self.outcome.give_up(outcome.reasons[-1] if outcome.reasons else UNAVAILABLE)
        self.outcome.cost_usd += outcome.spent.cost_usd
        self._on_page(self.outcome)

    async def _grounded(self, source: VisionSource, answer: Answered) -> GroundedAnswer:
        try:
            return await self._vision.ground(source, answer.text, answer.candidate.provider)
        except (
            DocumentError,
            PageError,
            DamagedError,
        ):  # the answer is paid for, and counts without its ground
            return await elements_without_ground(self._vision, source.number, answer.text)


def answered_row(row: PageRow, answer: Answered, found: GroundedAnswer, formats: frozenset[str]) -> PageRow:
    """Returns the row of a page with what AI read on it."""
    spent, text = answer.spent, found.text(answer.text)
    judged = judge_answer(found.evidence, answer.confidence)
    new = replace(
        row,
        kind=PAGE,
        markdown=text,
        source=answer_source(answer).value,
        reader=answer.candidate.name,
        grade=judged.grade.value if judged.grade else None,
        reasons=tuple(dict.fromkeys((*row.reasons, *spent.reasons, *judged.reasons))),
        confidence=judged.confidence,
        words=word_count(text),
        tokens_in=row.tokens_in + spent.tokens_in,
        tokens_out=row.tokens_out + spent.tokens_out,
        cost_usd=row.cost_usd + spent.cost_usd,
        milliseconds=row.milliseconds + round(spent.seconds * 1000),
        error_code=None,
        error=None,
        text=None,
        html=None,
        elements=None,
    )
    add_formats(new, found.elements, formats)
    return new


def account_name(target: str) -> str:
    """Returns the name of the account on which all AI calls for a target are booked."""
    return f"bulk-{hashlib.sha256(target.encode()).hexdigest()[:32]}"
