"""What logs and traces cost, and what happens when their targets are away.

    lines     four processes write 50,000 lines each into one LOG_FILE, rotated and compressed; every line is counted
    outages   the same documents through a service with no targets, with targets that answer (Axiom, an OTLP collector,
              a log file), and with targets that hang or are full: time, CPU and memory beside each other
    traces    what traces cost while they are off: the comparisons that are left on the way of a page, timed, beside the
              CPU of documents with traces off (twice, which shows the noise) and on

Everything listens on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measuring import PYTHON, Service, median, scratch, service, table, text_pdf

WRITERS = 4
WRITER = """
import io, logging, sys
from pathlib import Path
from quire.settings import LoggingSettings
from quire.telemetry.logs import configure
target, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
settings = LoggingSettings(pretty="false", file=target, max_size_bytes=2_000_000, max_backups=1000)
take_down = configure(settings, io.StringIO())
for number in range(count):
    logging.getLogger("quire.bench").info("line", extra={"by": name, "n": number})
take_down()
"""


def lines(folder: Path, each: int) -> None:
    target = folder / "quire.log"
    began = time.monotonic()
    writers = [
        subprocess.Popen([PYTHON, "-c", WRITER, str(target), f"w{place}", str(each)])
        for place in range(WRITERS)
    ]
    codes = [one.wait() for one in writers]
    seconds = time.monotonic() - began
    rotated = sorted(one for one in folder.iterdir() if one.name.startswith("quire.log.2"))
    seen: dict[str, list[int]] = {}
    for path in (*rotated, target):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in data.splitlines():
            found = json.loads(line)
            seen.setdefault(found["by"], []).append(found["n"])
    lost = sum(each - len(set(seen.get(f"w{place}", ()))) for place in range(WRITERS))
    doubled = sum(len(numbers) - len(set(numbers)) for numbers in seen.values())
    in_order = all(numbers == sorted(numbers) for numbers in seen.values())
    table(
        f"{WRITERS * each:,} lines from {WRITERS} processes into one file",
        ["exit codes", "lost", "doubled", "in order", "rotations", "compressed", "seconds"],
        [
            [
                *(str(codes), str(lost), str(doubled), str(in_order), str(len(rotated))),
                str(sum(one.suffix == ".gz" for one in rotated)),
                f"{seconds:.0f}",
            ]
        ],
    )


class _Accepting(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        body = b'{"ingested":1,"failed":0,"failures":[],"processedBytes":1,"blocksCreated":0,"walLength":0}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering_target() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Accepting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def hanging_target() -> Iterator[str]:
    """Connections are established by the kernel and never answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def targets(url: str, log_file: str) -> dict[str, str]:
    return {
        "SEND_LOGS_TO_AXIOM": "true",
        "AXIOM_API_KEY": "xaat-00000000-0000-0000-0000-000000000000",
        "AXIOM_DATASET": "dev",
        "AXIOM_URL": url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "LOG_FILE": log_file,
        "LOG_MAX_SIZE_MB": "1MB",
    }


def outages(documents: int, rounds: int) -> None:
    with answering_target() as well, hanging_target() as hung, tempfile.TemporaryDirectory() as logs:
        ways = {
            "no targets": {},
            "Axiom, collector and log file answer": targets(well, f"{logs}/quire.log"),
            "Axiom and collector hang, disk of the log is full": targets(hung, "/dev/full"),
        }
        found: dict[str, list[list[float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, settings in ways.items():
                with scratch() as folder, service(folder, **{**settings, "LOG_LEVEL": "info"}) as running:
                    found[name].append(_measured(running, folder, documents))
    rows = []
    for name, runs in found.items():
        seconds, cpu, before, after = (median([run[place] for run in runs]) for place in range(4))
        each = [f"{1000 * value / documents:.1f}" for value in (seconds, cpu)]
        rows.append([name, *each, f"{before:.0f}", f"{after:.0f}"])
    table(
        f"{documents} documents of one page, one after the other, median of {rounds} rounds",
        ["", "ms a document", "ms of CPU a document", "MB before (service)", "MB after"],
        rows,
    )


PLACES_OF_A_DOCUMENT = 5
"""Comparisons of the tracer with None for a local document of one page: job begun, three units, job ended. The
middleware of requests is not even installed without a tracer. An AI page has two more: the page and its call."""
_TIMED = """
def with_comparison(parts, rounds):
    for _ in rounds:
        if parts.tracer is not None:
            raise AssertionError
def without(parts, rounds):
    for _ in rounds:
        pass
"""


def traces(documents: int, rounds: int) -> None:
    comparison_ns = _comparison_ns()
    with answering_target() as collector:
        ways = {
            "off": {},
            "off, once more": {},
            "on (`OTEL_EXPORTER_OTLP_ENDPOINT`)": {"OTEL_EXPORTER_OTLP_ENDPOINT": collector},
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, settings in ways.items():
                with scratch() as folder, service(folder, **settings) as running:
                    found[name].append(1000 * _measured(running, folder, documents)[1] / documents)
    table(
        f"Traces, {documents} documents of one page, {rounds} rounds",
        ["", "ms of CPU a document, each round", "median"],
        [
            [name, " ".join(f"{one:.2f}" for one in runs), f"{median(runs):.2f}"]
            for name, runs in found.items()
        ],
    )
    table(
        "What is left of traces that are off",
        ["one comparison with None, ns", "comparisons a document", "ns a document", "share of its CPU"],
        [
            [
                f"{comparison_ns:.1f}",
                str(PLACES_OF_A_DOCUMENT),
                f"{PLACES_OF_A_DOCUMENT * comparison_ns:.0f}",
                f"{PLACES_OF_A_DOCUMENT * comparison_ns / median(found['off']) / 1e4:.5f} %",
            ]
        ],
    )


def _comparison_ns(count: int = 1_000_000, rounds: int = 9) -> float:
    """The CPU time of one comparison: the same loop with and without it, the best of some rounds each."""
    from quire.pipeline.parts import Parts

    scope: dict[str, Any] = {}
    exec(_TIMED, scope)  # compiled like a module: the loop alone differs
    parts = object.__new__(Parts)
    object.__setattr__(parts, "tracer", None)

    def best_ns(name: str) -> float:
        found = []
        for _ in range(rounds):
            began = time.process_time_ns()
            scope[name](parts, range(count))
            found.append((time.process_time_ns() - began) / count)
        return min(found)

    return best_ns("with_comparison") - best_ns("without")


def _measured(running: Service, folder: Path, documents: int) -> list[float]:
    document = text_pdf(folder, 1)
    for _ in range(20):
        running.upload(document)
    before, cpu, began = running.rss_mb()["service"], running.cpu_s(), time.monotonic()
    for _ in range(documents):
        running.upload(document)
    return [
        time.monotonic() - began,
        running.cpu_s() - cpu,
        before,
        running.rss_mb()["service"],
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("what", choices=("lines", "outages", "traces"))
    options.add_argument("--each", type=int, default=50_000)
    options.add_argument("--documents", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    if chosen.what == "lines":
        with scratch() as folder:
            lines(folder, chosen.each)
    elif chosen.what == "traces":
        traces(chosen.documents, chosen.rounds)
    else:
        outages(chosen.documents, chosen.rounds)


if __name__ == "__main__":
    main()
