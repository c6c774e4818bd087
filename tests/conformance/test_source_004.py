"""Source 004: images of waiting callers, aggregated into batches for a GPU backend."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.batching.callers import image
from tests.conformance.running_service import HttpAnswer, HttpClient, RunningService, eventually
from tests.support.parse_fixtures import Simulated

SIZE = 1_500
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
PLAIN = {"RATE_LIMIT_PER_CLIENT": "0", "MIN_FREE_DISK": "0", "RETRY_DELAY": "100ms"}

Start = Callable[..., RunningService]


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
def service(start_service: Start, backend_process: Simulated) -> RunningService:
    return start_service(BATCH_BACKEND_URL=backend_process.url, BATCH_COOLDOWN="300ms", **PLAIN).wait_ready()


@pytest.fixture(scope="module")
def narrow_service(start_service: Start, backend_process: Simulated) -> RunningService:
    """One image at a time, few may wait, small images, the source's rate limit is off."""
    return start_service(
        BATCH_BACKEND_URL=backend_process.url,
        MAX_BATCH_SIZE="1",
        MAX_CONCURRENT_BATCHES="1",
        BACKPRESSURE_THRESHOLD="3",
        MAX_REQUEST_SIZE="1MB",
        BATCH_COOLDOWN="1h",
        **PLAIN,
    ).wait_ready()


@pytest.fixture
async def narrow(narrow_service: RunningService) -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession() as session:
        yield HttpClient(narrow_service.url, session)


@pytest.fixture(scope="module")
def impatient_service(start_service: Start, backend_process: Simulated) -> RunningService:
    """The source's rate limit, and a short response timeout."""
    return start_service(
        BATCH_BACKEND_URL=backend_process.url, RESPONSE_TIMEOUT="300ms", MIN_FREE_DISK="0"
    ).wait_ready()


@pytest.fixture
async def impatient(impatient_service: RunningService) -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession() as session:
        yield HttpClient(impatient_service.url, session)


def body_of(number: int, **fields: Any) -> dict[str, Any]:
    return {"image_data": base64.b64encode(image(number, SIZE).data).decode(), **fields}


async def parse(client: HttpClient, number: int, **fields: Any) -> HttpAnswer:
    return await client.post("/parse", json=body_of(number, **fields))


def is_own(answer: HttpAnswer, number: int) -> bool:
    return answer.status == 200 and answer.json["results"][0]["text"] == image(number, SIZE).digest


@pytest.mark.requirement("004-1", "A caller of POST /parse gets its own result, never a job id")
async def test_caller_gets_its_result_when_it_posts_an_image(client: HttpClient, backend: Simulated) -> None:
    assert is_own(await parse(client, 1), 1)


