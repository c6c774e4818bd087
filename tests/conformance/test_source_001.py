"""Source 001: the orchestrator behind GhostServer, and the dispatcher that reads pages with AI."""

from __future__ import annotations

import pytest

from tests.conformance.running_service import HttpClient


@pytest.mark.requirement(
    "001-40", "GET /health, /health_check and /status answer 200 while the service is healthy"
)
@pytest.mark.parametrize("path", ["/health", "/health_check", "/status"])
async def test_health_is_answered_when_asked_by_any_of_its_names(client: HttpClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status == 200
    assert answer.json["status"] in ("ok", "healthy")
