"""Source 004: images of waiting callers, aggregated into batches for a GPU backend."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.batching.callers import image
from tests.support.environment import clean_environment
from tests.support.parse_fixtures import Simulated
from tests.support.serving import Answer, Client, Server, client_of
from tests.support.waiting import eventually

SIZE = 1_500
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
PLAIN = {"RATE_LIMIT_PER_CLIENT": "0", "MIN_FREE_DISK": "0", "RETRY_DELAY": "100ms"}

Start = Callable[..., Server]


@pytest.fixture(scope="module")
def backend_process() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.kill()


@pytest.fixture
def backend(backend_process: Simulated) -> Simulated:
    backend_process.fresh()
    return backend_process


@pytest.fixture(scope="module")
def service(start_service: Start, backend_process: Simulated) -> Server:
    return start_service(BATCH_BACKEND_URL=backend_process.url, BATCH_COOLDOWN="300ms", **PLAIN).wait_ready()


@pytest.fixture(scope="module")
def narrow_service(start_service: Start, backend_process: Simulated) -> Server:
    """One image at a time, few may wait, small images, the source's rate limit is off."""
    return start_service(
        BATCH_BACKEND_URL=backend_process.url,
        MAX_BATCH_SIZE="1",
        MAX_CONCURRENT_BATCHES="1",
        BACKPRESSURE_THRESHOLD="3",
        MAX_QUEUE_SIZE="3",
        MAX_REQUEST_SIZE="1MB",
        BATCH_COOLDOWN="1h",
        **PLAIN,
    ).wait_ready()


@pytest.fixture
async def narrow(narrow_service: Server) -> AsyncIterator[Client]:
    async with client_of(narrow_service) as client:
        yield client


@pytest.fixture(scope="module")
def limited_service(start_service: Start, backend_process: Simulated) -> Server:
    """The source's rate limit, a short response timeout, and a proxy in front of it that is trusted."""
    return start_service(
        BATCH_BACKEND_URL=backend_process.url,
        RESPONSE_TIMEOUT="300ms",
        MIN_FREE_DISK="0",
        TRUSTED_PROXIES="127.0.0.1",
    ).wait_ready()


@pytest.fixture
async def limited(limited_service: Server) -> AsyncIterator[Client]:
    async with client_of(limited_service) as client:
        yield client


def body_of(number: int, **fields: Any) -> dict[str, Any]:
    return {"image_data": base64.b64encode(image(number, SIZE).data).decode(), **fields}


async def parse(
    client: Client, number: int, *, headers: dict[str, str] | None = None, **fields: Any
) -> Answer:
    return await client.post("/parse", json=body_of(number, **fields), headers=headers)


def is_own(answer: Answer, number: int) -> bool:
    return answer.status == 200 and answer.json["results"][0]["text"] == image(number, SIZE).digest


async def sent(backend: Simulated, count: int = 1) -> None:
    """Returns when so many batches are at the backend."""

    async def there() -> bool:
        return bool(backend.stats()["at_once"] >= count)

    await eventually(there, f"{count} batches at the backend")


async def accepted(client: Client, backend: Simulated, count: int) -> None:
    """Returns when so many requests of the narrow service wait, or are at the backend: one may be sent ahead."""

    async def there() -> bool:
        here = backend.stats()["here"]  # first: a request that is sent meanwhile must not be counted twice
        depth = (await client.get("/queue/status")).json["queue_depth"]
        return bool(depth + here == count)

    await eventually(there, f"{count} requests in the queue or at the backend")


async def called(backend: Simulated, count: int) -> None:
    """Returns when the backend was called so often."""

    async def there() -> bool:
        return bool(backend.stats()["calls"] >= count)

    await eventually(there, f"{count} calls of the backend")


# ---- synchronous operation -------------------------------------------------------------------------------------


@pytest.mark.requirement("004-1", "A caller of POST /parse waits and gets its own result")
async def test_caller_gets_its_result_when_it_posts_an_image(client: Client, backend: Simulated) -> None:
    assert is_own(await parse(client, 1), 1)


@pytest.mark.requirement("004-1a", "The answer is the result, never a job id to ask for later")
async def test_answer_is_no_job_when_an_image_is_posted(client: Client, backend: Simulated) -> None:
    answer = await parse(client, 1)
    assert (answer.status, "job_id" in answer.json) == (200, False)


@pytest.mark.requirement("004-2", "100 callers at the same time all wait and all get their own results")
async def test_all_callers_get_their_results_when_100_come_at_once(
    client: Client, backend: Simulated
) -> None:
    answers = await asyncio.gather(*(parse(client, number) for number in range(100)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement("004-2a", "A caller is answered when its own batch is done, not when all are")
async def test_caller_is_answered_when_others_still_wait(narrow: Client, backend: Simulated) -> None:
    backend.script(fixed_ms=200)
    tasks = [asyncio.create_task(parse(narrow, number)) for number in range(3)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert sum(task.done() for task in tasks) < 3
    assert all(answer.status == 200 for answer in await asyncio.gather(*tasks))


# ---- batches ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("004-3", "A batch has at most 32 images")
async def test_batches_are_bounded_when_many_wait(client: Client, backend: Simulated) -> None:
    await asyncio.gather(*(parse(client, number) for number in range(200)))
    assert max(backend.stats()["sizes"]) <= 32


@pytest.mark.requirement("004-3a", "At most 4 batches are sent at the same time")
async def test_four_batches_are_sent_at_once_when_many_wait(client: Client, backend: Simulated) -> None:
    await asyncio.gather(*(parse(client, number) for number in range(200)))
    assert backend.stats()["most_at_once"] <= 4


@pytest.mark.requirement("004-3b", "The next batch is formed while others are at the backend")
async def test_next_batch_is_sent_when_others_are_not_done(client: Client, backend: Simulated) -> None:
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(client, number)) for number in range(150)]
    await sent(backend, 4)
    backend.script(fixed_ms=1)
    assert all(answer.status == 200 for answer in await asyncio.gather(*tasks))


@pytest.mark.requirement("004-3c", "Requests are aggregated: far fewer batches than callers")
async def test_batches_are_few_when_many_callers_come(client: Client, backend: Simulated) -> None:
    await asyncio.gather(*(parse(client, number) for number in range(200)))
    assert len(backend.stats()["sizes"]) <= 50


@pytest.mark.requirement("004-3d", "The more requests wait, the larger the batches: full ones under load")
async def test_batches_are_full_when_the_queue_is_long(client: Client, backend: Simulated) -> None:
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(client, number)) for number in range(300)]
    await sent(backend, 4)
    held = len(backend.stats()["sizes"])

    async def many_wait() -> bool:
        return bool((await client.get("/queue/status")).json["queue_depth"] >= 100)

    await eventually(many_wait, "a long queue")
    backend.script(fixed_ms=1)
    await asyncio.gather(*tasks)
    assert max(backend.stats()["sizes"][held:]) == 32