@pytest.mark.requirement("004-2", "100 callers at the same time all wait and all get their own results")
async def test_all_callers_get_their_results_when_100_come_at_once(
    client: HttpClient, backend: Simulated
) -> None:
    answers = await asyncio.gather(*(parse(client, number) for number in range(100)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement(
    "004-3", "A batch has at most 32 images, and at most 4 batches are sent at the same time"
)
async def test_batches_are_bounded_when_many_wait(client: HttpClient, backend: Simulated) -> None:
    await asyncio.gather(*(parse(client, number) for number in range(200)))
    stats = backend.stats()
    assert max(stats["sizes"]) <= 32
    assert stats["most_at_once"] <= 4
    assert len(stats["sizes"]) < 200


@pytest.mark.requirement("004-4", "A single request is sent at once, alone")
async def test_lone_request_is_sent_alone_when_no_other_waits(client: HttpClient, backend: Simulated) -> None:
    answer = await parse(client, 3)
    assert backend.stats()["sizes"] == [1]
    assert answer.json["metadata"]["batch_size"] == 1


@pytest.mark.requirement("004-5", "A batch that fails goes back to the queue and is sent again")
async def test_image_is_sent_again_when_its_batch_failed(client: HttpClient, backend: Simulated) -> None:
    backend.script(batch_status=500)
    waiting = asyncio.create_task(parse(client, 5))

    async def failed() -> bool:
        return bool(backend.stats()["calls"] > 0)

    await eventually(failed, "a failed call")
    backend.script()
    assert is_own(await waiting, 5)


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
    async with aiohttp.ClientSession() as session:
        waiting = asyncio.create_task(
            HttpClient(first.url, session).post("/parse", json=body_of(6), headers=key)
        )

        async def sent() -> bool:
            return bool(backend.stats()["at_once"] > 0)

        await eventually(sent, "the batch is at the backend")
        first.process.kill()
        first.process.wait()
        await asyncio.gather(waiting, return_exceptions=True)
        backend.script()
        second = start_service(folder=folder, **settings).wait_ready()
        answer = await HttpClient(second.url, session).post("/parse", json=body_of(6), headers=key)
        assert is_own(answer, 6)


@pytest.mark.requirement(
    "004-7", "The defaults of queue, batches, breaker and timeouts are those of the source"
)
def test_defaults_are_those_of_the_source_when_nothing_is_set(service: RunningService) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "quire", "config"],
        capture_output=True,
        text=True,
        check=True,
        cwd=service.folder,
    ).stdout
    found = {line.split()[0]: line.split()[1] for line in shown.splitlines() if len(line.split()) > 1}
    expected = {
        "PORT": "8080",
        "MAX_BATCH_SIZE": "32",
        "MAX_CONCURRENT_BATCHES": "4",
        "MAX_QUEUE_SIZE": "10000",
        "BACKPRESSURE_THRESHOLD": "2500",
        "RATE_LIMIT_PER_CLIENT": "10",
        "MAX_REQUEST_SIZE": "50MB",
        "RESPONSE_TIMEOUT": "15m",
        "PARSE_TTL": "6h",
        "MAX_RETRY_COUNT": "3",
        "RETRY_DELAY": "2s",
        "BATCH_FAILURE_THRESHOLD": "5",
        "BATCH_COOLDOWN": "30s",
        "BATCH_HEALTH_INTERVAL": "10s",
        "SHUTDOWN_TIMEOUT": "30s",
    }
    assert {name: found[name] for name in expected} == expected
    assert found["BATCH_BACKEND_TIMEOUT"] in ("2m", "120s")


@pytest.mark.requirement("004-8", "An urgent request is sent before the others that wait")
async def test_urgent_request_is_sent_first_when_others_wait(narrow: HttpClient, backend: Simulated) -> None:
    backend.script(hold=True)
    tasks = [asyncio.create_task(parse(narrow, 1))]

    async def depth(count: int) -> bool:
        return bool((await narrow.get("/queue/status")).json["queue_depth"] == count)

    async def at_backend() -> bool:
        return bool(backend.stats()["at_once"] == 1)

    await eventually(at_backend, "the first is at the backend")
    tasks.append(asyncio.create_task(parse(narrow, 2)))
    await eventually(lambda: depth(1), "the second waits")
    tasks.append(asyncio.create_task(parse(narrow, 3, priority="high")))
    await eventually(lambda: depth(2), "the third waits")
    backend.script(fixed_ms=1)
    answers = await asyncio.gather(*tasks)
    finished = [answer.json["timestamp"] for answer in answers]
    assert finished[2] <= finished[1]


@pytest.mark.requirement("004-9", "An image above the size limit is refused with 413")
async def test_image_is_refused_when_it_is_too_large(narrow: HttpClient, backend: Simulated) -> None:
    large = base64.b64encode(image(1, 1_200_000).data).decode()
    answer = await narrow.post("/parse", json={"image_data": large})
    assert answer.status == 413


