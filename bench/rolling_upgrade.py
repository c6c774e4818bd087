"""A rolling upgrade on one Redis and one object store: processes of an old commit and of this tree take turns.

    python bench/rolling_upgrade.py --old COMMIT [--documents 20] [--pages 8]

At each step documents are accepted; the old and the new processes stop, are killed and come back in turn. At the end
every document must be completed with all its pages, in order, and none may be lost. The old code runs with this
environment's libraries.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.coordination_servers import free_port, plain_server  # noqa: E402
from tests.support.marked_documents import marked_pdf, marker, markers_in  # noqa: E402

_PATIENCE_S = 240.0


class Fleet:
    """The processes of both versions, and the documents that they have accepted."""

    def __init__(self, home: Path, redis_url: str, sources: dict[str, Path], pages: int) -> None:
        self._home, self._redis_url, self._sources, self._pages = home, redis_url, sources, pages
        self._running: list[subprocess.Popen[bytes]] = []
        self._accepted: dict[str, int] = {}
        self._url = ""

    def start(self, version: str, command: str) -> subprocess.Popen[bytes]:
        """Starts `serve` or `worker` of a version; returns once it serves or works."""
        port, data = free_port(), self._home / f"data-{len(self._running)}"
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "PYTHONPATH": str(self._sources[version]),
            "REDIS_URL": self._redis_url,
            "OBJECT_STORE": str(self._home / "objects"),
            "DATA_DIR": str(data),
            "SECRET_KEY": "a key of this bench, 32 bytes long",
            "PORT": str(port),
            "RUN_DISPATCHER": "0",
            "READER_PROCESSES": "1",
            "WORKER_TTL": "4s",
            "READER_CHUNK_PAGES": "2",
        }
        before = self._workers()
        log = (self._home / f"{len(self._running)}-{version}-{command}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "quire", command], env=environment, cwd=self._home, stdout=log, stderr=log
        )
        self._running.append(process)
        if command == "serve":
            process.url = self._url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
            _until(lambda: _asked(f"{self._url}/health/ready") is not None, "the service answers")
        else:
            _until(lambda: self._workers() - before, "the worker works")
        return process

    def _workers(self) -> set[str]:
        """The workers that the newest service knows."""
        found = _asked(f"{self._url}/queues") if self._url else None
        return {one["worker_id"] for one in found["workers"]} if found else set()

    def stop(self, process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
        process.send_signal(how)
        code = process.wait(60)
        assert how is signal.SIGKILL or code == 0, f"exit code {code}"

    def accept(self, serve: subprocess.Popen[bytes], count: int) -> None:
        """Posts so many new documents to a service."""
        for _ in range(count):
            seed = 1_000 + len(self._accepted)
            document = marked_pdf(self._home / "document.pdf", self._pages, seed=seed).read_bytes()
            head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
            request = urllib.request.Request(
                f"{serve.url}/convert",  # type: ignore[attr-defined]
                head + document + b"\r\n--b--\r\n",
                {"Content-Type": "multipart/form-data; boundary=b"},
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                self._accepted[json.load(answer)["job_id"]] = seed

    def progress(self, serve: subprocess.Popen[bytes]) -> dict[str, int]:
        """How many of the accepted documents have each status."""
        counted: dict[str, int] = {}
        for job_id in self._accepted:
            found = _asked(f"{serve.url}/jobs/{job_id}")  # type: ignore[attr-defined]
            status = found["status"] if found else "lost"
            counted[status] = counted.get(status, 0) + 1
        return counted

    def finish(self, serve: subprocess.Popen[bytes]) -> tuple[dict[str, int], int]:
        """The statuses once all have ended, and how many results do not have every page once and in order."""
        _until(
            lambda: set(self.progress(serve)) <= {"completed", "failed", "cancelled"}, "every document ends"
        )
        wrong = 0
        for job_id, seed in self._accepted.items():
            found = _asked(f"{serve.url}/jobs/{job_id}/result")  # type: ignore[attr-defined]
            text = found["result"]["markdown"] if found else ""
            wrong += markers_in(text) != [marker(seed, number) for number in range(1, self._pages + 1)]
        return self.progress(serve), wrong

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait(60)


def _asked(url: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return None


def _until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.2)


def _unpacked(commit: str, into: Path) -> Path:
    """The sources of a commit of this repository."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")
    return into / "src"


def upgrade(fleet: Fleet, documents: int) -> None:
    """Goes through the upgrade and prints each step."""
    began = time.monotonic()

    def say(what: str, serve: subprocess.Popen[bytes]) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what:<60} {fleet.progress(serve)}", flush=True)

    old_serve, old_worker = fleet.start("old", "serve"), fleet.start("old", "worker")
    fleet.accept(old_serve, documents)
    say("old service, old worker", old_serve)
    new_worker = fleet.start("new", "worker")
    fleet.accept(old_serve, documents)
    fleet.stop(old_worker)
    say("new worker beside it, old worker stopped", old_serve)
    fleet.accept(old_serve, documents)
    new_serve = fleet.start("new", "serve")
    fleet.accept(new_serve, documents)
    fleet.stop(old_serve)
    say("new service beside it, old service stopped", new_serve)
    old_worker = fleet.start("old", "worker")
    fleet.accept(new_serve, documents)
    fleet.stop(new_worker, signal.SIGKILL)
    say("old worker again, new worker killed", new_serve)
    fleet.accept(new_serve, documents)
    fleet.start("new", "worker")
    fleet.stop(old_worker, signal.SIGKILL)
    say("new worker again, old worker killed", new_serve)
    statuses, wrong = fleet.finish(new_serve)
    print(
        f"{time.monotonic() - began:6.1f} s  the end: {statuses}, {wrong} results with missing or doubled pages"
    )
    assert set(statuses) == {"completed"}, statuses
    assert not wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", required=True, help="the commit or tag of the earlier version")
    parser.add_argument("--documents", type=int, default=20, help="documents that are accepted at each step")
    parser.add_argument("--pages", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, plain_server() as (redis_url, _):
        home = Path(folder)
        sources = {"old": _unpacked(asked.old, home / "old"), "new": ROOT / "src"}
        fleet = Fleet(home, redis_url, sources, asked.pages)
        try:
            upgrade(fleet, asked.documents)
        finally:
            fleet.close()


if __name__ == "__main__":
    main()
