"""The coordination server goes away in the middle: for a moment, for a while, with everything in hand."""

from __future__ import annotations

import logging
from pathlib import Path

import psutil
import pytest

from quire.coordination import server_address
from quire.domain.job import JobStatus, UnitKind
from tests.support.coordination_servers import Restartable
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, job_of, markdown, over, uncaged, upload
from tests.support.waiting import until

from . import breaking

READ_CHUNK = "quire.reading.local_reader.read_chunk"


def embedded_server(folder: Path) -> psutil.Process:
    home = str(folder / "data/coordination")
    [found] = [one for one in psutil.Process().children() if one.is_running() and _home(one) == home]
    return found


def _home(process: psutil.Process) -> str:
    try:
        return str(process.cwd())
    except psutil.Error:
        return ""


async def test_a_document_completes_when_the_embedded_server_is_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.linger)
    async with uncaged(tmp_path, READER_PROCESSES="2", READER_CHUNK_PAGES="4") as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 120))
        for share in (10, 60):

            async def begun(share: int = share) -> bool:
                return (await job_of(one, accepted.job_id)).pages_completed >= share

            await until(begun, f"{share} pages are read")
            embedded_server(tmp_path).kill()
        job = await over(one, accepted.job_id)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 120, 0)
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 121)]
        await at_rest(one)
        for kind in UnitKind:
            assert not any((await one.parts.queues.consumers(kind)).values())


async def test_a_document_completes_when_the_server_was_away_longer_than_commands_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker gives up on its unit, but is alive and holds it: nobody else would free it."""
    caplog.set_level(logging.WARNING, "quire")
    monkeypatch.setattr(READ_CHUNK, breaking.linger)
    monkeypatch.setattr(server_address, "_RETRIES", 2)  # commands wait a second, not a minute
    home = tmp_path / "server"
    home.mkdir()
    server = Restartable(home)
    server.start()
    try:
        async with uncaged(tmp_path, REDIS_URL=server.url, READER_CHUNK_PAGES="4", WORKER_TTL="1h") as one:
            accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 40))

            async def begun() -> bool:
                return (await job_of(one, accepted.job_id)).pages_completed >= 8

            await until(begun, "some pages are read")
            server.kill()
            await until(lambda: "unit released" in caplog.text, "the worker has given up on a unit")
            server.start()
            job = await over(one, accepted.job_id)
            assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 40, 0)
            assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 41)]
            await at_rest(one)
    finally:
        server.kill()
