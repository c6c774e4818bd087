"""The service that the tests of the Python client, of `quire mcp` and of the client's page share."""

from __future__ import annotations

import pytest

from tests.support.serving import Server
from tests.support.shared_services import SharedServices

KEY = "key-of-alpha"


@pytest.fixture
def client_service(shared_services: SharedServices, tmp_path_factory: pytest.TempPathFactory) -> Server:
    settings = {
        "API_KEYS": f"alpha:{KEY},beta:key-of-beta",
        "READER_PROCESSES": "1",
        "READER_CHUNK_PAGES": "4",
        "RETRY_BASE_DELAY": "20ms",
        "RATE_LIMIT_PER_CLIENT": "0",
        "CLASSIFY_WAIT": "1h",  # a slow machine must not complete a document before its classification
    }
    return shared_services.get("client", lambda: Server(tmp_path_factory.mktemp("service"), **settings))
