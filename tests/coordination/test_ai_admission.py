"""Admission against a model of it: whatever workers and clocks do, limits hold, nothing leaks, an open breaker gets
no call but its one probe."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quire.clock import SystemClock
from quire.coordination.ai_admission import (
    Admission,
    Ask,
    Backoff,
    Busy,
    BusyReason,
    CallOutcome,
    Free,
    Lease,
    ReportedLimits,
    Target,
)
from quire.coordination.ai_leases import AiLeases
from quire.coordination.connection import RedisConnection
from quire.coordination.liveness import Workers
from tests.support.clocks import MovableClock
from tests.support.coordination_servers import cluster, plain_server

LEASE_S = 75.0
BASE_S, MAX_S = 30.0, 300.0
# The scripts write their time once a second (CLOCK_WRITTEN_MS), and go on from there when the clock jumps back.
REPEATED_S = 1.0
ROUNDED_S = 0.002


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


@dataclass
class Charge:
    at: float
    amount: float


@dataclass
class Breaker:
    incidents: int = 0
    until: float = 0.0
    opened: float = -1.0
    jumps_back: int = 0
    probes: set[str] = field(default_factory=set)


@dataclass
class Call:
    lease: Lease
    at: float
    request: Charge
    tokens: Charge
    jumps_back: int
    dead: bool = False
    released: bool = False


class ModelOf:
    """What a model's account sees, and what its breaker must be."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.requests: list[Charge] = []
        self.tokens: list[Charge] = []
        self.breaker = Breaker()

    def used(self, charges: list[Charge], now: float) -> float:
        return sum(one.amount for one in charges if one.at > now - 60)


