"""The dispatcher under load, beside LiteLLM's Router on the same simulator.

    python bench/dispatch.py admission            Redis CPU of one admission
    python bench/dispatch.py busy                 10,000 pages of 20 ms: are the slots used?
    python bench/dispatch.py storm                100 documents x 20 pages while providers come and go
    python bench/dispatch.py batch                5 documents x 20 pages against a sliding window of a minute
    python bench/dispatch.py versus [PYTHON]      side by side; PYTHON has `litellm`, `redis` and `uvloop` installed

The simulator runs in a process of its own, so that CPU figures are the client's alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.coordination_servers import plain_server  # noqa: E402

from quire.clock import SystemClock  # noqa: E402
from quire.coordination import keys  # noqa: E402
from quire.coordination.ai_accounts import AiAccounts  # noqa: E402
from quire.coordination.ai_admission import (  # noqa: E402
    Admission,
    Ask,
    Backoff,
    CallOutcome,
    Free,
    Lease,
    Target,
)
from quire.coordination.answer_index import AnswerIndex  # noqa: E402
from quire.coordination.connection import RedisConnection  # noqa: E402
from quire.coordination.job_store import JobStore  # noqa: E402
from quire.coordination.streams import QUEUES, Queues  # noqa: E402
from quire.dispatch.answer_cache import AnswerCache  # noqa: E402
from quire.dispatch.candidates import Candidates  # noqa: E402
from quire.dispatch.dispatcher import Dispatcher, DispatchOptions  # noqa: E402
from quire.dispatch.ledger import Ceilings, Ledger  # noqa: E402
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask, Parked  # noqa: E402
from quire.domain.job import UnitKind  # noqa: E402
from quire.objects.object_store import ObjectStore  # noqa: E402
from quire.providers import configured_providers  # noqa: E402
from quire.providers.price_list import PriceList  # noqa: E402
from quire.settings import load  # noqa: E402
from quire.simulator.simulator_thread import RunningSimulator  # noqa: E402

PICTURE = b"\xff\xd8" + random.Random(1).randbytes(75_000)
TEXT = (
    "The quick brown fox jumps over the lazy dog near the river bank while seven wizards brew potions. " * 10
)
MODELS = {"OPENAI_PRIMARY_MODEL": "a1", "OPENAI_SECONDARY_MODEL": "a2", "ANTHROPIC_PRIMARY_MODEL": "b1"}


@contextmanager
def simulator() -> Iterator[RunningSimulator]:
    process = subprocess.Popen(
        [sys.executable, "-m", "quire", "simulate", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "http://" in line:
                address = line[line.index("http://") :].split()[0].rstrip(".,)/")
                yield RunningSimulator(address.removesuffix("/v1"))
                break
    finally:
        process.terminate()
        process.wait()


# ---- ours ------------------------------------------------------------------------------------------------------


class Pages:
    """Pages through a dispatcher by so many hands: what can't go now waits in a line, as parked pages do."""

    def __init__(self, url: str, sim: RunningSimulator, folder: str, **env: str) -> None:
        clock = SystemClock()
        names = {
            "OPENAI_BASE_URL": sim.openai_url,
            "OPENAI_API_KEY": "sk-bench",
            "ANTHROPIC_BASE_URL": sim.anthropic_url,
            "ANTHROPIC_API_KEY": "sk-bench",
            "AI_CACHE_TTL": "0",
            **MODELS,
            **env,
        }
        ai = load(names).ai
        self.connection = RedisConnection.open(url)
        providers = configured_providers.build(ai, clock)
        candidates = Candidates.from_settings(ai, list(providers))
        self.dispatcher = Dispatcher(
            candidates=candidates,
            providers=providers,
            admission=Admission.for_timeout(
                self.connection,
                candidates.longest_timeout_s,
                Backoff(ai.breaker_base_backoff_s, ai.breaker_max_backoff_s),
            ),
            ledger=Ledger(
                AiAccounts(self.connection),
                PriceList(ai.prices),
                clock,
                Ceilings(ai.max_cost_per_document_usd, ai.max_cost_per_team_usd),
            ),
            cache=AnswerCache(
                AnswerIndex(self.connection),
                ObjectStore.open(folder, Path(folder) / "scratch"),
                JobStore(self.connection, Queues(self.connection, clock), clock, 3600),
                ai.cache_ttl_s,
            ),
            clock=clock,
            options=DispatchOptions(ai.page_total_timeout_s, ai.max_tokens_out),
            wake=self._wake,
        )
        self.line: deque[int] = deque()
        self.ready: asyncio.Queue[int | None] = asyncio.Queue()
        self.begun: dict[int, float] = {}
        self.took: list[float] = []
        self.lost = 0
        self.parked = 0

    async def _wake(self, count: int) -> int:
        woken = min(count, len(self.line))
        for _ in range(woken):
            self.ready.put_nowait(self.line.popleft())
        return woken

    async def run(self, pages: int, hands: int) -> None:
        for number in range(pages):
            self.ready.put_nowait(number)
        self.left = pages
        await asyncio.gather(*(self._hand() for _ in range(hands)))

    async def _hand(self) -> None:
        while self.left > 0:
            number = await self.ready.get()
            if number is None:
                break
            self.begun.setdefault(number, time.perf_counter())
            outcome = await self.dispatcher.read(self._task(number))
            if isinstance(outcome, Parked):
                self.parked += 1
                if outcome.in_line:
                    self.line.append(number)
                    # As `coordination/waiting_pages.py` does it: the longer the line, the later the timers.
                    wait_s = min(outcome.wait_s + 0.02 * len(self.line), 10.0)
                    asyncio.get_running_loop().call_later(wait_s, self._overslept, number)
                else:
                    asyncio.get_running_loop().call_later(outcome.wait_s, self.ready.put_nowait, number)
                continue
            if isinstance(outcome, Exhausted) and outcome.retryable:
                await self.dispatcher.another_round(self._task(number), outcome.spent)
                asyncio.get_running_loop().call_later(1.0, self.ready.put_nowait, number)
                continue
            self.took.append(time.perf_counter() - self.begun[number])
            self.lost += not isinstance(outcome, Answered)
            self.left -= 1
            if self.left == 0:
                for _ in range(1000):
                    self.ready.put_nowait(None)

    def _overslept(self, number: int) -> None:
        if number in self.line:
            self.line.remove(number)
            self.ready.put_nowait(number)

    def _task(self, number: int) -> PageTask:
        async def prepare() -> PagePicture:
            text = f"=== Page {number} (current) ===\n{TEXT}\n"
            return PagePicture(PICTURE, "image/jpeg", text, TEXT, 850 * 1100)

        return PageTask("bench", 1, number, "team", "Read.", None, None, None, prepare, True, None)

    async def warm(self, most: int) -> None:
        """Loads the SDKs and lets the cap grow, so that the steady state is measured."""
        for provider in self.dispatcher.providers.values():
            model = self.dispatcher.candidates.models[provider.name].primary
            await provider.check(model)
        for target in self.dispatcher.candidates.all():
            held = []
            for _ in range(4 * most):
                lease = await self.dispatcher.admission.admit([Ask(target, 10)])
                if isinstance(lease, Lease):
                    held.append(lease)
                else:
                    for one in held:
                        await self.dispatcher.admission.settle(one, CallOutcome.OK, tokens=10)
                    held = []
            for one in held:
                await self.dispatcher.admission.settle(one, CallOutcome.OK, tokens=10)

    async def close(self) -> None:
        await self.dispatcher.close()
        await self.connection.close()


