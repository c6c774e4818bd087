"""Jobs are made once, and whoever made one knows that it was them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from quire.coordination.connection import Arg, RedisConnection
from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.coordination.keys import JobKeys
from quire.coordination.streams import Queues
from quire.coordination.vault_steps import Steps
from quire.domain.job import JobOptions, UnitKind, new_job_id
from tests.support.clocks import ShiftedClock


class LossyConnection(RedisConnection):
    """Loses the first answer to every script and sends it again, as a connection that is cut does."""

    async def script(self, name: str, keys: Sequence[str], *args: Arg) -> Any:
        await super().script(name, keys, *args)
        return await super().script(name, keys, *args)


@pytest.fixture
async def lossy(shared_server: str, connection: RedisConnection) -> AsyncIterator[RedisConnection]:
    opened = LossyConnection.open(shared_server)
    yield opened
    await opened.close()


def new_job(job_id: str) -> NewJob:
    return NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="o")


async def test_job_is_the_callers_own_when_the_answer_to_making_it_was_lost(
    lossy: RedisConnection, queues: Queues, clock: ShiftedClock
) -> None:
    jobs = JobStore(lossy, queues, clock, ttl_s=3600)
    new = new_job(new_job_id())

    assert await jobs.create(new) is None
    assert (await queues.depth(UnitKind.SPLIT))["waiting"] == 1
    taken = await jobs.create(new)
    assert taken is not None, "another call finds the id taken"


async def test_secrets_are_not_put_back_when_their_job_is_gone(
    connection: RedisConnection, queues: Queues, clock: ShiftedClock
) -> None:
    jobs = JobStore(connection, queues, clock, ttl_s=3600)
    steps = Steps(connection, queues, jobs, clock)
    there, gone = new_job_id(), new_job_id()
    await jobs.create(new_job(there))

    await steps.reseal(there, "sealed")
    await steps.reseal(gone, "sealed")

    found = await jobs.get(there)
    assert found is not None
    assert found.sealed == "sealed"
    assert not await connection.command("EXISTS", JobKeys.of(gone).job)
