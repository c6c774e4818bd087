"""The log lines of AI calls and of breakers (source 001)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quire.clock import SystemClock
from quire.dispatch.page_task import Answered
from quire.dispatch.remote_embedder import RemoteEmbedder
from quire.domain.job import Mode
from quire.providers.openai_embeddings import OpenAIEmbeddings
from quire.providers.provider_protocol import ProviderError
from quire.settings import load
from quire.simulator.simulator_thread import RunningSimulator
from tests.dispatch.conftest import Bench
from tests.dispatch.test_dispatched_documents import ai
from tests.dispatch.test_dispatcher import LONG_BACKOFF, rule, until_state
from tests.dispatch.test_recovery_probes import LONG, probing
from tests.support.marked_documents import marked_pdf
from tests.support.running import convert
from tests.support.waiting import until

Make = Callable[..., Bench]
FIELDS = ("job_id", "page", "provider", "model", "attempt", "tokens_used", "cost_usd", "latency_ms")


def lines(caplog: pytest.LogCaptureFixture, begin: str) -> list[Any]:
    return [record for record in caplog.records if record.getMessage().startswith(begin)]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="quire")


async def test_line_has_every_field_of_the_source_when_a_call_is_answered(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(AI_PRICES='{"openai:a1": {"input": 1000, "output": 1000}}')
    outcome = await bench.read(number=7)
    (line,) = lines(caplog, "AI call")
    spent = outcome.spent
    assert line.levelno == logging.INFO
    assert (line.job_id, line.page, line.provider, line.model) == ("job", 7, "openai", "a1")
    assert (line.attempt, line.failover, line.error_class) == (1, False, None)
    assert line.tokens_used == spent.tokens_in + spent.tokens_out > 0
    assert line.cost_usd == pytest.approx(spent.cost_usd)
    assert line.latency_ms >= 0


async def test_every_call_has_its_line_when_the_first_fails_and_the_second_answers(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(**LONG_BACKOFF)
    bench.sim.play({"rules": [rule("server_error", "a1")]})
    assert isinstance(await bench.read(), Answered)
    failed, answered = lines(caplog, "AI call")
    assert (failed.levelno, failed.error_class, failed.failover) == (logging.WARNING, "server", False)
    assert (answered.model, answered.attempt, answered.failover) == ("a2", 2, True)
    assert answered.error_class is None
    assert all(hasattr(line, name) for line in (failed, answered) for name in FIELDS)
    (opened,) = lines(caplog, "breaker opened")
    assert (opened.levelno, opened.model, opened.error_class) == (logging.WARNING, "a1", "server")


async def test_rejected_key_is_an_error_and_opens_the_breaker_of_the_provider(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(**LONG_BACKOFF)
    bench.sim.play({"rules": [rule("auth", "a1")]})
    await bench.read()
    (failed, _) = lines(caplog, "AI call")
    (opened,) = lines(caplog, "breaker opened")
    assert (failed.levelno, opened.levelno) == (logging.ERROR, logging.ERROR)
    assert (opened.provider, opened.model) == ("openai", "*")


async def test_answer_that_does_not_count_has_its_line_with_the_reason(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("empty", "a1")]})
    await bench.read()
    (line,) = lines(caplog, "AI answer rejected")
    assert (line.levelno, line.model, bool(line.error_class)) == (logging.WARNING, "a1", True)


async def test_call_that_is_interrupted_has_its_line(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("hang", "a1")]})
    reading = asyncio.create_task(bench.read())
    await until(lambda: bench.calls().get("a1", 0) == 1, "the call is out")
    reading.cancel()
    await asyncio.wait([reading])
    (line,) = lines(caplog, "AI call")
    assert (line.error_class, line.model) == ("abandoned", "a1")


async def test_breaker_is_reported_once_each_when_it_opens_is_probed_and_closes(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(BREAKER_BASE_BACKOFF="1ms", BREAKER_MAX_BACKOFF="1ms")
    bench.sim.play({"rules": [rule("server_error", "a1")]})
    await bench.read()
    bench.sim.play({})
    await until_state(bench, "a1", "half_open")
    await bench.read()
    told = [line.getMessage() for line in lines(caplog, "breaker") if line.model == "a1"]
    assert told == ["breaker opened", "breaker half-open", "breaker closed"]


async def test_deadline_is_one_warning_when_pages_get_their_local_text(
    tmp_path: Path, sim: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    sim.play({"rules": [rule("hang")]})
    async with ai(tmp_path, sim) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 4), mode=Mode.AI, timeout_s=2.0)
    (reached,) = lines(caplog, "deadline reached")
    assert (reached.levelno, reached.job_id, reached.fell_back) == (logging.WARNING, job.id, 4)
    (finished,) = lines(caplog, "job finished")
    assert (finished.timed_out, finished.pages_by_source) == (True, {"mupdf_timeout_fallback": 4})
    abandoned = [line for line in lines(caplog, "AI call") if line.error_class == "abandoned"]
    assert len(lines(caplog, "AI call")) == sim.stats()["total"]["calls"] >= len(abandoned)


async def test_embedding_call_has_its_line_when_it_is_answered_and_when_it_fails(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make(**LONG_BACKOFF)
    settings = load(
        {
            "OPENAI_BASE_URL": bench.sim.openai_url,
            "OPENAI_API_KEY": "sk-test",
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_MODEL": "e1",
        }
    )
    provider = OpenAIEmbeddings.from_settings(settings.ai, SystemClock())
    try:
        embedder = RemoteEmbedder(provider, bench.dispatcher.admission, bench.dispatcher.ledger, settings)
        await embedder.embed(["a text that must not be logged"], team="team", timeout_s=30)
        bench.sim.play({"rules": [{"fault": "server_error"}]})
        with pytest.raises(ProviderError):
            await embedder.embed(["another text"], team="team", timeout_s=30)
    finally:
        await provider.close()
    answered, failed = lines(caplog, "AI call")
    assert (answered.purpose, answered.model, answered.error_class) == ("embedding", "e1", None)
    assert answered.tokens_used > 0
    assert (failed.purpose, failed.error_class, failed.page) == ("embedding", "server", None)
    assert "must not be logged" not in caplog.text


async def test_probe_has_its_line(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    bench = make(**LONG)
    bench.sim.play({"rules": [{"fault": "server_error"}]})
    await bench.read()  # every candidate fails, so probes are wanted
    async with probing(bench, 0.05):

        async def logged() -> bool:
            return any(line.purpose == "probe" for line in lines(caplog, "AI call"))

        await until(logged, "a probe is logged")
    (line, *_) = [one for one in lines(caplog, "AI call") if one.purpose == "probe"]
    assert line.error_class == "server"
    assert line.model in ("a1", "a2", "b1")
