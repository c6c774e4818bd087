"""Whatever process is killed when: every accepted document ends, and no page is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.clock import SystemClock
from quire.coordination.connection import RedisConnection
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Queues
from tests.support.coordination_servers import plain_server
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.programs import Program, Service
from tests.support.waiting import wait_until

from .storm import Storm, nothing_left

PAGES = 2000


def test_nothing_is_lost_when_the_service_is_killed_again_and_again(tmp_path: Path) -> None:
    account = Storm(tmp_path, kills=4, seed=20261116, longest_calm_s=1.0).run()
    assert account.kills == 4
    assert account.documents >= 5
    assert any(account.unfinished_at_kill), "the kills came when there was something to lose"


class Fleet:
    """A service without workers, workers beside it, and the server and folder that they share."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._settings = {
            "REDIS_URL": url,
            "OBJECT_STORE": str(folder / "objects"),
            "SECRET_KEY": "the same for all",
            "READER_PROCESSES": "1",
            "READER_CHUNK_PAGES": "8",
            "SHUTDOWN_TIMEOUT": "0",
        }
        self.url = url
        self.programs: list[Program] = []

    def service(self) -> Service:
        data = {"DATA_DIR": str(self._folder / "service"), "RUN_DISPATCHER": "0"}
        service = Service(self._folder, **self._settings, **data)
        self.programs.append(service)
        return service.wait_ready()

    def worker(self, name: str) -> Program:
        worker = Program(self._folder, name, "worker", **self._settings, DATA_DIR=str(self._folder / name))
        self.programs.append(worker)
        return worker

    def owners(self, job_id: str) -> set[int]:
        """The process ids of the workers that have units of the job in hand."""

        async def ask() -> set[int]:
            connection = RedisConnection.open(self.url)
            try:
                clock = SystemClock()
                jobs = JobStore(connection, Queues(connection, clock), clock, 60)
                owners = (await jobs.working(job_id)).values()
                return {int(owner.split(".")[1]) for owner in owners if owner}
            finally:
                await connection.close()

        return asyncio.run(ask())

    def assert_nothing_left(self) -> None:
        async def ask() -> None:
            connection = RedisConnection.open(self.url)
            try:
                await nothing_left(connection)
            finally:
                await connection.close()

        asyncio.run(ask())


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with plain_server() as (url, _port):
        found = Fleet(tmp_path, url)
        yield found
        for program in found.programs:
            program.make_sure_it_is_gone()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_the_others_go_on_when_one_of_two_workers_goes(
    fleet: Fleet, tmp_path: Path, how: signal.Signals
) -> None:
    document = marked_pdf(tmp_path / "a.pdf", PAGES)
    service, first, second = fleet.service(), fleet.worker("first"), fleet.worker("second")
    job_id = service.submit(document, "a")
    both = {first.process.pid, second.process.pid}
    wait_until(lambda: fleet.owners(job_id) == both, "both workers have pages of the document in hand")
    if how is signal.SIGKILL:
        first.kill(first.family()[:1])
    else:
        assert first.end() == 0
        assert first.process.pid not in fleet.owners(job_id), "what it had is free before it has ended"
    assert not service.over(job_id), "it went in the middle"
    wait_until(lambda: service.over(job_id), "the end of the job")
    job = service.get(f"/jobs/{job_id}")
    assert (job["status"], job["pages_completed"], job["pages_failed"]) == ("completed", PAGES, 0)
    text = service.get(f"/jobs/{job_id}/result")["result"]["markdown"]
    assert markers_in(text) == [marker(1, number) for number in range(1, PAGES + 1)]
    fleet.assert_nothing_left()
    assert second.end() == 0
    assert service.end() == 0
