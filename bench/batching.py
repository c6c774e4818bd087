"""Batching against a simulated backend of 50 ms + 5 ms an image, batches of at most 32, 4 at once.

python bench/batching.py load      2,000 callers of 100 kB, lone callers, one at a time, memory
python bench/batching.py peers     the same load through in-memory batchers (installed on demand, apart)
python bench/batching.py correct   2,000 callers ten times, random order and gaps, by content hash; two replicas
python bench/batching.py kill      kill -9 with 500 waiting
python bench/batching.py leaks     50,000 requests, many of them ill-behaved
python bench/batching.py hold      10,000 queued requests
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402
import uvloop  # noqa: E402
from tests.batching.callers import Reply, as_json, as_raw, post, request_of  # noqa: E402

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
        return await post(url, request_of(body, "image/jpeg" if raw else "application/json"))

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("load",), nargs="?", default="load")
    parser.add_argument("--callers", type=int, default=2000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--single", action="store_true")
    args = parser.parse_args()
    {"load": measure_load}[args.what](args)


if __name__ == "__main__":
    main()
