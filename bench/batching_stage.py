"""The processes that batching is measured with: a simulated backend and services on it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil

ROOT = Path(__file__).resolve().parents[1]


class Child:
    """A process with an address."""

    def __init__(self, process: subprocess.Popen[Any], url: str) -> None:
        self.process = process
        self.url = url

    @classmethod
    def started(cls, command: list[str], **settings: str) -> Self:
        """A process that prints its address."""
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **settings}
        )
        assert process.stdout is not None
        url = ""
        while not url.startswith("http"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"{command} did not start")
            url = line.split()[-1]
        return cls(process, url)

    @classmethod
    def running(cls, process: subprocess.Popen[Any], url: str) -> Self:
        return cls(process, url)

    def cpu_s(self) -> float:
        return _cpu_s(psutil.Process(self.process.pid))

    def tree_cpu_s(self) -> float:
        process = psutil.Process(self.process.pid)
        return sum(_cpu_s(one) for one in (process, *process.children(recursive=True)))

    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def descriptors(self) -> int:
        return int(psutil.Process(self.process.pid).num_fds())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def ask(url: str, path: str, data: Any = None) -> Any:
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@contextlib.contextmanager
def backend(port: int = 0, **script: Any) -> Iterator[Child]:
    child = Child.started([sys.executable, "-m", "tests.batching.simulated", str(port)])
    ask(child.url, "/script", {"hashes": False, **script})
    try:
        yield child
    finally:
        child.kill()


@contextlib.contextmanager
def quire(backend_url: str, folder: Path, **settings: str) -> Iterator[Child]:
    defaults = {
        "DATA_DIR": str(folder),
        "PORT": "0",
        "BATCH_BACKEND_URL": backend_url,
        "RATE_LIMIT_PER_CLIENT": "0",
        "READER_PROCESSES": "1",
        "LOG_LEVEL": "warn",
    }
    child = Child.started([sys.executable, "-m", "quire", "serve"], **{**defaults, **settings})
    try:
        yield child
    finally:
        if child.process.poll() is None:
            child.stop()