class Admissions(RuleBasedStateMachine):
    """Workers that are slow, dead, late or doubled, on machines whose server's clock jumps."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.connection = RedisConnection.open(self.url)
        self.clock = MovableClock()
        self.admission = Admission(self.connection, LEASE_S, Backoff(BASE_S, MAX_S), self.clock)
        self.leases = AiLeases(self.connection, Workers(self.connection, self.clock, 60), self.clock)
        self.now = 0.0  # as it really passes
        self.effective = 0.0  # as the scripts are to see it: real time and every jump forward
        self.jumps: list[float] = []
        self.jumps_back = 0
        self.calls: list[Call] = []
        self.wide: dict[str, Breaker] = {}

    def do(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    @initialize(
        rpm=st.sampled_from((1, 7, 60, 600)),
        tpm=st.sampled_from((0, 9_000, 100_000)),
        most=st.integers(1, 40),
    )
    def make(self, rpm: int, tpm: int, most: int) -> None:
        self.do(self.connection.command("FLUSHALL"))
        self.models = [
            ModelOf(Target("one", "large", rpm, tpm, most)),
            ModelOf(Target("one", "small", 2 * rpm, tpm, most)),
            ModelOf(Target("two", "large", 0, 30_000, most)),
        ]
        self.wide = {"one": Breaker(), "two": Breaker()}

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.effective += seconds
        self.clock.time += seconds

    # ---- what may happen ----

    @rule(tokens=st.integers(1, 4_000), first=st.integers(0, 2), many=st.integers(1, 12))
    def admit(self, tokens: int, first: int, many: int) -> None:
        for _ in range(many):
            if isinstance(self.admit_one(tokens, first), Busy):
                break

    @rule(tokens=st.integers(1, 4_000), first=st.integers(0, 2))
    def look(self, tokens: int, first: int) -> None:
        """Looking takes nothing, and what it says is true."""
        order = self.models[first:] + self.models[:first]
        seen = self.do(self.admission.peek([Ask(model.target, tokens) for model in order]))
        got = self.admit_one(tokens, first)
        assert isinstance(seen, Free) == isinstance(got, Lease)

    def admit_one(self, tokens: int, first: int) -> Lease | Busy:
        order = self.models[first:] + self.models[:first]
        answer = self.do(self.admission.admit([Ask(model.target, tokens) for model in order]))
        if isinstance(answer, Lease):
            self.granted(answer, order[answer.place])
        else:
            assert len(answer.why) == len(order)
            for model, why in zip(order, answer.why, strict=True):
                self.refused(model, why)
        return answer

    def granted(self, lease: Lease, model: ModelOf) -> None:
        out = [call for call in self.calls if call.lease.target == lease.target and not self.expired(call)]
        assert len(out) < model.target.max_inflight, "more in flight than allowed"
        request, tokens = Charge(self.now, 1), Charge(self.now, lease.tokens)
        model.requests.append(request)
        model.tokens.append(tokens)
        self.calls.append(Call(lease, self.effective, request, tokens, self.jumps_back))
        recent = sum(at > self.now - 60 for at in self.jumps)
        spare = 1 + recent
        if model.target.rpm:
            capacity = -(-model.target.rpm // 60)
            assert model.used(model.requests, self.now) <= model.target.rpm + recent * capacity
        if model.target.tpm:
            assert model.used(model.tokens, self.now) <= model.target.tpm + (spare - 1) * 4_000
        for breaker in (model.breaker, self.wide[lease.target.provider]):
            if breaker.incidents:
                assert self.effective >= breaker.until - 0.002, "a call to an open breaker"
                alive = {call.lease.id for call in self.calls if not self.expired(call)} - {lease.id}
                assert not breaker.probes & alive, "a second probe"
                breaker.probes.add(lease.id)
                assert lease.probe

    def refused(self, model: ModelOf, why: BusyReason) -> None:
        wide = self.wide[model.target.provider]
        held = [call for call in self.calls if not self.surely_expired(call)]
        if why is BusyReason.PROVIDER_OPEN:
            assert self.may_be_open(wide)
        elif why is BusyReason.OPEN:
            assert self.may_be_open(model.breaker)
        elif why is BusyReason.PROBING:
            assert (wide.probes | model.breaker.probes) & {call.lease.id for call in held}
        elif why is BusyReason.IN_FLIGHT:
            assert any(call.lease.target == model.target for call in held), (
                "refused for calls in flight that are not there"
            )

    def expired(self, call: Call) -> bool:
        return call.released or self.effective >= call.at + LEASE_S

    def surely_expired(self, call: Call) -> bool:
        """Also for scripts that saw as little time pass as they may."""
        return call.released or self.least_passed(call.at, call.jumps_back) >= LEASE_S + ROUNDED_S

    def may_be_open(self, breaker: Breaker) -> bool:
        least = self.least_passed(breaker.opened, breaker.jumps_back)
        return breaker.incidents > 0 and least <= breaker.until - breaker.opened + ROUNDED_S

    def least_passed(self, since: float, jumps_back: int) -> float:
        return self.effective - since - REPEATED_S * (self.jumps_back - jumps_back)

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        ending=st.sampled_from((*[CallOutcome.OK] * 5, *CallOutcome)),
        part=st.floats(0, 1),
        retry_after=st.sampled_from((0.0, 0.0, 90.0)),
        again=st.booleans(),
    )
    def settle(self, data, ending: CallOutcome, part: float, retry_after: float, again: bool) -> None:
        call = data.draw(st.sampled_from(self.running()))
        self.calls.remove(call)
        used = 0 if ending is CallOutcome.UNSENT else int(call.lease.tokens * part)
        settled = self.do(
            self.admission.settle(
                call.lease, ending, code=ending.value, tokens=used, retry_after_s=retry_after
            )
        )
        if not self.expired(call):
            assert settled.counted
        assert not (call.released and settled.counted)
        call.tokens.amount = used
        if ending is CallOutcome.UNSENT:
            call.request.amount = 0
        self.learn(call, ending, retry_after)
        model = self.model_of(call)
        assert settled.open == bool(model.breaker.incidents)
        if again:
            repeated = self.do(self.admission.settle(call.lease, ending, tokens=used))
            assert not repeated.counted, "a lease counts once"
            self.learn(call, ending, 0.0)

    def learn(self, call: Call, ending: CallOutcome, retry_after: float) -> None:
        model = self.model_of(call)
        own, wide = model.breaker, self.wide[call.lease.target.provider]
        if ending is CallOutcome.OK:
            for breaker in (own, wide):
                if breaker.incidents and call.at > breaker.opened:
                    breaker.incidents, breaker.until = 0, 0.0
                    breaker.probes.clear()
        elif ending in (CallOutcome.FAILED, CallOutcome.LIMITED):
            self.open(own, call, retry_after)
            wide.probes.discard(call.lease.id)
        elif ending is CallOutcome.AUTH:
            self.open(wide, call, retry_after)
            own.probes.discard(call.lease.id)
        else:
            own.probes.discard(call.lease.id)
            wide.probes.discard(call.lease.id)

    def open(self, breaker: Breaker, call: Call, retry_after: float) -> None:
        if call.at > breaker.opened:
            backoff = min(BASE_S * 2**breaker.incidents, MAX_S)
            breaker.incidents += 1
            breaker.opened, breaker.jumps_back = self.effective, self.jumps_back
            breaker.until = self.effective + max(backoff, retry_after)
            breaker.probes.clear()
        elif breaker.incidents and breaker is not self.wide[call.lease.target.provider]:
            breaker.until = max(breaker.until, self.effective + retry_after)

    def running(self) -> list[Call]:
        return [call for call in self.calls if not call.dead]

    def model_of(self, call: Call) -> ModelOf:
        return next(model for model in self.models if model.target == call.lease.target)

    @rule(seconds=st.sampled_from((0.01, 0.3, 1.0, 5.0, 20.0, 31.0, 76.0, 400.0)))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    @rule(seconds=st.sampled_from((0.5, 30.0, 3_600.0)))
    def clock_jumps_back(self, seconds: float) -> None:
        """Seen by the scripts at the next call; time goes on from there."""
        self.admit_one(1, 0)
        self.clock.time -= seconds
        self.jumps_back += 1
        self.admit_one(1, 0)

    @rule(seconds=st.sampled_from((30.0, 3_600.0)))
    def clock_jumps_forward(self, seconds: float) -> None:
        self.clock.time += seconds
        self.effective += seconds
        self.jumps.append(self.now)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_worker_dies(self, data) -> None:
        """Its call is never settled; the lease has to expire by itself. What it used is not known: all of it."""
        call = data.draw(st.sampled_from(self.running()))
        self.pass_time(LEASE_S)
        call.dead = True

    @precondition(lambda self: self.running())
    @rule(data=st.data(), dead=st.booleans(), again=st.booleans())
    def a_worker_is_found_dead(self, data, dead: bool, again: bool) -> None:
        """Its leases are released at once. One that was only paused settles its call later."""
        lost = data.draw(st.sampled_from(self.running()))
        together = [call for call in self.running() if call.lease.target == lost.lease.target]
        ids = [call.lease.id for call in together]
        for _ in range(1 + again):
            self.do(self.leases.release(str(lost.lease.target), ids))
        for call in together:
            call.released, call.dead = True, dead
        [state] = self.do(self.admission.states([lost.lease.target]))
        assert state.in_flight == 0

    @rule(tokens=st.integers(1, 4_000), which=st.integers(0, 2))
    def come_again(self, tokens: int, which: int) -> None:
        """Whoever comes again when told to gets the call, if nobody else came and none is in flight."""
        model = self.models[which]
        answer = self.do(self.admission.admit([Ask(model.target, tokens)]))
        if isinstance(answer, Lease):
            self.granted(answer, model)
        elif answer.why[0] in (BusyReason.REQUESTS, BusyReason.TOKENS):
            for _ in range(3):  # the first answers may be for a smaller page
                self.pass_time(answer.wait_s + 0.001)
                answer = self.do(self.admission.admit([Ask(model.target, tokens)]))
                if isinstance(answer, Lease):
                    break
            assert isinstance(answer, Lease), answer
            self.granted(answer, model)

    # ---- and nothing is leaked ----

    def teardown(self) -> None:
        if hasattr(self, "models"):
            self.calls.clear()
            self.pass_time(1_000)
            for model in self.models:
                model.requests.clear()
                model.tokens.clear()
                self.full_again(model)
        self.do(self.connection.close())
        self.loop.close()

    def full_again(self, model: ModelOf) -> None:
        """With nobody left, the whole capacity is there, whatever was reserved and never settled."""
        first = self.do(self.admission.admit([Ask(model.target, 1)]))
        assert isinstance(first, Lease), first
        self.do(self.admission.settle(first, CallOutcome.OK, tokens=1))
        state = self.do(self.admission.states([model.target]))[0]
        assert (state.state, state.in_flight) == ("closed", 0)
        wanted = min(state.cap, -(-model.target.rpm // 60) - 1 if model.target.rpm else state.cap)
        for _ in range(wanted):
            answer = self.do(self.admission.admit([Ask(model.target, 1)]))
            assert isinstance(answer, Lease), (answer, state)


def test_limits_hold_and_nothing_leaks_when_anything_happens(server_url: str) -> None:
    Admissions.url = server_url
    runner = Admissions.TestCase()
    runner.settings = settings(
        max_examples=int(os.environ.get("STATES", "30")),
        stateful_step_count=50,
        deadline=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a shrunk history takes minutes to find
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    runner.runTest()


async def test_all_keys_lie_in_one_slot_when_the_server_is_a_cluster() -> None:
    with cluster() as url:
        connection = RedisConnection.open(url)
        try:
            admission = Admission(connection)
            targets = [Target("one", "large", 60, 9_000, 4), Target("two", "other", 60, 0, 4)]
            asks = [Ask(target, 100) for target in targets]
            first, second = await admission.admit(asks), await admission.admit(asks)
            assert isinstance(first, Lease)
            assert isinstance(second, Lease)
            assert [first.target.provider, second.target.provider] == ["one", "two"]
            assert isinstance(await admission.admit(asks), Busy)
            await admission.settle(first, CallOutcome.LIMITED, code="rate_limit", retry_after_s=60)
            states = await admission.states(targets)
            assert [one.state for one in states] == ["open", "closed"]
            assert (await admission.recent_errors())[0].code == "rate_limit"
            leases = AiLeases(connection, Workers(connection, SystemClock(), 60))
            assert await leases.release(str(second.target), [second.id]) == 1
        finally:
            await connection.close()


async def test_the_same_lease_is_answered_when_the_call_is_repeated(server_url: str) -> None:
    """As the client does after a lost connection: it can't know whether the first one arrived."""
    connection = RedisConnection.open(server_url)
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection)
        ask = [Ask(Target("one", "large", 600, 0, 4), 100)]
        first = await admission._ask(ask, "same", take=True)
        again = await admission._ask(ask, "same", take=True)
        assert first == again
        [state] = await admission.states([ask[0].target])
        assert (state.in_flight, round(state.rpm_used)) == (1, 1)
    finally:
        await connection.close()


