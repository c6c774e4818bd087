"""The facade as its callers use it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp

from tests.support.serving import Answer, Client
from tests.support.waiting import DEADLINE_S


async def process(client: Client, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/process_file_junior_call", json=fields)
    assert answer.status == 201, answer.body
    body: dict[str, Any] = answer.json
    return body


async def upload(client: Client, data: bytes, name: str = "report.pdf", **fields: str) -> Answer:
    form = aiohttp.FormData()
    for field, value in fields.items():
        form.add_field(field, value)
    form.add_field("file", data, filename=name)
    return await client.post("/process_file_junior_call", data=form)


async def progress(client: Client, some_id: str) -> dict[str, Any]:
    answer = await client.get(f"/progress_spec/{some_id}")
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json
    return body


async def over(client: Client, some_id: str) -> dict[str, Any]:
    """How the job stands once it has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        body = await progress(client, some_id)
        if body["status"] in ("success", "failed"):
            return body
        assert time.monotonic() < deadline, f"the job is still {body}"
        await asyncio.sleep(0.03)
