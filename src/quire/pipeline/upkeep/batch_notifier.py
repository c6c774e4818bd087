"""Calls back once for each document batch when all of its jobs have ended; a call that fails is tried again.

A callback may be sent twice if the process dies right after it; `X-Quire-Delivery` is the same then.
"""

from __future__ import annotations

import asyncio
import json
import logging

from quire.coordination.batch_callbacks import BatchCallbacks
from quire.coordination.connection import RedisConnection
from quire.domain.document_batch import DocumentBatch
from quire.errors import DownloadError, LinkRefusedError, MissingError, PlaneError
from quire.links import post_json, sign
from quire.pipeline.document_batches import BatchProgress, DocumentBatches
from quire.pipeline.object_keys import batch_key
from quire.pipeline.parts import Parts
from quire.pipeline.side_tasks import keep_running
from quire.pipeline.stages.callback_stage import SIGNATURE_HEADER
from quire.pipeline.stages.download_stage import link_policy

_LOG = logging.getLogger(__name__)
_ROUND_S = 1.0
_LOOK_AGAIN_S = 2.0
_RETRY_S = 10.0
_LONGEST_RETRY_S = 600.0


class BatchNotifier:
    """Runs in every long-running process; a claim keeps two of them from the same batch."""

    def __init__(self, parts: Parts, pending: BatchCallbacks) -> None:
        self._parts = parts
        self._pending = pending
        self._batches = DocumentBatches(parts)

    @classmethod
    def of(cls, parts: Parts, connection: RedisConnection) -> BatchNotifier:
        return cls(parts, BatchCallbacks(connection, parts.clock))

    async def run(self) -> None:
        """Looks at the batches that are due, every second, until it is cancelled."""
        await keep_running("batch-notifier", self._rounds)

    async def _rounds(self) -> None:
        while True:
            try:
                for batch_id in await self._pending.due():
                    if await self._pending.claim(batch_id):
                        await self._look(batch_id)
            except PlaneError as error:
                _LOG.warning("callbacks of batches postponed", extra={"code": error.code})
            await asyncio.sleep(_ROUND_S)

    async def _look(self, batch_id: str) -> None:
        try:
            batch = DocumentBatch.unpack(await self._parts.objects.get(batch_key(batch_id)))
        except MissingError:
            await self._pending.remove(batch_id)
            return
        progress = await self._batches.progress(batch)
        if not progress.is_over:
            await self._pending.again(batch_id, _LOOK_AGAIN_S)
            return
        try:
            await self._call(batch, progress)
        except LinkRefusedError as error:
            _LOG.warning("callback of a batch refused", extra={"batch_id": batch_id, "error": error.public})
        except DownloadError as error:
            attempts = await self._pending.failed(batch_id)
            if attempts < self._parts.settings.callbacks.max_attempts:
                await self._pending.again(batch_id, min(_RETRY_S * 2**attempts, _LONGEST_RETRY_S))
                return
            _LOG.warning("callback of a batch given up", extra={"batch_id": batch_id, "error": error.public})
        await self._pending.remove(batch_id)

    async def _call(self, batch: DocumentBatch, progress: BatchProgress) -> None:
        url = self._parts.sealer.unseal(batch.id, batch.sealed).callback_url
        if not url:
            return
        body = json.dumps(
            {
                "batch_id": batch.id,
                "status": progress.status,
                "total": len(progress.items),
                "completed": progress.count("completed"),
                "failed": progress.count("failed"),
                "cancelled": progress.count("cancelled"),
                "export_url": f"/batches/{batch.id}/export",
            }
        ).encode()
        headers = {"Content-Type": "application/json", "X-Quire-Delivery": batch.id}
        secret = self._parts.settings.callbacks.secret
        if secret:
            headers[SIGNATURE_HEADER] = sign(body, secret, int(self._parts.clock.now()))
        await post_json(url, body, headers, link_policy(self._parts))
