"""A page read by AI: passed to the dispatcher, parked if no model is free, recorded with its cost."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from quire.coordination.job_records import Claim
from quire.coordination.streams import FailedCall
from quire.coordination.waiting_pages import Waiting
from quire.dispatch.dispatcher import Dispatcher
from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask, Parked
from quire.dispatch.recovery_probes import RecoveryProbes
from quire.domain.job import JobStatus, PageRecord
from quire.domain.page import word_count
from quire.errors import CoordinationError, DocumentError, MissingError, ObjectsError, PageError
from quire.pipeline.answer_headings import answer_headings
from quire.pipeline.object_keys import chunk_key, local_document
from quire.pipeline.page_vision import (
    PageVision,
    VisionSource,
    answer_fingerprint,
    answer_source,
    is_trusted,
)
from quire.pipeline.plane_outages import outlast
from quire.pipeline.side_tasks import keep_running
from quire.reading.grading.page_grade import judge_answer
from quire.reading.pdf.grounding import GroundedAnswer

if TYPE_CHECKING:
    from quire.pipeline.parts import Parts
from quire.pipeline.retry_delay import retry_delay_s

T = TypeVar("T")

SECOND_OPINION = "second_opinion"

_PICTURES_BYTES = 64 << 20
_POOR_SUPPORT = 0.6
_WAKE_EVERY_S = 0.1
_WAKE_ANYWAY_S = 10.0
"""For pages of other processes, each of which wakes its own."""


class Pictures:
    """Pictures of pages that found no free model, kept so that they are not drawn again."""

    def __init__(self, max_bytes: int = _PICTURES_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, int], PagePicture] = OrderedDict()
        self._bytes = 0

    def get(self, job_id: str, number: int) -> PagePicture | None:
        return self._held.get((job_id, number))

    def put(self, job_id: str, number: int, picture: PagePicture) -> None:
        self.drop(job_id, number)
        self._held[job_id, number] = picture
        self._bytes += _size(picture)
        while self._bytes > self._max_bytes:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= _size(oldest)

    def drop(self, job_id: str, number: int) -> None:
        found = self._held.pop((job_id, number), None)
        if found is not None:
            self._bytes -= _size(found)


@dataclass(frozen=True, slots=True)
class AiReading:
    """The parts of the AI route; None in Parts if no provider is configured."""

    dispatcher: Dispatcher
    waiting: Waiting
    pictures: Pictures

    def side_tasks(
        self, ready: asyncio.Event, recovery_probe_s: float
    ) -> dict[str, Coroutine[Any, Any, None]]:
        """Returns what a process that reads AI pages runs beside its worker, by name."""
        return {
            "ai-wake": keep_running("ai-wake", self.wake_periodically),
            "ai-preload": self._preload(ready),
            "ai-recovery": keep_running("ai-recovery", partial(self.probe_broken_models, recovery_probe_s)),
        }

    async def _preload(self, ready: asyncio.Event) -> None:
        """Not before the process is ready: imports and the start compete for one interpreter lock."""
        await ready.wait()
        await self.dispatcher.preload()

    async def wake_periodically(self) -> None:
        """Wakes waiting pages when a model becomes free without a call ending: a breaker's or a limit's time is over.

        The end of a call wakes pages at once; but while every call hangs, none ends. Runs until cancelled.
        """
        while True:
            await self.waiting.pause(_WAKE_EVERY_S, _WAKE_ANYWAY_S)
            with suppress(CoordinationError):
                if await self.waiting.length():
                    await self.waiting.wake(await self.dispatcher.room())

    async def probe_broken_models(self, interval_s: float) -> None:
        """Makes recovery probes until cancelled; returns at once if interval_s is 0."""
        one = self.dispatcher
        probes = RecoveryProbes(
            one.candidates, one.providers, one.admission, self.waiting.resume_recovering, interval_s
        )
        await probes.run()


class Question(Protocol):
    """A question about a page other than "what is its text?"."""

    def instructions(self, prompt: str | None) -> str:
        """Returns the system prompt, given the caller's own prompt."""
        ...

    def apply_to(self, task: PageTask) -> PageTask:
        """Returns the task with the schema and the judge of this question."""
        ...

    async def picture(self) -> PagePicture:
        """Returns the picture to send. Raises PageError if there is none."""
        ...

    async def page(self, answer: str) -> str:
        """Returns the page's Markdown, given an accepted answer."""
        ...

    async def elements(self, markdown: str) -> GroundedAnswer:
        """Returns the page's elements, given that Markdown. Raises DocumentError or PageError."""
        ...


