"""Names of tests/support/serving.py as the requirement tests use them."""

from __future__ import annotations

from typing import Any

from tests.support.serving import Answer as HttpAnswer
from tests.support.serving import Client
from tests.support.serving import Server as RunningService
from tests.support.waiting import eventually


class HttpClient(Client):
    async def finished(self, job_id: str) -> dict[str, Any]:
        return await self.over(job_id)


__all__ = ["HttpAnswer", "HttpClient", "RunningService", "eventually"]
