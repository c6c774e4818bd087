"""A service whose disk is full: it refuses what is new, answers everything else, and comes back by itself."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.batching.callers import image, post_image
from tests.support.coordination_servers import plain_server
from tests.support.marked_documents import marked_pdf
from tests.support.parse_fixtures import Services, Simulated
from tests.support.serving import Answer, Client, Server, client_of
from tests.support.waiting import eventually, until

_DISK_MB = 64
_IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c636000000002000148afa471"
    "0000000049454e44ae426082"
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "none", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def _new_requests(client: Client, document: bytes) -> list[Answer]:
    return [
        await client.upload(document),
        await client.post("/convert", json={"source": "https://example.com/a.pdf"}),
        await client.post("/uploads", json={"filename": "a.pdf", "size": 10}),
        await client.post("/parse", data=_IMAGE, headers={"Content-Type": "image/png"}),
    ]


async def test_new_work_is_refused_while_the_disk_is_full_and_the_rest_goes_on(
    start_server: Callable[..., Server], disk: Path, tmp_path: Path
) -> None:
    server = start_server(OBJECT_STORE=str(disk / "objects"), MIN_FREE_DISK="256MB").wait_ready()
    document = marked_pdf(tmp_path / "a.pdf", 2).read_bytes()
    other = marked_pdf(tmp_path / "b.pdf", 1, 7).read_bytes()
    async with client_of(server) as client:
        kept = (await client.upload(document)).json["job_id"]
        await client.over(kept)
        filler = disk / "filler"
        filler.write_bytes(bytes((_DISK_MB - 10) << 20))

        async def is_refused() -> bool:
            return (await client.upload(other)).status == 503

        await until(is_refused, "the refusal of an upload")
        for refused in await _new_requests(client, other):
            assert (refused.status, refused.json["code"], refused.json["retryable"]) == (
                503,
                "disk_full",
                True,
            )
            assert "disk of this host is full" in refused.json["error"]
            assert int(refused.headers["Retry-After"]) >= 1
        assert (await client.get(f"/jobs/{kept}/result")).status == 200
        health = await client.get("/health")
        assert (health.status, health.json["status"]) == (200, "degraded")
        assert "takes no new documents or images" in " ".join(health.json["issues"])
        assert (await client.get("/health/ready")).status == 200

        filler.unlink()

        async def accepted_id() -> str | None:
            answer = await client.upload(other)
            return answer.json["job_id"] if answer.status == 202 else None

        accepted = await eventually(accepted_id, "an upload that is accepted")
        assert (await client.over(accepted))["status"] == "completed"
        parsed = await client.post("/parse", data=_IMAGE, headers={"Content-Type": "image/png"})
        assert parsed.status in (200, 422), "read, or refused for what is in it"


async def test_an_upload_that_meets_the_end_of_the_disk_is_no_fault_of_the_service(
    start_server: Callable[..., Server], disk: Path
) -> None:
    """Where free space was not short before: MIN_FREE_DISK 0 stands for a quota, which free space does not show."""
    server = start_server(OBJECT_STORE=str(disk / "objects"), MIN_FREE_DISK="0B").wait_ready()
    async with client_of(server) as client:
        too_large = b"%PDF-1.4\n" + bytes((_DISK_MB + 1) << 20)
        refused = await client.upload(too_large)
        assert (refused.status, refused.json["code"], refused.json["retryable"]) == (503, "disk_full", True)
        again = await client.upload(b"%PDF-1.4 x")
        assert (again.status, again.json["code"]) == (503, "disk_full"), "for a while nothing new is taken"

        async def is_degraded() -> bool:
            """/health may show what it saw a moment ago, and the disk counts as full for a while only."""
            if (await client.get("/health")).json["status"] == "degraded":
                return True
            if (await client.upload(b"%PDF-1.4 x")).status == 202:
                await client.upload(too_large)
            return False

        await until(is_degraded, "health that says so")
        assert list((disk / "objects" / ".incoming").glob("*")) == [], "nothing of the upload is left"


@pytest.fixture
def own_redis() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


async def test_waiting_images_are_left_to_another_replica_while_the_disk_is_full(
    services: Services, simulated: Simulated, own_redis: str, disk: Path, tmp_path: Path
) -> None:
    """Each replica has a backend of its own, which shows who has sent what; one batch of one image at a time.

    The Redis is new: where service times are known from before, a batch is also claimed ahead of its slot.
    """
    shared = {
        "REDIS_URL": own_redis,
        "OBJECT_STORE": str(tmp_path / "objects"),
        "SECRET_KEY": "same",
        "MAX_BATCH_SIZE": "1",
        "MAX_CONCURRENT_BATCHES": "1",
    }
    full = services.start(DATA_DIR=str(disk / "data"), MIN_FREE_DISK="256MB", **shared)
    simulated.script(hold=True)
    callers = [asyncio.ensure_future(post_image(full.url, number, 2_000)) for number in range(4)]
    other_backend = Simulated()
    try:
        async with client_of(full) as client:

            async def one_is_sent_and_three_wait() -> bool:
                waiting = (await client.get("/queue/status")).json["queue_depth"]
                return bool(waiting == 3 and simulated.stats()["calls"] == 1)

            await until(one_is_sent_and_three_wait, "one image at the backend, three in the queue")
            filler = disk / "filler"
            filler.write_bytes(bytes((_DISK_MB - 10) << 20))

            async def is_refused() -> bool:
                """A document, because an image that is still taken would wait for the backend."""
                return (await client.upload(b"%PDF-1.4 x")).status == 503

            await until(is_refused, "the refusal of a document")
            other = services.start(BATCH_BACKEND_URL=other_backend.url, **shared)
            simulated.script()
            replies = await asyncio.gather(*callers)
            assert [one.status for one in replies] == [200] * 4, (
                "the callers of the full replica are answered"
            )
            assert simulated.stats()["calls"] == 1, "it ends what it has sent, and sends no more"
            assert sorted(other_backend.stats()["sizes"]) == [1, 1, 1]

            other.process.kill()
            other.process.wait()
            filler.unlink()

            async def is_taken() -> bool:
                return (await post_image(full.url, 5, 2_000)).status == 200

            await until(is_taken, "an image that is taken again")
            assert image(5, 2_000).digest in simulated.stats()["computed"]
    finally:
        other_backend.kill()