class AiPage:
    """One claimed page in the dispatcher. `local` is the page's record from local reading."""

    def __init__(
        self,
        claim: Claim,
        parts: Parts,
        ai: AiReading,
        local: PageRecord,
        question: Question | None = None,
    ) -> None:
        self._claim = claim
        self._parts = parts
        self._ai = ai
        self._local = local
        self._question = question
        self._vision = PageVision(parts)
        self._secrets = parts.sealer.unseal(claim.job.id, claim.job.sealed)
        self._started_at = parts.clock.now()

    async def read(self) -> PageRecord | Exhausted | None:
        """Returns the page's record with its text stored; Exhausted if AI failed; None if the page was parked."""
        job, number = self._claim.job, self._local.number
        task = self._task()
        try:
            outcome = await self._ai.dispatcher.read(task)
        except PageError as error:
            if error.retryable:
                raise
            outcome = Exhausted((error.code,), Spent(), retryable=False)
        if isinstance(outcome, Answered):
            if self._question is not None:
                outcome = replace(outcome, text=await self._question.page(outcome.text))
            found = await self._outlast(partial(self._elements, outcome))
            if self._wants_second_opinion(outcome, found):
                outcome, found = await self._second_opinion(task, outcome, found)
            self._ai.pictures.drop(job.id, number)
            record = await self._outlast(partial(self._record, outcome, found))
            if self._claim.tried or outcome.spent.calls > 1:  # else nothing is stored about its calls
                await self._ai.dispatcher.ledger.forget(job.id, self._claim.hint.epoch, number)
            return record
        if isinstance(outcome, Parked):
            wait_s = outcome.wait_s
            if job.deadline_at is not None:
                wait_s = min(wait_s, max(0.0, job.deadline_at - self._parts.clock.now()))
            await self._ai.waiting.park(
                self._claim, wait_s, in_line=outcome.in_line, tried=self._claim.tried or outcome.tried
            )
            return None
        if outcome.retryable and await self._try_again(task, outcome):
            return None
        self._ai.pictures.drop(job.id, number)
        return outcome

    async def _outlast(self, call: Callable[[], Awaitable[T]]) -> T:
        """An answer is paid for: it waits for an object store that is away, and the call is not repeated."""
        return await outlast(call, self._parts.clock, self._claim.job.deadline_at)

    def _wants_second_opinion(self, answer: Answered, found: GroundedAnswer) -> bool:
        is_poor = found.support is not None and found.support < _POOR_SUPPORT
        asks = self._parts.settings.ai.second_opinion and self._question is None
        return asks and is_poor and not answer.cached

    async def _second_opinion(
        self, task: PageTask, first: Answered, found: GroundedAnswer
    ) -> tuple[Answered, GroundedAnswer]:
        """The better supported of two answers; the first if no other model answers now. Both are paid for."""
        tried = replace(first.spent, tried=(*first.spent.tried, first.candidate.name))
        await self._ai.dispatcher.ledger.keep(task.job_id, task.epoch, task.number, tried)
        try:
            second = await self._ai.dispatcher.read(replace(task, fingerprint=None, untried=False))
        except PageError:
            return first, found
        if not isinstance(second, Answered):
            return first, found
        again = await self._elements(second)
        asked = replace(second.spent, reasons=(*second.spent.reasons, SECOND_OPINION))
        if (again.support or 0.0) > (found.support or 0.0):
            return replace(second, spent=asked), again
        return replace(first, spent=asked), found

    async def _try_again(self, task: PageTask, outcome: Exhausted) -> bool:
        """Parks the page for another round, if it has one left and the deadline leaves room."""
        jobs = self._parts.settings.jobs
        failures = self._claim.failures + 1
        if failures >= jobs.max_attempts:
            return False
        at = self._parts.clock.now() + retry_delay_s(failures, jobs)
        deadline = self._claim.job.deadline_at
        if deadline is not None and at >= deadline:
            return False
        await self._ai.dispatcher.another_round(task, outcome.spent)
        await self._parts.jobs.park(self._claim, at, failed=True)
        return True

    def _task(self) -> PageTask:
        job, ai = self._claim.job, self._parts.settings.ai
        instructions = self._secrets.prompt or ai.system_prompt
        if self._question is not None:
            instructions = self._question.instructions(self._secrets.prompt)
        task = PageTask(
            job_id=job.id,
            epoch=self._claim.hint.epoch,
            number=self._local.number,
            team=job.team,
            instructions=instructions,
            engine=job.options.engine,
            tier=job.options.model_tier,
            deadline_at=job.deadline_at,
            prepare=self._picture,
            prepared=self._ai.pictures.get(job.id, self._local.number) is not None,
            fingerprint=(lambda model: self._fingerprint(model, instructions)) if job.sha256 else None,
            owner=job.id,
            redraw=self._redraw,
            payer=job.payer,
            untried=not self._claim.tried,
        )
        return task if self._question is None else self._question.apply_to(task)

    def _fingerprint(self, model: str, instructions: str) -> str:
        """A retried page gets a new one."""
        job, epoch = self._claim.job, self._claim.hint.epoch
        again = (job.id, epoch) if epoch > 1 else ()
        page = (job.team, job.sha256, self._local.number, model, *again)
        return answer_fingerprint(self._parts.sealer, self._parts.settings, instructions, *page)

    async def _picture(self) -> PagePicture:
        job, number = self._claim.job, self._local.number
        found = self._ai.pictures.get(job.id, number)
        if found is not None:
            return found
        if self._question is not None:
            picture = await self._question.picture()
            self._ai.pictures.put(job.id, number, picture)
            return picture
        hint = self._parts.settings.ai.page_text == "elements" and self._is_trusted
        elements = await self._local_text() if hint else ""
        async with self._source() as source:
            picture = await self._vision.picture(source, elements)
        self._ai.pictures.put(job.id, number, picture)
        return picture

    @asynccontextmanager
    async def _source(self) -> AsyncIterator[VisionSource]:
        """The page in a local copy of the document."""
        async with local_document(self._parts.objects, self._claim.job.content_ref or "") as path:
            yield VisionSource(str(path), self._secrets.password, self._local.number, self._is_trusted)

    @property
    def _is_trusted(self) -> bool:
        return is_trusted(self._local.page_class, self._local.grade)

    async def _local_text(self) -> str:
        """The Markdown of the elements that were found here; nothing where there is none, or its object is gone."""
        local = self._local
        if not local.ref or not local.words or not local.length:
            return ""
        try:
            parts = self._parts.objects.stream(local.ref, start=local.offset, end=local.offset + local.length)
            return b"".join([part async for part in parts]).decode("utf-8", "replace")
        except (ObjectsError, DocumentError, MissingError):
            return ""

    async def _redraw(self, dpi: int) -> bytes:
        async with self._source() as source:
            return await self._vision.redraw(source, dpi)

    async def _record(self, answer: Answered, found: GroundedAnswer) -> PageRecord:
        claim, spent = self._claim, answer.spent
        text = found.text(answer.text)
        block = text.encode("utf-8", "replace")
        judged = judge_answer(found.evidence, answer.confidence)
        headings = await answer_headings(self._parts.objects, self._local, answer.text, found.elements)
        key = chunk_key(claim.job.id, claim.hint.epoch, claim.hint.unit, claim.token)
        await self._parts.objects.put(key, block + found.elements)
        return PageRecord(
            number=self._local.number,
            status=JobStatus.COMPLETED,
            source=answer_source(answer),
            page_class=self._local.page_class,
            reasons=tuple(dict.fromkeys((*self._local.reasons, *spent.reasons, *judged.reasons))),
            provider=answer.candidate.provider,
            model=answer.candidate.target.model,
            attempts=spent.calls,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            cost_usd=spent.cost_usd,
            confidence=judged.confidence,
            words=word_count(text),
            started_at=self._started_at,
            completed_at=self._parts.clock.now(),
            ref=key,
            length=len(block),
            elements_offset=len(block) if found.elements else 0,
            elements_length=len(found.elements),
            ungrounded=found.ungrounded,
            ungrounded_numbers=found.ungrounded_numbers,
            words_missing=found.words_missing,
            grade=judged.grade,
            headings=headings,
        )

    async def _elements(self, answer: Answered) -> GroundedAnswer:
        """The answer's elements, compared with the page's words. An answer that breaks this has none."""
        try:
            if self._question is not None:
                return await self._question.elements(answer.text)
            async with self._source() as source:
                return await self._vision.ground(source, answer.text, answer.candidate.provider)
        except (DocumentError, PageError):
            return GroundedAnswer(b"")  # the answer is paid for, and counts without its elements


def with_spent(record: PageRecord, outcome: Exhausted) -> PageRecord:
    """Returns the fallback record with the cost of the failed AI calls and their reasons."""
    spent = outcome.spent
    return replace(
        record,
        reasons=tuple(dict.fromkeys((*record.reasons, *outcome.reasons))),
        attempts=max(spent.calls, 1),
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost_usd=spent.cost_usd,
    )


def failed_call(outcome: Exhausted) -> FailedCall:
    """Returns the last failed call of a page, for its dead letter."""
    provider, _, model = outcome.spent.last.partition(":")
    return FailedCall(provider, model, outcome.spent.calls, outcome.spent.last_error)


def _size(picture: PagePicture) -> int:
    return len(picture.image) + len(picture.text) + len(picture.layer) + sum(map(len, picture.crops))
