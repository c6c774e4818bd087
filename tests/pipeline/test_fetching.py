"""Linked documents in the whole pipeline: progress while they come, and what happens when they are cut off."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from quire.domain.job import JobSecrets, JobStatus
from quire.errors import LinkRefusedError
from quire.pipeline.intake.upload_intake import Submission
from tests.support.link_servers import serving
from tests.support.ranges import Breaking
from tests.support.running import TEAM, markdown, over, quire
from tests.support.serving import Server, client_of
from tests.support.stored_files import bytes_below
from tests.support.waiting import until


@asynccontextmanager
async def releasing(event: asyncio.Event) -> AsyncIterator[None]:
    """A server waits for its handlers when it ends: whatever happens, none of them may be held for ever."""
    try:
        yield
    finally:
        event.set()


def link(url: str) -> Submission:
    return Submission(TEAM, secrets=JobSecrets(source_url=url))


def padded(document: bytes, size: int) -> bytes:
    """A PDF may have anything after its end."""
    return document + b"\n%" + b"x" * (size - len(document) - 2)


def incoming(folder: Path) -> list[Path]:
    return sorted((folder / "data/downloads").glob("*"))


async def test_progress_is_told_when_a_document_comes_slowly(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    document = padded(make_pdf("came slowly"), 300_000)
    go_on = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(len(document))})
        await answer.prepare(request)
        await answer.write(document[:100_000])
        await go_on.wait()
        await answer.write(document[100_000:])
        return answer

    async with (
        serving(handler) as port,
        releasing(go_on),
        quire(tmp_path, ALLOW_PRIVATE_URLS="true") as one,
    ):
        accepted = await one.engine.intake.accept_source(link(f"http://127.0.0.1:{port}/a.pdf"))
        job = await one.engine.job(TEAM, accepted.job_id)
        seen: list[dict[str, object]] = []
        async for event in one.engine.events(job, ""):
            if event is None or event.type != "download":
                continue
            seen.append(event.data)
            if not go_on.is_set():
                stands = await one.engine.job(TEAM, job.id)
                assert stands.status is JobStatus.PROCESSING
                assert 0 < stands.download_bytes <= 100_000
                assert stands.download_total == len(document)
                go_on.set()
        done = await over(one, job.id)
        assert done.status is JobStatus.COMPLETED
        assert await markdown(one, done) == "came slowly"
    assert seen[0]["bytes_total"] == len(document)
    assert seen[-1] == {"bytes_done": len(document), "bytes_total": len(document), "progress": 0}
    assert len(seen) >= 2


async def test_document_is_completed_when_every_connection_breaks(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    """Also by the next attempts: each one breaks as often as one attempt bears."""
    document = padded(make_pdf("in many pieces"), 6_000_000)
    server = Breaking(document, 2_000_000)
    async with serving(server.serve) as port, quire(tmp_path, ALLOW_PRIVATE_URLS="true") as one:
        accepted = await one.engine.intake.accept_source(link(f"http://127.0.0.1:{port}/a.pdf"))
        job = await over(one, accepted.job_id)
        assert job.status is JobStatus.COMPLETED, job.error
        assert await markdown(one, job) == "in many pieces"
        assert job.size == len(document)
    assert any(wanted for wanted, _ in server.asked), "some of it was asked for as the rest"
    assert incoming(tmp_path) == []


async def test_the_next_attempt_goes_on_when_the_time_of_one_is_up(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    document = padded(make_pdf("in its own time"), 3_000_000)
    starts: list[int] = []
    over_with = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        wanted = request.headers.get("Range", "")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        starts.append(start)
        headers = {"ETag": '"v1"', "Content-Length": str(len(document) - start)}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(document) - 1}/{len(document)}"
        answer = web.StreamResponse(status=206 if wanted else 200, headers=headers)
        await answer.prepare(request)
        await answer.write(document[start : start + 1_400_000])
        if start + 1_400_000 < len(document):
            await over_with.wait()
        return answer

    slow = {"ALLOW_PRIVATE_URLS": "true", "DOWNLOAD_TIMEOUT": "1s", "JOB_MAX_ATTEMPTS": "20"}
    async with serving(handler) as port, releasing(over_with), quire(tmp_path, **slow) as one:
        accepted = await one.engine.intake.accept_source(link(f"http://127.0.0.1:{port}/a.pdf"))
        job = await over(one, accepted.job_id)
        assert job.status is JobStatus.COMPLETED, job.error
        assert await markdown(one, job) == "in its own time"
    assert starts[0] == 0
    assert starts[-1] >= 1_400_000


async def test_only_the_rest_is_fetched_when_the_service_was_killed_and_started_again(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    document = padded(make_pdf("survived"), 6_000_000)
    ranges: list[str] = []
    held = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        wanted = request.headers.get("Range", "")
        ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        headers = {"ETag": '"v1"', "Content-Length": str(len(document) - start)}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(document) - 1}/{len(document)}"
        answer = web.StreamResponse(status=206 if wanted else 200, headers=headers)
        await answer.prepare(request)
        if wanted:
            await answer.write(document[start:])
        else:
            await answer.write(document[:4_000_000])
            await held.wait()
        return answer

    settings = {"ALLOW_PRIVATE_URLS": "true", "READER_PROCESSES": "1", "SHUTDOWN_TIMEOUT": "0"}
    folder = tmp_path / "one"
    folder.mkdir()
    async with serving(handler) as port, releasing(held):
        server = Server(folder, **settings)
        await asyncio.to_thread(server.wait_ready)
        async with client_of(server) as client:
            taken = await client.post("/convert", json={"source": f"http://127.0.0.1:{port}/a.pdf"})
            job_id = taken.json["job_id"]

            async def much_is_there() -> bool:
                found = await client.get(f"/jobs/{job_id}")
                return bool(found.json["download"]["bytes_done"] and _stored(folder) >= 2 << 20)

            await until(much_is_there, "most of it has arrived")
        os.kill(server.process.pid, signal.SIGKILL)
        await asyncio.to_thread(server.process.wait)
        again = Server(folder, **settings)
        try:
            await asyncio.to_thread(again.wait_ready)
            async with client_of(again) as client:
                job = await client.over(job_id)
        finally:
            await asyncio.to_thread(again.stop)
    assert job["status"] == "completed", job
    assert job["size"] == len(document)
    assert ranges[0] == ""
    assert ranges[-1].startswith("bytes=")
    assert int(ranges[-1].removeprefix("bytes=").rstrip("-")) >= 2 << 20
    assert incoming(folder) == []


def _stored(folder: Path) -> int:
    return sum(path.stat().st_size for path in incoming(folder) if path.suffix == ".part")


async def test_nothing_secret_is_kept_when_a_link_has_credentials(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=503)

    folder = tmp_path / "one"
    folder.mkdir()
    async with serving(handler) as port:
        server = Server(folder, ALLOW_PRIVATE_URLS="true", READER_PROCESSES="1", JOB_MAX_ATTEMPTS="1")
        try:
            await asyncio.to_thread(server.wait_ready)
            async with client_of(server) as client:
                source = f"http://someone:very-secret-word@127.0.0.1:{port}/a.pdf?token=other-secret-word"
                taken = await client.post("/convert?wait=240", json={"source": source})
                shown = taken.body + (await client.get(f"/jobs/{taken.json.get('job_id', '')}")).body
                jobs = (await client.get("/jobs")).body
        finally:
            await asyncio.to_thread(server.stop)
    assert seen == [None]
    kept = bytes_below(folder)
    for word in (b"very-secret-word", b"other-secret-word"):
        assert word not in shown + jobs
        assert word not in kept, "neither in the log nor in the data directory"


async def test_folder_on_drive_is_refused_at_once_when_it_is_asked_for(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        submission = link("https://drive.google.com/drive/folders/1a2B3c4D5e6F7g8H9i0J")
        with pytest.raises(LinkRefusedError, match="folder"):
            one.engine.intake.check(submission)
        one.engine.intake.check(link("https://drive.google.com/file/d/1a2B3c4D5e6F7g8H9i0J/view"))
