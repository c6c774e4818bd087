"""One host under attack: 2,000 hostile connections and the worst 50 files at once, and what others notice of it.

    .venv/bin/python bench/attack.py [--seconds 60] [--connections 2000] [--files 50]

Hostile callers send half heads, endless heads, bodies of a byte a second, wrong keys, or nothing; each comes back when
it is refused. One team submits the worst files. Another team's one-page documents and `/health/live` are timed, at rest
first. The aims: `/health/live` within 250 ms at the 99th percentile, documents within 3 times their time at rest.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from measuring import scratch, service, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

KEYS = {"API_KEYS": "polite:key-of-polite,greedy:key-of-greedy"}
AT_REST = 20
ADDRESSES = 20
"""Hostile callers come from so many loopback addresses (127.0.1.1 and on)."""


# ---- the attackers, in a process of their own ------------------------------------------------------------------


async def hostile(host: str, port: int, number: int) -> None:
    address = f"127.0.1.{1 + number % ADDRESSES}"
    await asyncio.sleep(random.random() * 2)
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
        except OSError:
            await asyncio.sleep(1)
            continue
        try:
            await KINDS[number % len(KINDS)](reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
        await asyncio.sleep(0.5 + random.random())


async def half_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /parse HTTP/1.1\r\nHost: h\r\nX-Slow: ")
    while not _is_over(reader, writer):
        writer.write(b"a")
        await asyncio.sleep(2)


def _is_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    return reader.at_eof() or writer.is_closing() or reader.exception() is not None


async def long_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"x" * 200_000)
    await writer.drain()
    await reader.read(1)
    await asyncio.sleep(5)


async def slow_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"POST /parse HTTP/1.1\r\nHost: h\r\nContent-Type: image/png\r\nContent-Length: 4000000\r\n\r\n"
    )
    while not _is_over(reader, writer):
        writer.write(b"z")
        await writer.drain()
        await asyncio.sleep(1)


async def wrong_key(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(10):
        writer.write(b"GET /jobs HTTP/1.1\r\nHost: h\r\nX-API-Key: %d\r\n\r\n" % random.getrandbits(64))
        await reader.readuntil(b"}")
        await asyncio.sleep(2)


async def idle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


KINDS = (half_head, slow_body, idle, wrong_key, half_head, slow_body, long_head, idle)


async def attack(url: str, connections: int) -> None:
    parts = urlsplit(url)
    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(hostile(parts.hostname or "", parts.port or 80, number))


# ---- what others notice ----------------------------------------------------------------------------------------


async def health(url: str, taken: list[float], ends: float) -> None:
    parts = urlsplit(url)
    while time.monotonic() < ends:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"/health/live answered {answer[:60]!r}")
        taken.append(time.monotonic() - began)
        writer.close()
        await asyncio.sleep(0.03)


async def documents(url: str, folder: Path, taken: list[float], ends: float, most: int = 10_000) -> None:
    import aiohttp
    from tests.support.marked_documents import marked_pdf

    headers = {"Authorization": "Bearer key-of-polite"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for number in range(most):
            if time.monotonic() > ends:
                return
            seed = random.getrandbits(30)
            content = marked_pdf(folder / f"{seed}.pdf", 1, seed=seed).read_bytes()
            form = aiohttp.FormData()
            form.add_field("file", content, filename=f"{number}.pdf")
            began = time.monotonic()
            async with session.post(f"{url}/convert?wait=120", data=form) as response:
                body = await response.json()
            if response.status != 200:
                raise RuntimeError(f"a document was answered with {response.status}: {body}")
            taken.append(time.monotonic() - began)
            await asyncio.sleep(0.1)


async def submit_worst(url: str, count: int) -> None:
    import aiohttp
    from tests.hostile.corpus import corpus
    from tests.support.slow_documents import nested_forms

    others = [one.make() for one in list(corpus())[:: max(1, 60 // max(1, count // 4))]][: count // 4]
    files = [nested_forms(seed) for seed in range(count - len(others))] + others
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer key-of-greedy"}) as session:
        for number, content in enumerate(files):
            form = aiohttp.FormData()
            form.add_field("file", content, filename=f"worst-{number}.pdf")
            async with session.post(f"{url}/convert", data=form) as response:
                await response.read()


def start_attackers(url: str, connections: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--attack", url, "--connections", str(connections)])


def row(name: str, taken: list[float]) -> list[str]:
    ordered = sorted(taken)

    def at(share: float) -> str:
        return f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000:.0f} ms"

    return [
        name,
        str(len(ordered)),
        f"{statistics.median(ordered) * 1000:.0f} ms",
        at(0.95),
        at(0.99),
        at(1.0),
    ]


async def measure(url: str, folder: Path, seconds: float, connections: int, files: int) -> None:
    rest_health: list[float] = []
    rest: list[float] = []
    await documents(url, folder, [], time.monotonic() + 60, most=3)  # caches are warm afterwards
    watch = asyncio.create_task(health(url, rest_health, time.monotonic() + 10))
    await documents(url, folder, rest, time.monotonic() + 600, most=AT_REST)
    await watch
    attackers = start_attackers(url, connections)
    hit_health: list[float] = []
    hit: list[float] = []
    try:
        await submit_worst(url, files)
        await asyncio.sleep(5)
        ends = time.monotonic() + seconds
        await asyncio.gather(health(url, hit_health, ends), documents(url, folder, hit, ends))
    finally:
        attackers.terminate()
        attackers.wait()
    rows = [
        row("`/health/live`, at rest", rest_health),
        row("`/health/live`, under attack", hit_health),
        row("1-page document, at rest", rest),
        row("1-page document, under attack", hit),
    ]
    table("under attack", ["", "number", "median", "p95", "p99", "worst"], rows)
    print(
        f"document, under attack / at rest: {statistics.median(hit) / statistics.median(rest):.2f} (median)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--attack", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        asyncio.run(attack(args.attack, args.connections))
        return
    with scratch() as folder, service(folder, **KEYS) as running:
        asyncio.run(measure(running.url, folder, args.seconds, args.connections, args.files))


if __name__ == "__main__":
    main()
