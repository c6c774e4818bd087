"""What batching must hold, at full size. Each check prints what it saw and raises CheckError if it does not hold."""

# ruff: noqa: SIM117 - a service has a block of its own, inside its backend's

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from bench.batching_stage import Child, ask, backend, quire
from bench.crowd import crowd
from tests.batching.callers import Reply, as_json, as_raw, image, post, request_of
from tests.support.coordination_servers import plain_server

SIZE = 20_000
FAULTS = {"hashes": True, "fixed_ms": 10, "each_ms": 1, "shuffle": True, "gaps": 0.05, "duplicates": 0.05}


class CheckError(Exception):
    """What was promised did not hold."""


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise CheckError(what)


def own(reply: Reply, number: int, size: int = SIZE) -> bool:
    return reply.status == 200 and reply.json["results"][0]["text"] == image(number, size).digest


def requests(numbers: Iterable[int], key: str = "") -> list[list[bytes]]:
    return [
        request_of(as_json(one, SIZE), "application/json", {"Idempotency-Key": f"{key}-{one}"} if key else {})
        for one in numbers
    ]


def correct(args: argparse.Namespace) -> None:
    """Everybody has the same file name; results come in random order, with gaps and doubles."""
    with contextlib.ExitStack() as stack:
        simulated = stack.enter_context(backend(**FAULTS))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis_url = stack.enter_context(plain_server())[0]
        planes = {"REDIS_URL": redis_url, "OBJECT_STORE": str(folder / "objects")}
        one = stack.enter_context(quire(simulated.url, folder / "1", **planes)).url
        for turn in range(args.turns):
            numbers = range(turn * args.callers, (turn + 1) * args.callers)
            _, replies = crowd(one, requests(numbers))
            _tell_own("one replica", numbers, replies)
        two = stack.enter_context(quire(simulated.url, folder / "2", **planes)).url
        numbers = range(args.turns * args.callers, (args.turns + 1) * args.callers)
        uvloop.run(_at_two((one, two), numbers))
        most = ask(simulated.url, "/stats")["most_at_once"]
        print(f"never more than {most} batches at the backend at once")
        _demand(most <= 4, "more than 4 batches at once")


async def _at_two(urls: tuple[str, str], numbers: range) -> None:
    """Half of the callers at each replica, each half a crowd of its own."""
    halves = [[one for one in numbers if one % 2 == which] for which in (0, 1)]
    done = await asyncio.gather(
        *(asyncio.to_thread(crowd, url, requests(half)) for url, half in zip(urls, halves, strict=True))
    )
    replies = dict(zip([*halves[0], *halves[1]], [*done[0][1], *done[1][1]], strict=True))
    _tell_own("two replicas", numbers, [replies[one] for one in numbers])


def _tell_own(who: str, numbers: range, replies: list[Reply]) -> None:
    right = sum(own(reply, number) for number, reply in zip(numbers, replies, strict=True))
    print(f"{who}: {right} of {len(numbers)} callers have their own result", flush=True)
    _demand(right == len(numbers), f"{len(numbers) - right} callers without their own result")


def kill(_args: argparse.Namespace) -> None:
    """kill -9 with at least 500 waiting and 4 batches out; everybody comes back with its key."""
    waiting = 660
    with backend(hashes=True, fixed_ms=3000) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name)) as service:
            uvloop.run(_killed(service, waiting))
        ask(simulated.url, "/script", {"hashes": True})
        with quire(simulated.url, Path(name)) as service:
            _, replies = crowd(service.url, requests(range(waiting), "k"))
            right = sum(own(one, number) for number, one in enumerate(replies))
            computed = ask(simulated.url, "/stats")["computed"]
            left = ask(service.url, "/queue/status")["queue_depth"]
            most = max(computed.values())
            print(f"{right} of {waiting} answered after the restart, {left} left in the queue")
            print(f"no image computed more than {most} times")
            _demand(right == waiting, "not everybody was answered")
            _demand(left == 0, "the queue is not empty")
            _demand(most <= 2, "an image was computed too often")
            _demand_no_bodies(Path(name))


async def _killed(service: Child, waiting: int) -> None:
    callers = asyncio.ensure_future(asyncio.to_thread(crowd, service.url, requests(range(waiting), "k")))
    while True:
        status = await asyncio.to_thread(ask, service.url, "/queue/status")
        if status["queue_depth"] >= 500 and status["batches_in_flight"] == 4:
            break
        await asyncio.sleep(0.02)
    service.kill()
    await callers
    print(f"killed with {status['queue_depth']} waiting and {status['batches_in_flight']} batches out")


def down(args: argparse.Namespace) -> None:
    """The backend is away; those that wait are served when it is back, new ones are told when to come again."""
    with contextlib.ExitStack() as stack:
        simulated = stack.enter_context(backend(**FAULTS))
        port = urlsplit(simulated.url).port or 0
        name = stack.enter_context(tempfile.TemporaryDirectory())
        service = stack.enter_context(quire(simulated.url, Path(name)))
        _, replies = crowd(service.url, requests(range(8)))
        _tell_own("before", range(8), replies)
        simulated.kill()
        uvloop.run(_while_down(service, args.away_s, lambda: stack.enter_context(backend(port, **FAULTS))))
        _demand_no_bodies(Path(name))


