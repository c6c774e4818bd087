"""A simulated backend and real services, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordination_servers import plain_server
from tests.support.environment import ROOT
from tests.support.serving import Server
from tests.support.shared_services import SharedServices
from tests.support.waiting import DEADLINE_S


class Simulated:
    """The backend's process, and what can be told to it and asked of it."""

    def __init__(self, port: int = 0) -> None:
        self._start(port)

    def _start(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.batching.simulated", str(port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def script(self, **script: Any) -> None:
        self._ask("/script", script)

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("/stats")
        return found

    def fresh(self) -> None:
        self.script()
        self._ask("/reset", {})

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def come_back(self) -> None:
        self._start(int(self.url.rpartition(":")[2]))

    def _ask(self, path: str, data: Any = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def simulated_process() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.kill()


@pytest.fixture
def simulated(simulated_process: Simulated) -> Simulated:
    if simulated_process.process.poll() is not None:
        simulated_process.come_back()
    simulated_process.fresh()
    return simulated_process


class Services:
    """Starts services on the simulated backend."""

    def __init__(self, folders: pytest.TempPathFactory, backend_url: str) -> None:
        self._folders = folders
        self._backend_url = backend_url
        self.running: list[Server] = []

    def start(self, folder: Path | None = None, **settings: str) -> Server:
        defaults = {
            "BATCH_BACKEND_URL": self._backend_url,
            "RATE_LIMIT_PER_CLIENT": "0",
            "READER_PROCESSES": "1",
            "LOG_LEVEL": "info",
            "RETRY_DELAY": "100ms",
            "BATCH_COOLDOWN": "1s",
            "BATCH_HEALTH_INTERVAL": "100ms",
        }
        if folder is not None:
            folder.mkdir(exist_ok=True)
        server = Server(folder or self._folders.mktemp("service"), **{**defaults, **settings})
        self.running.append(server)
        return server.wait_ready()


@pytest.fixture
def services(tmp_path_factory: pytest.TempPathFactory, simulated: Simulated) -> Iterator[Services]:
    made = Services(tmp_path_factory, simulated.url)
    yield made
    for server in made.running:
        server.process.kill()
        server.process.wait()


@pytest.fixture
def shared_process(
    shared_services: SharedServices, tmp_path_factory: pytest.TempPathFactory, simulated_process: Simulated
) -> Server:
    """A service for the tests that leave nothing behind."""
    made = Services(tmp_path_factory, simulated_process.url)
    return shared_services.get("parse", lambda: made.start(MAX_REQUEST_SIZE="3MB", MAX_PIXELS="4000000"))


@pytest.fixture
def service(shared_process: Server, simulated: Simulated) -> Server:
    return shared_process


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


Starter = Callable[..., Server]
