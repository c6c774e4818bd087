"""Writes the data directory of an earlier version, to be kept as a test's data: PYTHON OUT SOURCE_OF_THAT_VERSION.

python -m tests.operations.write_release_data tests/operations/data/release-edf7f5c.tar.gz OLD/src
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

_LEFT_OUT = ("scratch", "owner.lock", "valkey.sock", "valkey.log", "socket", "server.lock", "catalog.db.lock")
NOTE = "# Minutes of the zeppelin club\n\nNinety-nine balloons were counted.\n"


def _pdf() -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, invariant=1)
    for text in ("The first page of an old release", "The second page of an old release"):
        canvas.drawString(72, 720, text)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def _upload(url: str, name: str, data: bytes) -> Any:
    mark = "limit-of-the-parts"
    head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{mark}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.loads(answer.read())


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: bytes = answer.read()
        return found


def _until(url: str, *wanted: str) -> Any:
    for _ in range(600):
        found = json.loads(_get(url))
        if found["status"] in wanted:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{url} did not end")


def main(out: Path, source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        # Records must not expire in the archive.
        settings = {"DATA_DIR": str(data), "PORT": "0", "JOB_TTL": "3650d", "PYTHONPATH": source}
        process = subprocess.Popen(
            [sys.executable, "-m", "quire", "serve"],
            env={"PATH": os.environ["PATH"], "HOME": folder, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        job = _upload(f"{url}/convert", "old.pdf", _pdf())["job_id"]
        _until(f"{url}/jobs/{job}", "completed")
        document = _upload(f"{url}/documents", "minutes.md", NOTE.encode())
        document_id = document["documents"][0]["document_id"]
        _until(f"{url}/documents/{document_id}", "completed")
        text = _get(f"{url}/jobs/{job}/result?format=md").decode()
        process.terminate()
        assert process.wait(60) == 0
        (data / "release.json").write_text(json.dumps({"job": job, "document": document_id, "text": text}))
        with tarfile.open(out, "w:gz", compresslevel=9) as archive:
            archive.add(data, "data", filter=lambda one: None if Path(one.name).name in _LEFT_OUT else one)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
