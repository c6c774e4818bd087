"""The cost of the docling-serve door beside `POST /convert?wait=`: the same documents through both, in turns.

    python bench/doors.py [BLOCKS]

Each request sends a document that differs in one comment, so that nothing is answered from an earlier job. CPU is taken
for blocks of requests, with what the service does after their answers.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from measuring import Service, service, text_pdf

SAMPLES = Path(__file__).parent.parent / "samples"
WAYS = {
    "/convert?wait=": ("/convert?wait=600", "file", lambda found: found["result"]["markdown"]),
    "docling door": ("/v1/convert/file", "files", lambda found: found["document"]["md_content"]),
}


def cpu_s(running: Service) -> float:
    """CPU of the service and its children, also of those that have ended."""
    total = 0.0
    for process in running.tree():
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def send(running: Service, way: str, data: bytes) -> float:
    """Sends one document; returns the seconds of wall time."""
    path, field, text = WAYS[way]
    boundary = "quire-bench-boundary"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="a.pdf"\r\n\r\n'.encode()
    )
    body = head + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    request = urllib.request.Request(running.url + path, data=body, headers=headers, method="POST")
    wall = time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as answer:
        found = json.load(answer)
    wall = time.monotonic() - wall
    assert len(text(found)) > 500, "the document is not there"
    return wall


def settle(running: Service) -> float:
    """Waits until the service has done what a request leaves to do after its answer; returns its CPU so far."""
    before = cpu_s(running)
    while True:
        time.sleep(0.3)
        now = cpu_s(running)
        if now - before < 0.03:
            return now
        before = now


def measure(running: Service, path: Path, blocks: int, block: int = 10) -> None:
    """Blocks of requests of one way, the two ways in turns; the first block of each warms up."""
    sample, data = path.name, path.read_bytes()
    wall_s: dict[str, list[float]] = {way: [] for way in WAYS}
    used_s: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(blocks + 1):
        for way in list(WAYS) if number % 2 else reversed(WAYS):
            cpu = settle(running)
            walls = [send(running, way, data + f"\n% {way} {number} {n}\n".encode()) for n in range(block)]
            cpu = settle(running) - cpu
            if number:
                wall_s[way] += walls
                used_s[way].append(cpu / block)
    base_wall = statistics.median(wall_s["/convert?wait="])
    base_cpu = statistics.median(used_s["/convert?wait="])
    for way in WAYS:
        wall, cpu = statistics.median(wall_s[way]), statistics.median(used_s[way])
        print(
            f"{sample:12} {way:15} {blocks} x {block}: wall {1000 * wall:7.1f} ms, CPU {1000 * cpu:7.1f} ms (medians), "
            f"{100 * (wall / base_wall - 1):+5.1f} % wall, {100 * (cpu / base_cpu - 1):+5.1f} % CPU"
        )


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as running:
        measure(running, SAMPLES / "text.pdf", blocks)
        measure(running, text_pdf(Path(folder), 20), blocks)
        measure(running, SAMPLES / "long.pdf", max(2, blocks // 2), 4)


if __name__ == "__main__":
    main()
