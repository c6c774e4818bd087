"""What the benches share: documents, processes, clocks of whole process trees, and tables."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import psutil

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


def samples() -> ModuleType:
    """samples/make.py, which is a script and not a package."""
    spec = importlib.util.spec_from_file_location("quire_samples", ROOT / "samples" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["quire_samples"] = module
    spec.loader.exec_module(module)
    return module


def text_pdf(folder: Path, pages: int) -> Path:
    path = folder / f"text-{pages}.pdf"
    if not path.exists():
        samples().make_text_pdf(path, pages, 1)
    return path


def environment(folder: Path, **more: str) -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name in names}
    return {**kept, "DATA_DIR": str(folder / "data"), "LOG_LEVEL": "error", **more}


class Service:
    """A running `quire serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def cpu_s(self) -> float:
        total = 0.0
        for process in self.tree():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def rss_mb(self) -> dict[str, float]:
        """The service's own process (RSS), and the whole tree with each shared page counted once."""
        own = psutil.Process(self.process.pid).memory_info().rss / 2**20
        return {"service": own, "tree": tree_mb([one.pid for one in self.tree()])}

    def get(self, path: str) -> dict:
        return json.load(urllib.request.urlopen(self.url + path, timeout=600))

    def upload(self, path: Path, query: str = "?wait=600", to: str = "/convert", mode: str = "auto") -> dict:
        """Streams the file through curl-like chunks; answers the JSON."""
        boundary = "quire-bench-boundary"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n\r\n'
        fields = {"force": "true"} | ({"mode": mode} if mode != "auto" else {})
        tail = "".join(
            f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'
            for name, value in fields.items()
        )
        tail += f"\r\n--{boundary}--\r\n"
        size = len(head) + path.stat().st_size + len(tail)

        def body() -> Iterator[bytes]:
            yield head.encode()
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    yield block
            yield tail.encode()

        headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(size),
        }
        request = urllib.request.Request(
            f"{self.url}{to}{query}", data=body(), headers=headers, method="POST"
        )
        return json.load(urllib.request.urlopen(request, timeout=900))

    def wait_for(self, job_id: str) -> dict:
        while True:
            job = self.get(f"/jobs/{job_id}")
            if job["status"] in ("completed", "failed", "cancelled"):
                return job
            time.sleep(0.02)


_REGION = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) (\S+) (\d+)")


def tree_mb(pids: list[int]) -> float:
    """The memory of some processes, where each page that they share is counted once.

    The proportional share (PSS) is right for private memory, which only processes of one tree share. It is wrong for
    the pages of libraries: another process on the host that has the same library loaded takes a part of each share, so
    the figure depended on what else ran. Of each mapped file the largest resident part among the processes counts.
    """
    private_kib, files = 0, {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            regions = Path(f"/proc/{pid}/smaps").read_text().splitlines()
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            private_kib += sum(map(int, re.findall(r"Pss_(?:Anon|Shmem): +(\d+)", rollup)))
            place, resident = ("", "", ""), 0
            for line in regions:
                if found := _REGION.match(line):
                    place = found.groups()
                elif line.startswith("Rss:"):
                    resident = int(line.split()[1])
                elif line.startswith("Anonymous:") and place[2] != "0":
                    files[place] = max(files.get(place, 0), resident - int(line.split()[1]))
    return (private_kib + sum(files.values())) / 1024


@contextmanager
def service(folder: Path, **more: str) -> Iterator[Service]:
    process = subprocess.Popen(
        [PYTHON, "-m", "quire", "serve", "--port", "0"],
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next(one for one in process.stdout if "http://" in one)
        yield Service(process, "http://" + line.split("http://", 1)[1].strip().rstrip("/"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as folder:
        yield Path(folder)


def timed(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds (of the command and all its descendants that it waited for)."""
    before = os.times()
    began = time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def median(values: list[float]) -> float:
    return statistics.median(values)


def table(title: str, head: list[str], rows: list[list[str]]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()
