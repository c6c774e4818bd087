"""Memory of the service: after 20 documents and after 200, and while it takes a 500-MB PDF."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

from measuring import Service, scratch, service, table, text_pdf

MB = 1 << 20


def big_pdf(path: Path, megabytes: int) -> Path:
    """One page of text and one uncompressed grey picture of a megabyte, as often as asked for."""
    pages = megabytes
    noise = bytes(range(256)) * (MB // 256)
    offsets: list[int] = []
    with path.open("wb") as file:

        def add(body: bytes, stream: bytes | None = None) -> None:
            offsets.append(file.tell())
            file.write(b"%d 0 obj\n" % len(offsets) + body)
            if stream is not None:
                file.write(b"\nstream\n" + stream + b"\nendstream")
            file.write(b"\nendobj\n")

        file.write(b"%PDF-1.7\n")
        kids = b" ".join(b"%d 0 R" % (4 + 3 * page) for page in range(pages))
        add(b"<< /Type /Catalog /Pages 2 0 R >>")
        add(b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, kids))
        add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
        for page in range(pages):
            first = 4 + 3 * page
            add(
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
                b"/Resources << /Font << /F 3 0 R >> /XObject << /I %d 0 R >> >> >>" % (first + 1, first + 2)
            )
            words = (
                b"BT /F 11 Tf 72 720 Td (Page %d of a heavy document, with words enough to be text.) Tj ET"
                % (page + 1)
            )
            content = words + b" q 60 0 0 60 72 600 cm /I Do Q"
            add(b"<< /Length %d >>" % len(content), content)
            add(
                b"<< /Type /XObject /Subtype /Image /Width 1024 /Height 1024 /ColorSpace /DeviceGray "
                b"/BitsPerComponent 8 /Length %d >>" % MB,
                noise,
            )
        start = file.tell()
        file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1))
        file.write(b"".join(b"%010d 00000 n \n" % offset for offset in offsets))
        file.write(
            b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(offsets) + 1, start)
        )
    return path


class Peak:
    """The highest memory seen while something runs."""

    def __init__(self, running: Service) -> None:
        self._running = running
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.service = self.tree = 0.0

    def _watch(self) -> None:
        while not self._stop.is_set():
            now = self._running.rss_mb()
            self.service, self.tree = max(self.service, now["service"]), max(self.tree, now["tree"])
            self._stop.wait(0.05)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--documents", type=int, default=200)
    options.add_argument("--megabytes", type=int, default=500)
    chosen = options.parse_args()
    with scratch() as folder:
        _many(folder, chosen.documents)
        _big(folder, chosen.megabytes)


def _many(folder: Path, documents: int) -> None:
    path = text_pdf(folder, 20)
    with service(folder) as running:
        rows = []
        for count in range(1, documents + 1):
            running.upload(path)
            if count in (documents // 10, documents // 2, documents):
                time.sleep(0.5)
                now = running.rss_mb()
                rows.append([str(count), now["service"], now["tree"]])
        first = rows[0]
        shown = [
            [row[0], f"{row[1]:.1f}", f"{row[1] / first[1]:.3f}", f"{row[2]:.1f}", f"{row[2] / first[2]:.3f}"]
            for row in rows
        ]
    table(
        "Memory after documents of 20 pages",
        ["documents", "service, MB", "ratio", "whole tree, MB", "ratio"],
        shown,
    )


def _big(folder: Path, megabytes: int) -> None:
    path = big_pdf(folder / "big.pdf", megabytes)
    with service(folder, OCR_ENABLED="false", MAX_UPLOAD_MB="2048") as running:
        running.upload(text_pdf(folder, 20))
        before = running.rss_mb()
        began = time.monotonic()
        with Peak(running) as peak:
            job = running.upload(path)
        wall = time.monotonic() - began
    pages = job["result"]["metadata"]["pages"]
    rows = [
        _difference("service process", before["service"], peak.service),
        _difference("whole tree (shared memory counted once)", before["tree"], peak.tree),
    ]
    table(
        f"A PDF of {path.stat().st_size / MB:.0f} MB, {pages} pages, in {wall:.1f} s",
        ["", "before, MB", "peak, MB", "difference"],
        rows,
    )


def _difference(name: str, before: float, peak: float) -> list[str]:
    return [name, f"{before:.0f}", f"{peak:.0f}", f"{peak - before:+.0f}"]


if __name__ == "__main__":
    main()
