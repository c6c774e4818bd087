"""Bulk runs: kill -9 at random seeds, throughput beside a bare loop of the same reader calls, memory, ten million keys.

    python bench/bulk.py kills [--seeds 20] [--engine local|ray]   # every page exactly once, whatever is killed when
    python bench/bulk.py throughput FOLDER [--copies 1] [--rounds 1] [--engines local,ray]   # beside two bare processes
    python bench/bulk.py memory FOLDER [--files 20000]             # memory of all processes over many files
    python bench/bulk.py manifest [--keys 10000000]                # planning, planning again, finding a shard

Every command prints one line of JSON for each figure. `bench/bulk_nodes.py` kills nodes of a Ray cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from tests.bulk.rows import check_complete, make_lake, rows_of  # noqa: E402

from quire.bulk.plan_options import PlanOptions  # noqa: E402
from quire.bulk.shard_plan import Plans  # noqa: E402
from quire.bulk.shard_planner import Planner  # noqa: E402
from quire.clock import SystemClock  # noqa: E402
from quire.objects.bulk_locations import BulkLocation, FolderLocation, ListedObject  # noqa: E402
from quire.reading.files.page_chunks import open_document, read_chunk  # noqa: E402
from quire.reading.pdf.page_reader import ReadOptions  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")
_CHUNK = 16
_MOST_RUNS = 4


def _bulk(source: Path, target: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "quire",
        "bulk",
        str(source),
        str(target),
        "--quiet",
        "--ocr",
        "off",
        *more,
    ]
    return subprocess.Popen(command, start_new_session=True)


def kills(seeds: int, engine: str, folder: Path) -> None:
    """Kills the driver, workers, fork servers or reader processes at random moments, then lets a run finish."""
    expected = make_lake(folder / "lake", 40)
    for seed in range(seeds):
        chance = random.Random(seed)
        target = folder / f"out-{seed}"
        more = ("--engine", engine, "--shard-pages", "5", "--workers", "2")
        killed = 0
        for _ in range(chance.randint(1, 3)):
            driver = _bulk(folder / "lake", target, *more)
            deadline = time.monotonic() + chance.uniform(0.2, 8.0)
            while time.monotonic() < deadline and driver.poll() is None:
                time.sleep(0.05)
                if chance.random() < 0.01:
                    killed += _kill_below(driver.pid, chance)
            killed += driver.poll() is None
            below = _below(driver.pid)
            driver.kill()
            driver.wait()
            if engine == "ray":  # a cluster of this driver alone: its processes would outlive it
                for one in below:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
        codes = [_bulk(folder / "lake", target, *more).wait()]
        while (
            codes[-1] == 1 and len(codes) < _MOST_RUNS
        ):  # Ray gives up a start that takes 30 s on a busy machine
            codes.append(_bulk(folder / "lake", target, *more).wait())
        rows = rows_of(target)
        check_complete(rows, expected)
        print(
            json.dumps({"seed": seed, "engine": engine, "killed": killed, "exits": codes, "rows": len(rows)}),
            flush=True,
        )


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill_below(pid: int, chance: random.Random) -> int:
    below = _below(pid)
    if not below:
        return 0
    with contextlib.suppress(psutil.NoSuchProcess):
        chance.choice(below).send_signal(signal.SIGKILL)
    return 1


def _bare(paths: list[str]) -> int:
    """The reader's calls without isolation: what a loop in a notebook would do."""
    pages = 0
    for path in paths:
        try:
            opened = open_document(path, None, None, _CHUNK, ReadOptions())
            pages += len(opened.chunk.pages)
            for first in range(_CHUNK + 1, opened.info.page_count + 1, _CHUNK):
                last = min(first + _CHUNK, opened.info.page_count + 1)
                pages += len(read_chunk(path, None, range(first, last), ReadOptions(), False).pages)
        except Exception:
            continue
    return pages


