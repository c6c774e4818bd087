"""Jobs that were accepted and that Redis does not have, because the reconciler has not put them back yet.

The mark of the server says whether that may be; the journal in the object plane says whether there was such a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from quire.domain.job import MainJob
from quire.errors import CoordinationError
from quire.objects.object_store import ObjectStore
from quire.pipeline.object_keys import accepted_key
from quire.pipeline.parts import Parts


async def found_again(parts: Parts, job_id: str) -> MainJob | None:
    """The job that Redis did not have a moment ago, if it was put back since. Raises as `check_not_lost`."""
    # One round trip, and the mark is read first: where it is there, everything was put back before.
    due, job = await asyncio.gather(parts.jobs.lost.is_comparison_due(), parts.jobs.get(job_id))
    if job is None and due:
        await _check_journal(parts.objects, job_id)
    return job


async def check_not_lost(parts: Parts, job_ids: Iterable[str]) -> None:
    """Raises CoordinationError while the journal has one of these jobs and what Redis lost is not put back yet."""
    if await parts.jobs.lost.is_comparison_due():
        for job_id in job_ids:
            await _check_journal(parts.objects, job_id)


async def _check_journal(objects: ObjectStore, job_id: str) -> None:
    if await objects.size(accepted_key(job_id)) is not None:
        raise CoordinationError(
            "The coordination server has lost jobs, which are being put back. Try again.", retry_after_s=2.0
        )
