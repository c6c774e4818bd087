"""Source 000: the AI dispatcher. Deadlines, failover, breakers, calls in flight, and the local text as fallback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pymupdf
import pytest

from quire.simulator.simulator_thread import RunningSimulator
from tests.conformance.running_service import HttpClient, RunningService, eventually

MODELS = {
    "OPENAI_PRIMARY_MODEL": "gpt-4.1",
    "OPENAI_SECONDARY_MODEL": "gpt-4o",
    "OPENAI_FAST_MODEL": "gpt-4.1-mini",
    "ANTHROPIC_PRIMARY_MODEL": "claude-3-5-sonnet-20241022",
    "ANTHROPIC_SECONDARY_MODEL": "claude-3-opus",
    "ANTHROPIC_FAST_MODEL": "claude-3-haiku",
}
SONNET = MODELS["ANTHROPIC_PRIMARY_MODEL"]
SETTINGS = {
    **MODELS,
    "JOB_MAX_ATTEMPTS": "1",
    "BREAKER_BASE_BACKOFF": "50ms",
    "BREAKER_MAX_BACKOFF": "50ms",
    "MAX_INFLIGHT_PER_MODEL": "2",
    "INTERNAL_TOKEN": "token-of-the-dispatcher",
}
INTERNAL = {"X-Internal-Token": "token-of-the-dispatcher"}
SAMPLES = Path(__file__).parents[2] / "samples"
_numbers = iter(range(1, 10_000))


def pdf(pages: int) -> tuple[bytes, list[str]]:
    """A PDF with text and, for each page, a mark that is only on that page."""
    marks = []
    with pymupdf.open() as made:
        for _ in range(pages):
            marks.append(f"mark{next(_numbers):05d}end")
            page = made.new_page()
            page.insert_text((72, 72), f"{marks[-1]} begins this page of the report.")
            for line in range(6):
                page.insert_text(
                    (72, 110 + 20 * line), f"Line {line} of {marks[-1]} says what the page is about."
                )
        return made.tobytes(), marks


@pytest.fixture(autouse=True)
def quiet(sim: RunningSimulator) -> None:
    sim.play({})
    sim.reset()


@pytest.fixture(scope="module")
def patient(start_service: Callable[..., RunningService]) -> RunningService:
    """A service whose breakers stay open for the source's 30 s and longer."""
    settings = {**MODELS, "JOB_MAX_ATTEMPTS": "1", "OPENAI_TIMEOUT": "1s", "BREAKER_BASE_BACKOFF": "30s"}
    return start_service(**settings).wait_ready()


@pytest.fixture
async def patient_client(patient: RunningService) -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession() as session:
        yield HttpClient(patient.url, session)


async def models(client: HttpClient) -> dict[str, dict[str, Any]]:
    return {one["model"]: one for one in (await client.get("/dispatch")).json["models"]}


async def begin(client: HttpClient, data: bytes, **fields: str) -> str:
    answer = await client.upload(data, **{"mode": "ai", **fields})
    assert answer.status == 202, answer.text
    return str(answer.json["job_id"])