@pytest.mark.requirement(
    "004-10",
    "After five failed calls the breaker is open: 503 with type, message, retryable, retry_after_seconds",
)
async def test_caller_gets_503_when_the_breaker_is_open(start_service: Start, backend: Simulated) -> None:
    one = start_service(BATCH_BACKEND_URL=backend.url, BATCH_COOLDOWN="1h", **PLAIN).wait_ready()
    backend.script(batch_status=500)
    async with aiohttp.ClientSession() as session:
        client = HttpClient(one.url, session)
        waiting = asyncio.create_task(parse(client, 1))

        async def opened() -> bool:
            return bool((await client.get("/queue/status")).json["breaker_open"])

        await eventually(opened, "the breaker opens")
        answer = await parse(client, 2)
        waiting.cancel()
    assert answer.status == 503
    assert answer.json["type"] == "circuit_open"
    assert answer.json["message"]
    assert answer.json["retryable"] is True
    assert isinstance(answer.json["retry_after_seconds"], int)
    assert backend.stats()["calls"] <= 6  # five failures and the probe image


@pytest.mark.requirement(
    "004-11", "The breaker closes when the backend works again, and waiting callers are served"
)
async def test_waiting_callers_are_served_when_the_backend_works_again(
    client: HttpClient, backend: Simulated
) -> None:
    backend.script(batch_status=500)
    waiting = asyncio.create_task(parse(client, 11))

    async def opened() -> bool:
        return bool(backend.stats()["calls"] >= 6)

    await eventually(opened, "the breaker opens")
    backend.script()
    assert is_own(await waiting, 11)


@pytest.mark.requirement("004-12", "Results are matched by request, whatever their order and file names are")
async def test_each_caller_gets_its_own_result_when_results_are_shuffled_and_names_are_equal(
    client: HttpClient, backend: Simulated
) -> None:
    backend.script(shuffle=True)
    answers = await asyncio.gather(*(parse(client, number, filename="page.jpg") for number in range(60)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))
    assert {answer.json["filename"] for answer in answers} == {"page.jpg"}


@pytest.mark.requirement("004-13", "An image whose result is missing in the answer is sent again")
async def test_image_is_sent_again_when_its_result_is_missing(client: HttpClient, backend: Simulated) -> None:
    backend.script(gaps=0.3)
    answers = await asyncio.gather(*(parse(client, number) for number in range(40)))
    assert all(is_own(answer, number) for number, answer in enumerate(answers))


@pytest.mark.requirement("004-14", "One image that makes its batch fail does not fail the others")
async def test_only_its_own_caller_gets_an_error_when_one_image_fails_every_batch(
    client: HttpClient, backend: Simulated
) -> None:
    backend.script(fixed_ms=1, each_ms=1, poison=image(7, SIZE).digest)
    answers = await asyncio.gather(*(parse(client, number) for number in range(20)))
    assert [number for number, answer in enumerate(answers) if not is_own(answer, number)] == [7]
    assert answers[7].status == 422


@pytest.mark.requirement("004-15", "The image of a caller that has left is not sent")
async def test_image_is_not_sent_when_its_caller_has_left(narrow: HttpClient, backend: Simulated) -> None:
    backend.script(hold=True)
    first = asyncio.create_task(parse(narrow, 1))

    async def at_backend() -> bool:
        return bool(backend.stats()["at_once"] == 1)

    async def depth(count: int) -> bool:
        return bool((await narrow.get("/queue/status")).json["queue_depth"] == count)

    await eventually(at_backend, "the first is at the backend")
    leaving = asyncio.create_task(parse(narrow, 2))
    await eventually(lambda: depth(1), "the second waits")
    leaving.cancel()
    await eventually(lambda: depth(0), "the second has left")
    backend.script(fixed_ms=1)
    assert is_own(await first, 1)
    assert image(2, SIZE).digest not in backend.stats()["computed"]


@pytest.mark.requirement("004-16", "A caller is answered with 408 when the response timeout is over")
async def test_caller_gets_408_when_it_has_waited_too_long(impatient: HttpClient, backend: Simulated) -> None:
    backend.script(hold=True)
    answer = await parse(impatient, 16)
    backend.script()
    assert answer.status == 408
    assert answer.json["type"] == "timeout"


