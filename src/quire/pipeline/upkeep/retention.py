"""Retention: deletes originals and results whose retention is shorter than their job's.

An entry is written before the job and removed only when nothing is left to delete, so the next round finds it after
any crash. Objects are deleted first and the record is changed afterwards; a round that dies between the
two is repeated, and deletes nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quire.domain.job import MainJob
from quire.pipeline.object_keys import FILE_SCHEME, job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import forget_local_result

_CHECK_AGAIN_S = 5.0
_OBJECTS_LEFT_S = 600.0
_NAMES = {"original": re.compile(r"original-.*"), "result": re.compile(r"result-.*|elements-.*|e\d+/.*")}


async def schedule_retention(parts: Parts, job_id: str) -> None:
    """Call it before and after a job is created or retried."""
    if parts.settings.retention.shortest_s is not None:
        await parts.jobs.retained.add(job_id)


async def apply_retention(parts: Parts, due: Iterable[str]) -> None:
    """Deletes what is due of these jobs. Raises CoordinationError or ObjectsError; what was not done is found again."""
    for job_id in due:
        await _check(parts, job_id)


async def _check(parts: Parts, job_id: str) -> None:
    now = parts.clock.now()
    retained = parts.jobs.retained
    job = await parts.jobs.get(job_id)
    if job is None:
        if await retained.has_objects(job_id):  # they expire a little after the record
            await retained.check_again(job_id, now + _OBJECTS_LEFT_S)
        else:
            await retained.forget(job_id)
        return
    if job.vault is not None:  # a document of the vault is kept until a user deletes it
        await retained.forget(job_id)
        return
    ended = job.completed_at
    if not job.status.terminal or ended is None or "export" in await parts.jobs.working(job_id):
        await retained.check_again(job_id, now + _CHECK_AGAIN_S)
        return
    kept = parts.settings.retention
    later: list[float] = []
    for what, for_s in (("original", kept.originals_s), ("result", kept.results_s)):
        if for_s is None:
            continue
        if ended + for_s > now:
            later.append(ended + for_s)
        else:
            await _delete(parts, job, what)
    if later:
        await retained.check_again(job_id, min(later))
    else:
        await retained.forget(job_id)


async def _delete(parts: Parts, job: MainJob, what: str) -> None:
    key = job.content_ref if what == "original" else (job.result or {}).get("key")
    prefix = job_prefix(job.id)
    for found in await parts.objects.keys(prefix):
        if _NAMES[what].fullmatch(found.removeprefix(prefix)):
            await parts.objects.delete(found)
    if what == "result":
        await forget_local_result(parts, job.id)
    # A file that was read in place does not belong to Quire and is not deleted.
    if key and not key.startswith(FILE_SCHEME):
        await parts.jobs.retained.deleted(job.id, job.epoch, what, key)
