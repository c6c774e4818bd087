"""Whether scans are read in the order of their text PDFs, on pages that are drawn from the corpus and spoilt.

    python bench/scan_order.py [--corpus ../shared/corpus] [--conditions clean,noisy,turned,photographed] [--every 1]
        [--keep FOLDER]

A page takes part if it has columns (a fifth of its lines of prose have another one beside them) and the reader of text
PDFs reaches an NID of .95 on it, against the text of the corpus. The same page is drawn at 200 dpi, spoilt, and read by
OCR. To these come pages of two and three columns that the tests draw. `--keep` stores what was recognised, so that the
layout can be measured again without OCR. The held-out quarter is that of `quality.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from PIL import Image  # noqa: E402
from rapidfuzz.distance import Indel  # noqa: E402
from tests.reading.ocr import scans, script_pages  # noqa: E402

from measuring import table  # noqa: E402
from quality import held_out, text_of  # noqa: E402
from quire.domain.element import ElementKind  # noqa: E402
from quire.reading.ocr.ocr_options import OcrOptions  # noqa: E402
from quire.reading.ocr.ocr_stages import Recognised, recognise  # noqa: E402
from quire.reading.ocr.scan_elements import lay_out_scan  # noqa: E402
from quire.reading.pdf.page_reader import ReadOptions, read_pages  # noqa: E402
from quire.reading.pdf.page_render import RenderOptions, draw_page  # noqa: E402

DPI = 200
LEAST = 0.95
SPOILERS = {
    "clean": scans.as_is,
    "noisy": scans.noisy,
    "turned": lambda picture, seed: script_pages.turned(picture, 1 + seed % 3),
    "photographed": script_pages.photographed,
}


@dataclass(frozen=True)
class KnownPage:
    name: str
    truth: str
    text_nid: float
    picture: Image.Image
    is_held_out: bool

    @property
    def seed(self) -> int:
        return int(hashlib.sha256(self.name.encode()).hexdigest()[:6], 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--conditions", default=",".join(SPOILERS))
    parser.add_argument("--every", type=int, default=1, help="take every n-th page")
    parser.add_argument("--keep", type=Path, help="a folder for what was recognised")
    asked = parser.parse_args()
    pages = [page for place, page in enumerate(_pages(asked.corpus)) if place % asked.every == 0]
    rows: list[list[str]] = []
    worst: list[tuple[float, str]] = []
    for condition in asked.conditions.split(","):
        found: list[tuple[KnownPage, float, float]] = []
        for page in pages:
            seen, work_s = _recognised(page, condition, asked.keep)
            laid = lay_out_scan(1, seen.seen, seen.rules, 72 / DPI, join_hyphens=False)
            nid = _nid(page.truth, laid.markdown)
            found.append((page, nid, work_s))
            worst.append((nid, f"{page.name}, {condition}: {nid:.3f}, text PDF {page.text_nid:.3f}"))
        for part, mine in (
            ("all", found),
            ("seen", [one for one in found if not one[0].is_held_out]),
            ("held out", [one for one in found if one[0].is_held_out]),
        ):
            nids = [nid for _, nid, _ in mine]
            rows.append(
                [
                    condition,
                    part,
                    str(len(mine)),
                    f"{_mean(nids):.3f}",
                    f"{sum(nid >= LEAST for nid in nids)}",
                    f"{_mean([page.text_nid for page, _, _ in mine]):.3f}",
                    f"{_mean([work for _, _, work in mine]):.1f}",
                ]
            )
    head = ["scans", "pages", "count", "NID", f"at least {LEAST}", "NID of the text PDF", "CPU s a page"]
    table("Order of scans", head, rows)
    print("\nThe worst:")
    print("\n".join(line for _, line in sorted(worst)[:25]))


def _pages(corpus: Path) -> Iterator[KnownPage]:
    for columns in (2, 3):
        for number in range(6):
            font, size = ("tiro", "helv")[number % 2], (9, 8)[number % 2]
            sheet = scans.sheet(number, font=font, size=size, columns=columns)
            yield KnownPage(f"{columns} columns, {number}", sheet.text, 1.0, sheet.picture, number % 4 == 0)
    for group in ("typeset", "mixed"):
        for path in sorted((corpus / group / "pdf").glob("*.pdf")):
            truth = (corpus / group / "markdown" / f"{path.stem}.md").read_text()
            options = ReadOptions(strip_running=False, join_hyphens=False)
            reading = read_pages(str(path), None, [1], options)[0]
            nid = _nid(truth, reading.markdown)
            if nid < LEAST or not _has_columns(reading.elements):
                continue
            render = RenderOptions(dpi=DPI, color="gray", max_px=6000, max_pixels=40_000_000)
            picture = draw_page(str(path), None, 1, render)
            yield KnownPage(f"{group}/{path.stem}", truth, nid, picture, held_out(path.stem))


def _has_columns(elements) -> bool:
    lines = [
        line.box
        for element in elements
        if element.kind in (ElementKind.PARAGRAPH, ElementKind.LIST_ITEM)
        for line in element.lines
    ]
    beside = sum(any(_is_beside(one, other) for other in lines) for one in lines)
    return len(lines) >= 10 and beside >= 0.2 * len(lines)


def _is_beside(one, other) -> bool:
    shared = min(one[3], other[3]) - max(one[1], other[1])
    apart = other[0] > one[2] + 5 or one[0] > other[2] + 5
    return apart and shared > 0.3 * min(one[3] - one[1], other[3] - other[1])


def _recognised(page: KnownPage, condition: str, keep: Path | None) -> tuple[Recognised, float]:
    file = keep / f"{page.name.replace('/', '__')}__{condition}.pickle" if keep else None
    if file and file.exists():
        return pickle.loads(file.read_bytes())
    before = _cpu_s()
    found = recognise(SPOILERS[condition](page.picture, page.seed), OcrOptions(dpi=DPI))
    work_s = _cpu_s() - before
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps((found, work_s)))
    return found, work_s


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _nid(truth: str, result: str) -> float:
    return float(Indel.normalized_similarity(text_of(truth), text_of(result)))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


if __name__ == "__main__":
    main()