@pytest.mark.requirement("004-17", "More than 10 requests a minute from one address are answered with 429")
async def test_client_gets_429_when_it_sends_too_many(impatient: HttpClient, backend: Simulated) -> None:
    backend.script(fixed_ms=1)
    answers = [await parse(impatient, number) for number in range(11)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert refused[0].json["error"]
    assert isinstance(refused[0].json["retry_after_seconds"], int)
    assert 1 <= refused[0].json["retry_after_seconds"] <= 60


@pytest.mark.requirement(
    "004-18", "A malformed body, bad base64, a missing or an unsupported image is refused with 400"
)
@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b"{}",
        b'{"image_data": ""}',
        b'{"image_data": "%%%"}',
        json.dumps({"image_data": base64.b64encode(b"plain text, no image").decode()}).encode(),
    ],
    ids=["not-json", "no-image", "empty-image", "bad-base64", "not-an-image"],
)
async def test_request_is_refused_when_it_is_malformed(
    client: HttpClient, backend: Simulated, body: bytes
) -> None:
    answer = await client.post("/parse", data=body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.json["error"]
    assert backend.stats()["calls"] == 0


@pytest.mark.requirement("004-19", "JPEG and PNG are accepted; without a file name the service makes one")
async def test_name_is_made_when_none_is_given(client: HttpClient, backend: Simulated) -> None:
    jpeg = await parse(client, 19)
    png = await client.post("/parse", json={"image_data": base64.b64encode(PNG).decode()})
    assert jpeg.json["filename"].startswith("upload_")
    assert jpeg.json["filename"].endswith(".jpg")
    assert png.status == 200


@pytest.mark.requirement(
    "004-20",
    "At the backpressure threshold callers get 503 with queue_depth, estimated_wait_minutes, retry_after_seconds",
)
async def test_caller_gets_503_when_too_many_wait(narrow: HttpClient, backend: Simulated) -> None:
    backend.script(hold=True)
    waiting = [asyncio.create_task(parse(narrow, number)) for number in range(8)]

    async def refused() -> list[HttpAnswer]:
        return [one.result() for one in waiting if one.done()]

    found = (await eventually(refused, "a refusal"))[0]
    backend.script(fixed_ms=1)
    await asyncio.gather(*waiting)
    assert found.status == 503
    assert found.json["queue_depth"] >= 3
    assert found.json["estimated_wait_minutes"] >= 0
    assert isinstance(found.json["retry_after_seconds"], int)


@pytest.mark.requirement(
    "004-21", "A success has request_id, filename, times, results and metadata of its batch"
)
async def test_success_has_the_fields_of_the_source(client: HttpClient, backend: Simulated) -> None:
    found = (await parse(client, 21, filename="document.jpg")).json
    assert found["request_id"]
    assert found["filename"] == "document.jpg"
    assert found["processing_time_seconds"] > 0
    assert found["timestamp"] > 0
    assert set(found["results"][0]) == {"label", "bbox", "text", "reading_order"}
    assert set(found["metadata"]) == {"total_elements", "batch_id", "position_in_batch", "batch_size"}


@pytest.mark.requirement("004-22", "An error has request_id, error, status failed and retry_suggested")
async def test_error_has_the_fields_of_the_source(client: HttpClient, backend: Simulated) -> None:
    found = (await client.post("/parse", json={})).json
    assert found["request_id"]
    assert found["error"]
    assert found["status"] == "failed"
    assert found["retry_suggested"] is False


@pytest.mark.requirement("004-23", "GET /metrics has the six metrics of the source")
async def test_metrics_have_the_names_of_the_source(client: HttpClient) -> None:
    text = (await client.get("/metrics")).text
    for name in (
        "queue_depth_current",
        "batch_formation_rate",
        "modal_request_duration",
        "modal_success_rate",
        "request_latency",
        "active_connections",
    ):
        assert name in text, name


@pytest.mark.requirement(
    "004-24", "GET /health has status, queue_depth, modal_reachable, redis_connected, uptime, last batch"
)
async def test_health_has_the_fields_of_the_source(client: HttpClient, backend: Simulated) -> None:
    await parse(client, 24)

    async def healthy() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get("/health")).json
        return found if found["status"] == "healthy" and found["last_batch_sent"] else None

    found = await eventually(healthy, "a healthy service")
    assert found["queue_depth"] == 0
    assert found["modal_reachable"] is True
    assert found["redis_connected"] is True
    assert found["uptime_seconds"] > 0
    assert found["timestamp"]
    assert found["issues"] == []


