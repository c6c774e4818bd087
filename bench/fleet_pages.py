"""What a page costs Redis: commands and CPU of real documents, read locally and by a simulated AI provider.

`python bench/fleet_pages.py --pages 60` converts one document each way in this process, on a Redis of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.coordination_servers import ask, plain_server
from tests.support.marked_documents import marked_pdf
from tests.support.running import convert, quire

from fleet_workers import ServerUse
from measuring import scratch, table
from quire.coordination.connection import Arg, RedisConnection
from quire.domain.job import JobStatus
from quire.domain.job_options import Mode
from quire.simulator.simulator_thread import simulator

_MODELS = {"models": [{"model": "*", "latency": {"uniform": [0.2, 1.0]}}]}


def _most_used(port: int, pages: int) -> str:
    found = re.findall(r"cmdstat_([\w|]+):calls=(\d+)", ask(port, "INFO", "commandstats").decode())
    rows = sorted(((int(calls) / pages, name) for name, calls in found), reverse=True)
    return ", ".join(f"{name} {calls:.1f}" for calls, name in rows[:12])


_REST_S = 20.0
_RUNS = {"local": Mode.LOCAL, "AI, few calls at a time yet": Mode.AI, "AI": Mode.AI}
"""The second document finds a model that allows two calls at a time, so that nearly every page waits once."""


class SentCommands:
    """Counts what a connection sends: the commands of a script are not sent, the call of the script is."""

    def __init__(self, connection: RedisConnection) -> None:
        self.count = 0
        self._send = connection._send
        connection._send = self._counted  # type: ignore[method-assign]

    async def _counted(self, commands: list[tuple[Arg, ...]]) -> list[Any]:
        self.count += len(commands)
        return await self._send(commands)


async def _at_rest(port: int) -> float:
    """Commands a second of this process when it does nothing: on a slow host a page has a larger share of them."""
    await asyncio.sleep(_REST_S / 2)
    before = ServerUse.read(port)
    await asyncio.sleep(_REST_S)
    return (ServerUse.read(port).commands - before.commands) / _REST_S


async def measure(folder: Path, pages: int) -> list[list[str]]:
    rows = []
    with plain_server() as (url, port), simulator(_MODELS) as provider:
        settings = {
            "REDIS_URL": url,
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": provider.openai_url,
            "PRIMARY_ENGINE": "openai",
        }
        async with quire(folder, **settings) as one:
            sent = SentCommands(one.connection)
            at_rest = await _at_rest(port)
            for seed, (name, mode) in enumerate(_RUNS.items(), 1):
                document = marked_pdf(folder / f"{seed}.pdf", pages, seed)
                await asyncio.sleep(2)
                ask(port, "CONFIG", "RESETSTAT")
                sent.count = 0
                before, began = ServerUse.read(port), asyncio.get_running_loop().time()
                job = await convert(one, document, mode=mode)
                took_s = asyncio.get_running_loop().time() - began
                after = ServerUse.read(port)
                assert job.status is JobStatus.COMPLETED, job.error
                print(f"{name}: a page uses {_most_used(port, pages)}")
                rows.append(
                    [
                        name,
                        f"{sent.count / pages:.1f}",
                        f"{(after.commands - before.commands) / pages:.1f}",
                        f"{(after.commands - before.commands - at_rest * took_s) / pages:.1f}",
                        f"{1000 * (after.cpu_s - before.cpu_s) / pages:.2f} ms",
                        f"{took_s:.1f} s",
                    ]
                )
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--pages", type=int, default=60)
    chosen = options.parse_args()
    with scratch() as folder:
        rows = asyncio.run(measure(folder, chosen.pages))
    table(
        f"a document of {chosen.pages} pages, one worker, all that it does beside included",
        ["pages", "sent a page", "commands a page", "beyond those at rest", "CPU of Redis a page", "time"],
        rows,
    )


if __name__ == "__main__":
    main()
