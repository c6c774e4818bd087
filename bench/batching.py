"""Batching against a simulated backend of 50 ms + 5 ms an image, batches of at most 32, 4 at once.

python bench/batching.py load      2,000 callers of 100 kB (JSON and raw), lone callers, one image at a time
python bench/batching.py peers     the same load through in-memory batchers (installed on demand, apart)
python bench/batching.py correct   2,000 callers ten times, random order and gaps, by content hash; two replicas
python bench/batching.py kill      kill -9 with 500 waiting and 4 batches out
python bench/batching.py down      the backend away for a minute
python bench/batching.py failing   the backend answers 500 for a minute while 500 callers wait
python bench/batching.py leaks     50,000 requests, many of them ill-behaved
python bench/batching.py hold      10,000 queued requests
python bench/batching.py heavy     all checks at full size, one after the other; fails if one of them does
"""

# ruff: noqa: SIM117 - a service has a block of its own, inside its backend's

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import batching_checks as checks  # noqa: E402
from bench.batching_stage import Child, backend, quire  # noqa: E402
from bench.crowd import crowd  # noqa: E402
from tests.batching.callers import Reply, as_json, as_raw, request_of  # noqa: E402

FIXED_S, EACH_S, BATCH, SLOTS = 0.050, 0.005, 32, 4
LONE_MS = 15.0
_PEER_FILES = {"litserve": "peer_litserve.py"}
PHYSICAL = SLOTS * BATCH / (FIXED_S + EACH_S * BATCH)
"""Images a second that the backend can do at all."""


def ideal_s(callers: int) -> float:
    return callers / PHYSICAL


def requests(callers: int, *, raw: bool = False) -> list[list[bytes]]:
    kind = "image/jpeg" if raw else "application/json"
    return [request_of(as_raw(one) if raw else as_json(one), kind) for one in range(callers)]


def load(url: str, callers: int, *, raw: bool = False) -> tuple[float, list[Reply]]:
    """All callers at once; how long until the last has its answer."""
    prepared = requests(callers, raw=raw)
    gc.collect()
    return crowd(url, prepared)


def report(name: str, callers: int, seconds: float, replies: list[Reply]) -> None:
    times = sorted(reply.seconds for reply in replies)
    statuses = dict(Counter(reply.status for reply in replies))
    p99 = times[int(0.99 * (len(times) - 1))]
    print(
        f"{name:28} {seconds:6.2f} s  {ideal_s(callers) / seconds:5.3f} of the limit  "
        f"p99 {p99:5.2f} s = {p99 / ideal_s(callers):4.2f} x ideal  {statuses}",
        flush=True,
    )


def _lone(url: str, *, direct: bool = False) -> float:
    """How many ms more than the backend's 55 a caller waits that is the only one."""
    [request] = requests(1)
    if direct:
        body = b'{"images":[{"filename":"x","image_data":"' + as_json(0)[1] + b'"}]}'
        request = [
            f"POST /parse-batch HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode(),
            body,
        ]
    [reply] = crowd(url, [request])[1]
    if reply.status != 200:
        raise SystemExit(f"a lone caller was answered {reply.status}")
    return 1000 * (reply.seconds - FIXED_S - EACH_S)


def show_lone(who: str, over: list[float]) -> None:
    middle, p90 = over[len(over) // 2], over[int(0.9 * len(over))]
    more = sum(one > LONE_MS for one in over)
    print(
        f"{who} {middle:.1f} ms more than the backend takes "
        f"(p90 {p90:.1f}, max {over[-1]:.1f}; {more} of {len(over)} more than {LONE_MS:.0f})",
        flush=True,
    )


def measured(name: str, service: Child, simulated: Child, callers: int, *, raw: bool = False) -> None:
    """One load, with what each side cost. The machine's other work is shown, because it takes from all of them."""
    before = (service.tree_cpu_s(), simulated.cpu_s(), time.process_time(), *_machine_s())
    seconds, replies = load(service.url, callers, raw=raw)
    spent = (
        service.tree_cpu_s() - before[0],
        simulated.cpu_s() - before[1],
        time.process_time() - before[2],
    )
    report(name, callers, seconds, replies)
    busy, stolen = _machine_s()
    others = max(0.0, busy - before[3] - sum(spent))
    print(
        f"    CPU: service and its children {spent[0]:.2f} s, backend {spent[1]:.2f} s, callers {spent[2]:.2f} s, "
        f"others on this machine {others:.2f} s, stolen by its host {stolen - before[4]:.2f} s "
        f"of {seconds * (os.cpu_count() or 1):.1f}",
        flush=True,
    )


def _machine_s() -> tuple[float, float]:
    """CPU seconds that the whole machine has spent on anything, and those that its host did not let it have."""
    user, nice, system, _, _, irq, soft, stolen, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft) / ticks, stolen / ticks