@pytest.mark.requirement("004-25", "GET /health is degraded, with the reason, while the backend fails")
async def test_health_is_degraded_when_the_backend_fails(client: HttpClient, backend: Simulated) -> None:
    backend.script(batch_status=500)
    waiting = asyncio.create_task(parse(client, 25))

    async def degraded() -> bool:
        found = (await client.get("/health")).json
        return bool(found["status"] == "degraded" and found["issues"])

    await eventually(degraded, "degraded")
    backend.script()
    assert is_own(await waiting, 25)


@pytest.mark.requirement(
    "004-26", "GET /queue/status has depth, maximum, utilization, oldest age, estimated wait"
)
async def test_queue_status_has_the_fields_of_the_source(client: HttpClient) -> None:
    found = (await client.get("/queue/status")).json
    assert found["max_queue_size"] == 10_000
    for name in (
        "queue_depth",
        "utilization_percent",
        "oldest_request_age_seconds",
        "estimated_wait_time_minutes",
    ):
        assert found[name] >= 0


@pytest.mark.requirement(
    "004-27", "On SIGTERM a caller whose batch was sent gets its result and the service ends cleanly"
)
async def test_caller_gets_its_result_when_the_service_is_stopped(
    start_service: Start, backend: Simulated
) -> None:
    one = start_service(BATCH_BACKEND_URL=backend.url, **PLAIN).wait_ready()
    backend.script(hold=True)
    async with aiohttp.ClientSession() as session:
        waiting = asyncio.create_task(parse(HttpClient(one.url, session), 27))

        async def sent() -> bool:
            return bool(backend.stats()["at_once"] > 0)

        await eventually(sent, "the batch is at the backend")
        one.process.terminate()
        backend.script()
        assert is_own(await waiting, 27)
    assert await asyncio.to_thread(one.stop) == 0


@pytest.mark.requirement("004-28", "MODAL_API_ENDPOINT may be the complete address of the batch endpoint")
async def test_endpoint_is_used_as_it_is_when_it_is_complete(
    start_service: Start, backend: Simulated
) -> None:
    one = start_service(MODAL_API_ENDPOINT=f"{backend.url}/parse-batch", **PLAIN).wait_ready()
    async with aiohttp.ClientSession() as session:
        assert is_own(await parse(HttpClient(one.url, session), 28), 28)


@pytest.mark.requirement(
    "004-29", "The YAML file of the source configures the service, with its variables and defaults"
)
def test_file_of_the_source_configures_the_service(tmp_path: Path) -> None:
    (tmp_path / "production.yaml").write_text(
        "server:\n  port: ${PORT:-9191}\n  rate_limit_per_client: 7\n"
        "modal:\n  api_endpoint: ${MODAL_API_ENDPOINT:-http://127.0.0.1:9/parse-batch}\n  timeout: 90s\n"
        "  circuit_breaker:\n    failure_threshold: 3\n"
        "queue:\n  max_size: 500\n  ttl: 1h\n"
    )
    shown = subprocess.run(
        [sys.executable, "-m", "quire", "config"],
        env={"QUIRE_CONFIG": str(tmp_path / "production.yaml"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout
    found = {line.split()[0]: line.split()[1] for line in shown.splitlines() if len(line.split()) > 1}
    assert found["PORT"] == "9191"
    assert found["RATE_LIMIT_PER_CLIENT"] == "7"
    assert found["BATCH_FAILURE_THRESHOLD"] == "3"
    assert found["MAX_QUEUE_SIZE"] == "500"
    assert found["PARSE_TTL"] == "1h"
