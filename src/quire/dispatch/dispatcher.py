"""One page, read by the first model that is free and answers well.

A worker never waits here: where no candidate is free the page is handed back with the time to come again. Every
call is admitted before and settled after, whatever comes of it, and what it cost is kept before anything else.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from quire.clock import Clock
from quire.coordination.ai_admission import Admission, Ask, Busy, CallOutcome, Free, Lease, Why
from quire.dispatch.answer_cache import AnswerCache, CachedAnswer
from quire.dispatch.call_outcomes import Counting, NotCounting, ending_of, told_by
from quire.dispatch.candidates import Candidate, Candidates
from quire.dispatch.ledger import Ledger, Size, Spent, estimate
from quire.dispatch.page_task import Answered, Exhausted, Outcome, PagePicture, PageTask, Parked
from quire.errors import CoordinationError, ObjectsError
from quire.providers import configured_providers
from quire.providers.provider_protocol import (
    ContentBlockedError,
    ModelMissingError,
    Provider,
    ProviderAuthError,
    ProviderError,
    ProviderNetworkError,
    ProviderTimeoutError,
    RejectedError,
    SeenLimits,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_FINISH_S = 10.0
_LEAST_CALL_S = 0.5
"""A call that can't have this much time isn't worth making."""
_AFTER_DEADLINE_S = 2.0
_ROOM_USED = 8
_TYPICAL = Size(characters=5_000, own_characters=3_000, pixels=850 * 1100)

OUT_OF_TIME = "page_timeout"
UNAVAILABLE = "ai_unavailable"
_PAGES_ONLY = (configured_providers.OCR, configured_providers.DOLPHIN)


Wake = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    page_total_timeout_s: float = 120.0
    max_tokens_out: int = 8192


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One call: who is asked for what, by which right, after what was spent before."""

    task: PageTask
    picture: PagePicture
    candidate: Candidate
    lease: Lease
    spent: Spent
    reserved_usd: float


