"""The housekeeper finds a process dead that had AI calls out: waiting pages get their places."""

from __future__ import annotations

from pathlib import Path

from quire.clock import SystemClock
from quire.coordination import keys
from quire.coordination.ai_admission import Admission, Ask, Lease, Target
from quire.coordination.streams import Hint
from quire.domain.job import UnitKind
from tests.support.running import quire
from tests.support.waiting import until

DEAD = "elsewhere.7.1.dead"


async def test_waiting_pages_are_woken_when_the_leases_of_a_dead_worker_are_released(tmp_path: Path) -> None:
    """Also by a process that has no AI provider of its own."""
    queue, clock = keys.QUEUES[UnitKind.PAGE], SystemClock()
    waiting = [Hint(f"{number}" * 8, "p1", 1).packed() for number in range(3)]
    async with quire(tmp_path, kinds=None) as one:
        await one.parts.workers.beat(DEAD)
        for _ in range(2):
            taken = await Admission(one.connection, holder=DEAD).admit([Ask(Target("one", "large"), 100)])
            assert isinstance(taken, Lease)
        for place, hint in enumerate(waiting):
            in_an_hour = int((clock.now() + 3600) * 1000)
            await one.connection.command("ZADD", queue.delayed, in_an_hour, hint)
            await one.connection.command("ZADD", keys.AI_WAITING, place, hint)
        await one.connection.command("DEL", keys.worker(DEAD))

        async def two_queued() -> bool:
            return int(await one.connection.command("XLEN", queue.stream)) == 2

        await until(two_queued, "the first two are queued")
        assert await one.connection.command("ZRANGE", queue.delayed, 0, -1) == [waiting[2]]
