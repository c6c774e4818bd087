"""Batching against a simulated backend of 50 ms + 5 ms an image, batches of at most 32, 4 at once.

python bench/batching.py load      2,000 callers of 100 kB, lone callers, one at a time, memory
python bench/batching.py peers     the same load through in-memory batchers (installed on demand, apart)
python bench/batching.py correct   2,000 callers ten times, random order and gaps, by content hash; two replicas
python bench/batching.py kill      kill -9 with 500 waiting
python bench/batching.py leaks     50,000 requests, many of them ill-behaved
python bench/batching.py hold      10,000 queued requests
"""

# ruff: noqa: SIM117 - a service has a block of its own, inside its backend's

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402
import uvloop  # noqa: E402
from tests.batching.callers import Reply, as_json, as_raw, image, post, request_of  # noqa: E402
from tests.queue.servers import plain_server  # noqa: E402

FIXED_S, EACH_S, BATCH, SLOTS = 0.050, 0.005, 32, 4
PHYSICAL = SLOTS * BATCH / (FIXED_S + EACH_S * BATCH)
"""Images a second that the backend can do at all."""


class Child:
    """A process that prints its address."""

    def __init__(self, command: list[str], **settings: str) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **settings}
        )
        assert self.process.stdout is not None
        self.url = ""
        while not self.url.startswith("http"):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"{command} did not start")
            self.url = line.split()[-1]

    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def tree_rss(self) -> int:
        process = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))

    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def ask(url: str, path: str, data: Any = None) -> Any:
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@contextlib.contextmanager
def backend(**script: Any) -> Iterator[Child]:
    child = Child([sys.executable, "-m", "tests.batching.simulated"])
    ask(child.url, "/script", {"hashes": False, **script})
    try:
        yield child
    finally:
        child.process.kill()
        child.process.wait()


@contextlib.contextmanager
def quire(backend_url: str, folder: Path, **settings: str) -> Iterator[Child]:
    defaults = {
        "DATA_DIR": str(folder),
        "PORT": "0",
        "BATCH_BACKEND_URL": backend_url,
        "RATE_LIMIT_PER_CLIENT": "0",
        "READER_PROCESSES": "1",
        "LOG_LEVEL": "warn",
    }
    child = Child([sys.executable, "-m", "quire", "serve"], **{**defaults, **settings})
    try:
        yield child
    finally:
        if child.process.poll() is None:
            child.stop()


def ideal_s(callers: int) -> float:
    return callers / PHYSICAL


async def load(url: str, callers: int, *, raw: bool = False) -> tuple[float, list[Reply]]:
    """All callers at once; how long until the last has its answer."""

    async def one(number: int) -> Reply:
        body = as_raw(number) if raw else as_json(number)
        try:
            return await post(url, request_of(body, "image/jpeg" if raw else "application/json"))
        except OSError:  # counted as status 0
            return Reply(0, b"", time.perf_counter() - began)

    gc.collect()
    began = time.perf_counter()
    replies = await asyncio.gather(*(one(number) for number in range(callers)))
    return time.perf_counter() - began, replies


def report(name: str, callers: int, seconds: float, replies: list[Reply]) -> None:
    times = sorted(reply.seconds for reply in replies)
    statuses = dict(Counter(reply.status for reply in replies))
    p99 = times[int(0.99 * (len(times) - 1))]
    print(
        f"{name:28} {seconds:6.2f} s  {ideal_s(callers) / seconds:5.3f} of the limit  "
        f"p99 {p99:5.2f} s = {p99 / ideal_s(callers):4.2f} x ideal  {statuses}",
        flush=True,
    )


def measure_load(args: argparse.Namespace) -> None:
    with backend() as simulated, tempfile.TemporaryDirectory() as folder:
        with quire(simulated.url, Path(folder)) as service:
            lone = [uvloop.run(load(service.url, 1))[1][0].seconds for _ in range(12)][2:]
            over = sorted(1000 * (seconds - FIXED_S - EACH_S) for seconds in lone)
            print(
                f"a lone caller waits {over[len(over) // 2]:.1f} ms more than the backend takes (max {over[-1]:.1f})"
            )
            for raw in (False, True):
                for _ in range(args.times):
                    before = (service.cpu_s(), simulated.cpu_s(), time.process_time(), service.rss())
                    seconds, replies = uvloop.run(load(service.url, args.callers, raw=raw))
                    report("quire, " + ("raw body" if raw else "JSON"), args.callers, seconds, replies)
                    print(
                        f"    CPU: service {service.cpu_s() - before[0]:.2f} s, backend "
                        f"{simulated.cpu_s() - before[1]:.2f} s, callers {time.process_time() - before[2]:.2f} s"
                        f"; load average {os.getloadavg()[0]:.1f}"
                    )
            if args.single:
                asyncio.run(_single(service, simulated))