async def test_a_model_is_left_alone_when_it_asked_for_a_pause(server_url: str) -> None:
    connection, clock = RedisConnection.open(server_url), MovableClock()
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection, clock=clock)
        ask = [Ask(Target("one", "large"), 100)]
        lease = await admission.admit(ask)
        assert isinstance(lease, Lease)
        await admission.settle(lease, CallOutcome.OK, tokens=10, reported=ReportedLimits(rpm=120, pause_s=5))
        refused = await admission.admit(ask)
        assert isinstance(refused, Busy)
        assert refused.why == (BusyReason.PAUSED,)
        clock.time += refused.wait_s
        assert isinstance(await admission.admit(ask), Lease)
        assert (await admission.states([ask[0].target]))[0].rpm == 120
    finally:
        await connection.close()


async def test_a_probe_is_granted_before_its_time_when_the_breaker_has_rested(server_url: str) -> None:
    connection, clock = RedisConnection.open(server_url), MovableClock()
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection, backoff=Backoff(300, 300), clock=clock)
        target = Target("one", "large", 600, 9_000)
        assert await admission.admit_probe(target, 15) is None, "a healthy model gets no probe"
        lease = await admission.admit([Ask(target, 100)])
        assert isinstance(lease, Lease)
        await admission.settle(lease, CallOutcome.FAILED, code="server")
        clock.time += 14
        assert await admission.admit_probe(target, 15) is None
        clock.time += 2
        probe = await admission.admit_probe(target, 15)
        assert probe is not None
        assert await admission.admit_probe(target, 15) is None, "one probe at a time"
        assert isinstance(await admission.admit([Ask(target, 100)]), Busy), "pages still wait"
        await admission.settle(probe, CallOutcome.FAILED, code="server")
        clock.time += 16
        probe = await admission.admit_probe(target, 15)
        assert probe is not None
        await admission.settle(probe, CallOutcome.OK)
        assert isinstance(await admission.admit([Ask(target, 100)]), Lease)
    finally:
        await connection.close()


