"""`/health` says what is wrong; readiness and liveness do not depend on it."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

from quire.api.operations.health_routes import Readiness
from quire.coordination.server_clock import ServerClock
from tests.batching.callers import post_image
from tests.support.coordination_servers import Restartable
from tests.support.parse_fixtures import Services, Simulated
from tests.support.running import quire
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

SIZE = 2_000


async def asked(service: Server, path: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with urllib.request.urlopen(service.url + path, timeout=DEADLINE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    return await asyncio.to_thread(ask)


async def has_issue(service: Server, words: str) -> bool:
    health = await asked(service, "/health")
    assert (health["status"] == "healthy") == (health["issues"] == [])
    return health["status"] == "degraded" and any(words in issue for issue in health["issues"])


async def test_health_has_its_fields_when_all_is_well(services: Services) -> None:
    health = await asked(services.start(MIN_FREE_DISK="0"), "/health")
    assert health["status"] == "healthy"
    assert health["issues"] == []
    assert health["timestamp"].endswith("Z")
    assert health["queue_depth"] == 0
    assert health["modal_reachable"] is True
    assert health["redis_connected"] is True
    assert health["last_batch_sent"] is None
    assert health["uptime_seconds"] >= 0


async def test_health_is_degraded_when_the_backend_is_unreachable_or_the_breaker_is_open(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(MIN_FREE_DISK="0", BATCH_COOLDOWN="1h", BATCH_FAILURE_THRESHOLD="2")
    simulated.script(status=500)
    await until(lambda: has_issue(service, "can't be reached"))
    caller = asyncio.ensure_future(post_image(service.url, 1, SIZE))
    await until(lambda: has_issue(service, "breaker"))
    assert (await asked(service, "/health/ready"))["status"] == "ok"
    assert (await asked(service, "/health/live"))["status"] == "ok"
    caller.cancel()


async def test_health_is_degraded_when_the_queue_is_nearly_full(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(
        MIN_FREE_DISK="0", MAX_QUEUE_SIZE="5", MAX_BATCH_SIZE="1", MAX_CONCURRENT_BATCHES="1"
    )
    simulated.script(hold=True)
    callers: list[asyncio.Future[object]] = []

    async def filled() -> bool:
        """One caller after the other: of many at once some are refused before a batch has left the queue."""
        callers.append(asyncio.ensure_future(post_image(service.url, len(callers), SIZE)))
        return await has_issue(service, "nearly full")

    await until(filled)
    simulated.script(fixed_ms=1)
    await asyncio.gather(*callers)


async def test_health_is_degraded_when_the_disk_is_nearly_full(services: Services) -> None:
    free = shutil.disk_usage(tempfile.gettempdir()).free  # below a sixteenth it would be full
    service = services.start(MIN_FREE_DISK=f"{2 * free >> 20}MB")
    assert await has_issue(service, "disk is nearly full")


async def test_health_is_degraded_when_no_worker_is_alive(services: Services) -> None:
    service = services.start(MIN_FREE_DISK="0", RUN_DISPATCHER="0")
    assert await has_issue(service, "No worker is alive")
    assert (await asked(service, "/health/ready"))["status"] == "ok"

    def upload() -> None:
        body = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--b--\r\n'
        )
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        urllib.request.urlopen(
            urllib.request.Request(service.url + "/convert", body, kind), timeout=DEADLINE_S
        ).close()

    await asyncio.to_thread(upload)
    await until(lambda: has_issue(service, "1 units of work wait and no worker is alive"))


async def test_health_is_degraded_when_the_catalog_does_not_answer(services: Services) -> None:
    service = services.start(MIN_FREE_DISK="0", DATABASE_URL="postgresql://quire@127.0.0.1:1/quire")
    assert await has_issue(service, "The catalog (DATABASE_URL) does not answer")
    assert (await asked(service, "/health/ready"))["status"] == "ok"


async def test_health_is_healthy_when_there_is_no_data_directory_yet(
    services: Services, tmp_path: Path
) -> None:
    """A process on a Redis and an object store of their own writes nothing there at first."""
    home, data = tmp_path / "server", tmp_path / "none"
    home.mkdir()
    redis = Restartable(home)
    redis.start()
    try:
        planes = {"REDIS_URL": redis.url, "OBJECT_STORE": str(tmp_path / "objects"), "DATA_DIR": str(data)}
        service = services.start(MIN_FREE_DISK="0", RUN_DISPATCHER="0", SECRET_KEY="x" * 40, **planes)
        assert not data.exists()
        assert (await asked(service, "/health"))["issues"] == ["No worker is alive. Start `quire worker`."]
    finally:
        redis.kill()


async def test_health_names_the_worker_when_its_clock_is_off(tmp_path: Path) -> None:
    async with quire(tmp_path, clock=ServerClock(lambda: time.time() - 300)) as one:
        assert one.worker is not None
        worker_id = one.worker.id

        async def is_reported() -> bool:
            return worker_id in await one.parts.workers.with_wrong_clock()

        await until(is_reported, "the report of the worker")
        elsewhere = replace(one, worker_id="another")
        issues = (await Readiness(elsewhere, one.parts.clock).condition()).issues
        assert f"The clock of worker {worker_id} is 5 minutes behind the coordination server's." in issues
        here = (await Readiness(one, one.parts.clock).condition()).issues
        assert not any(worker_id in issue for issue in here), "this host has its own sentence"
