"""Errors and work of local OCR on pages of known text, spoilt in several ways.

    python bench/ocr.py [--pages 3] [--conditions clean,noisy,…]

Five readers see the same pictures, one after the other: Tesseract alone as it comes, RapidOCR alone with its wheel's
own settings (without the angle classifier, one thread), RapidOCR as Quire sets it up on every page, and what Quire
does with `READING_EFFORT=fast` and as it comes. CER is the edits needed for each hundred characters, over texts with
single spaces; CPU is the seconds a page takes in this process and Tesseract's together, models already loaded.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402
from tests.reading.ocr import scans  # noqa: E402

from measuring import table  # noqa: E402
from quire.reading.ocr import quick_reader  # noqa: E402
from quire.reading.ocr.ocr_options import AUTO, CAREFUL, QUICK, OcrOptions  # noqa: E402
from quire.reading.ocr.ocr_stages import recognise  # noqa: E402
from quire.reading.ocr.scan_elements import lay_out_scan  # noqa: E402
from quire.reading.pdf.drawn_rules import Rules  # noqa: E402

# Font, size, dots per inch, columns.
PAGES = [
    ("tiro", 11, 200, 1),
    ("helv", 10, 150, 1),
    ("cour", 11, 200, 1),
    ("tiro", 9, 200, 2),
    ("hebo", 12, 150, 1),
    ("helv", 8, 200, 1),
]

Reader = Callable[[Image.Image, int], tuple[str, str]]


def cpu_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def tesseract_alone(picture: Image.Image, dpi: int) -> tuple[str, str]:
    seen = quick_reader.read(picture, quick_reader.TesseractModels(), dpi).without_noise()
    return lay_out_scan(1, seen, Rules(), 72 / dpi).markdown, "tesseract"


def rapidocr_alone() -> Reader:
    from rapidocr import RapidOCR

    engine = RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )

    def read(picture: Image.Image, dpi: int) -> tuple[str, str]:
        found = engine(np.asarray(picture.convert("RGB")), use_cls=False)
        return "\n".join(found.txts or ()), "rapidocr"

    return read


def quire(mode: str) -> Reader:
    def read(picture: Image.Image, dpi: int) -> tuple[str, str]:
        found = recognise(picture, OcrOptions(dpi=dpi, mode=mode))
        return lay_out_scan(1, found.seen, found.rules, 72 / dpi).markdown, found.reader

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=4, help=f"pages of each kind, up to {len(PAGES)}")
    parser.add_argument("--conditions", default=",".join(scans.SPOILERS).replace(", ", ";"))
    asked = parser.parse_args()
    readers = {
        "tesseract alone": tesseract_alone,
        "rapidocr alone": rapidocr_alone(),
        "careful": quire(CAREFUL),
        "fast": quire(QUICK),
        "quire": quire(AUTO),
    }
    warm = scans.noisy(scans.sheet(99, filled=0.2).picture, 99)
    for read in readers.values():
        read(warm, 200)
    rows: list[list[str]] = []
    for condition in asked.conditions.split(","):
        name = condition.replace(";", ", ")
        errors: dict[str, list[float]] = {reader: [] for reader in readers}
        work: dict[str, list[float]] = {reader: [] for reader in readers}
        used: Counter[str] = Counter()
        for number, (font, size, dpi, columns) in enumerate(PAGES[: asked.pages]):
            sheet = scans.sheet(number, font=font, size=size, dpi=dpi, columns=columns)
            picture = scans.SPOILERS[name](sheet.picture, number)
            for reader, read in readers.items():
                before = cpu_s()
                text, by = read(picture, dpi)
                work[reader].append(cpu_s() - before)
                errors[reader].append(100 * scans.error_rate(text, sheet.text))
                used[by] += reader == "quire"
        row = [name]
        for reader in readers:
            row += [
                f"{statistics.mean(errors[reader]):.2f}",
                f"{max(errors[reader]):.2f}",
                f"{statistics.mean(work[reader]):.1f}",
            ]
        ours = statistics.mean(work["quire"])
        row += [
            f"{statistics.mean(work['rapidocr alone']) / ours:.1f} ×",
            f"{statistics.mean(work['careful']) / ours:.1f} ×",
            ", ".join(f"{by} {count}" for by, count in (+used).items()),
        ]
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    head = ["page"]
    for reader in readers:
        head += [f"{reader}: CER %", "worst", "CPU s"]
    table("OCR", [*head, "rapidocr alone ÷ quire", "careful ÷ quire", "read by"], rows)
    print(f"\nPeak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
