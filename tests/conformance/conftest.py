"""The marker `requirement`, and one running service with a provider simulator for each module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.serving import Client, Server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(id, text): the requirement of a source that the test holds"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in item.iter_markers("requirement"):
        item.user_properties.append(("requirement", mark.args[0]))


@pytest.fixture(scope="module")
def sim(request: pytest.FixtureRequest) -> Iterator[RunningSimulator]:
    """The provider simulator; it plays the module's `SCENARIO` if there is one."""
    with simulator(getattr(request.module, "SCENARIO", {})) as one:
        yield one


@pytest.fixture(scope="module")
def start_service(
    sim: RunningSimulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Server]]:
    """Starts another process: `start_service("worker", "--queues", "read", folder=…, SETTING="value")`.

    Without arguments it is `quire serve`. Only an address is waited for by `wait_ready()`."""
    running: list[Server] = []

    def start(*arguments: str, folder: Path | None = None, **settings: str) -> Server:
        defaults = {
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": sim.openai_url,
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": sim.anthropic_url,
            "LOG_LEVEL": "info",
            "READER_PROCESSES": "1",
            "RETRY_BASE_DELAY": "50ms",
        }
        one = Server(folder or tmp_path_factory.mktemp("service"), *arguments, **{**defaults, **settings})
        running.append(one)
        return one

    yield start
    for one in reversed(running):
        one.stop()


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, start_service: Callable[..., Server]) -> Server:
    """The service that all tests of a module share, with the settings of the module's `SETTINGS`."""
    return start_service(**getattr(request.module, "SETTINGS", {})).wait_ready()


@pytest.fixture
async def client(service: Server) -> AsyncIterator[Client]:
    """A client of the shared service."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Client(service.url, session)
