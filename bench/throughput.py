"""Pages a second: a bare loop of the same reader calls, `quire convert`, and the service, turn by turn."""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

from measuring import PYTHON, environment, median, scratch, service, table, text_pdf

CHUNK = 16
BARE = """
import sys
from quire.reading.pool import warm_imports
from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions
path, pages, part, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
firsts = list(range(1, pages + 1, {chunk}))[part::parts]
for first in firsts:
    read_chunk(path, None, tuple(range(first, min(first + {chunk}, pages + 1))), ReadOptions(), False)
""".replace("{chunk}", str(CHUNK))


def bare_loop(path: Path, pages: int) -> float:
    """As many processes as cores, each with its share of the chunks; imports included."""
    cores = os.cpu_count() or 1
    began = time.monotonic()
    processes = [
        subprocess.Popen([PYTHON, "-c", BARE, str(path), str(pages), str(part), str(cores)])
        for part in range(cores)
    ]
    assert all(process.wait() == 0 for process in processes)
    return time.monotonic() - began


def convert(path: Path, folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(
        [PYTHON, "-m", "quire", "convert", str(path), "-o", str(folder / "out.md")],
        env=environment(folder),
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--pages", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--lengths", default="10,100,1000,10000")
    chosen = options.parse_args()
    with scratch() as folder:
        _side_by_side(folder, chosen.pages, chosen.rounds)
        _lengths(folder, [int(length) for length in chosen.lengths.split(",")])


def _side_by_side(folder: Path, pages: int, rounds: int) -> None:
    path = text_pdf(folder, pages)
    found: dict[str, list[float]] = {"bare loop": [], "quire convert": [], "the service": []}
    with service(folder) as running:
        running.upload(text_pdf(folder, 10))
        for _ in range(rounds):
            found["bare loop"].append(bare_loop(path, pages))
            found["quire convert"].append(convert(path, folder))
            began = time.monotonic()
            running.upload(path)
            found["the service"].append(time.monotonic() - began)
    rows = []
    for name, walls in found.items():
        ratios = [bare / wall for bare, wall in zip(found["bare loop"], walls, strict=True)]
        rows.append([name, f"{median(walls):.2f}", f"{pages / median(walls):.0f}", f"{median(ratios):.2f}"])
    table(
        f"{pages} text pages, median of {rounds} rounds",
        ["", "seconds", "pages/s", "of the bare loop"],
        rows,
    )


def _lengths(folder: Path, lengths: list[int]) -> None:
    rows = []
    with service(folder) as running:
        running.upload(text_pdf(folder, 10))
        for pages in lengths:
            path = text_pdf(folder, pages)
            repeats = max(1, 200 // pages)
            began, cpu = time.monotonic(), running.cpu_s()
            for _ in range(repeats):
                running.upload(path)
            wall, cpu = time.monotonic() - began, running.cpu_s() - cpu
            total = pages * repeats
            rows.append([str(pages), f"{1000 * cpu / total:.2f}", f"{1000 * wall / total:.2f}"])
    table("Cost by length (service)", ["pages", "ms CPU a page", "ms wall a page"], rows)


if __name__ == "__main__":
    main()