def measure_load(args: argparse.Namespace) -> None:
    with backend() as simulated, tempfile.TemporaryDirectory() as folder:
        with quire(simulated.url, Path(folder)) as service:
            for _ in range(2):
                _lone(service.url)
            alone = [(_lone(service.url), _lone(simulated.url, direct=True)) for _ in range(args.lone)]
            show_lone("a lone caller waits", sorted(ours for ours, _ in alone))
            show_lone("asked directly,", sorted(theirs for _, theirs in alone))
            for raw in (False, True):
                for _ in range(args.times):
                    name = "quire, " + ("raw body" if raw else "JSON")
                    measured(name, service, simulated, args.callers, raw=raw)
            if args.single:
                asyncio.run(_single(simulated))


async def _single(simulated: Child) -> None:
    """The backend called one image at a time."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        for number in range(40):
            body = b'{"images":[{"filename":"x' + str(number).encode() + b'","image_data":"'
            body += b"".join(as_json(number)[1:2]) + b'"}]}'
            async with session.post(f"{simulated.url}/parse-batch", data=body) as answer:
                await answer.read()
        each = (time.perf_counter() - began) / 40
    print(f"one image at a time: {1 / each:.1f} images/s; batched limit {PHYSICAL:.0f} images/s")


def measure_peers(args: argparse.Namespace) -> None:
    """Ours and theirs in turn, so that whatever else the machine does falls on all alike.

    `bare` is the ceiling of this machine in this language: sixty lines that read bodies and forward them, with no
    check of anything, no disk, no queue, nothing that survives.
    """
    python = args.python or _peer_python()
    for _ in range(args.times):
        for name in args.only or ("bare", "quire", "batched", "mosec", "litserve"):
            with backend() as simulated, tempfile.TemporaryDirectory() as folder:
                with _peer(name, python, simulated.url, Path(folder)) as service:
                    load(service.url, 8)
                    measured(name, service, simulated, args.callers)


def _peer_python() -> str:
    """An environment of their own: they are never a dependency."""
    folder = Path(tempfile.gettempdir()) / "quire-batching-peers"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "litserve").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = ["batched", "mosec", "litserve", "fastapi", "uvicorn", "uvloop", "httptools", "aiohttp"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


@contextlib.contextmanager
def _peer(name: str, python: str, backend_url: str, folder: Path) -> Iterator[Child]:
    if name == "quire":
        with quire(backend_url, folder) as service:
            yield service
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [python, str(ROOT / "bench" / _PEER_FILES.get(name, "peers.py")), name, backend_url, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        peer = Child.running(process, f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 60
        while load(peer.url, 1)[1][0].status != 200:
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.1)
        yield peer
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    runs = {"load": measure_load, "peers": measure_peers, **checks.RUNS}
    parser.add_argument("what", choices=tuple(runs), nargs="?", default="load")
    parser.add_argument("--callers", type=int, default=2000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--lone", type=int, default=100, help="how many lone callers, one after the other")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--away-s", type=float, default=60.0, help="how long the backend is down")
    parser.add_argument("--single", action="store_true", help="also call the backend one image at a time")
    parser.add_argument("--python", help="an interpreter that has the peers")
    parser.add_argument("--only", nargs="*", help="which of the peers")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    runs[args.what](args)


if __name__ == "__main__":
    main()
