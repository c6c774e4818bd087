"""How long a document takes while every AI provider is down: `python bench/outage.py [--only hang,reset] [--strict]`.

A 6-page mixed PDF (text, pictures, scans) goes through a real service for each kind of outage, in the default and in
the strict mode (`JOB_MAX_ATTEMPTS=1`). "Usable": `GET /jobs/{id}/result?partial=1` has the text of every page that has
text of its own. "Completed": the final result is there; scans are then read by OCR. The last column is a second
document that arrives while all breakers are open. The time of local reading (mode=local) is measured first.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pymupdf

from measuring import ROOT, Service, scratch, service, table
from quire.simulator.simulator_thread import simulator

OUTAGES: dict[str, dict[str, object] | None] = {
    "refused": None,
    "reset": {"fault": "reset"},
    "hang": {"fault": "hang"},
    "429": {"fault": "rate_limit", "retry_after_s": 20},
    "500": {"fault": "server_error"},
    "529": {"fault": "overloaded"},
    "401": {"fault": "auth"},
    "quota": {"fault": "quota"},
    "empty": {"fault": "empty"},
    "refusal": {"fault": "refusal"},
    "garbage": {"fault": "bad_json"},
}
_OWN_TEXT_PAGES = 4


def mixed_pdf(folder: Path, mark: str) -> Path:
    """Two pages of text, two with pictures, two scans. `mark` makes the content unique."""
    path = folder / f"mixed-{mark}.pdf"
    made = pymupdf.open()
    for name in ("text.pdf", "pictures.pdf", "scan.pdf"):
        with pymupdf.open(ROOT / "samples" / name) as source:
            for number in (0, 1):
                made.insert_pdf(
                    source, from_page=min(number, len(source) - 1), to_page=min(number, len(source) - 1)
                )
    made[0].insert_text((72, 40), f"Mark {mark}")
    made.save(path)
    return path


@contextmanager
def address_of(rule: dict[str, object] | None) -> Iterator[str]:
    if rule is None:
        with socket.socket() as taken:  # bound and not listening: connections are refused
            taken.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        return
    with simulator({"rules": [rule]}) as sim:
        yield sim.url


def partial(one: Service, job_id: str) -> dict | None:
    try:
        return one.get(f"/jobs/{job_id}/result?partial=1")["result"]
    except (urllib.error.HTTPError, http.client.HTTPException):
        return None


def run(one: Service, path: Path) -> tuple[float, float, dict]:
    """Seconds until the document is usable, until it is completed, and its metadata."""
    began = time.monotonic()
    job_id = one.upload(path, "")["job_id"]
    usable = 0.0
    while True:
        if not usable and (found := partial(one, job_id)):
            pages = found["markdown"].split("\n\n---\n\n")
            unread = sum("has not been read yet" in page for page in pages)
            if len(pages) - unread >= _OWN_TEXT_PAGES:
                usable = time.monotonic() - began
        job = one.get(f"/jobs/{job_id}")
        if job["status"] in ("completed", "failed", "cancelled"):
            done = time.monotonic() - began
            assert job["status"] == "completed", job
            return usable or done, done, job["metadata"]
        time.sleep(0.05)


def measure(name: str, rule: dict[str, object] | None, strict: bool) -> list[str]:
    with scratch() as folder, address_of(rule) as url:
        settings = {
            "OPENAI_API_KEY": "sk-bench",
            "OPENAI_BASE_URL": f"{url}/v1",
            "ANTHROPIC_API_KEY": "sk-bench",
            "ANTHROPIC_BASE_URL": url,
            **({"JOB_MAX_ATTEMPTS": "1"} if strict else {}),
        }
        with service(folder, **settings) as one:
            # The readers and the SDKs load after the start; a document is measured on a service that runs.
            one.wait_for(one.upload(ROOT / "samples" / "text.pdf", "")["job_id"])
            time.sleep(5)
            usable, done, metadata = run(one, mixed_pdf(folder, "first"))
            again, again_done, _ = run(one, mixed_pdf(folder, "second"))
        sources = ", ".join(f"{count} {source}" for source, count in sorted(metadata["sources"].items()))
        row = [
            name,
            "strict" if strict else "default",
            f"{usable:.1f}",
            f"{done:.1f}",
            f"{again:.1f}",
            f"{again_done:.1f}",
            sources,
        ]
        print(json.dumps(row), file=sys.stderr, flush=True)
        return row


def local_seconds() -> float:
    with scratch() as folder, service(folder) as one:
        one.wait_for(one.upload(mixed_pdf(folder, "warm"), "")["job_id"])
        return run(one, mixed_pdf(folder, "local"))[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(OUTAGES))
    parser.add_argument("--mode", choices=("default", "strict", "both"), default="both")
    args = parser.parse_args()
    modes = {"default": [False], "strict": [True], "both": [False, True]}[args.mode]
    local = local_seconds()
    rows = [measure(name, OUTAGES[name], strict) for strict in modes for name in args.only.split(",")]
    head = [
        "outage",
        "mode",
        "usable s",
        "completed s",
        "next usable s",
        "next completed s",
        "pages by source",
    ]
    table(f"Every provider down (local reading alone: {local:.1f} s)", head, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