class Dispatcher:
    """Safe for many pages at once. `wake` is told how many waiting pages could go now."""

    def __init__(
        self,
        *,
        candidates: Candidates,
        providers: dict[str, Provider],
        admission: Admission,
        ledger: Ledger,
        cache: AnswerCache,
        clock: Clock,
        options: DispatchOptions,
        wake: Wake,
        counting: Counting | None = None,
    ) -> None:
        self.candidates = candidates
        self.admission = admission
        self.ledger = ledger
        self.providers = providers
        self._cache = cache
        self._clock = clock
        self._options = options
        self._wake = wake
        self._counting = counting or NotCounting()

    async def read(self, task: PageTask) -> Outcome:
        """Raises CoordinationError where the coordination server is away, and PageError where there is no picture."""
        outcome = await self._read(task)
        if isinstance(outcome, Parked):
            self._counting.page_parked()
        elif isinstance(outcome, Answered) and outcome.cached:
            self._counting.page_from_cache()
        return outcome

    async def _read(self, task: PageTask) -> Outcome:
        every = self._every(task)
        if not every:
            return self._exhausted(Spent(reasons=(UNAVAILABLE,)), retryable=False)
        cached = await self._cached(task, every)
        if cached is not None:
            return cached
        if task.prepared and self._until_deadline(task) >= _LEAST_CALL_S:
            return await self._ask_at_once(task, every)
        spent = await self.ledger.spent(task.job_id, task.epoch, task.number)
        # Drawing a page is much work for nothing if no model is free.
        seen = await self.admission.look(
            _asks(_left(every, spent) or every, _TYPICAL, self._tokens_out(task))
        )
        if isinstance(seen, Busy):
            return self._busy(task, seen, spent)
        picture = await task.prepare()
        return await self._ask_in_turn(task, every, picture, spent)

    async def _ask_at_once(self, task: PageTask, every: Sequence[Candidate]) -> Outcome:
        """A page that only waits for a slot takes it in the same round trip in which its past is looked up."""
        picture = await task.prepare()
        spent, lease = await asyncio.gather(
            self.ledger.spent(task.job_id, task.epoch, task.number),
            self.admission.admit(_asks(every, _size(task, picture), self._tokens_out(task))),
        )
        if spent.calls:  # not its first time here: the usual way knows whom to leave out
            if isinstance(lease, Lease):
                await self._settle(lease, CallOutcome.UNSENT)
            return await self._ask_in_turn(task, every, picture, spent)
        if isinstance(lease, Busy):
            return self._busy(task, lease, spent)
        outcome = await self._call(self._attempt(task, picture, every[lease.place], lease, spent))
        if not isinstance(outcome, Spent):
            return outcome
        return await self._ask_in_turn(task, every, picture, outcome)

    async def _ask_in_turn(
        self, task: PageTask, every: Sequence[Candidate], picture: PagePicture, spent: Spent
    ) -> Outcome:
        while True:
            left = _left(every, spent)
            if not left:
                return self._exhausted(spent)
            if self._total_s(task) - spent.seconds < _LEAST_CALL_S:
                return self._exhausted(replace(spent, reasons=(*spent.reasons, OUT_OF_TIME)), retryable=False)
            if self._until_deadline(task) < _LEAST_CALL_S:
                return Parked(max(0.0, self._until_deadline(task)), in_line=False)
            lease = await self.admission.admit(_asks(left, _size(task, picture), self._tokens_out(task)))
            if isinstance(lease, Busy):
                return self._busy(task, lease, spent)
            outcome = await self._call(self._attempt(task, picture, left[lease.place], lease, spent))
            if not isinstance(outcome, Spent):
                return outcome
            spent = outcome

    def _attempt(
        self, task: PageTask, picture: PagePicture, candidate: Candidate, lease: Lease, spent: Spent
    ) -> _Attempt:
        guess = estimate(_size(task, picture), self._tokens_out(task))
        return _Attempt(task, picture, candidate, lease, spent, self.ledger.price(lease.target, guess))

    async def room(self) -> int:
        """How many pages that ask for nothing special could go now, up to a handful."""
        every = self.candidates.of(None, None)
        asks = _asks(every, _TYPICAL, self._options.max_tokens_out)
        if not isinstance(await self.admission.look(asks), Free):
            return 0
        states = await self.admission.states([one.target for one in every])
        slots = sum(max(0, one.cap - one.in_flight) for one in states if one.state == "closed")
        return max(1, min(slots, _ROOM_USED))

    @property
    def answers_questions(self) -> bool:
        """Whether any provider can be asked something else than what stands on a page."""
        return any(name not in _PAGES_ONLY for name in self.candidates.providers)

    async def another_round(self, task: PageTask, spent: Spent) -> None:
        """Every candidate may be tried again; what was spent stays."""
        await self.ledger.keep(task.job_id, task.epoch, task.number, replace(spent, tried=()))

    async def close(self) -> None:
        for provider in self.providers.values():
            await provider.close()

    # ---- one call ------------------------------------------------------------------------------------------

    async def _call(self, attempt: _Attempt) -> Answered | Exhausted | Spent:
        """What was spent so far, if the answer does not count and another candidate is to be asked."""
        task, candidate, spent = attempt.task, attempt.candidate, attempt.spent
        ceiling = await self.ledger.reserve(task.job_id, task.team, attempt.reserved_usd)
        if ceiling:
            await self._settle(attempt.lease, CallOutcome.UNSENT)
            return self._exhausted(replace(spent, reasons=(*spent.reasons, ceiling)), retryable=False)
        timeout_s = min(candidate.timeout_s, self._total_s(task) - spent.seconds)
        # At the deadline the document takes its pages back and this call is stopped; the call's own time is
        # only there for the case that nobody does.
        timeout_s = min(timeout_s, self._until_deadline(task) + _AFTER_DEADLINE_S)
        request = VisionRequest(
            model=candidate.target.model,
            instructions=task.instructions,
            text=attempt.picture.text,
            image=attempt.picture.image,
            image_mime=attempt.picture.mime,
            max_tokens_out=self._tokens_out(task),
            timeout_s=timeout_s,
            answer=task.answer,
            team=task.team,
            attempt=f"{task.job_id}:{task.epoch}:{task.number}:{spent.calls}",
            redraw=task.redraw,
        )
        started = self._clock.monotonic()
        try:
            answer = await self.providers[candidate.provider].read(request)
        except ProviderError as error:
            # A call that was cut short by its page's or document's time says nothing about the model.
            cut_short = isinstance(error, ProviderTimeoutError) and timeout_s < candidate.timeout_s
            ending = CallOutcome.NEUTRAL if cut_short else ending_of(error)
            return await _finish(self._failed(attempt, error, ending, self._clock.monotonic() - started))
        except BaseException:
            # Stopped, or broken in a way nobody foresaw: the call may have been made.
            await _finish(self._abandon(attempt.lease))
            raise
        # From here on the answer is paid for: being stopped must not lose it.
        return await _finish(self._answered(attempt, answer, self._clock.monotonic() - started))

    async def _answered(self, attempt: _Attempt, answer: VisionAnswer, seconds: float) -> Answered | Spent:
        task, candidate, lease = attempt.task, attempt.candidate, attempt.lease
        used = answer.usage.tokens_in + answer.usage.tokens_out
        # First of all the slot goes to the next page.
        await self._settle(lease, CallOutcome.OK, tokens=used or lease.tokens, limits=answer.limits)
        verdict = task.judge(answer, attempt.picture.layer)
        usd = self.ledger.price(candidate.target, answer.usage)
        spent = attempt.spent.after(
            candidate.name, answer.usage, usd, seconds, verdict.reason, failed=bool(verdict.reason)
        )
        self._count(candidate, verdict.reason or "ok", seconds, answer.usage, usd)
        text = answer.text.strip()
        kept = None if verdict.reason else CachedAnswer(text, verdict.confidence)
        await asyncio.gather(
            self._keep(task, candidate, kept),
            self._account(attempt, spent, usd, answer.usage, keep=bool(verdict.reason)),
        )
        if verdict.reason:
            _LOG.info("answer rejected", extra={**_who(task, candidate), "code": verdict.reason})
            return spent
        return Answered(text, candidate, verdict.confidence, spent)

    async def _keep(self, task: PageTask, candidate: Candidate, answer: CachedAnswer | None) -> None:
        """If this process dies before the page is recorded, whoever repeats the page finds the answer here."""
        if answer is not None and task.fingerprint is not None:
            with suppress(CoordinationError, ObjectsError):
                await self._cache.keep(task.fingerprint(candidate.name), answer, task.owner)

    async def _failed(
        self, attempt: _Attempt, error: ProviderError, ending: CallOutcome, seconds: float
    ) -> Exhausted | Spent:
        task, candidate, lease = attempt.task, attempt.candidate, attempt.lease
        usd = self.ledger.price(candidate.target, error.usage) if error.usage != TokenUsage() else 0.0
        self._count(candidate, error.code, seconds, error.usage, usd)
        spent = attempt.spent.after(candidate.name, error.usage, usd, seconds, error.code, failed=True)
        if isinstance(error, ContentBlockedError):
            # What this provider's filter refuses, its other models refuse as well.
            every = (one.name for one in self.candidates.of(task.engine, task.tier))
            blocked = tuple(name for name in every if name.startswith(f"{candidate.provider}:"))
            spent = replace(spent, tried=(*spent.tried, *blocked))
        # Where no answer came, nobody knows what was used: the estimate stands.
        unknown = isinstance(error, ProviderTimeoutError | ProviderNetworkError)
        await asyncio.gather(
            self._account(attempt, spent, usd, error.usage, keep=True),
            self._settle(
                lease,
                ending,
                code=error.code,
                tokens=lease.tokens if unknown else error.usage.tokens_in + error.usage.tokens_out,
                retry_after_s=error.retry_after_s or 0.0,
                limits=error.limits,
            ),
        )
        shout = _LOG.error if isinstance(error, ProviderAuthError | ModelMissingError) else _LOG.warning
        shout(
            "AI call failed: %s",
            error.public,
            extra={**_who(task, candidate), "code": error.code, "duration_s": round(seconds, 3)},
        )
        if isinstance(error, RejectedError):
            return self._exhausted(spent, retryable=False)
        return spent

    def _count(
        self, candidate: Candidate, outcome: str, seconds: float, usage: TokenUsage, usd: float
    ) -> None:
        self._counting.call_ended(
            candidate.provider,
            candidate.target.model,
            outcome,
            seconds=seconds,
            tokens=(usage.tokens_in, usage.tokens_out),
            usd=usd,
        )

    async def _account(
        self, attempt: _Attempt, spent: Spent, usd: float, usage: TokenUsage, *, keep: bool
    ) -> None:
        """An answer in hand is worth more than its bookkeeping: a server that is away must not lose it."""
        task = attempt.task
        try:
            await self.ledger.charge(task.job_id, task.team, attempt.reserved_usd, usd, usage)
            if keep:
                await self.ledger.keep(task.job_id, task.epoch, task.number, spent)
        except CoordinationError as error:
            _LOG.warning("AI call not booked", extra={"job_id": task.job_id, "code": error.code})

    async def _settle(
        self,
        lease: Lease,
        ending: CallOutcome,
        *,
        code: str = "",
        tokens: int = 0,
        retry_after_s: float = 0.0,
        limits: SeenLimits = SeenLimits(),  # noqa: B008 - frozen
    ) -> None:
        """Ends the lease and wakes who may go now. If the server is away, the lease expires by itself."""
        settling = self.admission.settle(
            lease, ending, code=code, tokens=tokens, retry_after_s=retry_after_s, told=told_by(limits)
        )
        try:
            # A call that went well nearly always leaves room for one: that page needn't wait for the answer. Should it
            # ask before the slot is free, it lies down again, and `AiReading.rouse` finds the slot.
            early = 1 if ending is CallOutcome.OK and not lease.probe else 0
            settled, _ = await asyncio.gather(settling, self._wake(early))
            # The slot that is free again and one more, so that a line gets going; many after a probe.
            room = min(settled.room, _ROOM_USED if lease.probe else 2) - early
            if room > 0:
                await self._wake(room)
        except CoordinationError as error:
            _LOG.warning("AI call not settled", extra={"model": str(lease.target), "code": error.code})

    async def _abandon(self, lease: Lease) -> None:
        await self._settle(lease, CallOutcome.NEUTRAL, tokens=lease.tokens)

    # ---- decisions -----------------------------------------------------------------------------------------

    async def _cached(self, task: PageTask, every: Sequence[Candidate]) -> Answered | None:
        if task.fingerprint is None:
            return None
        found = await self._cache.find([task.fingerprint(one.name) for one in every], task.owner)
        if found is None:
            return None
        place, answer = found
        return Answered(answer.text, every[place], answer.confidence, Spent(), cached=True)

    def _every(self, task: PageTask) -> tuple[Candidate, ...]:
        """Those that only read pages can't answer another question."""
        every = self.candidates.of(task.engine, task.tier)
        return tuple(one for one in every if task.answer is None or one.provider not in _PAGES_ONLY)

    def _total_s(self, task: PageTask) -> float:
        return self._options.page_total_timeout_s if task.total_timeout_s is None else task.total_timeout_s

    def _tokens_out(self, task: PageTask) -> int:
        return task.max_tokens_out or self._options.max_tokens_out

    def _busy(self, task: PageTask, busy: Busy, spent: Spent) -> Parked | Exhausted:
        """Park, unless waiting can't help: the round is over, the key is wrong, or the deadline comes first."""
        if all(why is Why.PROVIDER_OPEN for why in busy.why):
            return self._exhausted(replace(spent, reasons=(*spent.reasons, "auth")), retryable=False)
        if spent.tried and all(why.broken for why in busy.why):
            return self._exhausted(spent)
        left_s = self._until_deadline(task)
        if left_s < _LEAST_CALL_S:
            return Parked(max(0.0, left_s), in_line=False)
        if busy.wait_s > left_s - _LEAST_CALL_S:
            return self._exhausted(replace(spent, reasons=(*spent.reasons, UNAVAILABLE)), retryable=False)
        in_line = any(why in (Why.IN_FLIGHT, Why.PROBING) for why in busy.why)
        return Parked(busy.wait_s, in_line)

    def _exhausted(self, spent: Spent, *, retryable: bool | None = None) -> Exhausted:
        if retryable is None:
            retryable = any(reason not in _FINAL for reason in spent.reasons)
        return Exhausted(tuple(dict.fromkeys(spent.reasons)), spent, retryable)

    def _until_deadline(self, task: PageTask) -> float:
        return math.inf if task.deadline_at is None else task.deadline_at - self._clock.now()


_FINAL = frozenset({ContentBlockedError.code, ProviderAuthError.code, RejectedError.code})
"""Reasons that another round would only give again."""


async def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end even if whoever waits is stopped; only then is the stop passed on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_FINISH_S)
        raise


def _size(task: PageTask, picture: PagePicture) -> Size:
    own = picture.layer or picture.text
    return Size(len(picture.text) + len(task.instructions), len(own), picture.pixels)


def _asks(candidates: Sequence[Candidate], size: Size, max_tokens_out: int) -> list[Ask]:
    guess = estimate(size, max_tokens_out)
    return [Ask(one.target, guess.tokens_in + guess.tokens_out) for one in candidates]


def _left(every: Sequence[Candidate], spent: Spent) -> list[Candidate]:
    return [one for one in every if one.name not in spent.tried]


def _who(task: PageTask, candidate: Candidate) -> dict[str, object]:
    return {
        "job_id": task.job_id,
        "page": task.number,
        "provider": candidate.provider,
        "model": candidate.target.model,
    }