async def _single(service: Child, simulated: Child) -> None:
    """The backend called one image at a time, as many calls at once as it takes."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        limit = asyncio.Semaphore(1)

        async def one(number: int) -> None:
            body = b'{"images":[{"filename":"x' + str(number).encode() + b'","image_data":"'
            body += b"".join(as_json(number)[1:2]) + b'"}]}'
            async with limit, session.post(f"{simulated.url}/parse-batch", data=body) as answer:
                await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(40)))
        each = (time.perf_counter() - began) / 40
    print(f"one image at a time: {1 / each:.1f} images/s; batched limit {PHYSICAL:.0f} images/s")


def measure_peers(args: argparse.Namespace) -> None:
    """Ours and theirs in turn, so that whatever else the machine does falls on all alike."""
    python = _peer_python()
    for _ in range(args.times):
        for name in ("batched", "mosec", "quire"):
            with backend() as simulated, tempfile.TemporaryDirectory() as folder:
                with _peer(name, python, simulated.url, Path(folder)) as url:
                    uvloop.run(load(url, 8))
                    seconds, replies = uvloop.run(load(url, args.callers))
                    report(name, args.callers, seconds, replies)


def _peer_python() -> str:
    """An environment of their own: they are never a dependency."""
    folder = ROOT / ".venv" / "peers"  # not under version control
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = ["batched", "mosec", "fastapi", "uvicorn", "uvloop", "httptools", "aiohttp"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


@contextlib.contextmanager
def _peer(name: str, python: str, backend_url: str, folder: Path) -> Iterator[str]:
    if name == "quire":
        with quire(backend_url, folder) as service:
            yield service.url
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [python, str(ROOT / "bench" / "peers.py"), name, backend_url, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if uvloop.run(load(f"http://127.0.0.1:{port}", 1))[1][0].status == 200:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def own(reply: Reply, number: int, size: int) -> bool:
    return reply.status == 200 and reply.json["results"][0]["text"] == image(number, size).digest


async def keyed(url: str, numbers: Iterable[int], size: int, key: str) -> list[Reply | BaseException]:
    return await asyncio.gather(
        *(
            post(
                url,
                request_of(as_json(one, size), "application/json", {"Idempotency-Key": f"{key}-{one}"}),
            )
            for one in numbers
        ),
        return_exceptions=True,
    )


def check_correct(args: argparse.Namespace) -> None:
    """Everybody has the same file name; results come in random order, with gaps and doubles."""
    size = 20_000
    faults = {"hashes": True, "fixed_ms": 10, "each_ms": 1, "shuffle": True, "gaps": 0.05, "duplicates": 0.05}
    with contextlib.ExitStack() as stack:
        simulated = stack.enter_context(backend(**faults))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis_url = stack.enter_context(plain_server())[0]
        planes = {"REDIS_URL": redis_url, "OBJECT_STORE": str(folder / "objects")}
        urls = [stack.enter_context(quire(simulated.url, folder / name, **planes)).url for name in ("1", "2")]
        for turn in range(args.turns + 1):
            used = urls if turn == args.turns else urls[:1]

            async def everybody(turn: int = turn, used: list[str] = used) -> int:
                first = turn * args.callers
                replies = await asyncio.gather(
                    *(
                        post(used[one % len(used)], request_of(as_json(one, size), "application/json"))
                        for one in range(first, first + args.callers)
                    )
                )
                return sum(own(reply, first + one, size) for one, reply in enumerate(replies))

            print(
                f"{len(used)} replica(s): {uvloop.run(everybody())} of {args.callers} have their own result",
                flush=True,
            )


def check_kill(args: argparse.Namespace) -> None:
    size, waiting = 20_000, 628
    with backend(hashes=True, fixed_ms=1500) as simulated, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with quire(simulated.url, folder) as service:

            async def killed() -> None:
                callers = asyncio.ensure_future(keyed(service.url, range(waiting), size, "k"))
                while True:
                    status = await asyncio.to_thread(ask, service.url, "/queue/status")
                    if status["queue_depth"] >= 500 and status["batches_in_flight"] == 4:
                        break
                    await asyncio.sleep(0.02)
                service.process.kill()
                service.process.wait()
                await callers
                print(
                    f"killed with {status['queue_depth']} waiting and {status['batches_in_flight']} batches out"
                )

            uvloop.run(killed())
        ask(simulated.url, "/script", {"hashes": True})
        with quire(simulated.url, folder) as service:
            replies = uvloop.run(keyed(service.url, range(waiting), size, "k"))
            right = sum(isinstance(one, Reply) and own(one, n, size) for n, one in enumerate(replies))
            computed = ask(simulated.url, "/stats")["computed"]
            left = ask(service.url, "/queue/status")["queue_depth"]
            print(f"{right} of {waiting} answered after the restart, {left} left in the queue")
            print(f"no image computed more than {max(computed.values())} times")


def check_leaks(args: argparse.Namespace) -> None:
    """Well and ill-behaved requests in turns; descriptors, memory and objects before and after."""
    size = 4_000
    with backend(fixed_ms=2, each_ms=0.1) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name), PARSE_TTL="1m") as service:
            process = psutil.Process(service.process.pid)

            def state() -> str:
                bodies = len(list(Path(name).glob("objects/parse/bodies/*")))
                half = len(list(Path(name).glob("objects/.incoming/*")))
                memory = f"{process.num_fds()} descriptors, {service.rss() >> 20} MB"
                return f"{memory}, {bodies} bodies, {half} half-written"

            uvloop.run(_mixed(service.url, 0, 2_000, size))
            print("after  2,000:", state(), flush=True)
            for turn in range(1, args.turns + 1):
                uvloop.run(_mixed(service.url, turn, args.requests // args.turns, size))
                print(f"after {2_000 + turn * (args.requests // args.turns):6,}:", state(), flush=True)
            time.sleep(2)
            print("at rest:", state(), flush=True)


async def _mixed(url: str, turn: int, count: int, size: int) -> None:
    limit = asyncio.Semaphore(200)

    async def one(number: int) -> None:
        async with limit:
            whole = request_of(as_json(number, size), "application/json")
            kind = number % 50
            if kind == 1:  # vanishes while it waits
                task = asyncio.ensure_future(post(url, whole))
                await asyncio.sleep(0.01)
                task.cancel()
            elif kind == 2:  # sends half
                await _cut_off(url, b"".join(whole)[: size // 2])
            elif kind == 3:  # promises 60 MB
                opening = b"POST /parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
                await _cut_off(url, opening + b"Content-Length: 62914560\r\n\r\n" + b"x" * 70_000)
            elif kind == 4:  # says less than it sends
                text = b"".join(whole)
                await _cut_off(url, text.replace(b"Content-Length: ", b"Content-Length: 1") + b"x" * 10)
            else:
                with contextlib.suppress(OSError):
                    await post(url, whole)

    await asyncio.gather(*(one(turn * 1_000_000 + number) for number in range(count)))


async def _cut_off(url: str, text: bytes) -> None:
    host, port = url.removeprefix("http://").split(":")
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(text)
        await asyncio.sleep(0.02)
        writer.transport.abort()


def measure_hold(args: argparse.Namespace) -> None:
    """Memory while ten thousand wait: bodies beyond the budget are only in the object plane."""
    size = 20_000
    many = {"BACKPRESSURE_THRESHOLD": "10000", "PARSE_MEMORY": "32MB"}
    with backend(fixed_ms=600_000) as simulated, tempfile.TemporaryDirectory() as name:
        with quire(simulated.url, Path(name), **many) as service:
            before = service.rss()

            async def held() -> None:
                callers = asyncio.ensure_future(keyed(service.url, range(args.queued), size, "h"))
                while True:
                    status = await asyncio.to_thread(ask, service.url, "/queue/status")
                    if status["queue_depth"] >= args.queued - 128:
                        break
                    await asyncio.sleep(0.2)
                grown = service.rss() - before
                each = (grown - min(32 << 20, args.queued * size)) / args.queued
                print(
                    f"{status['queue_depth']} queued: the service grew by {grown >> 20} MB, of which 32 MB are bodies: "
                    f"{each / 1024:.1f} kB a caller; estimated wait {status['estimated_wait_time_minutes']} min"
                )
                callers.cancel()

            uvloop.run(held())
            service.process.kill()
            service.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    runs = {
        "load": measure_load,
        "peers": measure_peers,
        "correct": check_correct,
        "kill": check_kill,
        "leaks": check_leaks,
        "hold": measure_hold,
    }
    parser.add_argument("what", choices=tuple(runs), nargs="?", default="load")
    parser.add_argument("--callers", type=int, default=2000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--single", action="store_true", help="also call the backend one image at a time")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    runs[args.what](args)


if __name__ == "__main__":
    main()
