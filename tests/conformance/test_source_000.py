"""Source 000: the AI dispatcher. Deadlines, failover, breakers, calls in flight, and the local text as fallback."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pymupdf
import pytest
import redis
from PIL import Image

from quire.simulator.simulator_thread import RunningSimulator
from tests.api.ghost.conftest import make_mixed
from tests.support.coordination_servers import plain_server
from tests.support.environment import clean_environment
from tests.support.quire_processes import run_quire
from tests.support.serving import Client, Server
from tests.support.stored_files import files_below
from tests.support.waiting import PATIENCE, eventually, scaled, until

__all__ = ["make_mixed"]

MODELS = {
    "OPENAI_PRIMARY_MODEL": "gpt-4.1",
    "OPENAI_SECONDARY_MODEL": "gpt-4o",
    "OPENAI_FAST_MODEL": "gpt-4.1-mini",
    "ANTHROPIC_PRIMARY_MODEL": "claude-3-5-sonnet-20241022",
    "ANTHROPIC_SECONDARY_MODEL": "claude-3-opus",
    "ANTHROPIC_FAST_MODEL": "claude-3-haiku",
}
SONNET = MODELS["ANTHROPIC_PRIMARY_MODEL"]
STRICT = {**MODELS, "JOB_MAX_ATTEMPTS": "1", "OCR_ENABLED": "false", "AI_RECOVERY_PROBE": "0"}
INTERNAL = {"X-Internal-Token": "token-of-the-dispatcher"}
SAMPLES = Path(__file__).parents[2] / "samples"
OWN_PROMPT = "The operator's own prompt."
_OPENED, _UNTIL = 12, 1
"""Places of the breaker's numbers in its packed value: when it opened, until when."""
_numbers = iter(range(1, 10_000))
Make = Callable[..., bytes]


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """One server; the services use databases of their own. It is asked for first, so that it outlives them."""
    with plain_server() as (url, _port):
        yield url.rpartition("/")[0]


@pytest.fixture(scope="module")
def service(redis_url: str, start_service: Callable[..., Server]) -> Server:
    """A service whose breakers are open for a thousandth of the source's times."""
    return start_service(
        **STRICT,
        REDIS_URL=f"{redis_url}/0",
        BREAKER_BASE_BACKOFF="30ms",
        BREAKER_MAX_BACKOFF="300ms",
        MAX_INFLIGHT_PER_MODEL="2",
        INTERNAL_TOKEN=INTERNAL["X-Internal-Token"],
        LOG_LEVEL="info",
    ).wait_ready()


@pytest.fixture(scope="module")
def patient(redis_url: str, start_service: Callable[..., Server]) -> Server:
    """A service with the source's breakers, short timeouts of both providers, and a prompt of the operator's."""
    return start_service(
        **STRICT,
        REDIS_URL=f"{redis_url}/1",
        OPENAI_TIMEOUT=scaled(1),
        ANTHROPIC_TIMEOUT=scaled(1),
        AI_SYSTEM_PROMPT=OWN_PROMPT,
        IMAGE_SEND_ALL_PAGES="true",
    ).wait_ready()


@pytest.fixture
async def patient_client(patient: Server, redis_url: str) -> AsyncIterator[Client]:
    """A client of `patient`, whose breakers are closed when a test begins."""
    with redis.Redis.from_url(f"{redis_url}/1") as server:
        server.delete(*server.keys("cb:*"), "none")
    async with aiohttp.ClientSession() as session:
        yield Client(patient.url, session)


@pytest.fixture(autouse=True)
def quiet(sim: RunningSimulator) -> None:
    sim.play({})
    sim.reset()