@pytest.mark.parametrize("outcome", [CallOutcome.LIMITED, CallOutcome.AUTH])
async def test_no_probe_is_granted_when_the_provider_asked_for_a_pause(
    server_url: str, outcome: CallOutcome
) -> None:
    connection, clock = RedisConnection.open(server_url), MovableClock()
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection, backoff=Backoff(300, 300), clock=clock)
        target = Target("one", "large")
        lease = await admission.admit([Ask(target, 100)])
        assert isinstance(lease, Lease)
        await admission.settle(lease, outcome, code="rate_limit", retry_after_s=120)
        clock.time += 119
        assert await admission.admit_probe(target, 15) is None
        clock.time += 2
        assert await admission.admit_probe(target, 15) is not None
    finally:
        await connection.close()


async def test_everything_goes_by_itself_when_nobody_calls_any_more(server_url: str) -> None:
    connection = RedisConnection.open(server_url)
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection)
        lease = await admission.admit([Ask(Target("one", "large", 60, 9_000, 4), 100)])
        assert isinstance(lease, Lease)
        await admission.settle(lease, CallOutcome.FAILED, code="server")
        await admission.admit([Ask(Target("one", "small", 60, 9_000, 4), 100)])
        found = await connection.command("KEYS", "*")
        assert len(found) > 8
        for key in found:
            assert int(await connection.command("PTTL", key)) > 0, key
    finally:
        await connection.close()


