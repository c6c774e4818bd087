"""Thousands of followers of one job by server-sent events, and what other callers notice of them.

    .venv/bin/python bench/followers.py [--followers 2000] [--pages 500] [--vault]

A document is converted while all of them follow its job or, with `--vault`, all documents; `/health/live` is timed at
rest, while they connect, while each of them gets the events, and when they all leave at once. The longest stall of the
service's event loop is what the service itself has measured (`quire_event_loop_lag_seconds`). The aim: `/health/live`
within 250 ms at the 99th percentile, and no stall of 250 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable
from pathlib import Path
from urllib.parse import urlsplit

from attack import health, row
from measuring import Service, samples, scratch, service, table


async def follow(host: str, port: int, path: str, seen: list[int]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    try:
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"a follower was answered with {status!r}")
        seen[2] += 1
        while line := await reader.readline():
            if line.startswith(b"event:"):
                seen[0] += 1
            if b'"completed"' in line:
                seen[1] += 1
                break
        await asyncio.sleep(3600)  # leaves with all the others
    finally:
        writer.transport.abort()


async def followers(url: str, path: str, count: int) -> None:
    """A process of its own: says how many are connected, and ends with its standard input."""
    parts = urlsplit(url)
    seen = [0, 0, 0]
    tasks: list[asyncio.Task[None]] = []
    for number in range(count):
        tasks.append(asyncio.create_task(follow(parts.hostname or "", parts.port or 80, path, seen)))
        if number % 50 == 49:
            await asyncio.sleep(0.02)
    while seen[2] < count:
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(seen), flush=True)
    for task in tasks:
        task.cancel()


async def timed(url: str, work: Awaitable[object], at_least_s: float = 3.0) -> list[float]:
    """How long `/health/live` took while the work went on."""
    taken: list[float] = []
    watch = asyncio.create_task(health(url, taken, time.monotonic() + 3600))
    began = time.monotonic()
    await work
    await asyncio.sleep(max(0.0, at_least_s - (time.monotonic() - began)))
    watch.cancel()
    await asyncio.wait({watch})
    return taken


def started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def measure(running: Service, document: Path, count: int, vault: bool) -> None:
    url = running.url
    rest = await timed(url, asyncio.sleep(5))
    path = "/documents/events"
    if not vault:
        job = await asyncio.to_thread(running.upload, document, "")
        path = f"/jobs/{job['job_id']}/events"
    command = [sys.executable, __file__, "--follow", url, "--path", path, "--followers", str(count)]
    process = started(command)
    assert process.stdin is not None
    assert process.stdout is not None
    connecting = await timed(url, asyncio.to_thread(process.stdout.readline))
    if vault:
        kept = await asyncio.to_thread(running.upload, document, "", to="/documents")
        kept = running.get(f"/documents/{kept['documents'][0]['document_id']}")
        job = {"job_id": kept["jobs"]["process"]}
    events = await timed(url, asyncio.to_thread(running.wait_for, job["job_id"]), 8.0)
    process.stdin.write("\n")
    process.stdin.flush()
    received, ended, _connected = json.loads(await asyncio.to_thread(process.stdout.readline))
    leaving = await timed(url, asyncio.to_thread(process.wait))
    rows = [
        row("at rest", rest),
        row(f"while {count:,} followers connect", connecting),
        row("while each gets the events of the job", events),
        row("while all leave at once", leaving),
    ]
    table("`/health/live`", ["", "number", "median", "p95", "p99", "worst"], rows)
    print(f"\n{received:,} events were received; {ended:,} followers saw the end of the job")
    print(f"longest stall of the service's event loop: {longest_stall(running)}")


def longest_stall(running: Service) -> str:
    text = urllib.request.urlopen(f"{running.url}/metrics", timeout=60).read().decode()
    found = [line for line in text.splitlines() if "loop" in line and not line.startswith("#")]
    return "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--followers", type=int, default=2000)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--vault", action="store_true")
    parser.add_argument("--follow", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    if args.follow:
        asyncio.run(followers(args.follow, args.path, args.followers))
        return
    with scratch() as folder, service(folder) as running:
        document = folder / "long.pdf"
        samples().make_text_pdf(document, args.pages, 1)
        asyncio.run(measure(running, document, args.followers, args.vault))


if __name__ == "__main__":
    main()
