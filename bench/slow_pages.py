"""Lists the pages of the corpus that take the most CPU, read as the service does with `balanced` and without AI.

    python bench/slow_pages.py [--corpus ../shared/corpus] [--sets scans,wild] [--over 5] [--pages 40]

Each document is read in a process of its own, page by page, after a first scan has loaded the models. A page that takes
longer than its time limit in the service is stopped there and shown as `stopped`. The time by the clock, beside the
CPU, says something on a quiet machine only; it is the shorter one where two threads share a page.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tests.reading.ocr import scans  # noqa: E402

from quire.domain.page import PageClass  # noqa: E402
from quire.errors import QuireError  # noqa: E402
from quire.reading.files.document_source import inspect  # noqa: E402
from quire.reading.files.page_chunks import read_chunk  # noqa: E402
from quire.reading.local_reader import class_for_route  # noqa: E402
from quire.reading.ocr.ocr_options import CAREFUL  # noqa: E402
from quire.reading.ocr.ocr_stages import recognise  # noqa: E402
from quire.reading.ocr.page_ocr import OcrOptions, reads_script_of, recognise_page  # noqa: E402
from quire.reading.pdf.page_reader import ReadOptions  # noqa: E402

SETS = ("typeset", "mixed", "tables", "wild", "office", "scans", "gnarly", "odd")
STOPPED_S = 60

Page = tuple[str, int, float, float, str]


def cpu_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def timed_pages(path: str, most: int) -> Iterator[tuple[int, float, float, str]]:
    """The CPU seconds of each page, those by the clock, and how it was read."""
    try:
        count = inspect(path, None, 1_000_000).page_count
    except QuireError as error:
        yield 0, 0.0, 0.0, error.code
        return
    for number in range(1, min(count, most) + 1):
        started, began = cpu_s(), time.monotonic()
        try:
            how = _read(path, number)
        except QuireError as error:
            how = error.code
        yield number, cpu_s() - started, time.monotonic() - began, how


def _read(path: str, number: int) -> str:
    chunk = read_chunk(path, None, [number], ReadOptions(), quick=False)
    (page,) = chunk.pages
    is_unread = page.page_class is PageClass.SCANNED or not page.has_text
    text = chunk.block[page.offset : page.offset + page.length].decode()
    may_be_better = is_unread or reads_script_of(text, OcrOptions())
    if class_for_route(page) in (PageClass.SCANNED, PageClass.GARBLED) and may_be_better:
        (page,) = recognise_page(path, None, number, OcrOptions()).pages
    return page.reader


def document(task: tuple[str, int]) -> list[Page]:
    path, most = task
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        for found in timed_pages(path, most):
            sender.send(found)
        os._exit(0)
    sender.close()
    found: list[Page] = []
    try:
        while receiver.poll(STOPPED_S):
            found.append((path, *receiver.recv()))
    except EOFError:
        os.waitpid(child, 0)
        return found
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return [*found, (path, len(found) + 1, float(STOPPED_S), float(STOPPED_S), "stopped")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--over", type=float, default=5.0)
    parser.add_argument("--pages", type=int, default=40, help="of each document, at most")
    chosen = parser.parse_args()
    sheet = scans.sheet(7, filled=0.1)
    recognise(sheet.picture, OcrOptions(mode=CAREFUL))
    all_pages: list[Page] = []
    for group in chosen.sets.split(","):
        files = [file for file in sorted((chosen.corpus / group).rglob("*")) if file.is_file()]
        pages = [
            page for file in files if file.suffix != ".md" for page in document((str(file), chosen.pages))
        ]
        total, slow = sum(page[2] for page in pages), [page for page in pages if page[2] > chosen.over]
        print(
            f"{group:<8} {len(pages):>5} pages {total:>7.1f} s, over {chosen.over:g} s: {len(slow)}",
            flush=True,
        )
        all_pages += pages
    for path, number, used, clock, how in sorted(all_pages, key=lambda page: -page[2]):
        if used > chosen.over:
            print(
                f"{used:>7.1f} s CPU {clock:>6.1f} s clock  {Path(path).relative_to(chosen.corpus)} {number} ({how})"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
