"""`make demo`: start Quire, convert the samples with live progress, show a result and where the dashboard is, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = (
    "text.pdf",
    "two-columns.pdf",
    "tables.pdf",
    "mixed.pdf",
    "long.pdf",
    "scan.pdf",
    "odd-damaged.pdf",
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="quire-demo-") as folder:
        log = Path(folder) / "serve.log"
        environment = {**os.environ, "DATA_DIR": f"{folder}/data", "LOG_LEVEL": "warn"}
        for name in ("REDIS_URL", "OBJECT_STORE", "QUIRE_URL", "QUIRE_CONFIG", "API_KEYS", "HOST", "PORT"):
            environment.pop(name, None)
        print("Starting Quire on the embedded default (quire serve) …")
        with log.open("wb") as errors:
            server = subprocess.Popen(
                [sys.executable, "-m", "quire", "serve", "--port", "0"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            url = _address(server, log)
            print(f"  it listens on {url}; the dashboard is there, too\n")
            failed = _convert_all(url)
            _show(url)
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
        print(
            f"\nStopped (exit code {code}). Keep it running with `make serve`, then open http://127.0.0.1:8080/"
        )
        return 1 if failed or code else 0


def _address(server: subprocess.Popen[str], log: Path) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if "http://" in line:
            return "http://" + line.split("http://", 1)[1].strip().rstrip("/")
    raise SystemExit(f"Quire did not start:\n{log.read_text()}")


def _convert_all(url: str) -> int:
    jobs = {name: _upload(url, ROOT / "samples" / name) for name in SAMPLES}
    print(f"Uploaded {len(jobs)} documents; pages as they come:")
    began = time.monotonic()
    shown: dict[str, str] = {}
    open_jobs = dict(jobs)
    failed = 0
    while open_jobs:
        for name, job_id in list(open_jobs.items()):
            job = _get(f"{url}/jobs/{job_id}")
            line = f"{job['pages_completed'] + job['pages_failed']:>4} of {job['total_pages'] or '?'} pages"
            if job["status"] in ("completed", "failed", "cancelled"):
                del open_jobs[name]
                line = _ending(job)
                failed += job["status"] != "completed"
            if shown.get(name) != line:
                shown[name] = line
                print(f"  {time.monotonic() - began:5.1f} s  {name:<18} {line}", flush=True)
        if open_jobs:
            time.sleep(0.15)
    pages = sum(_get(f"{url}/jobs/{job_id}")["total_pages"] for job_id in jobs.values())
    print(f"  {pages} pages in {time.monotonic() - began:.1f} s\n")
    return failed


def _ending(job: dict) -> str:
    if job["status"] != "completed":
        return f"{job['status']}: {(job['error'] or {}).get('error', '')}"
    sources = ", ".join(f"{count} {source}" for source, count in job["metadata"]["sources"].items())
    return f"completed, {job['total_pages']} pages ({sources})"


def _show(url: str) -> None:
    job = next(one for one in _get(f"{url}/jobs?limit=50")["jobs"] if one["filename"] == "tables.pdf")
    request = urllib.request.Request(
        f"{url}/jobs/{job['job_id']}/result", headers={"Accept": "text/markdown"}
    )
    text = urllib.request.urlopen(request, timeout=30).read().decode()
    print("The beginning of tables.pdf as Markdown:\n")
    print("\n".join(f"    {line[:110]}" for line in text.splitlines()[:24]))
    print("\nThe same without a server:  .venv/bin/quire convert samples/tables.pdf")


def _upload(url: str, path: Path) -> str:
    boundary = "quire-demo-boundary"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n\r\n'
    body = head.encode() + path.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    request = urllib.request.Request(f"{url}/convert", data=body, headers=headers, method="POST")
    try:
        return json.load(urllib.request.urlopen(request, timeout=30))["job_id"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{path.name} was refused: {error.read().decode()}") from error


def _get(url: str) -> dict:
    return json.load(urllib.request.urlopen(url, timeout=30))


if __name__ == "__main__":
    raise SystemExit(main())
