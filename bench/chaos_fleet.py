"""The fleet that chaos runs hurt: Valkey, S3, PostgreSQL, a provider, a batch backend, one serve and three workers.

Everything is a real process on 127.0.0.1. Redis and the object store are reached through proxies that can fail.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
from tests.support.coordination_servers import ask, free_port, says, spawn_server
from tests.support.environment import ROOT, clean_environment
from tests.support.parse_fixtures import Simulated
from tests.support.postgres_pair import PostgresPair
from tests.support.programs import Program, Service
from tests.support.waiting import DEADLINE_S, wait_until

from chaos_proxy import FaultProxy, ProxyMode
from quire.coordination import keys
from quire.coordination.connection import load_scripts
from quire.simulator.simulator_thread import simulator

WORKERS = ("worker-1", "worker-2", "worker-3")
DISK_WORKER, CLOCK_WORKER = "worker-2", "worker-3"
_DISK_BYTES = 48 << 20
_SLOW_DISK_MS = 80


class StateWatch:
    """Sees each script that any process runs, by name, through MONITOR on the real server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._names = {one.sha: name for name, one in load_scripts().items()}
        self._seen: dict[str, int] = {}
        self._changed = threading.Condition()
        self._stopped = False
        threading.Thread(target=self._run, name="monitor", daemon=True).start()

    def wait_for(self, name: str, timeout_s: float) -> bool:
        """Returns as soon as the script runs once more; False if it does not in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            before = self._seen.get(name, 0)
            while self._seen.get(name, 0) == before:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
        return True

    def stop(self) -> None:
        self._stopped = True

    def _run(self) -> None:
        pattern = re.compile(rb'"(?i:EVALSHA)" "([0-9a-f]{40})"')
        while not self._stopped:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as stream:
                stream.sendall(b"*1\r\n$7\r\nMONITOR\r\n")
                for line in stream.makefile("rb"):
                    found = pattern.search(line)
                    name = self._names.get(found[1].decode()) if found else None
                    if name:
                        with self._changed:
                            self._seen[name] = self._seen.get(name, 0) + 1
                            self._changed.notify_all()
            time.sleep(0.05)


class ClockedProgram(Program):
    """A worker on a host whose clock can be moved."""

    def __init__(self, folder: Path, name: str, clock: Path, *args: str, **settings: str) -> None:
        self.log_path, self.out_path = folder / f"{name}.log", folder / f"{name}.out"
        environment = clean_environment(**{"LOG_LEVEL": "info", "LOG_PRETTY": "false", **settings})
        with self.out_path.open("wb") as out, self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "bench" / "chaos_clock.py"), str(clock), *args],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )


class Fleet:
    """Started by the constructor; `close` ends every process of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.hand_in_for_vault: Callable[[int], None] = lambda count: None
        self._stack = ExitStack()
        try:
            self._start(seed)
        except BaseException:
            self._stack.close()
            raise

    def _start(self, seed: int) -> None:
        self.workers: dict[str, Program] = {}
        self.locks = {name: threading.Lock() for name in (*WORKERS, "serve", "redis", "database", "losses")}
        self.redis_port = free_port()
        self._redis_home, self._postgres_home = self.folder / "redis", self.folder / "postgres"
        self.slow_disk = self.folder / "slow_disk"
        self.has_slow_disk = self._build_slow_disk()
        self._redis_home.mkdir()
        self.start_redis()
        self._stack.callback(self._kill_servers)
        self.states = StateWatch(self.redis_port)
        self._stack.callback(self.states.stop)
        self.s3_port = self._start_s3()
        self.proxies = {
            "redis of workers": FaultProxy(self.redis_port),
            "redis of serve": FaultProxy(self.redis_port),
            "store": FaultProxy(self.s3_port),
        }
        self._postgres_home.mkdir()
        self.postgres = PostgresPair(self._postgres_home)
        self._stack.callback(self.postgres.close)
        self.provider = self._stack.enter_context(simulator(seed=seed))
        self.backend = Simulated()
        self._stack.callback(self._kill_backend)
        self.clock_file = self.folder / "clock"
        self.clock_file.write_text("0")
        self.disk = self._mount_disk()
        self._settings = self._make_settings()
        self._stack.callback(self._kill_programs)
        self.serve = self._new_serve()
        for name in WORKERS:
            self.start_worker(name)
        self.serve.wait_ready()

    @property
    def url(self) -> str:
        return self.serve.url

    def ask(self, *args: str) -> bytes:
        return ask(self.redis_port, *args)

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.set(ProxyMode.PASS)
        self._stack.close()

    def _kill_programs(self) -> None:
        programs: list[Program] = [*self.workers.values(), *([self.serve] if hasattr(self, "serve") else [])]
        for one in programs:
            one.make_sure_it_is_gone()

    def _kill_servers(self) -> None:
        self.redis.kill()  # the one that runs now, not the first

    def _kill_backend(self) -> None:
        self.backend.kill()

    # Servers

    def start_redis(self) -> None:
        self.redis = self._spawn_redis(self.redis_port, self._redis_home)

    def _spawn_redis(self, port: int, home: Path, *more: str) -> subprocess.Popen[bytes]:
        """Its disk is slow while the file `slow_disk` is there."""
        slow = {
            "LD_PRELOAD": str(self.folder / "slow_disk.so"),
            "SLOW_DISK_FLAG": str(self.slow_disk),
            "SLOW_DISK_MS": str(_SLOW_DISK_MS),
        }
        environment = slow if self.has_slow_disk else {}
        started = spawn_server(port, home, "--appendonly", "yes", *more, environment=environment)
        wait_until(lambda: says(port, b"PONG", "PING"), "Redis answers")
        return started

    def fail_over(self) -> None:
        """A replica takes the primary's place, which is killed; what had not arrived at the replica is lost."""
        port = free_port()
        home = self.folder / f"redis-{port}"
        home.mkdir()
        primary, followed = self.redis, ("--replicaof", f"127.0.0.1 {self.redis_port}")
        replica = self._spawn_redis(port, home, *followed, "--repl-diskless-sync-delay", "0")
        wait_until(lambda: says(port, b"master_link_status:up", "INFO", "replication"), "the replica")
        primary.kill()
        primary.wait(DEADLINE_S)
        ask(port, "REPLICAOF", "NO", "ONE")
        self.redis, self.redis_port, self._redis_home = replica, port, home
        self.states.port = port
        for name in ("redis of workers", "redis of serve"):
            self.proxies[name].target_port = port

    def _build_slow_disk(self) -> bool:
        source = Path(__file__).with_name("slow_disk.c")
        command = ["cc", "-shared", "-fPIC", "-o", str(self.folder / "slow_disk.so"), str(source), "-ldl"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False

    def stop_redis(self, sign: int) -> None:
        self.redis.send_signal(sign)
        self.redis.wait(DEADLINE_S)

    def flush_redis(self) -> None:
        with suppress(OSError):  # it is away at this moment, by another fault
            ask(self.redis_port, "FLUSHALL")

    def restart_database(self, mode: str) -> None:
        self.postgres.primary.stop(mode)
        self.postgres.primary.start()

    def fail_over_database(self, lag_s: float) -> None:
        """The replica takes the place of the primary, which is killed, and gets a replica of its own.

        With 0, what was on its way is lost. Else the replica gets nothing any more, two documents are accepted, and
        the primary is killed `lag_s` later: their rows are lost.
        """
        self.postgres.catch_up()
        if lag_s:
            self.postgres.cut_replica_off()
            self.hand_in_for_vault(2)
            time.sleep(lag_s)
        self.postgres.fail_over()
        self.postgres.new_replica()

    @contextmanager
    def losing_redis_data(self) -> Iterator[None]:
        """Within it, the database has lost nothing that Redis still has to put back.

        A document that was accepted a moment ago is in these two planes: one that both lose is lost, by design.
        """
        with self.locks["losses"]:
            wait_until(self._rows_are_back, "the rows that a failover lost are back")
            yield

    def _rows_are_back(self) -> bool:
        try:
            run = self.postgres.primary.ask("SELECT pg_postmaster_start_time()::text")
        except subprocess.CalledProcessError:  # it is restarted at this moment, by another fault
            return False
        return says(self.redis_port, run.encode(), "GET", keys.CATALOG_RUN)

    def _start_s3(self) -> int:
        port = free_port()
        code = "from moto.server import main; main()"
        with (self.folder / "s3.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
            )
        self._stack.callback(server.wait)
        self._stack.callback(server.kill)

        def answers() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
            return False

        wait_until(answers, "S3 answers")
        import urllib.request

        request = urllib.request.Request(f"http://127.0.0.1:{port}/planes", method="PUT")
        urllib.request.urlopen(request, timeout=DEADLINE_S).close()
        return port

    # Quire's own processes

    def restart_serve(self) -> None:
        self.serve = self._new_serve()
        self.serve.wait_ready()

    def start_worker(self, name: str) -> None:
        own = self.folder / name
        own.mkdir(exist_ok=True)
        data = self.disk if name == DISK_WORKER and self.disk else own / "data"
        settings = {
            **self._settings,
            "REDIS_URL": f"redis://127.0.0.1:{self.proxies['redis of workers'].port}/0",
            "DATA_DIR": str(data),
        }
        if name == CLOCK_WORKER:
            self.workers[name] = ClockedProgram(own, name, self.clock_file, "worker", **settings)
        else:
            self.workers[name] = Program(own, name, "worker", **settings)

    def readers_of(self, name: str) -> list[psutil.Process]:
        return self.workers[name].family()[1:]

    def _new_serve(self) -> Service:
        own = self.folder / "serve"
        own.mkdir(exist_ok=True)
        settings = {
            **self._settings,
            "REDIS_URL": f"redis://127.0.0.1:{self.proxies['redis of serve'].port}/0",
            "DATA_DIR": str(own / "data"),
            "RUN_DISPATCHER": "0",
        }
        return Service(own, **settings)

    def _make_settings(self) -> dict[str, str]:
        return {
            "OBJECT_STORE": "s3://planes/chaos",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxies['store'].port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "secret-of-moto",
            "AWS_REGION": "us-east-1",
            "DATABASE_URL": self.postgres.url("quire"),
            "SECRET_KEY": "chaos" * 8,
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": self.provider.openai_url,
            "PRIMARY_ENGINE": "openai",
            "BREAKER_BASE_BACKOFF": "1s",
            "BREAKER_MAX_BACKOFF": "3s",
            "BATCH_BACKEND_URL": self.backend.url,
            "RATE_LIMIT_PER_CLIENT": "0",
            "READER_CHUNK_PAGES": "4",
            "READER_PROCESSES": "1",
            "WORKER_TTL": "3s",
            "MIN_FREE_DISK": "64MB",  # the disk of one worker is smaller than a sixteenth of the default
            "VAULT_STALE_AFTER": "20s",  # what Redis lost of a vault document is resumed by its sweeper
            "VAULT_SWEEP_INTERVAL": "2s",
        }

    def _mount_disk(self) -> Path | None:
        """A small disk for one worker; None where this process may not mount one."""
        disk = self.folder / "disk"
        disk.mkdir()
        if os.geteuid() != 0 or os.environ.get("CHAOS_OWN_MOUNTS") != "1":
            return None
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none", str(disk)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        self._stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        (disk / "data").mkdir()
        return disk / "data"
