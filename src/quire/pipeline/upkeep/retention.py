"""Retention: documents and results that are to go before their job does really go.

An entry is made before the job is, and leaves only when nothing is left to delete: whatever dies in between, the
next round finds it. Objects are deleted first and the record is changed afterwards; a round that dies between the
two is repeated, and deletes nothing twice.
"""

from __future__ import annotations

import re

from quire.domain.job import MainJob
from quire.pipeline.object_keys import FILE_SCHEME, job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import forget_local_result

_LOOK_AGAIN_S = 5.0
_OBJECTS_LEFT_S = 600.0
_NAMES = {"original": re.compile(r"original-.*"), "result": re.compile(r"result-.*|elements-.*|e\d+/.*")}


async def expect_retention(parts: Parts, job_id: str) -> None:
    """To be called before and after a job is made or started again."""
    if parts.settings.retention.shortest_s is not None:
        await parts.jobs.retained.add(job_id)


async def apply_retention(parts: Parts) -> None:
    """Deletes what is due. Raises CoordinationError or ObjectsError; what was not done is found again."""
    for job_id in await parts.jobs.retained.due():
        await _look_at(parts, job_id)


async def _look_at(parts: Parts, job_id: str) -> None:
    now = parts.clock.now()
    retained = parts.jobs.retained
    job = await parts.jobs.get(job_id)
    if job is None:
        if await retained.has_objects(job_id):  # they go with their own expiry, a little after the record
            await retained.look_again(job_id, now + _OBJECTS_LEFT_S)
        else:
            await retained.forget(job_id)
        return
    if job.vault is not None:  # a document of the vault is kept until somebody deletes it
        await retained.forget(job_id)
        return
    ended = job.completed_at
    if not job.status.terminal or ended is None or "export" in await parts.jobs.working(job_id):
        await retained.look_again(job_id, now + _LOOK_AGAIN_S)
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
        await retained.look_again(job_id, min(later))
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
    # A file that was read where it lies is not ours to delete, and stays readable.
    if key and not key.startswith(FILE_SCHEME):
        await parts.jobs.retained.deleted(job.id, job.epoch, what, key)