async def _while_down(service: Child, away_s: float, come_back: Callable[[], Child]) -> None:
    gone_at = time.monotonic()
    waiting = asyncio.ensure_future(asyncio.to_thread(crowd, service.url, requests(range(100, 500))))
    while not (await asyncio.to_thread(ask, service.url, "/queue/status"))["breaker_open"]:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    refused: Counter[int] = Counter()
    while time.monotonic() - gone_at < away_s:
        reply = await post(service.url, requests([1000])[0])
        refused[reply.status] += 1
        if reply.status == 503:
            _demand(reply.json["retry_after_seconds"] > 0, "a refusal without a time to come again")
        await asyncio.sleep(1)
    print(f"away for {time.monotonic() - gone_at:.0f} s; new callers meanwhile: {dict(refused)}", flush=True)
    await asyncio.to_thread(come_back)
    back_at = time.monotonic()
    _, replies = await waiting
    served = sum(own(reply, 100 + place) for place, reply in enumerate(replies))
    late = sum(reply.status == 503 for reply in replies)
    print(
        f"{served} of those that waited served {time.monotonic() - back_at:.1f} s after it was back, ", end=""
    )
    print(f"{late} had come when the breaker was open already")
    _demand(served + late == len(replies) and served > 0, "a caller that waited was not served")
    _demand(refused[503] >= refused.total() - 1, "new callers were not refused while the backend was away")


def failing(args: argparse.Namespace) -> None:
    """Every batch gets 500 while /health is fine and 500 callers wait; all are answered when it works again."""
    waiting = 500
    with backend(hashes=True, hold=True) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name)) as service:
            uvloop.run(_while_failing(service, simulated, waiting, args.away_s))
            _demand_no_bodies(Path(name))


async def _while_failing(service: Child, simulated: Child, count: int, away_s: float) -> None:
    callers = asyncio.ensure_future(asyncio.to_thread(crowd, service.url, requests(range(count))))
    while True:
        status = await asyncio.to_thread(ask, service.url, "/queue/status")
        held = sum(ask(simulated.url, "/stats")["sizes"])
        if status["queue_depth"] + held >= count:
            break
        await asyncio.sleep(0.1)
    before = ask(simulated.url, "/stats")["calls"]
    ask(simulated.url, "/script", {"batch_status": 500})
    failing_at = time.monotonic()
    refused: Counter[int] = Counter()
    while time.monotonic() - failing_at < away_s:
        reply = await post(service.url, requests([10_000])[0]) if time.monotonic() - failing_at > 5 else None
        if reply is not None:
            refused[reply.status] += 1
        await asyncio.sleep(1)
    calls = ask(simulated.url, "/stats")["calls"]
    ask(simulated.url, "/script", {"hashes": True, "fixed_ms": 10, "each_ms": 1})
    back_at = time.monotonic()
    _, replies = await callers
    right = sum(own(reply, number) for number, reply in enumerate(replies))
    statuses = dict(Counter(reply.status for reply in replies))
    print(
        f"500 for {away_s:.0f} s with {count} waiting: {calls} calls ({before} of them at the backend when it began), "
        f"new callers meanwhile {dict(refused)}; answers {statuses}, the last {time.monotonic() - back_at:.1f} s "
        "after it worked again"
    )
    probes = (
        1 + int(away_s // 30) + 1
    )  # one when the breaker opens, one for each cooldown of 30 s, one under way
    _demand(calls <= 5 + probes, f"{calls} calls, more than threshold and probes")
    _demand(right == count, f"{count - right} callers without their own result: {statuses}")


def leaks(args: argparse.Namespace) -> None:
    """Well and ill-behaved requests in turns; descriptors, memory and objects before and after."""
    with backend(fixed_ms=2, each_ms=0.1) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name), MAX_REQUEST_SIZE="50MB") as service:
            each = args.requests // args.turns
            for turn in (-1, 0):  # everything has been used
                uvloop.run(_mixed(service.url, turn, each))
            first = _settled(service, Path(name))
            print(f"after {2 * each:6,}: {first[0]} descriptors, {first[1] >> 20} MB", flush=True)
            middle = first[1]
            for turn in range(1, args.turns + 1):
                statuses = uvloop.run(_mixed(service.url, turn, each))
                if turn <= args.turns // 2:
                    middle = service.rss()
                print(
                    f"after {(turn + 2) * each:6,}: {service.descriptors()} descriptors, {service.rss() >> 20} MB, "
                    f"answers {dict(sorted(statuses.items()))}",
                    flush=True,
                )
            last = _settled(service, Path(name))
            print(
                f"at rest: {last[0]} descriptors, {last[1] >> 20} MB, no body and nothing half-written left"
            )
            _demand(last[0] <= first[0] + 4, f"{last[0] - first[0]} descriptors more")
            # When all has been used at once for the first time is chance; from then on nothing may grow.
            _demand(last[1] - middle < 8 << 20, f"{(last[1] - middle) >> 20} MB more in the second half")
            _demand(last[1] - first[1] < 48 << 20, f"{(last[1] - first[1]) >> 20} MB more")


