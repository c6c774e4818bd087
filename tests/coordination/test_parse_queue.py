"""The scripts: order, slots, bounds, keys, takeover, breaker and buckets, with the clock in hand. On a cluster too."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from quire.batching.service_model import ServiceModel
from quire.coordination.connection import RedisConnection
from quire.coordination.parse_queue import ParseLimits, ParseQueue
from quire.coordination.parse_requests import (
    BreakerOpen,
    ClaimedBatch,
    KnownRequest,
    NewRequest,
    NoBatch,
    Outcome,
    Permission,
    Priority,
    QueueFull,
    RequestAccepted,
    RequestOutcome,
)
from tests.support.clocks import MovableClock
from tests.support.coordination_servers import cluster, plain_server

_IDS = itertools.count(1)


@pytest.fixture(scope="module", params=["single", "cluster"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "single":
        with plain_server() as (url, _):
            yield url
    else:
        with cluster() as url:
            yield url


class House:
    """Replicas on one server."""

    def __init__(self, connection: RedisConnection, slots: int = 2) -> None:
        self.clock = MovableClock()
        self.connection = connection
        limits = ParseLimits(3600, slots=slots, failures_to_open=3, cooldown_s=30, backoff_s=1)
        self.one = ParseQueue(connection, self.clock, "one", limits)
        self.two = ParseQueue(connection, self.clock, "two", limits)

    async def put(
        self,
        *priorities: Priority,
        key: str | None = None,
        most: int = 100,
        team: str = "t",
        segment: str = "",
    ) -> tuple[list[str], list[object]]:
        requests = [
            NewRequest(f"{next(_IDS):016x}", team, "f.jpg", one, 10 * n, 10, key, most)
            for n, one in enumerate(priorities)
        ]
        answers = await self.one.accept(segment or f"s{next(_IDS)}", requests, forms_batches=True)
        return [one.id for one in requests], list(answers)


@pytest.fixture
async def house(server_url: str) -> AsyncIterator[House]:
    connection = RedisConnection.open(server_url)
    await connection.command("DEL", *(f"parse:{{parse}}:{name}" for name in _STANDING))
    yield House(connection)
    await connection.close()


_BATCHES = (*"abcd", *(f"a{turn}" for turn in range(10)))
_STANDING = (
    *("queue", "seq", "batches", "slots", "segments", "expiry", "breaker", "calls", "model", "stats"),
    *(f"b:{one}" for one in _BATCHES),
)


def ids(batch: ClaimedBatch | NoBatch) -> list[str]:
    assert isinstance(batch, ClaimedBatch), batch
    return [one.id for one in batch.requests]


def done(*names: str) -> list[Outcome]:
    return [Outcome(one, RequestOutcome.DONE, 0, 1) for one in names]


async def end(queue: ParseQueue, batch: str, outcomes: list[Outcome], *, last: bool = True) -> list[str]:
    return await queue.finish(batch, outcomes, at_s=1_800_000_000, result_key="r", last=last)


async def test_urgent_come_first_and_others_in_order_when_a_batch_is_claimed(house: House) -> None:
    names, _ = await house.put(Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.NORMAL, Priority.HIGH)
    assert ids(await house.one.claim("a", 3)) == [names[2], names[4], names[1]]
    assert ids(await house.two.claim("b", 3)) == [names[3], names[0]]


async def test_no_batch_starts_when_all_slots_are_taken_by_any_replica(house: House) -> None:
    await house.put(*[Priority.NORMAL] * 5)
    first = ids(await house.one.claim("a", 1))
    await house.two.claim("b", 1)
    assert await house.one.claim("c", 1) == NoBatch("busy")
    assert len(ids(await house.one.claim("c", 1, release="a"))) == 1
    await end(house.one, "a", done(*first))
    assert await house.two.claim("d", 1) == NoBatch("busy")


async def test_batch_ahead_takes_the_slot_that_another_leaves_when_all_are_taken(house: House) -> None:
    await house.put(*[Priority.NORMAL] * 6)
    first = ids(await house.one.claim("a", 1))
    await house.two.claim("b", 1)
    assert await house.one.claim("c", 5, ahead=True) == NoBatch("few")
    assert len(ids(await house.one.claim("c", 2, ahead=True))) == 2
    assert await house.one.slots() == {"a": "one", "b": "two"}
    assert await house.one.take_slot("c") is False
    assert await house.one.take_slot("c", release="a")
    assert await house.one.take_slot("c", release="a")  # repeated after a lost connection
    assert await house.one.slots() == {"c": "one", "b": "two"}
    await end(house.one, "a", done(*first))
    assert await house.one.slots() == {"c": "one", "b": "two"}
    assert await house.two.claim("d", 1) == NoBatch("busy")


async def test_batch_ahead_takes_a_free_slot_when_there_is_one(house: House) -> None:
    names, _ = await house.put(*[Priority.NORMAL] * 4)
    await house.one.claim("a", 2, ahead=True)
    assert await house.one.take_slot("a")
    await house.one.claim("b", 2, ahead=True)
    assert await house.two.reclaim("b", "one", {}) == (2, [])
    assert await house.one.take_slot("b") is None  # it is not this replica's any more
    assert ids(await house.two.claim("c", 2)) == names[2:]


async def test_no_batch_is_claimed_ahead_when_the_backend_has_just_failed(house: House) -> None:
    await house.put(*[Priority.NORMAL] * 4)
    await house.one.observe("failed")
    refused = await house.one.claim("a", 2, ahead=True)
    assert isinstance(refused, NoBatch)
    assert refused.why == "wait"
    assert len(ids(await house.one.claim("a", 2))) == 2


async def test_request_stays_when_replicas_die_before_they_have_sent_it(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL)
    for turn in range(10):
        assert ids(await house.one.claim(f"a{turn}", 1, ahead=True)) == names
        assert await house.two.reclaim(f"a{turn}", "one", {"error": "deadly"}) == (1, [])
    for turn in range(10):
        assert ids(await house.one.claim(f"a{turn}", 1, ahead=True)) == names
        assert await house.one.take_slot(f"a{turn}")
        moved, _ = await house.two.reclaim(f"a{turn}", "one", {"error": "deadly"})
    assert moved == 0


async def test_request_stays_when_it_was_given_back_often(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL)
    for turn in range(10):
        assert ids(await house.one.claim(f"a{turn}", 1)) == names
        await end(house.one, f"a{turn}", [Outcome(names[0], RequestOutcome.BACK)])
    await house.one.claim("a", 1)
    assert await house.two.reclaim("a", "one", {"error": "deadly"}) == (1, [])


async def test_same_batch_is_answered_when_a_claim_is_repeated(house: House) -> None:
    await house.put(*[Priority.NORMAL] * 4)
    assert set(ids(await house.one.claim("a", 2))) == set(ids(await house.one.claim("a", 2)))
    assert await house.one.depth() == 2


async def test_request_is_known_when_its_key_was_used_by_the_same_team(house: House) -> None:
    key = f"key{next(_IDS)}"
    [first], _ = await house.put(Priority.NORMAL, key=key)
    assert (await house.put(Priority.NORMAL, key=key))[1] == [KnownRequest(first)]
    [other], answers = await house.put(Priority.NORMAL, key=key, team="u")
    assert isinstance(answers[0], RequestAccepted)
    assert await house.one.find_by_key("t", key) == first
    assert await house.one.find_by_key("u", key) == other
    assert await house.one.attach("u", first) is None


async def test_requests_are_refused_when_the_queue_is_full(house: House) -> None:
    _, answers = await house.put(*[Priority.NORMAL] * 4, most=3)
    assert answers == [RequestAccepted(1), RequestAccepted(2), RequestAccepted(3), QueueFull(3)]


async def test_requests_keep_their_place_when_they_are_taken_over(house: House) -> None:
    names, _ = await house.put(*[Priority.NORMAL] * 4)
    await house.one.claim("a", 2)
    await end(house.one, "a", done(names[0]), last=False)
    assert await house.two.reclaim("a", "two", {}) == (-1, [])
    assert await house.two.reclaim("a", "one", {}) == (1, [])
    assert ids(await house.two.claim("b", 4)) == names[1:]
    assert await house.two.slots() == {"b": "two"}


async def test_first_result_counts_when_two_replicas_have_one(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL)
    await house.one.claim("a", 1)
    await house.two.reclaim("a", "one", {})
    await house.two.claim("b", 1)
    await end(house.one, "a", [Outcome(names[0], RequestOutcome.DONE, 5, 6)])
    await end(house.two, "b", [Outcome(names[0], RequestOutcome.ERROR, error={"error": "late"})])
    seen = await house.one.attach("t", names[0])
    assert seen is not None
    assert (seen.state, seen.offset, seen.length) == ("d", 5, 6)
    assert await house.one.batches() == {}


async def test_request_ends_when_whoever_sends_it_keeps_dying(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL)
    for turn in range(10):
        assert ids(await house.one.claim(f"a{turn}", 1)) == names
        moved, _unneeded = await house.two.reclaim(f"a{turn}", "one", {"error": "deadly"})
    assert moved == 0
    seen = await house.one.attach("t", names[0])
    assert seen is not None
    assert seen.error == {"error": "deadly"}


async def test_body_is_unneeded_when_the_last_of_its_requests_has_ended(house: House) -> None:
    names, _ = await house.put(*[Priority.NORMAL] * 3, segment="shared")
    await house.one.claim("a", 2)
    assert await end(house.one, "a", done(*names[:2])) == []
    assert await house.one.leave([names[2]], keep=False) == ["shared"]
    assert await house.one.depth() == 0


async def test_request_stays_when_its_caller_can_come_back(house: House) -> None:
    [keyed], _ = await house.put(Priority.NORMAL, key=f"key{next(_IDS)}")
    [told], _ = await house.put(Priority.NORMAL)
    [gone], _ = await house.put(Priority.NORMAL)
    await house.one.leave([keyed, gone], keep=False)
    await house.one.leave([told], keep=True)
    assert ids(await house.one.claim("a", 5)) == [keyed, told]


async def test_missing_result_is_charged_and_a_batch_given_back_is_not(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL, Priority.NORMAL)
    await house.one.claim("a", 2)
    await end(
        house.one, "a", [Outcome(names[0], RequestOutcome.AGAIN), Outcome(names[1], RequestOutcome.BACK)]
    )
    batch = await house.one.claim("b", 2)
    assert isinstance(batch, ClaimedBatch)
    assert [(one.id, one.misses) for one in batch.requests] == [(names[0], 1), (names[1], 0)]


async def test_one_replica_probes_when_the_breaker_has_cooled_down(house: House) -> None:
    names, _ = await house.put(*[Priority.NORMAL] * 3)
    for _ in range(3):
        observed = await house.one.observe("failed", 1)
    assert (observed.failures, observed.opened) == (3, True)
    assert isinstance(await house.one.claim("a", 1), NoBatch)
    assert (await house.put(Priority.NORMAL))[1] == [BreakerOpen(house.clock.time + 30)]
    await house.one.observe("failed")  # the probe image, sent at once
    house.clock.time += 31
    probes = [await house.one.claim("b", 1), await house.two.claim("c", 1)]
    assert [one.why for one in probes if isinstance(one, NoBatch)] == ["probe", "wait"]
    assert (await house.one.observe("ok", 0)).failures == 0
    assert ids(await house.two.claim("c", 1)) == names[:1]


async def test_calls_are_limited_to_those_that_open_the_breaker_when_one_has_failed(house: House) -> None:
    house = House(house.connection, slots=4)
    await house.put(*[Priority.NORMAL] * 4)
    for name in ("a", "b"):
        assert len(ids(await house.one.claim(name, 1))) == 1
    await house.one.observe("failed", 1, batch_id="a")
    assert await house.one.may_call("a") is Permission.GO  # with b, two calls: both may fail
    refused = await house.two.claim("c", 1)
    assert isinstance(refused, NoBatch)
    assert refused.why == "wait"
    await house.one.observe("failed", 1, batch_id="b")
    assert await house.one.may_call("b") is Permission.BUSY  # the call of a decides
    await house.one.observe("ok", 1, 0.1, batch_id="a")
    assert await house.one.may_call("b") is Permission.GO


async def test_no_call_is_permitted_when_the_breaker_is_open(house: House) -> None:
    for _ in range(3):
        await house.one.observe("failed", 1)
    assert await house.one.may_call("a") is Permission.WAIT
    house.clock.time += 31
    assert await house.one.may_call("a") is Permission.WAIT  # only the probe image is sent


async def test_call_of_a_dead_process_does_not_count_when_its_lease_is_over(house: House) -> None:
    house = House(house.connection, slots=4)
    await house.put(*[Priority.NORMAL] * 4)
    for name in ("a", "b"):
        await house.one.claim(name, 1)
    await house.one.observe("failed", 1)
    assert isinstance(await house.two.claim("c", 1), NoBatch)
    house.clock.time += 200
    assert len(ids(await house.two.claim("c", 1))) == 1


@pytest.mark.parametrize(
    ("kind", "checks", "early"),
    [
        ("down", ["unhealthy", "healthy"], True),
        ("down", ["healthy"], False),
        ("failed", ["unhealthy", "healthy"], False),
    ],
)
async def test_probe_comes_early_only_when_an_unreachable_backend_is_healthy_again(
    house: House, kind: str, checks: list[str], early: bool
) -> None:
    await house.put(Priority.NORMAL)
    for _ in range(3):
        await house.one.observe(kind, 1)
    if kind == "failed":
        await house.one.observe(kind)
    for check in checks:
        await house.one.observe(check)
    found = await house.one.claim("b", 1)
    assert isinstance(found, NoBatch)
    assert found.why == ("probe" if early else "wait")


async def test_bucket_refills_when_time_passes(house: House) -> None:
    client = f"client{next(_IDS)}"
    waits = [await house.one.rate_limit_wait_s(client, 6) for _ in range(7)]
    assert waits[:6] == [0] * 6
    assert waits[6] == pytest.approx(10, abs=0.01)
    house.clock.time += 10
    assert await house.two.rate_limit_wait_s(client, 6) == 0
    assert await house.one.rate_limit_wait_s(client, 6) > 0


async def test_service_times_are_learnt_when_batches_are_observed(house: House) -> None:
    for size in (1, 4, 32, 16, 8, 24):
        observed = await house.one.observe("ok", size, 0.05 + 0.005 * size)
    model = ServiceModel.fitted(observed.sums)
    assert model.fixed_s == pytest.approx(0.05, abs=1e-4)
    assert model.each_s == pytest.approx(0.005, abs=1e-5)


async def test_shelf_is_to_be_emptied_when_its_time_has_come(house: House) -> None:
    await house.one.register_shelf("parse/bodies/7", house.clock.time + 10)
    await house.put(Priority.NORMAL, segment="parse/bodies/7/a")
    await house.put(Priority.NORMAL, segment="parse/bodies/70/b")
    assert await house.two.expired_shelves() == []
    house.clock.time += 11
    assert await house.two.expired_shelves() == ["parse/bodies/7"]
    await house.two.forget_shelf("parse/bodies/7")
    assert await house.one.expired_shelves() == []
    left = await house.connection.command("HKEYS", "parse:{parse}:segments")
    assert left == ["parse/bodies/70/b"]


async def test_failure_is_seen_with_its_reason_when_an_image_ended_so(house: House) -> None:
    names, _ = await house.put(Priority.NORMAL)
    await house.one.claim("a", 1)
    await end(house.one, "a", [Outcome(names[0], RequestOutcome.ERROR, error={"error": "unreadable"})])
    seen = await house.two.attach("t", names[0])
    assert seen is not None
    assert (seen.state, seen.error) == ("e", {"error": "unreadable"})


async def test_status_tells_depth_and_age_when_requests_wait(house: House) -> None:
    await house.put(Priority.HIGH)
    house.clock.time += 5
    await house.put(Priority.LOW)
    status = await house.one.status()
    assert status.depth == 2
    assert status.oldest_at == house.clock.time - 5
    await house.one.claim("a", 1)
    status = await house.one.status()
    assert (status.depth, status.slots_taken, status.last_batch_at) == (1, 1, house.clock.time)
