"""Source 001: the orchestrator behind GhostServer, and the dispatcher that reads pages with AI."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pymupdf
import pytest
import redis

from quire.simulator.simulator_thread import RunningSimulator
from tests.api.ghost.conftest import Bucket, make_bucket, make_mixed
from tests.support.coordination_servers import plain_server
from tests.support.environment import clean_environment
from tests.support.s3_fixtures import s3_endpoint
from tests.support.serving import Answer, Client, Server
from tests.support.submitted_documents import fresh
from tests.support.waiting import eventually, scaled

__all__ = ["make_bucket", "make_mixed", "s3_endpoint"]

Make = Callable[..., bytes]
TOKEN = "token-of-the-dispatcher"
KEY = "key-of-the-ghost-server"
MODELS = {
    "PRIMARY_ENGINE": "openai",
    "SECONDARY_ENGINE": "anthropic",
    "OPENAI_PRIMARY_MODEL": "gpt-4.1",
    "OPENAI_SECONDARY_MODEL": "gpt-4o",
    "OPENAI_FAST_MODEL": "gpt-4.1-mini",
    "ANTHROPIC_PRIMARY_MODEL": "claude-3-5-sonnet",
    "ANTHROPIC_SECONDARY_MODEL": "claude-3-opus",
    "ANTHROPIC_FAST_MODEL": "claude-3-haiku",
}


@pytest.fixture(scope="module")
def redis_server() -> Iterator[str]:
    """One server; the services use databases of their own. It is asked for first, so that it outlives them."""
    with plain_server() as (url, _port):
        yield url.rpartition("/")[0]


@pytest.fixture(scope="module")
def redis_url(redis_server: str) -> str:
    return f"{redis_server}/0"


@pytest.fixture(scope="module")
def split_redis(redis_server: str) -> str:
    return f"{redis_server}/1"


@pytest.fixture(scope="module")
def defaults() -> dict[str, str]:
    """Every setting as an installation without settings has it."""
    asked = [sys.executable, "-m", "quire", "config", "--json"]
    done = subprocess.run(asked, env=clean_environment(), capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    return {row["name"]: str(row["value"]) for row in (rows if isinstance(rows, list) else rows["settings"])}


@pytest.fixture(scope="module")
def bucket(make_bucket: Callable[[str], Bucket]) -> Bucket:
    return make_bucket("source-001")


@pytest.fixture(scope="module")
def aws(s3_endpoint: str) -> dict[str, str]:
    return {
        "AWS_S3_BUCKET": "source-001",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-bucket",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }


@pytest.fixture(scope="module")
def service(
    redis_url: str, aws: dict[str, str], bucket: Bucket, start_service: Callable[..., Server]
) -> Server:
    return start_service(
        **MODELS,
        **aws,
        REDIS_URL=redis_url,
        ALLOW_PRIVATE_URLS="true",
        REQUEST_TIMEOUT=scaled(3),
        WORKER_CONCURRENCY="4",
        BREAKER_BASE_BACKOFF="300ms",
        BREAKER_MAX_BACKOFF="500ms",
        API_KEYS=f"ghost:{KEY}",
        WEB_USERNAME="operator",
        WEB_PASSWORD="a-long-password",
        LOG_LEVEL="debug",
        LOG_FILE="logs/aidispathcher.log",
        AI_RECOVERY_PROBE="0",
        OCR_ENABLED="false",
    ).wait_ready()


@pytest.fixture
async def client(service: Server) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        yield Client(service.url, session)


@pytest.fixture(scope="module")
def split(split_redis: str, start_service: Callable[..., Server]) -> Server:
    """The service without workers."""
    shared = {**MODELS, "REDIS_URL": split_redis}
    return start_service(**shared, RUN_DISPATCHER="0", INTERNAL_TOKEN=TOKEN).wait_ready()


@pytest.fixture(scope="module")
def split_worker(split: Server, split_redis: str, start_service: Callable[..., Server]) -> Server:
    """A worker beside it that leaves the AI pages alone."""
    queues = "download,split,read,merge,export"
    shared = {**MODELS, "REDIS_URL": split_redis, "DATA_DIR": str(split.data_dir)}
    return start_service("worker", "--queues", queues, **shared)


@pytest.fixture
async def at_split(split: Server, split_worker: Server) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(headers={"X-Internal-Token": TOKEN}) as session:
        yield Client(split.url, session)


@pytest.fixture
def ai(sim: RunningSimulator, redis_url: str) -> RunningSimulator:
    """The simulator, behaving well and with empty counts; no breaker is open."""
    sim.play({})
    sim.reset()
    with redis.Redis.from_url(redis_url, decode_responses=True) as server:
        for key in server.scan_iter("cb:*"):
            server.delete(key)
    return sim


def at_redis(url: str, *command: str) -> Any:
    with redis.Redis.from_url(url, decode_responses=True) as server:
        return server.execute_command(*command)


def pictured_pdf(pages: int) -> bytes:
    """Pages with text and a picture that covers half of them, made quickly."""
    shown = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 40, 40), False)
    shown.set_rect(shown.irect, (40, 90, 160))
    with pymupdf.open() as made:
        for _ in range(pages):
            page = made.new_page()
            page.insert_text((72, 72), fresh("above the picture"))
            page.insert_image(pymupdf.Rect(40, 300, 560, 760), pixmap=shown, keep_proportion=False)
        return made.tobytes()


def picture() -> list[str]:
    """A page with text and a picture, which is one for AI."""
    return [fresh("a picture"), "with some words below it"]


async def process(client: Client, data: bytes, name: str = "report.pdf", **fields: str) -> dict[str, Any]:
    answer = await client.upload(data, name=name, path="/process_file_junior_call", **fields)
    assert answer.status == 201, answer.text
    found: dict[str, Any] = answer.json
    return found


async def process_json(client: Client, **fields: Any) -> Answer:
    return await client.post("/process_file_junior_call", json=fields)


async def over(client: Client, some_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/progress_spec/{some_id}")).json
        if (
            "status" not in found
        ):  # a service that has just come back may ask for a moment, but never deny the job
            assert found["retryable"], found
            return None
        return found if found["status"] in ("success", "failed") else None

    found: dict[str, Any] = await eventually(ended, f"the end of {some_id}")
    return found


async def pages_of(client: Client, data: bytes, **fields: str) -> list[dict[str, Any]]:
    """The pages of a document once it is read."""
    job_id = (await process(client, data, **fields))["job_id"]
    assert (await over(client, job_id))["status"] == "success"
    found: list[dict[str, Any]] = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
    return found


# ---- goals, components, data flow ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(redis_server: str, start_service: Callable[..., Server]) -> Server:
    """A service that knows the account's limits by the source's names; its first model has one request a second."""
    return start_service(
        **MODELS,
        REDIS_URL=f"{redis_server}/2",
        OCR_ENABLED="false",  # or the answer of each page is compared with what OCR reads
        OPENAI_GPT41_RPM="60",
        OPENAI_GPT4O_RPM="600",
        OPENAI_GPT4O_TPM="240000",
        ANTHROPIC_SONNET_RPM="480",
        MAX_INFLIGHT_OPENAI_GPT4O="3",
    ).wait_ready()


@pytest.fixture
async def at_limited(limited: Server) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(limited.url, session)


@pytest.mark.requirement("001-1", "Five documents of twenty pages exceed no RPM limit of any model")
@pytest.mark.requirement("001-1a", "They exceed no TPM limit either")
@pytest.mark.requirement(
    "001-1b", "All their pages are read by AI: a limit delays a page, it does not fail it"
)
@pytest.mark.requirement(
    "001-77", "BUDGET_POLICY=instant (default): a page goes to the next model when the first has no budget"
)
@pytest.mark.requirement(
    "001-78", "A single model's requests and tokens a minute are settings: OPENAI_GPT41_RPM, OPENAI_GPT4O_TPM"
)
@pytest.mark.requirement(
    "001-78a", "A single model's calls at a time are a setting: MAX_INFLIGHT_OPENAI_GPT4O"
)
@pytest.mark.requirement("001-78b", "A part of the model's name is enough: ANTHROPIC_SONNET_RPM")
@pytest.mark.requirement(
    "001-12", "Budgets are token buckets in Redis by provider and model: rl:…:rpm and rl:…:tpm"
)
@pytest.mark.requirement("001-12a", "Buckets expire when they are not used")
async def test_no_limit_is_exceeded_when_five_documents_of_twenty_pages_arrive(
    at_limited: Client, sim: RunningSimulator, redis_server: str
) -> None:
    # A burst of a few seconds' share: a caller who knows no limits exceeds it at once, one who keeps to them does not,
    # also on a busy machine where calls that were made apart arrive together.
    few_seconds = {"window": "bucket", "burst_s": 4}
    sim.play(
        {
            "models": [
                {"model": "gpt-4.1", "rpm": 60, **few_seconds},
                {"model": "gpt-4o", "rpm": 600, "tpm": 240_000, **few_seconds},
                {"model": "claude-*", "rpm": 480, **few_seconds},
            ]
        }
    )
    sim.reset()
    documents = [pictured_pdf(20) for _ in range(5)]
    jobs = [(await process(at_limited, data))["job_id"] for data in documents]
    found = [(await over(at_limited, job_id))["metadata"] for job_id in jobs]
    with redis.Redis.from_url(f"{redis_server}/2", decode_responses=True) as server:
        buckets = {key: server.pttl(key) for key in server.scan_iter("rl:*")}
    assert all(left_ms > 0 for left_ms in buckets.values())
    assert [one["ai_pages_succeeded"] for one in found] == [20] * 5
    seen = sim.stats()
    assert (seen["total"]["calls"], seen["total"]["limited"]) == (100, 0)
    assert seen["models"]["gpt-4.1"]["calls"] < 100
    assert seen["models"]["gpt-4o"]["in_flight_max"] <= 3
    for name in ("openai:gpt-4.1:rpm", "openai:gpt-4o:tpm", "anthropic:claude-3-5-sonnet:rpm"):
        assert any(key.startswith("rl:") and key.endswith(name) for key in buckets), (name, buckets)
    shown = {one["model"]: one for one in (await at_limited.get("/dispatch")).json["models"]}
    assert shown["gpt-4.1"]["requests_per_minute"] == 60
    assert shown["gpt-4o"]["tokens_per_minute"] == 240_000
    assert shown["gpt-4o"]["in_flight_max"] == 3


@pytest.fixture(scope="module")
def sticky(redis_server: str, start_service: Callable[..., Server]) -> Server:
    """A service that waits for the first model's budget, and whose thresholds take no picture for graphics."""
    return start_service(
        **MODELS,
        REDIS_URL=f"{redis_server}/3",
        BUDGET_POLICY="sticky",
        OPENAI_GPT41_RPM="4",
        WORKER_CONCURRENCY="1",
        PAGE_PICTURE_COVERAGE="1",
        PAGE_LARGEST_PICTURE="1",
        PAGE_SCAN_COVERAGE="1",
        PAGE_CHART_PATHS="100000",
        OCR_ENABLED="false",
    ).wait_ready()


