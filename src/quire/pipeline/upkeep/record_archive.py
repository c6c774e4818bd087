"""The records of vault documents' conversions, stored beside their results.

Redis drops a finished job after JOB_TTL; a document of the vault stays, and with it how each of its pages was read.
Its last record is in the object plane and is deleted with the document's other objects.
"""

from __future__ import annotations

import json
from typing import Any

from quire.coordination.job_records import job_from_fields
from quire.coordination.job_store import JobStore
from quire.domain.job import MainJob
from quire.errors import MissingError
from quire.objects.object_store import ObjectStore
from quire.pipeline.object_keys import record_key

_NOT_ARCHIVED = frozenset({"late"})
"""Fields that change after the end and mean nothing later."""


class RecordArchive:
    def __init__(self, jobs: JobStore, objects: ObjectStore) -> None:
        self._jobs = jobs
        self._objects = objects

    async def keep(self, job_id: str) -> None:
        """Stores the current record."""
        fields = await self._jobs.fields(job_id)
        if fields:
            kept = {name: value for name, value in fields.items() if name not in _NOT_ARCHIVED}
            await self._objects.put(record_key(job_id), json.dumps(kept).encode())

    async def find(self, job_id: str) -> MainJob | None:
        fields = await self._fields(job_id)
        return job_from_fields(job_id, fields) if fields else None

    async def job(self, job_id: str) -> MainJob | None:
        """The job from Redis, or from the archive."""
        return await self._jobs.get(job_id) or await self.find(job_id)

    async def put_back(self, job_id: str) -> None:
        """Restores the record to Redis if it has expired there, so that the job can be retried."""
        if await self._jobs.get(job_id) is None:
            fields = await self._fields(job_id)
            if fields:
                await self._jobs.revive(job_id, fields)

    async def _fields(self, job_id: str) -> dict[str, str]:
        try:
            found: dict[str, Any] = json.loads(await self._objects.get(record_key(job_id)))
        except MissingError:
            return {}
        return {name: str(value) for name, value in found.items()}