async def convert(
    client: HttpClient, data: bytes, **fields: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The finished job and its pages. Waits first until no breaker of an earlier test is open."""

    async def closed() -> bool:
        return all(one["state"] != "open" for one in (await models(client)).values())

    await eventually(closed, "breakers that let a call through")
    job = await client.finished(await begin(client, data, **fields))
    assert job["status"] == "completed", job
    return job, (await client.get(f"/jobs/{job['job_id']}/pages")).json["pages"]


def calls(sim: RunningSimulator) -> dict[str, int]:
    return {name: one["calls"] for name, one in sim.stats()["models"].items()}


def command(service: RunningService, *arguments: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", "QUIRE_URL": service.url, "DATA_DIR": str(service.data_dir)}
    done = subprocess.run(
        [sys.executable, "-m", "quire", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


# ---- 1. deadlines ----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-1", "At the document's deadline the job completes with the AI pages that are done"
)
@pytest.mark.requirement(
    "000-2", "At the deadline missing pages get their MuPDF text as mupdf_timeout_fallback"
)
@pytest.mark.requirement("000-3", "A job that ended at its deadline says timeout_occurred in its metadata")
async def test_document_completes_at_its_deadline_when_calls_hang(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang", "first": 2}]})
    data, marks = pdf(3)
    job, pages = await convert(client, data, timeout_seconds="6")
    assert job["metadata"]["timeout_occurred"] is True
    assert {page["source"] for page in pages} == {"ai", "mupdf_timeout_fallback"}
    text = (await client.get(f"/jobs/{job['job_id']}/result?format=md")).text
    assert all(mark in text for mark in marks)


@pytest.mark.requirement(
    "000-4", "A call that exceeds its timeout fails over to the secondary model of the provider"
)
@pytest.mark.requirement("000-5", "OPENAI_TIMEOUT and ANTHROPIC_TIMEOUT override REQUEST_TIMEOUT")
async def test_secondary_model_answers_when_the_first_hangs(
    patient: RunningService, patient_client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang", "model": "gpt-4.1-mini"}]})
    _, pages = await convert(patient_client, pdf(1)[0], model_tier="fast")
    assert (pages[0]["model"], pages[0]["attempts"]) == ("gpt-4o", 2)


# ---- 2. failover -----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-6", "Failover: the tier's model, the provider's secondary model, then the other provider"
)
@pytest.mark.requirement("000-7", "429, 5xx, overload, quota and network errors fail over")
@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "overloaded", "quota", "reset", "bad_json"])
async def test_other_provider_answers_when_both_models_of_the_first_fail(
    client: HttpClient, sim: RunningSimulator, fault: str
) -> None:
    sim.play({"rules": [{"fault": fault, "model": "gpt-*"}]})
    _, pages = await convert(client, pdf(1)[0])
    assert (pages[0]["provider"], pages[0]["model"], pages[0]["attempts"]) == ("anthropic", SONNET, 3)
    assert calls(sim) == {"gpt-4.1": 1, "gpt-4o": 1, SONNET: 1}


@pytest.mark.requirement(
    "000-8", "When every candidate has failed, the page is not retried and gets its MuPDF text"
)
@pytest.mark.requirement(
    "000-9", "A page whose AI failed is counted as a fallback and its text is in the result"
)
async def test_page_has_its_own_text_when_every_candidate_fails(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    data, marks = pdf(1)
    job, pages = await convert(client, data)
    assert pages[0]["source"] == "mupdf_fallback"
    assert job["metadata"]["mupdf_fallback_count"] == 1
    assert calls(sim) == {"gpt-4.1": 1, "gpt-4o": 1, SONNET: 1}
    assert marks[0] in (await client.get(f"/jobs/{job['job_id']}/result?format=md")).text


@pytest.mark.requirement(
    "000-10", "A request that the provider rejects as invalid is not sent to another model"
)
async def test_page_gets_its_own_text_at_once_when_the_request_is_rejected(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "rejected"}]})
    _, pages = await convert(client, pdf(1)[0])
    assert pages[0]["source"] == "mupdf_fallback"
    assert calls(sim) == {"gpt-4.1": 1}


# ---- 3. breakers -----------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-11", "A failure opens the breaker of that model for BREAKER_BASE_BACKOFF (30 s)"
)
@pytest.mark.requirement(
    "000-12", "An open breaker is not waited for: the page goes to the next model at once"
)
async def test_model_gets_no_call_when_its_breaker_is_open(
    patient: RunningService, patient_client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1"}]})
    await client_pages(patient_client)
    state = (await models(patient_client))["gpt-4.1"]
    assert (state["state"], state["incidents"]) == ("open", 1)
    assert 0 < state["opens_in_seconds"] <= 30
    pages = await client_pages(patient_client)
    assert pages[0]["model"] == "gpt-4o"
    assert calls(sim)["gpt-4.1"] == 1


async def client_pages(client: HttpClient) -> list[dict[str, Any]]:
    """Pages of a new document; breakers may be open."""
    job = await client.finished(await begin(client, pdf(1)[0]))
    found: list[dict[str, Any]] = (await client.get(f"/jobs/{job['job_id']}/pages")).json["pages"]
    return found


@pytest.mark.requirement(
    "000-13", "Breaker state, time of the next try and failures can be read by an operator"
)
async def test_dispatch_command_prints_the_breaker_when_it_is_open(
    patient: RunningService, patient_client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1"}]})
    await client_pages(patient_client)
    shown = await asyncio.to_thread(command, patient, "dispatch")
    row = next(line for line in shown.splitlines() if line.startswith("openai:gpt-4.1 "))
    assert "open" in row
    assert "server" in row
    found = json.loads(await asyncio.to_thread(command, patient, "dispatch", "--json"))
    assert any(one["state"] == "open" and one["incidents"] for one in found["models"])


@pytest.mark.requirement("000-14", "Failures in a row are counted; a success closes the breaker")
@pytest.mark.requirement("000-15", "After the cooldown one probe decides whether the breaker closes")
async def test_breaker_closes_when_its_probe_succeeds(client: HttpClient, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "gpt-4.1", "last": 2}]})
    await convert(client, pdf(1)[0])
    await convert(client, pdf(1)[0])
    assert (await models(client))["gpt-4.1"]["incidents"] >= 2
    _, pages = await convert(client, pdf(1)[0])
    assert pages[0]["model"] == "gpt-4.1"
    assert (await models(client))["gpt-4.1"]["state"] == "closed"


@pytest.mark.requirement(
    "000-16", "With every breaker open a page falls back to its MuPDF text without a call"
)
async def test_page_falls_back_without_a_call_when_every_breaker_is_open(
    start_service: Callable[..., RunningService], sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    one = start_service(**MODELS, JOB_MAX_ATTEMPTS="1", BREAKER_BASE_BACKOFF="1h").wait_ready()
    async with aiohttp.ClientSession() as session:
        client = HttpClient(one.url, session)
        await client_pages(client)
        before = calls(sim)
        pages = await client_pages(client)
    assert pages[0]["source"] == "mupdf_fallback"
    assert calls(sim) == before
    one.stop()


# ---- 4. workers ------------------------------------------------------------------------------------------


@pytest.mark.requirement("000-17", "At most MAX_INFLIGHT_PER_MODEL calls to a model at a time")
@pytest.mark.requirement("000-18", "A page that finds a model at its cap goes to another model")
async def test_calls_stay_under_the_cap_when_many_pages_wait(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "*", "latency": 0.3}]})
    _, pages = await convert(client, pdf(8)[0])
    assert {page["source"] for page in pages} == {"ai"}
    seen = sim.stats()["models"]
    assert all(one["in_flight_max"] <= 2 for one in seen.values())
    assert len(seen) > 1


@pytest.mark.requirement("000-19", "A page that was processed already is not processed again")
async def test_no_call_is_made_when_the_document_comes_again(
    client: HttpClient, sim: RunningSimulator
) -> None:
    data, _ = pdf(2)
    job, _ = await convert(client, data)
    again = await client.upload(data, mode="ai")
    assert (again.json["job_id"], again.json["deduplicated"]) == (job["job_id"], True)
    _, pages = await convert(client, data, force="true")
    assert {page["source"] for page in pages} == {"cache"}
    assert sim.stats()["total"]["calls"] == 2


# ---- 5. results and callbacks ----------------------------------------------------------------------------


@pytest.mark.requirement(
    "000-20", "POST /internal/page_done stores the text, provider, model and tokens of a page"
)
@pytest.mark.requirement("000-21", "POST /internal/page_failed gives the page its MuPDF text")
@pytest.mark.requirement("000-22", "The job is finalized as soon as all pages are done or failed")
@pytest.mark.requirement("000-23", "A report after the end of the job changes nothing")
async def test_reports_finish_the_job_when_an_external_dispatcher_sends_them(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    data, marks = pdf(2)
    job_id = await begin(client, data)

    async def done() -> bool:
        body = {"text": "Reported text", "provider": "other", "model": "m", "tokens_used": 7}
        answer = await client.post(
            f"/internal/page_done?job_id={job_id}&page_id=1", json=body, headers=INTERNAL
        )
        return answer.status == 200 and bool(answer.json["accepted"])

    async def failed() -> bool:
        answer = await client.post(
            f"/internal/page_failed?job_id={job_id}&page_id=2", json={}, headers=INTERNAL
        )
        return answer.status == 200 and bool(answer.json["accepted"])

    await eventually(done, "page 1 is reported")
    await eventually(failed, "page 2 is reported")
    await client.finished(job_id)
    pages = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
    assert (pages[0]["source"], pages[0]["provider"], pages[0]["model"]) == ("ai", "other", "m")
    assert pages[1]["source"] == "mupdf_fallback"
    assert not await done()
    text = (await client.get(f"/jobs/{job_id}/result?format=md")).text
    assert "Reported text" in text
    assert marks[1] in text


@pytest.mark.requirement("000-24", "The MuPDF text of every page is kept before AI is asked")
async def test_own_text_can_be_read_when_every_call_hangs(client: HttpClient, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    data, marks = pdf(2)
    job_id = await begin(client, data)

    async def usable() -> bool:
        answer = await client.get(f"/jobs/{job_id}/result?partial=1")
        return answer.status == 200 and all(mark in answer.json["result"]["markdown"] for mark in marks)

    await eventually(usable, "the document's own text")
    assert (await client.get(f"/jobs/{job_id}")).json["status"] == "processing"
    await client.post(f"/jobs/{job_id}/cancel")


@pytest.mark.requirement("000-25", "The result has every page in order, AI and MuPDF texts mixed")
@pytest.mark.requirement("000-26", "The job counts pages done, failed, read by AI and fallen back")
async def test_result_has_all_pages_in_order_when_some_fall_back(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "refusal", "probability": 0.5}]})
    data, marks = pdf(6)
    job, pages = await convert(client, data)
    text = (await client.get(f"/jobs/{job['job_id']}/result?format=md")).text
    assert [text.index(mark) for mark in marks] == sorted(text.index(mark) for mark in marks)
    by_ai = sum(page["source"] == "ai" for page in pages)
    assert (job["total_pages"], job["pages_completed"], job["pages_failed"]) == (6, 6, 0)
    assert job["metadata"]["ai_pages_succeeded"] == by_ai
    assert job["metadata"]["mupdf_fallback_count"] == 6 - by_ai


# ---- 6 and 7. prompt, tiers, engines ---------------------------------------------------------------------


@pytest.mark.requirement("000-27", "A request can bring its own prompt; AI_SYSTEM_PROMPT is used otherwise")
async def test_prompt_of_the_request_is_sent_when_it_has_one(
    client: HttpClient, sim: RunningSimulator
) -> None:
    _, usual = await convert(client, pdf(1)[0])
    _, asked = await convert(client, pdf(1)[0], prompt="Copy the page. " * 400)
    assert usual[0]["tokens_in"] > 200
    assert asked[0]["tokens_in"] > usual[0]["tokens_in"] + 800


@pytest.mark.requirement(
    "000-28", "The request chooses the engine and the tier: primary, secondary or fast model"
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
    client: HttpClient, engine: str, tier: str, model: str
) -> None:
    _, pages = await convert(client, pdf(1)[0], engine=engine, model_tier=tier)
    assert (pages[0]["provider"], pages[0]["model"]) == (engine, model)


@pytest.mark.requirement("000-29", "Failover from Anthropic ends at OpenAI with the same tier")
async def test_openai_answers_with_the_tier_when_anthropic_fails(
    client: HttpClient, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error", "model": "claude-*"}]})
    _, pages = await convert(client, pdf(1)[0], engine="anthropic", model_tier="fast")
    assert (pages[0]["provider"], pages[0]["model"]) == ("openai", "gpt-4.1-mini")


# ---- 8 and 9. settings, payload --------------------------------------------------------------------------


@pytest.mark.requirement("000-30", "The source's environment variables exist with its defaults")
async def test_defaults_are_those_of_the_source(service: RunningService) -> None:
    wanted = {
        "DOCUMENT_PROCESSING_TIMEOUT": "3m",
        "REQUEST_TIMEOUT": "1m",
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
    rows = json.loads(await asyncio.to_thread(command, service, "config", "--json"))
    found = {row["name"]: row["value"] for row in (rows if isinstance(rows, list) else rows["settings"])}
    shown = {name: {"60s": "1m"}.get(str(found[name]), str(found[name])) for name in wanted}
    assert shown == wanted


@pytest.mark.requirement("000-31", "Only pages with graphics go to AI unless IMAGE_SEND_ALL_PAGES is set")
@pytest.mark.requirement(
    "000-32", "A document with text pages and pages with graphics ends with both kinds read"
)
async def test_text_pages_are_read_locally_when_others_have_graphics(
    client: HttpClient, sim: RunningSimulator
) -> None:
    _, pages = await convert(client, (SAMPLES / "mixed.pdf").read_bytes(), mode="auto")
    assert {page["source"] for page in pages} == {"local", "ai"}
    assert sim.stats()["total"]["calls"] == sum(page["source"] == "ai" for page in pages)


@pytest.mark.requirement(
    "000-33", "The text of neighbouring pages is sent as context, with the current page marked"
)
async def test_answer_is_of_the_current_page_when_neighbours_are_context(client: HttpClient) -> None:
    data, marks = pdf(3)
    job, _ = await convert(client, data)
    text = (await client.get(f"/jobs/{job['job_id']}-p2/result?format=md")).text
    assert marks[1] in text
    assert marks[0] not in text


@pytest.mark.requirement("000-34", "Pictures of pages stay in memory: none is written to disk")
async def test_no_picture_is_on_disk_when_pages_were_read_by_ai(
    service: RunningService, client: HttpClient
) -> None:
    await convert(client, pdf(2)[0])
    files = [path for path in service.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if path.read_bytes()[:3] == b"\xff\xd8\xff"]


@pytest.mark.requirement(
    "000-35", "Calls of AI models are counted by provider, model and outcome in GET /metrics"
)
async def test_calls_are_in_the_metrics_when_pages_were_read(client: HttpClient) -> None:
    await convert(client, pdf(1)[0])
    lines = (await client.get("/metrics")).text.splitlines()
    assert any("ai_calls_total{" in line for line in lines)