@pytest.mark.requirement("004-4", "A single request is sent at once, alone")
async def test_lone_request_is_sent_alone_when_no_other_waits(client: Client, backend: Simulated) -> None:
    answer = await parse(client, 3)
    assert backend.stats()["sizes"] == [1]
    assert answer.json["metadata"]["batch_size"] == 1


# ---- failures of the backend -----------------------------------------------------------------------------------


@pytest.mark.requirement("004-5", "A batch that fails with 5xx goes back to the queue and is sent again")
async def test_image_is_sent_again_when_its_batch_failed(client: Client, backend: Simulated) -> None:
    backend.script(batch_status=500)
    task = asyncio.create_task(parse(client, 5))
    await called(backend, 1)
    backend.script()
    assert is_own(await task, 5)


@pytest.mark.requirement(
    "004-5a", "A backend that answers without any results has failed, and is asked again"
)
async def test_image_is_sent_again_when_the_answer_is_empty(client: Client, backend: Simulated) -> None:
    backend.script(empty=True)
    task = asyncio.create_task(parse(client, 5))
    await called(backend, 1)
    backend.script()
    assert is_own(await task, 5)


@pytest.mark.requirement("004-5b", "A backend that can't be reached is waited for")
async def test_image_is_sent_when_the_backend_comes_back(client: Client, backend_process: Simulated) -> None:
    backend_process.kill()
    task = asyncio.create_task(parse(client, 5))

    async def unreachable() -> bool:
        return (await client.get("/health")).json["modal_reachable"] is False

    await eventually(unreachable, "the backend is known to be away")
    backend_process.come_back()
    assert is_own(await task, 5)


@pytest.mark.requirement(
    "004-6", "A request survives a killed service: its batch is recovered and sent again"
)
async def test_request_is_answered_when_the_service_was_killed(
    start_service: Start, backend: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    settings = {"BATCH_BACKEND_URL": backend.url, **PLAIN}
    first = start_service(folder=folder, **settings).wait_ready()
    key = {"Idempotency-Key": "survives"}
    backend.script(hold=True)
    async with client_of(first) as client:
        task = asyncio.create_task(parse(client, 6, headers=key))
        await sent(backend)
        first.process.kill()
        first.process.wait()
        await asyncio.gather(task, return_exceptions=True)
    backend.script()
    second = start_service(folder=folder, **settings).wait_ready()
    async with client_of(second) as client:
        assert is_own(await parse(client, 6, headers=key), 6)
    assert backend.stats()["computed"][image(6, SIZE).digest] <= 2


# ---- defaults --------------------------------------------------------------------------------------------------


def shown_settings(folder: Any, **environment: str) -> dict[str, str]:
    """Every setting and its value, from `quire config`."""
    shown = subprocess.run(
        [sys.executable, "-m", "quire", "config"],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    ).stdout
    return {line.split()[0]: line.split()[1] for line in shown.splitlines() if len(line.split()) > 1}


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return shown_settings(tmp_path_factory.mktemp("defaults"))


@pytest.mark.requirement("004-7", "The port is 8080, by default")
def test_port_is_8080_by_default(defaults: dict[str, str]) -> None:
    assert defaults["PORT"] == "8080"


@pytest.mark.requirement("004-7a", "A batch has at most 32 images, by default")
def test_batch_has_32_images_by_default(defaults: dict[str, str]) -> None:
    assert defaults["MAX_BATCH_SIZE"] == "32"


@pytest.mark.requirement("004-7b", "At most 4 batches are sent at once, by default")
def test_four_batches_are_sent_at_once_by_default(defaults: dict[str, str]) -> None:
    assert defaults["MAX_CONCURRENT_BATCHES"] == "4"


@pytest.mark.requirement("004-7c", "The queue holds 10,000 requests, by default")
def test_queue_holds_10000_by_default(defaults: dict[str, str]) -> None:
    assert defaults["MAX_QUEUE_SIZE"] == "10000"


@pytest.mark.requirement("004-7d", "A request lives for 6 hours, by default")
def test_request_lives_6_hours_by_default(defaults: dict[str, str]) -> None:
    assert defaults["PARSE_TTL"] == "6h"


@pytest.mark.requirement("004-7e", "Callers are turned away from 2,500 waiting requests on, by default")
def test_callers_are_turned_away_at_2500_by_default(defaults: dict[str, str]) -> None:
    assert defaults["BACKPRESSURE_THRESHOLD"] == "2500"


@pytest.mark.requirement("004-7f", "A client may send 10 requests a minute, by default")
def test_client_may_send_10_a_minute_by_default(defaults: dict[str, str]) -> None:
    assert defaults["RATE_LIMIT_PER_CLIENT"] == "10"


@pytest.mark.requirement("004-7g", "An image may have 50 MB, by default")
def test_image_may_have_50_mb_by_default(defaults: dict[str, str]) -> None:
    assert defaults["MAX_REQUEST_SIZE"] == "50MB"


@pytest.mark.requirement("004-7h", "A caller waits for at most 15 minutes, by default")
def test_caller_waits_15_minutes_by_default(defaults: dict[str, str]) -> None:
    assert defaults["RESPONSE_TIMEOUT"] == "15m"


@pytest.mark.requirement("004-7i", "A call of the backend may take 2 minutes, by default")
def test_call_may_take_2_minutes_by_default(defaults: dict[str, str]) -> None:
    assert defaults["BATCH_BACKEND_TIMEOUT"] == "2m"


@pytest.mark.requirement("004-7j", "An image is sent up to 3 times, by default")
def test_image_is_sent_3_times_by_default(defaults: dict[str, str]) -> None:
    assert defaults["MAX_RETRY_COUNT"] == "3"


@pytest.mark.requirement("004-7k", "A failed batch is sent again after 2 s, then after longer, by default")
def test_retry_comes_after_2_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["RETRY_DELAY"] == "2s"


@pytest.mark.requirement("004-7l", "The breaker opens after 5 failures in a row, by default")
def test_breaker_opens_after_5_failures_by_default(defaults: dict[str, str]) -> None:
    assert defaults["BATCH_FAILURE_THRESHOLD"] == "5"


@pytest.mark.requirement("004-7m", "The breaker stays open for 30 s, by default")
def test_breaker_rests_30_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["BATCH_COOLDOWN"] == "30s"


@pytest.mark.requirement("004-7n", "The backend's health is checked every 10 s, by default")
def test_health_is_checked_every_10_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["BATCH_HEALTH_INTERVAL"] == "10s"


@pytest.mark.requirement("004-7o", "A shutdown has 30 s, by default")
def test_shutdown_has_30_s_by_default(defaults: dict[str, str]) -> None:
    assert defaults["SHUTDOWN_TIMEOUT"] == "30s"


# ---- order -----------------------------------------------------------------------------------------------------


async def order_of(narrow: Client, backend: Simulated, *priorities: str) -> list[int]:
    """Numbers of requests in the order in which they were computed; the first is at the backend when others come."""
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(narrow, 80))]
    await sent(backend)
    for place, priority in enumerate(priorities, start=1):
        fields = {"priority": priority} if priority else {}
        tasks.append(asyncio.create_task(parse(narrow, 80 + place, **fields)))
        await accepted(narrow, backend, place + 1)
    backend.script(fixed_ms=1)
    answers = await asyncio.gather(*tasks)
    assert [answer.status for answer in answers] == [200] * len(tasks)
    numbers = {image(80 + place, SIZE).digest: place for place in range(len(tasks))}
    return [numbers[digest] for digest in backend.stats()["computed"]]