@pytest.fixture(scope="module")
def defaults() -> dict[str, str]:
    """Every setting as an installation without settings has it."""
    asked = [sys.executable, "-m", "quire", "config", "--json"]
    done = subprocess.run(asked, env=clean_environment(), capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    return {row["name"]: str(row["value"]) for row in (rows if isinstance(rows, list) else rows["settings"])}


def pdf(pages: int) -> tuple[bytes, list[str]]:
    """A PDF with text and, for each page, a mark that is only on that page."""
    marks = []
    with pymupdf.open() as made:
        for _ in range(pages):
            marks.append(f"mark{next(_numbers):05d}end")
            page = made.new_page(width=612, height=792)
            page.insert_text((72, 72), f"{marks[-1]} begins this page of the report.")
            for line in range(6):
                page.insert_text(
                    (72, 110 + 20 * line), f"Line {line} of {marks[-1]} says what the page is about."
                )
        return made.tobytes(), marks


async def models(client: Client) -> dict[str, dict[str, Any]]:
    return {one["model"]: one for one in (await client.get("/dispatch")).json["models"]}


async def begin(client: Client, data: bytes, **fields: str) -> str:
    answer = await client.upload(data, **{"mode": "ai", **fields})
    assert answer.status == 202, answer.text
    return str(answer.json["job_id"])


async def pages_of(client: Client, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
    return found


async def convert(client: Client, data: bytes, **fields: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The finished job and its pages. Waits first until no breaker of an earlier test is open."""

    async def closed() -> bool:
        return all(one["state"] != "open" for one in (await models(client)).values())

    await eventually(closed, "breakers that let a call through")
    return await convert_now(client, data, **fields)


async def convert_now(
    client: Client, data: bytes, **fields: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The finished job and its pages, whatever the breakers' state."""
    job = await client.over(await begin(client, data, **fields))
    assert job["status"] == "completed", job
    return job, await pages_of(client, job["job_id"])


def entries_of(redis_url: str, job_id: str) -> list[Any]:
    """Entries of the job's pages in the queue: those that wait, and those that a worker has in hand."""
    with redis.Redis.from_url(f"{redis_url}/0", decode_responses=True) as server:
        return [one for one in server.xrange("jobs:ai:pages") if one[1]["job_id"] == job_id]


async def cancel(client: Client, redis_url: str, job_id: str) -> None:
    """Cancels the job and waits until no worker has a page of it, whose call the next test would count."""
    await client.post(f"/jobs/{job_id}/cancel")
    await until(lambda: not entries_of(redis_url, job_id), "no page of the cancelled job is in hand")


async def text_of(client: Client, job_id: str) -> str:
    return (await client.get(f"/jobs/{job_id}/result?format=md")).text


async def ghost(client: Client, data: bytes, **fields: str) -> str:
    answer = await client.upload(data, path="/process_file_junior_call", **fields)
    assert answer.status == 201, answer.text
    return str(answer.json["job_id"])


async def ghost_over(client: Client, job_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/progress_spec/{job_id}")).json
        return found if found["status"] in ("success", "failed") else None

    return await eventually(ended, f"the end of {job_id}")


def saved(path: str) -> str:
    return Path(path).read_text()


def calls(sim: RunningSimulator) -> dict[str, int]:
    return {name: one["calls"] for name, one in sim.stats()["models"].items()}


async def assert_failover(client: Client, sim: RunningSimulator, fault: str) -> None:
    """Both models of the first provider are asked once, then the other provider, which answers."""
    sim.play({"rules": [{"fault": fault, "model": "gpt-*"}]})
    _, pages = await convert(client, pdf(1)[0])
    assert (pages[0]["provider"], pages[0]["model"], pages[0]["attempts"]) == ("anthropic", SONNET, 3)
    assert calls(sim) == {"gpt-4.1": 1, "gpt-4o": 1, SONNET: 1}


def rest_ms(redis_url: str, model: str) -> float:
    """How long the breaker stays open in all, from its value in Redis."""
    with redis.Redis.from_url(redis_url) as server:
        packed = server.get(f"cb:{{ai}}:openai:{model}") or b""
    values = struct.unpack_from("<17d", packed)
    return float(values[_UNTIL] - values[_OPENED])


def command(service: Server, *arguments: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", "QUIRE_URL": service.url, "DATA_DIR": str(service.data_dir)}
    done = run_quire(*arguments, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log_lines(service: Server, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    return [line for line in lines if message in str(line.get("message") or line.get("event"))]


# ---- 1. deadlines ----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-1", "At the document's deadline the job completes with the AI pages that are done"
)
@pytest.mark.requirement(
    "000-2", "At the deadline missing pages get their MuPDF text as mupdf_timeout_fallback"
)
@pytest.mark.requirement("000-3", "A job that ended at its deadline says timeout_occurred in its metadata")
@pytest.mark.requirement("000-1a", "A job that ended at its deadline has the status success")
@pytest.mark.requirement(
    "000-1b", "The message of such a job is 'Completed with partial AI results (timeout)'"
)
@pytest.mark.requirement(
    "000-1c", "ai_pages_completed and mupdf_fallback_pages count the pages of both kinds at the deadline"
)
@pytest.mark.requirement("000-1d", "missing_pages counts the pages that were not processed at the deadline")
async def test_document_completes_at_its_deadline_when_calls_hang(
    client: Client, sim: RunningSimulator, make_mixed: Make
) -> None:
    sim.play({"rules": [{"fault": "hang", "first": 2}]})
    words = [f"mark{next(_numbers):05d}end" for _ in range(5)]
    data = make_mixed(*([word, "words below"] for word in words))
    job_id = await ghost(client, data, options=json.dumps({"timeout_seconds": 5 * PATIENCE}))
    done = await ghost_over(client, job_id)
    found = done["metadata"]
    assert (done["status"], found["timeout_occurred"]) == ("success", True)
    assert done["message"].startswith("Completed with partial AI results (timeout)")
    sources = [page["source"] for page in await pages_of(client, job_id)]
    assert set(sources) == {"ai", "mupdf_timeout_fallback"}
    late = sources.count("mupdf_timeout_fallback")
    assert (found["ai_pages_completed"], found["mupdf_fallback_pages"]) == (5 - late, late)
    assert found["missing_pages"] == late
    assert all(word in done["result"] for word in words)


@pytest.mark.requirement("000-41", "DOCUMENT_PROCESSING_TIMEOUT is 3 minutes")
@pytest.mark.requirement("000-42", "REQUEST_TIMEOUT is 60 seconds for one call")
@pytest.mark.requirement(
    "000-43", "OPENAI_TIMEOUT and ANTHROPIC_TIMEOUT are REQUEST_TIMEOUT where they are not set"
)
def test_timeouts_are_those_of_the_source_when_nothing_is_set(defaults: dict[str, str]) -> None:
    assert defaults["DOCUMENT_PROCESSING_TIMEOUT"] == "3m"
    assert defaults["REQUEST_TIMEOUT"] in ("60s", "1m")
    assert (defaults["OPENAI_TIMEOUT"], defaults["ANTHROPIC_TIMEOUT"]) in (("0", "0"), ("0s", "0s"))


@pytest.mark.requirement("000-44", "A job whose pages are all done ends before its deadline")
@pytest.mark.requirement(
    "000-44a", "A job that ended in time has timeout_occurred false and no missing pages"
)
async def test_job_ends_at_once_when_all_its_pages_are_done(client: Client, make_mixed: Make) -> None:
    job_id = await ghost(client, make_mixed([f"mark{next(_numbers):05d}end", "more words"]))
    found = (await ghost_over(client, job_id))["metadata"]
    assert (found["timeout_occurred"], found["missing_pages"], found["pages_done"]) == (False, 0, 1)


@pytest.mark.requirement(
    "000-4", "A call that exceeds its timeout fails over to the secondary model of the provider"
)
@pytest.mark.requirement("000-4a", "If the secondary model hangs too, the secondary provider is asked")
@pytest.mark.requirement("000-4b", "A timeout opens the breaker of the model, as a 429 does")
@pytest.mark.requirement("000-5", "OPENAI_TIMEOUT overrides REQUEST_TIMEOUT for OpenAI")
async def test_other_provider_answers_when_both_models_of_the_first_hang(
    patient_client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang", "model": "gpt-*"}]})
    _, pages = await convert_now(patient_client, pdf(1)[0])
    assert (pages[0]["provider"], pages[0]["attempts"]) == ("anthropic", 3)
    assert calls(sim) == {"gpt-4.1": 1, "gpt-4o": 1, SONNET: 1}
    found = await models(patient_client)
    assert (found["gpt-4.1"]["state"], found["gpt-4.1"]["last_error"]) == ("open", "timeout")


@pytest.mark.requirement("000-5a", "ANTHROPIC_TIMEOUT overrides REQUEST_TIMEOUT for Anthropic")
async def test_openai_answers_when_anthropic_hangs(patient_client: Client, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "hang", "model": SONNET}, {"fault": "rate_limit", "model": "claude-*"}]})
    _, pages = await convert_now(patient_client, pdf(1)[0], engine="anthropic")
    assert pages[0]["provider"] == "openai"
    assert (await models(patient_client))[SONNET]["last_error"] == "timeout"


# ---- 2. failover -----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-6", "Failover: the tier's model, the provider's secondary model, then the other provider"
)
@pytest.mark.requirement("000-7", "A 429 fails over")
async def test_other_provider_answers_when_the_first_answers_429(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "rate_limit")


@pytest.mark.requirement("000-7a", "A 5xx fails over")
async def test_other_provider_answers_when_the_first_answers_500(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "server_error")


@pytest.mark.requirement("000-7b", "An overloaded provider (503, 529) fails over")
async def test_other_provider_answers_when_the_first_is_overloaded(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "overloaded")


@pytest.mark.requirement("000-7c", "An exhausted quota fails over")
async def test_other_provider_answers_when_the_quota_of_the_first_is_used_up(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "quota")


@pytest.mark.requirement("000-7d", "A lost connection fails over")
async def test_other_provider_answers_when_the_connection_is_lost(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "reset")


@pytest.mark.requirement("000-7e", "An answer that can't be parsed fails over")
async def test_other_provider_answers_when_the_answer_is_no_json(
    client: Client, sim: RunningSimulator
) -> None:
    await assert_failover(client, sim, "bad_json")


@pytest.mark.requirement("000-7f", "A refused API key fails over to the other provider")
async def test_other_provider_answers_when_the_key_of_the_first_is_refused(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "auth", "model": "gpt-*"}]})
    _, pages = await convert(client, pdf(1)[0])
    assert pages[0]["provider"] == "anthropic"
    found = calls(sim)
    # The provider's breaker is open for 30 ms here: a busy machine may ask its other model after that.
    assert found.pop("gpt-4o", 1) == 1
    assert found == {"gpt-4.1": 1, SONNET: 1}