async def ours(
    sim: RunningSimulator, scenario: dict[str, Any], pages: int, hands: int, **env: str
) -> dict[str, Any]:
    with plain_server() as (url, _port), tempfile.TemporaryDirectory() as folder:
        one = Pages(url, sim, folder, MAX_INFLIGHT_PER_MODEL=str(hands), **env)
        sim.play({})
        await one.warm(hands)
        sim.play(scenario)
        sim.reset()
        started, cpu = time.perf_counter(), time.process_time()
        await one.run(pages, hands)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        result = measured(sim, one.took, wall, cpu, one.lost)
        result["parked"] = one.parked
        await one.close()
        return result


def measured(sim: RunningSimulator, took: list[float], wall: float, cpu: float, lost: int) -> dict[str, Any]:
    stats = sim.stats()
    outcomes: Counter[str] = Counter()
    for name, model in stats["models"].items():
        for outcome, count in model["outcomes"].items():
            outcomes[f"{name} {outcome}"] += count
        if model["in_flight"]:
            outcomes[f"{name} out"] += model["in_flight"]
    ordered = sorted(took)
    return {
        "pages": len(took),
        "per_s": round(len(took) / wall, 1),
        "cpu_ms": round(cpu / len(took) * 1000, 2),
        "p50_ms": round(statistics.median(ordered) * 1000, 1),
        "p99_ms": round(ordered[int(0.99 * (len(ordered) - 1))] * 1000, 1),
        "lost": lost,
        "calls": dict(outcomes),
    }