def throughput(source: Path, copies: int, folder: Path, engines: list[str], rounds: int) -> None:
    """The same files by a bare loop in two processes and by `quire bulk`, in turns; the start of processes is included.

    `others_s` is the CPU time that other programs of the machine took meanwhile: with much of it, seconds say little.
    """
    lake = folder / "lake"
    lake.mkdir()
    files = [one for one in sorted(source.rglob("*.pdf")) if one.is_file()]
    for copy in range(copies):
        for number, one in enumerate(files):
            shutil.copy(one, lake / f"{copy:03}-{number:04}.pdf")
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):
        for name in ("bare", *engines):
            busy = _machine_cpu_s()
            figures = (
                _bare_figures(lake) if name == "bare" else _bulk_figures(lake, folder / f"out-{number}", name)
            )
            figures["others_s"] = _machine_cpu_s() - busy - figures["cpu_s"]
            found.setdefault(name, []).append(figures)
            print(
                json.dumps({"what": name, **{key: round(value, 2) for key, value in figures.items()}}),
                flush=True,
            )
    for name in engines:
        print(json.dumps({"engine": name, **_compared(found[name], found["bare"])}), flush=True)
    if {"local", "ray"} <= set(engines):
        both = _compared(found["ray"], found["local"])
        print(
            json.dumps({"ray beside local": both, "more_cpu": round(1 / both["cpu_ratio"] - 1, 3)}),
            flush=True,
        )


def _machine_cpu_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _bare_figures(lake: Path) -> dict[str, float]:
    paths = sorted(str(one) for one in lake.iterdir())
    began, meter = time.monotonic(), _CpuMeter(os.getpid())
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pages = sum(pool.imap_unordered(_bare, ([path] for path in paths), chunksize=4))
        cpu_s = meter.stop()
    return {"pages": pages, "seconds": time.monotonic() - began, "cpu_s": cpu_s}


def _bulk_figures(lake: Path, target: Path, engine: str) -> dict[str, float]:
    place = target.with_name(f"{target.name}-{engine}")
    began = time.monotonic()
    driver = _bulk(lake, place, "--workers", "2", "--no-dedupe", "--engine", engine)
    meter = _CpuMeter(driver.pid)
    driver.wait()
    seconds = time.monotonic() - began
    report = json.loads((place / "_quire" / "report.json").read_text())
    return {"pages": report["all_parts"]["pages"], "seconds": seconds, "cpu_s": meter.stop()}


def _compared(mine: list[dict[str, float]], other: list[dict[str, float]]) -> dict[str, float]:
    """Rates beside those of another program, by the clock and by CPU time; medians of the rounds."""

    def median(figures: list[dict[str, float]], name: str) -> float:
        return statistics.median(one["pages"] / one[name] for one in figures)

    return {
        "ratio": round(median(mine, "seconds") / median(other, "seconds"), 3),
        "cpu_ratio": round(median(mine, "cpu_s") / median(other, "cpu_s"), 3),
        "cpu_ms_a_page": round(1_000 / median(mine, "cpu_s"), 2),
    }


