"""What many workers cost their Redis: commands and connections at rest, the time to pick up work, commands a page.

Each simulated worker is the real `Worker` and `Housekeeper` with its own connection and worker id; only reading a
page does nothing. They share this process, so `python bench/fleet_workers.py --workers 2,50,300` needs no 300 hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.coordination_servers import ask, plain_server

from measuring import median, scratch, table
from overhead import _stages
from quire.bootstrap import runtime
from quire.coordination.connection import RedisConnection
from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.streams import Queues
from quire.domain.job import JobOptions, JobStatus, UnitKind, new_job_id
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.housekeeper import Housekeeper
from quire.pipeline.worker import Worker, default_slots
from quire.settings import load

_SETTLE_S = 5.0
_TTL_S = 15.0


@dataclass(frozen=True)
class ServerUse:
    """Counters of the server."""

    commands: int
    connections: int
    cpu_s: float

    @classmethod
    def read(cls, port: int) -> ServerUse:
        text = "".join(ask(port, "INFO", part).decode() for part in ("stats", "clients", "cpu"))

        def number(name: str) -> float:
            found = re.search(rf"^{name}:([\d.]+)", text, re.M)
            assert found is not None, name
            return float(found[1])

        used = number("used_cpu_sys") + number("used_cpu_user")
        return cls(int(number("total_commands_processed")), int(number("connected_clients")) - 1, used)


async def start_worker(
    group: asyncio.TaskGroup, stack: AsyncExitStack, base: Parts, url: str, number: int
) -> asyncio.Task[None]:
    """One worker with all queues and its own connections, as a process of its own would have."""
    connection = RedisConnection.open(url)
    stack.push_async_callback(connection.close)
    queues = Queues(connection, base.clock)
    jobs = JobStore(connection, queues, base.clock, 3600)
    workers = Workers(connection, base.clock, _TTL_S)
    parts = replace(base, queues=queues, jobs=jobs, workers=workers)
    worker_id = f"simulated{number}.{number + 1}.0.0"
    keeper = Housekeeper(parts, HousekeepingRecords(connection, base.clock), worker_id)
    slots = default_slots(8, 1, 2)
    stages = dict.fromkeys(UnitKind, _none) | _stages(_PAGES, 1)
    group.create_task(keeper._run_rounds())
    return group.create_task(Worker(parts, worker_id, slots, stages).run())  # type: ignore[arg-type]


async def _none(*_: object) -> None:
    return None


_PAGES = 64


async def _document(parts: Parts) -> float:
    """Seconds from the acceptance of a document of no-op pages to its end."""
    job_id = new_job_id()
    new = NewJob(job_id, "bench", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/original")
    began = time.monotonic()
    await parts.jobs.create(new)
    while True:
        job = await parts.jobs.get(job_id)
        assert job is not None
        if job.status is JobStatus.COMPLETED:
            return time.monotonic() - began
        await asyncio.sleep(0.005)


async def _pick_up_s(base: Parts) -> float:
    """Seconds from queueing a unit of an unknown job to its removal by an idle worker."""
    from quire.coordination.streams import Hint

    began = time.monotonic()
    await base.queues.put([Hint(new_job_id(), "merge", 1)])
    while True:
        if not (await base.queues.depth(UnitKind.MERGE))["waiting"]:
            return time.monotonic() - began


async def measure(folder: Path, workers: int, rest_s: float, documents: int) -> list[str]:
    with plain_server() as (url, port):
        settings = load({"DATA_DIR": str(folder / f"{workers}"), "REDIS_URL": url, "READER_PROCESSES": "1"})
        async with runtime(settings, owner="bench") as running, AsyncExitStack() as stack:
            alone = ServerUse.read(port)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    await start_worker(group, stack, running.parts, url, number) for number in range(workers)
                ]
                await asyncio.sleep(_SETTLE_S)
                first = ServerUse.read(port)
                await asyncio.sleep(rest_s)
                last = ServerUse.read(port)
                picked = [await _pick_up_s(running.parts) for _ in range(50)]
                before, began = ServerUse.read(port), time.monotonic()
                await asyncio.gather(*(_document(running.parts) for _ in range(documents)))
                took_s, after = time.monotonic() - began, ServerUse.read(port)
                for task in (*tasks, *group._tasks):  # the housekeepers too
                    task.cancel()
    pages = documents * _PAGES
    rest = (last.commands - first.commands) / rest_s
    return [
        str(workers),
        f"{rest:.0f}",
        f"{rest / workers:.1f}",
        f"{(last.connections - alone.connections) / workers:.1f}",
        f"{100 * (last.cpu_s - first.cpu_s) / rest_s:.1f} %",
        f"{1000 * median(picked):.1f} ms",
        f"{(after.commands - before.commands) / pages:.1f}",
        f"{1000 * (after.cpu_s - before.cpu_s) / pages:.2f} ms",
        f"{pages / took_s:.0f}",
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--workers", default="2,50,300")
    options.add_argument("--rest", type=float, default=20.0, help="seconds at rest that are measured")
    options.add_argument("--documents", type=int, default=10)
    chosen = options.parse_args()
    rows = []
    with scratch() as folder:
        for workers in map(int, chosen.workers.split(",")):
            rows.append(asyncio.run(measure(folder, workers, chosen.rest, chosen.documents)))
    table(
        f"simulated workers on one Redis; {chosen.documents} documents of {_PAGES} no-op pages, one page a unit",
        [
            *("workers", "commands/s at rest", "each", "connections each", "CPU of Redis at rest"),
            *("pick-up (median)", "commands a page", "CPU of Redis a page", "pages/s"),
        ],
        rows,
    )


if __name__ == "__main__":
    main()
