"""Each caller gets its own result, whatever the backend, the network or the replicas do."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.batching.callers import Reply, as_json, image, post, post_image, request_of
from tests.support.parse_fixtures import Services, Simulated
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

SIZE = 20_000
MOST_WRITERS = 4  # writes of bodies that a replica has under way at once


def own(reply: Reply, number: int, size: int = SIZE) -> bool:
    return reply.status == 200 and reply.json["results"][0]["text"] == image(number, size).digest


def get(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=DEADLINE_S) as answer:
        return json.load(answer)


async def asked(url: str, path: str) -> Any:
    return await asyncio.to_thread(get, url, path)


async def test_each_caller_gets_its_own_result_when_results_come_in_random_order_with_gaps(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(
        fixed_ms=5, each_ms=1, shuffle=True, gaps=0.1, duplicates=0.1, malformed=0.05, extra=2, seed=7
    )
    replies = await asyncio.gather(*(post_image(service.url, number, SIZE) for number in range(400)))
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    stats = simulated.stats()
    assert stats["most_at_once"] <= 4
    assert max(stats["sizes"]) <= 32
    assert sum(stats["sizes"]) > 400
    assert (await asked(service.url, "/queue/status"))["queue_depth"] == 0


async def test_answer_has_the_fields_of_the_protocol_when_an_image_was_read(
    service: Server, simulated: Simulated
) -> None:
    reply = await post_image(service.url, 1, SIZE)
    answer = reply.json
    assert set(answer) == {
        "request_id",
        "filename",
        "processing_time_seconds",
        "timestamp",
        "results",
        "metadata",
    }
    assert answer["filename"] == "page.jpg"
    assert answer["metadata"]["total_elements"] == 1
    assert answer["metadata"]["batch_size"] >= 1
    again = await asked(service.url, f"/parse/{answer['request_id']}")
    assert again == answer


async def test_only_the_poison_images_caller_gets_an_error_when_it_fails_every_batch(
    service: Server, simulated: Simulated
) -> None:
    poisoned = 137
    simulated.script(fixed_ms=5, each_ms=1, poison=image(poisoned, SIZE).digest)
    replies = await asyncio.gather(*(post_image(service.url, number, SIZE) for number in range(320)))
    wrong = [number for number, reply in enumerate(replies) if not own(reply, number)]
    assert wrong == [poisoned]
    error = replies[poisoned].json
    assert replies[poisoned].status == 422
    assert error["code"] == "page_failed"
    assert error["status"] == "failed"


async def test_same_result_comes_again_when_the_key_is_sent_again(
    service: Server, simulated: Simulated
) -> None:
    simulated.script(fixed_ms=100)
    together = await asyncio.gather(
        *(post_image(service.url, 5, SIZE, Idempotency_Key="same") for _ in range(5))
    )
    later = await post_image(service.url, 6, SIZE, Idempotency_Key="same")
    assert {reply.json["request_id"] for reply in (*together, later)} == {later.json["request_id"]}
    assert all(own(reply, 5) for reply in (*together, later))
    assert simulated.stats()["computed"] == {image(5, SIZE).digest: 1}


async def test_every_request_is_answered_once_when_two_replicas_share_the_work(
    services: Services, simulated: Simulated, redis_url: str, tmp_path: Path
) -> None:
    simulated.script(fixed_ms=10, each_ms=1, shuffle=True, gaps=0.05)
    planes = {"REDIS_URL": redis_url, "OBJECT_STORE": str(tmp_path / "objects")}
    one, two = services.start(**planes), services.start(**planes)
    replies = await asyncio.gather(
        *(post_image((one, two)[number % 2].url, number, SIZE) for number in range(300))
    )
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    assert simulated.stats()["most_at_once"] <= 4
    fetched = await asked(two.url, f"/parse/{replies[0].json['request_id']}")
    assert fetched == replies[0].json
    await until(lambda: not list((tmp_path / "objects").glob("parse/bodies/*")))


async def test_nothing_is_lost_or_done_three_times_when_the_replica_is_killed(
    services: Services, simulated: Simulated, tmp_path: Path
) -> None:
    simulated.script(hold=True)
    service = services.start(tmp_path / "service")
    count = 250

    async def caller(number: int) -> Reply:
        return await post_image(service.url, number, SIZE, Idempotency_Key=f"key-{number}")

    callers = [asyncio.ensure_future(caller(number)) for number in range(count)]

    async def loaded() -> bool:
        status = await asked(service.url, "/queue/status")
        return bool(status["batches_in_flight"] == 4 and status["queue_depth"] > 60)

    await until(loaded)
    accepted_before = (await asked(service.url, "/queue/status"))["queue_depth"]
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    ended = await asyncio.gather(*callers, return_exceptions=True)
    assert any(isinstance(one, OSError) for one in ended)
    simulated.script(fixed_ms=20, each_ms=1)
    service = services.start(tmp_path / "service")
    replies = await asyncio.gather(*(caller(number) for number in range(count)))
    assert [number for number, reply in enumerate(replies) if not own(reply, number)] == []
    stats = simulated.stats()
    assert accepted_before > 60
    assert len(stats["computed"]) == count
    assert max(stats["computed"].values()) <= 2
    assert (await asked(service.url, "/queue/status"))["queue_depth"] == 0
    # A body that the killed process had written but not accepted yet is deleted later, with its shelf.
    bodies = service.data_dir / "objects/parse/bodies"
    await until(lambda: sum(one.is_file() for one in bodies.rglob("*")) <= MOST_WRITERS)


async def test_waiting_callers_are_served_when_the_backend_comes_back(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(BATCH_FAILURE_THRESHOLD="3", BATCH_COOLDOWN="30s")
    assert own(await post_image(service.url, 0, SIZE), 0)
    simulated.kill()
    waiting = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(40)]

    async def opened() -> bool:
        return bool((await asked(service.url, "/queue/status"))["breaker_open"])

    await until(opened)
    refused = await post_image(service.url, 1000, SIZE)
    assert refused.status == 503
    assert refused.json["code"] == "circuit_open"
    assert refused.json["retry_after_seconds"] > 0

    async def missed() -> bool:
        return not (await asked(service.url, "/health"))["modal_reachable"]

    await until(missed)  # what health says may be a moment old
    simulated.come_back()
    replies = await asyncio.gather(*waiting)
    # On a slow machine some come only when the breaker is open already: they are new callers.
    accepted = {number: reply for number, reply in enumerate(replies) if reply.status != 503}
    assert accepted
    assert [number for number, reply in accepted.items() if not own(reply, number)] == []


async def test_batch_is_not_lost_when_the_backend_hangs(services: Services, simulated: Simulated) -> None:
    service = services.start(BATCH_BACKEND_TIMEOUT="300ms")
    simulated.script(hang=True)
    waiting = asyncio.ensure_future(post_image(service.url, 3, SIZE))
    await until(lambda: len(simulated.stats()["sizes"]) > 0)
    simulated.script(fixed_ms=5)
    assert own(await waiting, 3)


async def test_new_callers_are_refused_with_an_estimate_when_too_many_wait(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(BACKPRESSURE_THRESHOLD="20", MAX_CONCURRENT_BATCHES="1", MAX_BATCH_SIZE="2")
    assert own(await post_image(service.url, 0, SIZE), 0)
    simulated.script(hold=True)
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(40)]
    await until(lambda: any(one.done() for one in callers))
    simulated.script(fixed_ms=5)
    replies = await asyncio.gather(*callers)
    statuses = Counter(reply.status for reply in replies)
    refused = next(reply for reply in replies if reply.status == 503)
    assert statuses[503] > 0
    assert statuses[200] + statuses[503] == 40
    assert refused.json["queue_depth"] >= 20
    assert refused.json["estimated_wait_minutes"] > 0
    assert refused.json["retry_after_seconds"] >= 1
    assert all(own(reply, number) for number, reply in enumerate(replies) if reply.status == 200)


async def test_client_is_limited_when_it_asks_too_often(services: Services, simulated: Simulated) -> None:
    service = services.start(RATE_LIMIT_PER_CLIENT="5")
    replies = [await post_image(service.url, number, SIZE) for number in range(7)]
    assert [reply.status for reply in replies] == [200] * 5 + [429] * 2
    assert replies[-1].json["code"] == "rate_limited"
    assert replies[-1].json["retry_after_seconds"] > 0


async def test_image_is_not_computed_when_its_caller_left_before_it_was_sent(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(MAX_CONCURRENT_BATCHES="1", MAX_BATCH_SIZE="1")
    simulated.script(hold=True)
    first = asyncio.ensure_future(post_image(service.url, 0, SIZE))
    await until(lambda: simulated.stats()["at_once"] == 1)
    leaving = asyncio.ensure_future(post_image(service.url, 1, SIZE))
    keyed = asyncio.ensure_future(post_image(service.url, 2, SIZE, Idempotency_Key="comes-back"))

    async def queued(count: int) -> bool:
        return bool((await asked(service.url, "/queue/status"))["queue_depth"] == count)

    await until(lambda: queued(2))
    leaving.cancel()
    keyed.cancel()
    await until(lambda: queued(1))
    simulated.script(fixed_ms=5)
    assert own(await first, 0)
    assert own(await post_image(service.url, 2, SIZE, Idempotency_Key="comes-back"), 2)
    assert image(1, SIZE).digest not in simulated.stats()["computed"]
    assert simulated.stats()["computed"][image(2, SIZE).digest] == 1
    await until(lambda: not list(service.data_dir.glob("objects/parse/bodies/*")))


async def test_caller_can_ask_again_when_it_was_held_too_long(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(RESPONSE_TIMEOUT="200ms")
    simulated.script(fixed_ms=700)
    reply = await post_image(service.url, 9, SIZE)
    assert reply.status == 408
    found: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal found
        try:
            found = await asked(service.url, f"/parse/{reply.json['request_id']}?wait=false")
        except urllib.error.HTTPError:
            return False
        return True

    await until(there)
    assert found["results"][0]["text"] == image(9, SIZE).digest


async def test_every_caller_is_answered_when_the_service_is_told_to_stop(
    services: Services, simulated: Simulated, tmp_path: Path
) -> None:
    service = services.start(tmp_path / "service", MAX_CONCURRENT_BATCHES="1", MAX_BATCH_SIZE="4")
    simulated.script(hold=True)
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(30)]

    async def loaded() -> bool:
        status = await asked(service.url, "/queue/status")
        return bool(status["batches_in_flight"] == 1 and status["queue_depth"] >= 20)

    await until(loaded)
    stopping = asyncio.ensure_future(asyncio.to_thread(service.stop))
    await until(lambda: any(one.done() for one in callers))  # told where to ask again
    simulated.script(fixed_ms=5)
    assert await stopping == 0
    replies = await asyncio.gather(*callers)
    served = [number for number, reply in enumerate(replies) if own(reply, number)]
    handed_over = {number: reply for number, reply in enumerate(replies) if reply.status == 503}
    assert 1 <= len(served) <= 4  # the batch that was out
    assert len(served) + len(handed_over) == 30
    service = services.start(tmp_path / "service")
    for number, reply in handed_over.items():
        again = await asked(service.url, f"/parse/{reply.json['request_id']}")
        assert again["results"][0]["text"] == image(number, SIZE).digest
    assert max(simulated.stats()["computed"].values()) == 1


async def test_urgent_images_go_first_when_others_wait(services: Services, simulated: Simulated) -> None:
    service = services.start(MAX_CONCURRENT_BATCHES="1", MAX_BATCH_SIZE="1")
    simulated.script(hold=True)

    async def caller(number: int, priority: str) -> None:
        body = as_json(number, SIZE)
        body[-1] = b'","priority":"' + priority.encode() + b'"}'
        assert own(await post(service.url, request_of(body, "application/json")), number)

    async def queued(count: int) -> bool:
        return bool((await asked(service.url, "/queue/status"))["queue_depth"] == count)

    tasks = [asyncio.ensure_future(caller(0, "normal"))]
    await until(lambda: simulated.stats()["at_once"] == 1)
    for waiting, (number, priority) in enumerate([(1, "low"), (2, "normal"), (3, "high")], start=1):
        tasks.append(asyncio.ensure_future(caller(number, priority)))
        await until(lambda waiting=waiting: queued(waiting))
    simulated.script(fixed_ms=50)
    await asyncio.gather(*tasks)
    numbers = {image(number, SIZE).digest: number for number in range(4)}
    assert [numbers[digest] for digest in simulated.stats()["computed"]] == [0, 3, 2, 1]


@pytest.mark.parametrize("path", ["/parse/0123456789abcdef", "/parse/none"])
async def test_request_is_not_found_when_there_is_no_such(
    service: Server, simulated: Simulated, path: str
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        await asked(service.url, path)
    assert refused.value.code == 404


async def test_each_client_behind_a_trusted_proxy_has_its_own_limit(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(RATE_LIMIT_PER_CLIENT="2", TRUSTED_PROXIES="127.0.0.0/8")
    first = [await post_image(service.url, n, SIZE, X_Forwarded_For="198.51.100.1") for n in range(3)]
    other = await post_image(service.url, 9, SIZE, X_Forwarded_For="198.51.100.1, 198.51.100.2")
    assert [reply.status for reply in first] == [200, 200, 429]
    assert other.status == 200


async def test_forwarded_address_does_not_count_when_no_proxy_is_trusted(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(RATE_LIMIT_PER_CLIENT="2")
    replies = [await post_image(service.url, n, SIZE, X_Forwarded_For=f"198.51.100.{n}") for n in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]


async def test_members_of_a_team_have_their_own_limits_when_each_has_a_key(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(
        RATE_LIMIT_PER_CLIENT="1", RATE_LIMIT_BY="key", API_KEYS="alpha:first-key,alpha:second-key"
    )
    keys = ("first-key", "first-key", "second-key")
    replies = [await post_image(service.url, n, SIZE, X_API_Key=key) for n, key in enumerate(keys)]
    assert [reply.status for reply in replies] == [200, 429, 200]
    refused = replies[1].json
    assert (refused["type"], refused["message"]) == ("rate_limited", refused["error"])
    assert isinstance(refused["retry_after_seconds"], int)
