"""The next batch is on its way while the slots are taken. The backend can't begin with it; nothing is lost by it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire.batching.backend_protocol import SendPermit
from quire.batching.dolphin_provider import read_page
from quire.batching.parse_errors import BackendFailedError
from quire.batching.remote_backend import BackendAddress, RemoteBackend
from quire.bootstrap import runtime
from quire.coordination.parse_requests import BackendState, ClaimedBatch
from quire.settings import load
from tests.api.parse.test_parse_callers import SIZE, asked, own
from tests.support.parse_fixtures import Services, Simulated
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

from .callers import Reply, image, post_image
from .test_remote import images

MANY = 250


def waiting() -> SendPermit:
    return SendPermit(asyncio.get_running_loop().create_future(), lambda: None)


async def measured(service: Server) -> None:
    """So that the service knows when its batches will end."""
    replies = await asyncio.gather(*(post_image(service.url, number, SIZE) for number in range(40)))
    assert all(own(reply, number) for number, reply in enumerate(replies))


def callers(service: Server) -> list[asyncio.Future[Reply]]:
    return [
        asyncio.ensure_future(post_image(service.url, number, SIZE, Idempotency_Key=f"key-{number}"))
        for number in range(MANY)
    ]


async def held_with_one_ahead(
    service: Server, simulated: Simulated
) -> tuple[list[asyncio.Future[Reply]], int]:
    """Four batches are held, one is ahead, all others are queued; answers the callers and how many are in the four."""
    await measured(service)
    simulated.fresh()
    simulated.script(hold=True)
    held = callers(service)
    out = 0

    async def there() -> bool:
        nonlocal out
        stats = simulated.stats()
        out = sum(stats["sizes"])
        depth = (await asked(service.url, "/queue/status"))["queue_depth"]
        return bool((stats["at_once"], stats["here"], depth) == (4, 5, MANY - out - 32))

    await until(there)
    return held, out


async def test_backend_has_a_batch_but_for_its_end_when_its_turn_has_not_come(simulated: Simulated) -> None:
    remote = RemoteBackend(BackendAddress.of(simulated.url), 60.0, 4)
    permit = waiting()
    parsing = asyncio.create_task(remote.parse(images(10, 3_000_000, 90_000), permit))
    await until(lambda: simulated.stats()["here"] == 1)
    assert simulated.stats()["at_once"] == 0
    permit.granted.set_result(None)
    assert len((await parsing).images) == 3
    assert simulated.stats()["sizes"] == [3]
    await remote.close()


async def test_time_is_counted_from_its_turn_when_a_batch_had_to_wait(simulated: Simulated) -> None:
    simulated.script(hang=True)
    remote = RemoteBackend(BackendAddress.of(simulated.url), 0.2, 4)
    permit = waiting()
    parsing = asyncio.create_task(remote.parse(images(10), permit))
    await until(lambda: simulated.stats()["here"] == 1)
    done, _ = await asyncio.wait([parsing], timeout=0.6)
    assert not done
    permit.granted.set_result(None)
    with pytest.raises(BackendFailedError, match="no answer within"):
        await parsing
    await remote.close()


async def test_one_batch_is_ahead_and_four_are_computed_when_many_wait(
    service: Server, simulated: Simulated
) -> None:
    held, _ = await held_with_one_ahead(service, simulated)
    simulated.script()
    replies = await asyncio.gather(*held)
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    stats = simulated.stats()
    assert (stats["most_at_once"], stats["most_here"]) == (4, 5)
    assert set(stats["computed"].values()) == {1}


async def test_callers_get_their_results_when_the_backend_turns_away_what_comes_early(
    services: Services, simulated: Simulated
) -> None:
    service = services.start()
    await measured(service)
    simulated.script(crowded=4, hold=True)
    held = callers(service)
    await until(lambda: simulated.stats()["turned_away"] == 1)
    simulated.script(crowded=4)
    replies = await asyncio.gather(*held)
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    stats = simulated.stats()
    assert stats["turned_away"] == 1  # it is not tried again and again
    assert max(stats["computed"].values()) == 2  # of the first forty, which were computed before
    assert not (await asked(service.url, "/queue/status"))["breaker_open"]


async def test_nothing_is_lost_or_done_three_times_when_the_replica_is_killed_with_one_ahead(
    services: Services, simulated: Simulated, tmp_path: Path
) -> None:
    service = services.start(tmp_path / "service")
    held, out = await held_with_one_ahead(service, simulated)
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    await asyncio.gather(*held, return_exceptions=True)
    simulated.script(fixed_ms=20, each_ms=1)
    service = services.start(tmp_path / "service")
    replies = await asyncio.gather(*callers(service))
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    computed = simulated.stats()["computed"]
    assert len(computed) == MANY
    assert max(computed.values()) <= 2
    assert sum(computed.values()) <= MANY + out  # the one ahead was computed once
    assert (await asked(service.url, "/queue/status"))["queue_depth"] == 0
    await until(lambda: not list(service.data_dir.glob("objects/parse/bodies/*")))


async def test_waiting_callers_are_served_when_the_backend_dies_with_one_ahead(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(BATCH_FAILURE_THRESHOLD="3", BATCH_COOLDOWN="1s")
    held, _ = await held_with_one_ahead(service, simulated)
    simulated.kill()
    simulated.come_back()
    replies = await asyncio.gather(*held)
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    assert simulated.stats()["most_at_once"] <= 4


async def test_every_caller_is_answered_when_the_service_is_told_to_stop_with_one_ahead(
    services: Services, simulated: Simulated, tmp_path: Path
) -> None:
    service = services.start(tmp_path / "service")
    held, out = await held_with_one_ahead(service, simulated)
    stopping = asyncio.ensure_future(asyncio.to_thread(service.stop))
    await until(lambda: any(one.done() for one in held))  # told where to ask again
    simulated.script(fixed_ms=5)
    assert await stopping == 0
    replies = await asyncio.gather(*held)
    served = [number for number, reply in enumerate(replies) if own(reply, number)]
    assert len(served) == out + 32
    assert sum(reply.status == 503 for reply in replies) == MANY - len(served)
    service = services.start(tmp_path / "service")
    again = await asyncio.gather(*callers(service))
    assert [number for number, reply in enumerate(again) if not own(reply, number)] == []
    assert set(simulated.stats()["computed"].values()) == {1}


async def test_callers_are_answered_when_the_one_ahead_is_dropped_before_its_first_step(
    simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The breaker's answer comes in the same turn of the loop as the claim: the batch's task never runs."""
    env = {"DATA_DIR": str(tmp_path), "READER_PROCESSES": "1", "BATCH_BACKEND_URL": simulated.url}
    async with runtime(load(env), owner="test", kinds=[], batching=True) as running:
        assert running.batcher is not None
        batcher, former = running.batcher, running.batcher.former
        dropped: list[str] = []
        begin = former._begin

        def begin_and_fail(batch: ClaimedBatch, *, ahead: bool) -> None:
            begin(batch, ahead=ahead)
            if ahead and not dropped:
                dropped.append(batch.id)
                former.apply(BackendState(failures=1, not_before_s=0.0, sums=(0.0,) * 5))

        async def read(number: int) -> str:
            body = image(number, SIZE).data
            return (await read_page(batcher, body, team="t", filename="p.jpg", key=f"k{number}")).batch_id

        await asyncio.gather(*(read(number) for number in range(40)))
        simulated.fresh()
        monkeypatch.setattr(former, "_begin", begin_and_fail)
        simulated.script(hold=True)
        reading = [asyncio.create_task(read(number)) for number in range(40, 40 + MANY)]
        await until(lambda: bool(dropped), "a batch that is ahead")
        simulated.script()
        async with asyncio.timeout(DEADLINE_S):
            batches = await asyncio.gather(*reading)
        assert dropped[0] not in batches
        assert former.in_hand == 0
    assert set(simulated.stats()["computed"].values()) == {1}


