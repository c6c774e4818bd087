"""Recovery probes: broken models are tested by cheap calls while pages find no model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from quire.coordination.ai_admission import Admission
from quire.dispatch.page_task import Answered, Exhausted
from quire.dispatch.recovery_probes import RecoveryProbes
from tests.dispatch.conftest import Bench
from tests.support.waiting import until

Make = Callable[..., Bench]
LONG = {"BREAKER_BASE_BACKOFF": "1h", "BREAKER_MAX_BACKOFF": "2h", "AI_WAIT_MAX": "0"}


@asynccontextmanager
async def probing(bench: Bench, interval_s: float) -> AsyncIterator[list[bool]]:
    recovered: list[bool] = []

    async def on_recovery() -> None:
        recovered.append(True)

    one = bench.dispatcher
    probes = RecoveryProbes(one.candidates, one.providers, one.admission, on_recovery, interval_s)
    task = asyncio.create_task(probes.run())
    yield recovered
    task.cancel()
    await asyncio.wait({task})


async def states(bench: Bench) -> dict[str, str]:
    found = await bench.dispatcher.admission.states(bench.dispatcher.candidates.all())
    return {one.target.model: one.state for one in found}


async def test_breakers_close_before_their_time_when_the_models_are_back(make: Make) -> None:
    bench = make(**LONG)
    bench.sim.play({"rules": [{"fault": "server_error"}]})
    assert isinstance(await bench.read(), Exhausted)
    assert await states(bench) == {
        **{"a1": "open", "a2": "open", "a3": "closed"},
        **{"b1": "open", "b2": "closed", "b3": "closed"},
    }
    async with probing(bench, 0.05) as recovered:
        before = bench.calls()

        async def tested_again() -> bool:
            return all(bench.calls()[name] > before[name] for name in ("a1", "a2", "b1"))

        await until(tested_again, "each broken model is tested")
        assert not recovered
        assert "a3" not in bench.calls(), "a healthy model is not tested"
        bench.sim.play({})

        async def closed() -> bool:
            return set((await states(bench)).values()) == {"closed"}

        await until(closed, "the breakers close")
        await until(lambda: bool(recovered), "what waits for a model is woken")
    answer = await bench.read()
    assert isinstance(answer, Answered)
    assert answer.candidate.target.model == "a1"


async def test_no_model_is_tested_when_no_page_needs_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make(**LONG)
    bench.sim.play({"rules": [{"fault": "server_error", "model": "a1"}]})
    assert isinstance(await bench.read(), Answered)
    bench.sim.reset()
    admission = bench.dispatcher.admission
    assert not await admission.recovery_wanted()
    looks, look = 0, Admission.recovery_wanted

    async def counted(self: Admission) -> bool:
        nonlocal looks
        looks += 1
        return await look(self)

    monkeypatch.setattr(Admission, "recovery_wanted", counted)
    async with probing(bench, 0.05):
        await until(lambda: looks == 2, "the first look is over")
        assert bench.calls() == {}
        await admission.want_recovery()
        await until(lambda: "a1" in bench.calls(), "the broken model is tested")


async def test_nothing_runs_when_probes_are_switched_off(make: Make) -> None:
    bench = make(**LONG)
    one = bench.dispatcher
    await RecoveryProbes(one.candidates, one.providers, one.admission, one.close, 0).run()
