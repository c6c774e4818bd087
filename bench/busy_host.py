"""The same documents on an idle host and beside busy loops: texts, readers and statuses of all pages are compared.

    .venv/bin/python bench/busy_host.py --state FILE --phase rest|busy|compare
        [--corpus ../shared/corpus] [--files 80] [--ocr] [--loops 24] [--seconds 7200] [--core NUMBER]

Time limits of pages count the CPU time of a reader process, so a busy host may make documents late, but must not change
them. Each loop has the priority of the service and a session of its own, so that the kernel gives each as much as all
readers together. Some of the files are scans, which OCR reads for seconds; with `--ocr`, the busy phase reads only the
files that had pages by OCR at rest. Each outcome is in the state file at once; a phase that ended after `--seconds` or
was interrupted goes on with the documents that are missing there. With `--core`, the service and the loops have one
core, and the others are left to other work. `compare` ends with 1 if an outcome differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring import ROOT, Service, scratch, service

SETS = ("typeset", "tables", "mixed", "wild", "office", "odd", "gnarly")
_MOST_BYTES = 1_500_000
_SCANS = 4
_AT_ONCE = 4
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"


def chosen(corpus: Path, count: int) -> list[Path]:
    """Files of every set in turn, small ones, and a few scans."""
    scans = [
        one
        for one in sorted((corpus / "scans").rglob("*"))
        if one.suffix in (".pdf", ".png") and one.stat().st_size < _MOST_BYTES
    ]
    sets = [
        [
            one
            for one in sorted((corpus / name).rglob("*"))
            if one.is_file() and one.suffix not in (".md", ".json", ".txt")
        ]
        for name in SETS
    ]
    sets = [[one for one in files if 0 < one.stat().st_size < _MOST_BYTES] for files in sets]
    # Scans last: at load 24 each of them takes minutes.
    scans, found, place = scans[:_SCANS], [], 0
    while len(found) + len(scans) < count and any(place < len(files) for files in sets):
        found += [files[place] for files in sets if place < len(files)]
        place += 1
    return [*found[: count - len(scans)], *scans]


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    command = [sys.executable, "-c", _BUSY, str(os.getpid())]
    running = [subprocess.Popen(command, start_new_session=True) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def outcome(running: Service, path: Path, ends: float) -> dict[str, Any] | None:
    """What a user gets of a document: its status, and of each page text, reader, status and reasons. None if late."""
    if time.monotonic() > ends:
        return None
    try:
        submitted = running.upload(path, "")
    except OSError as error:  # a refusal: its status
        return {"refused": str(error)}
    job: dict[str, Any] = {"status": ""}
    while job["status"] not in ("completed", "failed", "cancelled"):
        if time.monotonic() > ends:
            return None
        time.sleep(0.25)
        job = running.get(f"/jobs/{submitted['job_id']}")
    if job["status"] != "completed":
        return {"status": job["status"], "error": job.get("error")}
    result = running.get(f"/jobs/{job['job_id']}/result")["result"]
    pages = running.get(f"/jobs/{job['job_id']}/pages?limit=1000")
    kept = ("number", "status", "source", "reader", "reasons", "confidence", "grade")
    rows = pages["pages"] if isinstance(pages, dict) else pages
    return {
        "status": job["status"],
        "markdown": result["markdown"],
        "pages": [{name: row.get(name) for name in kept} for row in rows],
    }


def read_all(files: list[Path], seconds: float, keep: Callable[[Path, dict[str, Any]], None]) -> None:
    """Keeps the outcome of each document that is ready in time, as soon as it is."""
    ends = time.monotonic() + seconds

    def read(path: Path) -> None:
        if (found := outcome(running, path, ends)) is not None:
            keep(path, found)

    # Deadlines of documents are wall time by design; this compares reading.
    with (
        scratch() as folder,
        service(folder, DOCUMENT_PROCESSING_TIMEOUT="2h") as running,
        concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        list(pool.map(read, files))


def run_phase(phase: str, files: list[Path], state: dict[str, Any], args: argparse.Namespace) -> None:
    known = state.setdefault(phase, {})
    missing = [one for one in files if str(one) not in known]
    if phase == "busy" and args.ocr:
        missing = [one for one in missing if _recognised(state.get("rest", {}).get(str(one), {}))]
    before, began = state.setdefault("seconds", {}).get(phase, 0.0), time.monotonic()
    lock = threading.Lock()

    def keep(path: Path, found: dict[str, Any]) -> None:
        with lock:
            known[str(path)] = found
            state["seconds"][phase] = before + time.monotonic() - began
            args.state.write_text(json.dumps(state, indent=1))
            loads = ", ".join(f"{one:.0f}" for one in os.getloadavg())
            print(f"{phase}: {len(known)} of {len(files)}, load {loads}: {path.name}", flush=True)

    with busy(args.loops if phase == "busy" else 0):
        read_all(missing, args.seconds, keep)


def _recognised(found: dict[str, Any]) -> int:
    """How many pages are by OCR."""
    return sum(page["source"] == "ocr" for page in found.get("pages", ()))


def compare(files: list[Path], state: dict[str, Any]) -> int:
    rest, hit = state.get("rest", {}), state.get("busy", {})
    both = [str(one) for one in files if str(one) in rest and str(one) in hit]
    differing = [name for name in both if rest[name] != hit[name]]
    pages = [page for name in both for page in rest[name].get("pages", ())]
    done = sum(rest[name].get("status") == "completed" for name in both)
    recognised = sum(_recognised(rest[name]) for name in both)
    print(
        f"{len(both)} of {len(files)} files, {done} completed, {len(pages)} pages, {recognised} of them by OCR"
    )
    print(f"seconds: {state.get('seconds')}")
    print(f"{len(differing)} differ")
    for name in differing:
        print(f"  {name}: {_difference(rest[name], hit[name])}")
    return 1 if differing or not both else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--files", type=int, default=80)
    parser.add_argument("--loops", type=int, default=24)
    parser.add_argument("--ocr", action="store_true")
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--core", type=int)
    parser.add_argument("--state", type=Path, required=True, metavar="FILE")
    parser.add_argument("--phase", choices=("rest", "busy", "compare"), required=True)
    args = parser.parse_args()
    files = chosen(args.corpus, args.files)
    if not files:
        parser.error(f"{args.corpus} has no documents.")
    state = json.loads(args.state.read_text()) if args.state.exists() else {}
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    if args.phase == "compare":
        return compare(files, state)
    run_phase(args.phase, files, state, args)
    return 0


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    parts = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    pages = [
        (first, second)
        for first, second in zip(one.get("pages", ()), other.get("pages", ()), strict=False)
        if first != second
    ]
    return f"{', '.join(sorted(parts))}; {pages[:2]}"


if __name__ == "__main__":
    sys.exit(main())
