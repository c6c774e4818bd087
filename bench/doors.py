"""The cost of the docling-serve door beside `POST /convert?wait=`: the same documents through both, in turns.

    python bench/doors.py [ROUNDS]

Each request sends a document that differs in one comment, so that nothing is answered from an earlier job.
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

from measuring import Service, service

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


def send(running: Service, way: str, data: bytes) -> tuple[float, float]:
    """Sends one document; returns the seconds of wall time and of the service's CPU."""
    path, field, text = WAYS[way]
    boundary = "quire-bench-boundary"
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="a.pdf"\r\n\r\n'.encode()
    )
    body = head + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    request = urllib.request.Request(running.url + path, data=body, headers=headers, method="POST")
    cpu, wall = cpu_s(running), time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as answer:
        found = json.load(answer)
    wall = time.monotonic() - wall
    assert len(text(found)) > 500, "the document is not there"
    return wall, cpu_s(running) - cpu


def measure(running: Service, sample: str, rounds: int) -> None:
    data = (SAMPLES / sample).read_bytes()
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in list(WAYS) if number % 2 else reversed(WAYS):
            spent = send(running, way, data + f"\n% {way} {number}\n".encode())
            if number:  # the first round warms up
                times[way].append(spent)
    medians = {
        way: (statistics.median(one[0] for one in found), statistics.fmean(one[1] for one in found))
        for way, found in times.items()
    }
    base = medians["/convert?wait="]
    for way, (wall, cpu) in medians.items():
        print(
            f"{sample:12} {way:15} {rounds} times: wall {1000 * wall:7.1f} ms (median), "
            f"CPU {1000 * cpu:7.1f} ms (mean), "
            f"{100 * (wall / base[0] - 1):+5.1f} % wall, {100 * (cpu / base[1] - 1):+5.1f} % CPU"
        )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as running:
        measure(running, "text.pdf", rounds)
        measure(running, "long.pdf", max(2, rounds // 3))


if __name__ == "__main__":
    main()
