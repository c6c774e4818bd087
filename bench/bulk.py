"""Bulk runs: kill -9 at random seeds, throughput beside a bare loop of the same reader calls, memory, ten million keys.

    python bench/bulk.py kills [--seeds 20] [--engine local|ray]   # every page exactly once, whatever is killed when
    python bench/bulk.py nodes [--seeds 20]                        # the same on three Ray nodes, also killed
    python bench/bulk.py throughput [--copies 1] FOLDER            # against two bare processes, side by side
    python bench/bulk.py memory [--files 20000]                    # resident memory of the worker over many files
    python bench/bulk.py manifest [--keys 10000000]                # planning, planning again, finding a shard

Every command prints one line of JSON for each figure.
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

from quire.bulk.shard_plan import Plans  # noqa: E402
from quire.bulk.shard_planner import Planner, PlanOptions  # noqa: E402
from quire.clock import SystemClock  # noqa: E402
from quire.objects.bulk_locations import BulkLocation, FolderLocation, ListedObject  # noqa: E402
from quire.reading.files.page_chunks import open_document, read_chunk  # noqa: E402
from quire.reading.pdf.page_reader import ReadOptions  # noqa: E402

_CHUNK = 16


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
        code = _bulk(folder / "lake", target, *more).wait()
        rows = rows_of(target)
        check_complete(rows, expected)
        print(
            json.dumps({"seed": seed, "engine": engine, "killed": killed, "exit": code, "rows": len(rows)}),
            flush=True,
        )


def nodes(seeds: int, folder: Path) -> None:
    """Kills the driver, actors, reader processes and whole nodes of a Ray cluster, then lets a run finish on it.

    Ray listens on all addresses, so the cluster is in a network namespace of its own, where there is no other host.
    """
    if os.environ.get("BENCH_IN_NAMESPACE") != "1":
        again = [*("unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")]
        again += [sys.executable, __file__, "nodes", "--seeds", str(seeds)]
        raise SystemExit(
            subprocess.run(again, env={**os.environ, "BENCH_IN_NAMESPACE": "1"}, check=False).returncode
        )
    from ray.cluster_utils import Cluster

    expected = make_lake(folder / "lake", 40)
    sizes = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**sizes, "include_dashboard": False, "node_ip_address": "127.0.0.1"},
    )
    # Addresses of their own: the driver must belong to the head's node, which is not killed.
    addresses = iter(range(2, 250))
    others = [cluster.add_node(**sizes, node_ip_address=f"127.0.0.{next(addresses)}") for _ in range(2)]
    more = ("--engine", "ray", "--address", cluster.address, "--shard-pages", "5")
    for seed in range(seeds):
        chance = random.Random(seed)
        target = folder / f"out-{seed}"
        killed: dict[str, int] = {}
        for _ in range(chance.randint(1, 2)):
            driver = _bulk(folder / "lake", target, *more)
            parts = chance.randint(0, 12)
            deadline = time.monotonic() + 60
            while driver.poll() is None and time.monotonic() < deadline and _parts_in(target) < parts:
                time.sleep(0.05)
            what = chance.choice(("driver", "node", "actor", "node and driver"))
            if "node" in what:
                cluster.remove_node(others.pop(chance.randrange(2)), allow_graceful=False)
                others.append(cluster.add_node(**sizes, node_ip_address=f"127.0.0.{next(addresses)}"))
            if what == "actor":
                actors = [one for one in psutil.process_iter(["cmdline"]) if _is_actor(one)]
                for one in chance.sample(actors, min(1, len(actors))):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
            if "driver" in what:
                driver.kill()
            killed[what] = killed.get(what, 0) + 1
            driver.wait()
        code = _bulk(folder / "lake", target, *more).wait()
        rows = rows_of(target)
        check_complete(rows, expected)
        print(json.dumps({"seed": seed, "killed": killed, "exit": code, "rows": len(rows)}), flush=True)
    cluster.shutdown()


def _parts_in(target: Path) -> int:
    return len(list(target.glob("part-*.parquet")))


def _is_actor(process: psutil.Process) -> bool:
    return "ShardActor" in " ".join(process.info["cmdline"] or ())


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


def throughput(source: Path, copies: int, folder: Path, only: str, engine: str) -> None:
    """The same files by a bare loop in two processes and by `quire bulk`; the start of processes is included."""
    lake = folder / "lake"
    lake.mkdir()
    files = [one for one in sorted(source.rglob("*.pdf")) if one.is_file()]
    for copy in range(copies):
        for number, one in enumerate(files):
            shutil.copy(one, lake / f"{copy:03}-{number:04}.pdf")
    paths = sorted(str(one) for one in lake.iterdir())
    figures: dict[str, float] = {}
    if only in ("", "bare"):
        began = time.monotonic()
        meter = _CpuMeter(os.getpid())
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pages = sum(pool.imap_unordered(_bare, ([path] for path in paths), chunksize=4))
            figures["bare_cpu_s"] = meter.stop()
        figures["bare_s"] = time.monotonic() - began
        figures["bare_pages"] = pages
    if only in ("", "bulk"):
        began = time.monotonic()
        driver = _bulk(lake, folder / "out", "--workers", "2", "--no-dedupe", "--engine", engine)
        meter = _CpuMeter(driver.pid)
        driver.wait()
        figures["bulk_s"] = time.monotonic() - began
        figures["bulk_cpu_s"] = meter.stop()
        report = json.loads((folder / "out" / "_quire" / "report.json").read_text())
        figures["bulk_pages"] = report["all_parts"]["pages"]
        figures["reading_s"] = report["seconds"]
    if not only:
        rates = figures["bulk_pages"] / figures["bulk_s"], figures["bare_pages"] / figures["bare_s"]
        figures["ratio"] = round(rates[0] / rates[1], 3)
        each = figures["bulk_cpu_s"] / figures["bulk_pages"], figures["bare_cpu_s"] / figures["bare_pages"]
        figures["cpu_ratio"] = round(each[1] / each[0], 3)
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}), flush=True)


class _CpuMeter:
    """The CPU time of a process and all below it, looked at often: it is lost with a process that is killed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (psutil.Process(self._pid), *_below(self._pid)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = one.cpu_times()
                    self._seen[one.pid] = times.user + times.system

    def stop(self) -> float:
        self._look()
        self._stopped.set()
        self._thread.join()
        return sum(self._seen.values())


def memory(files: int, folder: Path) -> None:
    """Resident memory of driver, worker and readers while many files are read."""
    lake = folder / "lake"
    lake.mkdir()
    for number in range(files):
        (lake / f"{number:06}.txt").write_text(f"Document {number}. " + "Some words of a text. " * 40)
    driver = _bulk(lake, folder / "out", "--workers", "2", "--no-dedupe", "--shard-pages", "500")
    while driver.poll() is None:
        time.sleep(5)
        sizes = (
            {"driver": psutil.Process(driver.pid).memory_info().rss >> 20} if driver.poll() is None else {}
        )
        for place, one in enumerate(_below(driver.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                sizes[f"below_{place}"] = one.memory_info().rss >> 20
        done = len(list((folder / "out").glob("part-*.parquet")))
        print(json.dumps({"parts": done, "rss_mb": sizes}), flush=True)
    print(json.dumps({"exit": driver.returncode}), flush=True)


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
    parser.add_argument("what", choices=("kills", "nodes", "throughput", "memory", "manifest"))
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--only", default="", choices=("", "bare", "bulk"))
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=10_000_000)
    args = parser.parse_args()
    if args.what == "throughput" and args.source is None:
        parser.error("throughput needs a FOLDER")
    with tempfile.TemporaryDirectory(prefix="quire-bench-bulk-") as name:
        folder = Path(name)
        if args.what == "kills":
            kills(args.seeds, args.engine, folder)
        elif args.what == "nodes":
            nodes(args.seeds, folder)
        elif args.what == "throughput":
            throughput(args.source, args.copies, folder, args.only, args.engine)
        elif args.what == "memory":
            memory(args.files, folder)
        else:
            asyncio.run(manifest(args.keys, folder))


if __name__ == "__main__":
    main()
