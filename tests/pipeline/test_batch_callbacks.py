"""Callbacks of document batches: none is lost, and none waits for a slow one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.coordination.batch_callbacks import BatchCallbacks
from quire.domain.document_batch import BatchItem, DocumentBatch
from quire.domain.job import JobSecrets, new_job_id
from quire.pipeline.document_batches import DocumentBatches
from quire.pipeline.upkeep.batch_notifier import CALLBACK_GRACE_S, BatchNotifier, poll_s
from tests.support.running import TEAM, quire
from tests.support.waiting import until

REFUSED = BatchItem("bad.bin", None, {"error": "no", "code": "unsupported_type"})


class Receiver:
    """Takes callbacks; those to /slow are held until the test lets them go."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.held = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/slow":
            await self.held.wait()
        self.bodies.append(json.loads(await request.read()))
        return web.Response()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    one = Receiver()
    app = web.Application()
    app.router.add_post("/{any:.*}", one.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield one
    one.held.set()
    await runner.cleanup()


def batch_of(one: Runtime, url: str, *items: BatchItem, age_s: float = 0.0) -> DocumentBatch:
    batch_id = new_job_id()
    sealed = one.parts.sealer.seal(batch_id, JobSecrets(callback_url=url))
    return DocumentBatch(TEAM, one.parts.clock.now() - age_s, items or (REFUSED,), batch_id, sealed)


async def due_in_s(one: Runtime, batch: DocumentBatch) -> float | None:
    at = await one.connection.command("ZSCORE", keys.BATCH_CALLBACKS, batch.id)
    return None if at is None else float(at) / 1000 - one.parts.clock.now()


async def test_callbacks_are_neither_lost_nor_held_up(tmp_path: Path, receiver: Receiver) -> None:
    async with quire(tmp_path, kinds=None, ALLOW_PRIVATE_URLS="true") as one:
        pending = BatchCallbacks(one.connection, one.parts.clock)
        notifier, batches = BatchNotifier.of(one.engine, one.connection), DocumentBatches(one.parts)

        # The process died before the batch was stored: the entry is tried again, then removed.
        lost = batch_of(one, receiver.url)
        await pending.add(lost.id, CALLBACK_GRACE_S)
        assert lost.id not in await pending.due(10)
        for _ in range(10):
            await notifier.check(lost.id)
            assert await due_in_s(one, lost) is not None
        await notifier.check(lost.id)
        assert await due_in_s(one, lost) is None

        # Jobs of a young batch that are missing may come back; the batch of an old one calls back at once.
        gone = BatchItem("a.pdf", new_job_id())
        young, old = batch_of(one, receiver.url, gone), batch_of(one, receiver.url, gone, age_s=10e6)
        for batch in (young, old):
            await batches.save(batch)
            await pending.add(batch.id, 0.0)
            await notifier.check(batch.id)
        assert await due_in_s(one, young) is not None
        assert [(body["batch_id"], body["status"], body["expired"]) for body in receiver.bodies] == [
            (old.id, "expired", 1)
        ]
        await pending.remove(young.id)

        # The process died after it stored the batch. Neither slow receivers nor an address that can't be unsealed
        # hold up the callbacks of others.
        slow = [batch_of(one, f"{receiver.url}/slow") for _ in range(3)]
        last = batch_of(one, receiver.url)
        broken = replace(batch_of(one, receiver.url), sealed=last.sealed)
        for batch in (*slow, broken, last):
            await pending.add(batch.id, CALLBACK_GRACE_S)
            await batches.save(batch)
        for batch in (*slow, broken, last):
            await pending.add(batch.id, 0.0)

        async def none_due() -> bool:
            return await pending.due(10) == []

        running = asyncio.create_task(notifier.run(lambda: True))
        try:
            await until(lambda: any(body["batch_id"] == last.id for body in receiver.bodies))
            await until(none_due, "claimed batches are not among those that are due")
            receiver.held.set()
            await until(lambda: len(receiver.bodies) == 5)
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.mark.parametrize(
    ("left", "age_s", "expected"), [(1, 0, 2.0), (500, 0, 10.0), (1_000, 9e9, 30.0), (1, 600, 12.0)]
)
def test_a_batch_is_polled_less_often_when_it_is_large_or_old(
    left: int, age_s: float, expected: float
) -> None:
    assert poll_s(left, age_s) == expected