_FAR_S = 0.03


@asynccontextmanager
async def far_away(url: str) -> AsyncIterator[str]:
    """The address of this Redis, whose answers take a while from there."""
    loop = asyncio.get_running_loop()
    host, _, port = url.removeprefix("redis://").partition("/")[0].rpartition(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
        while data := await reader.read(65_536):
            loop.call_later(delay_s, writer.write, data)
        loop.call_later(delay_s, writer.close)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_connection(host, int(port))
        await asyncio.gather(forward(reader, to_redis, 0), forward(from_redis, writer, _FAR_S))

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()


async def test_batches_are_sent_in_order_when_a_slot_is_free_before_the_claim_ahead_of_it_is_answered(
    services: Services, simulated: Simulated, redis_url: str
) -> None:
    async with far_away(redis_url) as url:
        server = await asyncio.to_thread(
            services.start, REDIS_URL=url, MAX_BATCH_SIZE="1", MAX_CONCURRENT_BATCHES="1"
        )
        await measured(server)
        simulated.fresh()
        simulated.script(hold=True)
        tasks = [asyncio.create_task(post_image(server.url, 0, SIZE))]
        await until(lambda: simulated.stats()["at_once"] == 1)
        for number in range(1, 7):
            tasks.append(asyncio.create_task(post_image(server.url, number, SIZE)))

            async def accepted(count: int = number + 1) -> bool:
                here = simulated.stats()["here"]
                depth = (await asked(server.url, "/queue/status"))["queue_depth"]
                return bool(depth + here == count)

            await until(accepted)
        simulated.script(fixed_ms=1)
        replies = await asyncio.gather(*tasks)
        assert all(own(reply, number) for number, reply in enumerate(replies))
        numbers = {image(number, SIZE).digest: number for number in range(7)}
        assert [numbers[digest] for digest in simulated.stats()["computed"]] == list(range(7))
        await asyncio.to_thread(server.stop)