def _settled(service: Child, folder: Path) -> tuple[int, int]:
    """Descriptors and memory once nothing is in hand. Raises CheckError if objects stay."""
    _demand_no_bodies(folder)
    deadline = time.monotonic() + 10
    least = service.descriptors()
    while time.monotonic() < deadline:
        least = min(least, service.descriptors())
        time.sleep(0.2)
    return least, service.rss()


def _demand_no_bodies(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while left := [*folder.glob("objects/parse/bodies/*"), *folder.glob("objects/.incoming/*")]:
        _demand(time.monotonic() < deadline, f"{len(left)} objects are left behind")
        time.sleep(0.1)


async def _mixed(url: str, turn: int, count: int) -> Counter[int]:
    limit = asyncio.Semaphore(200)
    chance = random.Random(turn)
    statuses: Counter[int] = Counter()
    size = 4_000

    async def one(number: int) -> None:
        async with limit:
            whole = request_of(as_json(number, size), "application/json")
            kind = chance.randrange(100)
            if number % 5_000 == 8:  # really sends 60 MB
                body = as_raw(number, 60 << 20)
                with contextlib.suppress(OSError):
                    statuses[(await post(url, request_of(body, "image/jpeg"))).status] += 1
            elif kind < 2:  # vanishes while it waits
                await _cut_off(url, whole, chance.random() / 50)
            elif kind < 4:  # sends half
                await _cut_off(url, [b"".join(whole)[: size // 2]], 0.02)
            elif kind == 4:  # promises 60 MB
                opening = b"POST /parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
                await _cut_off(url, [opening, b"Content-Length: 62914560\r\n\r\n", b"x" * 70_000], 0.02)
            elif kind == 5:  # says more than it sends
                text = b"".join(whole).replace(b"Content-Length: ", b"Content-Length: 1")
                await _cut_off(url, [text], 0.02)
            elif kind == 6:  # says less than it sends
                await _cut_off(url, [*whole, b"and more\r\n\r\n"], 0.05)
            elif kind == 7:  # reads slowly: a byte at a time, then leaves
                await _read_slowly(url, whole)
            else:
                try:
                    statuses[(await post(url, whole)).status] += 1
                except OSError:
                    statuses[0] += 1

    await asyncio.gather(*(one((turn + 1) * 1_000_000 + number) for number in range(count)))
    return statuses


async def _cut_off(url: str, text: list[bytes], after_s: float) -> None:
    parts = urlsplit(url)
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.writelines(text)
        await asyncio.sleep(after_s)
        writer.transport.abort()


async def _read_slowly(url: str, text: list[bytes]) -> None:
    parts = urlsplit(url)
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=16)
        writer.writelines(text)
        try:
            async with asyncio.timeout(0.5):
                while await reader.read(1):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        finally:
            writer.transport.abort()


def hold(args: argparse.Namespace) -> None:
    """Memory while ten thousand wait: bodies beyond the budget are only in the object plane."""
    held_mb = 24  # three quarters of the budget are for copies of bodies, the rest is for those that come in
    many = {"BACKPRESSURE_THRESHOLD": str(args.queued), "PARSE_MEMORY": f"{held_mb * 4 // 3}MB"}
    with backend(fixed_ms=600_000) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name), **many) as service:
            crowd_of = requests(range(args.queued), "h")
            before = service.rss()
            uvloop.run(_held(service, crowd_of, before, held_mb << 20))
            service.kill()


async def _held(service: Child, crowd_of: list[list[bytes]], before: int, bodies: int) -> None:
    callers = asyncio.ensure_future(asyncio.to_thread(crowd, service.url, crowd_of))
    began = time.monotonic()
    while True:
        status = await asyncio.to_thread(ask, service.url, "/queue/status")
        if status["queue_depth"] >= len(crowd_of) - 128:
            break
        _demand(time.monotonic() - began < 300, f"only {status['queue_depth']} were taken in")
        await asyncio.sleep(0.2)
    grown = service.rss() - before
    each = (grown - bodies) / len(crowd_of)
    print(
        f"{status['queue_depth']} queued after {time.monotonic() - began:.1f} s: the service grew by {grown >> 20} MB, "
        f"of which {bodies >> 20} MB are bodies: {each / 1024:.1f} kB a caller; "
        f"estimated wait {status['estimated_wait_time_minutes']} min"
    )
    service.kill()
    await callers
    _demand(each <= 50 * 1024, "more than 50 kB a caller")


def heavy(args: argparse.Namespace) -> None:
    for name, run in RUNS.items():
        if run is not heavy:
            began = time.monotonic()
            print(f"--- {name}: {run.__doc__}", flush=True)
            run(args)
            print(f"    holds, {time.monotonic() - began:.0f} s", flush=True)


RUNS: dict[str, Callable[[argparse.Namespace], None]] = {
    "correct": correct,
    "kill": kill,
    "down": down,
    "failing": failing,
    "leaks": leaks,
    "hold": hold,
    "heavy": heavy,
}
