"""Two servers for all of the API: one that works, and one without workers, where jobs stay as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.document_site import Site, running_site
from tests.support.serving import Client, Server, client_of
from tests.support.shared_services import SharedServices

CALLBACK_SECRET = "callback-secret-of-the-tests"


@pytest.fixture(scope="session")
def files_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(folder: Path | None = None, *, warm_readers: bool = True, **settings: str) -> Server:
        quick = {"READER_PROCESSES": "1", "RETRY_BASE_DELAY": "20ms", "RETRY_JITTER": "0", **settings}
        server = Server(folder or tmp_path_factory.mktemp("server"), warm_readers=warm_readers, **quick)
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def server(
    shared_services: SharedServices, tmp_path_factory: pytest.TempPathFactory, files_base: Path
) -> Server:
    """With workers, keys of two teams, and links into loopback allowed."""
    settings = {
        "API_KEYS": "alpha:key-of-alpha,beta:key-of-beta",
        "ALLOW_PRIVATE_URLS": "true",
        "FILES_BASE": str(files_base),
        "CALLBACK_SECRET": CALLBACK_SECRET,
        "MAX_UPLOAD_MB": "4MB",
        "RETRY_BASE_DELAY": "20ms",
        "RETRY_JITTER": "0",
        "READER_PROCESSES": "1",
    }
    return shared_services.get("api", lambda: Server(tmp_path_factory.mktemp("server"), **settings))


@pytest.fixture
def idle_server(shared_services: SharedServices, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Without workers and without keys; takes three documents at a time, and has a bucket that no test opens."""
    settings = {
        "RUN_DISPATCHER": "0",
        "QUEUE_MAX_DOCUMENTS": "3",
        "READER_PROCESSES": "1",
        "AWS_S3_BUCKET": "own-bucket",
    }
    return shared_services.get("idle api", lambda: Server(tmp_path_factory.mktemp("server"), **settings))


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with client_of(server, "key-of-alpha") as one:
        yield one


@pytest.fixture
async def beta(server: Server) -> AsyncIterator[Client]:
    """The other team."""
    async with client_of(server, "key-of-beta") as one:
        yield one


@pytest.fixture
async def idle(idle_server: Server) -> AsyncIterator[Client]:
    """A client of the idle server, which has room again afterwards."""
    async with client_of(idle_server) as one:
        yield one
        queued = (await one.get("/jobs?status=queued&limit=500")).json["jobs"]
        await asyncio.gather(*(one.post(f"/jobs/{job['job_id']}/cancel") for job in queued))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as one:
        yield one
