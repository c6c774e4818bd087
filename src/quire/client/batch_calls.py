"""Owns the calls of `/batches` and the record of a batch: many documents under one id."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quire.client.exceptions import TookTooLongError, UsageError
from quire.client.records import read
from quire.client.service_calls import (
    ServiceCall,
    Source,
    attachment,
    get,
    idempotent,
    is_address,
    uploading,
)
from quire.client.transport import Transport

_HELD_LONGEST_S = 16 * 60.0
_POLL_S = (0.1, 2.0)


@dataclass(frozen=True, slots=True)
class BatchDocument:
    """One document of a batch. `error` says why it was refused or failed; a refused document has no job."""

    name: str
    status: str
    job_id: str | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The state of a batch, as `GET /batches/{id}` has it. `progress` is the per cent of documents that have ended."""

    batch_id: str
    status: str
    progress: int
    total: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    queued: int = 0
    processing: int = 0
    created_at: str | None = None
    items: tuple[BatchDocument, ...] = ()

    @property
    def over(self) -> bool:
        return self.ended >= self.total

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled + self.expired


OnProgress = Callable[[Batch], Awaitable[None] | None]
"""Called with the first state of the batch, and each time when the number of ended documents has changed."""


def batch_call(sources: Iterable[Source], fields: Mapping[str, Any], key: str | None) -> ServiceCall:
    """The call of `POST /batches`. Raises UsageError without sources, or if they are files and addresses."""
    if isinstance(sources, str | bytes):
        raise UsageError("batch takes a list of documents. For one document use convert.")
    given = list(sources)
    addresses = [one for one in given if is_address(one)]
    if not given:
        raise UsageError("There is no document in the batch.")
    if not addresses:
        files = tuple(attachment(one, None) for one in given)
        call = uploading("/batches", files, fields, None)
        return replace(call, headers=idempotent(key), quiet_s=_HELD_LONGEST_S)
    if len(addresses) < len(given):
        raise UsageError("A batch has files or addresses, not both. Make two batches.")
    options = {name: value for name, value in fields.items() if value is not None}
    body = {"sources": addresses, **options}
    return ServiceCall("POST", "/batches", headers=idempotent(key), json=body, quiet_s=_HELD_LONGEST_S)


async def finished_batch(
    transport: Transport, batch: Batch, wait_s: float | None, on_progress: OnProgress | None
) -> Batch:
    """The batch when all its documents have ended. Raises TookTooLongError."""
    pause_s, longest_s = _POLL_S
    reported = -1
    try:
        async with asyncio.timeout(wait_s):
            while True:
                if on_progress is not None and batch.ended != reported:
                    reported = batch.ended
                    heard = on_progress(batch)
                    if inspect.isawaitable(heard):
                        await heard
                if batch.over:
                    return batch
                await asyncio.sleep(pause_s)
                pause_s = min(longest_s, pause_s * 1.5)
                batch = read(Batch, (await transport.ask(get("batches", batch.batch_id))).json())
    except TimeoutError:
        raise TookTooLongError(batch.batch_id, wait_s or 0.0) from None
