"""How long recovery takes, and what the accept record costs.

`python bench/recovery.py death` kills a worker that has all AI calls in flight that its models allow, in a process-id
space of its own like that of another host. It waits until another worker has claimed one of its pages, and until the
next call is made: at most WORKER_TTL + 2 s. `failover` kills the primary of sentinels and compares when the new primary
takes writes with when Quire does, and when the pages of a document that is being read are recorded again: at most 5 s
more. `accept` times the record that is written before a document is accepted: at most 3 ms, one write.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.coordination_servers import ask, plain_server
from tests.support.failing_servers import NAME, watched_by_sentinels
from tests.support.marked_documents import marked_pdf
from tests.support.running import over, quire, upload

from measuring import PYTHON, environment, median, scratch, table
from quire.bootstrap import Runtime
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import NewJob
from quire.coordination.keys import JobKeys
from quire.domain.job import JobOptions, JobStatus, new_job_id
from quire.domain.job_options import Mode
from quire.errors import CoordinationError
from quire.objects.object_store import ObjectStore
from quire.pipeline.upkeep.job_journal import write_accepted
from quire.simulator.simulator_thread import RunningSimulator, simulator

_LONG = {"models": [{"model": "*", "latency": 600}]}
_POLL_S = 0.02
_DEATH_PAGES = 4
"""As many as the two models allow at first."""


async def until(condition: Callable[[], Awaitable[bool]]) -> float:
    """Returns the time at which the condition held; it is asked 50 times a second, outages count as no."""
    while True:
        with suppress(CoordinationError, OSError):
            if await condition():
                return time.monotonic()
        await asyncio.sleep(_POLL_S)


class DistantWorker:
    """`quire worker` in a process-id space of its own: others can't see that its process has ended."""

    def __init__(self, folder: Path, number: int, settings: dict[str, str]) -> None:
        env = environment(folder, **settings, DATA_DIR=str(folder / f"worker{number}"))
        command = ["unshare", "--pid", "--fork", "--kill-child", PYTHON, "-m", "quire", "worker"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


async def _owner(one: Runtime, job_id: str, unit: str) -> str:
    found = await one.connection.command("HGET", JobKeys.of(job_id).work, unit)
    return str(json.loads(found)["o"]) if found else ""


async def _alive(one: Runtime, known: set[str]) -> str:
    """The id of a new worker, once it has sent its heartbeat."""
    new: list[str] = []

    async def is_there() -> bool:
        new[:] = [name for name in await one.parts.workers.heartbeats() if name not in known]
        return bool(new)

    await until(is_there)
    return new[0]


async def _no_call_is_free(one: Runtime) -> bool:
    """Whether as many calls are in flight as the models allow."""
    assert one.parts.ai is not None
    dispatcher = one.parts.ai.dispatcher
    targets = [candidate.target for candidate in dispatcher.candidates.of(None, None)]
    return all(state.in_flight >= state.cap for state in await dispatcher.admission.states(targets))


async def _die_once(
    one: Runtime, provider: RunningSimulator, job_id: str, holder: DistantWorker
) -> tuple[float, float]:
    """Kills the worker that has the calls. Returns the seconds until another has its page, and until the next call."""
    held_by, calls = await _owner(one, job_id, "p1"), provider.stats()["total"]["calls"]
    killed_at = time.monotonic()
    holder.kill()

    async def is_taken_over() -> bool:
        return await _owner(one, job_id, "p1") not in ("", held_by)

    async def is_called() -> bool:
        return bool(provider.stats()["total"]["calls"] > calls)

    taken_at, called_at = await asyncio.gather(until(is_taken_over), until(is_called))
    return taken_at - killed_at, called_at - killed_at


async def death(folder: Path, rounds: int, ttl_s: float) -> None:
    rows = []
    with plain_server() as (url, _port), simulator(_LONG) as provider:
        settings = {
            "REDIS_URL": url,
            "OBJECT_STORE": str(folder / "objects"),
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": provider.openai_url,
            "PRIMARY_ENGINE": "openai",
            "SECRET_KEY": "recovery" * 8,
            "READER_PROCESSES": "1",
            "WORKER_TTL": f"{ttl_s:g}s",
        }
        async with quire(folder, kinds=None, **settings) as one:
            known: set[str] = set()
            holder = DistantWorker(folder, 0, settings)
            known.add(await _alive(one, known))
            for number in range(1, rounds + 1):
                document = marked_pdf(folder / f"{number}.pdf", _DEATH_PAGES, number)
                job_id = (await upload(one, document, mode=Mode.AI)).job_id
                await until(partial(_no_call_is_free, one))
                other = DistantWorker(folder, number, settings)
                known.add(await _alive(one, known))
                await asyncio.sleep(ttl_s / 3 * number / rounds)  # at another moment between two heartbeats
                taken_s, called_s = await _die_once(one, provider, job_id, holder)
                rows.append(
                    [str(number), f"{taken_s:.1f} s", f"{called_s:.1f} s", f"{called_s - ttl_s:+.1f} s"]
                )
                await one.parts.jobs.cancel(job_id)
                await until(partial(_is_idle, one))
                holder = other
            holder.kill()
    table(
        f"a worker's host dies with all calls in flight, WORKER_TTL {ttl_s:g} s",
        ["round", "until another has a page", "until the next call", "beyond the TTL"],
        rows,
    )


async def _is_idle(one: Runtime) -> bool:
    assert one.parts.ai is not None
    dispatcher = one.parts.ai.dispatcher
    return not any(
        state.in_flight for state in await dispatcher.admission.states(dispatcher.candidates.all())
    )


def _new_primary_writes(sentinel: int, old_port: str) -> bool:
    """Whether the sentinel names another primary, and that takes writes."""
    answer = ask(sentinel, "SENTINEL", "get-master-addr-by-name", NAME).split()
    port = answer[-1].decode() if answer else old_port
    return port != old_port and b"+OK" in ask(int(port), "SET", "bench:written", "1")


async def failover(folder: Path, rounds: int) -> None:
    rows = []
    for number in range(1, rounds + 1):
        with watched_by_sentinels() as servers:
            sentinel = int(servers.url.split("127.0.0.1:")[1].partition("/")[0])
            old_port = ask(sentinel, "SENTINEL", "get-master-addr-by-name", NAME).split()[-1].decode()
            async with quire(folder / str(number), REDIS_URL=servers.url) as one:
                line = RedisConnection.open(servers.url)
                await line.command("SET", "bench:before", "1")
                job_id = (await upload(one, marked_pdf(folder / f"{number}.pdf", 400, number))).job_id

                async def is_reading(job_id: str = job_id, one: Runtime = one) -> bool:
                    job = await one.parts.jobs.get(job_id)
                    return job is not None and job.pages_completed > 0

                await until(is_reading)
                await asyncio.to_thread(servers.fail)
                killed_at = time.monotonic()

                async def redis_writes(sentinel: int = sentinel, old_port: str = old_port) -> bool:
                    return await asyncio.to_thread(_new_primary_writes, sentinel, old_port)

                async def quire_writes(line: RedisConnection = line) -> bool:
                    return bool(await line.command("SET", "bench:after", "1"))

                redis_at, quire_at = await asyncio.gather(until(redis_writes), until(quire_writes))
                completed = await one.parts.jobs.get(job_id)
                before = completed.pages_completed if completed else 0

                async def goes_on(job_id: str = job_id, one: Runtime = one, before: int = before) -> bool:
                    job = await one.parts.jobs.get(job_id)
                    return job is not None and (job.pages_completed > before or job.status.terminal)

                reading_at = await until(goes_on)
                job = await over(one, job_id)
                assert job.status is JobStatus.COMPLETED, job.error
                await line.close()
                rows.append(
                    [
                        str(number),
                        f"{redis_at - killed_at:.1f} s",
                        f"{quire_at - redis_at:+.1f} s",
                        f"{reading_at - redis_at:+.1f} s",
                    ]
                )
    heads = ["round", "Redis itself", "then Quire writes", "then pages are recorded again"]
    table("the primary of sentinels is killed", heads, rows)


async def accept(folder: Path, records: int) -> None:
    store = ObjectStore.open(str(folder / "objects"), folder / "scratch")
    await store.prepare()
    puts: list[str] = []
    put = store.put

    async def counted(key: str, data: bytes) -> None:
        puts.append(key)
        await put(key, data)

    store.put = counted  # type: ignore[method-assign]
    times, cpu_s = [], time.process_time()
    for number in range(records):
        source = {"kind": "upload"}
        new = NewJob(
            new_job_id(), "team", JobOptions(), source, f"{number}.pdf", content_ref="jobs/x/original"
        )
        began = time.perf_counter()
        await write_accepted(store, new, "call")
        times.append(1000 * (time.perf_counter() - began))
    cpu_s = time.process_time() - cpu_s
    await store.close()
    times.sort()
    table(
        f"the accept record, {records} times, in a folder",
        ["writes each", "CPU each", "median", "p95", "worst"],
        [
            [
                f"{len(puts) / records:g}",
                f"{1000 * cpu_s / records:.2f} ms",
                f"{median(times):.2f} ms",
                f"{times[int(0.95 * len(times))]:.2f} ms",
                f"{times[-1]:.1f} ms",
            ]
        ],
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("what", choices=("death", "failover", "accept"))
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--ttl", type=float, default=15.0)
    options.add_argument("--records", type=int, default=1000)
    chosen = options.parse_args()
    with scratch() as folder:
        if chosen.what == "death":
            asyncio.run(death(folder, chosen.rounds, chosen.ttl))
        elif chosen.what == "failover":
            asyncio.run(failover(folder, chosen.rounds))
        else:
            asyncio.run(accept(folder, chosen.records))


if __name__ == "__main__":
    main()
