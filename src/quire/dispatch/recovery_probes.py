"""Recovery probes: cheap calls to broken models while pages or documents find no model.

A breaker rests up to BREAKER_MAX_BACKOFF, and no page is sent before. So that a model that is back is used sooner, one
cheap call tests a broken model every AI_RECOVERY_PROBE; its success closes the breaker and wakes what waits. The
interval holds for all workers together. Weakness: a model that answers the cheap call and fails pages is opened again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quire.coordination.ai_admission import Admission, CallOutcome, Lease, Target
from quire.dispatch.call_log import PAUSED, CallReport, log_call
from quire.dispatch.call_outcomes import outcome_of, reported_limits
from quire.dispatch.candidates import Candidates
from quire.dispatch.process_pauses import ProcessPauses
from quire.errors import CoordinationCommandError, CoordinationError
from quire.providers import configured_providers
from quire.providers.provider_protocol import Provider, ProviderError, SeenLimits, TokenUsage

_LOG = logging.getLogger(__name__)
_POLL_S = 1.0
_OWN_READERS = (configured_providers.OCR, configured_providers.DOLPHIN)


class RecoveryProbes:
    """Probes broken models until cancelled. `recovered` is called when a breaker has closed."""

    def __init__(
        self,
        candidates: Candidates,
        providers: dict[str, Provider],
        admission: Admission,
        recovered: Callable[[], Awaitable[object]],
        interval_s: float,
        *,
        pauses: ProcessPauses | None = None,
    ) -> None:
        self._targets = tuple(one for one in candidates.all() if one.provider not in _OWN_READERS)
        self._providers = providers
        self._admission = admission
        self._recovered = recovered
        self._interval_s = interval_s
        self._pauses = pauses or ProcessPauses()
        self._probing: set[Target] = set()

    async def run(self) -> None:
        """Runs until cancelled; returns at once if AI_RECOVERY_PROBE is 0."""
        if not self._interval_s:
            return
        rest_s = max(_POLL_S, self._interval_s / 3)
        is_wanted = False
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_POLL_S if is_wanted else rest_s)
                try:
                    is_wanted = await self._admission.recovery_wanted()
                    broken = await self._broken() if is_wanted else ()
                except (CoordinationError, CoordinationCommandError) as error:
                    _LOG.debug("no look at the breakers", extra={"code": error.code})
                    continue
                for target in broken:
                    self._probing.add(target)
                    group.create_task(self._probe(target), name=f"probe-{target}")

    async def _broken(self) -> list[Target]:
        states = await self._admission.states(self._targets)
        return [one.target for one in states if one.state != "closed" and one.target not in self._probing]

    async def _probe(self, target: Target) -> None:
        try:
            lease = await self._admission.admit_probe(target, self._interval_s)
            if lease is not None:
                await self._call(lease)
        except (CoordinationError, CoordinationCommandError) as error:  # the lease expires by itself
            _LOG.warning("probe not settled", extra={"model": str(target), "code": error.code})
        finally:
            self._probing.discard(target)

    async def _call(self, lease: Lease) -> None:
        outcome, code, wait_s, limits = CallOutcome.NEUTRAL, "", 0.0, SeenLimits()
        try:
            with self._pauses.timed_call() as timed:
                error = await self._check(lease.target)
                paused = error is not None and timed.excuses(error)
                _report(lease.target, timed.ran_s(), None if paused else error, paused=paused)
            if error is None:
                outcome = CallOutcome.OK
            elif not paused:
                outcome, code, wait_s = outcome_of(error), error.code, error.retry_after_s or 0.0
                limits = error.limits
        except Exception:
            _LOG.exception("probe failed unexpectedly", extra={"model": str(lease.target)})
            outcome, code = CallOutcome.FAILED, "internal"
        finally:
            settled = await asyncio.shield(
                self._admission.settle(
                    lease, outcome, code=code, retry_after_s=wait_s, reported=reported_limits(limits)
                )
            )
        if outcome is CallOutcome.OK and not settled.open:
            await self._recovered()

    async def _check(self, target: Target) -> ProviderError | None:
        try:
            await self._providers[target.provider].check(target.model)
        except ProviderError as error:
            return error
        return None


def _report(target: Target, seconds: float, error: ProviderError | None, *, paused: bool) -> None:
    """Logs the probe. Its few tokens are not known: a check returns no usage."""
    report = CallReport(
        job_id="",
        page=None,
        provider=target.provider,
        model=target.model,
        attempt=1,
        failover=False,
        seconds=seconds,
        usage=TokenUsage(),
        usd=0.0,
        error_class=PAUSED if paused else error.code if error else None,
        purpose="probe",
    )
    log_call(report, error)
