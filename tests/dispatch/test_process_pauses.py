"""A process that was paused does not blame the provider for the time in which it did not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quire.dispatch.page_task import Answered, Exhausted
from quire.dispatch.process_pauses import ProcessPauses
from quire.dispatch.recovery_probes import RecoveryProbes
from quire.dispatch.remote_embedder import RemoteEmbedder
from quire.providers.openai_embeddings import Embedded, OpenAIEmbeddings
from quire.providers.provider_protocol import (
    ProviderError,
    ProviderNetworkError,
    ProviderServerError,
    ProviderTimeoutError,
    VisionAnswer,
    VisionRequest,
)
from quire.settings import load
from tests.dispatch.conftest import Bench
from tests.support.clocks import MovableClock
from tests.support.waiting import until

Make = Callable[..., Bench]
LONG = {"BREAKER_BASE_BACKOFF": "1h", "BREAKER_MAX_BACKOFF": "2h", "AI_WAIT_MAX": "0"}


class InterruptedProvider:
    """A provider whose first calls end with an error after the clock has moved; later calls are real."""

    def __init__(self, real: Any, clock: MovableClock, pauses_s: list[float], error: ProviderError) -> None:
        self._real = real
        self._clock = clock
        self._pauses_s = pauses_s
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def read(self, request: VisionRequest) -> VisionAnswer:
        self._interrupt()
        answer: VisionAnswer = await self._real.read(request)
        return answer

    async def check(self, model: str) -> None:
        self._interrupt()
        await self._real.check(model)

    def _interrupt(self) -> None:
        if self._pauses_s:
            self._clock.time += self._pauses_s.pop(0)
            raise self._error


class EmbeddingsOfPausedProcess(OpenAIEmbeddings):
    """The first call times out after the clock has moved; later calls are real."""

    def __init__(self, real: OpenAIEmbeddings, clock: MovableClock) -> None:
        self._real = real
        self._clock = clock
        self._called = False

    async def embed(self, *args: Any, **options: Any) -> Embedded:
        if not self._called:
            self._called = True
            self._clock.time += 90.0
            raise ProviderTimeoutError("late")
        return await self._real.embed(*args, **options)


class Counter:
    def __init__(self) -> None:
        self.ended: list[tuple[str, str, float]] = []

    def call_ended(self, provider: str, model: str, outcome: str, *, seconds: float, **_: object) -> None:
        self.ended.append((model, outcome, seconds))

    def page_from_cache(self) -> None:
        pass

    def page_parked(self) -> None:
        pass


def interrupted(bench: Bench, clock: MovableClock, pauses_s: list[float], error: ProviderError) -> None:
    providers: dict[str, Any] = bench.dispatcher.providers
    providers["openai"] = InterruptedProvider(providers["openai"], clock, pauses_s, error)


async def state_of(bench: Bench, model: str) -> tuple[str, int, int]:
    found = await bench.dispatcher.admission.states(bench.dispatcher.candidates.all())
    return next((one.state, one.in_flight, one.calls_failed) for one in found if one.target.model == model)


@pytest.mark.parametrize(
    "error", [ProviderTimeoutError("late"), ProviderNetworkError("lost")], ids=["timeout", "network"]
)
async def test_the_same_model_is_asked_again_when_the_process_was_paused_during_the_call(
    make: Make, error: ProviderError
) -> None:
    clock, counter = MovableClock(), Counter()
    bench = make(counter, clock, **LONG)
    interrupted(bench, clock, [90.0, 3600.0], error)
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "openai:a1"
    assert (outcome.spent.calls, outcome.spent.tried, outcome.spent.reasons) == (1, (), ())
    assert await state_of(bench, "a1") == ("closed", 0, 0)
    assert await bench.dispatcher.admission.recent_errors() == []
    assert [one[:2] for one in counter.ended] == [("a1", "worker_paused")] * 2 + [("a1", "ok")]
    assert all(seconds <= 0.5 for _model, _outcome, seconds in counter.ended), "a pause is no latency"
    assert outcome.spent.seconds <= 1.0


@pytest.mark.parametrize(
    ("error", "passed_s"),
    [(ProviderTimeoutError("late"), 1.0), (ProviderServerError("broken"), 90.0)],
    ids=["not-paused", "another-error"],
)
async def test_the_breaker_opens_when_the_pause_of_the_process_explains_nothing(
    make: Make, error: ProviderError, passed_s: float
) -> None:
    clock = MovableClock()
    bench = make(clock=clock, **LONG)
    interrupted(bench, clock, [passed_s], error)
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert (outcome.candidate.name, outcome.spent.reasons) == ("openai:a2", (error.code,))
    assert (await state_of(bench, "a1"))[0] == "open"


async def test_the_page_ends_when_each_of_its_calls_is_interrupted(make: Make) -> None:
    clock = MovableClock()
    bench = make(clock=clock, PAGE_TOTAL_TIMEOUT="2s", **LONG)
    interrupted(bench, clock, [90.0] * 50, ProviderTimeoutError("late"))
    outcome = await bench.read()
    assert isinstance(outcome, Exhausted), "the time that the process ran is the page's own"
    assert outcome.spent.calls == 0


async def test_a_probe_opens_the_breaker_no_further_when_the_process_was_paused(make: Make) -> None:
    clock = MovableClock()
    bench = make(**LONG)
    bench.sim.play({"rules": [{"fault": "server_error"}]})
    assert isinstance(await bench.read(), Exhausted)
    one = bench.dispatcher
    before = [(await state_of(bench, model))[2] for model in ("a1", "a2")]
    pauses_s = [90.0]
    bench.sim.play({})
    interrupted(bench, clock, pauses_s, ProviderTimeoutError("late"))
    pauses = ProcessPauses(clock.monotonic)
    probing = asyncio.create_task(
        RecoveryProbes(
            one.candidates, one.providers, one.admission, one.admission.want_recovery, 0.05, pauses=pauses
        ).run()
    )

    async def closed() -> bool:
        return all([(await state_of(bench, model))[0] == "closed" for model in ("a1", "a2")])

    await until(closed, "the next probe closes the breaker")
    assert not pauses_s
    after = [(await state_of(bench, model))[2] for model in ("a1", "a2")]
    assert after == before, "the interrupted probe is no failure of the model"
    probing.cancel()
    await asyncio.wait({probing})


async def test_the_embedding_model_stays_free_when_the_process_was_paused_during_the_call(make: Make) -> None:
    clock = MovableClock()
    bench = make(**LONG)
    names = {"OPENAI_BASE_URL": bench.sim.openai_url, "OPENAI_API_KEY": "sk-test"}
    settings = load(names | {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "e1"})
    provider = OpenAIEmbeddings.from_settings(settings.ai, clock)
    one, pauses = bench.dispatcher, ProcessPauses(clock.monotonic)
    embedder = RemoteEmbedder(
        EmbeddingsOfPausedProcess(provider, clock), one.admission, one.ledger, settings, pauses=pauses
    )
    try:
        with pytest.raises(ProviderTimeoutError):
            await embedder.embed(["a text"], team="team", timeout_s=30)
        assert len(await embedder.embed(["a text"], team="team", timeout_s=30)) == 1, "no breaker has opened"
    finally:
        await provider.close()


async def test_a_pause_is_counted_once_when_the_timer_fires_after_it() -> None:
    clock = MovableClock()
    pauses = ProcessPauses(clock.monotonic)
    with pauses.timed_call() as timed:
        clock.time += 60.0
        before = timed.ran_s()
        await until(lambda: pauses._ticked_at == clock.time, "the timer fires")
        assert timed.ran_s() == before == 0.5
        assert timed.excuses(ProviderTimeoutError("late"))
        with pauses.timed_call() as later:
            assert not later.excuses(ProviderTimeoutError("late")), "the pause was before this call"
            clock.time += 1.0
            assert later.ran_s() == 1.0
    with pauses.timed_call() as after:
        assert after.ran_s() == 0.0
