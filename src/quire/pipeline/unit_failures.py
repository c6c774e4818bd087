"""Decides about a unit whose stage failed: it waits for a plane, is tried again, or is given up."""

from __future__ import annotations

import logging

from quire.coordination.job_records import Claim, PageOutcome
from quire.domain.job import UnitKind, chunk_places, unit_page
from quire.domain.page_ranges import PageRanges
from quire.errors import CatalogError, ObjectsError, QuireError
from quire.pipeline.parts import Parts
from quire.pipeline.plane_outages import PlaneOutages
from quire.pipeline.retry_delay import retry_delay_s
from quire.pipeline.stages.export_stage import export_failed
from quire.pipeline.stages.read_stage import failed_page, fallen_back
from quire.pipeline.upkeep.job_journal import write_finished

_LOG = logging.getLogger(__name__)


class UnitFailures:
    """The failures of one worker. Raises CoordinationError or CoordinationCommandError."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._outages = PlaneOutages(parts)

    def plane_answers(self) -> None:
        """Call it when a unit was done."""
        self._outages.over()

    async def handle(self, claim: Claim, error: Exception) -> None:
        """Releases or ends the unit after `error`."""
        if self._parts.disk.note_error(error):
            # Another worker may have room: this one takes no units for a while, and the attempt does not count.
            await self._outages.wait(claim, error if isinstance(error, QuireError) else _unexpected(error))
            return
        if not isinstance(error, QuireError):
            _LOG.error(
                "unit failed unexpectedly",
                exc_info=error,
                extra={"job_id": claim.job.id, "unit": claim.hint.unit},
            )
            error = _unexpected(error)
        # An export goes to a place of the caller's, which may never be there: its attempts are counted.
        is_outage = isinstance(error, ObjectsError | CatalogError) and error.retryable
        if (
            is_outage
            and claim.hint.kind is not UnitKind.EXPORT
            and await self._outages.postpone(claim, error)
        ):
            return
        await self._fail(claim, error)

    async def _fail(self, claim: Claim, error: QuireError) -> None:
        """Counts a failed attempt; parks the unit for the next one, or gives it up."""
        failures = claim.failures + 1
        settings = self._parts.settings
        allowed = {
            UnitKind.CALLBACK: settings.callbacks.max_attempts,
            UnitKind.EXPORT: settings.aws.export_max_attempts,
        }.get(claim.hint.kind, settings.jobs.max_attempts)
        _LOG.info(
            "unit failed",
            extra={"job_id": claim.job.id, "unit": claim.hint.unit, "code": error.code, "attempt": failures},
        )
        if not error.retryable or failures >= allowed:
            await self.give_up(claim, error)
            return
        self._parts.reports.meter.unit_retried(claim.hint.kind.value)
        delay_s = retry_delay_s(failures, settings.jobs, at_least_s=error.retry_after_s or 0.0)
        await self._parts.jobs.park(claim, self._parts.clock.now() + delay_s, failed=True)

    async def give_up(self, claim: Claim, error: QuireError) -> None:
        """Ends a unit that failed for good: its pages or its document are recorded as failed, with a dead letter."""
        kind = claim.hint.kind
        if kind is not UnitKind.EARLY and (error.retryable or kind in (UnitKind.CALLBACK, UnitKind.EXPORT)):
            await self._parts.queues.add_dead_letter(claim.hint, error.public)
        # A document of the vault is left to the vault sweeper; without early text a page waits for AI.
        if kind in (UnitKind.CALLBACK, UnitKind.VAULT, UnitKind.EARLY):
            await self._parts.jobs.drop_unit(claim)
        elif kind is UnitKind.EXPORT:
            await export_failed(claim, self._parts, error)
        elif kind in (UnitKind.READ, UnitKind.PAGE):
            await self._end_pages(claim, error)
        else:
            await self._parts.jobs.fail(claim, error)
            await write_finished(self._parts, claim.job.id)

    async def _end_pages(self, claim: Claim, error: QuireError) -> None:
        now = self._parts.clock.now()
        numbers = _page_numbers(claim)
        known = await self._parts.jobs.pages(claim.job.id, numbers)
        await self._parts.jobs.pages_done(
            claim,
            [
                PageOutcome(
                    fallen_back(known.get(number), error, claim.starts, now)
                    or failed_page(number, error, claim.starts, now, now)
                )
                for number in numbers
            ],
        )


def _unexpected(error: Exception) -> QuireError:
    return QuireError(f"An internal error happened ({type(error).__name__}).", retryable=True)


def _page_numbers(claim: Claim) -> list[int]:
    if claim.hint.kind is UnitKind.PAGE:
        return [unit_page(claim.hint.unit)]
    first, last = chunk_places(claim.hint.unit)
    return PageRanges.parse(claim.job.ranges).numbers(first, last + 1)
