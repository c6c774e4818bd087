"""The status of a docling task over a WebSocket, with the client library that docling's own client uses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.serving import Client, Server
from tests.support.submitted_documents import form as multipart_form
from tests.support.submitted_documents import fresh
from tests.support.waiting import DEADLINE_S, eventually

Pdf = Callable[..., bytes]


def address(url: str, task_id: str, key: str = "") -> str:
    query = f"?api_key={key}" if key else ""
    return f"{url.replace('http://', 'ws://')}/v1/status/ws/{task_id}{query}"


async def started(client: Client, data: bytes) -> str:
    form = multipart_form(("a.pdf", data), file_field="files", file_type="application/pdf")
    return str((await client.post("/v1/convert/file/async", data=form)).json["task_id"])


async def messages(socket: ClientConnection) -> list[dict[str, Any]]:
    """All messages up to the close of the connection, which must be a normal one."""
    found = []
    async with asyncio.timeout(DEADLINE_S):
        async for text in socket:
            found.append(json.loads(text))
            if found[-1]["message"] == "update":
                with suppress(ConnectionClosed):
                    await socket.send("next")
    assert socket.close_code == 1000
    return found


async def test_updates_come_until_the_task_has_ended(client: Client, server: Server, make_pdf: Pdf) -> None:
    task_id = await started(client, make_pdf(fresh("followed"), fresh("followed too")))
    async with connect(address(server.url, task_id, "key-of-alpha")) as socket:
        found = await messages(socket)
    assert found[0]["message"] == "connection"
    assert [one["message"] for one in found[1:]] == ["update"] * (len(found) - 1)
    assert all(one["task"]["task_id"] == task_id and one["error"] is None for one in found)
    assert found[-1]["task"]["task_status"] == "success"
    assert found[-1]["task"]["task_meta"]["num_succeeded"] == 1
    polled = (await client.get(f"/v1/status/poll/{task_id}")).json
    assert found[-1]["task"] == polled


async def test_a_caller_that_asks_for_nothing_hears_of_a_change(
    idle: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    task_id = await started(idle, make_pdf(fresh("without workers")))
    async with connect(address(idle_server.url, task_id)) as socket, asyncio.timeout(DEADLINE_S):
        first = [json.loads(await socket.recv()) for _ in range(2)]
        assert [one["task"]["task_status"] for one in first] == ["pending", "pending"]
        await idle.post(f"/batches/{task_id}/cancel")
        assert json.loads(await socket.recv())["task"]["task_status"] == "failure"
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def test_a_key_of_another_team_or_none_finds_no_task(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    task_id = await started(client, make_pdf(fresh("of alpha")))
    async with connect(
        address(server.url, task_id), additional_headers={"X-Api-Key": "key-of-beta"}
    ) as other:
        assert json.loads(await other.recv()) == {
            "message": "error",
            "task": None,
            "error": "Task not found.",
        }
    for key in ("", "wrong"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(server.url, task_id, key))
        assert refused.value.response.status_code == 401
        assert json.loads(refused.value.response.body or b"")["detail"]


async def test_another_site_may_not_follow_a_task_of_a_service_without_keys(
    idle: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    task_id = await started(idle, make_pdf(fresh("from another site")))
    with pytest.raises(InvalidStatus) as refused:
        await connect(address(idle_server.url, task_id), origin="https://evil.example")  # type: ignore[arg-type]
    assert refused.value.response.status_code == 401
    await idle.post(f"/batches/{task_id}/cancel")


async def test_rubbish_does_not_end_the_service(client: Client, server: Server, make_pdf: Pdf) -> None:
    task_id = await started(client, make_pdf(fresh("rubbish")))
    async with connect(address(server.url, task_id, "key-of-alpha")) as socket:
        await socket.send(b"\xff" * 100)
        assert (await messages(socket))[-1]["task"]["task_status"] == "success"
    async with connect(address(server.url, task_id, "key-of-alpha")) as socket, asyncio.timeout(DEADLINE_S):
        with suppress(ConnectionClosed):
            await socket.send("x" * 100_000)
        await socket.wait_closed()
    plain = await client.get(f"/v1/status/ws/{task_id}")
    assert plain.status == 404

    async def alive() -> bool:
        return (await client.get("/health/live")).status == 200

    await eventually(alive, "a service that answers")
