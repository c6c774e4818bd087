"""`quire worker --queues batch` forms batches of what a service without workers takes in."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.batching.callers import image, post_image
from tests.support.environment import clean_environment
from tests.support.parse_fixtures import Services, Simulated
from tests.support.quire_processes import start_quire
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

SIZE = 20_000
Start = Callable[[Server], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(simulated: Simulated, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def start(service: Server) -> subprocess.Popen[bytes]:
        settings = {
            "DATA_DIR": str(service.data_dir),
            "BATCH_BACKEND_URL": simulated.url,
            "READER_PROCESSES": "1",
            "LOG_LEVEL": "warn",
        }
        with (tmp_path / f"worker-{len(running)}.log").open("wb") as log:
            running.append(
                start_quire("worker", "--queues", "batch", env=clean_environment(**settings), stderr=log)
            )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


async def test_callers_are_served_by_a_worker_when_the_service_forms_no_batches(
    services: Services, simulated: Simulated, start_worker: Start
) -> None:
    simulated.script(fixed_ms=5, each_ms=1)
    service = services.start(RUN_DISPATCHER="0")
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(60)]
    worker = start_worker(service)
    replies = await asyncio.wait_for(asyncio.gather(*callers), DEADLINE_S)
    assert [reply.json["results"][0]["text"] for reply in replies] == [
        image(number, SIZE).digest for number in range(60)
    ]
    worker.terminate()
    assert await asyncio.to_thread(worker.wait, 60) == 0


async def test_batch_is_taken_over_when_its_worker_is_killed(
    services: Services, simulated: Simulated, start_worker: Start
) -> None:
    simulated.script(hold=True)
    service = services.start(RUN_DISPATCHER="0")
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(8)]
    worker = start_worker(service)
    await until(lambda: simulated.stats()["at_once"] > 0)
    worker.kill()
    worker.wait()
    start_worker(service)
    simulated.script(fixed_ms=5)
    replies = await asyncio.wait_for(asyncio.gather(*callers), DEADLINE_S)
    assert [reply.json["results"][0]["text"] for reply in replies] == [
        image(number, SIZE).digest for number in range(8)
    ]
    assert max(simulated.stats()["computed"].values()) <= 2
