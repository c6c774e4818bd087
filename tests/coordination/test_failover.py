"""One suite over every kind of coordination server: a job keeps its state over the loss of a primary."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim, NewJob, PageOutcome
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.server_address import ServerAccess
from quire.coordination.streams import Queues
from quire.domain.job import JobOptions, JobStatus, PageRecord, UnitKind, new_job_id
from quire.domain.page import PageSource
from quire.errors import CoordinationError
from tests.support.clocks import ShiftedClock
from tests.support.failing_servers import (
    FailingServers,
    replicated_cluster,
    restarting,
    watched_by_sentinels,
)
from tests.support.waiting import DEADLINE_S, eventually, until

T = TypeVar("T")
KINDS = {"": restarting, "+sentinel": watched_by_sentinels, "+cluster": replicated_cluster}


@pytest.fixture(params=[f"{base}{kind}" for base in ("redis", "rediss") for kind in KINDS])
def servers(request: pytest.FixtureRequest) -> Iterator[FailingServers]:
    base, plus, kind = request.param.partition("+")
    with KINDS[plus + kind](tls=base == "rediss") as made:
        assert made.url.startswith(f"{request.param}:")
        yield made


async def insist(act: Callable[[], Awaitable[T]]) -> T:
    """Repeats a call while the server is away, as a worker does."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await act()
            except CoordinationError:
                await asyncio.sleep(0.1)


async def test_a_job_keeps_its_state_when_a_primary_is_killed_in_the_middle(servers: FailingServers) -> None:
    connection = RedisConnection.open(servers.url, ServerAccess(ca_file=servers.ca_file))
    clock = ShiftedClock()
    queues, workers = Queues(connection, clock), Workers(connection, clock, ttl_s=60)
    jobs = JobStore(connection, queues, clock, ttl_s=3600)
    woken = asyncio.Event()

    async def listen() -> None:
        while True:
            try:
                async with connection.subscription() as pubsub:
                    await pubsub.subscribe("news")
                    while True:
                        if (found := await pubsub.get_message(timeout=1)) and found["type"] == "message":
                            woken.set()
            except CoordinationError:
                await asyncio.sleep(0.1)

    async def claim(kind: UnitKind) -> Claim:
        async def next_claim() -> Claim | None:
            for hint in await insist(lambda: queues.read(kind, "worker", 1, 0.2)) or await insist(
                lambda: queues.in_hand(kind, "worker")
            ):
                taken = await insist(lambda hint=hint: jobs.claim(hint, "worker", f"token-{hint.unit}"))
                await insist(lambda hint=hint: queues.done(hint))
                if isinstance(taken, Claim):
                    return taken
            return None

        return await eventually(next_claim, f"an entry of {kind}")

    async def is_told() -> bool:
        await insist(lambda: connection.command("PUBLISH", "news", "1"))
        return woken.is_set()

    listening = asyncio.create_task(listen())
    try:
        await queues.ensure_groups(UnitKind)
        job_id = new_job_id()
        new = NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/o")
        assert await jobs.create(new) is None
        await jobs.split_done(await claim(UnitKind.SPLIT), 2, 1, 2, {"ranges": "1-2"})
        first, second = await claim(UnitKind.READ), await claim(UnitKind.READ)
        await until(is_told, "the subscription")
        # Every key may be on the node that is killed, or on another one.
        await asyncio.to_thread(servers.fail)
        if servers.url.startswith(("redis:", "rediss:")):
            await asyncio.to_thread(servers.come_back)
        done = PageRecord(1, JobStatus.COMPLETED, source=PageSource.LOCAL, ref="o")
        await insist(lambda: jobs.pages_done(first, [PageOutcome(done)]))
        await insist(lambda: workers.beat("worker"))
        await insist(
            lambda: jobs.pages_done(second, [PageOutcome(PageRecord(2, JobStatus.COMPLETED, ref="o"))])
        )
        merging = await claim(UnitKind.MERGE)
        result = {"key": "k", "pages_key": "p", "metadata": {}}
        await insist(lambda: jobs.merged(merging, result))
        job = await insist(lambda: jobs.get(job_id))
        assert job is not None
        assert (job.status, job.pages_completed) == (JobStatus.COMPLETED, 2)
        woken.clear()
        await until(is_told, "the subscription after the failover")
        everywhere = [(keys.worker(f"w{number}"), str(number)) for number in range(30)]
        for key, value in everywhere:
            await insist(lambda key=key, value=value: connection.command("SET", key, value))
        assert await connection.commands([("GET", key) for key, _ in everywhere]) == [
            value for _, value in everywhere
        ]
    finally:
        listening.cancel()
        await asyncio.wait({listening})
        await connection.close()
