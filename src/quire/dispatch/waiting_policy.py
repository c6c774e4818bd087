"""When a page waits for a model, and when it stops waiting.

A page waits for a free slot and for budget up to its deadline. It waits for an open breaker only if the next half-open
probe is due within what is left of AI_WAIT_MAX: nothing waits for a model that is not coming.
"""

from __future__ import annotations

import math
from dataclasses import replace

from quire.clock import Clock
from quire.coordination.ai_admission import Busy, BusyReason
from quire.dispatch.ledger import Ledger, Spent
from quire.dispatch.page_task import Exhausted, PageTask, Parked
from quire.providers.provider_protocol import ContentBlockedError, ProviderAuthError, RejectedError

LEAST_CALL_S = 0.5
"""A call with less time than this is not made."""
UNAVAILABLE = "ai_unavailable"
_PROBE_POLL_S = 1.0
"""How often a page asks again while another page's probe is in flight; the end of the probe wakes it earlier."""
_FINAL = frozenset({ContentBlockedError.code, ProviderAuthError.code, RejectedError.code})
"""Reasons that another round would only repeat."""


class WaitingPolicy:
    """`wait_max_s`: the most time that a page waits while the breakers of all its candidates are open."""

    def __init__(self, ledger: Ledger, clock: Clock, wait_max_s: float) -> None:
        self._ledger = ledger
        self._clock = clock
        self._wait_max_s = wait_max_s

    def until_deadline(self, task: PageTask) -> float:
        """Returns the seconds that the task's deadline leaves; infinite without a deadline."""
        return math.inf if task.deadline_at is None else task.deadline_at - self._clock.now()

    async def when_busy(self, task: PageTask, busy: Busy, spent: Spent) -> Parked | Exhausted:
        """Parks the page, unless waiting can't help: round over, wrong key, no model coming, deadline too near."""
        if all(why is BusyReason.PROVIDER_OPEN for why in busy.why):
            return exhausted(replace(spent, reasons=(*spent.reasons, "auth")), retryable=False)
        broken = all(why.broken for why in busy.why)
        if spent.tried and broken:
            return exhausted(spent)
        left_s = self.until_deadline(task)
        if left_s < LEAST_CALL_S:
            return Parked(max(0.0, left_s), in_line=False, tried=spent != Spent())
        if broken:
            return await self._wait_for_probe(task, busy, spent)
        if busy.wait_s > left_s - LEAST_CALL_S:
            return _unavailable(spent)
        in_line = any(why in (BusyReason.IN_FLIGHT, BusyReason.PROBING) for why in busy.why)
        return Parked(busy.wait_s, in_line, tried=spent != Spent())

    async def _wait_for_probe(self, task: PageTask, busy: Busy, spent: Spent) -> Parked | Exhausted:
        """Every breaker is open: parks the page until the next half-open probe, but only if that is due in time.

        All such waits of a page together take no longer than AI_WAIT_MAX, also while a probe hangs.
        """
        now = self._clock.now()
        since = spent.waiting_since or now
        left_s = min(since + self._wait_max_s - now, self.until_deadline(task) - LEAST_CALL_S)
        if busy.wait_s > left_s:
            return _unavailable(spent)
        if not spent.waiting_since:
            kept = replace(spent, waiting_since=now)
            await self._ledger.keep(task.job_id, task.epoch, task.number, kept)
        probing = BusyReason.PROBING in busy.why
        return Parked(max(busy.wait_s, min(_PROBE_POLL_S, left_s)) if probing else busy.wait_s, in_line=False)


def exhausted(spent: Spent, *, retryable: bool | None = None) -> Exhausted:
    """Returns the outcome of a page without an answer; by default it is retryable unless its reasons are final."""
    if retryable is None:
        retryable = any(reason not in _FINAL for reason in spent.reasons)
    return Exhausted(tuple(dict.fromkeys(spent.reasons)), spent, retryable)


def _unavailable(spent: Spent) -> Exhausted:
    return exhausted(replace(spent, reasons=(*spent.reasons, UNAVAILABLE)), retryable=False)
