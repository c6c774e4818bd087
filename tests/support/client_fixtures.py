"""The service that the tests of the Python client, of `quire mcp` and of the client's page share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.serving import Server

KEY = "key-of-alpha"


@pytest.fixture(scope="session")
def client_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("service"),
        API_KEYS=f"alpha:{KEY},beta:key-of-beta",
        READER_PROCESSES="1",
        READER_CHUNK_PAGES="4",
        RETRY_BASE_DELAY="20ms",
        RATE_LIMIT_PER_CLIENT="0",
    )
    try:
        yield server.wait_ready()
    finally:
        server.stop()
