"""Reads PDFs with PyMuPDF's layout model, for `bench/quality.py`: a process of its own, in an environment of its own.

    PYTHON bench/peer_layout.py < paths

Quire installs `pymupdf-lite`, which has no layout model, and the two can't be in one environment. So PYTHON is one with
the package `pymupdf`. For each path (a line of the input) a line of JSON is written: Markdown, pages, seconds of CPU.
Importing and loading the model is no part of them.
"""

import json
import os
import sys
import time


def read(path: str) -> tuple[str, int]:
    import pymupdf

    with pymupdf.open(path) as document:
        return document.to_markdown(show_progress=False, use_ocr=False), document.page_count


def main() -> int:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what the library prints is no part of the answer
    import pymupdf

    with pymupdf.open() as warm:
        warm.new_page().insert_text((72, 72), "Once, so that the model is loaded.")
        warm.to_markdown(show_progress=False, use_ocr=False)
    for line in sys.stdin:
        started = time.process_time()
        try:
            markdown, pages = read(line.strip())
        except Exception as error:
            print(f"layout {line.strip()}: {type(error).__name__}: {error}", file=sys.stderr)
            markdown, pages = "", 1
        answer = {"markdown": markdown, "pages": pages, "cpu_s": time.process_time() - started}
        print(json.dumps(answer), file=out, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
