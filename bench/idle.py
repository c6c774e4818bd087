"""What a `quire serve` costs before its first request: CPU until it is ready, then CPU and memory while it is idle.

Readers start with the first document (READER_IDLE_TIMEOUT), so its time is measured too, beside the median of the next.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from measuring import Service, median, scratch, service, table, text_pdf

SETTLED_S = 10.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--starts", type=int, default=5)
    options.add_argument("--seconds", type=float, default=60.0)
    chosen = options.parse_args()
    starts = [_cpu_until_ready() for _ in range(chosen.starts)]
    shown = [f"{one:.2f}" for one in starts]
    table(
        "CPU seconds of all processes until the service is ready",
        ["median", "each start", "bound"],
        [[f"{median(starts):.2f}", " ".join(shown), "1.5"]],
    )
    percent, memory, documents = _idle(chosen.seconds)
    table(
        f"Idle for {chosen.seconds:.0f} s, all processes together",
        ["", "found", "bound"],
        [
            ["CPU, % of a core", f"{percent:.2f}", "1.85"],
            ["memory of the tree (shared pages counted once), MB", f"{memory['tree']:.0f}", "111"],
            ["memory of the service's own process (RSS), MB", f"{memory['service']:.0f}", ""],
            ["then, the first document of one page, ms", f"{documents[0]:.0f}", ""],
            ["the next nine, median, ms", f"{median(documents[1:]):.0f}", ""],
        ],
    )


def _cpu_until_ready() -> float:
    """The address is printed when the service is ready to answer."""
    with scratch() as folder, service(folder) as running:
        running.get("/health/ready")
        return running.cpu_s()


def _idle(seconds: float) -> tuple[float, dict[str, float], list[float]]:
    with scratch() as folder, service(folder) as running:
        time.sleep(SETTLED_S)
        before, began = running.cpu_s(), time.monotonic()
        time.sleep(seconds)
        percent = 100 * (running.cpu_s() - before) / (time.monotonic() - began)
        return percent, running.rss_mb(), [_document_ms(running, text_pdf(folder, 1)) for _ in range(10)]


def _document_ms(running: Service, document: Path) -> float:
    began = time.monotonic()
    running.upload(document)
    return 1000 * (time.monotonic() - began)


if __name__ == "__main__":
    main()
