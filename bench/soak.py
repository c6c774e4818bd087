"""Many documents through one service, with its memory, descriptors, Redis and disk sampled: they must stay flat.

`python bench/soak.py --documents 20000` writes a chart (SVG) and a table. A small share of documents has AI pages of a
simulated provider. Records are kept for a minute, so what they bound is flat after the first minutes; their number
depends on how many documents a minute the host reads. Ends with 1 if a document did not complete or something is larger
in the last third of the run than in the second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import httpx
import psutil
from tests.support.marked_documents import marked_pdf

from measuring import Service, scratch, service, table
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.simulator.simulator_thread import simulator

_SAMPLES = 24
_KINDS = 40
_WIDTH, _HEIGHT, _MARGIN = 720, 120, 40
_KEPT = {"JOB_TTL": "1m", "AI_CACHE_TTL": "1m"}
_BOUNDS = (
    "JOB_TTL 1m, AI_CACHE_TTL 1m: records of jobs are kept for 1 minute, their objects for 2, lists of AI answers "
    "for 3; the append-only file of Redis is rewritten when it has 32 MB."
)


@dataclass(frozen=True)
class Sample:
    """The service and its children after so many documents."""

    documents: int
    memory_mb: float
    descriptors: int
    processes: int
    redis_mb: float
    redis_keys: int
    append_only_mb: float
    other_disk_mb: float


async def take_sample(service: Service, folder: Path, documents: int) -> Sample:
    tree = service.tree()
    url = EmbeddedServer.attach_url(folder / "data")
    assert url is not None, "the embedded server is away"
    connection = RedisConnection.open(url)
    try:
        redis_bytes, redis_keys = await connection.used_memory_bytes(), await connection.command("DBSIZE")
    finally:
        await connection.close()
    memory = descriptors = 0
    for one in tree:
        try:
            memory += one.memory_info().rss
            descriptors += one.num_fds()
        except psutil.NoSuchProcess:
            continue
    append_only = _size_mb(folder / "data" / "coordination")
    return Sample(
        documents,
        memory / 1e6,
        descriptors,
        len(tree),
        redis_bytes / 1e6,
        int(redis_keys),
        append_only,
        _size_mb(folder / "data") - append_only,
    )


def _size_mb(folder: Path) -> float:
    """Files and folders that are deleted meanwhile don't count."""
    total = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total / 1e6


async def run(folder: Path, documents: int, at_once: int, seconds: float) -> tuple[list[Sample], int, float]:
    """Returns the samples, how many documents did not complete, and the seconds."""
    contents = [marked_pdf(folder / f"{n}.pdf", 1 + n % 4, n + 1).read_bytes() for n in range(_KINDS)]
    wrong, done, began = 0, 0, time.monotonic()
    samples: list[Sample] = []
    with (
        simulator() as provider,
        service(
            folder,
            OPENAI_API_KEY="any",
            OPENAI_BASE_URL=provider.openai_url,
            PRIMARY_ENGINE="openai",
            RATE_LIMIT_PER_CLIENT="0",
            **_KEPT,
        ) as running,
    ):
        async with httpx.AsyncClient(base_url=running.url, timeout=120) as client:

            async def convert(number: int) -> bool:
                options = {"mode": "ai" if number % 20 == 0 else "local", "force": "true"}
                file = {"file": (f"{number}.pdf", contents[number % _KINDS], "application/pdf")}
                answer = await client.post("/convert", params={"wait": 60}, data=options, files=file)
                return answer.status_code == 200

            numbers = iter(range(documents))

            async def caller() -> None:
                nonlocal wrong, done
                for number in numbers:
                    wrong += not await convert(number)
                    done += 1
                    if time.monotonic() - began > seconds:
                        return

            async def sampling() -> None:
                step = max(1, documents // _SAMPLES)
                while True:
                    if done >= len(samples) * step:
                        samples.append(await take_sample(running, folder, done))
                    await asyncio.sleep(0.2)

            watching = asyncio.create_task(sampling())
            await asyncio.gather(*(caller() for _ in range(at_once)))
            if watching.done():
                await watching  # its error: without samples the run shows nothing
            watching.cancel()
            samples.append(await take_sample(running, folder, done))
    return samples, wrong, time.monotonic() - began


def growing(samples: list[Sample]) -> list[str]:
    """What has a maximum in the last third of the run that is more than a third above that of the second."""
    third = len(samples) // 3
    before, last = samples[third : 2 * third], samples[2 * third :]
    grown = []
    for one in fields(Sample)[1:]:
        most_before, most = (max(getattr(sample, one.name) for sample in some) for some in (before, last))
        if most > 1.34 * most_before + 5:
            grown.append(f"{one.name}: {most_before:.0f} to {most:.0f}")
    return grown


def chart(samples: list[Sample]) -> str:
    """One line for each measure, each on its own scale from zero."""
    rows = []
    for number, one in enumerate(fields(Sample)[1:]):
        values = [float(getattr(sample, one.name)) for sample in samples]
        top, most = number * (_HEIGHT + _MARGIN) + _MARGIN, max(*values, 1.0)
        points = " ".join(
            f"{_WIDTH * sample.documents / max(1, samples[-1].documents):.1f},{top + _HEIGHT * (1 - value / most):.1f}"
            for sample, value in zip(samples, values, strict=True)
        )
        rows.append(
            f'<text x="0" y="{top - 8}" font-size="12">{re.sub("_", " ", one.name)}: most {most:.0f}, '
            f'last {values[-1]:.0f}</text><polyline fill="none" stroke="#2563eb" stroke-width="2" points="{points}"/>'
            f'<line x1="0" x2="{_WIDTH}" y1="{top + _HEIGHT}" y2="{top + _HEIGHT}" stroke="#999"/>'
        )
    height = len(rows) * (_HEIGHT + _MARGIN) + 2 * _MARGIN
    rows.append(f'<text x="0" y="{height - 8}" font-size="9">{_BOUNDS}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 {_WIDTH + 16} {height}" '
        f'font-family="sans-serif">{"".join(rows)}</svg>\n'
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--documents", type=int, default=20_000)
    options.add_argument("--at-once", type=int, default=8)
    options.add_argument("--minutes", type=float, default=600.0, help="no new document after this time")
    options.add_argument("--chart", type=Path, default=Path("soak.svg"))
    chosen = options.parse_args()
    with scratch() as folder:
        samples, wrong, took_s = asyncio.run(
            run(folder, chosen.documents, chosen.at_once, 60 * chosen.minutes)
        )
    chosen.chart.write_text(chart(samples))
    table(
        f"{samples[-1].documents} documents in {took_s:.0f} s, {wrong} not completed",
        [one.name.replace("_", " ") for one in fields(Sample)],
        [[f"{getattr(sample, one.name):.0f}" for one in fields(Sample)] for sample in samples],
    )
    grown = growing(samples)
    print(f"\n{_BOUNDS}")
    print("Steady growth: " + ("; ".join(grown) or "none"))
    return 1 if wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())
