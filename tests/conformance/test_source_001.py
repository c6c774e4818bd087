"""Source 001: the orchestrator behind GhostServer, and the dispatcher that reads pages with AI."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import redis

from quire.simulator.simulator_thread import RunningSimulator
from tests.api.ghost.conftest import Bucket, make_bucket, make_mixed
from tests.conformance.running_service import HttpAnswer, HttpClient, RunningService
from tests.support.coordination_servers import plain_server
from tests.support.s3_fixtures import s3_endpoint
from tests.support.waiting import eventually

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
def redis_url() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


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
    start_service: Callable[..., RunningService], redis_url: str, aws: dict[str, str], bucket: Bucket
) -> RunningService:
    return start_service(
        **MODELS,
        **aws,
        REDIS_URL=redis_url,
        ALLOW_PRIVATE_URLS="true",
        REQUEST_TIMEOUT="3s",
        WORKER_CONCURRENCY="4",
        BREAKER_BASE_BACKOFF="300ms",
        BREAKER_MAX_BACKOFF="500ms",
        API_KEYS=f"ghost:{KEY}",
        WEB_USERNAME="admin",
        WEB_PASSWORD="a-long-password",
        LOG_LEVEL="debug",
    ).wait_ready()


@pytest.fixture
async def client(service: RunningService) -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        yield HttpClient(service.url, session)


@pytest.fixture(scope="module")
def split_redis() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


@pytest.fixture(scope="module")
def split(start_service: Callable[..., RunningService], split_redis: str) -> RunningService:
    """The service without workers, and one worker that leaves the AI pages alone."""
    shared = {**MODELS, "REDIS_URL": split_redis}
    one = start_service(**shared, RUN_DISPATCHER="0", INTERNAL_TOKEN=TOKEN).wait_ready()
    start_service(
        *("worker", "--queues", "download,split,read,merge,export"), **shared, DATA_DIR=str(one.data_dir)
    )
    return one


@pytest.fixture
async def at_split(split: RunningService) -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession(headers={"X-Internal-Token": TOKEN}) as session:
        yield HttpClient(split.url, session)


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


def fresh(text: str) -> str:
    return f"{text} {uuid.uuid4().hex}"


def picture() -> list[str]:
    """A page with text and a picture, which is one for AI."""
    return [fresh("a picture"), "with some words below it"]


async def process(client: HttpClient, data: bytes, name: str = "report.pdf", **fields: str) -> dict[str, Any]:
    answer = await client.upload(data, name=name, path="/process_file_junior_call", **fields)
    assert answer.status == 201, answer.text
    found: dict[str, Any] = answer.json
    return found


async def process_json(client: HttpClient, **fields: Any) -> HttpAnswer:
    return await client.post("/process_file_junior_call", json=fields)


async def over(client: HttpClient, some_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/progress_spec/{some_id}")).json
        return found if found["status"] in ("success", "failed") else None

    found: dict[str, Any] = await eventually(ended, f"the end of {some_id}")
    return found


async def pages_of(client: HttpClient, data: bytes, **fields: str) -> list[dict[str, Any]]:
    """The pages of a document once it is read."""
    job_id = (await process(client, data, **fields))["job_id"]
    assert (await over(client, job_id))["status"] == "success"
    found: list[dict[str, Any]] = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
    return found


# ---- goals, components, data flow ------------------------------------------------------------------------------


@pytest.mark.requirement("001-1", "Five documents of twenty pages exceed no RPM limit of the provider")
async def test_no_limit_is_exceeded_when_five_documents_of_twenty_pages_arrive(
    start_service: Callable[..., RunningService], sim: RunningSimulator, make_mixed: Make
) -> None:
    sim.play({"models": [{"model": "*", "rpm": 600, "window": "sliding"}]})
    sim.reset()
    limits = {
        f"{name}:{model}": {"rpm": 600} for name, model in (("openai", "gpt-4.1"), ("openai", "gpt-4o"))
    }
    limits["anthropic:claude-3-5-sonnet"] = {"rpm": 600}
    one = start_service(
        **MODELS, AI_LIMITS=json.dumps(limits), DOCUMENT_PROCESSING_TIMEOUT="10m"
    ).wait_ready()
    async with aiohttp.ClientSession() as session:
        client = HttpClient(one.url, session)
        jobs = [
            (await process(client, make_mixed(*(picture() for _ in range(20)))))["job_id"] for _ in range(5)
        ]
        found = [await over(client, job_id) for job_id in jobs]
    assert [one["metadata"]["ai_pages_succeeded"] for one in found] == [20] * 5
    assert sim.stats()["total"]["limited"] == 0


@pytest.mark.requirement(
    "001-2", "AI pages go through the queue: no more calls at a time than WORKER_CONCURRENCY"
)
async def test_calls_are_bounded_when_a_document_has_many_pages(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    ai.play({"models": [{"model": "*", "latency": 0.05}]})
    await pages_of(client, make_mixed(*(picture() for _ in range(12))))
    calls = [one for model in ai.stats(with_calls=True)["models"].values() for one in model["log"]]
    # A call that ends makes room before the next one begins, so at equal times ends come first.
    moments = sorted([(one["at"], 1) for one in calls] + [(one["ended_at"], -1) for one in calls])
    running = [sum(change for _, change in moments[: n + 1]) for n in range(len(moments))]
    assert len(calls) == 12
    assert 1 <= max(running) <= 4


@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "hang", "reset"])
@pytest.mark.requirement(
    "001-3", "A 429, a 5xx, a timeout or a network error of the primary provider leads to the secondary"
)
async def test_secondary_provider_reads_the_page_when_the_primary_fails(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, fault: str
) -> None:
    ai.play({"rules": [{"fault": fault, "model": "gpt-*"}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert (page["source"], page["provider"], page["model"]) == ("ai", "anthropic", "claude-3-5-sonnet")


@pytest.mark.requirement("001-4", "A 4xx validation error is final: the page is not sent to another provider")
async def test_page_is_not_sent_elsewhere_when_the_request_is_rejected(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    ai.play({"rules": [{"fault": "rejected", "model": "gpt-*"}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert page["source"] == "mupdf_fallback"
    assert not any(model.startswith("claude") for model in ai.stats()["models"])


@pytest.mark.requirement("001-5", "The documents and pictures are not in Redis, only references")
async def test_no_key_has_the_document_when_it_is_processed(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    await pages_of(client, make_mixed(picture(), fresh("text")))
    with redis.Redis.from_url(redis_url) as server:
        for key in server.scan_iter("*"):
            kept = server.dump(key) or b""
            assert b"%PDF-" not in kept, key
            assert b"JFIF" not in kept, key


@pytest.mark.requirement("001-6", "Each page is routed by itself: text is read locally, pictures by AI")
async def test_each_page_has_its_own_route_when_a_document_is_mixed(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    found = await pages_of(client, make_mixed(fresh("only text on this page"), picture(), None))
    assert [page["source"] for page in found] == ["local", "ai", "ai"]
    assert ai.stats()["total"]["calls"] == 2


@pytest.mark.requirement(
    "001-7", "AI pages are in the Redis stream jobs:ai:pages with the consumer group workers:images"
)
def test_stream_and_group_exist_when_the_service_has_started(service: RunningService, redis_url: str) -> None:
    assert at_redis(redis_url, "XINFO", "GROUPS", "jobs:ai:pages")[0]["name"] == "workers:images"


@pytest.mark.requirement(
    "001-8", "An entry has job, document, page, content reference, engines, model, options, key and attempt"
)
@pytest.mark.requirement(
    "001-9", "The content reference is an address with the page: file://…#page=N or s3://…#page=N"
)
@pytest.mark.requirement("001-10", "force_fast is in the entry")
async def test_entry_says_what_a_dispatcher_needs_when_a_page_is_queued(
    at_split: HttpClient, split_redis: str, make_mixed: Make
) -> None:
    given = await process(
        at_split, make_mixed(picture()), "4711.pdf", force_fast="true", ai_engine="ClaudeEngine"
    )
    entry = await queued_entry(split_redis, given["job_id"])
    assert (entry["doc_id"], entry["page_id"], entry["attempt"]) == ("4711", "1", "1")
    assert re.fullmatch(r"file:///.*#page=1", entry["content_ref"])
    assert json.loads(entry["engine_pref"]) == {"primary": "anthropic", "secondary": "openai"}
    assert (entry["model_hint"], json.loads(entry["force_fast"])) == ("claude-3-haiku", True)
    assert json.loads(entry["opts"])["vision_mode"] == "ocr"
    assert entry["idempotency_key"] == f"doc:{given['job_id']}:page:1:v1"
    assert (await at_split.post(f"/internal/page_failed?job_id={given['job_id']}&page_id=1")).status == 200


async def queued_entry(url: str, job_id: str) -> dict[str, str]:
    async def look() -> dict[str, str] | None:
        with redis.Redis.from_url(url, decode_responses=True) as server:
            found = [fields for _, fields in server.xrange("jobs:ai:pages") if fields["job_id"] == job_id]
        return found[0] if found else None

    entry: dict[str, str] = await eventually(look, "the page is queued")
    return entry


@pytest.mark.requirement(
    "001-11", "A page that has to wait is in the sorted set jobs:ai:pages:delayed by the time of its retry"
)
@pytest.mark.requirement(
    "001-12", "Budgets are token buckets in Redis by provider and model: rl:…:rpm and rl:…:tpm"
)
async def test_page_is_delayed_when_there_is_no_budget(
    start_service: Callable[..., RunningService], split_redis: str, sim: RunningSimulator, make_mixed: Make
) -> None:
    sim.play({})
    with plain_server() as (url, _port):
        limits = {"openai:gpt-4.1": {"rpm": 2, "tpm": 100000}}
        one = start_service(
            **{**MODELS, "OPENAI_SECONDARY_MODEL": "gpt-4.1", "SECONDARY_ENGINE": "none"},
            REDIS_URL=url,
            AI_LIMITS=json.dumps(limits),
        ).wait_ready()
        async with aiohttp.ClientSession() as session:
            client = HttpClient(one.url, session)
            await process(client, make_mixed(*(picture() for _ in range(6))))

            async def delayed() -> bool:
                return bool(at_redis(url, "ZCARD", "jobs:ai:pages:delayed"))

            await eventually(delayed, "a page is delayed")
            with redis.Redis.from_url(url, decode_responses=True) as server:
                buckets = sorted(server.scan_iter("rl:*"))
        one.stop()
    assert any(key.endswith("openai:gpt-4.1:rpm") for key in buckets), buckets
    assert any(key.endswith("openai:gpt-4.1:tpm") for key in buckets), buckets


@pytest.mark.requirement("001-13", "The status of a job is a hash in Redis")
async def test_status_is_in_redis_when_a_job_has_ended(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    job_id = (await process(client, make_mixed(fresh("text"))))["job_id"]
    await over(client, job_id)
    assert at_redis(redis_url, "HGET", f"job:{{{job_id}}}", "status") == "completed"


@pytest.mark.requirement("001-14", "The tokens that a page really used are recorded")
async def test_tokens_are_recorded_when_a_page_was_read(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    (page,) = await pages_of(client, make_mixed(picture()))
    assert page["tokens_in"] > 0
    assert page["tokens_out"] > 0


# ---- breakers, models, retries ---------------------------------------------------------------------------------


@pytest.mark.requirement("001-15", "A 429 opens the breaker of that model for a time that is shown")
@pytest.mark.requirement("001-16", "After that time one probe goes out, and its success closes the breaker")
async def test_breaker_opens_and_closes_when_a_model_is_limited_for_a_while(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "rate_limit", "model": "gpt-4.1", "retry_after_s": 2}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert page["model"] == "gpt-4o"
    assert any("gpt-4.1" in key for key in at_redis(redis_url, "KEYS", "cb:*"))
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
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    ai.play({"rules": [{"fault": "rate_limit", "model": "gpt-4.1"}]})
    (page,) = await pages_of(client, make_mixed(picture()))
    assert (page["provider"], page["model"]) == ("openai", "gpt-4o")


@pytest.mark.requirement("001-18", "force_fast reads with the fast model of the provider")
async def test_fast_model_reads_the_page_when_it_is_asked_for(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    (page,) = await pages_of(client, make_mixed(picture()), force_fast="true")
    assert page["model"] == "gpt-4.1-mini"


@pytest.mark.requirement(
    "001-19", "A page that every model failed is a dead letter in jobs:ai:pages:dlq with the reason"
)
@pytest.mark.requirement("001-20", "A page that AI failed gets its local text, and the document ends well")
async def test_page_has_its_local_text_and_a_dead_letter_when_all_models_fail(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, redis_url: str
) -> None:
    ai.play({"rules": [{"fault": "server_error"}]})
    words = picture()
    given = await process(client, make_mixed(words))
    done = await over(client, given["job_id"])
    assert (done["status"], done["metadata"]["mupdf_fallback_pages"]) == ("success", 1)
    assert words[0] in done["result"]
    with redis.Redis.from_url(redis_url, decode_responses=True) as server:
        letters = [fields for _, fields in server.xrevrange("jobs:ai:pages:dlq")]
    letter = next(one for one in letters if one["job_id"] == given["job_id"])
    assert letter["reason"]


@pytest.mark.requirement("001-21", "The same Idempotency-Key is never processed twice")
async def test_one_job_answers_when_a_request_is_repeated(client: HttpClient, make_mixed: Make) -> None:
    data, key = make_mixed(fresh("once")), uuid.uuid4().hex
    ids = set()
    for _ in range(2):
        form = aiohttp.FormData()
        form.add_field("file", data, filename="once.pdf")
        answer = await client.post("/process_file_junior_call", data=form, headers={"Idempotency-Key": key})
        ids.add(answer.json["job_id"])
    assert len(ids) == 1


@pytest.mark.requirement(
    "001-22",
    "The settings of the source are understood: providers, models, timeouts, retries, worker, S3, web, logs",
)
def test_service_starts_when_it_has_the_settings_of_the_source(
    start_service: Callable[..., RunningService],
) -> None:
    one = start_service(
        **MODELS,
        OPENAI_TIMEOUT="60s",
        ANTHROPIC_TIMEOUT="60s",
        REQUEST_TIMEOUT="60s",
        PAGE_TOTAL_TIMEOUT="120s",
        JOB_MAX_ATTEMPTS="3",
        RETRY_BASE_DELAY="2s",
        RETRY_JITTER="200ms",
        RETRY_BACKOFF_FACTOR="2.0",
        WORKER_CONCURRENCY="8",
        RUN_DISPATCHER="1",
        WEB_USERNAME="admin",
        WEB_PASSWORD="a-long-password",
        LOG_LEVEL="warn",
        LOG_FILE="logs/aidispatcher.log",
        LOG_MAX_SIZE_MB="100",
        LOG_MAX_BACKUPS="10",
        SEND_LOGS_TO_AXIOM="0",
    ).wait_ready()
    assert one.stop() == 0


# ---- the GhostServer API -----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "001-40", "GET /health, /health_check and /status answer 200 while the service is healthy"
)
@pytest.mark.parametrize("path", ["/health", "/health_check", "/status"])
async def test_health_is_answered_when_asked_by_any_of_its_names(client: HttpClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status == 200
    assert answer.json["status"] in ("ok", "healthy", "degraded")


@pytest.mark.requirement(
    "001-41",
    "POST /process_file_junior_call answers 201 with status, job_id, message, ETA, queue position and metadata",
)
@pytest.mark.requirement("001-42", "The job id is a UUID, and the new job is queued")
async def test_document_is_accepted_when_it_is_sent(client: HttpClient, make_mixed: Make) -> None:
    found = await process(client, make_mixed(fresh("text")), user_name="user@example.com")
    assert found.keys() >= {
        *("status", "job_id", "message", "estimated_time_seconds", "queue_position", "metadata")
    }
    assert found["status"] == "queued"
    assert found["queue_position"] >= 1
    assert str(uuid.UUID(found["job_id"])) == found["job_id"]
    assert found["metadata"]["user"] == "user@example.com"


@pytest.mark.parametrize("field", ["file_path", "file_url"])
@pytest.mark.requirement("001-43", "file_path or file_url is an s3:// address or a bare key of AWS_S3_BUCKET")
@pytest.mark.requirement(
    "001-44", "The text is written to S3; result_s3_url and result_text_len are in the metadata"
)
async def test_result_is_next_to_the_original_when_it_is_in_a_bucket(
    client: HttpClient, ai: RunningSimulator, bucket: Bucket, make_mixed: Make, field: str
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
    client: HttpClient, ai: RunningSimulator, make_pdf: Make
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
@pytest.mark.requirement("001-46", "ai_engine chooses the provider; processing_mode is bart_1")
async def test_engine_chooses_the_provider_when_it_is_named(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, engine: str, provider: str
) -> None:
    given = await process(client, make_mixed(picture()), ai_engine=engine)
    assert given["metadata"]["ai_provider"] == provider
    assert given["metadata"]["processing_mode"] == "bart_1"
    await over(client, given["job_id"])
    (page,) = (await client.get(f"/jobs/{given['job_id']}/pages")).json["pages"]
    assert page["provider"] == provider


@pytest.mark.parametrize("flag", ["text_only", "fast_upload"])
@pytest.mark.requirement("001-47", "text_only and fast_upload read without AI")
async def test_no_model_is_called_when_the_caller_wants_only_text(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make, flag: str
) -> None:
    words = picture()
    done = await over(client, (await process(client, make_mixed(words), **{flag: "true"}))["job_id"])
    assert (done["status"], words[0] in done["result"]) == ("success", True)
    assert ai.stats()["total"]["calls"] == 0


@pytest.mark.requirement("001-48", "The file id in the path names the job at /progress_spec")
async def test_progress_is_found_by_file_id_when_a_file_was_sent(
    client: HttpClient, make_mixed: Make
) -> None:
    file_id = uuid.uuid4().hex
    given = await process(client, make_mixed(fresh("text")), f"{file_id}_original.pdf")
    assert (await over(client, file_id))["metadata"]["job_id"] == given["job_id"]


@pytest.mark.requirement(
    "001-49", "GET /progress_spec has status, progress, message, times, result and metadata"
)
@pytest.mark.requirement("001-50", "Progress is a percentage that reaches 100 when the result is saved")
async def test_progress_is_complete_when_the_job_has_ended(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    words = fresh("progress")
    job_id = (await process(client, make_mixed(words, picture())))["job_id"]
    first = (await client.get(f"/progress_spec/{job_id}")).json
    assert first.keys() == {
        *("status", "progress", "message", "start_time", "end_time", "result", "metadata")
    }
    assert 0 <= first["progress"] <= 100
    done = await over(client, job_id)
    assert (done["progress"], done["status"]) == (100, "success")
    assert done["start_time"] <= done["end_time"]
    assert words in done["result"]


@pytest.mark.requirement("001-51", "POST /webhook/cancel_job cancels a job with the caller's reason")
async def test_job_is_cancelled_when_the_caller_asks_for_it(at_split: HttpClient, make_mixed: Make) -> None:
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
    at_split: HttpClient, split_redis: str, make_mixed: Make
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


async def reported(client: HttpClient, what: str, job_id: str, page: int, body: Any) -> dict[str, Any] | None:
    answer = await client.post(f"/internal/{what}?job_id={job_id}&page_id={page}", json=body)
    assert answer.status in (200, 409), answer.text
    found: dict[str, Any] | None = answer.json if answer.status == 200 else None
    return found


@pytest.mark.requirement(
    "001-55", "Neither the password nor the prompt is in the log, only that they were given and their length"
)
async def test_secrets_are_not_logged_when_they_are_given(
    client: HttpClient, ai: RunningSimulator, service: RunningService, make_pdf: Make
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
async def test_dashboard_is_behind_a_login_when_a_password_is_set(client: HttpClient) -> None:
    answer = await client.get("/")
    assert answer.status == 200
    assert "html" in answer.headers["Content-Type"]
    wrong = await client.post("/session", json={"username": "admin", "password": "wrong"})
    assert wrong.status in (401, 403), wrong.text


@pytest.mark.requirement("001-57", "A restart loses nothing: status and results are there afterwards")
async def test_job_is_known_when_the_service_was_restarted(
    start_service: Callable[..., RunningService], ai: RunningSimulator, make_mixed: Make
) -> None:
    first = start_service(**MODELS).wait_ready()
    words = fresh("kept")
    async with aiohttp.ClientSession() as session:
        job_id = (await process(HttpClient(first.url, session), make_mixed(words, picture())))["job_id"]
        first.process.kill()
        first.process.wait()
        second = start_service(**MODELS, folder=first.folder).wait_ready()
        done = await over(HttpClient(second.url, session), job_id)
    assert words in done["result"]


@pytest.mark.requirement(
    "001-58",
    "/metrics shows calls by outcome, durations, tokens, pages that wait, calls in flight and breakers",
)
async def test_metrics_show_the_dispatcher_when_it_has_worked(
    client: HttpClient, ai: RunningSimulator, make_mixed: Make
) -> None:
    await pages_of(client, make_mixed(picture()))
    text = (await client.get("/metrics")).text
    for name in (
        *("ai_calls_total", "ai_call_duration_seconds", "ai_tokens_total", "ai_pages_waiting"),
        *("ai_in_flight", "ai_breaker_open"),
    ):
        assert f"\n{name}" in text, name
