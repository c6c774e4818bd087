"""Acceptance: what is in memory while a request is on its way into the queue, and that nothing stays of one refused."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.batching.body_memory import Body, BodyMemory
from quire.batching.parse_intake import ParseIntake, ParseSubmission
from quire.batching.waiting_callers import Failed, Waiters
from quire.coordination.connection import RedisConnection
from quire.coordination.parse_queue import ParseLimits, ParseQueue
from quire.coordination.parse_requests import ClaimedBatch, Priority, QueueFull, RequestAccepted
from quire.errors import CoordinationCommandError, ObjectsError
from tests.support.coordination_servers import plain_server

from .test_shelves import files, shelves_on

SIZE = 1000


class BodyReception:
    """An intake on a Redis and a folder of its own; batches are claimed on another connection."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.connection, shelves, objects, clock = shelves_on(url, folder)
        self.objects = objects
        limits = ParseLimits(600, slots=100, failures_to_open=3, cooldown_s=30, backoff_s=1)
        self.memory = BodyMemory(1 << 20)
        queue = ParseQueue(self.connection, clock, "one", limits)
        self.intake = ParseIntake(queue, objects, shelves, self.memory, lambda: None, forms_batches=True)
        self.claiming = RedisConnection.open(url)
        self.claims = ParseQueue(self.claiming, clock, "one", limits)

    def application(self, most: int = 1000) -> ParseSubmission:
        data = os.urandom(SIZE)
        assert self.memory.reserve(SIZE)
        body = Body(secrets.token_hex(8), SIZE, data, data)
        return ParseSubmission("t", "f.jpg", Priority.NORMAL, None, most, body)


@pytest.fixture
async def reception(tmp_path: Path) -> AsyncIterator[BodyReception]:
    with plain_server() as (url, _):
        made = BodyReception(url, tmp_path)
        yield made
        await made.connection.close()
        await made.claiming.close()


async def test_bodies_are_in_memory_when_they_are_claimed_as_soon_as_they_are_accepted(
    reception: BodyReception,
) -> None:
    applications = [reception.application() for _ in range(200)]
    accepting = asyncio.gather(*(reception.intake.accept(one) for one in applications))
    found: dict[str, object] = {}
    turn = 0
    while len(found) < len(applications):
        turn += 1
        batch = await reception.claims.claim(f"b{turn}", 8, release=f"b{turn - 1}")
        if isinstance(batch, ClaimedBatch):
            found |= {one.id: reception.memory.get(one.id) for one in batch.requests}
    assert found == {one.body.request_id: one.body.data for one in applications}
    assert all(isinstance(answer, RequestAccepted) for answer in await accepting)


async def test_nothing_stays_when_the_queue_is_full(reception: BodyReception) -> None:
    answers = await asyncio.gather(
        *(reception.intake.accept(reception.application(most=0)) for _ in range(50))
    )
    assert all(isinstance(answer, QueueFull) for answer in answers)
    await reception.intake.close()
    assert (reception.memory.used_bytes, len(reception.memory)) == (0, 0)
    assert files(reception.folder) == []


async def test_no_memory_stays_taken_when_the_object_plane_is_away(reception: BodyReception) -> None:
    (reception.folder / "objects").write_bytes(b"not a folder")
    answers = await asyncio.gather(
        *(reception.intake.accept(reception.application()) for _ in range(50)), return_exceptions=True
    )
    assert all(isinstance(answer, ObjectsError) for answer in answers)
    assert (reception.memory.used_bytes, len(reception.memory)) == (0, 0)


async def test_no_memory_stays_taken_when_the_queue_is_away(reception: BodyReception) -> None:
    taken = await reception.intake.accept(reception.application())
    assert isinstance(taken, RequestAccepted)
    await reception.connection.command(
        "SET", "parse:{parse}:queue", "of another kind"
    )  # scripts fail from now on
    answers = await asyncio.gather(
        *(reception.intake.accept(reception.application()) for _ in range(50)), return_exceptions=True
    )
    assert all(isinstance(answer, CoordinationCommandError) for answer in answers)
    assert (reception.memory.used_bytes, len(reception.memory)) == (SIZE, 1)


async def test_a_waiting_caller_may_send_again_when_the_server_has_lost_its_request(
    reception: BodyReception,
) -> None:
    application = reception.application()
    request_id = application.body.request_id
    waiters = Waiters(reception.claims, reception.objects)
    waiting = waiters.join("t", request_id)
    assert isinstance(await reception.intake.accept(application), RequestAccepted)
    waiters.accepted(request_id)
    await waiters.refresh([request_id])
    assert not waiting.done()
    await reception.connection.command("FLUSHALL")
    await waiters.refresh([request_id])
    answer = await waiting
    assert isinstance(answer, Failed)
    assert (answer.error["code"], answer.error["retryable"]) == ("coordination_unavailable", True)
