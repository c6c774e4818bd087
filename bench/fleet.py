"""A fleet on several hosts (network namespaces), hurt host by host; prints a table of outcomes.

`python bench/fleet.py` starts two serves behind a proxy, three workers, Redis, S3 and a provider, each on a host of its
own, and PostgreSQL beside them. In each scenario callers hand in work while a host is killed, cut off, paused, moved in
time or filled up. Skipped, with a sentence, where namespaces can't be made. Ends with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import reaper
from tests.support.environment import ROOT, RUN_VARIABLE, clean_environment
from tests.support.postgres import PostgresServer

from chaos_work import Callers
from fleet_hosts import Balancer, Host, enter_own_namespaces, make_network, wait_for_port
from measuring import table
from quire.coordination.embedded_server import _binary

_KEY = "key-of-the-fleet-0123456789"
_PORT = {"redis": 6379, "s3": 9000, "provider": 8089, "serve": 8080, "backend": 8090}
_WORK = 10


class HostFleet:
    """All hosts, started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_network()
        self.hosts = {
            name: Host(name, folder)
            for name in ("redis", "s3", "provider", "serve1", "serve2", "worker1", "worker2", "worker3")
        }
        self.postgres = PostgresServer(folder / "postgres")
        self.clock_file = folder / "clock"
        self.clock_file.write_text("0")
        self.disk = folder / "disk"
        self._start_servers()
        for number in (1, 2, 3):
            self._start_worker(f"worker{number}")
        for name in ("serve1", "serve2"):
            self._start_serve(name)
        for name in ("serve1", "serve2"):
            wait_for_port(self.hosts[name], _PORT["serve"], 120)
        serves = [(self.hosts[name].address, _PORT["serve"]) for name in ("serve1", "serve2")]
        self._balancer = Balancer(serves)

    @property
    def url(self) -> str:
        return self._balancer.url

    def ask(self, *args: str) -> bytes:
        with socket.create_connection((self.hosts["redis"].address, _PORT["redis"]), timeout=30) as stream:
            parts = [f"*{len(args)}\r\n"] + [f"${len(arg)}\r\n{arg}\r\n" for arg in args]
            stream.sendall("".join(parts).encode())
            return stream.recv(65536)

    def close(self) -> None:
        for host in self.hosts.values():
            host.send(signal.SIGCONT)
            host.send(signal.SIGKILL)
        self.postgres.stop()
        subprocess.run(["umount", "-l", str(self.disk)], check=False, capture_output=True)

    def _start_servers(self) -> None:
        plain = clean_environment()
        redis = [str(_binary()), "--port", str(_PORT["redis"]), "--bind", "0.0.0.0", "--protected-mode", "no"]
        redis += ["--dir", str(self.hosts["redis"].folder), "--appendonly", "yes", "--save", ""]
        self.hosts["redis"].run("redis", redis, plain)
        code = "from moto.server import main; main()"
        s3 = [sys.executable, "-c", code, "-H", "0.0.0.0", "-p", str(_PORT["s3"])]
        self.hosts["s3"].run("s3", s3, plain)
        provider = [sys.executable, "-m", "quire", "simulate", "--host", "0.0.0.0"]
        self.hosts["provider"].run("provider", [*provider, "--port", str(_PORT["provider"])], plain)
        for name in ("redis", "s3", "provider"):
            wait_for_port(self.hosts[name], _PORT[name])
        import urllib.request

        bucket = f"http://{self.hosts['s3'].address}:{_PORT['s3']}/planes"
        urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=60).close()

    def _start_serve(self, name: str) -> None:
        host = self.hosts[name]
        command = [sys.executable, "-m", "quire", "serve", "--host", "0.0.0.0", "--port", str(_PORT["serve"])]
        host.run("serve", command, self._environment(host.folder / "data", RUN_DISPATCHER="0"))

    def _start_worker(self, name: str) -> None:
        host, data = self.hosts[name], self.hosts[name].folder / "data"
        command = [sys.executable, "-m", "quire", "worker"]
        if name == "worker2" and self._mount_disk():
            data = self.disk / "data"
        if name == "worker3":
            command = [sys.executable, str(ROOT / "bench/chaos_clock.py"), str(self.clock_file), "worker"]
        host.run("worker", command, self._environment(data))

    def _mount_disk(self) -> bool:
        self.disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(self.disk)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def _environment(self, data: Path, **more: str) -> dict[str, str]:
        return clean_environment(
            DATA_DIR=str(data),
            MIN_FREE_DISK="64MB",  # the disk of one worker is smaller than a sixteenth of the default
            REDIS_URL=f"redis://{self.hosts['redis'].address}:{_PORT['redis']}/0",
            OBJECT_STORE="s3://planes/fleet",
            AWS_ENDPOINT_URL=f"http://{self.hosts['s3'].address}:{_PORT['s3']}",
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="secret-of-moto",
            AWS_REGION="us-east-1",
            DATABASE_URL=self.postgres.database("quire"),
            SECRET_KEY="fleet" * 8,
            API_KEYS=f"team:{_KEY}",
            WEB_PASSWORD="password-of-the-fleet",
            OPENAI_API_KEY="any",
            OPENAI_BASE_URL=f"http://{self.hosts['provider'].address}:{_PORT['provider']}/v1",
            PRIMARY_ENGINE="openai",
            READER_PROCESSES="1",
            RATE_LIMIT_PER_CLIENT="0",
            LOG_LEVEL="info",
            LOG_PRETTY="false",
            **more,
        )


