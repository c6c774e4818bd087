"""The dispatcher: one page, read by the first candidate that is free and gives a good answer.

A worker never waits here: where no candidate is free, the page is parked with the time of its next try. Every call
is admitted before it is made and settled after it, with any outcome, and its cost is stored first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.clock import Clock
from quire.coordination.ai_admission import (
    Admission,
    Busy,
    CallOutcome,
    Lease,
    log_half_open,
)
from quire.dispatch.answer_cache import AnswerCache, CachedAnswer
from quire.dispatch.answer_checks import visible_text
from quire.dispatch.call_log import ABANDONED, PAUSED, CallReport, log_call
from quire.dispatch.call_outcomes import CallCounter, NullCallCounter, finish, outcome_of, reported_limits
from quire.dispatch.candidates import Candidate, Candidates, untried
from quire.dispatch.expected_room import ExpectedRoom, free_slots
from quire.dispatch.ledger import Ledger, Size, Spent, estimate
from quire.dispatch.page_task import (
    Answered,
    Attempt,
    Exhausted,
    Outcome,
    PagePicture,
    PageTask,
    Parked,
    asks_of,
)
from quire.dispatch.process_pauses import ProcessPauses
from quire.dispatch.traced_calls import ask_provider, traced_page
from quire.dispatch.waiting_policy import LEAST_CALL_S, UNAVAILABLE, WaitingPolicy, exhausted
from quire.errors import CoordinationError, ObjectsError
from quire.providers import configured_providers
from quire.providers.provider_protocol import (
    ContentBlockedError,
    Provider,
    ProviderError,
    ProviderNetworkError,
    ProviderTimeoutError,
    RejectedError,
    SeenLimits,
    TokenUsage,
    VisionAnswer,
    VisionRequest,
)

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

_LOG = logging.getLogger(__name__)
_AFTER_DEADLINE_S = 2.0
_ROOM_USED = 8
_TYPICAL = Size(characters=5_000, own_characters=3_000, pixels=850 * 1100)

OUT_OF_TIME = "page_timeout"
_PAGES_ONLY = (configured_providers.OCR, configured_providers.DOLPHIN)

Wake = Callable[[int], Awaitable[int]]
Recovered = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """`wait_max_s`: the most time that a page waits while the breakers of all its candidates are open."""

    page_total_timeout_s: float = 120.0
    max_tokens_out: int = 8192
    wait_max_s: float = 10.0


class Dispatcher:
    """Reads pages; safe for many at once. `wake` gets the number of waiting pages that may be tried now; `recovered` is
    called when the success of a probe has closed a breaker."""

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
        recovered: Recovered | None = None,
        counting: CallCounter | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.candidates = candidates
        self.admission = admission
        self.ledger = ledger
        self.providers = providers
        self._cache = cache
        self._clock = clock
        self._options = options
        self._wake = wake
        self._recovered = recovered
        self._counting = counting or NullCallCounter()
        self._tracer = tracer
        self._pauses = ProcessPauses(clock.monotonic)
        self._waiting = WaitingPolicy(ledger, clock, options.wait_max_s)
        self._room = ExpectedRoom(clock)

    async def read(self, task: PageTask) -> Outcome:
        """Returns the answer, where to park the page, or why every candidate failed.

        Raises CoordinationError during an outage of the coordination server, PageError if the page can't be drawn.
        """
        reading = self._read(task)
        outcome = await (reading if self._tracer is None else traced_page(self._tracer, task, reading))
        if isinstance(outcome, Exhausted):
            with suppress(CoordinationError):
                await self.admission.want_recovery()
        elif isinstance(outcome, Parked):
            self._counting.page_parked()
        elif isinstance(outcome, Answered) and outcome.cached:
            self._counting.page_from_cache()
        return outcome

    async def _read(self, task: PageTask) -> Outcome:
        candidates = self._candidates_of(task)
        if not candidates:
            return exhausted(Spent(reasons=(UNAVAILABLE,)), retryable=False)
        cached = await self._cached(task, candidates)
        if cached is not None:
            return cached
        if task.prepared and self._waiting.until_deadline(task) >= LEAST_CALL_S:
            return await self._ask_at_once(task, candidates)
        spent = await self._spent(task)
        # Drawing a page is wasted work if no model is free.
        left = untried(candidates, spent.tried) or candidates
        if not self._room.take(left[0].target):
            seen = await self.admission.peek(asks_of(left, _TYPICAL, self._tokens_out(task)))
            if isinstance(seen, Busy):
                return await self._waiting.when_busy(task, seen, spent)
        picture = await task.prepare()
        return await self._ask_in_turn(task, candidates, picture, spent)

    async def _ask_at_once(self, task: PageTask, candidates: Sequence[Candidate]) -> Outcome:
        """A page that was waiting for a slot is admitted in the same round trip in which its past calls are read."""
        picture = await task.prepare()
        spent, lease = await asyncio.gather(
            self._spent(task),
            self.admission.admit(asks_of(candidates, task.size(picture), self._tokens_out(task))),
        )
        if spent.calls:  # it has failed calls already: leave out the candidates that were tried
            if isinstance(lease, Lease):
                await self._settle(lease, CallOutcome.UNSENT)
            return await self._ask_in_turn(task, candidates, picture, spent)
        if isinstance(lease, Busy):
            return await self._waiting.when_busy(task, lease, spent)
        outcome = await self._call(self._attempt(task, picture, candidates[lease.place], lease, spent))
        if not isinstance(outcome, Spent):
            return outcome
        return await self._ask_in_turn(task, candidates, picture, outcome)

    async def _ask_in_turn(
        self, task: PageTask, candidates: Sequence[Candidate], picture: PagePicture, spent: Spent
    ) -> Outcome:
        while True:
            left = untried(candidates, spent.tried)
            if not left:
                return exhausted(spent)
            if self._total_s(task) - spent.seconds < LEAST_CALL_S:
                return exhausted(replace(spent, reasons=(*spent.reasons, OUT_OF_TIME)), retryable=False)
            if self._waiting.until_deadline(task) < LEAST_CALL_S:
                return Parked(max(0.0, self._waiting.until_deadline(task)), in_line=False)
            lease = await self.admission.admit(asks_of(left, task.size(picture), self._tokens_out(task)))
            if isinstance(lease, Busy):
                return await self._waiting.when_busy(task, lease, spent)
            outcome = await self._call(self._attempt(task, picture, left[lease.place], lease, spent))
            if not isinstance(outcome, Spent):
                return outcome
            spent = outcome

    def _attempt(
        self, task: PageTask, picture: PagePicture, candidate: Candidate, lease: Lease, spent: Spent
    ) -> Attempt:
        guess = estimate(task.size(picture), self._tokens_out(task))
        return Attempt(task, picture, candidate, lease, spent, self.ledger.price(lease.target, guess))

    async def room(self) -> int:
        """Returns how many pages with default options could be admitted now, at most eight."""
        candidates = self.candidates.of(None, None)
        asks = asks_of(candidates, _TYPICAL, self._options.max_tokens_out)
        return await free_slots(self.admission, asks, _ROOM_USED)

    @property
    def answers_questions(self) -> bool:
        """Whether any provider can answer a question other than "what is the text of this page?"."""
        return any(name not in _PAGES_ONLY for name in self.candidates.providers)

    async def another_round(self, task: PageTask, spent: Spent) -> None:
        """Allows every candidate again for this page; keeps what was spent."""
        await self.ledger.keep(task.job_id, task.epoch, task.number, replace(spent, tried=()))

    async def preload(self) -> None:
        """Loads every SDK and the price list, so that no page's deadline pays for the imports.

        A part that can't be loaded is logged: the first call that needs it reports the same error.
        """
        for load in (*(one.open for one in self.providers.values()), self.ledger.preload):
            try:
                await load()
            except Exception:
                _LOG.exception("AI provider not loaded")
        _LOG.debug("AI providers loaded", extra={"providers": list(self.providers)})

    async def close(self) -> None:
        await self.ledger.close()
        for provider in self.providers.values():
            await provider.close()

    async def _call(self, attempt: Attempt) -> Answered | Exhausted | Spent:
        """Returns Spent if the call failed or its answer was rejected, and another candidate is next."""
        task, candidate, spent = attempt.task, attempt.candidate, attempt.spent
        ceiling = await self.ledger.reserve(task.job_id, task.team, attempt.reserved_usd, task.payer)
        if ceiling:
            await self._settle(attempt.lease, CallOutcome.UNSENT)
            return exhausted(replace(spent, reasons=(*spent.reasons, ceiling)), retryable=False)
        if attempt.lease.probe:
            log_half_open(candidate.target)
        whole_s = min(candidate.timeout_s, task.call_timeout_s or candidate.timeout_s)
        timeout_s = min(whole_s, self._total_s(task) - spent.seconds)
        # At the deadline the document finishes and the worker cancels this call; the timeout is only a second
        # safeguard.
        timeout_s = min(timeout_s, self._waiting.until_deadline(task) + _AFTER_DEADLINE_S)
        request = VisionRequest(
            model=candidate.target.model,
            instructions=task.instructions,
            text=attempt.picture.text,
            image=attempt.picture.image,
            image_mime=attempt.picture.mime,
            crops=attempt.picture.crops,
            max_tokens_out=self._tokens_out(task),
            timeout_s=timeout_s,
            answer=task.answer,
            team=task.team,
            attempt=f"{task.job_id}:{task.epoch}:{task.number}:{spent.calls}",
            redraw=task.redraw,
        )
        with self._pauses.timed_call() as timed:
            try:
                provider = self.providers[candidate.provider]
                answer = await ask_provider(
                    self._tracer, provider, candidate.target, request, spent.calls + 1
                )
            except ProviderError as error:
                if timed.excuses(error):
                    return await finish(self._paused(attempt, timed.ran_s()))
                # A timeout shorter than the model's own (page or document deadline) is no evidence against the model.
                cut_short = isinstance(error, ProviderTimeoutError) and timeout_s < whole_s
                outcome = CallOutcome.NEUTRAL if cut_short else outcome_of(error)
                return await finish(self._failed(attempt, error, outcome, timed.ran_s()))
            except BaseException:
                # Cancelled, or an unexpected error: the call may have been made.
                self._report(attempt, ABANDONED, timed.ran_s())
                await finish(self._abandon(attempt.lease))
                raise
            # From here on the answer is paid for: a cancellation must not lose it.
            return await finish(self._answered(attempt, answer, timed.ran_s()))

    async def _answered(self, attempt: Attempt, answer: VisionAnswer, seconds: float) -> Answered | Spent:
        task, candidate, lease = attempt.task, attempt.candidate, attempt.lease
        used = answer.usage.tokens_in + answer.usage.tokens_out
        # First, so that the next page gets the slot.
        await self._settle(lease, CallOutcome.OK, tokens=used or lease.tokens, limits=answer.limits)
        verdict = task.judge(answer, attempt.picture.layer)
        usd = self.ledger.price(candidate.target, answer.usage)
        spent = attempt.spent.after(
            candidate.name, answer.usage, usd, seconds, verdict.reason, failed=bool(verdict.reason)
        )
        self._report(attempt, verdict.reason or None, seconds, answer.usage, usd)
        text = visible_text(answer.text).strip()
        kept = None if verdict.reason else CachedAnswer(text, verdict.confidence)
        await asyncio.gather(
            self._keep(task, candidate, kept),
            self._account(attempt, spent, usd, answer.usage, keep=bool(verdict.reason)),
        )
        return spent if verdict.reason else Answered(text, candidate, verdict.confidence, spent)

    async def _keep(self, task: PageTask, candidate: Candidate, answer: CachedAnswer | None) -> None:
        """If this process dies before the page is recorded, the worker that repeats the page finds the answer here."""
        if answer is not None and task.fingerprint is not None:
            with suppress(CoordinationError, ObjectsError):
                await self._cache.keep(task.fingerprint(candidate.name), answer, task.owner)

    async def _failed(
        self, attempt: Attempt, error: ProviderError, outcome: CallOutcome, seconds: float
    ) -> Exhausted | Spent:
        task, candidate, lease = attempt.task, attempt.candidate, attempt.lease
        usd = self.ledger.price(candidate.target, error.usage) if error.usage != TokenUsage() else 0.0
        self._report(attempt, error.code, seconds, error.usage, usd, error=error)
        spent = attempt.spent.after(candidate.name, error.usage, usd, seconds, error.code, failed=True)
        if isinstance(error, ContentBlockedError):
            # The other models of the provider have the same content filter.
            candidates = (one.name for one in self.candidates.of(task.engine, task.tier))
            blocked = tuple(name for name in candidates if name.startswith(f"{candidate.provider}:"))
            spent = replace(spent, tried=(*spent.tried, *blocked))
        # Without an answer the real usage is unknown: the estimate is kept.
        unknown = isinstance(error, ProviderTimeoutError | ProviderNetworkError)
        await asyncio.gather(
            self._account(attempt, spent, usd, error.usage, keep=True),
            self._settle(
                lease,
                outcome,
                code=error.code,
                tokens=lease.tokens if unknown else error.usage.tokens_in + error.usage.tokens_out,
                retry_after_s=error.retry_after_s or 0.0,
                limits=error.limits,
            ),
        )
        if isinstance(error, RejectedError):
            return exhausted(spent, retryable=False)
        return spent

    async def _paused(self, attempt: Attempt, seconds: float) -> Spent:
        """The same candidate may be called again: only the time that this process ran is counted, no attempt."""
        self._report(attempt, PAUSED, seconds)
        spent = replace(attempt.spent, seconds=attempt.spent.seconds + seconds)
        await asyncio.gather(
            self._account(attempt, spent, 0.0, TokenUsage(), keep=True), self._abandon(attempt.lease)
        )
        return spent

    def _report(
        self,
        attempt: Attempt,
        error_class: str | None,
        seconds: float,
        usage: TokenUsage = TokenUsage(),  # noqa: B008 - frozen
        usd: float = 0.0,
        *,
        error: ProviderError | None = None,
    ) -> None:
        """Logs and counts a call that has ended."""
        task, target = attempt.task, attempt.candidate.target
        report = CallReport(
            job_id=task.job_id,
            page=task.number,
            provider=target.provider,
            model=target.model,
            attempt=attempt.spent.calls + 1,
            failover=attempt.candidate != self._candidates_of(task)[0],
            seconds=seconds,
            usage=usage,
            usd=usd,
            error_class=error_class,
        )
        log_call(report, error)
        self._counting.call_ended(
            report.provider,
            report.model,
            error_class or "ok",
            seconds=seconds,
            tokens=(usage.tokens_in, usage.tokens_out),
            usd=usd,
            failover=report.failover,
        )

    async def _account(
        self, attempt: Attempt, spent: Spent, usd: float, usage: TokenUsage, *, keep: bool
    ) -> None:
        """Books the call. During an outage it only logs: the answer must not be lost because of its bookkeeping."""
        task = attempt.task
        try:
            await self.ledger.charge(
                task.job_id, task.team, attempt.reserved_usd, usd, usage, payer=task.payer
            )
            if keep:
                await self.ledger.keep(task.job_id, task.epoch, task.number, spent)
        except CoordinationError as error:
            _LOG.warning("AI call not booked", extra={"job_id": task.job_id, "code": error.code})

    async def _settle(
        self,
        lease: Lease,
        outcome: CallOutcome,
        *,
        code: str = "",
        tokens: int = 0,
        retry_after_s: float = 0.0,
        limits: SeenLimits = SeenLimits(),  # noqa: B008 - frozen
    ) -> None:
        """Ends the lease and wakes waiting pages. During an outage the lease expires by itself."""
        settling = self.admission.settle(
            lease,
            outcome,
            code=code,
            tokens=tokens,
            retry_after_s=retry_after_s,
            reported=reported_limits(limits),
        )
        try:
            # A successful call nearly always frees one slot, so one page is woken without waiting for the script. If it
            # asks before the slot is free, it is parked again, and `AiReading.wake_periodically` finds the slot.
            early = 1 if outcome is CallOutcome.OK and not lease.probe else 0
            settled, woken = await asyncio.gather(settling, self._wake(early))
            if lease.probe and outcome is CallOutcome.OK and self._recovered is not None:
                await self._recovered()
            # The freed slot and one more, so that the queue speeds up; many after a probe.
            room = min(settled.room, _ROOM_USED if lease.probe else 2) - early
            if room > 0 and woken == early:
                woken += await self._wake(room)
            self._room.learn(lease.target, settled.room - woken)
        except CoordinationError as error:
            _LOG.warning("AI call not settled", extra={"model": str(lease.target), "code": error.code})

    async def _abandon(self, lease: Lease) -> None:
        await self._settle(lease, CallOutcome.NEUTRAL, tokens=lease.tokens)

    async def _spent(self, task: PageTask) -> Spent:
        if task.untried:
            return Spent()
        return await self.ledger.spent(task.job_id, task.epoch, task.number)

    async def _cached(self, task: PageTask, candidates: Sequence[Candidate]) -> Answered | None:
        if task.fingerprint is None:
            return None
        found = await self._cache.find([task.fingerprint(one.name) for one in candidates], task.owner)
        if found is None:
            return None
        place, answer = found
        return Answered(visible_text(answer.text), candidates[place], answer.confidence, Spent(), cached=True)

    def _candidates_of(self, task: PageTask) -> tuple[Candidate, ...]:
        """The candidates of the task; OCR and the batch parser only for plain page reading."""
        candidates = self.candidates.of(task.engine, task.tier)
        return tuple(one for one in candidates if task.answer is None or one.provider not in _PAGES_ONLY)

    def _total_s(self, task: PageTask) -> float:
        return self._options.page_total_timeout_s if task.total_timeout_s is None else task.total_timeout_s

    def _tokens_out(self, task: PageTask) -> int:
        return task.max_tokens_out or self._options.max_tokens_out