@pytest.fixture
async def at_sticky(sticky: Server) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(sticky.url, session)


@pytest.mark.requirement(
    "001-77a", "BUDGET_POLICY=sticky: a page waits for the first model when that has no budget"
)
@pytest.mark.requirement(
    "001-11", "A page that has to wait is in the sorted set jobs:ai:pages:delayed by the time of its retry"
)
async def test_page_is_delayed_when_the_policy_is_sticky_and_there_is_no_budget(
    at_sticky: Client, ai: RunningSimulator, redis_server: str
) -> None:
    began_ms = time.time() * 1000
    job_id = (await at_sticky.upload(pictured_pdf(3), mode="ai")).json["job_id"]
    with redis.Redis.from_url(f"{redis_server}/3", decode_responses=True) as server:

        async def two_wait() -> list[tuple[str, float]] | None:
            found = server.zrange("jobs:ai:pages:delayed", 0, -1, withscores=True)
            done = (await at_sticky.get(f"/jobs/{job_id}")).json["pages_completed"]
            return found if len(found) == 2 and done == 1 else None

        delayed = await eventually(two_wait, "two pages wait")
    assert all(job_id in one for one, _ in delayed)
    assert all(at_ms > began_ms for _, at_ms in delayed)
    assert {name: one["calls"] for name, one in ai.stats()["models"].items()} == {"gpt-4.1": 1}
    await at_sticky.post(f"/jobs/{job_id}/cancel")