@pytest.mark.requirement("004-8", "An urgent request is sent before the others that wait")
async def test_urgent_request_is_sent_first_when_others_wait(narrow: Client, backend: Simulated) -> None:
    order = await order_of(narrow, backend, "", "", "high")
    assert order.index(3) < order.index(2)  # the first of them may be on its way to the backend already


@pytest.mark.requirement("004-8a", "Requests of the same priority are sent in the order in which they came")
async def test_requests_are_sent_in_their_order_when_none_is_urgent(
    narrow: Client, backend: Simulated
) -> None:
    assert await order_of(narrow, backend, "", "", "") == [0, 1, 2, 3]


# ---- limits ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("004-9", "An image above the size limit is refused with 413")
async def test_image_is_refused_when_it_is_too_large(narrow: Client, backend: Simulated) -> None:
    large = base64.b64encode(image(1, 1_200_000).data).decode()
    answer = await narrow.post("/parse", json={"image_data": large})
    assert (answer.status, backend.stats()["calls"]) == (413, 0)
    assert "1 MB" in answer.json["error"] or "1MB" in answer.json["error"]


# ---- the breaker -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(start_service: Start, backend_process: Simulated) -> dict[str, Any]:
    """What a caller gets, how often the backend was called, and what is in /health while the breaker is open."""
    service = start_service(BATCH_BACKEND_URL=backend_process.url, BATCH_COOLDOWN="1h", **PLAIN).wait_ready()
    backend_process.fresh()
    backend_process.script(batch_status=500)

    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            task = asyncio.create_task(parse(client, 1))

            async def is_open() -> bool:
                return bool((await client.get("/queue/status")).json["breaker_open"])

            await eventually(is_open, "the breaker opens")

            async def degraded() -> dict[str, Any] | None:
                found: dict[str, Any] = (await client.get("/health")).json
                return found if any("breaker" in issue for issue in found["issues"]) else None

            health = await eventually(degraded, "the issue")
            answers = await asyncio.gather(*(parse(client, number) for number in range(2, 22)))
            task.cancel()
            return {"answers": answers, "health": health, "calls": backend_process.stats()["calls"]}

    found = asyncio.run(go())
    backend_process.fresh()
    return found


@pytest.mark.requirement(
    "004-10", "After five failed calls in a row the breaker is open: callers get 503 at once"
)
def test_caller_gets_503_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert {answer.status for answer in opened["answers"]} == {503}


@pytest.mark.requirement(
    "004-10a", "While the breaker is open the backend is not called, except for a probe image"
)
def test_backend_is_left_alone_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert opened["calls"] <= 6


@pytest.mark.requirement("004-10b", "The answer has type circuit_open")
def test_type_is_circuit_open_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert opened["answers"][0].json["type"] == "circuit_open"


@pytest.mark.requirement("004-10c", "The answer has a message")
def test_message_is_given_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert "unavailable" in opened["answers"][0].json["message"].lower()


@pytest.mark.requirement("004-10d", "The answer says that it is retryable")
def test_answer_is_retryable_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert opened["answers"][0].json["retryable"] is True


@pytest.mark.requirement("004-10e", "The answer has retry_after_seconds, a whole number")
def test_retry_time_is_given_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert isinstance(opened["answers"][0].json["retry_after_seconds"], int)


@pytest.mark.requirement(
    "004-11", "The breaker closes when the backend works again, and waiting callers are served"
)
async def test_waiting_callers_are_served_when_the_backend_works_again(
    client: Client, backend: Simulated
) -> None:
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(client, number)) for number in range(110, 115)]

    async def all_wait() -> bool:
        sent = sum(
            backend.stats()["sizes"]
        )  # first: an image that is sent meanwhile must not be counted twice
        return bool(sent + (await client.get("/queue/status")).json["queue_depth"] == 5)

    await eventually(all_wait, "five callers who wait: one who comes when the breaker is open is refused")
    backend.script(batch_status=500)
    await called(backend, 6)
    backend.script()
    assert all(is_own(answer, 110 + place) for place, answer in enumerate(await asyncio.gather(*tasks)))


@pytest.mark.requirement("004-11a", "While every batch fails no caller is told that its image is at fault")
async def test_no_image_is_blamed_when_every_batch_fails(client: Client, backend: Simulated) -> None:
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(client, number)) for number in range(40)]
    await sent(backend)
    backend.script(batch_status=500)
    await called(backend, 8)
    backend.script()
    assert {answer.status for answer in await asyncio.gather(*tasks)} <= {200, 503}


