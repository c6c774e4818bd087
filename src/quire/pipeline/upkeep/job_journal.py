"""The journal of jobs in the object plane: what was accepted and what has ended, so that Redis can be rebuilt.

Each job has two small objects beside its document: `accepted.json`, written before Redis knows the job, and
`finished.json`, written after its end. They have the fields of the record, with secrets sealed, and are deleted with
the job's other objects. A process that dies between the end of a job and `finished.json` leaves a job that a recovery
would run again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from quire.coordination.batch_callbacks import BatchCallbacks
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.job_records import NewJob, new_fields
from quire.coordination.recovered_jobs import RecoveredJobs
from quire.domain.job import JobStatus
from quire.errors import CoordinationError, MissingError, ObjectsError
from quire.objects.object_store import ObjectStore
from quire.pipeline.object_keys import ALL_JOBS, FILE_SCHEME, accepted_key, job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.answer_recovery import AnswerRecovery
from quire.pipeline.upkeep.batch_recovery import BatchRecovery

_LOG = logging.getLogger(__name__)
_ACCEPTED, _FINISHED = "accepted.json", "finished.json"
_NOT_KEPT = frozenset({"late", "call"})
_AT_ONCE = 200


async def write_accepted(objects: ObjectStore, new: NewJob, call: str) -> None:
    """Call it before the job is created with the same `call`. A job whose id a caller chose keeps its first entry.

    A random id has no earlier entry, so its entry is one write.
    """
    key = accepted_key(new.id)
    if _is_random(new.id) or await objects.size(key) is None:
        fields = {name: str(value) for name, value in new_fields(new).items()}
        await objects.put(key, json.dumps({**fields, "call": call}).encode())


def _is_random(job_id: str) -> bool:
    """Whether the id is `new_job_id`'s, as opposed to one that derives from a caller's key or a document."""
    return uuid.UUID(job_id).version == 4


async def finished_result(objects: ObjectStore, job_id: str, epoch: int) -> dict[str, Any] | None:
    """The result that a completed run has in the journal, if its object is there: Redis may have lost that it ended."""
    with suppress(MissingError, ValueError, KeyError):
        fields = json.loads(await objects.get(f"{job_prefix(job_id)}{_FINISHED}"))
        if fields["status"] == JobStatus.COMPLETED.value and int(fields["epoch"]) == epoch:
            result: dict[str, Any] = json.loads(fields["result"])
            if await objects.size(result["key"]) is not None:
                return result
    return None


async def write_finished(parts: Parts, job_id: str) -> None:
    """Call it after the job has ended; a job that runs again is left out.

    A failure is logged: the job itself is not affected.
    """
    try:
        while not await _is_end_written(parts, job_id):
            pass
    except ObjectsError as error:
        _LOG.warning("the end of a job was not journaled", extra={"job_id": job_id, "code": error.code})


async def _is_end_written(parts: Parts, job_id: str) -> bool:
    """Writes the end of the job that it has now; False if it had another one meanwhile."""
    fields = await parts.jobs.fields(job_id)
    if not _has_ended(fields) or fields.get("content_ref", "").startswith(FILE_SCHEME):
        return True
    kept = {name: value for name, value in fields.items() if name not in _NOT_KEPT}
    await parts.objects.put(f"{job_prefix(job_id)}{_FINISHED}", json.dumps(kept).encode())
    now = (await parts.jobs.states_of([job_id])).get(job_id)
    if now is None or not now.status.terminal:  # deleted or retried meanwhile, perhaps before the write
        await delete_finished(parts.objects, job_id)
        return True
    return now.epoch == int(fields["epoch"])


async def delete_finished(objects: ObjectStore, job_id: str) -> None:
    """Call it before the job is retried: a recovery must not restore the earlier end. Raises ObjectsError."""
    await objects.delete(f"{job_prefix(job_id)}{_FINISHED}")


def _has_ended(fields: Mapping[str, str]) -> bool:
    return fields.get("status") in {one.value for one in JobStatus if one.terminal}


@dataclass(slots=True)
class RecoveryReport:
    """Jobs, AI answers and callbacks of batches in the object plane that Redis did not have."""

    jobs_seen: int = 0
    answers: int = 0
    callbacks: int = 0
    finished: int = 0
    restarted: int = 0
    expired: int = 0
    unreadable: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.finished or self.restarted or self.unreadable)


class JobRecovery:
    """Finds jobs in the object plane that Redis has lost, and puts them back."""

    def __init__(self, parts: Parts, connection: RedisConnection) -> None:
        self._objects = parts.objects
        self._answers = AnswerRecovery(parts)
        self._batches = BatchRecovery(parts, BatchCallbacks(connection, parts.clock))
        self._jobs = RecoveredJobs(connection, parts.queues, parts.clock, parts.jobs.ttl_s)

    async def run(self, *, dry_run: bool = False, check_results: bool = False) -> RecoveryReport:
        """Raises ObjectsError or CoordinationError; what was not done is found by the next run.

        With `check_results` each finished job is read, to count those whose result is missing.
        """
        report = RecoveryReport()
        names = await self._listed()
        if not dry_run:
            report.answers = await self._answers.run(names)  # first: a job that starts again needs them
        job_ids = sorted(job_id for job_id, some in names.items() if some & {_ACCEPTED, _FINISHED})
        report.jobs_seen = len(job_ids)
        for first in range(0, len(job_ids), _AT_ONCE):
            some = job_ids[first : first + _AT_ONCE]
            known = await self._jobs.known(some)
            for job_id in some:
                if job_id not in known:
                    await self._recover(job_id, names[job_id], report, dry_run)
                elif check_results and _FINISHED in names[job_id]:
                    report.unreadable += not await self._has_result(job_id, names[job_id])
            if not dry_run:
                await self._jobs.sweep_soon(
                    [one for one in some if one in known and _FINISHED not in names[one]]
                )
        if not dry_run:
            report.callbacks = await self._batches.run(
                names
            )  # last: they are due once all their jobs are over
        return report

    async def _has_result(self, job_id: str, names: set[str]) -> bool:
        """False for a completed job whose result is neither there nor deleted on purpose."""
        fields = await self._fields(job_id, _FINISHED)
        if fields.get("status") != JobStatus.COMPLETED.value or not fields.get("result"):
            return True
        key = str(json.loads(fields["result"]).get("key", ""))
        if not key.startswith(job_prefix(job_id)) or key.removeprefix(job_prefix(job_id)) in names:
            return True
        return await self._jobs.is_result_deleted(job_id)

    async def _listed(self) -> dict[str, set[str]]:
        """The names of objects in each folder: those of jobs, and those of AI answers."""
        found: dict[str, set[str]] = {}
        for key in await self._objects.keys(ALL_JOBS):
            job_id, _, name = key.removeprefix(ALL_JOBS).partition("/")
            found.setdefault(job_id, set()).add(name)
        return found

    async def _recover(self, job_id: str, names: set[str], report: RecoveryReport, dry_run: bool) -> None:
        fields = await self._fields(job_id, _FINISHED) if _FINISHED in names else {}
        ended = _has_ended(fields)
        if not ended:
            fields = await self._fields(job_id, _ACCEPTED)
        content = fields.get("content_ref", "")
        if not fields.get("team"):
            report.unreadable += 1
        elif ended:
            restored = dry_run or await self._jobs.restore_finished(job_id, fields)
            report.finished += restored
            report.expired += not restored
        elif content and content.removeprefix(job_prefix(job_id)) not in names:
            report.unreadable += 1  # its document is gone
        else:
            if not dry_run:
                await self._jobs.restore_accepted(job_id, fields)
            report.restarted += 1

    async def _fields(self, job_id: str, name: str) -> Mapping[str, str]:
        with suppress(MissingError, ValueError):
            found = json.loads(await self._objects.get(f"{job_prefix(job_id)}{name}"))
            if isinstance(found, dict):
                return {str(field): str(value) for field, value in found.items()}
        return {}


async def recover_after_repair(parts: Parts, connection: RedisConnection, server: EmbeddedServer) -> None:
    """Puts jobs back that were in the part of the queue's file that was cut. Call it before callers are served.

    Where that is not possible now, or the process dies meanwhile, it is due again at the next start.
    """
    repair = server.repair.describe() if server.repair else "at an earlier start"
    _LOG.warning("the queue was repaired: %s", repair)
    try:
        report = await JobRecovery(parts, connection).run()
    except (CoordinationError, ObjectsError) as error:
        _LOG.error("jobs were not recovered; run `quire repair`", extra={"code": error.code})
        return
    server.recovery_is_done()
    _LOG.warning("jobs were recovered from the object plane", extra=asdict(report))
