"""A whole Quire in this process, on a data directory of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from quire.bootstrap import Runtime, runtime
from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.liveness import WorkerId
from quire.domain.job import JobOptions, JobSecrets, MainJob, PageRecord, UnitKind
from quire.pipeline.intake.upload_intake import Accepted, Submission
from quire.pipeline.worker import Stage, Worker, default_slots
from quire.settings import load
from tests.support.environment import ROOT
from tests.support.waiting import DEADLINE_S, UNHURRIED, until

TEAM = "team"
SEPARATOR = "\n\n---\n\n"


@asynccontextmanager
async def quire(
    folder: Path,
    *,
    kinds: Collection[UnitKind] | None = tuple(UnitKind),
    clock: Clock | None = None,
    **env: str,
) -> AsyncIterator[Runtime]:
    settings = load(
        {
            "DATA_DIR": str(folder / "data"),
            "READER_PROCESSES": "1",
            "RETRY_BASE_DELAY": "20ms",
            "RETRY_JITTER": "0",
            "SHUTDOWN_TIMEOUT": "0",
            **UNHURRIED,
            **env,
        }
    )
    # Readers that a test has written itself are imported by children, so the cage must show them.
    code = [ROOT / "tests"]
    async with runtime(settings, owner="test", kinds=kinds, clock=clock, reader_code=code) as found:
        yield found


def uncaged(folder: Path, **options: Any) -> AbstractAsyncContextManager[Runtime]:
    """The same without the cage, for readers of a test that write files or kill processes."""
    return quire(folder, **{"READER_CAGE": "false", **options})


@asynccontextmanager
async def worker(one: Runtime, stages: Mapping[UnitKind, Stage]) -> AsyncIterator[Worker]:
    """A worker with stages of the test's own, beside a runtime that has none."""
    slots = default_slots(4, one.parts.reader_processes, 1)
    found = Worker(one.parts, str(WorkerId.of_this_process()), slots, stages)
    running = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        await found.drain(0)
        await asyncio.wait({running}, timeout=DEADLINE_S)
        running.cancel()


async def upload(
    one: Runtime,
    content: Path | bytes,
    *,
    team: str = TEAM,
    force: bool = False,
    key: str | None = None,
    secrets: JobSecrets | None = None,
    **options: Any,
) -> Accepted:
    submission = Submission(
        team=team,
        options=JobOptions(**options),
        secrets=secrets or JobSecrets(),
        filename="document.pdf",
        force=force,
        idempotency_key=key,
    )
    one.engine.intake.check(submission)
    place = await one.engine.intake.begin_upload(submission)
    async with place.writer as out:
        await out.write(
            content if isinstance(content, bytes) else await asyncio.to_thread(content.read_bytes)
        )
    return await one.engine.intake.accept_upload(submission, place)


async def over(one: Runtime, job_id: str) -> MainJob:
    """The job once it has ended."""
    job = await one.engine.wait(TEAM, job_id, DEADLINE_S)
    assert job.status.terminal, f"still {job.status.value} after {DEADLINE_S:g} s"
    return job


async def convert(one: Runtime, content: Path | bytes, **options: Any) -> MainJob:
    return await over(one, (await upload(one, content, **options)).job_id)


async def markdown(one: Runtime, job: MainJob) -> str:
    found = await one.engine.result(job)
    return b"".join([piece async for piece in one.engine.text(found)]).decode()


async def page_texts(one: Runtime, job: MainJob) -> list[str]:
    return (await markdown(one, job)).split(SEPARATOR)


async def pages(one: Runtime, job: MainJob) -> dict[int, PageRecord]:
    return {record.number: record for record in await one.engine.pages(job)}


async def job_of(one: Runtime, job_id: str) -> MainJob:
    return await one.engine.job(TEAM, job_id)


async def left_in_queues(one: Runtime) -> dict[str, dict[str, int]]:
    """The queues that have anything in them, dead letters left out."""
    depths = {kind.value: await one.parts.queues.depth(kind) for kind in UnitKind}
    return {name: depth for name, depth in depths.items() if depth["waiting"] or depth["delayed"]}


async def at_rest(one: Runtime) -> None:
    """Waits until nothing is left to do: entries are taken out a moment after the job's end."""

    async def nothing_left() -> bool:
        return not await left_in_queues(one) and await one.connection.command("ZCARD", keys.ACTIVE) == 0

    await until(nothing_left, "empty queues and no active job")
