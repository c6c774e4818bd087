"""Whole documents through the dispatcher, on a real server, real workers, real SDKs and the simulator."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from quire.bootstrap import Runtime
from quire.domain.job import JobOptions, JobSecrets, JobStatus, MainJob, Mode, UnitKind
from quire.domain.page import PageSource
from quire.domain.payer import Payer, set_current_payer
from quire.errors import NotReadyError
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.object_keys import chunks_prefix
from quire.simulator.simulator_thread import RunningSimulator
from tests.pipeline.test_losing_the_server import embedded_server
from tests.support.environment import ROOT
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import TEAM, at_rest, convert, job_of, markdown, over, pages, quire, upload
from tests.support.waiting import DEADLINE_S, PATIENCE, scaled, until

SAMPLES = ROOT / "samples"


def ai(
    folder: Path, sim: RunningSimulator, *, kinds: Collection[UnitKind] = tuple(UnitKind), **env: str
) -> AbstractAsyncContextManager[Runtime]:
    """A Quire whose models are a1, a2 (OpenAI) and b1, b2 (Anthropic) of the simulator."""
    return quire(
        folder,
        kinds=kinds,
        **{
            "OPENAI_BASE_URL": sim.openai_url,
            "OPENAI_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": sim.anthropic_url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "OPENAI_PRIMARY_MODEL": "a1",
            "OPENAI_SECONDARY_MODEL": "a2",
            "ANTHROPIC_PRIMARY_MODEL": "b1",
            "ANTHROPIC_SECONDARY_MODEL": "b2",
            "WORKER_CONCURRENCY": "16",
            **env,
        },
    )


async def sources(one: Runtime, job: MainJob) -> dict[int, str]:
    return {n: str(record.source) for n, record in (await pages(one, job)).items()}


async def test_pages_with_pictures_are_read_by_ai_and_the_others_locally_when_mode_is_auto(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, SAMPLES / "mixed.pdf")
        assert job.status is JobStatus.COMPLETED
        found = await pages(one, job)
        by_ai = [record for record in found.values() if record.source is PageSource.AI]
        local = [record for record in found.values() if record.source is PageSource.LOCAL]
        assert by_ai
        assert local
        assert sim.stats()["total"]["calls"] == len(by_ai)
        for record in by_ai:
            assert (record.provider, record.model, record.attempts) == ("openai", "a1", 1)
            assert record.tokens_in > 0
        assert job.tokens_in == sum(record.tokens_in for record in by_ai)
        assert job.tokens_in == sim.stats()["models"]["a1"]["tokens_in"]
        await at_rest(one)


async def test_a_page_is_read_by_ai_without_a_hint_when_its_own_text_is_gone(
    tmp_path: Path, sim: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    without_pages = set(UnitKind) - {UnitKind.PAGE}
    async with ai(tmp_path, sim, kinds=without_pages) as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 2), mode=Mode.AI)).job_id

        async def both_wait() -> bool:
            return (await one.parts.queues.depth(UnitKind.PAGE))["waiting"] == 2

        await until(both_wait, "both pages wait for AI")
        assert await one.parts.objects.delete_prefix(chunks_prefix(job_id, 1)) > 0
    async with ai(tmp_path, sim) as one:
        job = await over(one, job_id)
        assert set((await sources(one, job)).values()) == {"ai"}
        assert markers_in(await markdown(one, job)) == [marker(1, 1), marker(1, 2)]
    assert "unit failed" not in caplog.text


async def test_every_page_goes_by_ai_in_its_order_when_mode_is_ai(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 12), mode=Mode.AI)
        assert set((await sources(one, job)).values()) == {"ai"}
        assert markers_in(await markdown(one, job)) == [marker(1, n) for n in range(1, 13)]
        again = await convert(one, tmp_path / "a.pdf", mode=Mode.AI, force=True)
        assert set((await sources(one, again)).values()) == {"cache"}
        assert again.cost_usd == 0
        assert sim.stats()["total"]["calls"] == 12
        assert await markdown(one, again) == await markdown(one, job)


async def test_a_page_asked_for_again_is_read_again_when_it_is_in_the_cache(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 3), mode=Mode.AI)
        assert await one.engine.retry(job, f"{job.id}-p2") == "started"
        again = await over(one, job.id)
        assert await sources(one, again) == {1: "ai", 2: "ai", 3: "ai"}
        assert sim.stats()["total"]["calls"] == 4


async def test_pages_get_their_local_text_and_a_dead_letter_when_every_candidate_fails(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    env = {"JOB_MAX_ATTEMPTS": "2", "BREAKER_BASE_BACKOFF": "50ms", "BREAKER_MAX_BACKOFF": "50ms"}
    async with ai(tmp_path, sim, **env) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2), mode=Mode.AI)
        assert job.status is JobStatus.COMPLETED
        found = await pages(one, job)
        for record in found.values():
            assert record.source is PageSource.MUPDF_FALLBACK
            assert "server" in record.reasons
            assert record.attempts >= 2
        assert markers_in(await markdown(one, job)) == [marker(1, 1), marker(1, 2)]
        letters = await one.parts.queues.dead_letters(UnitKind.PAGE)
        assert {letter.unit for letter in letters} == {"p1", "p2"}
        assert "server" in letters[0].reason
        call = letters[0].call
        assert (call.provider, call.last_error) in {("openai", "server"), ("anthropic", "server")}
        assert call.model in {"a1", "a2", "b1"}
        assert call.attempts >= 2
        await at_rest(one)


async def test_each_candidate_is_asked_once_and_nothing_is_tried_again_when_the_policy_is_strict(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    async with ai(tmp_path, sim, JOB_MAX_ATTEMPTS="1", WORKER_CONCURRENCY="1") as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 1), mode=Mode.AI)
        assert await sources(one, job) == {1: "mupdf_fallback"}
        calls = {name: model["calls"] for name, model in sim.stats()["models"].items()}
        assert calls == {"a1": 1, "a2": 1, "b1": 1}


async def test_a_document_is_usable_with_its_own_text_when_every_call_hangs(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    async with ai(tmp_path, sim) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 3), mode=Mode.AI)
        job = await job_of(one, accepted.job_id)
        found = None
        deadline = time.monotonic() + DEADLINE_S
        while found is None:
            assert time.monotonic() < deadline
            job = await job_of(one, accepted.job_id)
            with suppress(NotReadyError):
                found = await one.engine.partial_result(job)
            await asyncio.sleep(0.02)
        assert not job.status.terminal
        text = b"".join([piece async for piece in one.engine.partial_text(found)]).decode()
        assert markers_in(text) == [marker(1, n) for n in (1, 2, 3)]
        assert found.metadata()["pages_pending"] == [1, 2, 3]
        await one.engine.cancel(job)


async def test_a_document_falls_back_without_a_call_when_all_breakers_are_open_and_the_policy_is_strict(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    async with ai(tmp_path, sim, JOB_MAX_ATTEMPTS="1", BREAKER_BASE_BACKOFF="1h") as one:
        await convert(one, marked_pdf(tmp_path / "a.pdf", 1), mode=Mode.AI)
        calls = sim.stats()["total"]["calls"]
        job = await convert(one, marked_pdf(tmp_path / "b.pdf", 2), mode=Mode.AI)
        assert set((await sources(one, job)).values()) == {"mupdf_fallback"}
        assert sim.stats()["total"]["calls"] == calls
        assert (await pages(one, job))[1].reasons[-1] == "ai_unavailable"


async def test_a_scan_is_read_by_ocr_when_ai_fails_and_it_has_no_text(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "refusal"}]})
    async with ai(tmp_path, sim, JOB_MAX_ATTEMPTS="1") as one:
        job = await convert(one, SAMPLES / "scan.pdf", pages="1")
        assert job.status is JobStatus.COMPLETED
        for record in (await pages(one, job)).values():
            assert record.source is PageSource.OCR
            assert "answer_refused" in record.reasons
            assert record.tokens_in > 0, "what the rejected answers cost is on the page"
        sim.play({})
        assert await one.engine.retry(job, job.id) == "started", "a page that AI was to read could be better"
        (record,) = (await pages(one, await over(one, job.id))).values()
        assert (record.source, "instead_of_ai" in record.reasons) == (PageSource.AI, False)
        assert await one.engine.retry(await job_of(one, job.id), job.id) == "nothing"


async def test_the_document_completes_at_its_deadline_when_every_model_hangs(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "hang"}]})
    async with ai(tmp_path, sim) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 6), mode=Mode.AI, timeout_s=3.0 * PATIENCE)
        assert job.status is JobStatus.COMPLETED
        assert job.timed_out
        assert set((await sources(one, job)).values()) == {"mupdf_timeout_fallback"}
        assert markers_in(await markdown(one, job)) == [marker(1, n) for n in range(1, 7)]

        async def none_out() -> bool:
            return sim.stats()["total"]["in_flight"] == 0

        await until(none_out, "calls of a document that is over are stopped")


async def test_paying_stops_and_pages_fall_back_when_the_document_reaches_its_ceiling(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    prices = json.dumps({f"{p}": {"input": 1000, "output": 1000} for p in ("openai:a1", "openai:a2")})
    env = {
        "AI_PRICES": prices,
        "MAX_COST_PER_DOCUMENT": "8",
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_BASE_URL": "",
    }
    async with ai(tmp_path, sim, **env) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 10), mode=Mode.AI)
        found = await pages(one, job)
        stopped = [r for r in found.values() if r.source is PageSource.MUPDF_FALLBACK]
        assert 0 < len(stopped) < 10
        assert all("cost_ceiling" in record.reasons for record in stopped)
        assert 1 < job.cost_usd <= 8
        assert job.cost_usd == pytest.approx(sum(r.cost_usd for r in found.values()), abs=1e-4)


async def test_paying_stops_and_pages_fall_back_when_the_key_of_the_request_reaches_its_budget(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    prices = json.dumps({f"{p}": {"input": 1000, "output": 1000} for p in ("openai:a1", "openai:a2")})
    env = {"AI_PRICES": prices, "ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}
    payer = Payer("0123456789ab", 8_000_000)
    async with ai(tmp_path, sim, **env) as one:
        set_current_payer(payer)
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 10), mode=Mode.AI)
        assert job.payer == payer
        found = await pages(one, job)
        stopped = [r for r in found.values() if r.source is PageSource.MUPDF_FALLBACK]
        assert 0 < len(stopped) < 10
        assert all("key_cost_ceiling" in record.reasons for record in stopped)
        assert 1 < job.cost_usd <= 8


async def test_no_429_is_seen_and_every_page_goes_by_ai_when_the_limits_are_the_providers(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    """The batch of source 001: five documents of twenty pages."""
    limits = {"rpm": 600, "tpm": 1_500_000}
    sim.play({"models": [{"model": "*", "latency": {"uniform": [0.02, 0.1]}, "burst_s": 1.5, **limits}]})
    names = ("openai:a1", "openai:a2", "anthropic:b1")
    env = {"AI_LIMITS": json.dumps(dict.fromkeys(names, limits))}
    async with ai(tmp_path, sim, **env) as one:
        files = [marked_pdf(tmp_path / f"{seed}.pdf", 20, seed) for seed in range(5)]
        jobs = await asyncio.gather(*(convert(one, file, mode=Mode.AI) for file in files))
        for seed, job in enumerate(jobs):
            assert set((await sources(one, job)).values()) == {"ai"}
            assert markers_in(await markdown(one, job)) == [marker(seed, n) for n in range(1, 21)]
        assert sim.stats()["total"]["limited"] == 0
        assert sim.stats()["total"]["calls"] == 100
        await at_rest(one)


async def test_every_document_completes_and_nearly_all_by_ai_when_providers_come_and_go(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    """A small storm; the full one is in bench/dispatch.py."""

    def outage(fault: str, model: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        return {"fault": fault, "model": model, "from_s": start, "until_s": end, **more}

    sim.play(
        {
            "models": [{"model": "*", "latency": {"uniform": [0.05, 0.3]}}],
            "rules": [
                outage("server_error", "a?", 0.5, 2.0),
                outage("hang", "a1", 2.5, 4.0),
                outage("rate_limit", "b?", 1.0, 2.5, retry_after_s=1),
                outage("reset", "b?", 3.5, 5.0),
                {"fault": "truncated", "probability": 0.01},
            ],
        }
    )
    env = {
        "BREAKER_BASE_BACKOFF": "500ms",
        "BREAKER_MAX_BACKOFF": "2s",
        "REQUEST_TIMEOUT": scaled(8),  # calls hang, and on a busy host the others take seconds
        "WORKER_CONCURRENCY": "24",
        "AI_CACHE_TTL": "0",
    }
    async with ai(tmp_path, sim, **env) as one:
        files = [marked_pdf(tmp_path / f"{seed}.pdf", 20, seed) for seed in range(10)]
        jobs = await asyncio.gather(
            *(convert(one, file, mode=Mode.AI, timeout_s=DEADLINE_S) for file in files)
        )
        found = [source for job in jobs for source in (await sources(one, job)).values()]
        # The simulator counts a call when it comes, and its outcome when it notices that the caller has left.
        await until(lambda: sim.stats()["total"]["in_flight"] == 0, "the outcomes of all calls")
        stats = sim.stats()
        assert all(job.status is JobStatus.COMPLETED for job in jobs)
        assert found.count("ai") >= 0.95 * 200
        failed = sum(
            count
            for model in stats["models"].values()
            for outcome, count in model["outcomes"].items()
            if outcome != "ok"
        )
        # Two caps' worth were out when each outage began; the rest are probes.
        assert failed <= 80, stats
        assert stats["total"]["calls"] <= 200 + failed
        for seed, job in enumerate(jobs):
            assert markers_in(await markdown(one, job)) == [marker(seed, n) for n in range(1, 21)]
        await at_rest(one)
        states = await one.parts.ai.dispatcher.admission.states(one.parts.ai.dispatcher.candidates.all())
        assert all(state.in_flight == 0 for state in states), "no lease is left behind"


async def test_nothing_is_paid_twice_but_calls_that_were_out_when_the_server_is_killed(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "*", "latency": 0.2}]})
    async with ai(tmp_path, sim, MAX_INFLIGHT_PER_MODEL="8") as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 60), mode=Mode.AI)

        async def begun() -> bool:
            return (await job_of(one, accepted.job_id)).pages_completed >= 15

        await until(begun, "15 pages are read")
        embedded_server(tmp_path).kill()
        job = await over(one, accepted.job_id)
        assert job.status is JobStatus.COMPLETED
        assert set((await sources(one, job)).values()) <= {"ai", "cache"}
        assert sim.stats()["total"]["calls"] <= 60 + 3 * 8
        assert max(model["in_flight_max"] for model in sim.stats()["models"].values()) <= 8
        await at_rest(one)


async def test_nothing_secret_is_left_in_logs_or_redis_when_calls_fail_in_every_way(
    tmp_path: Path, sim: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    faults = ("server_error", "bad_json", "refusal", "truncated", "reset", "quota", "rejected", "auth")
    rules = [{"fault": fault, "first": n, "last": n} for n, fault in enumerate(faults, start=1)]
    sim.play({"rules": rules})
    key, other, prompt = "sk-planted-0123456789", "sk-ant-planted-987654", "PROMPTPLANTED read this please"
    env = {
        "OPENAI_API_KEY": key,
        "ANTHROPIC_API_KEY": other,
        "BREAKER_BASE_BACKOFF": "20ms",
        "BREAKER_MAX_BACKOFF": "20ms",
        "LOG_LEVEL": "debug",
    }
    async with ai(tmp_path, sim, **env) as one:
        file = marked_pdf(tmp_path / "a.pdf", 12)
        job = await convert(one, file, mode=Mode.AI, secrets=JobSecrets(prompt=prompt))
        assert job.status is JobStatus.COMPLETED
        await at_rest(one)
        seen = caplog.text + "".join(str(vars(record)) for record in caplog.records)
        seen += str(await one.parts.queues.dead_letters(UnitKind.PAGE))
        seen += str((await pages(one, job)).values()) + str(job)
        seen += await everything_in(one)
    planted = [key, other, "PROMPTPLANTED", *(marker(1, n) for n in range(1, 13))]
    assert [secret for secret in planted if secret in seen] == []


async def everything_in(one: Runtime) -> str:
    """Every key and value of the coordination server, once the job is over."""
    found = []
    for key in await one.connection.command("KEYS", "*"):
        kind = await one.connection.command("TYPE", key)
        read = {
            "string": ("GETRANGE", key, 0, -1) if not key.startswith(("cb:", "rl:")) else ("STRLEN", key),
            "hash": ("HGETALL", key),
            "list": ("LRANGE", key, 0, -1),
            "zset": ("ZRANGE", key, 0, -1),
            "stream": ("XRANGE", key, "-", "+"),
            "set": ("SMEMBERS", key),
        }[kind]
        found.append(f"{key} {await one.connection.command(*read)}")
    return "\n".join(found)


async def test_a_page_is_read_in_a_batch_when_dolphin_is_asked_for(tmp_path: Path) -> None:
    env = {"PRIMARY_ENGINE": "dolphin", "SECONDARY_ENGINE": "none"}
    async with quire(tmp_path, **env) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2), mode=Mode.AI)
        found = await pages(one, job)
        assert [record.source for record in found.values()] == [PageSource.BATCH] * 2
        assert {record.provider for record in found.values()} == {"dolphin"}
        assert all(record.cost_usd == 0 for record in found.values())
        assert all(record.words for record in found.values())


async def test_a_page_is_read_by_ocr_when_the_models_before_it_in_the_chain_fail(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    async with ai(tmp_path, sim, PROVIDER_CHAIN="ocr") as one:
        job = await convert(one, SAMPLES / "scan.pdf", mode=Mode.AI)
        [record, *_] = (await pages(one, job)).values()
        assert (record.source, record.provider) == (PageSource.OCR, "ocr")
        assert "server" in record.reasons
        assert record.words


async def test_a_file_read_in_its_place_is_answered_from_the_cache_when_it_comes_again(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    path = marked_pdf(tmp_path / "in.pdf", 2)
    asked = Submission(
        team=TEAM, options=JobOptions(mode=Mode.AI), secrets=JobSecrets(), filename="in.pdf", force=True
    )
    async with ai(tmp_path, sim) as one:
        first = await over(one, (await one.engine.intake.accept_path(asked, path)).job_id)
        calls = sim.stats()["total"]["calls"]
        second = await over(one, (await one.engine.intake.accept_path(asked, path)).job_id)
        assert first.id != second.id
        assert set((await sources(one, first)).values()) == {"ai"}
        assert set((await sources(one, second)).values()) == {"cache"}
        assert sim.stats()["total"]["calls"] == calls