class _CpuMeter:
    """The CPU time of a process and all below it. It is lost with a process that is killed, so it is looked at often,
    by a few files of /proc: the meter must not take time from what it measures."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.25):
            self._look(self._pid)

    def _look(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            folder = Path(f"/proc/{pid}")
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            self._seen[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
            for task in (folder / "task").iterdir():
                for child in (task / "children").read_text().split():
                    self._look(int(child))

    def stop(self) -> float:
        self._look(self._pid)
        self._stopped.set()
        self._thread.join()
        return sum(self._seen.values())


def memory(source: Path, files: int, folder: Path) -> None:
    """Memory of driver, worker and readers (PSS: a page that processes share counts once) while many files are read.

    The files are small PDFs of FOLDER, each with a comment of its own at the end, so that no two are equal.
    """
    lake, target = folder / "lake", folder / "out"
    _many_files(source, files, lake)
    driver = _bulk(lake, target, "--workers", "2", "--shard-pages", "500")
    samples: list[dict[str, float]] = []
    while driver.poll() is None:
        sizes = _pss_mb(driver.pid)
        done = len(list(target.glob("part-*.parquet")))
        if done:
            samples.append({"parts": done, **sizes})
            print(json.dumps(samples[-1]), flush=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(5)
    report = json.loads((target / "_quire" / "report.json").read_text())
    parts = len(list(target.glob("part-*.parquet")))
    for tenth in range(10):
        mine = [one for one in samples if tenth * parts <= one["parts"] * 10 < (tenth + 1) * parts]
        for_all = {name: max((one[name] for one in mine), default=0.0) for name in _ROLES}
        mean = sum(one["total"] for one in mine) / max(1, len(mine))
        print(
            json.dumps({"tenth": tenth + 1, "samples": len(mine), "mean_total": round(mean), "max": for_all})
        )
    counts = {name: report["all_parts"][name] for name in ("documents", "pages", "errors", "duplicates")}
    print(json.dumps({"exit": driver.returncode, "seconds": report["seconds"], **counts}), flush=True)


_ROLES = ("driver", "worker", "readers", "total")
_SMALL_BYTES = 40_000


def _many_files(source: Path, files: int, lake: Path) -> None:
    small = [one for one in sorted(source.rglob("*.pdf")) if 0 < one.stat().st_size < _SMALL_BYTES]
    bodies = [one.read_bytes() for one in small]
    for number in range(files):
        place = lake / f"{number // 1_000:03}" / f"{number:06}.pdf"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bodies[number % len(bodies)] + b"\n%% copy %d\n" % number)


def _pss_mb(driver: int) -> dict[str, float]:
    """The memory of each role below a driver, in MB."""
    found = dict.fromkeys(_ROLES, 0.0)
    with contextlib.suppress(psutil.Error):
        below = [(psutil.Process(driver), "driver")]
        for worker in below[0][0].children():
            below += [(worker, "worker"), *((one, "readers") for one in worker.children(recursive=True))]
        for process, role in below:
            with contextlib.suppress(psutil.Error):
                found[role] += process.memory_full_info().pss / 1e6
    found["total"] = sum(found.values())
    return {name: round(value, 1) for name, value in found.items()}


class _Imagined(FolderLocation):
    """A bucket of that many keys, listed without a server."""

    def __init__(self, root: Path, keys: int, changed: int = 0) -> None:
        super().__init__(root)
        self._keys = keys
        self._changed = changed

    @property
    def folder(self) -> None:  # type: ignore[override]
        return None

    async def listed(self, prefix: str = "") -> AsyncIterator[list[ListedObject]]:
        for start in range(0, self._keys, 5_000):
            yield [
                ListedObject(
                    f"year-{number % 30}/month-{number % 12}/scan-{number:012}.pdf",
                    30_000 + number % 400_000,
                    f'"{number + (number < self._changed):032x}"',
                )
                for number in range(start, min(start + 5_000, self._keys))
            ]


async def manifest(keys: int, folder: Path) -> None:
    """Plans that many keys, then plans again with some changed, and reads one shard of the plan."""
    target = BulkLocation.open(str(folder / "out"))
    for name, changed in (
        ("first plan", 0),
        ("plan again, nothing new", 0),
        ("plan again, 1,000 changed", 1_000),
    ):
        began, cpu = time.monotonic(), time.process_time()
        plans = await Plans.load(target)
        header = await Planner(_Imagined(folder, keys, changed), target, plans, PlanOptions()).run(
            SystemClock()
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures = {
            "step": name,
            "seconds": round(time.monotonic() - began, 1),
            "cpu_s": round(time.process_time() - cpu, 1),
        }
        print(json.dumps(figures | {"shards": header.shards if header else 0, "peak_mb": peak}), flush=True)
    size = sum(one.stat().st_size for one in (folder / "out").rglob("*") if one.is_file())
    began = time.monotonic()
    plans = await Plans.load(target)
    shard = await plans.shard(plans.shard_count // 2)
    print(
        json.dumps(
            {
                "step": "find a shard",
                "seconds": round(time.monotonic() - began, 3),
                "documents": len(shard.documents),
                "plan_mb": size >> 20,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("kills", "throughput", "memory", "manifest"))
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--engines", default="local", help="for throughput: local,ray")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=10_000_000)
    args = parser.parse_args()
    if args.what in ("throughput", "memory") and args.source is None:
        parser.error(f"{args.what} needs a FOLDER")
    with tempfile.TemporaryDirectory(prefix="quire-bench-bulk-") as name:
        folder = Path(name)
        if args.what == "kills":
            kills(args.seeds, args.engine, folder)
        elif args.what == "throughput":
            throughput(args.source, args.copies, folder, args.engines.split(","), args.rounds)
        elif args.what == "memory":
            memory(args.source, args.files, folder)
        else:
            asyncio.run(manifest(args.keys, folder))


if __name__ == "__main__":
    main()