@pytest.mark.parametrize("seed", range(4))
async def test_no_window_has_more_than_the_limit_when_greedy_workers_guess_badly(
    server_url: str, seed: int
) -> None:
    """Pages of changing size, guesses that are far too high and corrected late: what a refund could mint shows here."""
    connection, clock, chance = RedisConnection.open(server_url), MovableClock(), random.Random(seed)
    target = Target("one", "large", rpm=0, tpm=60_000, max_inflight=1_000)
    charged: list[Charge] = []
    out: list[tuple[float, Lease, Charge, int]] = []
    try:
        await connection.command("FLUSHALL")
        admission = Admission(connection, lease_s=1_000, clock=clock)
        # With no successes the cap stays at its start; limits are what is tried here.
        for _ in range(40):
            lease = await admission.admit([Ask(Target("one", "large", 0, 0, 1_000), 0)])
            assert isinstance(lease, Lease)
            await admission.settle(lease, CallOutcome.OK)
        started = clock.time
        phase = 0
        while clock.time < started + 550:
            if int((clock.time - started) / 60) != phase:
                phase += 1
            for entry in [one for one in out if one[0] <= clock.time]:
                out.remove(entry)
                await admission.settle(entry[1], CallOutcome.OK, tokens=entry[3])
                entry[2].amount = entry[3]
            while True:
                # Small honest pages, then large ones, then guesses of which little comes true, much later.
                wild = phase % 3 == 2
                tokens = chance.choice((200, 900, 4_000) if phase % 3 == 0 else (12_000, 25_000))
                lease = await admission.admit([Ask(target, tokens)])
                if not isinstance(lease, Lease):
                    break
                used = tokens // 20 if wild else tokens
                charge = Charge(clock.time, used)
                charged.append(charge)
                out.append((clock.time + (chance.uniform(20, 55) if wild else 1.0), lease, charge, used))
            clock.time += 0.5
        assert len(charged) > 50
        for last in charged:
            window = [one.amount for one in charged if last.at - 60 < one.at <= last.at]
            assert sum(window) <= target.tpm
    finally:
        await connection.close()