Scenario = Callable[[HostFleet], None]


def _cut(name: str, seconds: float) -> Scenario:
    def run(fleet: HostFleet) -> None:
        fleet.hosts[name].cut()
        time.sleep(seconds)
        fleet.hosts[name].reconnect()

    return run


def _kill(name: str, away_s: float = 2.0) -> Scenario:
    def run(fleet: HostFleet) -> None:
        fleet.hosts[name].kill()
        time.sleep(away_s)
        fleet.hosts[name].start()

    return run


def _pause(name: str, seconds: float) -> Scenario:
    def run(fleet: HostFleet) -> None:
        fleet.hosts[name].send(signal.SIGSTOP)
        time.sleep(seconds)
        fleet.hosts[name].send(signal.SIGCONT)

    return run


def _clock(offset_s: int) -> Scenario:
    def run(fleet: HostFleet) -> None:
        fleet.clock_file.write_text(str(offset_s))
        fleet.hosts["worker3"].kill()
        fleet.hosts["worker3"].start()

    return run


def _full_disk(fleet: HostFleet) -> None:
    filler = fleet.disk / "filler"
    with suppress(OSError), filler.open("wb") as out:
        while True:
            out.write(os.urandom(1 << 20))
    time.sleep(6)
    filler.unlink()


def _restart_database(fleet: HostFleet) -> None:
    fleet.postgres.end("immediate")
    time.sleep(2)
    fleet.postgres.start_again()


def _flush(fleet: HostFleet) -> None:
    fleet.ask("FLUSHALL")


def _rolling(fleet: HostFleet) -> None:
    for name in ("serve1", "serve2", "worker1", "worker2", "worker3"):
        codes = fleet.hosts[name].stop()
        assert codes == [0], f"{name} ended with {codes}"
        fleet.hosts[name].start()
        if name.startswith("serve"):
            wait_for_port(fleet.hosts[name], _PORT["serve"], 120)


SCENARIOS: dict[str, Scenario] = {
    "no fault": lambda _fleet: None,
    "a worker's host dies": _kill("worker1"),
    "two workers' hosts die": lambda fleet: (_kill("worker1")(fleet), _kill("worker2")(fleet))[0],
    "a worker is cut off for 20 s": _cut("worker1", 20),
    "a worker is paused for 20 s": _pause("worker1", 20),
    "a serve dies": _kill("serve1"),
    "a serve is cut off for 10 s": _cut("serve2", 10),
    "Redis is killed and comes back": _kill("redis"),
    "Redis is cut off for 10 s": _cut("redis", 10),
    "Redis loses everything": _flush,
    "the object store is cut off for 10 s": _cut("s3", 10),
    "the provider is cut off for 10 s": _cut("provider", 10),
    "PostgreSQL is killed and comes back": _restart_database,
    "a worker's clock is 5 minutes behind": _clock(-300),
    "a worker's clock is 5 minutes ahead": _clock(300),
    "a worker's disk is full for 6 s": _full_disk,
    "rolling restart of all": _rolling,
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="scenarios whose name contains this")
    options.add_argument("--keep", type=Path, default=None, help="work in this folder and leave it there")
    options.add_argument("--minutes", type=float, default=60.0, help="no new scenario after this time")
    chosen = options.parse_args()
    if why := enter_own_namespaces():
        print(f"make fleet is skipped: {why}.")
        return 0
    reaper.begin(RUN_VARIABLE)
    began, rows, problems = time.monotonic(), [], []
    with tempfile.TemporaryDirectory(prefix="quire-fleet-") as temporary:
        folder = chosen.keep or Path(temporary)
        (folder / "documents").mkdir(parents=True)
        fleet = HostFleet(folder)
        callers = Callers(fleet, folder / "documents", random.Random(chosen.seed), _KEY)
        try:
            for name, hurt in SCENARIOS.items():
                if chosen.only in name and time.monotonic() - began < 60 * chosen.minutes:
                    rows.append(_outcome(fleet, callers, name, hurt))
                    problems = callers.account.problems
                    if problems:
                        break
        finally:
            callers.close()
            fleet.close()
    head = [
        "scenario",
        "documents and images",
        "lost, stuck, doubled, twice, wrong",
        "calls repeated",
        "all done after",
    ]
    table(f"seed {chosen.seed}, two serves, three workers, {time.monotonic() - began:.0f} s", head, rows)
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


def _outcome(fleet: HostFleet, callers: Callers, name: str, hurt: Scenario) -> list[str]:
    account = callers.account
    before, repeated, began = account.documents + account.images, account.repeated_calls, time.monotonic()
    callers.hand_in(_WORK // 2)
    time.sleep(0.5)
    hurt(fleet)
    callers.hand_in(_WORK // 2)
    callers.settle()
    counts = [
        len(one) for one in (account.lost, account.stuck, account.doubled, account.twice, account.wrong)
    ]
    row = [
        name,
        str(account.documents + account.images - before),
        ", ".join(map(str, counts)),
        str(account.repeated_calls - repeated),
        f"{time.monotonic() - began:.0f} s",
    ]
    print(" | ".join(row), flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
