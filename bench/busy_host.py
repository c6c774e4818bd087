"""The same documents on an idle host and beside busy loops: texts, readers and statuses of all pages are compared.

    .venv/bin/python bench/busy_host.py [--corpus ../shared/corpus] [--files 80] [--loops 24] [--seconds 900]

Time limits of pages count the CPU time of a reader process, so a busy host may make documents late, but must not change
them. The loops run with the priority of the service. Some of the files are scans, which OCR reads for seconds.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import ROOT, Service, scratch, service

SETS = ("typeset", "tables", "mixed", "wild", "office", "odd", "gnarly")
_MOST_BYTES = 1_500_000
_SCANS = 4
_AT_ONCE = 4
_BUSY = "while True: pass"


def chosen(corpus: Path, count: int) -> list[Path]:
    """Files of every set in turn, small ones, and a few scans."""
    scans = [
        one
        for one in sorted((corpus / "scans").rglob("*"))
        if one.is_file() and one.suffix in (".pdf", ".png")
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
    found = scans[:_SCANS]
    place = 0
    while len(found) < count and any(place < len(files) for files in sets):
        found += [files[place] for files in sets if place < len(files)]
        place += 1
    return found[:count]


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def outcome(running: Service, path: Path) -> dict[str, Any]:
    """What a user gets of a document: its status, and of each page text, reader, status and reasons."""
    try:
        submitted = running.upload(path, "")
    except OSError as error:  # a refusal: its status
        return {"refused": str(error)}
    job = running.wait_for(submitted["job_id"])
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


def read_all(files: list[Path], seconds: float) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    # Deadlines of documents are wall time by design; this compares reading.
    with (
        scratch() as folder,
        service(folder, DOCUMENT_PROCESSING_TIMEOUT=f"{int(seconds)}s") as running,
        concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        found = list(pool.map(lambda path: outcome(running, path), files))
    return {str(path): one for path, one in zip(files, found, strict=True)}, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--files", type=int, default=80)
    parser.add_argument("--loops", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write both outcomes as JSON")
    args = parser.parse_args()
    files = chosen(args.corpus, args.files)
    rest, rest_s = read_all(files, args.seconds)
    with busy(args.loops):
        hit, hit_s = read_all(files, args.seconds)
    differing = [name for name in rest if rest[name] != hit[name]]
    if args.keep:
        args.keep.write_text(json.dumps({"rest": rest, "busy": hit}, indent=1))
    pages = sum(len(one.get("pages", ())) for one in rest.values())
    done = sum(one.get("status") == "completed" for one in rest.values())
    print(f"{len(files)} files, {done} completed, {pages} pages")
    print(
        f"at rest {rest_s:.0f} s, beside {args.loops} busy loops {hit_s:.0f} s ({hit_s / rest_s:.1f} times)"
    )
    print(f"{len(differing)} differ")
    for name in differing:
        print(f"  {name}: {_difference(rest[name], hit[name])}")
    return 1 if differing else 0


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
