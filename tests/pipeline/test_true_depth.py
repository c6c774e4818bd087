"""A backlog that waits has one entry for each unit, however often the sweeper looks at it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from quire.clock import now_ms
from quire.coordination import keys
from quire.coordination.job_records import Claim, NewJob
from quire.domain.job import JobOptions, UnitKind, new_job_id
from quire.pipeline.parts import Parts
from quire.pipeline.worker import STAGES
from tests.support.clocks import ShiftedClock
from tests.support.running import quire, worker
from tests.support.waiting import until

DOCUMENTS = 200


async def test_depth_is_the_number_of_documents_when_a_backlog_waits_behind_a_busy_worker(
    tmp_path: Path,
) -> None:
    """Without care 200 documents are 800 entries after 45 s: each sweep would queue what no worker has claimed."""
    clock, end, held = ShiftedClock(), asyncio.Event(), 0

    async def busy(_claim: Claim, _parts: Parts) -> None:
        nonlocal held
        held += 1
        await end.wait()

    async with quire(tmp_path, kinds=None, clock=clock, WORKER_TTL="10m") as one:
        for _ in range(DOCUMENTS):
            job_id = new_job_id()
            new = NewJob(job_id, "team", JobOptions(), {}, "a.pdf", content_ref=f"jobs/{job_id}/original-x")
            assert await one.parts.jobs.create(new) is None

        async def all_swept_since(moment_ms: int) -> bool:
            return int(await one.connection.command("ZCOUNT", keys.ACTIVE, "-inf", moment_ms)) == 0

        async with worker(one, {**STAGES, UnitKind.SPLIT: busy}):
            await until(lambda: held >= 2, "the worker is busy")
            for _ in range(4):
                clock.shift_s += 15
                swept = partial(all_swept_since, now_ms(clock))
                await until(swept, "the sweeper has looked at every document")
                depth = await one.parts.queues.depth(UnitKind.SPLIT)
                assert (depth["waiting"], depth["delayed"]) == (DOCUMENTS, 0)
