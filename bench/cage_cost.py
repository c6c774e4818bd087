"""What the cage of reader processes costs: the same documents with and without it, side by side.

    .venv/bin/python bench/cage_cost.py [--rounds 7] [--documents 100] [--pages 320]

Measured is the CPU time of the reader process and of its parent, so that other work on the host matters little: one
long document in chunks, and many documents of one page, each of which is shown to the reader by a link. The aim is
5 percent at most.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

from measuring import samples, scratch, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.task_clock import TaskClock

_CHUNK = 16


async def cpu_s(tasks: list[tuple[str, tuple[int, ...]]], cage: CageOptions | None) -> float:
    """The CPU time of one reader process and its parent for these chunks, after a warm-up."""
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=1 << 30, slow_processes=0, cage=cage))
    try:
        await _read(pool, *tasks[0])
        clock = TaskClock(pool._idle[0].pid, 3600)
        began = time.process_time()
        for path, numbers in tasks:
            await _read(pool, path, numbers)
        return clock.spent_s + time.process_time() - began
    finally:
        await pool.close()


async def _read(pool: ChildPool, path: str, numbers: tuple[int, ...]) -> None:
    await pool.run(read_chunk, path, None, numbers, ReadOptions(), False, timeout_s=600)


async def compare(
    name: str, tasks: list[tuple[str, tuple[int, ...]]], folder: Path, rounds: int
) -> list[str]:
    cage = CageOptions(str(folder / "readers"))
    caged, free = [], []
    for _ in range(rounds):
        free.append(await cpu_s(tasks, None))
        caged.append(await cpu_s(tasks, cage))
    ratio = statistics.median(caged) / statistics.median(free)
    best = min(caged) / min(free)
    return [
        name,
        f"{statistics.median(free):.2f} s",
        f"{statistics.median(caged):.2f} s",
        f"{ratio - 1:+.1%}",
        f"{best - 1:+.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--pages", type=int, default=320)
    args = parser.parse_args()
    with scratch() as folder:
        long = folder / "long.pdf"
        samples().make_text_pdf(long, args.pages, 1)
        chunks = [
            (str(long), tuple(range(n, min(n + _CHUNK, args.pages + 1))))
            for n in range(1, args.pages + 1, _CHUNK)
        ]
        small = []
        for number in range(args.documents):
            path = folder / f"{number}.pdf"
            samples().make_text_pdf(path, 1, number)
            small.append((str(path), (1,)))
        rows = [
            asyncio.run(compare(f"{args.pages} pages of one document", chunks, folder, args.rounds)),
            asyncio.run(compare(f"{args.documents} documents of one page", small, folder, args.rounds)),
        ]
    table("CPU time of reading", ["", "without", "with the cage", "medians", "best of each"], rows)


if __name__ == "__main__":
    main()
