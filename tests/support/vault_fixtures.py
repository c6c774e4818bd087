"""Services with a vault: one that classifies on this machine, one that asks the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import pytest

from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.postgres import PostgresServer
from tests.support.serving import Server
from tests.support.shared_services import SharedServices
from tests.support.vault_client import VaultClient
from tests.support.waiting import DEADLINE_S, UNHURRIED, scaled

BOTH_DATABASES = ("sqlite", "postgres")
KEYS = "alpha:key-of-alpha,beta:key-of-beta"


@pytest.fixture(scope="session")
def new_vault(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Server]:
    """Makes a service with a vault; the caller stops it."""

    def make(**settings: str) -> Server:
        given = {
            "API_KEYS": KEYS,
            "READER_PROCESSES": "1",
            "RETRY_BASE_DELAY": "20ms",
            "RETRY_JITTER": "0",
            "MAX_UPLOAD_MB": "4MB",
            "ALLOW_PRIVATE_URLS": "true",
            "CLASSIFY_WAIT": "1h",  # a slow machine must not complete a document before its classification
            **settings,
        }
        return Server(tmp_path_factory.mktemp("vault"), **given)

    return make


@pytest.fixture
def start_vault(new_vault: Callable[..., Server]) -> Iterator[Callable[..., Server]]:
    """Starts services for one test."""
    running: list[Server] = []

    def start(**settings: str) -> Server:
        running.append(new_vault(**settings))
        return running[-1].wait_ready()

    yield start
    for server in running:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Callable[[str], dict[str, str]]:
    """Settings for a catalog of its own: the file in the data directory, or a database of the server."""

    def make(kind: str) -> dict[str, str]:
        if kind == "sqlite":
            return {}
        server: PostgresServer = request.getfixturevalue("postgres")
        return {"DATABASE_URL": server.fresh_database(template=request.getfixturevalue("template"))}

    return make


@pytest.fixture(params=BOTH_DATABASES)
def database(request: pytest.FixtureRequest, new_database: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """A test that asks for it runs on both databases, and gives these settings to its vault."""
    return new_database(request.param)


on_both = pytest.mark.parametrize("catalog_kind", BOTH_DATABASES, indirect=True)
"""Runs a test that speaks to a shared service on both databases."""


@pytest.fixture
def catalog_kind(request: pytest.FixtureRequest) -> str:
    """The database behind the shared services: SQLite, unless the test is marked with `on_both`."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def local_vault(
    shared_services: SharedServices,
    catalog_kind: str,
    new_vault: Callable[..., Server],
    new_database: Callable[[str], dict[str, str]],
) -> Server:
    """No AI: documents are classified on this machine."""
    name = f"local on {catalog_kind}"
    return shared_services.get(name, lambda: new_vault(**new_database(catalog_kind)))


@pytest.fixture(scope="session")
def running_simulator() -> Iterator[RunningSimulator]:
    with simulator({}) as one:
        yield one


@pytest.fixture
def sim(running_simulator: RunningSimulator) -> RunningSimulator:
    running_simulator.play({})
    running_simulator.reset()
    return running_simulator


def ai_settings(sim: RunningSimulator) -> dict[str, str]:
    """One provider with one model, and waits that a test can wait for."""
    return {
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_PRIMARY_MODEL": "m",
        "OPENAI_SECONDARY_MODEL": "m",
        "OPENAI_FAST_MODEL": "m",
        "SECONDARY_ENGINE": "none",
        "CLASSIFY_QUOTA_DELAY": "300ms",
        "CLASSIFY_RATE_LIMIT_DELAY": "200ms",
        "CLASSIFY_RETRY_DELAY": "100ms",
        "CLASSIFY_TIMEOUT": scaled(8),
        "CLASSIFY_IMAGE_TIMEOUT": scaled(8),
        "CLASSIFY_MAX_ATTEMPTS": "3",
        "CLASSIFY_WAIT": "1h",  # tests of degradation set a short one
        **UNHURRIED,
        "REQUEST_TIMEOUT": scaled(2),
        "BREAKER_BASE_BACKOFF": "50ms",
        "BREAKER_MAX_BACKOFF": "100ms",
        "EMBEDDING_PROVIDER": "off",
    }


@pytest.fixture
def ai_vault(
    shared_services: SharedServices,
    catalog_kind: str,
    new_vault: Callable[..., Server],
    running_simulator: RunningSimulator,
    new_database: Callable[[str], dict[str, str]],
) -> Server:
    settings = ai_settings(running_simulator)
    name = f"ai on {catalog_kind}"
    return shared_services.get(name, lambda: new_vault(**settings, **new_database(catalog_kind)))


_PATIENT = aiohttp.ClientTimeout(total=DEADLINE_S)


async def _client(server: Server, key: str) -> AsyncIterator[VaultClient]:
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers, timeout=_PATIENT) as session:
        yield VaultClient(server.url, session)


@pytest.fixture
async def alpha(local_vault: Server) -> AsyncIterator[VaultClient]:
    async for one in _client(local_vault, "key-of-alpha"):
        yield one


@pytest.fixture
async def beta(local_vault: Server) -> AsyncIterator[VaultClient]:
    async for one in _client(local_vault, "key-of-beta"):
        yield one


@pytest.fixture
async def asking(ai_vault: Server, sim: RunningSimulator) -> AsyncIterator[VaultClient]:
    """A client of the service whose documents are classified by the simulator."""
    async for one in _client(ai_vault, "key-of-alpha"):
        yield one


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., VaultClient]]:
    sessions: list[aiohttp.ClientSession] = []

    def make(server: Server, key: str = "key-of-alpha") -> VaultClient:
        session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}, timeout=_PATIENT)
        sessions.append(session)
        return VaultClient(server.url, session)

    yield make
    for session in sessions:
        await session.close()
