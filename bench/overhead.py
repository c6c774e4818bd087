"""What the queue costs: no-op pages through our worker, beside a bare redis-py Streams loop on the same server."""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from dataclasses import replace
from pathlib import Path

import uvloop
from redis.asyncio import Redis

from measuring import median, scratch, table
from quire.bootstrap import runtime
from quire.coordination.job_records import Claim, NewJob, PageOutcome
from quire.domain.job import JobOptions, JobStatus, PageRecord, UnitKind, chunk_places, new_job_id
from quire.domain.page import PageSource
from quire.pipeline.parts import Parts
from quire.pipeline.worker import Worker
from quire.settings import load

WORKER = "bench.0.0.0"
IN_HAND = 16


async def bare(redis: Redis, pages: int) -> None:
    """Add, read in batches, acknowledge and delete: what any Streams loop does, with nothing around it."""
    await redis.delete("bare")
    await redis.xgroup_create("bare", "group", id="0", mkstream=True)

    async def produce() -> None:
        for number in range(pages):
            await redis.xadd("bare", {"job_id": "0" * 36, "unit": f"p{number}", "epoch": "1"})

    async def consume() -> None:
        done = 0
        while done < pages:
            found = await redis.xreadgroup("group", "one", {"bare": ">"}, count=IN_HAND, block=1000)
            for _stream, entries in found or []:
                for entry_id, _fields in entries:
                    await redis.xack("bare", "group", entry_id)
                    await redis.xdel("bare", entry_id)
                    done += 1

    await asyncio.gather(produce(), consume())


async def _noop_page(claim: Claim, parts: Parts) -> None:
    first, last = chunk_places(claim.hint.unit)
    await parts.jobs.pages_done(
        claim,
        [
            PageOutcome(PageRecord(number + 1, JobStatus.COMPLETED, source=PageSource.LOCAL, ref="x"))
            for number in range(first, last + 1)
        ],
    )


def _stages(pages: int, chunk: int) -> dict[UnitKind, object]:
    async def split(claim: Claim, parts: Parts) -> None:
        await parts.jobs.split_done(claim, pages, chunk, 128, {"ranges": f"1-{pages}"})

    async def merge(claim: Claim, parts: Parts) -> None:
        await parts.jobs.merged(claim, {"key": "k", "pages_key": "p", "metadata": {}})

    return {UnitKind.SPLIT: split, UnitKind.READ: _noop_page, UnitKind.MERGE: merge}


async def ours(parts: Parts, pages: int, chunk: int) -> None:
    """One document of no-op pages, from accepted to completed, through the real worker and scripts."""
    slots = {UnitKind.SPLIT: 1, UnitKind.READ: IN_HAND, UnitKind.MERGE: 1}
    worker = Worker(parts, WORKER, slots, _stages(pages, chunk))  # type: ignore[arg-type]
    running = asyncio.create_task(worker.run())
    job_id = new_job_id()
    new = NewJob(job_id, "bench", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/original")
    await parts.jobs.create(new)
    while True:
        job = await parts.jobs.get(job_id)
        assert job is not None
        if job.status is JobStatus.COMPLETED:
            break
        await asyncio.sleep(0.02)
    await worker.drain(5)
    await running


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(folder: Path, pages: int, rounds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    settings = load({"DATA_DIR": str(folder / "data"), "READER_PROCESSES": "1"})
    async with runtime(settings, owner="bench") as running:
        redis = Redis.from_url(running.connection.url, decode_responses=True, protocol=2)
        parts = replace(running.parts)
        ways = {
            "bare redis-py Streams loop": (pages, lambda: bare(redis, pages)),
            "ours, one page a unit": (pages, lambda: ours(parts, pages, 1)),
            # More pages: a worker's start and stop would otherwise be an eighth of what is measured.
            "ours, 16 pages a unit (as local reading does)": (8 * pages, lambda: ours(parts, 8 * pages, 16)),
        }
        for _ in range(rounds):
            for name, (count, way) in ways.items():
                cpu, began = _cpu_s(), time.monotonic()
                await way()
                wall_s, cpu_s = time.monotonic() - began, _cpu_s() - cpu
                found.setdefault(name, []).append((wall_s / count, cpu_s / count))
        await redis.aclose()
    base = median([wall for wall, _ in found["bare redis-py Streams loop"]])
    rows = []
    for name, pairs in found.items():
        wall, cpu = median([wall for wall, _ in pairs]), median([cpu for _, cpu in pairs])
        rows.append([name, f"{1 / wall:.0f}", f"{1e6 * cpu:.0f}", f"{wall / base:.2f}"])
    table(
        f"{pages} no-op pages ({8 * pages} in units of 16), enqueue to finished, median of {rounds} rounds",
        ["", "pages/s", "µs CPU a page (client)", "time, of the bare loop"],
        rows,
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=int, default=5000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    with scratch() as folder:
        uvloop.run(measure(folder, chosen.pages, chosen.rounds))


if __name__ == "__main__":
    main()