@pytest.mark.requirement("000-6a", "The secondary provider is asked with its own model of the same tier")
async def test_fast_model_of_the_other_provider_answers_when_the_tier_is_fast(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-*"}]})
    _, pages = await convert(client, pdf(1)[0], model_tier="fast")
    assert pages[0]["model"] == "claude-3-haiku"
    assert calls(sim) == {"gpt-4.1-mini": 1, "gpt-4o": 1, "claude-3-haiku": 1}


@pytest.mark.requirement("000-6b", "The secondary model is not asked twice when the tier is secondary")
async def test_each_model_is_asked_once_when_the_tier_is_secondary(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    await convert(client, pdf(1)[0], model_tier="secondary")
    assert calls(sim) == {"gpt-4o": 1, "claude-3-opus": 1}


@pytest.mark.requirement("000-8", "When every candidate has failed, the page is not retried")
@pytest.mark.requirement("000-8a", "A page that every candidate failed gets its MuPDF text as mupdf_fallback")
@pytest.mark.requirement("000-9", "A page whose AI failed is counted in mupdf_fallback_count")
@pytest.mark.requirement("000-9a", "The page says which errors it met and how many calls it has had")
@pytest.mark.requirement(
    "000-40", "A log line of a failed call has job_id, page, provider, model and the error"
)
@pytest.mark.requirement("000-40a", "The opening of a breaker is logged with provider, model and cooldown")
async def test_page_has_its_own_text_when_every_candidate_fails(
    service: Server, client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    data, marks = pdf(1)
    job, pages = await convert(client, data)
    assert (pages[0]["source"], pages[0]["attempts"]) == ("mupdf_fallback", 3)
    assert "server" in pages[0]["reason"]
    assert job["metadata"]["mupdf_fallback_count"] == 1
    assert calls(sim) == {"gpt-4.1": 1, "gpt-4o": 1, SONNET: 1}
    assert marks[0] in await text_of(client, job["job_id"])
    failed = [one for one in log_lines(service, "AI call failed") if one.get("job_id") == job["job_id"]]
    assert {(one["page"], one["provider"], one["model"], one["error_class"]) for one in failed} == {
        (1, "openai", "gpt-4.1", "server"),
        (1, "openai", "gpt-4o", "server"),
        (1, "anthropic", SONNET, "server"),
    }
    opened = log_lines(service, "breaker open")[-3:]
    assert {one["model"] for one in opened} == {"gpt-4.1", "gpt-4o", SONNET}
    assert all(one["cooldown_s"] > 0 for one in opened)


@pytest.mark.requirement(
    "000-10", "A request that the provider rejects as invalid is not sent to another model"
)
@pytest.mark.requirement("000-10a", "A rejected request opens no breaker: the next page is sent to the model")
async def test_page_gets_its_own_text_at_once_when_the_request_is_rejected(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "rejected", "last": 1}]})
    _, pages = await convert(client, pdf(1)[0])
    assert (pages[0]["source"], "validation" in pages[0]["reason"]) == ("mupdf_fallback", True)
    assert calls(sim) == {"gpt-4.1": 1}
    assert (await models(client))["gpt-4.1"]["state"] == "closed"
    _, pages = await convert_now(client, pdf(1)[0])
    assert pages[0]["model"] == "gpt-4.1"


