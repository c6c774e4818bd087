"""A backend that fails: the breaker bounds the calls, no image is blamed, and every caller is answered afterwards."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from typing import Any

import pytest

from tests.batching.callers import image, post_image
from tests.support.parse_fixtures import Services, Simulated
from tests.support.serving import Server
from tests.support.waiting import DEADLINE_S, until

SIZE = 2_000
THRESHOLD = 5


async def asked(service: Server, path: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with urllib.request.urlopen(service.url + path, timeout=DEADLINE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    return await asyncio.to_thread(ask)


def failed_probes(service: Server) -> int:
    return service.log_path.read_text().count("did not read the probe image")


@pytest.mark.parametrize(
    "fault",
    [{"batch_status": 500}, {"batch_status": 503}, {"batch_status": 404}, {"empty": True}, {"hang": True}],
    ids=["500", "503", "404", "no-results", "hang"],
)
async def test_calls_are_bounded_and_no_image_is_blamed_when_every_batch_fails(
    services: Services, simulated: Simulated, fault: dict[str, Any]
) -> None:
    service = services.start(BATCH_BACKEND_TIMEOUT="500ms", BATCH_COOLDOWN="300ms")
    simulated.script(**fault)
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(500)]

    async def three_probes() -> bool:
        return failed_probes(service) >= 3

    await until(three_probes)
    simulated.script(fixed_ms=5, each_ms=1)
    stats = simulated.stats()
    # Probes may have been sent since the log was read: they are counted after the calls.
    calls, failed = stats["calls"], failed_probes(service)
    assert calls <= THRESHOLD + failed + 1, (calls, failed)
    replies = await asyncio.gather(*callers)
    # Callers that come while the breaker is open get 503 and may try again.
    assert set(Counter(reply.status for reply in replies)) <= {200, 503}
    answered = [(number, reply) for number, reply in enumerate(replies) if reply.status == 200]
    assert answered
    for number, reply in answered:
        assert reply.json["results"][0]["text"] == image(number, SIZE).digest
    for reply in replies:
        if reply.status == 503:
            assert reply.json["type"] == "circuit_open"
            assert isinstance(reply.json["retry_after_seconds"], int)


async def test_callers_that_wait_get_their_results_when_the_backend_recovers(
    services: Services, simulated: Simulated
) -> None:
    """All 500 wait before the first batch fails."""
    service = services.start(BATCH_COOLDOWN="300ms")
    simulated.script(hold=True)
    callers = [asyncio.ensure_future(post_image(service.url, number, SIZE)) for number in range(500)]

    async def all_wait() -> bool:
        status = await asked(service, "/queue/status")
        held = sum(simulated.stats()["sizes"])
        return bool(status["queue_depth"] + held >= 500)

    await until(all_wait)
    simulated.script(batch_status=500)

    async def two_probes() -> bool:
        return failed_probes(service) >= 2

    await until(two_probes)
    calls = simulated.stats()["calls"]  # with those that were held
    assert calls <= THRESHOLD + failed_probes(service) + 1
    simulated.script(fixed_ms=5, each_ms=1)
    replies = await asyncio.gather(*callers)
    assert [number for number, reply in enumerate(replies) if reply.status != 200] == []
    assert all(reply.json["results"][0]["text"] == image(n, SIZE).digest for n, reply in enumerate(replies))


async def test_healthy_answer_does_not_shorten_the_cooldown_when_batches_fail(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(BATCH_COOLDOWN="1h", BATCH_HEALTH_INTERVAL="100ms")
    simulated.script(batch_status=500)
    caller = asyncio.ensure_future(post_image(service.url, 1, SIZE))

    async def opened() -> bool:
        return bool((await asked(service, "/queue/status"))["breaker_open"])

    await until(opened)
    await until(lambda: failed_probes(service) > 0)
    calls = simulated.stats()["calls"]
    for _ in range(5):  # each asks the backend's /health again
        asked_before = simulated.stats()["health_checks"]
        await until(lambda before=asked_before: simulated.stats()["health_checks"] > before)  # type: ignore[misc]
    assert simulated.stats()["calls"] == calls
    caller.cancel()


@pytest.mark.parametrize("threshold", ["1", "5"])
async def test_lone_image_is_blamed_only_when_the_probe_image_is_read(
    services: Services, simulated: Simulated, threshold: str
) -> None:
    """With a threshold of 1 every failure opens the breaker; the image must not block the queue for ever."""
    service = services.start(BATCH_FAILURE_THRESHOLD=threshold)
    simulated.script(fixed_ms=1, each_ms=1, poison=image(7, SIZE).digest)
    reply = await post_image(service.url, 7, SIZE)
    assert reply.status == 422
    assert "read the probe image" in service.log_path.read_text()
    assert (await post_image(service.url, 8, SIZE)).status == 200


async def test_good_images_are_answered_when_a_poison_image_is_with_them_and_every_failure_opens_the_breaker(
    services: Services, simulated: Simulated
) -> None:
    service = services.start(BATCH_FAILURE_THRESHOLD="1", BATCH_COOLDOWN="200ms")
    simulated.script(fixed_ms=1, each_ms=1, poison=image(7, SIZE).digest)
    replies = await asyncio.gather(*(post_image(service.url, number, SIZE) for number in range(24)))
    accepted = {number: reply.status for number, reply in enumerate(replies) if reply.status != 503}
    assert {number for number, status in accepted.items() if status != 200} <= {7}
