"""What real `quire worker` processes cost their Redis at rest: commands a second and connections of each.

`python bench/worker_rest.py --workers 3` starts them with all queues, the batcher and an AI provider, waits until they
rest, and attributes each command that MONITOR shows, those inside scripts included, to the process that sent it.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
from tests.support.coordination_servers import ask, plain_server
from tests.support.waiting import wait_until

from measuring import PYTHON, environment, scratch, table

_LINE = re.compile(rb"\+?[\d.]+ \[\d+ (\S+?)\] (.*)")
_LEADER = b'"SET" "lock:housekeeper"'


def start(folder: Path, url: str, number: int) -> subprocess.Popen[bytes]:
    settings = {
        "REDIS_URL": url,
        "DATA_DIR": str(folder / str(number)),
        "OBJECT_STORE": str(folder / "objects"),
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "PRIMARY_ENGINE": "openai",
        "READER_PROCESSES": "1",
    }
    env = environment(folder, **settings)
    return subprocess.Popen([PYTHON, "-m", "quire", "worker"], env=env, stdout=subprocess.DEVNULL)


def monitored(port: int, seconds: float) -> list[bytes]:
    """The lines of MONITOR in this time."""
    lines = b""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(b"MONITOR\r\n")
        stream.settimeout(0.5)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                lines += stream.recv(1 << 20)
            except TimeoutError:
                continue
    return lines.splitlines()


def attributed(lines: list[bytes], owners: dict[str, int]) -> tuple[Counter[int], set[int]]:
    """The commands of each process, and which of them renewed the housekeeper's lock."""
    commands: Counter[int] = Counter()
    leaders: set[int] = set()
    last = 0
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        if found[1] != b"lua":  # the commands of a script follow its call
            last = owners.get(found[1].decode(), 0)
        commands[last] += 1
        if _LEADER in found[2]:
            leaders.add(last)
    return commands, leaders


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--workers", type=int, default=3)
    options.add_argument("--settle", type=float, default=120.0, help="seconds before the measurement")
    options.add_argument("--rest", type=float, default=60.0, help="seconds that are measured")
    chosen = options.parse_args()
    with scratch() as folder, plain_server() as (url, port), ExitStack() as stack:
        processes = [start(folder, url, number) for number in range(chosen.workers)]
        for one in processes:
            stack.callback(one.wait)
            stack.callback(one.terminate)
        wait_until(lambda: int(ask(port, "ZCARD", "workers")[1:]) == chosen.workers, "all workers are there")
        time.sleep(chosen.settle)
        lines = monitored(port, chosen.rest)
        owners: dict[str, int] = {}
        for one in processes:
            for used in psutil.Process(one.pid).net_connections("tcp"):
                if used.raddr and used.raddr.port == port:
                    owners[f"{used.laddr.ip}:{used.laddr.port}"] = one.pid
        commands, leaders = attributed(lines, owners)
        rows = [
            [
                "housekeeper" if one.pid in leaders else "worker",
                f"{commands[one.pid] / chosen.rest:.2f}",
                str(sum(pid == one.pid for pid in owners.values())),
            ]
            for one in processes
        ]
    table(
        f"{chosen.workers} workers at rest for {chosen.rest:g} s",
        ["process", "commands/s", "connections"],
        rows,
    )


if __name__ == "__main__":
    main()
