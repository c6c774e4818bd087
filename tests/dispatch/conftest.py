"""A real server, the simulator, and dispatchers of real parts that talk to both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from quire.clock import Clock, SystemClock
from quire.coordination.ai_accounts import AiAccounts
from quire.coordination.ai_admission import Admission, Backoff
from quire.coordination.answer_index import AnswerIndex
from quire.coordination.connection import RedisConnection
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Queues
from quire.dispatch.answer_cache import AnswerCache
from quire.dispatch.call_outcomes import CallCounter
from quire.dispatch.candidates import Candidates
from quire.dispatch.dispatcher import Dispatcher, DispatchOptions
from quire.dispatch.ledger import Ceilings, Ledger
from quire.dispatch.page_task import PagePicture, PageTask
from quire.objects.object_store import ObjectStore
from quire.providers import configured_providers
from quire.providers.price_list import PriceList
from quire.settings import load
from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.coordination_servers import plain_server

PAGE = (
    "The quick brown fox jumps over the lazy dog near the river bank while seven wizards brew potions. " * 4
)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


@pytest.fixture(scope="session")
def running() -> Iterator[RunningSimulator]:
    with simulator({}) as one:
        yield one


@pytest.fixture
def sim(running: RunningSimulator) -> RunningSimulator:
    running.play({})
    running.reset()
    return running


@dataclass
class Bench:
    """A dispatcher and what is around it."""

    dispatcher: Dispatcher
    connection: RedisConnection
    sim: RunningSimulator
    woken: list[int]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    def task(self, **changes: Any) -> PageTask:
        async def prepare() -> PagePicture:
            number = made["number"]
            text = f"=== Page {number} (current) ===\n{PAGE} This is page {number}.\n"
            return PagePicture(b"\xff\xd8" + bytes(500), "image/jpeg", text, PAGE, 850 * 1100)

        made: dict[str, Any] = {
            "job_id": "job",
            "epoch": 1,
            "number": next(self.numbers),
            "team": "team",
            "instructions": "Read the page.",
            "engine": None,
            "tier": None,
            "deadline_at": None,
            "prepare": prepare,
            "prepared": False,
            "fingerprint": None,
        } | changes
        return PageTask(**made)

    async def read(self, **changes: Any) -> Any:
        return await self.dispatcher.read(self.task(**changes))

    def calls(self) -> dict[str, int]:
        return {name: one["calls"] for name, one in self.sim.stats()["models"].items()}


@pytest.fixture
async def make(redis_url: str, sim: RunningSimulator, tmp_path: Path) -> AsyncIterator[Callable[..., Bench]]:
    """Builds dispatchers as bootstrap does; settings by their names. Each test has an empty server."""
    opened: list[Bench] = []
    first = RedisConnection.open(redis_url)
    await first.command("FLUSHALL")
    await first.close()

    def build(counting: CallCounter | None = None, clock: Clock | None = None, **given: str) -> Bench:
        clock = clock or SystemClock()
        names = {
            "OPENAI_BASE_URL": sim.openai_url,
            "OPENAI_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": sim.anthropic_url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "OPENAI_PRIMARY_MODEL": "a1",
            "OPENAI_SECONDARY_MODEL": "a2",
            "OPENAI_FAST_MODEL": "a3",
            "ANTHROPIC_PRIMARY_MODEL": "b1",
            "ANTHROPIC_SECONDARY_MODEL": "b2",
            "ANTHROPIC_FAST_MODEL": "b3",
        } | given
        ai = load(names).ai
        connection = RedisConnection.open(redis_url)
        providers = configured_providers.build(ai, clock)
        candidates = Candidates.from_settings(ai, list(providers))
        objects = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")
        woken: list[int] = []

        async def wake(count: int) -> int:
            woken.append(count)
            return count

        dispatcher = Dispatcher(
            candidates=candidates,
            providers=providers,
            admission=Admission.for_timeout(
                connection,
                candidates.longest_timeout_s,
                Backoff(ai.breaker_base_backoff_s, ai.breaker_max_backoff_s),
                sticky=ai.budget_policy == "sticky",
            ),
            ledger=Ledger(
                AiAccounts(connection),
                PriceList(ai.prices),
                clock,
                Ceilings(ai.max_cost_per_document_usd, ai.max_cost_per_team_usd),
            ),
            cache=AnswerCache(
                AnswerIndex(connection),
                objects,
                JobStore(connection, Queues(connection, clock), clock, 3600),
                ai.cache_ttl_s,
            ),
            clock=clock,
            options=DispatchOptions(ai.page_total_timeout_s, ai.max_tokens_out, ai.wait_max_s),
            wake=wake,
            counting=counting,
        )
        bench = Bench(dispatcher, connection, sim, woken)
        opened.append(bench)
        return bench

    yield build
    for bench in opened:
        await bench.dispatcher.close()
        await bench.connection.close()
    await asyncio.sleep(0)