# ---- 3. breakers -----------------------------------------------------------------------------------------


@pytest.mark.requirement("000-11", "A failure opens the breaker of that model for 30 seconds")
@pytest.mark.requirement("000-11a", "The breaker of another model of the provider stays closed")
@pytest.mark.requirement(
    "000-12", "An open breaker is not waited for: the page goes to the next model at once"
)
@pytest.mark.requirement(
    "000-13", "quire dispatch prints state, time of the next try and failures of each breaker"
)
@pytest.mark.requirement("000-56", "Breakers are keys cb:…:provider:model in Redis, and expire")
async def test_model_gets_no_call_when_its_breaker_is_open(
    patient: Server, patient_client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1"}]})
    await convert_now(patient_client, pdf(1)[0])
    found = await models(patient_client)
    assert (found["gpt-4.1"]["state"], found["gpt-4.1"]["incidents"]) == ("open", 1)
    assert found["gpt-4o"]["state"] == "closed"
    assert rest_ms(f"{redis_url}/1", "gpt-4.1") == pytest.approx(30_000, abs=1)
    _, pages = await convert_now(patient_client, pdf(1)[0])
    assert (pages[0]["model"], pages[0]["attempts"]) == ("gpt-4o", 1)
    assert calls(sim)["gpt-4.1"] == 1
    shown = await asyncio.to_thread(command, patient, "dispatch")
    row = next(line for line in shown.splitlines() if line.startswith("openai:gpt-4.1 "))
    assert row.split()[1] == "open"
    assert 0 < int(row.split()[2]) <= 30
    assert row.split()[4] == "1"
    with redis.Redis.from_url(f"{redis_url}/1") as server:
        assert server.pttl("cb:{ai}:openai:gpt-4.1") > 0


@pytest.mark.requirement("000-11b", "The time doubles with each failure in a row: 1, 2, 4, 8 times the base")
@pytest.mark.requirement("000-11c", "The time never exceeds BREAKER_MAX_BACKOFF")
@pytest.mark.requirement("000-14", "Failures in a row are counted in the breaker")
@pytest.mark.requirement("000-14a", "A success closes the breaker and resets its failures")
async def test_breaker_rests_longer_when_failures_follow_each_other(
    client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    await convert(client, pdf(1)[0])
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1"}]})
    rests = []
    for failures in range(1, 6):
        await convert(client, pdf(1)[0])
        rests.append(round(rest_ms(f"{redis_url}/0", "gpt-4.1")))
        assert (await models(client))["gpt-4.1"]["incidents"] == failures
    assert rests == [30, 60, 120, 240, 300]
    sim.play({})
    _, pages = await convert(client, pdf(1)[0])
    assert pages[0]["model"] == "gpt-4.1"
    found = (await models(client))["gpt-4.1"]
    assert (found["state"], found["incidents"]) == ("closed", 0)


@pytest.mark.requirement("000-15", "When its time is over the breaker is half open: one probe goes out")
@pytest.mark.requirement(
    "000-15a", "While the probe is out other pages go to other models, and none is sent to this one"
)
async def test_one_page_goes_to_the_model_when_its_breaker_is_half_open(
    client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1", "last": 1}]})
    await convert(client, pdf(1)[0])

    async def half_open() -> bool:
        return (await models(client))["gpt-4.1"]["state"] == "half_open"

    await eventually(half_open, "the breaker is half open")
    sim.play({"rules": [{"fault": "hang", "model": "gpt-4.1"}]})
    job_id = await begin(client, pdf(4)[0])

    async def others_are_read() -> bool:
        return (await client.get(f"/jobs/{job_id}")).json["pages_completed"] == 3

    await eventually(others_are_read, "three pages are read by others")
    assert calls(sim)["gpt-4.1"] == 2
    await cancel(client, redis_url, job_id)


@pytest.mark.requirement(
    "000-16", "With every breaker open a page falls back to its MuPDF text without a call"
)
async def test_page_falls_back_without_a_call_when_every_breaker_is_open(
    patient_client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    await convert_now(patient_client, pdf(1)[0])
    before = calls(sim)
    assert len(before) == 3
    _, pages = await convert_now(patient_client, pdf(1)[0])
    assert (pages[0]["source"], "ai_unavailable" in pages[0]["reason"]) == ("mupdf_fallback", True)
    assert calls(sim) == before


@pytest.mark.requirement(
    "000-16a", "A model that is back is used before its breaker's time is over, because probes test it"
)
@pytest.mark.requirement(
    "000-16b", "A document of the vault that no model could classify is classified when a model is back"
)
async def test_document_is_classified_by_itself_when_a_model_is_back(
    start_service: Callable[..., Server], sim: RunningSimulator, redis_url: str
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    long = {"BREAKER_BASE_BACKOFF": "1h", "BREAKER_MAX_BACKOFF": "1h", "CLASSIFY_RETRY_DELAY": "1h"}
    one = start_service(
        **{**MODELS, **long, "AI_RECOVERY_PROBE": "200ms"}, REDIS_URL=f"{redis_url}/2"
    ).wait_ready()
    async with aiohttp.ClientSession() as session:
        client = Client(one.url, session)
        letter = f"# Delivery of turbine {next(_numbers)}\n\nIt leaves on Monday.\n"
        answer = await client.upload(letter.encode(), name="letter.md", path="/documents")
        [document] = answer.json["documents"]

        async def shown(*, titled: bool) -> dict[str, Any] | None:
            found: dict[str, Any] = (await client.get(f"/documents/{document['document_id']}")).json
            return found if found["status"] == "completed" and bool(found["title"]) is titled else None

        async def given_up() -> bool:
            found = await shown(titled=False)
            return found is not None and found["error"]["code"] in ("server", "ai_unavailable")

        await until(given_up, "the document is usable and says that no model could classify it")
        sim.play({})
        assert (await eventually(lambda: shown(titled=True), "the document is classified"))["error"] is None


# ---- 4. workers ------------------------------------------------------------------------------------------


@pytest.mark.requirement("000-17", "At most MAX_INFLIGHT_PER_MODEL calls to a model at a time")
@pytest.mark.requirement("000-18", "A page that finds a model at its cap goes to another model")
async def test_calls_stay_under_the_cap_when_many_pages_wait(client: Client, sim: RunningSimulator) -> None:
    sim.play({"models": [{"model": "*", "latency": 0.2}]})
    _, pages = await convert(client, pdf(8)[0])
    assert {page["source"] for page in pages} == {"ai"}
    seen = sim.stats()["models"]
    assert all(one["in_flight_max"] <= 2 for one in seen.values())
    assert len(seen) > 1


@pytest.mark.requirement(
    "000-18a", "A page that finds every model at its cap holds no worker: the next job is taken up"
)
async def test_next_job_is_done_when_all_models_of_the_first_are_busy(
    client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    hanging = ("gpt-4.1", "gpt-4o", SONNET)
    sim.play({"rules": [{"fault": "hang", "model": name} for name in hanging]})
    waiting = await begin(client, pdf(20)[0])

    async def all_busy() -> bool:  # a 429 of an earlier test may have halved what a model is allowed
        found = await models(client)
        return all(found[name]["in_flight"] >= int(found[name]["in_flight_allowed"]) for name in hanging)

    await eventually(all_busy, "every model has as many calls as it may")
    _, pages = await convert_now(client, pdf(1)[0], model_tier="fast", engine="anthropic")
    assert pages[0]["model"] == "claude-3-haiku"
    assert (await client.get(f"/jobs/{waiting}")).json["status"] == "processing"
    await cancel(client, redis_url, waiting)


@pytest.mark.requirement("000-19", "A page that was processed already is not processed again")
@pytest.mark.requirement(
    "000-19a", "The entries of processed pages are acknowledged and removed from the queue"
)
async def test_no_call_is_made_when_the_document_comes_again(
    client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    data, _ = pdf(2)
    job, _ = await convert(client, data)
    again = await client.upload(data, mode="ai")
    assert (again.json["job_id"], again.json["deduplicated"]) == (job["job_id"], True)
    _, pages = await convert(client, data, force="true")
    assert {page["source"] for page in pages} == {"cache"}
    assert sim.stats()["total"]["calls"] == 2

    await until(lambda: not entries_of(redis_url, job["job_id"]), "no entry of the job is left")


# ---- 5. results and callbacks ----------------------------------------------------------------------------


@pytest.mark.requirement("000-20", "POST /internal/page_done stores the text, provider and model of a page")
@pytest.mark.requirement("000-20a", "page_done records the tokens that it reports")
@pytest.mark.requirement("000-20b", "A report moves the job's progress")
@pytest.mark.requirement("000-21", "POST /internal/page_failed gives the page its MuPDF text")
@pytest.mark.requirement("000-22", "The job is finalized as soon as all pages are done or failed, not before")
@pytest.mark.requirement("000-23", "A report after the end of the job changes nothing")
@pytest.mark.requirement("000-23a", "Reports need the operator's token")
async def test_reports_finish_the_job_when_an_external_dispatcher_sends_them(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    data, marks = pdf(2)
    job_id = await begin(client, data)

    async def done() -> bool:
        body = {"text": "Reported text", "provider": "other", "model": "m", "tokens_used": 7}
        place = f"/internal/page_done?job_id={job_id}&page_id=1"
        answer = await client.post(place, json=body, headers=INTERNAL)
        return answer.status == 200 and bool(answer.json["accepted"])

    async def failed() -> bool:
        place = f"/internal/page_failed?job_id={job_id}&page_id=2"
        answer = await client.post(place, json={}, headers=INTERNAL)
        return answer.status == 200 and bool(answer.json["accepted"])

    stranger = await client.post(f"/internal/page_failed?job_id={job_id}&page_id=1", json={})
    assert stranger.status == 403
    await eventually(done, "page 1 is reported")
    half = (await client.get(f"/jobs/{job_id}")).json
    assert (half["status"], half["progress"]) == ("processing", 50)
    await eventually(failed, "page 2 is reported")
    await client.over(job_id)
    pages = await pages_of(client, job_id)
    assert (pages[0]["source"], pages[0]["provider"], pages[0]["model"]) == ("ai", "other", "m")
    assert pages[0]["tokens_in"] + pages[0]["tokens_out"] == 7
    assert pages[1]["source"] == "mupdf_fallback"
    text = await text_of(client, job_id)
    assert not await done()
    assert "Reported text" in text
    assert marks[1] in text
    assert await text_of(client, job_id) == text


@pytest.mark.requirement("000-24", "The MuPDF text of every page is kept before AI is asked")
async def test_own_text_can_be_read_when_every_call_hangs(
    client: Client, sim: RunningSimulator, redis_url: str
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    data, marks = pdf(2)
    job_id = await begin(client, data)

    async def usable() -> bool:
        answer = await client.get(f"/jobs/{job_id}/result?partial=1")
        return answer.status == 200 and all(mark in answer.json["result"]["markdown"] for mark in marks)

    await eventually(usable, "the document's own text")
    assert (await client.get(f"/jobs/{job_id}")).json["status"] == "processing"
    await cancel(client, redis_url, job_id)


@pytest.mark.requirement("000-24a", "A page that has no text of its own and that AI failed says so")
async def test_page_says_that_it_has_no_text_when_ai_fails_on_a_scan(
    client: Client, sim: RunningSimulator, make_mixed: Make
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    _job, _pages = await convert(client, make_mixed(f"mark{next(_numbers):05d}end", None), mode="auto")
    assert "Page 2" in (await text_of(client, _job["job_id"])).split("---")[1]


@pytest.mark.requirement("000-25", "The result has every page in order, AI and MuPDF texts mixed")
@pytest.mark.requirement("000-26", "total_pages counts the pages of the document")
@pytest.mark.requirement("000-26a", "pages_done counts the pages that are processed")
@pytest.mark.requirement("000-26b", "pages_failed counts the pages that AI failed")
@pytest.mark.requirement("000-26c", "ai_pages counts the pages that were sent to AI")
@pytest.mark.requirement("000-26d", "text_only_pages counts the pages that were read locally")
@pytest.mark.requirement("000-26e", "ai_pages_succeeded and mupdf_fallback_count are in the metadata")
@pytest.mark.requirement("000-31", "Only pages with graphics go to AI")
@pytest.mark.requirement(
    "000-32", "A document with text pages and pages with graphics ends with both kinds read"
)
@pytest.mark.requirement("000-39", "The aggregated text has a heading === Page N === above each page")
@pytest.mark.requirement("000-39a", "The pages of the aggregated text are separated by an empty line")
@pytest.mark.requirement("000-39b", "The aggregated text of an upload is saved locally: result_local_path")
@pytest.mark.requirement("000-39c", "result_text_len is the length of the aggregated text")
@pytest.mark.requirement("000-39d", "A finished job has status success, progress 100 and an end time")
async def test_result_has_all_pages_in_order_when_some_fall_back(
    client: Client, sim: RunningSimulator, make_mixed: Make
) -> None:
    await convert(client, pdf(1)[0])
    sim.play({"rules": [{"fault": "rejected", "last": 1}]})
    words = [f"mark{next(_numbers):05d}end" for _ in range(5)]
    data = make_mixed(words[0], [words[1], "picture"], words[2], [words[3], "picture"], [words[4], "picture"])
    before = sim.stats()["total"]["calls"]
    job_id = await ghost(client, data)
    done = await ghost_over(client, job_id)
    found, text = done["metadata"], done["result"]
    assert (found["total_pages"], found["pages_done"]) == (5, 5)
    assert (found["ai_pages"], found["text_only_pages"], found["pages_failed"]) == (3, 2, 1)
    assert (found["ai_pages_succeeded"], found["mupdf_fallback_count"]) == (2, 1)
    assert sim.stats()["total"]["calls"] - before == 3
    sources = [page["source"] for page in await pages_of(client, job_id)]
    assert sorted(sources) == ["ai", "ai", "local", "local", "mupdf_fallback"]
    headings = [f"=== Page {number} ===" for number in range(1, 6)]
    places = [text.index(part) for pair in zip(headings, words, strict=True) for part in pair]
    assert places == sorted(places)
    assert text.startswith("=== Page 1 ===\n")
    assert all(f"\n\n{heading}\n" in text for heading in headings[1:])
    assert saved(found["result_local_path"]) == text
    assert found["result_text_len"] == len(text.encode())
    assert (done["status"], done["progress"]) == ("success", 100)
    assert done["end_time"] >= done["start_time"]


# ---- 6, 7 and 9. what a model gets -------------------------------------------------------------------------


def sent(sim: RunningSimulator, model: str) -> tuple[str, str, str]:
    """The system prompt, the text and the picture's address of the latest call to a model of OpenAI."""
    system, user = sim.request(model)["messages"]
    parts = {part["type"]: part for part in user["content"]}
    return system["content"], parts["text"]["text"], parts["image_url"]["image_url"]["url"]


@pytest.mark.requirement("000-27", "The default prompt asks for all visible text of the current page")
@pytest.mark.requirement(
    "000-27a", "The prompt asks to keep reading order and structure (tables, lists, formulas)"
)
@pytest.mark.requirement("000-27b", "The prompt asks for the exact wording")
@pytest.mark.requirement("000-27c", "The prompt asks for one column")
@pytest.mark.requirement("000-27d", "The prompt asks for descriptions of figures in square brackets")
@pytest.mark.requirement("000-27e", "The prompt allows context only to understand, never to replace the page")
@pytest.mark.requirement("000-27f", "The prompt asks to leave out headers, footers and watermarks")
@pytest.mark.requirement("000-27g", "The prompt forbids introductions and comments")
@pytest.mark.requirement("000-33", "The page's own text is sent, marked as the current page")
@pytest.mark.requirement("000-33a", "The text of the pages before and after is sent, marked as context")
@pytest.mark.requirement("000-33b", "Pages that are further away than IMAGE_CONTEXT_RADIUS are not sent")
@pytest.mark.requirement("000-36a", "The picture of the page is sent as JPEG in base64")
@pytest.mark.requirement("000-36b", "A letter page at 100 dpi is a picture of 850 × 1100 pixels")
async def test_model_gets_prompt_picture_and_context_when_a_page_is_read(
    client: Client, sim: RunningSimulator
) -> None:
    data, marks = pdf(5)
    await convert(client, data, pages="3")
    prompt, text, picture = sent(sim, "gpt-4.1")
    for wanted in (
        *("all the text", "current page", "order", "headings, lists, tables", "formulas", "exactly"),
        *("one column", "square brackets", "context", "never replaces", "headers and footers", "watermarks"),
        *("no introduction", "begin with the first line"),
    ):
        assert wanted in prompt, wanted
    before, current, after = (text.split(f"=== Page {n} ")[1].split("=== Page")[0] for n in (2, 3, 4))
    assert before.startswith("(context) ===\n")
    assert current.startswith("(current) ===\n")
    assert after.startswith("(context) ===\n")
    assert (marks[1] in before, marks[2] in current, marks[3] in after) == (True, True, True)
    assert marks[0] not in text
    assert marks[4] not in text
    head, _, encoded = picture.partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(BytesIO(base64.b64decode(encoded))) as image:
        assert (image.format, image.size, image.mode) == ("JPEG", (850, 1100), "RGB")


@pytest.mark.requirement("000-33c", "The context is at most IMAGE_MAX_CONTEXT_BYTES long")
async def test_context_is_cut_when_the_neighbours_are_long(client: Client, sim: RunningSimulator) -> None:
    with pymupdf.open() as made:
        for number in range(3):
            page = made.new_page()
            for line in range(70):
                words = f"page {number} line {line} " + "long words here and there " * 3
                page.insert_text((20, 20 + 11 * line), words, fontsize=8)
        data = made.tobytes()
    await convert(client, data, pages="2")
    _, text, _ = sent(sim, "gpt-4.1")
    before, _, rest = text.partition("=== Page 2 (current) ===")
    context = before + rest.partition("=== Page 3 (context) ===")[2]
    assert 2_000 < len(context.encode()) <= 3_000 + 100


@pytest.mark.requirement("000-45", "A request's own prompt is sent instead of the default")
async def test_prompt_of_the_request_is_sent_when_it_has_one(
    client: Client, sim: RunningSimulator, make_mixed: Make
) -> None:
    data = make_mixed([f"mark{next(_numbers):05d}end", "picture"])
    await ghost_over(client, await ghost(client, data, ai_prompt="Copy what you see."))
    assert sent(sim, "gpt-4.1")[0] == "Copy what you see."


@pytest.mark.requirement("000-46", "AI_SYSTEM_PROMPT replaces the default prompt")
@pytest.mark.requirement("000-31a", "IMAGE_SEND_ALL_PAGES sends pages of plain text too")
async def test_prompt_of_the_operator_is_sent_when_it_is_set(
    patient_client: Client, sim: RunningSimulator
) -> None:
    _, pages = await convert_now(patient_client, pdf(1)[0], mode="auto")
    assert pages[0]["source"] == "ai"
    assert sent(sim, "gpt-4.1")[0] == OWN_PROMPT


@pytest.mark.requirement(
    "000-28", "engine and model_tier choose the model: primary, secondary and fast of both providers"
)
@pytest.mark.parametrize(
    ("engine", "tier", "model"),
    [
        ("openai", "primary", "gpt-4.1"),
        ("openai", "secondary", "gpt-4o"),
        ("openai", "fast", "gpt-4.1-mini"),
        ("anthropic", "primary", SONNET),
        ("anthropic", "secondary", "claude-3-opus"),
        ("anthropic", "fast", "claude-3-haiku"),
    ],
)
async def test_model_is_that_of_the_tier_when_the_request_names_one(
    client: Client, engine: str, tier: str, model: str
) -> None:
    _, pages = await convert(client, pdf(1)[0], engine=engine, model_tier=tier)
    assert (pages[0]["provider"], pages[0]["model"]) == (engine, model)


@pytest.mark.requirement(
    "000-28a", "POST /process_file_junior_call takes model_tier; without it it is primary"
)
async def test_tier_is_primary_when_the_request_names_none(client: Client, make_mixed: Make) -> None:
    for tier, model in (("secondary", "gpt-4o"), ("", "gpt-4.1")):
        data = make_mixed([f"mark{next(_numbers):05d}end", "picture"])
        job_id = await ghost(client, data, **({"model_tier": tier} if tier else {}))
        assert (await ghost_over(client, job_id))["metadata"]["model_tier"] == (tier or "primary")
        assert (await pages_of(client, job_id))[0]["model"] == model


@pytest.mark.requirement("000-29", "Failover from Anthropic ends at OpenAI with the same tier")
async def test_openai_answers_with_the_tier_when_anthropic_fails(
    client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "claude-*"}]})
    _, pages = await convert(client, pdf(1)[0], engine="anthropic", model_tier="fast")
    assert (pages[0]["provider"], pages[0]["model"]) == ("openai", "gpt-4.1-mini")


# ---- 8. settings -----------------------------------------------------------------------------------------


@pytest.mark.requirement("000-47", "BREAKER_BASE_BACKOFF is 30 seconds")
@pytest.mark.requirement("000-47a", "BREAKER_MAX_BACKOFF is 5 minutes")
@pytest.mark.requirement("000-48", "WORKER_CONCURRENCY is 8")
@pytest.mark.requirement("000-49", "IMAGE_SEND_ALL_PAGES is false")
@pytest.mark.requirement("000-49a", "IMAGE_DPI is 100")
@pytest.mark.requirement("000-49b", "IMAGE_COLOR is rgb")
@pytest.mark.requirement("000-49c", "IMAGE_FORMAT is jpeg")
@pytest.mark.requirement("000-49d", "IMAGE_JPEG_QUALITY is 70")
@pytest.mark.requirement("000-49e", "IMAGE_CONTEXT_RADIUS is 1")
@pytest.mark.requirement("000-49f", "IMAGE_MAX_CONTEXT_BYTES is 3000")
@pytest.mark.requirement("000-50", "PRIMARY_ENGINE is openai")
@pytest.mark.requirement("000-50a", "SECONDARY_ENGINE is anthropic")
@pytest.mark.requirement(
    "000-37a", "MAX_INFLIGHT_PER_MODEL, OPENAI_*_MODEL and ANTHROPIC_*_MODEL are settings"
)
def test_defaults_are_those_of_the_source_when_nothing_is_set(defaults: dict[str, str]) -> None:
    wanted = {
        "BREAKER_BASE_BACKOFF": "30s",
        "BREAKER_MAX_BACKOFF": "5m",
        "WORKER_CONCURRENCY": "8",
        "IMAGE_SEND_ALL_PAGES": "false",
        "IMAGE_DPI": "100",
        "IMAGE_COLOR": "rgb",
        "IMAGE_FORMAT": "jpeg",
        "IMAGE_JPEG_QUALITY": "70",
        "IMAGE_CONTEXT_RADIUS": "1",
        "PRIMARY_ENGINE": "openai",
        "SECONDARY_ENGINE": "anthropic",
    }
    assert {name: defaults[name] for name in wanted} == wanted
    assert defaults["IMAGE_MAX_CONTEXT_BYTES"] in ("3000", "3000B", "3KB", "3.0KB")
    assert {*MODELS, "MAX_INFLIGHT_PER_MODEL"} <= defaults.keys()


# ---- 12 and 13. metrics, no pictures on disk ---------------------------------------------------------------


@pytest.mark.requirement("000-34", "Pictures of pages stay in memory: none is written to disk")
async def test_no_picture_is_on_disk_when_pages_were_read_by_ai(service: Server, client: Client) -> None:
    await convert(client, pdf(2)[0])
    files = files_below(service.data_dir)
    assert files
    assert not [path for path, content in files.items() if content[:3] == b"\xff\xd8\xff"]


@pytest.mark.requirement("000-35", "GET /metrics counts the calls of each model by outcome")
@pytest.mark.requirement("000-35a", "Failovers can be seen in GET /metrics: failed calls by their error")
@pytest.mark.requirement("000-35b", "GET /metrics has the durations of the calls")
async def test_calls_are_in_the_metrics_when_pages_were_read(client: Client, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "claude-3-haiku"}]})
    await convert(client, pdf(1)[0], engine="anthropic", model_tier="fast")
    shown = (await client.get("/metrics")).text
    model = 'model="claude-3-haiku"'
    counted = [line for line in shown.splitlines() if line.startswith("ai_calls_total{") and model in line]
    assert any('outcome="server"' in line for line in counted), counted
    assert 'outcome="ok"' in shown
    assert "ai_call_duration_seconds_count{" in shown


@pytest.mark.requirement("000-35c", "Timeouts of models are counted in GET /metrics")
async def test_timeouts_are_in_the_metrics_when_a_model_hangs(
    patient_client: Client, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang", "model": "gpt-4.1-mini"}]})
    _, pages = await convert_now(patient_client, pdf(1)[0], model_tier="fast")
    assert pages[0]["model"] == "gpt-4o"
    shown = (await patient_client.get("/metrics")).text.splitlines()
    rows = [line for line in shown if line.startswith("ai_calls_total{") and 'outcome="timeout"' in line]
    assert any('model="gpt-4.1-mini"' in line for line in rows), rows
