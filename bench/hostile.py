"""The hostile corpus against a running service: what becomes of each file, and how quickly `/health` answers meanwhile.

    .venv/bin/python bench/hostile.py [--scale 10]

`--scale` makes the largest files larger: at 10 there is a zip of a million members, a PDF of a million objects, a
text and a table of 100 MB in one line. The aim is an answer of `/health` within 100 ms throughout.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measuring import scratch, service, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

PATIENCE_S = 900.0


_WATCH = """
import http.client, sys, time
host, _, port = sys.argv[1].removeprefix("http://").partition(":")
while True:
    began = time.monotonic()
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/health")
    status = connection.getresponse().status
    print(status, time.monotonic() - began, flush=True)
    connection.close()
    time.sleep(0.02)
"""


@contextmanager
def watching(url: str, log: Path) -> Iterator[None]:
    """Health is looked at by a process of its own, which has nothing else to do."""
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", _WATCH, url], stdout=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


async def run(url: str, scale: int, folder: Path) -> None:
    import aiohttp
    from tests.hostile.corpus import corpus
    from tests.hostile.feeding import feed, prepare
    from tests.support.serving import Client

    made = prepare(list(corpus(scale)), folder)
    log = folder / "health.log"
    began = time.monotonic()
    with watching(url, log):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as session:
            fed = await feed(Client(url, session), made, PATIENCE_S)
    took = time.monotonic() - began
    rows = []
    for one in fed:
        if one.job is None:
            became, why = f"refused, {one.answer.status}", one.answer.json["error"]
        else:
            error = one.job["error"] or {}
            became, why = one.job["status"], error.get("error") or f"{one.job['total_pages']} pages"
        rows.append([one.case.name, became, why[:90]])
    table("What became of each file", ["file", "became", "why"], rows)
    looks = [line.split() for line in log.read_text().splitlines() if line.count(" ") == 1]
    seconds = sorted(float(one) for _, one in looks)
    counts = Counter(status for status, _ in looks)
    late = sum(one > 0.1 for one in seconds)
    table(
        "Health meanwhile",
        ["files", "took", "questions", "answered 200", "median", "99 %", "worst", "over 100 ms"],
        [
            [
                str(len(fed)),
                f"{took:.0f} s",
                str(len(seconds)),
                str(counts["200"]),
                f"{seconds[len(seconds) // 2] * 1000:.1f} ms",
                f"{seconds[len(seconds) * 99 // 100] * 1000:.1f} ms",
                f"{seconds[-1] * 1000:.1f} ms",
                str(late),
            ]
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, default=1)
    scale = parser.parse_args().scale
    with scratch() as folder, service(folder, READER_PAGE_TIMEOUT="5s", MAX_PAGES="2000") as running:
        asyncio.run(run(running.url, scale, folder))


if __name__ == "__main__":
    main()