# ---- LiteLLM ----------------------------------------------------------------------------------------------------

# ruff: noqa: E501
LITELLM = r"""
import asyncio, base64, json, sys, time
settings = json.loads(sys.argv[1])
import litellm
from litellm import Router
litellm.suppress_debug_info = True
litellm.telemetry = False
picture = base64.b64encode(open(settings["picture"], "rb").read()).decode()
def deployment(group, model, base, key):
    prefix = "anthropic" if model.startswith("b") else "openai"
    return {"model_name": group, "litellm_params": {"model": f"{prefix}/{model}", "api_base": base, "api_key": "sk-bench",
        "timeout": settings["timeout"]}}
models = [deployment("first", "a1", settings["openai"], "")]
fallbacks = []
if not settings["only"]:
    models += [deployment("second", "a2", settings["openai"], ""), deployment("third", "b1", settings["anthropic"], "")]
    fallbacks = [{"first": ["second", "third"]}]
router = Router(model_list=models, fallbacks=fallbacks, redis_host="127.0.0.1", redis_port=settings["port"], redis_password=None,
    num_retries=0, allowed_fails=1, cooldown_time=30, timeout=settings["timeout"])
content = [{"type": "text", "text": settings["text"]}, {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + picture}}]
took, lost = [], 0
async def call():
    return await router.acompletion(model="first", messages=[{"role": "system", "content": "Read."}, {"role": "user", "content": content}], max_tokens=8192)
async def hand(queue):
    global lost
    while queue:
        queue.pop()
        begun = time.perf_counter()
        try:
            await call()
        except Exception:
            lost += 1
        took.append(time.perf_counter() - begun)
async def main():
    await call()
    sys.stdout.write("ready\n"); sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    queue = list(range(settings["pages"]))
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(hand(queue) for _ in range(settings["hands"])))
    print(json.dumps({"wall": time.perf_counter() - started, "cpu": time.process_time() - cpu, "took": took, "lost": lost}))
import uvloop
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def theirs(
    python: str,
    sim: RunningSimulator,
    scenario: dict[str, Any],
    pages: int,
    hands: int,
    timeout_s: float,
    *,
    only: bool,
) -> dict[str, Any]:
    with plain_server() as (_url, port), tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "picture"
        picture.write_bytes(PICTURE)
        given = {
            **{
                "picture": str(picture),
                "openai": sim.openai_url,
                "anthropic": sim.anthropic_url,
                "port": port,
            },
            **{"pages": pages, "hands": hands, "timeout": timeout_s, "only": only},
            "text": f"=== Page 1 (current) ===\n{TEXT}\n",
        }
        sim.play({})
        process = subprocess.Popen(
            [python, "-c", LITELLM, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        while "ready" not in (line := process.stdout.readline()):
            if not line:
                raise SystemExit("litellm did not start")
        sim.play(scenario)
        sim.reset()
        process.stdin.write("go\n")
        process.stdin.flush()
        answer = json.loads([line for line in process.stdout if line.startswith("{")][-1])
        process.wait()
        return measured(sim, answer["took"], answer["wall"], answer["cpu"], answer["lost"])


# ---- the runs ---------------------------------------------------------------------------------------------------


async def admission() -> None:
    with plain_server() as (url, _port):
        connection = RedisConnection.open(url)
        one = Admission(connection)

        async def cost(label: str, asks: list[Ask], calls: int = 2000) -> None:
            await connection.command("CONFIG", "RESETSTAT")
            for _ in range(calls // 50):
                await asyncio.gather(*(one.admit(asks) for _ in range(50)))
            info = str(await connection.command("INFO", "commandstats"))
            found = re.search(r"cmdstat_evalsha.*?usec_per_call\W+([0-9.]+)", info)
            assert found
            print(f"{label:32} {float(found[1]):8.1f} µs of Redis CPU")

        for count in (1, 3, 10, 50):
            asks = [Ask(Target(f"p{i % 5}", f"r{count}-{i}", 6, 100_000, 64), 20_000) for i in range(count)]
            while isinstance(await one.admit(asks), Lease):
                pass
            await cost(f"{count} candidates, none has budget", asks)
        asks = [Ask(Target(f"p{i % 5}", f"f{i}", max_inflight=2), 100) for i in range(50)]
        while isinstance(await one.admit(asks), Lease):
            pass
        await cost("50 candidates, all in flight", asks)
        asks = [Ask(Target(f"p{i % 5}", f"o{i}", max_inflight=2), 100) for i in range(50)]
        for ask in asks:
            lease = await one.admit([ask])
            assert isinstance(lease, Lease)
            await one.settle(lease, CallOutcome.FAILED, code="server")
        await cost("50 candidates, all open", asks)
        await cost("49 open, the last is free", [*asks[:49], Ask(Target("x", "y", max_inflight=10**6), 10)])
        await connection.close()


async def busy(sim: RunningSimulator, pages: int = 10_000, slots: int = 4) -> None:
    sim.play({"models": [{"model": "*", "latency": 0.02}]})
    with plain_server() as (url, _port), tempfile.TemporaryDirectory() as folder:
        one = Pages(
            url,
            sim,
            folder,
            MAX_INFLIGHT_PER_MODEL=str(slots),
            ANTHROPIC_API_KEY="",
            ANTHROPIC_BASE_URL="",
            OPENAI_SECONDARY_MODEL="a1",
        )
        await one.warm(slots)
        held: list[float] = []
        settle = Admission.settle

        async def timed_settle(self: Admission, lease: Lease, *args: Any, **more: Any) -> Any:
            # From when the server granted it (whole milliseconds, so half of one is taken off) to before it is given back.
            held.append(time.time() - lease.admitted_ms / 1000 - 0.0005)
            return await settle(self, lease, *args, **more)

        Admission.settle = timed_settle  # type: ignore[method-assign]
        sim.reset()
        started = time.perf_counter()
        await one.run(pages, 4 * slots)
        wall = time.perf_counter() - started
        log = sim.stats(with_calls=True)["models"]["a1"]["log"]
        at_provider = sum(call["ended_at"] - call["at"] for call in log)
        print(
            f"{pages} pages of 20 ms, {slots} slots: {pages / wall:.0f} pages/s, {wall:.1f} s, {one.parked} times parked"
        )
        print(
            f"  slots leased {sum(held) / wall / slots:.1%} of the time; at the provider {at_provider / wall / slots:.1%}"
        )
        await one.close()


def storm_rules(chance: random.Random, seconds: float) -> list[dict[str, Any]]:
    """Outages of one to six seconds, one provider or one model at a time, hardly ever all of them."""
    rules: list[dict[str, Any]] = []
    at = 1.0
    while at < seconds:
        fault = chance.choice(("server_error", "hang", "rate_limit", "reset", "overloaded"))
        model = chance.choice(("a1", "a2", "a?", "b?", "a1"))
        rule = {"fault": fault, "model": model, "from_s": at, "until_s": at + chance.uniform(1, 6)}
        if fault == "rate_limit":
            rule["retry_after_s"] = chance.choice((1, 3))
        rules.append(rule)
        at += chance.uniform(0.5, 3)
    return rules


class Idleness:
    """How long pages waited although a model was free and this worker had a hand free, by looking every 50 ms."""

    def __init__(self) -> None:
        self.looks = 0
        self.spells: list[float] = []

    async def _waiting(self, one: Any) -> bool:
        """Whether a page of the line really waits: those that their timer woke may still stand in it."""
        line = await one.connection.command("ZRANGE", keys.AI_WAITING, 0, 99)
        if not line:
            return False
        scores = await one.connection.command("ZMSCORE", QUEUES[UnitKind.PAGE].delayed, *line)
        return any(score is not None for score in scores)

    async def watch(self, one: Any, hands: int) -> None:
        dispatcher, since = one.parts.ai.dispatcher, 0.0
        asks = [Ask(candidate.target, 3_000) for candidate in dispatcher.candidates.of(None, None)]
        while True:
            await asyncio.sleep(0.05)
            waiting, seen = await asyncio.gather(
                one.parts.ai.waiting.length(), dispatcher.admission.peek(asks)
            )
            idle = waiting > 0 and isinstance(seen, Free) and one.worker.in_hand < hands
            now = time.perf_counter()
            self.looks += 1
            if idle and not since:
                since = now
            elif not idle and since:
                self.spells.append(now - since)
                since = 0.0


async def documents(
    sim: RunningSimulator,
    count: int,
    pages: int,
    timeout_s: float,
    idleness: Idleness | None = None,
    **env: str,
) -> tuple[Any, ...]:
    from tests.support.marked_documents import marked_pdf
    from tests.support.running import over, quire, upload
    from tests.support.running import pages as records

    from quire.domain.job import Mode

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [marked_pdf(folder / f"{seed}.pdf", pages, seed) for seed in range(count)]
        names = {
            "OPENAI_BASE_URL": sim.openai_url,
            "OPENAI_API_KEY": "sk-bench",
            "ANTHROPIC_BASE_URL": sim.anthropic_url,
            "ANTHROPIC_API_KEY": "sk-bench",
            "AI_CACHE_TTL": "0",
            "LOG_LEVEL": "error",
            "READER_PROCESSES": "2",
            **MODELS,
        }
        async with quire(folder, **{**names, **env}) as one:
            sim.reset()
            started = time.perf_counter()
            hands = int(env.get("WORKER_CONCURRENCY", 0))
            watching = asyncio.create_task(idleness.watch(one, hands)) if idleness else None
            jobs = [await upload(one, file, mode=Mode.AI, timeout_s=timeout_s) for file in files]
            done = []
            for job in jobs:
                ended = await over(one, job.job_id)
                while not ended.status.terminal:
                    ended = await over(one, job.job_id)
                done.append(ended)
            wall = time.perf_counter() - started
            if watching:
                watching.cancel()
            sources: Counter[str] = Counter()
            for job in done:
                sources.update(str(record.source) for record in (await records(one, job)).values())
            late = [job.completed_at - (job.deadline_at or 0) for job in done if job.completed_at]
            return done, sources, max(late), wall


async def storm(sim: RunningSimulator) -> None:
    import tests.support.running as running

    running.DEADLINE_S = 400.0
    sim.play(
        {
            "models": [{"model": "*", "latency": {"lognormal": [0.3, 0.5]}}],
            "rules": storm_rules(random.Random(7), 120),
        }
    )
    env = {
        "REQUEST_TIMEOUT": "4s",
        "BREAKER_BASE_BACKOFF": "2s",
        "BREAKER_MAX_BACKOFF": "10s",
        "WORKER_CONCURRENCY": "48",
    }
    idleness = Idleness()
    done, sources, late, wall = await documents(sim, 100, 20, 180.0, idleness, **env)
    calls = sim.stats()["total"]["calls"]
    print(f"storm: 100 documents x 20 pages in {wall:.0f} s; {Counter(str(job.status) for job in done)}")
    print(
        f"  pages {dict(sources)}: {sources['ai'] / 20:.1f} % by AI; {calls} calls, {calls / 2000:.3f} per page"
    )
    print(f"  latest end relative to its deadline: {late:+.1f} s")
    print(
        f"  pages waiting while a model and a hand were free: {sum(idleness.spells) / wall:.1%} of the time, "
        f"longest {max(idleness.spells, default=0) * 1000:.0f} ms, {idleness.looks} looks"
    )
    for name, model in sim.stats()["models"].items():
        print(
            f"  {name}: {model['calls']} calls, {model['calls_in_window']} during outages, {model['outcomes']}"
        )


async def batch(sim: RunningSimulator) -> None:
    import tests.support.running as running

    running.DEADLINE_S = 400.0
    limits = {"rpm": 30, "tpm": 90_000}
    sim.play(
        {
            "models": [
                {
                    "model": "*",
                    "latency": {"uniform": [0.2, 1.0]},
                    "window": "sliding",
                    "tolerance_s": 0,
                    **limits,
                }
            ]
        }
    )
    env = {"AI_LIMITS": json.dumps(dict.fromkeys(("openai:a1", "openai:a2", "anthropic:b1"), limits))}
    _done, sources, _late, wall = await documents(sim, 5, 20, 300.0, **env)
    total = sim.stats()["total"]
    print(f"batch: 5 x 20 pages, three models of 30 rpm / 90,000 tpm, any 60 s counted: {wall:.0f} s")
    print(f"  {dict(sources)}, {total['calls']} calls, {total['limited']} of them 429")


async def versus(sim: RunningSimulator, python: str) -> None:
    plain = {"models": [{"model": "*", "latency": 0.02}]}
    slow = {"model": "*", "latency": 0.1}
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    for hands in (64, 256):
        label = f"all well, {hands} at a time"
        rows.append(
            (
                label,
                await ours(sim, plain, 1500, hands),
                theirs(python, sim, plain, 1500, hands, 60, only=False),
            )
        )
    hang = {"models": [slow], "rules": [{"fault": "hang", "model": "a1", "first": 41}]}
    rows.append(
        (
            "a1 begins to hang (2 s timeout)",
            await ours(sim, hang, 400, 64, REQUEST_TIMEOUT="2s"),
            theirs(python, sim, hang, 400, 64, 2, only=False),
        )
    )
    error = {"models": [slow], "rules": [{"fault": "server_error", "model": "a1", "first": 41}]}
    rows.append(
        (
            "a1 begins to answer 500",
            await ours(sim, error, 400, 64),
            theirs(python, sim, error, 400, 64, 60, only=False),
        )
    )
    limited = {"models": [slow], "rules": [{"fault": "rate_limit", "until_s": 10}]}
    only = {
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_BASE_URL": "",
        "OPENAI_SECONDARY_MODEL": "a1",
        "BREAKER_BASE_BACKOFF": "2s",
        "BREAKER_MAX_BACKOFF": "4s",
    }
    rows.append(
        (
            "the only model says 429 for 10 s",
            await ours(sim, limited, 400, 64, **only),
            theirs(python, sim, limited, 400, 64, 60, only=True),
        )
    )
    for label, mine, other in rows:
        print(f"\n{label}")
        print(f"  quire    {mine}")
        print(f"  litellm  {other}")


def main(what: str, *more: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `quire serve` does
        if what == "admission":
            runner.run(admission())
            return
        with simulator() as sim:
            runs = {"busy": busy, "storm": storm, "batch": batch}
            if what == "versus":
                runner.run(versus(sim, *(more or (sys.executable,))))
            else:
                runner.run(runs[what](sim))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["admission"]))
