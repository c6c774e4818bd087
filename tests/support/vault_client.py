"""A real service with a vault, and a client that speaks of documents."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp

from tests.support.serving import Answer, Client
from tests.support.waiting import DEADLINE_S


class VaultClient(Client):
    """The endpoints of the vault by name."""

    async def put(
        self,
        *files: tuple[str, bytes],
        fields: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        form = aiohttp.FormData()
        for name, value in (fields or {}).items():
            form.add_field(name, value)
        for name, data in files:
            form.add_field("file", data, filename=name)
        return await self.post("/documents", data=form, headers=headers)

    async def add(self, name: str, data: bytes, **fields: str) -> str:
        """Puts a document in and answers its id."""
        answer = await self.put((name, data), fields=fields)
        assert answer.status == 202, answer.body
        document_id: str = answer.json["documents"][0]["document_id"]
        return document_id

    async def document(self, document_id: str) -> dict[str, Any]:
        answer = await self.get(f"/documents/{document_id}")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    async def settled(self, document_id: str, attempt: int = 1) -> dict[str, Any]:
        """The document once this attempt, or a later one, is over: also if it was completed before AI had read it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = await self.document(document_id)
            reading = (found["error"] or {}).get("code") == "still_reading"
            if found["status"] != "pending" and not reading and found["attempt"] >= attempt:
                return found
            assert time.monotonic() < deadline, f"still {found}"
            await asyncio.sleep(0.05)

    async def classified(self, document_id: str, attempt: int = 1) -> dict[str, Any]:
        """The document once the classification of this attempt, or a later one, has ended."""
        found = await self.settled(document_id, attempt)
        await self.over(found["jobs"]["classify"])
        return await self.document(document_id)

    async def kept(self, name: str, data: bytes, **fields: str) -> dict[str, Any]:
        return await self.settled(await self.add(name, data, **fields))
