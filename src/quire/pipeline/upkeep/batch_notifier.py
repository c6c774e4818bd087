"""Calls back once for each document batch when all of its jobs have ended, or delivers its results to a target.

What fails is tried again. A callback may be sent twice if the process dies right after it; `X-Quire-Delivery` is the
same then. Results that are delivered twice replace each other.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from quire.coordination.batch_callbacks import CLAIM_S, BatchCallbacks
from quire.coordination.connection import RedisConnection
from quire.domain.batch_target import BatchTarget, unpacked
from quire.domain.document_batch import DocumentBatch
from quire.errors import DownloadError, LinkRefusedError, MissingError, ObjectsError, PlaneError, QuireError
from quire.links import post_json, sign
from quire.pipeline.docling_files import DoclingFiles
from quire.pipeline.document_batches import BatchProgress, DocumentBatches
from quire.pipeline.engine import Engine
from quire.pipeline.object_keys import batch_key
from quire.pipeline.side_tasks import keep_running
from quire.pipeline.stages.callback_stage import SIGNATURE_HEADER
from quire.pipeline.stages.download_stage import link_policy

_LOG = logging.getLogger(__name__)
CALLBACK_GRACE_S = 60.0
"""How long a batch has to be stored after its entry was written."""
TARGET = "target"
"""In the view of a batch whose results are delivered: the kind of its target."""
_ROUND_S = 1.0
_AT_ONCE = 16
_POLL_S = (2.0, 30.0)
_POLL_S_A_DOCUMENT = 0.02
_POLL_SHARE_OF_AGE = 0.02
_MISSED_S = 30.0
_MOST_MISSES = 10
_RETRY_S = 10.0
_LONGEST_RETRY_S = 600.0


async def save_announced(batches: DocumentBatches, pending: BatchCallbacks, batch: DocumentBatch) -> None:
    """Stores a batch whose end is to be announced: to a callback, or by delivering its results."""
    await pending.add(batch.id, CALLBACK_GRACE_S)
    await batches.save(batch)
    await pending.add(batch.id, 0.0)


class BatchNotifier:
    """Works in the housekeeper's process; a claim keeps two processes from the same batch."""

    def __init__(self, engine: Engine, pending: BatchCallbacks) -> None:
        self._engine = engine
        self._parts = engine.parts
        self._pending = pending
        self._batches = DocumentBatches(engine.parts)

    @classmethod
    def of(cls, engine: Engine, connection: RedisConnection) -> BatchNotifier:
        return cls(engine, BatchCallbacks(connection, engine.parts.clock))

    async def run(self, is_housekeeper: Callable[[], bool]) -> None:
        """Checks the batches that are due, every second, where this process is the housekeeper, until cancelled."""
        await keep_running("batch-notifier", partial(self._rounds, is_housekeeper))

    async def _rounds(self, is_housekeeper: Callable[[], bool]) -> None:
        """Each batch has a task of its own: a slow receiver delays only its own callback."""
        running: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                running = {one: task for one, task in running.items() if not task.done()}
                room = _AT_ONCE - len(running) if is_housekeeper() else 0
                for batch_id in await self._due(room):
                    if batch_id not in running:
                        running[batch_id] = group.create_task(self._claimed(batch_id), name="batch-callback")
                await asyncio.sleep(_ROUND_S)

    async def _due(self, room: int) -> list[str]:
        if room <= 0:
            return []
        try:
            return await self._pending.due(room)
        except PlaneError as error:
            _LOG.warning("callbacks of batches postponed", extra={"code": error.code})
            return []

    async def _claimed(self, batch_id: str) -> None:
        try:
            if await self._pending.claim(batch_id):
                await self.check(batch_id)
        except PlaneError as error:
            _LOG.warning("callback of a batch postponed", extra={"batch_id": batch_id, "code": error.code})
        except Exception:  # such as an address that was sealed with another SECRET_KEY: the others must go on
            _LOG.exception(
                "callback of a batch failed; it is tried again when its claim ends",
                extra={"batch_id": batch_id},
            )

    async def check(self, batch_id: str) -> None:
        """Calls back if all jobs of a batch that this process has claimed have ended; else it is due again later."""
        try:
            batch = DocumentBatch.unpack(await self._parts.objects.get(batch_key(batch_id)))
        except MissingError:
            if not await self._postpone(batch_id, CALLBACK_GRACE_S):
                await self._end(batch_id)
            return
        progress = await self._batches.progress(batch)
        age_s = self._parts.clock.now() - batch.created_at
        if not progress.is_over:
            await self._pending.again(batch_id, poll_s(len(progress.items) - progress.ended, age_s))
            return
        # Jobs of a young batch are missing while Redis is restored from the journal.
        young = age_s < self._parts.jobs.ttl_s
        if progress.count("expired") and young and await self._postpone(batch_id, _MISSED_S):
            return
        failure = await self._announce(batch, progress)
        if failure is not None and failure.retryable:
            attempts = await self._pending.failed(batch_id)
            if attempts < self._parts.settings.callbacks.max_attempts:
                await self._pending.again(batch_id, min(_RETRY_S * 2**attempts, _LONGEST_RETRY_S))
                return
        if failure is not None:
            _LOG.warning(
                "callback of a batch given up", extra={"batch_id": batch_id, "error": failure.public}
            )
        if TARGET in batch.view:
            await self._batches.delivery_ended(batch_id, failure)
        await self._end(batch_id)

    async def _announce(self, batch: DocumentBatch, progress: BatchProgress) -> QuireError | None:
        """Calls back, or delivers; returns why that failed."""
        secrets = self._parts.sealer.unseal(batch.id, batch.sealed)
        try:
            if secrets.target and progress.count("completed"):
                async with self._held(batch.id):
                    await self._deliver(batch, unpacked(secrets.target))
            elif secrets.callback_url:
                await self._call(secrets.callback_url, batch, progress)
        except (LinkRefusedError, DownloadError) as error:
            return error
        except ObjectsError as error:
            if error.retryable:  # our own store is away: that is no failure of the target
                raise
            return error
        return None

    @asynccontextmanager
    async def _held(self, batch_id: str) -> AsyncIterator[None]:
        """Keeps the claim on a batch, whose results may take longer to upload than a claim lasts."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(CLAIM_S / 3)
                await self._pending.renew(batch_id)

        renewing = asyncio.create_task(renew(), name="batch-claim")
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _deliver(self, batch: DocumentBatch, target: BatchTarget) -> None:
        found = [await self._parts.jobs.get(job_id) for job_id in batch.job_ids]
        jobs = {job.id: job for job in found if job is not None}
        view = batch.view
        await DoclingFiles(self._engine, batch.items, jobs, view["formats"], view["between"]).deliver(target)

    async def _end(self, batch_id: str) -> None:
        try:
            await self._batches.callback_ended(batch_id)
        except ObjectsError as error:  # the callback was sent: it must not be sent again because of this
            _LOG.warning("end of a callback not stored", extra={"batch_id": batch_id, "code": error.code})
        await self._pending.remove(batch_id)

    async def _postpone(self, batch_id: str, in_s: float) -> bool:
        """Whether the batch is due again because something was missing; only a bounded number of times."""
        if await self._pending.missed(batch_id) > _MOST_MISSES:
            return False
        await self._pending.again(batch_id, in_s)
        return True

    async def _call(self, url: str, batch: DocumentBatch, progress: BatchProgress) -> None:
        body = json.dumps(
            {
                "batch_id": batch.id,
                "status": progress.status,
                "total": len(progress.items),
                "completed": progress.count("completed"),
                "failed": progress.count("failed"),
                "cancelled": progress.count("cancelled"),
                "expired": progress.count("expired"),
                "export_url": f"/batches/{batch.id}/export",
            }
        ).encode()
        headers = {"Content-Type": "application/json", "X-Quire-Delivery": batch.id}
        secret = self._parts.settings.callbacks.secret
        if secret:
            headers[SIGNATURE_HEADER] = sign(body, secret, int(self._parts.clock.now()))
        await post_json(url, body, headers, link_policy(self._parts))


def poll_s(documents_left: int, age_s: float) -> float:
    """When to check a batch again: the later the more documents it waits for, and the older it is."""
    least, most = _POLL_S
    return min(most, max(least, documents_left * _POLL_S_A_DOCUMENT, age_s * _POLL_SHARE_OF_AGE))