@pytest.mark.requirement(
    "001-80", "The thresholds of page selection are settings (PAGE_PICTURE_COVERAGE and others)"
)
async def test_page_with_a_picture_is_read_locally_when_the_threshold_is_raised(
    at_sticky: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    answer = await at_sticky.upload(make_mixed(picture()))
    await at_sticky.over(answer.json["job_id"])
    [page] = (await at_sticky.get(f"/jobs/{answer.json['job_id']}/pages")).json["pages"]
    assert (page["source"], page["page_class"]) == ("local", "TEXT_ONLY")
    assert ai.stats()["total"]["calls"] == 0


@pytest.mark.requirement(
    "001-2", "AI pages go through the queue: no more calls at a time than WORKER_CONCURRENCY"
)
async def test_calls_are_bounded_when_a_document_has_many_pages(client: Client, ai: RunningSimulator) -> None:
    ai.play({"models": [{"model": "*", "latency": 0.05}]})
    await pages_of(client, pictured_pdf(12))
    calls = [one for model in ai.stats(with_calls=True)["models"].values() for one in model["log"]]
    # A call that ends makes room before the next one begins, so at equal times ends come first.
    moments = sorted([(one["at"], 1) for one in calls] + [(one["ended_at"], -1) for one in calls])
    running = [sum(change for _, change in moments[: n + 1]) for n in range(len(moments))]
    assert len(calls) == 12
    assert 1 <= max(running) <= 4


async def assert_failover(
    client: Client, ai: RunningSimulator, make_mixed: Make, fault: str, code: str
) -> None:
    """The first model fails in this way, the second of the provider is limited: the other provider answers."""
    ai.play({"rules": [{"fault": fault, "model": "gpt-4.1"}, {"fault": "rate_limit", "model": "gpt-*"}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert (page["source"], page["provider"], page["model"]) == ("ai", "anthropic", "claude-3-5-sonnet")
    assert code in page["reason"]


@pytest.mark.requirement("001-3", "A 429 of the primary provider leads to the secondary")
@pytest.mark.requirement(
    "001-70", "A failed call is logged with job_id, page, provider, model and error code"
)
async def test_secondary_provider_reads_the_page_when_the_primary_answers_429(
    client: Client, ai: RunningSimulator, make_mixed: Make, service: Server
) -> None:
    await assert_failover(client, ai, make_mixed, "rate_limit", "rate_limit")
    failed = [json.loads(line) for line in service.log.splitlines() if "AI call failed" in line][-1]
    assert failed.keys() >= {"job_id", "page", "provider", "model", "error_class", "latency_ms"}
    assert failed["error_class"] == "rate_limit"


@pytest.mark.requirement("001-3a", "A 5xx of the primary provider leads to the secondary")
async def test_secondary_provider_reads_the_page_when_the_primary_answers_500(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await assert_failover(client, ai, make_mixed, "server_error", "server")


@pytest.mark.requirement("001-3b", "A timeout of the primary provider leads to the secondary")
@pytest.mark.requirement("001-3c", "The secondary provider has a timeout of its own")
async def test_secondary_provider_reads_the_page_when_the_primary_hangs(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await assert_failover(client, ai, make_mixed, "hang", "timeout")


@pytest.mark.requirement("001-3d", "A network error of the primary provider leads to the secondary")
async def test_secondary_provider_reads_the_page_when_the_connection_is_lost(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await assert_failover(client, ai, make_mixed, "reset", "network")


@pytest.mark.requirement("001-4", "A 4xx validation error is final: the page is not sent to another provider")
@pytest.mark.requirement("001-4a", "A page with a validation error is a dead letter at once")
async def test_page_is_not_sent_elsewhere_when_the_request_is_rejected(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "rejected", "model": "gpt-*"}]})
    given = await process(client, make_mixed(picture()))
    await over(client, given["job_id"])
    (page,) = (await client.get(f"/jobs/{given['job_id']}/pages")).json["pages"]
    assert page["source"] == "mupdf_fallback"
    assert not any(model.startswith("claude") for model in ai.stats()["models"])
    letter = dead_letter(redis_url, given["job_id"])
    assert (letter["last_error"], letter["attempts"]) == ("validation", "1")


@pytest.mark.requirement("001-5", "No document and no picture is in Redis, only references")
async def test_no_key_has_the_document_when_it_is_processed(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    await pages_of(client, make_mixed(picture(), fresh("text")))
    with redis.Redis.from_url(redis_url) as server:
        for key in server.scan_iter("*"):
            kept = server.dump(key) or b""
            assert b"%PDF-" not in kept, key
            assert b"JFIF" not in kept, key


@pytest.mark.requirement("001-6", "A page of text is read locally")
@pytest.mark.requirement("001-6a", "A page with pictures is read by AI")
@pytest.mark.requirement("001-6b", "A page without text of its own is read by AI")
async def test_each_page_has_its_own_route_when_a_document_is_mixed(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    found = await pages_of(client, make_mixed(fresh("only text on this page"), picture(), None))
    assert [page["source"] for page in found] == ["local", "ai", "ai"]
    assert ai.stats()["total"]["calls"] == 2


@pytest.mark.requirement(
    "001-7", "AI pages are in the Redis stream jobs:ai:pages with the consumer group workers:images"
)
def test_stream_and_group_exist_when_the_service_has_started(service: Server, redis_url: str) -> None:
    assert at_redis(redis_url, "XINFO", "GROUPS", "jobs:ai:pages")[0]["name"] == "workers:images"


@pytest.mark.requirement("001-8", "An entry has job_id, doc_id and page_id")
@pytest.mark.requirement("001-8a", "An entry has engine_pref: the caller's provider first, then the other")
@pytest.mark.requirement("001-8b", "An entry has model_hint: the model of the tier that was asked for")
@pytest.mark.requirement("001-8c", "An entry has opts with vision_mode")
@pytest.mark.requirement("001-8d", "An entry has an idempotency_key of document, page and version")
@pytest.mark.requirement("001-8e", "An entry has attempt, from 1")
@pytest.mark.requirement("001-9", "content_ref is an address with the page: file://…#page=N")
@pytest.mark.requirement("001-9a", "content_ref leads to the document")
@pytest.mark.requirement("001-10", "force_fast is in the entry")
async def test_entry_says_what_a_dispatcher_needs_when_a_page_is_queued(
    at_split: Client, split_redis: str, make_mixed: Make
) -> None:
    data = make_mixed(picture())
    given = await process(at_split, data, "4711.pdf", force_fast="true", ai_engine="ClaudeEngine")
    entry = await queued_entry(split_redis, given["job_id"])
    assert (entry["doc_id"], entry["page_id"], entry["attempt"]) == ("4711", "1", "1")
    assert re.fullmatch(r"file:///.*#page=1", entry["content_ref"])
    assert read_file(entry["content_ref"]) == data
    assert json.loads(entry["engine_pref"]) == {"primary": "anthropic", "secondary": "openai"}
    assert (entry["model_hint"], json.loads(entry["force_fast"])) == ("claude-3-haiku", True)
    assert json.loads(entry["opts"])["vision_mode"] == "ocr"
    assert entry["idempotency_key"] == f"doc:{given['job_id']}:page:1:v1"
    assert (await at_split.post(f"/internal/page_failed?job_id={given['job_id']}&page_id=1")).status == 200


@pytest.mark.requirement("001-8f", "Pages of documents with another priority are in streams of their own")
@pytest.mark.parametrize(
    ("priority", "stream"), [("high", "{jobs:ai:pages}:high"), ("low", "{jobs:ai:pages}:low")]
)
async def test_page_is_in_the_stream_of_its_priority_when_it_has_one(
    at_split: Client, split_redis: str, make_mixed: Make, priority: str, stream: str
) -> None:
    answer = await at_split.upload(make_mixed(picture()), mode="ai", priority=priority)
    job_id = answer.json["job_id"]
    entry = await queued_entry(split_redis, job_id, stream)
    assert entry["page_id"] == "1"
    groups = at_redis(split_redis, "XINFO", "GROUPS", stream)
    assert groups[0]["name"] == "workers:images"
    assert (await at_split.post(f"/internal/page_failed?job_id={job_id}&page_id=1")).status == 200


def read_file(content_ref: str) -> bytes:
    url, _, _ = content_ref.partition("#")
    return Path(urllib.parse.unquote(url.removeprefix("file://"))).read_bytes()


async def queued_entry(url: str, job_id: str, stream: str = "jobs:ai:pages") -> dict[str, str]:
    async def look() -> dict[str, str] | None:
        with redis.Redis.from_url(url, decode_responses=True) as server:
            found = [fields for _, fields in server.xrange(stream) if fields["job_id"] == job_id]
        return found[0] if found else None

    entry: dict[str, str] = await eventually(look, "the page is queued")
    return entry


@pytest.mark.requirement("001-13", "The status of a job is a hash in Redis")
async def test_status_is_in_redis_when_a_job_has_ended(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    job_id = (await process(client, make_mixed(fresh("text"))))["job_id"]
    await over(client, job_id)
    assert at_redis(redis_url, "HGET", f"job:{{{job_id}}}", "status") == "completed"


@pytest.mark.requirement("001-14", "The tokens that a page really used are recorded")
async def test_tokens_are_recorded_when_a_page_was_read(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    (page,) = await pages_of(client, make_mixed(picture()))
    real = ai.stats()["models"]["gpt-4.1"]
    assert (page["tokens_in"], page["tokens_out"]) == (real["tokens_in"], real["tokens_out"])
    assert real["tokens_out"] > 0


# ---- breakers, models, retries ---------------------------------------------------------------------------------


@pytest.mark.requirement(
    "001-15", "A 429 opens the breaker of that model; state and time of the retry are shown"
)
@pytest.mark.requirement("001-15a", "A Retry-After of the provider is honoured")
@pytest.mark.requirement("001-15b", "The breaker is a key cb:…:provider:model in Redis")
@pytest.mark.requirement("001-16", "After that time one probe goes out, and its success closes the breaker")
@pytest.mark.requirement("001-16a", "A 429 halves the calls that may be made at a time")
async def test_breaker_opens_and_closes_when_a_model_is_limited_for_a_while(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "rate_limit", "model": "gpt-4.1", "retry_after_s": 2}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert page["model"] == "gpt-4o"
    assert at_redis(redis_url, "EXISTS", "cb:{ai}:openai:gpt-4.1")
    shown = next(one for one in (await client.get("/dispatch")).json["models"] if one["model"] == "gpt-4.1")
    assert (shown["state"], shown["in_flight_allowed"]) == ("open", 1)
    assert 0.5 < shown["opens_in_seconds"] <= 2
    ai.play({})

    async def closed() -> bool:
        found = (await client.get("/dispatch")).json["models"]
        model = next(one for one in found if one["model"] == "gpt-4.1")
        if model["state"] != "closed":
            await pages_of(client, make_mixed(picture()))
        return bool(model["state"] == "closed")

    await eventually(closed, "the breaker closes")


@pytest.mark.requirement(
    "001-17", "A 429 of the primary model leads to the secondary model of the same provider"
)
async def test_secondary_model_reads_the_page_when_the_primary_is_limited(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    ai.play({"rules": [{"fault": "rate_limit", "model": "gpt-4.1"}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert (page["provider"], page["model"]) == ("openai", "gpt-4o")


@pytest.mark.requirement("001-16b", "A probe that fails opens the breaker again, for a longer time")
async def test_breaker_rests_longer_when_its_probe_fails(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    ai.play({"rules": [{"fault": "rate_limit", "model": "gpt-4.1"}]})

    async def incidents() -> bool:
        await pages_of(client, make_mixed(picture()))
        found = (await client.get("/dispatch")).json["models"]
        return next(one for one in found if one["model"] == "gpt-4.1")["incidents"] >= 2

    await eventually(incidents, "the probe fails")


@pytest.mark.requirement("001-18a", "Without force_fast the fast model is not used")
async def test_fast_model_is_left_alone_when_it_is_not_asked_for(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await pages_of(client, make_mixed(picture(), picture()))
    assert "gpt-4.1-mini" not in ai.stats()["models"]


@pytest.mark.requirement("001-18", "force_fast reads with the fast model of the provider")
async def test_fast_model_reads_the_page_when_it_is_asked_for(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    (page,) = await pages_of(client, make_mixed(picture()), force_fast="true")
    assert page["model"] == "gpt-4.1-mini"


@pytest.mark.requirement("001-19", "A page that every model failed is a dead letter in jobs:ai:pages:dlq")
@pytest.mark.requirement(
    "001-19a", "The dead letter has the reason, the last error, the last provider and model"
)
@pytest.mark.requirement("001-19b", "A page is tried in JOB_MAX_ATTEMPTS rounds before it is given up")
@pytest.mark.requirement("001-20", "A page that AI failed gets its local text, and the document ends well")
@pytest.mark.requirement("001-20a", "The dead letter can be replayed")
async def test_page_has_its_local_text_and_a_dead_letter_when_all_models_fail(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "server_error"}]})
    words = picture()
    given = await process(client, make_mixed(words))
    done = await over(client, given["job_id"])
    assert (done["status"], done["metadata"]["mupdf_fallback_pages"]) == ("success", 1)
    assert words[0] in done["result"]
    letter = dead_letter(redis_url, given["job_id"])
    assert letter["reason"]
    stats = ai.stats()["models"]
    # Which breakers let a call through in the last round depends on how long the rounds took.
    last = max(stats, key=lambda name: stats[name]["last_at"])
    provider = "anthropic" if last.startswith("claude") else "openai"
    assert (letter["last_error"], letter["provider"], letter["model"]) == ("server", provider, last)
    asked = {name: one["calls"] for name, one in stats.items()}
    # A round asks the models whose breakers let it: all three in the first one, at least one in each of the others.
    assert asked.keys() == {"gpt-4.1", "gpt-4o", "claude-3-5-sonnet"}
    assert 5 <= sum(asked.values()) <= 9
    assert letter["attempts"] == str(sum(asked.values()))
    ai.play({})
    letters = (await client.get("/dlq")).json["letters"]
    [mine] = [one for one in letters if one["job_id"].startswith(given["job_id"])]
    assert (await client.post(mine["replay"])).status in (200, 202)

    async def read_by_ai() -> bool:
        (page,) = (await client.get(f"/jobs/{given['job_id']}/pages")).json["pages"]
        return bool(page["source"] == "ai")

    await eventually(read_by_ai, "the replayed page is read")


def dead_letter(url: str, job_id: str) -> dict[str, str]:
    with redis.Redis.from_url(url, decode_responses=True) as server:
        letters = [fields for _, fields in server.xrevrange("jobs:ai:pages:dlq")]
    return next(one for one in letters if one["job_id"] == job_id)


@pytest.mark.requirement("001-19c", "Between two rounds the page is delayed, with a later attempt number")
async def test_entry_has_the_next_attempt_when_a_page_is_retried(
    client: Client, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "server_error", "last": 1}]})
    seen: set[str] = set()
    given = await process(client, make_mixed(picture()))
    with redis.Redis.from_url(redis_url, decode_responses=True) as server:

        async def read_in_the_second_round() -> bool:
            seen.update(server.zrange("jobs:ai:pages:delayed", 0, -1))
            return bool((await client.get(f"/progress_spec/{given['job_id']}")).json["status"] == "success")

        await eventually(read_in_the_second_round, "the page is read in the end")
    assert any(given["job_id"] in one for one in seen)
    (page,) = (await client.get(f"/jobs/{given['job_id']}/pages")).json["pages"]
    assert (page["source"], page["attempts"]) == ("ai", 4)


@pytest.mark.requirement("001-21", "The same Idempotency-Key is never processed twice")
async def test_one_job_answers_when_a_request_is_repeated(client: Client, make_mixed: Make) -> None:
    data, key = make_mixed(fresh("once")), uuid.uuid4().hex
    ids = set()
    for _ in range(2):
        form = aiohttp.FormData()
        form.add_field("file", data, filename="once.pdf")
        answer = await client.post("/process_file_junior_call", data=form, headers={"Idempotency-Key": key})
        ids.add(answer.json["job_id"])
    assert len(ids) == 1


@pytest.mark.requirement("001-22", "JOB_MAX_ATTEMPTS is 3")
@pytest.mark.requirement("001-22a", "RETRY_BASE_DELAY is 2 s")
@pytest.mark.requirement("001-22b", "RETRY_JITTER is 200 ms")
@pytest.mark.requirement("001-22c", "RETRY_BACKOFF_FACTOR is 2.0")
@pytest.mark.requirement("001-22d", "REQUEST_TIMEOUT is 60 s")
@pytest.mark.requirement("001-22e", "PAGE_TOTAL_TIMEOUT is 120 s")
@pytest.mark.requirement("001-22f", "WORKER_CONCURRENCY is 8")
@pytest.mark.requirement("001-22g", "PRIMARY_ENGINE is openai, SECONDARY_ENGINE is anthropic")
@pytest.mark.requirement("001-22h", "PORT is 8080")
@pytest.mark.requirement("001-22i", "RUN_DISPATCHER is on: one service does everything")
@pytest.mark.requirement("001-22j", "LOG_LEVEL is info")
@pytest.mark.requirement("001-22k", "LOG_MAX_SIZE_MB is 100, LOG_MAX_BACKUPS 10, LOG_MAX_AGE_DAYS 30")
@pytest.mark.requirement("001-22l", "LOG_COMPRESS is on")
@pytest.mark.requirement(
    "001-22m", "SEND_LOGS_TO_AXIOM is off; AXIOM_API_KEY, _ORG_ID and _DATASET are settings"
)
@pytest.mark.requirement("001-22n", "JOB_SLA_MAX_AGE is off")
def test_defaults_are_those_of_the_source_when_nothing_is_set(defaults: dict[str, str]) -> None:
    wanted = {
        **{"JOB_MAX_ATTEMPTS": "3", "RETRY_BASE_DELAY": "2s", "RETRY_JITTER": "200ms"},
        **{"WORKER_CONCURRENCY": "8", "PRIMARY_ENGINE": "openai", "SECONDARY_ENGINE": "anthropic"},
        **{"PORT": "8080", "RUN_DISPATCHER": "true", "LOG_LEVEL": "info", "LOG_MAX_BACKUPS": "10"},
        **{"LOG_MAX_AGE_DAYS": "30", "LOG_COMPRESS": "true", "SEND_LOGS_TO_AXIOM": "false"},
    }
    assert {name: defaults[name] for name in wanted} == wanted
    assert float(defaults["RETRY_BACKOFF_FACTOR"]) == 2
    assert defaults["REQUEST_TIMEOUT"] in ("60s", "1m")
    assert defaults["PAGE_TOTAL_TIMEOUT"] in ("120s", "2m")
    assert defaults["LOG_MAX_SIZE_MB"] in ("100MB", "100.0MB")
    assert defaults["JOB_SLA_MAX_AGE"] in ("0", "0s")
    assert {"AXIOM_API_KEY", "AXIOM_ORG_ID", "AXIOM_DATASET"} <= defaults.keys()


@pytest.mark.requirement(
    "001-23", "Every variable of the source's list is a setting, or the start says what to use instead"
)
def test_every_variable_of_the_source_is_answered_when_it_is_set(defaults: dict[str, str]) -> None:
    names = {
        *("PRIMARY_ENGINE", "SECONDARY_ENGINE", "REQUEST_TIMEOUT", "OPENAI_TIMEOUT", "ANTHROPIC_TIMEOUT"),
        *("JOB_MAX_ATTEMPTS", "JOB_SLA_MAX_AGE", "RETRY_BASE_DELAY", "RETRY_JITTER", "RETRY_BACKOFF_FACTOR"),
        *("WORKER_CONCURRENCY", "REDIS_URL", "FILES_BASE", "PORT", "RUN_DISPATCHER", "PAGE_TOTAL_TIMEOUT"),
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_S3_BUCKET", "AWS_REGION", "AWS_ACCESS_KEY_ID"),
        *("AWS_SECRET_ACCESS_KEY", "WEB_USERNAME", "WEB_PASSWORD", "LOG_FILE", "LOG_LEVEL", "LOG_PRETTY"),
        *("LOG_MAX_SIZE_MB", "LOG_MAX_BACKUPS", "LOG_MAX_AGE_DAYS", "LOG_COMPRESS", "SEND_LOGS_TO_AXIOM"),
        *("AXIOM_API_KEY", "AXIOM_ORG_ID", "AXIOM_DATASET", *MODELS),
    }
    assert not names - defaults.keys()
    asked = [sys.executable, "-m", "quire", "config"]
    given = clean_environment(QUEUE_POLL_INTERVAL="100ms")
    warned = subprocess.run(asked, env=given, capture_output=True, text=True, check=True)
    assert "QUEUE_POLL_INTERVAL" in warned.stderr
    given = clean_environment(RESULT_STORE="postgres")
    refused = subprocess.run(asked, env=given, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "OBJECT_STORE" in refused.stderr


@pytest.mark.requirement(
    "001-82", "The SDKs of the configured providers are loaded at the start: no call's time pays for it"
)
async def test_sdks_are_loaded_when_the_service_has_started(service: Server) -> None:
    async def loaded() -> bool:
        return "AI providers loaded" in service.log

    await eventually(loaded, "the SDKs are loaded")


@pytest.mark.requirement("001-71", "Logs are JSON lines in logs/aidispathcher.log (LOG_FILE)")
def test_log_file_has_json_lines_when_it_is_set(service: Server) -> None:
    lines = (service.folder / "logs" / "aidispathcher.log").read_text().splitlines()
    assert all(json.loads(line)["level"] for line in lines)
    assert lines


@pytest.mark.requirement("001-79", "A job that no worker takes up within JOB_SLA_MAX_AGE ends with a reason")
@pytest.mark.requirement("001-79a", "estimated_time_seconds is null while no worker is alive")
@pytest.mark.requirement("001-79b", "/health is degraded while work waits and no worker is alive")
@pytest.mark.requirement(
    "001-83", "When too many documents wait, another one is refused with 503 and Retry-After"
)
async def test_job_ends_with_a_reason_when_no_worker_comes(
    redis_server: str, start_service: Callable[..., Server], make_mixed: Make
) -> None:
    one = start_service(
        **MODELS,
        REDIS_URL=f"{redis_server}/4",
        RUN_DISPATCHER="0",
        JOB_SLA_MAX_AGE="5s",
        QUEUE_MAX_DOCUMENTS="1",
    ).wait_ready()
    async with aiohttp.ClientSession() as session:
        client = Client(one.url, session)
        given = await process(client, make_mixed(fresh("waits")))
        assert given["estimated_time_seconds"] is None

        async def degraded() -> bool:
            return bool((await client.get("/health")).json["status"] == "degraded")

        await eventually(degraded, "health says that no worker is alive")
        full = await client.upload(make_mixed(fresh("more")), path="/process_file_junior_call")
        assert (full.status, "Retry-After" in full.headers) == (503, True)
        ended = await over(client, given["job_id"])
    assert (ended["status"], ended["metadata"]["error"]["code"]) == ("failed", "not_started")


@pytest.mark.requirement(
    "001-81", "queue_position counts the documents that have not started, up to this one"
)
@pytest.mark.requirement("001-81a", "queue_position moves when a document ahead is cancelled")
@pytest.mark.requirement("001-81b", "queue_position is 0 when the document has ended")
async def test_document_moves_up_when_one_ahead_is_cancelled(
    at_split: Client, split_worker: Server, make_mixed: Make
) -> None:
    split_worker.process.send_signal(signal.SIGSTOP)
    try:
        jobs = [await process(at_split, make_mixed(fresh("waits"))) for _ in range(3)]
        first = jobs[0]["queue_position"]
        assert [one["queue_position"] for one in jobs] == [first, first + 1, first + 2]
        await at_split.post("/webhook/cancel_job", json={"job_id": jobs[0]["job_id"]})
        found = [(await at_split.get(f"/progress_spec/{one['job_id']}")).json for one in jobs[1:]]
        assert [one["metadata"]["queue_position"] for one in found] == [first, first + 1]
    finally:
        split_worker.process.send_signal(signal.SIGCONT)
    done = await over(at_split, jobs[2]["job_id"])
    assert (done["status"], done["metadata"]["queue_position"]) == ("success", 0)


# ---- the GhostServer API -----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "001-40", "GET /health, /health_check and /status answer 200 while the service is healthy"
)
@pytest.mark.parametrize("path", ["/health", "/health_check", "/status"])
async def test_health_is_answered_when_asked_by_any_of_its_names(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status, answer.json["status"]) == (200, "healthy")


@pytest.mark.requirement("001-41", "POST /process_file_junior_call answers 201")
@pytest.mark.requirement("001-41a", "The answer has status, job_id and message")
@pytest.mark.requirement("001-41b", "The answer has queue_position and estimated_time_seconds")
@pytest.mark.requirement("001-41c", "The answer has metadata with file_path, user, source and file_id")
@pytest.mark.requirement("001-42", "The job id is a UUID, and the new job is queued")
async def test_document_is_accepted_when_it_is_sent(client: Client, make_mixed: Make) -> None:
    found = await process(client, make_mixed(fresh("text")), "4712.pdf", user_name="user@example.com")
    assert found.keys() == {
        *("status", "job_id", "message", "estimated_time_seconds", "queue_position", "metadata")
    }
    assert (found["status"], bool(found["message"])) == ("queued", True)
    assert found["queue_position"] >= 1
    assert str(uuid.UUID(found["job_id"])) == found["job_id"]
    about = found["metadata"]
    assert (about["user"], about["file_path"]) == ("user@example.com", "4712.pdf")
    assert (about["file_id"], about["source"]) == ("4712", "upload")


@pytest.mark.requirement("001-41d", "A request without a document is refused, and the field is named")
@pytest.mark.requirement("001-41e", "A field of the wrong type is refused, and the field is named")
async def test_request_is_refused_when_a_field_is_missing_or_wrong(client: Client) -> None:
    missing = await process_json(client, user_name="user@example.com")
    assert (missing.status, "file_path" in missing.json["error"]) == (400, True)
    wrong = await process_json(client, file_path="a.pdf", text_only="perhaps")
    assert (wrong.status, "text_only" in wrong.json["error"]) == (400, True)


@pytest.mark.parametrize("field", ["file_path", "file_url"])
@pytest.mark.requirement("001-43", "file_path or file_url is an s3:// address or a bare key of AWS_S3_BUCKET")
@pytest.mark.requirement("001-43a", "A bare key is shown as s3://bucket/key")
@pytest.mark.requirement("001-43b", "user_id names the user where there is no user_name")
@pytest.mark.requirement("001-44", "The aggregated text is written to S3 next to the original: result_s3_url")
@pytest.mark.requirement("001-44a", "result_text_len is in the metadata")
async def test_result_is_next_to_the_original_when_it_is_in_a_bucket(
    client: Client, ai: RunningSimulator, bucket: Bucket, make_mixed: Make, field: str
) -> None:
    words = fresh("from a bucket")
    key = f"in/{uuid.uuid4().hex}.pdf"
    url = bucket.put(key, make_mixed(words))
    answer = await process_json(client, **{field: url if field == "file_path" else key, "user_id": "u7"})
    assert answer.status == 201, answer.text
    assert answer.json["metadata"]["file_path"] == url
    done = await over(client, answer.json["job_id"])
    text = bucket.read(done["metadata"]["result_s3_url"])
    assert words in text
    assert done["metadata"]["result_text_len"] == len(text.encode())
    assert done["metadata"]["user"] == "u7"


@pytest.mark.requirement(
    "001-45", "password opens an encrypted document; without it the document fails with a reason"
)
async def test_password_is_used_when_a_document_is_encrypted(
    client: Client, ai: RunningSimulator, make_pdf: Make
) -> None:
    words = fresh("locked away")
    data = make_pdf(words, password="open-sesame")
    done = await over(client, (await process(client, data, password="open-sesame"))["job_id"])
    assert words in done["result"]
    refused = await over(client, (await process(client, data))["job_id"])
    assert (refused["status"], "password" in refused["message"].lower()) == ("failed", True)


@pytest.mark.parametrize(
    ("engine", "provider"),
    [("JuniorEngine", "openai"), ("OpenAIEngine", "openai"), ("ClaudeEngine", "anthropic"), ("", "openai")],
)
@pytest.mark.requirement(
    "001-46", "ai_engine chooses the provider: JuniorEngine and OpenAIEngine openai, ClaudeEngine anthropic"
)
@pytest.mark.requirement("001-46a", "processing_mode is bart_1 for every engine")
@pytest.mark.requirement("001-46b", "Without ai_engine the provider is openai")
async def test_engine_chooses_the_provider_when_it_is_named(
    client: Client, ai: RunningSimulator, make_mixed: Make, engine: str, provider: str
) -> None:
    given = await process(client, make_mixed(picture()), ai_engine=engine)
    assert given["metadata"]["ai_provider"] == provider
    assert given["metadata"]["processing_mode"] == "bart_1"
    await over(client, given["job_id"])
    (page,) = (await client.get(f"/jobs/{given['job_id']}/pages")).json["pages"]
    assert page["provider"] == provider


@pytest.mark.parametrize("flag", ["text_only", "fast_upload"])
@pytest.mark.requirement("001-47", "text_only and fast_upload read all pages locally, without AI")
async def test_no_model_is_called_when_the_caller_wants_only_text(
    client: Client, ai: RunningSimulator, make_mixed: Make, flag: str
) -> None:
    words = picture()
    done = await over(client, (await process(client, make_mixed(words), **{flag: "true"}))["job_id"])
    assert (done["status"], words[0] in done["result"]) == ("success", True)
    assert ai.stats()["total"]["calls"] == 0


@pytest.mark.requirement("001-48", "The file id in the path names the job at /progress_spec")
async def test_progress_is_found_by_file_id_when_a_file_was_sent(client: Client, make_mixed: Make) -> None:
    file_id = uuid.uuid4().hex
    given = await process(client, make_mixed(fresh("text")), f"{file_id}_original.pdf")
    assert (await over(client, file_id))["metadata"]["job_id"] == given["job_id"]


@pytest.mark.requirement(
    "001-49", "GET /progress_spec has status, progress, message, start_time, end_time, result and metadata"
)
@pytest.mark.requirement("001-49a", "The status is queued, processing, success or failed")
@pytest.mark.requirement(
    "001-50", "Progress is a percentage that never falls and reaches 100 when the result is saved"
)
async def test_progress_is_complete_when_the_job_has_ended(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    words = fresh("progress")
    job_id = (await process(client, make_mixed(words, picture())))["job_id"]
    first = (await client.get(f"/progress_spec/{job_id}")).json
    assert first.keys() == {
        *("status", "progress", "message", "start_time", "end_time", "result", "metadata")
    }
    steps: list[dict[str, Any]] = [first]

    async def ended() -> bool:
        steps.append((await client.get(f"/progress_spec/{job_id}")).json)
        return steps[-1]["status"] in ("success", "failed")

    await eventually(ended, "the end of the document")
    assert {one["status"] for one in steps} <= {"queued", "processing", "success"}
    assert [one["progress"] for one in steps] == sorted(one["progress"] for one in steps)
    assert 0 <= first["progress"] < 100
    done = steps[-1]
    assert (done["progress"], done["status"]) == (100, "success")
    assert done["start_time"] <= done["end_time"]
    assert words in done["result"]


@pytest.mark.requirement("001-51", "POST /webhook/cancel_job cancels a job with the caller's reason")
async def test_job_is_cancelled_when_the_caller_asks_for_it(at_split: Client, make_mixed: Make) -> None:
    job_id = (await process(at_split, make_mixed(picture())))["job_id"]
    body = {"job_id": job_id, "reason": "user cancel"}
    answer = await at_split.post("/webhook/cancel_job", json=body)
    assert (answer.status, answer.json["cancelled"]) == (200, True)
    found = await over(at_split, job_id)
    assert found["status"] == "failed"
    assert "user cancel" in found["message"]


@pytest.mark.requirement("001-52", "POST /internal/page_done stores the text that a dispatcher has read")
@pytest.mark.requirement("001-53", "POST /internal/page_failed gives the page its local text")
@pytest.mark.requirement(
    "001-54", "Orchestrator and dispatcher run as one service or as two (RUN_DISPATCHER)"
)
async def test_pages_are_merged_when_a_dispatcher_outside_reports_them(
    at_split: Client, split_redis: str, make_mixed: Make
) -> None:
    own = picture()
    job_id = (await process(at_split, make_mixed(picture(), own)))["job_id"]
    await queued_entry(split_redis, job_id)
    read = fresh("read outside")
    body = {"text": read, "provider": "openai", "model": "gpt-4.1"}
    done = await eventually(lambda: reported(at_split, "page_done", job_id, 1, body), "the report is taken")
    assert done["accepted"]
    assert (await eventually(lambda: reported(at_split, "page_failed", job_id, 2, None), "taken"))["accepted"]
    found = await over(at_split, job_id)
    assert read in found["result"]
    assert own[0] in found["result"]


@pytest.mark.requirement(
    "001-53a", "POST /internal/job_done ends the job: pages that wait get their local text"
)
async def test_waiting_pages_get_their_text_when_a_dispatcher_outside_ends_the_job(
    at_split: Client, split_redis: str, make_mixed: Make
) -> None:
    own = [picture(), picture()]
    job_id = (await process(at_split, make_mixed(*own)))["job_id"]
    await queued_entry(split_redis, job_id)

    async def closed() -> bool:
        answer = await at_split.post(f"/internal/job_done?job_id={job_id}")
        return answer.status == 200 and answer.json["pages_given_up"] == 2

    await eventually(closed, "the pages are given up")
    found = await over(at_split, job_id)
    assert (found["status"], found["metadata"]["mupdf_fallback_pages"]) == ("success", 2)
    assert all(words[0] in found["result"] for words in own)


@pytest.mark.requirement("001-46c", "ai_provider chooses the provider where ai_engine is not given")
async def test_provider_reads_the_page_when_it_is_named(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    (page,) = await pages_of(client, make_mixed(picture()), ai_provider="anthropic")
    assert page["provider"] == "anthropic"


async def reported(client: Client, what: str, job_id: str, page: int, body: Any) -> dict[str, Any] | None:
    answer = await client.post(f"/internal/{what}?job_id={job_id}&page_id={page}", json=body)
    assert answer.status in (200, 409), answer.text
    found: dict[str, Any] | None = answer.json if answer.status == 200 else None
    return found


@pytest.mark.requirement(
    "001-55", "Neither the password nor the prompt is in the log, only that they were given and their length"
)
async def test_secrets_are_not_logged_when_they_are_given(
    client: Client, ai: RunningSimulator, service: Server, make_pdf: Make
) -> None:
    password, prompt = f"pw-{uuid.uuid4().hex}", f"prompt-{uuid.uuid4().hex}"
    data = make_pdf(fresh("text"), password=password)
    given = await process(client, data, password=password, ai_prompt=prompt)
    assert given["metadata"]["ai_prompt_length"] == len(prompt)
    assert given["metadata"]["has_password"] is True
    await over(client, given["job_id"])
    assert password not in service.log
    assert prompt not in service.log
    assert given["job_id"] in service.log


@pytest.mark.requirement("001-56", "The dashboard asks for WEB_USERNAME and WEB_PASSWORD")
@pytest.mark.requirement("001-56a", "Without a login or a key nothing of the service can be read")
@pytest.mark.requirement("001-56b", "Who has signed in can process a document")
async def test_dashboard_is_behind_a_login_when_a_password_is_set(service: Server, make_mixed: Make) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, headers={"Origin": service.url}) as session:
        stranger = Client(service.url, session)
        page = await stranger.get("/")
        assert (page.status, "html" in page.headers["Content-Type"]) == (200, True)
        assert (await stranger.get("/jobs")).status == 401
        right = {"user": "operator", "password": "a-long-password"}
        for wrong in ({"password": "a-long-passwor"}, {"user": "admin"}):
            assert (await stranger.post("/session", json={**right, **wrong})).status == 401
        assert (await stranger.get("/jobs")).status == 401
        assert (await stranger.post("/session", json=right)).status == 200
        assert (await stranger.get("/jobs")).status == 200
        given = await process(stranger, make_mixed(fresh("from the dashboard")))
        assert (await over(stranger, given["job_id"]))["status"] == "success"


@pytest.mark.requirement("001-57", "A restart loses nothing: status and results are there afterwards")
async def test_job_is_known_when_the_service_was_restarted(
    start_service: Callable[..., Server], ai: RunningSimulator, make_mixed: Make
) -> None:
    first = start_service(**MODELS).wait_ready()
    words = fresh("kept")
    async with aiohttp.ClientSession() as session:
        job_id = (await process(Client(first.url, session), make_mixed(words, picture())))["job_id"]
        first.process.kill()
        first.process.wait()
        second = start_service(**MODELS, folder=first.folder).wait_ready()
        done = await over(Client(second.url, session), job_id)
    assert words in done["result"]


@pytest.mark.requirement("001-58", "/metrics counts the calls by provider, model and outcome")
@pytest.mark.requirement("001-58a", "/metrics has the durations of the calls")
@pytest.mark.requirement("001-58b", "/metrics has the tokens used")
@pytest.mark.requirement("001-58c", "/metrics has the pages that wait for a model")
@pytest.mark.requirement("001-58d", "/metrics has the calls in flight of each model")
@pytest.mark.requirement("001-58e", "/metrics has the breakers")
async def test_metrics_show_the_dispatcher_when_it_has_worked(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await pages_of(client, make_mixed(picture()))
    text = (await client.get("/metrics")).text
    for name in (
        *("ai_calls_total", "ai_call_duration_seconds", "ai_tokens_total", "ai_pages_waiting"),
        *("ai_in_flight", "ai_breaker_open"),
    ):
        assert f"\n{name}" in text, name


@pytest.mark.requirement(
    "001-70a", "Log lines of AI calls have attempt, tokens_used, latency_ms, error_class and failover"
)
async def test_every_call_has_its_log_line_when_one_fails_and_another_answers(
    client: Client, ai: RunningSimulator, service: Server, make_mixed: Make
) -> None:
    ai.play({"rules": [{"fault": "server_error", "model": "gpt-4.1", "last": 1}]})
    given = await process(client, make_mixed(picture()))
    assert (await over(client, given["job_id"]))["status"] == "success"

    async def both() -> list[dict[str, Any]] | None:
        lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
        found = [
            one
            for one in lines
            if str(one.get("event", "")).startswith("AI call") and one.get("job_id") == given["job_id"]
        ]
        return found if len(found) == 2 else None

    failed, answered = await eventually(both, "the lines of both calls")
    assert (failed["error_class"], failed["attempt"], failed["failover"]) == ("server", 1, False)
    assert (failed["model"], failed["level"]) == ("gpt-4.1", "warning")
    assert (answered["error_class"], answered["attempt"], answered["failover"]) == (None, 2, True)
    assert answered["tokens_used"] > 0
    assert all(one["latency_ms"] >= 0 and one["provider"] == "openai" for one in (failed, answered))


@pytest.mark.requirement("001-74", "Metrics have queue depth, retry rate and dead letters of the AI queue")
@pytest.mark.requirement("001-74a", "Metrics have the use of RPM and TPM by provider and model")
async def test_metrics_show_the_queues_and_the_use_of_limits(
    client: Client, ai: RunningSimulator, make_mixed: Make
) -> None:
    await pages_of(client, make_mixed(picture()))
    text = (await client.get("/metrics")).text
    for state in ("waiting", "delayed", "dead"):
        assert f'quire_queue_entries{{queue="page",state="{state}"}}' in text, state
    assert "# TYPE quire_unit_retries_total counter" in text
    for name in ("requests_per_minute_used", "requests_per_minute_allowed", "tokens_per_minute_used"):
        assert f'ai_{name}{{model="gpt-4.1",provider="openai"}}' in text, name
