"""One page through every kind of trouble: who is asked, who is left alone, what it costs, what comes back."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from quire.coordination.ai_admission import ModelState
from quire.dispatch.dispatcher import OUT_OF_TIME
from quire.dispatch.ledger import DOCUMENT_CEILING, KEY_CEILING, TEAM_CEILING
from quire.dispatch.page_task import Answered, Exhausted, Parked
from quire.dispatch.waiting_policy import UNAVAILABLE
from quire.domain.payer import Payer
from quire.telemetry.metrics import DispatchMetrics
from tests.dispatch.conftest import PAGE, Bench
from tests.support.waiting import DEADLINE_S

Make = Callable[..., Bench]
LONG_BACKOFF = {
    "BREAKER_BASE_BACKOFF": "1h",
    "BREAKER_MAX_BACKOFF": "1h",
}  # a breaker stays open for the whole test


def rule(fault: str, model: str = "*", **more: object) -> dict[str, object]:
    return {"fault": fault, "model": model, **more}


async def states(bench: Bench) -> dict[str, ModelState]:
    found = await bench.dispatcher.admission.states(bench.dispatcher.candidates.all())
    return {one.target.model: one for one in found}


async def until_state(bench: Bench, model: str, state: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (await states(bench))[model].state != state:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_the_primary_model_answers_when_all_is_well(make: Make) -> None:
    bench = make()
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "openai:a1"
    assert "quick brown fox" in outcome.text
    assert outcome.confidence == 1.0
    assert (outcome.spent.calls, outcome.spent.reasons) == (1, ())
    assert outcome.spent.tokens_in > 1000
    assert bench.calls() == {"a1": 1}
    state = (await states(bench))["a1"]
    assert (state.in_flight, state.calls_ok, state.state) == (0, 1, "closed")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (rule("rate_limit", "a1", retry_after_s=1), "rate_limit"),
        (rule("quota", "a1"), "ai_quota"),
        (rule("overloaded", "a1"), "ai_quota"),
        (rule("server_error", "a1"), "server"),
        (rule("bad_json", "a1"), "server"),
        (rule("reset", "a1"), "network"),
        (rule("cut", "a1"), "network"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["fault"],
)
async def test_the_next_model_is_asked_and_the_breaker_opens_when_a_call_fails(
    make: Make, fault: dict[str, object], code: str
) -> None:
    bench = make(**LONG_BACKOFF)
    bench.sim.play({"rules": [fault]})
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "openai:a2"
    assert outcome.spent.reasons == (code,)
    assert outcome.spent.calls == 2
    again = await bench.read()
    assert isinstance(again, Answered)
    assert bench.calls() == {"a1": 1, "a2": 2}, "an open breaker gets no call"
    state = (await states(bench))["a1"]
    assert (state.state, state.incidents, state.last_error) == ("open", 1, code)
    assert 1800 < state.opens_in_s <= 3600
    errors = await bench.dispatcher.admission.recent_errors()
    assert [(one.target, one.code) for one in errors] == [("openai:a1", code)]


async def test_a_hanging_model_is_left_after_its_time_when_it_gives_no_answer(make: Make) -> None:
    bench = make(REQUEST_TIMEOUT="300ms", **LONG_BACKOFF)
    bench.sim.play({"rules": [rule("hang", "a1"), rule("drip", "a2", interval_s=0.2)]})
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "anthropic:b1"
    assert outcome.spent.reasons == ("timeout",)
    assert outcome.spent.calls == 3
    assert {name: one.state for name, one in (await states(bench)).items() if one.incidents} == {
        "a1": "open",
        "a2": "open",
    }


async def test_retry_after_is_honoured_when_longer_than_the_backoff(make: Make) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("rate_limit", "a1", retry_after_s=900)]})
    await bench.read()
    assert 60 < (await states(bench))["a1"].opens_in_s <= 900


async def test_a_wrong_key_shuts_the_whole_provider_and_is_shouted_when_refused(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("auth", "a?")]})
    with caplog.at_level(logging.WARNING):
        outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "anthropic:b1"
    assert bench.calls() == {"a1": 1, "b1": 1}, "the provider's other model has the same key"
    assert [one.levelname for one in caplog.records if one.name.startswith("quire.dispatch")] == ["ERROR"]
    assert (await states(bench))["a2"].state == "open"


async def test_pages_fall_back_at_once_when_the_only_key_is_wrong(make: Make) -> None:
    bench = make(ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="")
    bench.sim.play({"rules": [rule("auth")]})
    first, second = await bench.read(), await bench.read()
    for outcome in (first, second):
        assert isinstance(outcome, Exhausted)
        assert outcome.reasons == ("auth",)
        assert not outcome.retryable
    assert bench.calls() == {"a1": 1}


@pytest.mark.parametrize("fault", ["content_filter", "content_filter_error"])
async def test_the_next_provider_is_asked_when_content_is_blocked(make: Make, fault: str) -> None:
    bench = make()
    bench.sim.play({"rules": [rule(fault, "a?")]})
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "anthropic:b1"
    assert outcome.spent.reasons == ("ai_content_blocked",)
    assert bench.calls() == {"a1": 1, "b1": 1}
    assert (await states(bench))["a1"].state == "closed"


async def test_the_page_is_given_up_when_the_request_is_wrong(make: Make) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("rejected", "a1")]})
    outcome = await bench.read()
    assert isinstance(outcome, Exhausted)
    assert (outcome.reasons, outcome.retryable) == (("validation",), False)
    assert bench.calls() == {"a1": 1}
    assert (await states(bench))["a1"].state == "closed"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("empty", "answer_empty"),
        ("refusal", "answer_refused"),
        ("truncated", "answer_cut_off"),
        ("loop", "answer_repeating"),
    ],
)
async def test_the_next_model_is_asked_when_an_answer_is_no_good(make: Make, fault: str, reason: str) -> None:
    bench = make()
    bench.sim.play({"rules": [rule(fault, "a1")]})
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "openai:a2"
    assert outcome.spent.reasons == (reason,)
    assert outcome.spent.tokens_in > 2000, "the rejected answer was paid for as well"
    assert (await states(bench))["a1"].state == "closed", "the model is well, only this answer is not"


async def test_the_engine_and_the_tier_asked_for_come_first(make: Make) -> None:
    bench = make()
    order = [one.name for one in bench.dispatcher.candidates.of("anthropic", "fast")]
    assert order == ["anthropic:b3", "anthropic:b2", "openai:a3"]
    outcome = await bench.read(engine="anthropic", tier="fast")
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "anthropic:b3"
    assert [one.name for one in bench.dispatcher.candidates.of("nobody", None)] == [
        "openai:a1",
        "openai:a2",
        "anthropic:b1",
    ]


async def test_a_page_is_parked_without_a_call_when_every_breaker_is_open(make: Make) -> None:
    bench = make(BREAKER_BASE_BACKOFF="60s", AI_WAIT_MAX="2m")
    bench.sim.play({"rules": [rule("server_error")]})
    first = await bench.read()
    assert isinstance(first, Exhausted)
    assert first.retryable
    assert first.spent.calls == 3
    calls = bench.calls()
    second = await bench.read()
    assert isinstance(second, Parked)
    assert 0 < second.wait_s <= 3600
    assert bench.calls() == calls


@pytest.mark.parametrize(("wait_max", "backoff"), [("10s", "60s"), ("0", "5s")], ids=["default", "strict"])
async def test_a_page_gives_up_without_a_call_when_no_probe_is_due_in_time(
    make: Make, wait_max: str, backoff: str
) -> None:
    bench = make(BREAKER_BASE_BACKOFF=backoff, AI_WAIT_MAX=wait_max)
    bench.sim.play({"rules": [rule("server_error")]})
    await bench.read()
    calls = bench.calls()
    outcome = await bench.read()
    assert isinstance(outcome, Exhausted)
    assert (outcome.reasons, outcome.retryable) == ((UNAVAILABLE,), False)
    assert bench.calls() == calls


async def test_a_page_gives_up_after_its_waiting_time_when_the_probe_hangs(make: Make) -> None:
    bench = make(
        BREAKER_BASE_BACKOFF="50ms",
        AI_WAIT_MAX="1s",
        ANTHROPIC_BASE_URL="",
        ANTHROPIC_API_KEY="",
        OPENAI_SECONDARY_MODEL="a1",
    )
    bench.sim.play({"rules": [rule("server_error", last=1), rule("hang")]})
    assert isinstance(await bench.read(), Exhausted)
    await until_state(bench, "a1", "half_open")
    probe = asyncio.create_task(bench.read())
    deadline = time.monotonic() + DEADLINE_S
    while not (await states(bench))["a1"].in_flight:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    task = bench.task()
    while not isinstance(outcome := await bench.dispatcher.read(task), Exhausted):
        assert isinstance(outcome, Parked)
        assert time.monotonic() < deadline
        await asyncio.sleep(min(outcome.wait_s, 0.1))
    assert outcome.reasons == (UNAVAILABLE,)
    probe.cancel()
    await asyncio.wait({probe})


async def test_a_page_gives_up_at_once_when_no_breaker_closes_before_the_deadline(make: Make) -> None:
    bench = make(**LONG_BACKOFF)
    bench.sim.play({"rules": [rule("server_error")]})
    await bench.read()
    outcome = await bench.read(deadline_at=time.time() + 5)
    assert isinstance(outcome, Exhausted)
    assert UNAVAILABLE in outcome.reasons
    assert not outcome.retryable


async def test_a_round_is_over_when_one_failed_and_the_others_are_open(make: Make) -> None:
    """What was tried stays known while the page is parked, and is tried again only in another round."""
    bench = make(ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="", BREAKER_BASE_BACKOFF="60s", AI_WAIT_MAX="2m")
    bench.sim.play({"rules": [rule("server_error")]})
    task = bench.task()
    outcome = await bench.dispatcher.read(task)
    assert isinstance(outcome, Exhausted)
    await bench.dispatcher.another_round(task, outcome.spent)
    assert isinstance(await bench.dispatcher.read(task), Parked)
    kept = await bench.dispatcher.ledger.spent("job", 1, task.number)
    assert (kept.calls, kept.tried, kept.reasons) == (2, (), ("server",))


@pytest.mark.parametrize("policy", ["instant", "sticky"])
async def test_the_budget_policy_decides_when_the_primary_is_short_of_requests(
    make: Make, policy: str
) -> None:
    bench = make(BUDGET_POLICY=policy, AI_LIMITS='{"openai:a1": {"rpm": 1}}')
    assert isinstance(await bench.read(), Answered)
    outcome = await bench.read()
    if policy == "instant":
        assert isinstance(outcome, Answered)
        assert outcome.candidate.name == "openai:a2"
    else:
        assert isinstance(outcome, Parked)
        assert bench.calls() == {"a1": 1}


async def test_the_next_model_is_asked_when_the_policy_is_sticky_and_the_breaker_is_open(make: Make) -> None:
    bench = make(BUDGET_POLICY="sticky")
    bench.sim.play({"rules": [rule("server_error", "a1")]})
    outcome = await bench.read()
    assert isinstance(outcome, Answered)
    assert outcome.candidate.name == "openai:a2"


async def test_a_model_has_its_own_cap_when_its_limit_says_so(make: Make) -> None:
    bench = make(AI_LIMITS='{"openai:a1": {"max_inflight": 1}}')
    bench.sim.play({"models": [{"model": "a1", "latency": 0.3}]})
    outcomes = await asyncio.gather(*(bench.read() for _ in range(3)))
    assert all(isinstance(one, Answered) for one in outcomes)
    assert bench.sim.stats()["models"]["a1"]["in_flight_max"] == 1


async def test_exactly_one_probe_goes_out_when_a_breaker_is_half_open(make: Make) -> None:
    bench = make(
        BREAKER_BASE_BACKOFF="150ms", ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="", OPENAI_SECONDARY_MODEL="a1"
    )
    bench.sim.play({"rules": [rule("server_error", last=1)], "models": [{"model": "a1", "latency": 0.2}]})
    assert isinstance(await bench.read(), Exhausted)
    await until_state(bench, "a1", "half_open")
    outcomes = await asyncio.gather(*(bench.read() for _ in range(12)))
    assert sum(isinstance(one, Answered) for one in outcomes) == 1
    assert sum(isinstance(one, Parked) for one in outcomes) == 11
    assert bench.calls() == {"a1": 2}
    assert (await states(bench))["a1"].state == "closed"
    assert bench.woken, "the pages that wait are told"


async def test_calls_that_were_out_count_as_one_incident_when_a_model_goes_down(make: Make) -> None:
    bench = make(ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="", OPENAI_SECONDARY_MODEL="a1")
    for _ in range(8):
        assert isinstance(await bench.read(), Answered)
    bench.sim.play({"rules": [rule("server_error")], "models": [{"model": "a1", "latency": 0.1}]})
    outcomes = await asyncio.gather(*(bench.read() for _ in range(6)))
    assert any(isinstance(one, Exhausted) for one in outcomes)
    state = (await states(bench))["a1"]
    assert state.calls_failed > 1
    assert (state.incidents, state.state) == (1, "open")
    assert state.opens_in_s <= 30


async def test_in_flight_halves_when_the_provider_says_429(make: Make) -> None:
    bench = make(
        BREAKER_BASE_BACKOFF="1ms", ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="", OPENAI_SECONDARY_MODEL="a1"
    )
    for _ in range(3):
        await bench.read()
    bench.sim.play({"models": [{"model": "a1", "latency": 0.1}]})
    while (await states(bench))["a1"].cap < 8:
        await asyncio.gather(*(bench.read() for _ in range(8)))
    before = (await states(bench))["a1"].cap
    bench.sim.play({"rules": [rule("rate_limit", last=1)]})
    await bench.read()
    assert (await states(bench))["a1"].cap == before // 2


async def test_nothing_is_paid_for_when_the_document_has_reached_its_ceiling(make: Make) -> None:
    prices = json.dumps({"openai:a1": {"input": 1000, "output": 1000}})
    bench = make(AI_PRICES=prices, MAX_COST_PER_DOCUMENT="5", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="")
    first = await bench.read()
    assert isinstance(first, Answered)
    assert first.spent.cost_usd > 1
    outcomes = [await bench.read() for _ in range(4)]
    stopped = [one for one in outcomes if isinstance(one, Exhausted)]
    assert stopped
    assert all(DOCUMENT_CEILING in one.reasons and not one.retryable for one in stopped)
    paid = first.spent.cost_usd + sum(one.spent.cost_usd for one in outcomes)
    assert paid <= 5
    other = await bench.read(job_id="another")
    assert isinstance(other, Answered), "the ceiling is the document's own"
    team = await bench.dispatcher.ledger.team("team")
    assert team.cost_usd == pytest.approx(paid + other.spent.cost_usd, abs=1e-4)


async def test_nothing_is_paid_for_any_document_when_the_team_has_reached_its_ceiling(make: Make) -> None:
    prices = json.dumps({"openai:a1": {"input": 1000, "output": 1000}})
    bench = make(AI_PRICES=prices, MAX_COST_PER_TEAM="8", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="")
    outcomes = [await bench.read(job_id=f"job-{n}") for n in range(6)]
    answered = [one for one in outcomes if isinstance(one, Answered)]
    stopped = [one for one in outcomes if isinstance(one, Exhausted)]
    assert answered
    assert stopped
    assert all(TEAM_CEILING in one.reasons and not one.retryable for one in stopped)
    paid = sum(one.spent.cost_usd for one in answered)
    assert (await bench.dispatcher.ledger.team("team")).cost_usd == pytest.approx(paid, abs=1e-4)
    assert paid <= 8
    assert isinstance(await bench.read(team="others"), Answered), "the ceiling is the team's own"


async def test_nothing_is_paid_for_with_a_key_when_it_has_reached_its_monthly_budget(make: Make) -> None:
    prices = json.dumps({"openai:a1": {"input": 1000, "output": 1000}})
    bench = make(
        AI_PRICES=prices,
        MAX_COST_PER_DOCUMENT="100",
        MAX_COST_PER_TEAM="100",
        ANTHROPIC_API_KEY="",
        ANTHROPIC_BASE_URL="",
    )
    payer = Payer("0123456789ab", 8_000_000)
    outcomes = [await bench.read(job_id=f"job-{n}", payer=payer) for n in range(6)]
    answered = [one for one in outcomes if isinstance(one, Answered)]
    stopped = [one for one in outcomes if isinstance(one, Exhausted)]
    assert answered
    assert stopped
    assert all(KEY_CEILING in one.reasons and not one.retryable for one in stopped)
    paid = sum(one.spent.cost_usd for one in answered)
    ledger = bench.dispatcher.ledger
    assert (await ledger.key(payer.key_id)).cost_usd == pytest.approx(paid, abs=1e-4)
    assert (await ledger.key(payer.key_id)).calls == len(answered)
    assert paid <= 8
    assert (await ledger.team("team")).cost_usd == pytest.approx(paid, abs=1e-4), (
        "what was refused is given back"
    )
    assert isinstance(await bench.read(payer=Payer("another")), Answered), "the budget is the key's own"
    assert isinstance(await bench.read(), Answered), "a job without a key has no such budget"


async def test_the_next_model_is_asked_and_the_first_left_alone_when_the_provider_has_no_such_model(
    make: Make,
) -> None:
    bench = make()
    bench.sim.play({"rules": [{"fault": "rejected", "status": 404, "model": "a1"}]})
    first, second = await bench.read(), await bench.read()
    assert isinstance(first, Answered)
    assert isinstance(second, Answered)
    assert (first.candidate.name, first.spent.reasons) == ("openai:a2", ("model_not_found",))
    assert bench.calls() == {"a1": 1, "a2": 2}


async def test_calls_pages_and_money_are_counted_when_somebody_counts(make: Make) -> None:
    registry = CollectorRegistry()
    counted = DispatchMetrics(registry)
    bench = make(counted, AI_PRICES=json.dumps({"openai:a1": {"input": 10, "output": 10}}))
    bench.sim.play({"rules": [rule("server_error", first=2, last=2)]})
    await bench.read()
    await bench.read()
    shown = generate_latest(registry).decode()
    assert 'ai_calls_total{model="a1",outcome="ok",provider="openai"} 1.0' in shown
    assert 'ai_calls_total{model="a1",outcome="server",provider="openai"} 1.0' in shown
    assert 'ai_calls_total{model="a2",outcome="ok",provider="openai"} 1.0' in shown
    assert 'ai_call_duration_seconds_count{model="a2",provider="openai"} 1.0' in shown
    cost = re.search(r'ai_cost_usd_total\{model="a1",provider="openai"\} ([0-9.e-]+)', shown)
    assert cost
    assert float(cost[1]) > 0


async def test_the_answer_comes_for_nothing_when_the_same_page_was_read_before(make: Make) -> None:
    bench = make()
    first = await bench.read(fingerprint=lambda model: f"same-{model.replace(':', '-')}", number=1)
    other = make()
    second = await other.read(fingerprint=lambda model: f"same-{model.replace(':', '-')}", number=1)
    assert isinstance(first, Answered)
    assert isinstance(second, Answered)
    assert second.cached
    assert not first.cached
    assert second.text == first.text
    assert second.confidence == first.confidence
    assert (second.spent.calls, second.spent.cost_usd) == (0, 0.0)
    assert bench.calls() == {"a1": 1}
    third = await bench.read(fingerprint=lambda model: f"else-{model.replace(':', '-')}", number=1)
    assert isinstance(third, Answered)
    assert not third.cached


async def test_no_call_is_made_when_the_page_has_used_up_its_time(make: Make) -> None:
    bench = make(REQUEST_TIMEOUT="300ms", PAGE_TOTAL_TIMEOUT="700ms")
    bench.sim.play({"rules": [rule("hang")]})
    outcome = await bench.read()
    assert isinstance(outcome, Exhausted)
    assert set(outcome.reasons) == {"timeout", OUT_OF_TIME}
    assert not outcome.retryable
    assert sum(bench.calls().values()) == 1


async def test_the_breaker_stays_closed_when_the_deadline_cut_the_call_short(make: Make) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("hang")]})
    outcome = await bench.read(deadline_at=time.time() + 0.6)
    assert isinstance(outcome, Parked), "the document takes its page back"
    assert (await states(bench))["a1"].state == "closed"
    assert (await states(bench))["a1"].in_flight == 0


async def test_the_lease_is_given_back_when_a_call_is_stopped(make: Make) -> None:
    bench = make()
    bench.sim.play({"rules": [rule("hang")]})
    reading = asyncio.create_task(bench.read())
    deadline = time.monotonic() + DEADLINE_S
    while not bench.calls():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    assert (await states(bench))["a1"].in_flight == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    state = (await states(bench))["a1"]
    assert (state.in_flight, state.state) == (0, "closed")


async def test_the_limits_of_the_provider_are_kept_when_only_its_headers_tell_them(make: Make) -> None:
    bench = make(ANTHROPIC_BASE_URL="", ANTHROPIC_API_KEY="", OPENAI_SECONDARY_MODEL="a1")
    bench.sim.play({"models": [{"model": "a1", "rpm": 60, "burst_s": 2}]})
    assert isinstance(await bench.read(), Answered)
    assert (await states(bench))["a1"].rpm == 60
    outcomes = [await bench.read() for _ in range(10)]
    assert any(isinstance(one, Parked) for one in outcomes)
    assert bench.sim.stats()["models"]["a1"]["limited"] == 0


def test_the_page_of_these_tests_is_long_enough_to_be_compared() -> None:
    assert len(PAGE) > 300
