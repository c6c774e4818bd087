"""Stores document batches in the object plane, and counts how far their jobs are.

A batch is written after its jobs were created. If the process dies in between, the jobs run and expire like others; the
caller has no id of the batch and sends its request again.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from quire.coordination.job_records import JobState
from quire.domain.document_batch import BatchItem, DocumentBatch
from quire.domain.job import JobStatus
from quire.errors import MissingError, QuireError
from quire.pipeline.object_keys import batch_key, delivery_key, due_callback_key
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.lost_jobs import check_not_lost

MOST_ITEMS = 1_000
GONE = "The job was deleted, or its results are kept no longer."
_KEPT_LONGER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class ItemState:
    """A document of a batch and its job's status; `expired` where the job no longer exists."""

    item: BatchItem
    status: str
    error: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    items: tuple[ItemState, ...]

    def count(self, *statuses: str) -> int:
        return sum(one.status in statuses for one in self.items)

    @property
    def ended(self) -> int:
        return self.count("completed", "failed", "cancelled", "expired")

    @property
    def is_over(self) -> bool:
        return self.ended == len(self.items)

    @property
    def status(self) -> str:
        """`queued`, `processing`; once all have ended `completed` if a result is there, else `expired` or `failed`."""
        if not self.is_over:
            return "queued" if self.count("queued") == len(self.items) else "processing"
        if self.count("completed"):
            return "completed"
        return "expired" if self.count("expired") else "failed"


class DocumentBatches:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def save(self, batch: DocumentBatch) -> None:
        """Stores the batch; its objects are deleted a day after jobs that end now would be.

        One that calls back has a marker beside it until `callback_ended`: Redis may lose that a callback is due.
        """
        await self.register(batch.id)
        if batch.sealed is not None:
            await self._parts.objects.put(due_callback_key(batch.id), b"")
        await self._parts.objects.put(batch_key(batch.id), batch.packed())

    async def register(self, batch_id: str) -> None:
        """Schedules the deletion of a batch's objects, unless it is scheduled."""
        await self._parts.jobs.register_objects(batch_id, self._parts.jobs.ttl_s + _KEPT_LONGER_S)

    async def callback_ended(self, batch_id: str) -> None:
        """Removes the marker of a callback that was delivered or given up. Raises ObjectsError."""
        await self._parts.objects.delete(due_callback_key(batch_id))

    async def delivery_ended(self, batch_id: str, error: QuireError | None) -> None:
        """Keeps that the results were delivered, or why not. Raises ObjectsError."""
        kept = {"error": error.as_dict() if error else None}
        await self._parts.objects.put(delivery_key(batch_id), json.dumps(kept).encode())

    async def delivery(self, batch_id: str) -> dict[str, Any] | None:
        """How the delivery of the results ended: `error` is null if they were delivered; None while it goes on."""
        try:
            found: dict[str, Any] = json.loads(await self._parts.objects.get(delivery_key(batch_id)))
        except MissingError:
            return None
        return found

    async def find(self, team: str, batch_id: str) -> DocumentBatch:
        """Raises MissingError, also for another team's batch."""
        missing = MissingError(f"There is no batch {batch_id[:60]!r}.")
        try:
            if str(uuid.UUID(batch_id)) != batch_id:
                raise missing
        except ValueError:
            raise missing from None
        try:
            batch = DocumentBatch.unpack(await self._parts.objects.get(batch_key(batch_id)))
        except MissingError:
            raise missing from None
        if batch.team != team:
            raise missing
        return batch

    async def progress(self, batch: DocumentBatch) -> BatchProgress:
        """The states of all its documents, in one round trip if no job is missing. Raises as `check_not_lost`."""
        states = await self._parts.jobs.states_of(batch.job_ids)
        if missing := [one for one in batch.job_ids if one not in states]:
            await check_not_lost(self._parts, missing)
            states |= await self._parts.jobs.states_of(missing)  # some may have been put back since
        return BatchProgress(tuple(_state(item, states) for item in batch.items))


def _state(item: BatchItem, states: dict[str, JobState]) -> ItemState:
    if item.job_id is None:
        return ItemState(item, JobStatus.FAILED.value, item.error)
    found = states.get(item.job_id)
    if found is None:
        return ItemState(item, "expired", MissingError(GONE).as_dict())
    return ItemState(item, found.status.value, found.error)