# ---- correlation -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("004-12", "Results are matched by request, whatever their order is")
async def test_each_caller_gets_its_own_result_when_results_are_shuffled(
    client: Client, backend: Simulated
) -> None:
    backend.script(shuffle=True)
    answers = await asyncio.gather(*(parse(client, number) for number in range(60)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement("004-12a", "Results are matched by request, also where file names are equal")
async def test_each_caller_gets_its_own_result_when_names_are_equal(
    client: Client, backend: Simulated
) -> None:
    backend.script(shuffle=True)
    answers = await asyncio.gather(*(parse(client, number, filename="page.jpg") for number in range(60)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement(
    "004-12b", "The caller's own file name is in its answer, not the one that the backend got"
)
async def test_file_name_is_the_callers_when_it_is_answered(client: Client, backend: Simulated) -> None:
    assert (await parse(client, 12, filename="page.jpg")).json["filename"] == "page.jpg"


@pytest.mark.requirement("004-13", "An image whose result is missing in the answer is sent again")
async def test_image_is_sent_again_when_its_result_is_missing(client: Client, backend: Simulated) -> None:
    backend.script(gaps=0.3)
    answers = await asyncio.gather(*(parse(client, number) for number in range(40)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement("004-14", "One image that makes its batch fail does not fail the others")
async def test_only_its_own_caller_gets_an_error_when_one_image_fails_every_batch(
    client: Client, backend: Simulated
) -> None:
    backend.script(fixed_ms=1, each_ms=1, poison=image(7, SIZE).digest)
    answers = await asyncio.gather(*(parse(client, number) for number in range(20)))
    assert [number for number, answer in enumerate(answers) if not is_own(answer, number)] == [7]
    assert answers[7].status == 422


# ---- callers that leave or wait too long -----------------------------------------------------------------------


@pytest.mark.requirement("004-15", "The image of a caller that has left is not sent")
async def test_image_is_not_sent_when_its_caller_has_left(narrow: Client, backend: Simulated) -> None:
    backend.script(hold=True)
    staying = [asyncio.create_task(parse(narrow, 1))]
    await sent(backend)
    staying.append(asyncio.create_task(parse(narrow, 2)))
    await accepted(narrow, backend, 2)
    leaving = asyncio.create_task(parse(narrow, 3))
    await accepted(narrow, backend, 3)
    leaving.cancel()
    await accepted(narrow, backend, 2)
    backend.script(fixed_ms=1)
    assert all(is_own(answer, place) for place, answer in enumerate(await asyncio.gather(*staying), start=1))
    assert image(3, SIZE).digest not in backend.stats()["computed"]


@pytest.mark.requirement("004-16", "A caller is answered with 408 when the response timeout is over")
async def test_caller_gets_408_when_it_has_waited_too_long(limited: Client, backend: Simulated) -> None:
    backend.script(hold=True)
    answer = await parse(limited, 16, headers={"X-Forwarded-For": "10.0.0.16"})
    backend.script()
    assert (answer.status, answer.json["type"], answer.json["retry_suggested"]) == (408, "timeout", True)


# ---- rate limit ------------------------------------------------------------------------------------------------


async def burst(client: Client, address: str, count: int) -> list[Answer]:
    """Requests of one client, all at once: none waits for a token."""
    headers = {"X-Forwarded-For": address}
    answers = await asyncio.gather(*(client.post("/parse", json={}, headers=headers) for _ in range(count)))
    return list(answers)


@pytest.mark.requirement("004-17", "More than 10 requests a minute of one client are answered with 429")
async def test_client_gets_429_when_it_sends_too_many(limited: Client) -> None:
    answers = await burst(limited, "10.0.0.1", 30)
    # One token comes back every 6 s, so that on a slow machine some more may pass.
    assert 10 <= sum(answer.status != 429 for answer in answers) <= 15


@pytest.mark.requirement("004-17a", "The 429 has an error and retry_after_seconds, at most a minute")
async def test_429_says_when_to_come_again(limited: Client) -> None:
    refused = next(answer for answer in await burst(limited, "10.0.0.2", 30) if answer.status == 429).json
    assert refused["error"]
    assert isinstance(refused["retry_after_seconds"], int)
    assert 1 <= refused["retry_after_seconds"] <= 60


@pytest.mark.requirement("004-17b", "The limit is that of one client address; another one is not affected")
async def test_other_client_is_served_when_one_sends_too_many(limited: Client) -> None:
    await burst(limited, "10.0.0.3", 30)
    (answer,) = await burst(limited, "10.0.0.4", 1)
    assert answer.status == 400


@pytest.mark.requirement(
    "004-17c", "An address that an untrusted client claims does not give it another limit"
)
async def test_claimed_address_does_not_count_when_no_proxy_is_trusted(limited: Client) -> None:
    # Only the last address is the proxy's word; what stands before it was sent by the client.
    claims = [f"192.0.2.{number}, 10.0.0.5" for number in range(30)]
    answers = await asyncio.gather(*(burst(limited, claim, 1) for claim in claims))
    assert any(answer.status == 429 for (answer,) in answers)


@pytest.mark.requirement("004-17d", "Only POST /parse is limited: status and health can be asked at any time")
async def test_status_is_answered_when_a_client_sends_too_many(limited: Client) -> None:
    await burst(limited, "10.0.0.6", 30)
    headers = {"X-Forwarded-For": "10.0.0.6"}
    assert (await limited.get("/queue/status", headers=headers)).status == 200
    assert (await limited.get("/health", headers=headers)).status == 200


# ---- validation ------------------------------------------------------------------------------------------------


async def refused(client: Client, backend: Simulated, body: bytes) -> str:
    """The error of a body that is refused with 400 and never sent."""
    answer = await client.post("/parse", data=body, headers={"Content-Type": "application/json"})
    assert (answer.status, backend.stats()["calls"]) == (400, 0), answer.text
    return str(answer.json["error"])


@pytest.mark.requirement("004-18", "A body that is not JSON is refused with 400")
async def test_request_is_refused_when_it_is_not_json(client: Client, backend: Simulated) -> None:
    assert "JSON" in await refused(client, backend, b"{not json")


@pytest.mark.requirement("004-18a", "A request without image_data is refused with 400")
async def test_request_is_refused_when_it_has_no_image(client: Client, backend: Simulated) -> None:
    assert "image_data" in await refused(client, backend, b"{}")


@pytest.mark.requirement("004-18b", "An empty image_data is refused with 400")
async def test_request_is_refused_when_its_image_is_empty(client: Client, backend: Simulated) -> None:
    assert "image_data" in await refused(client, backend, b'{"image_data": ""}')


@pytest.mark.requirement("004-18c", "image_data that is not base64 is refused with 400")
async def test_request_is_refused_when_its_image_is_not_base64(client: Client, backend: Simulated) -> None:
    assert "base64" in await refused(client, backend, b'{"image_data": "%%%"}')


@pytest.mark.requirement("004-18d", "A format other than that of an image is refused with 400")
async def test_request_is_refused_when_it_is_no_image(client: Client, backend: Simulated) -> None:
    text = base64.b64encode(b"plain text, no image").decode()
    assert await refused(client, backend, json.dumps({"image_data": text}).encode())


@pytest.mark.requirement("004-18e", "A refusal does not repeat what was sent")
async def test_refusal_has_no_data_of_the_caller(client: Client, backend: Simulated) -> None:
    text = base64.b64encode(b"secret of the caller, no image").decode()
    error = await refused(client, backend, json.dumps({"image_data": text}).encode())
    assert text not in error
    assert "secret" not in error


@pytest.mark.requirement("004-19", "JPEG images are accepted")
async def test_image_is_accepted_when_it_is_a_jpeg(client: Client, backend: Simulated) -> None:
    assert is_own(await parse(client, 19), 19)


@pytest.mark.requirement("004-19a", "PNG images are accepted")
async def test_image_is_accepted_when_it_is_a_png(client: Client, backend: Simulated) -> None:
    png = await client.post("/parse", json={"image_data": base64.b64encode(PNG).decode()})
    assert png.status == 200


@pytest.mark.requirement(
    "004-19b", "Without a file name the service makes one: upload_, eight characters, .jpg"
)
async def test_name_is_made_when_none_is_given(client: Client, backend: Simulated) -> None:
    name = (await parse(client, 19)).json["filename"]
    assert re.fullmatch(r"upload_[0-9a-f]{8}\.jpg", name), name


# ---- backpressure ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(narrow_service: Server, backend_process: Simulated) -> dict[str, Any]:
    """The answer to a caller where three wait and no more may, with status and health; then the others' answers."""
    backend_process.fresh()
    backend_process.script(hold=True)

    async def go() -> dict[str, Any]:
        async with client_of(narrow_service) as client:
            tasks: list[asyncio.Task[Answer]] = []

            async def full() -> dict[str, Any] | None:
                found: dict[str, Any] = (await client.get("/queue/status")).json
                if found["queue_depth"] < 3:  # one may have been sent ahead
                    tasks.append(asyncio.create_task(parse(client, len(tasks))))
                return found if found["queue_depth"] == 3 else None

            await eventually(full, "three that wait")

            async def nearly_full() -> dict[str, Any] | None:
                await full()
                found: dict[str, Any] = (await client.get("/health")).json
                return found if any("nearly full" in issue for issue in found["issues"]) else None

            async def refusals() -> list[Answer]:
                return [task.result() for task in tasks if task.done()]

            health = await eventually(nearly_full, "the issue")
            tasks += [asyncio.create_task(parse(client, 1000 + more)) for more in range(4)]
            refused = (await eventually(refusals, "a refusal"))[0]
            status = await eventually(full, "three that wait")
            backend_process.script(fixed_ms=1)
            answers = await asyncio.gather(*tasks)
            return {"refused": refused, "status": status, "health": health, "answers": answers}

    return asyncio.run(go())


@pytest.mark.requirement("004-20", "At the backpressure threshold callers get 503")
def test_caller_gets_503_when_too_many_wait(crowded: dict[str, Any]) -> None:
    assert crowded["refused"].status == 503


@pytest.mark.requirement("004-20a", "The 503 has an error")
def test_503_has_an_error_when_too_many_wait(crowded: dict[str, Any]) -> None:
    assert "at capacity" in crowded["refused"].json["error"]


@pytest.mark.requirement("004-20b", "The 503 has queue_depth")
def test_503_has_the_depth_when_too_many_wait(crowded: dict[str, Any]) -> None:
    assert crowded["refused"].json["queue_depth"] >= 3


@pytest.mark.requirement("004-20c", "The 503 has estimated_wait_minutes")
def test_503_has_the_wait_when_too_many_wait(crowded: dict[str, Any]) -> None:
    assert crowded["refused"].json["estimated_wait_minutes"] >= 0


@pytest.mark.requirement("004-20d", "The 503 has retry_after_seconds, a whole number")
def test_503_says_when_to_come_again_when_too_many_wait(crowded: dict[str, Any]) -> None:
    assert isinstance(crowded["refused"].json["retry_after_seconds"], int)


@pytest.mark.requirement(
    "004-20e", "Callers that were accepted are answered although others were turned away"
)
def test_accepted_callers_are_answered_when_too_many_come(crowded: dict[str, Any]) -> None:
    statuses = [answer.status for answer in crowded["answers"]]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 4


# ---- the answer ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def success(service: Server, backend_process: Simulated) -> dict[str, Any]:
    backend_process.fresh()

    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            found: dict[str, Any] = (await parse(client, 21, filename="document.jpg")).json
            return found

    return asyncio.run(go())


@pytest.mark.requirement("004-21", "A success has request_id")
def test_success_has_request_id(success: dict[str, Any]) -> None:
    assert success["request_id"]


@pytest.mark.requirement("004-21a", "A success has filename")
def test_success_has_filename(success: dict[str, Any]) -> None:
    assert success["filename"] == "document.jpg"


@pytest.mark.requirement("004-21b", "A success has processing_time_seconds")
def test_success_has_processing_time(success: dict[str, Any]) -> None:
    assert success["processing_time_seconds"] > 0


@pytest.mark.requirement("004-21c", "A success has timestamp, in seconds since 1970")
def test_success_has_timestamp(success: dict[str, Any]) -> None:
    assert success["timestamp"] > 1_700_000_000


@pytest.mark.requirement("004-21d", "A success has results, each with label, bbox, text and reading_order")
def test_success_has_elements(success: dict[str, Any]) -> None:
    (element,) = success["results"]
    assert set(element) == {"label", "bbox", "text", "reading_order"}
    assert (element["label"], element["bbox"], element["reading_order"]) == ("para", [1, 2, 3, 4], 0)


@pytest.mark.requirement("004-21e", "The metadata of a success have total_elements")
def test_success_counts_its_elements(success: dict[str, Any]) -> None:
    assert success["metadata"]["total_elements"] == 1


@pytest.mark.requirement("004-21f", "The metadata of a success have batch_id")
def test_success_names_its_batch(success: dict[str, Any]) -> None:
    assert success["metadata"]["batch_id"]


@pytest.mark.requirement("004-21g", "The metadata of a success have position_in_batch and batch_size")
async def test_success_has_its_place_in_the_batch(client: Client, backend: Simulated) -> None:
    answers = await asyncio.gather(*(parse(client, number) for number in range(60)))
    places: dict[str, list[int]] = {}
    for answer in answers:
        found = answer.json["metadata"]
        places.setdefault(found["batch_id"], [0] * found["batch_size"])[found["position_in_batch"]] += 1
    assert max(map(len, places.values())) > 1
    assert all(counts == [1] * len(counts) for counts in places.values())


@pytest.fixture(scope="module")
def failure(service: Server) -> dict[str, Any]:
    async def go() -> dict[str, Any]:
        async with client_of(service) as client:
            found: dict[str, Any] = (await client.post("/parse", json={})).json
            return found

    return asyncio.run(go())


@pytest.mark.requirement("004-22", "An error has request_id")
def test_error_has_request_id(failure: dict[str, Any]) -> None:
    assert failure["request_id"]


@pytest.mark.requirement("004-22a", "An error has its text as error")
def test_error_has_its_text(failure: dict[str, Any]) -> None:
    assert "image_data" in failure["error"]


@pytest.mark.requirement("004-22b", "An error has status failed")
def test_error_has_status_failed(failure: dict[str, Any]) -> None:
    assert failure["status"] == "failed"


@pytest.mark.requirement("004-22c", "An error has retry_suggested")
def test_error_says_whether_to_retry(failure: dict[str, Any], crowded: dict[str, Any]) -> None:
    assert (failure["retry_suggested"], crowded["refused"].json["retry_suggested"]) == (False, True)


@pytest.mark.requirement("004-22d", "An error that may be retried has estimated_retry_time_seconds")
def test_error_says_when_to_retry(crowded: dict[str, Any]) -> None:
    assert crowded["refused"].json["estimated_retry_time_seconds"] >= 1


# ---- what the backend gets -------------------------------------------------------------------------------------


class RecordingBackend(http.server.ThreadingHTTPServer):
    """A backend at an address of its own; it keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _RecordingHandler)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _RecordingHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"status": "healthy"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, RecordingBackend)
        self.server.calls.append((self.path, self.headers["Content-Type"], body))
        results = [
            {"filename": one["filename"], "elements": [], "element_count": 0} for one in body["images"]
        ]
        self._answer({"batch_id": "b", "results": results, "images_processed": len(results)})

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def recorded(start_service: Start) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, content type and body of one call to a backend that is given by its complete address."""
    backend = RecordingBackend()
    url = f"http://127.0.0.1:{backend.server_address[1]}/dolphin/parse-all"
    service = start_service(MODAL_API_ENDPOINT=url, BATCH_BACKEND_PATH="-", **PLAIN).wait_ready()

    async def go() -> None:
        async with client_of(service) as client:
            assert (await parse(client, 28, filename="my page.jpg")).status == 200

    asyncio.run(go())
    yield backend.calls[0]
    backend.shutdown()
    backend.server_close()


@pytest.mark.requirement("004-28", "MODAL_API_ENDPOINT may be the complete address of the batch endpoint")
def test_endpoint_is_used_as_it_is_when_it_is_complete(recorded: tuple[str, str, dict[str, Any]]) -> None:
    assert recorded[0] == "/dolphin/parse-all"


@pytest.mark.requirement("004-28a", "The backend gets JSON with images, each with image_data and filename")
def test_backend_gets_the_images_of_the_source(recorded: tuple[str, str, dict[str, Any]]) -> None:
    _, kind, body = recorded
    (one,) = body["images"]
    assert (kind, set(body), set(one)) == ("application/json", {"images"}, {"image_data", "filename"})
    assert base64.b64decode(one["image_data"]) == image(28, SIZE).data


@pytest.mark.requirement(
    "004-28b", "The file name that the backend gets has the request's id in it: req_…_idx_0_…"
)
def test_name_has_the_id_of_the_request(recorded: tuple[str, str, dict[str, Any]]) -> None:
    name = recorded[2]["images"][0]["filename"]
    assert re.fullmatch(r"req_[0-9a-zA-Z]{12,}_idx_0_.+", name), name


# ---- metrics, health and status --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metrics(service: Server, success: dict[str, Any]) -> str:
    async def go() -> str:
        async with client_of(service) as client:
            return (await client.get("/metrics")).text

    return asyncio.run(go())


@pytest.mark.requirement("004-23", "GET /metrics has queue_depth_current: the requests in the queue")
def test_metrics_have_queue_depth_current(metrics: str) -> None:
    assert "queue_depth_current" in metrics


@pytest.mark.requirement("004-23a", "GET /metrics has batch_formation_rate: the batches formed in a minute")
def test_metrics_have_batch_formation_rate(metrics: str) -> None:
    assert "batch_formation_rate" in metrics


@pytest.mark.requirement(
    "004-23b", "GET /metrics has modal_request_duration: the time of calls to the backend"
)
def test_metrics_have_modal_request_duration(metrics: str) -> None:
    assert "modal_request_duration" in metrics


@pytest.mark.requirement("004-23c", "GET /metrics has modal_success_rate: the share of calls that succeeded")
def test_metrics_have_modal_success_rate(metrics: str) -> None:
    assert "modal_success_rate" in metrics


@pytest.mark.requirement(
    "004-23d", "GET /metrics has request_latency: the time of requests from end to end, as a histogram"
)
def test_metrics_have_request_latency(metrics: str) -> None:
    assert re.search(r"request_latency\w*_bucket\{", metrics)


@pytest.mark.requirement("004-23e", "GET /metrics has active_connections: the connections that are open")
def test_metrics_have_active_connections(metrics: str) -> None:
    assert "active_connections" in metrics


@pytest.fixture(scope="module")
def health(service: Server, success: dict[str, Any]) -> dict[str, Any]:
    """GET /health of a service that works and has sent a batch."""

    async def go() -> dict[str, Any]:
        async with client_of(service) as client:

            async def healthy() -> dict[str, Any] | None:
                found: dict[str, Any] = (await client.get("/health")).json
                return found if found["status"] == "healthy" and found["last_batch_sent"] else None

            return await eventually(healthy, "a healthy service")

    return asyncio.run(go())


@pytest.mark.requirement("004-24", "GET /health has status, healthy where nothing is wrong, and no issues")
def test_health_is_healthy_when_nothing_is_wrong(health: dict[str, Any]) -> None:
    assert (health["status"], health["issues"]) == ("healthy", [])


@pytest.mark.requirement("004-24a", "GET /health has queue_depth")
def test_health_has_the_queue_depth(health: dict[str, Any]) -> None:
    assert health["queue_depth"] == 0


@pytest.mark.requirement("004-24b", "GET /health has modal_reachable")
def test_health_says_that_the_backend_is_reachable(health: dict[str, Any]) -> None:
    assert health["modal_reachable"] is True


@pytest.mark.requirement("004-24c", "GET /health has redis_connected")
def test_health_says_that_redis_is_connected(health: dict[str, Any]) -> None:
    assert health["redis_connected"] is True


@pytest.mark.requirement("004-24d", "GET /health has uptime_seconds")
def test_health_has_the_uptime(health: dict[str, Any]) -> None:
    assert health["uptime_seconds"] > 0


@pytest.mark.requirement("004-24e", "GET /health has last_batch_sent and timestamp, ISO 8601 in UTC")
def test_health_has_the_time_of_the_last_batch(health: dict[str, Any]) -> None:
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
    assert re.fullmatch(pattern, health["last_batch_sent"])
    assert re.fullmatch(pattern, health["timestamp"])


@pytest.mark.requirement("004-25", "GET /health is degraded, with the reason, while the breaker is open")
def test_health_is_degraded_when_the_breaker_is_open(opened: dict[str, Any]) -> None:
    assert opened["health"]["status"] == "degraded"


@pytest.mark.requirement("004-25a", "GET /health is degraded while the backend can't be reached")
async def test_health_is_degraded_when_the_backend_is_away(
    client: Client, backend_process: Simulated
) -> None:
    backend_process.kill()

    async def degraded() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get("/health")).json
        return found if found["modal_reachable"] is False else None

    found = await eventually(degraded, "degraded")
    backend_process.come_back()
    assert found["status"] == "degraded"
    assert any("backend" in issue for issue in found["issues"])


@pytest.mark.requirement("004-25b", "GET /health is degraded while the queue is over 80 % full")
def test_health_is_degraded_when_the_queue_is_nearly_full(crowded: dict[str, Any]) -> None:
    assert crowded["health"]["status"] == "degraded"
    assert any("3 of 3" in issue for issue in crowded["health"]["issues"])


@pytest.mark.requirement("004-26", "GET /queue/status has queue_depth")
def test_status_has_the_depth(crowded: dict[str, Any]) -> None:
    assert crowded["status"]["queue_depth"] == 3


@pytest.mark.requirement("004-26a", "GET /queue/status has max_queue_size")
def test_status_has_the_maximum(crowded: dict[str, Any]) -> None:
    assert crowded["status"]["max_queue_size"] == 3


@pytest.mark.requirement("004-26b", "GET /queue/status has utilization_percent")
def test_status_has_the_utilization(crowded: dict[str, Any]) -> None:
    assert crowded["status"]["utilization_percent"] == 100


@pytest.mark.requirement("004-26c", "GET /queue/status has oldest_request_age_seconds")
def test_status_has_the_oldest_age(crowded: dict[str, Any]) -> None:
    assert crowded["status"]["oldest_request_age_seconds"] > 0


@pytest.mark.requirement("004-26d", "GET /queue/status has estimated_wait_time_minutes")
def test_status_has_the_estimated_wait(crowded: dict[str, Any]) -> None:
    assert crowded["status"]["estimated_wait_time_minutes"] > 0


# ---- shutdown --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(
    start_service: Start, backend_process: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A service that gets SIGTERM while one image is at the backend and another waits; then it is started again."""
    folder = tmp_path_factory.mktemp("stopped")
    settings = {
        "MAX_BATCH_SIZE": "1",
        "MAX_CONCURRENT_BATCHES": "1",
        "BATCH_BACKEND_URL": backend_process.url,
    }
    service = start_service(folder=folder, **settings, **PLAIN).wait_ready()
    key = {"Idempotency-Key": "waits"}
    backend_process.fresh()
    backend_process.script(hold=True)

    async def stop() -> dict[str, Any]:
        async with client_of(service) as client:
            tasks = [asyncio.create_task(parse(client, 27))]
            await sent(backend_process)
            tasks.append(asyncio.create_task(parse(client, 29)))  # may be sent ahead
            await accepted(client, backend_process, 2)
            tasks.append(asyncio.create_task(parse(client, 28, headers=key)))
            await accepted(client, backend_process, 3)
            service.process.terminate()
            waited = await tasks[2]
            backend_process.script(fixed_ms=1)
            first, *_ = await asyncio.gather(*tasks)
        return {"sent": first, "waiting": waited}

    async def come_again(again: Server) -> Answer:
        async with client_of(again) as client:
            return await parse(client, 28, headers=key)

    found = asyncio.run(stop())
    found["code"] = service.stop()
    found["again"] = asyncio.run(come_again(start_service(folder=folder, **settings, **PLAIN).wait_ready()))
    found["computed"] = backend_process.stats()["computed"]
    return found


@pytest.mark.requirement("004-27", "On SIGTERM a caller whose batch was sent gets its result")
def test_caller_gets_its_result_when_the_service_is_stopped(stopped: dict[str, Any]) -> None:
    assert is_own(stopped["sent"], 27)


@pytest.mark.requirement(
    "004-27a", "On SIGTERM a caller whose image still waits is told that the service stops"
)
def test_waiting_caller_is_told_when_the_service_is_stopped(stopped: dict[str, Any]) -> None:
    assert (stopped["waiting"].status, stopped["waiting"].json["retry_suggested"]) == (503, True)


@pytest.mark.requirement("004-27b", "On SIGTERM the service ends cleanly")
def test_service_ends_cleanly_when_it_is_stopped(stopped: dict[str, Any]) -> None:
    assert stopped["code"] == 0


@pytest.mark.requirement(
    "004-27c", "A request that waited at the shutdown is kept, and computed once after the start"
)
def test_waiting_request_is_kept_when_the_service_is_stopped(stopped: dict[str, Any]) -> None:
    assert is_own(stopped["again"], 28)
    assert stopped["computed"][image(28, SIZE).digest] == 1


# ---- configuration ---------------------------------------------------------------------------------------------

FILE = """
server:
  port: ${PORT:-9191}
  max_connections: 3000
  read_timeout: 300s
  write_timeout: 300s
  max_request_size: 1048576
  rate_limit_per_client: 7
  graceful_shutdown_timeout: 20s
  backpressure_threshold: 111
queue:
  redis_url: ${REDIS_URL:-redis://127.0.0.1:6399}
  max_size: 500
  ttl: 1h
  queue_key: "dolphin:requests"
  processing_key: "dolphin:processing"
  max_retry_count: 2
  recovery_interval: 5m
batch_formation:
  max_batch_size: 16
  min_batch_size: 1
  check_interval: 50ms
modal:
  base_url: ${MODAL_API_ENDPOINT:-http://127.0.0.1:9}
  timeout: 90s
  max_retries: 3
  retry_delay: 4s
  max_concurrent_batches: 3
  circuit_breaker:
    failure_threshold: 8
    cooldown_period: 40s
    health_check_interval: 20s
  connection_pool:
    max_idle_connections: 10
    idle_connection_timeout: 90s
response:
  timeout: 5m
  cleanup_interval: 5m
monitoring:
  enable_metrics: true
  prometheus_port: 9090
  log_level: "warn"
"""


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of a service whose file is the source's, with other values."""
    folder = tmp_path_factory.mktemp("configured")
    (folder / "production.yaml").write_text(FILE)
    return shown_settings(folder, QUIRE_CONFIG=str(folder / "production.yaml"), PORT="9292")


@pytest.mark.requirement("004-29", "The YAML file of the source is accepted as it is")
def test_service_is_configured_when_it_gets_the_file_of_the_source(configured: dict[str, str]) -> None:
    assert configured["QUIRE_CONFIG"].endswith("production.yaml")


@pytest.mark.requirement("004-29a", "${VARIABLE:-default} in the file is the variable where it is set")
def test_variable_counts_when_it_is_set(configured: dict[str, str]) -> None:
    assert configured["PORT"] == "9292"


@pytest.mark.requirement(
    "004-29b", "${VARIABLE:-default} in the file is the default where the variable is not set"
)
def test_default_counts_when_the_variable_is_not_set(configured: dict[str, str]) -> None:
    assert configured["BATCH_BACKEND_URL"] == "http://127.0.0.1:9"


@pytest.mark.requirement("004-29c", "The section server sets size, rate limit, shutdown and backpressure")
def test_server_section_counts(configured: dict[str, str]) -> None:
    names = ("MAX_REQUEST_SIZE", "RATE_LIMIT_PER_CLIENT", "SHUTDOWN_TIMEOUT", "BACKPRESSURE_THRESHOLD")
    assert [configured[name] for name in names] == ["1MB", "7", "20s", "111"]


@pytest.mark.requirement("004-29d", "The section queue sets Redis, size, lifetime and retries")
def test_queue_section_counts(configured: dict[str, str]) -> None:
    names = ("MAX_QUEUE_SIZE", "PARSE_TTL", "MAX_RETRY_COUNT")
    assert [configured[name] for name in names] == ["500", "1h", "2"]
    assert "6399" in configured["REDIS_URL"] or configured["REDIS_URL"] == "set"


@pytest.mark.requirement("004-29e", "The section batch_formation sets the size of batches")
def test_batch_section_counts(configured: dict[str, str]) -> None:
    assert configured["MAX_BATCH_SIZE"] == "16"


@pytest.mark.requirement("004-29f", "The section modal sets timeout, delay, concurrency and the breaker")
def test_modal_section_counts(configured: dict[str, str]) -> None:
    names = ("BATCH_BACKEND_TIMEOUT", "RETRY_DELAY", "MAX_CONCURRENT_BATCHES",
             "BATCH_FAILURE_THRESHOLD", "BATCH_COOLDOWN", "BATCH_HEALTH_INTERVAL")  # fmt: skip
    assert [configured[name] for name in names] == ["1m30s", "4s", "3", "8", "40s", "20s"]


@pytest.mark.requirement("004-29g", "The section response sets the timeout of callers")
def test_response_section_counts(configured: dict[str, str]) -> None:
    assert configured["RESPONSE_TIMEOUT"] == "5m"


@pytest.mark.requirement("004-29h", "The section monitoring sets the log level")
def test_monitoring_section_counts(configured: dict[str, str]) -> None:
    assert configured["LOG_LEVEL"] == "warn"


@pytest.mark.requirement(
    "004-30", "An entry of that file without a counterpart is named in a warning, with the reason"
)
def test_entry_is_explained_when_it_has_no_counterpart(
    start_service: Start, backend_process: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("explained")
    (folder / "source.yaml").write_text("queue:\n  recovery_interval: 5m\n")
    service = start_service(folder=folder, QUIRE_CONFIG=str(folder / "source.yaml"), **PLAIN).wait_ready()
    assert "queue.recovery_interval" in service.log


@pytest.mark.requirement(
    "004-31", "The environment of the source is understood: MODAL_API_ENDPOINT, PORT, LOG_LEVEL"
)
def test_environment_of_the_source_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = shown_settings(
        tmp_path_factory.mktemp("environment"),
        MODAL_API_ENDPOINT="http://127.0.0.1:9/x", PORT="9393", LOG_LEVEL="info",
    )  # fmt: skip
    names = ("BATCH_BACKEND_URL", "PORT", "LOG_LEVEL")
    assert [found[name] for name in names] == ["http://127.0.0.1:9/x", "9393", "info"]
