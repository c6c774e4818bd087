"""Pages a second: a bare loop of the same reader calls, `quire convert`, and the service, turn by turn.

With `--base CHECKOUT` each turn also runs the code of another checkout, before or after this one's by turns, and the
table has the rate of this checkout as a share of the base's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

from measuring import PYTHON, ROOT, Service, environment, median, scratch, service, table, text_pdf

BARE = """
import sys
try:
    from quire.reading.pool import warm_imports
    from quire.reading.files.page_chunks import read_chunk
    from quire.reading.pdf.page_reader import ReadOptions
except ImportError:  # the names before "The house"
    from quire.reading import warm
    from quire.reading.chunks import read_chunk
    from quire.reading.pages import ReadOptions
try:
    from quire.reading.document_reading import DocumentOptions
    chunk = DocumentOptions().chunk_pages
except ImportError:
    chunk = 16
path, pages, part, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
firsts = list(range(1, pages + 1, chunk))[part::parts]
for first in firsts:
    read_chunk(path, None, tuple(range(first, min(first + chunk, pages + 1))), ReadOptions(), False)
"""


def bare_loop(path: Path, pages: int, source: Path) -> float:
    """As many processes as cores, each with its share of chunks of the checkout's usual size; imports included."""
    cores = os.cpu_count() or 1
    env = {**os.environ, "PYTHONPATH": str(source)}
    began = time.monotonic()
    processes = [
        subprocess.Popen([PYTHON, "-c", BARE, str(path), str(pages), str(part), str(cores)], env=env)
        for part in range(cores)
    ]
    assert all(process.wait() == 0 for process in processes)
    return time.monotonic() - began


def convert(path: Path, folder: Path, source: Path) -> float:
    began = time.monotonic()
    subprocess.run(
        [PYTHON, "-m", "quire", "convert", str(path), "-o", str(folder / "out.md")],
        env=environment(folder, PYTHONPATH=str(source)),
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--base", type=Path)
    options.add_argument("--pages", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--lengths", default="10,100,1000,10000")
    chosen = options.parse_args()
    with scratch() as folder:
        if chosen.base:
            _against(chosen.base, folder, chosen.pages, chosen.rounds)
            return
        _side_by_side(folder, chosen.pages, chosen.rounds)
        _lengths(folder, [int(length) for length in chosen.lengths.split(",")])


def _turn(path: Path, pages: int, folder: Path, source: Path, running: Service) -> dict[str, float]:
    """Wall seconds of the same document, each way once."""
    walls = {
        "bare loop": bare_loop(path, pages, source),
        "quire convert": convert(path, folder, source),
    }
    began = time.monotonic()
    running.upload(path)
    walls["the service"] = time.monotonic() - began
    return walls


def _side_by_side(folder: Path, pages: int, rounds: int) -> None:
    path = text_pdf(folder, pages)
    with service(folder) as running:
        running.upload(text_pdf(folder, 10))
        turns = [_turn(path, pages, folder, ROOT / "src", running) for _ in range(rounds)]
    rows = []
    for name in turns[0]:
        walls = [turn[name] for turn in turns]
        ratios = [turn["bare loop"] / turn[name] for turn in turns]
        rows.append([name, f"{median(walls):.2f}", f"{pages / median(walls):.0f}", f"{median(ratios):.2f}"])
    table(
        f"{pages} text pages, median of {rounds} rounds",
        ["", "seconds", "pages/s", "of the bare loop"],
        rows,
    )


def _against(base: Path, folder: Path, pages: int, rounds: int) -> None:
    path = text_pdf(folder, pages)
    sources = {"base": base / "src", "this": ROOT / "src"}
    turns: dict[str, list[dict[str, float]]] = {side: [] for side in sources}
    for side in sources:
        (folder / side).mkdir()
    with (
        service(folder / "base", PYTHONPATH=str(sources["base"])) as of_base,
        service(folder / "this", PYTHONPATH=str(sources["this"])) as of_this,
    ):
        services = {"base": of_base, "this": of_this}
        for running in services.values():
            running.upload(text_pdf(folder, 10))
        for round_ in range(rounds):
            for side in list(sources) if round_ % 2 else list(sources)[::-1]:
                turn = _turn(path, pages, folder / side, sources[side], services[side])
                turns[side].append(turn)
    rows = []
    for name in turns["this"][0]:
        pairs = list(zip(turns["base"], turns["this"], strict=True))
        ratios = sorted(old[name] / new[name] for old, new in pairs)
        walls = [f"{median([turn[name] for turn in turns[side]]):.2f}" for side in sources]
        rows.append([name, *walls, f"{median(ratios):.3f}", f"{ratios[0]:.3f} to {ratios[-1]:.3f}"])
    table(
        f"{pages} text pages beside the base, {rounds} rounds in turns",
        ["", "base, s", "this, s", "rate of the base's, median", "least and largest"],
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
