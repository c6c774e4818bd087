"""How often a scan with a wrong text layer is noticed, and one with a right layer kept, on drawn pages.

    python bench/layer_pages.py [--seed 1] [--pages 40]

Each page is drawn in a layout and a condition, and gets a layer that agrees with it or one that does not. `called` is
the grade of the layer: a page that is called low is read anew by OCR. Layers in scripts without an installed model can
only be compared by their places.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import pymupdf  # noqa: E402
from PIL import Image  # noqa: E402
from tests.reading.ocr import script_pages  # noqa: E402
from tests.reading.ocr.layered_scans import (  # noqa: E402
    AGREEING,
    CONDITIONS,
    CONTRADICTING,
    DPI,
    PageTexts,
    covered,
    layered,
    on_background,
    words_of,
)

from measuring import table  # noqa: E402
from quire.domain.page import Grade, PageClass  # noqa: E402
from quire.reading.files.document_source import open_documents  # noqa: E402
from quire.reading.files.page_chunks import read_chunk  # noqa: E402
from quire.reading.layer_verdict import graded_layer  # noqa: E402
from quire.reading.local_reader import needs_evidence  # noqa: E402
from quire.reading.ocr.layer_witness import LayerEvidence, layer_evidence  # noqa: E402
from quire.reading.ocr.ocr_options import OcrOptions  # noqa: E402
from quire.reading.pdf.page_reader import ReadOptions  # noqa: E402

LAYOUTS = ("prose", "columns", "table", "letter", "picture", "sparse")
SCRIPTS = ("cyrillic", "chinese", "arabic", "devanagari", "greek")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument(
        "--wrong", action="store_true", help="list pages that are called otherwise than they are"
    )
    asked = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.pages):
            for kind, name, made in _cases(asked.seed, number):
                path = str(Path(folder) / "page.pdf")
                made.save(path)
                made.close()
                open_documents().forget()
                called, seconds, evidence = _called(path)
                counts[kind, name, called] += 1
                if seconds:
                    costs.append(seconds)
                is_wrong = (kind == "agrees" and called == "low") or (kind == "differs" and called != "low")
                if asked.wrong and is_wrong:
                    print(f"{asked.seed}-{number}: {name} called {called}, {evidence}")
    names = sorted({(kind, name) for kind, name, _ in counts})
    rows = [
        [kind, name, *(str(counts[kind, name, grade]) for grade in ("good", "fair", "low"))]
        for kind, name in names
    ]
    table(f"Text layers of drawn scans, seed {asked.seed}", ["layer", "what", "good", "fair", "low"], rows)
    costs.sort()
    if costs:
        print(
            f"\nThe comparison took {1000 * costs[len(costs) // 2]:.0f} ms of CPU a page (median of {len(costs)})."
        )


def _cases(seed: int, number: int):
    chance = random.Random(f"{seed} {number}")
    layout, condition = LAYOUTS[number % len(LAYOUTS)], chance.choice(tuple(CONDITIONS))
    own = script_pages.script_document("latin", layout, seed * 1000 + number)
    other = script_pages.script_document("latin", layout, seed * 1000 + number + 500)
    texts = PageTexts(words_of(own), words_of(other))
    picture = CONDITIONS[condition](_picture(own), number)
    for kind, changes in (("agrees", AGREEING), ("differs", CONTRADICTING)):
        name = chance.choice(tuple(changes))
        yield kind, name, layered(picture, changes[name](texts, chance))
    script = SCRIPTS[number % len(SCRIPTS)]
    foreign = script_pages.script_document(script, layout, seed * 1000 + number)
    picture = CONDITIONS[condition](_picture(foreign), number)
    yield "agrees", f"{script}, covered", covered(picture, foreign)
    shades = Image.effect_noise((600, 800), 60).resize((1240, 1754))
    yield "shown", "text on a background", on_background(shades, own)


def _picture(document: pymupdf.Document) -> Image.Image:
    pixels = document[0].get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def _called(path: str) -> tuple[str, float, LayerEvidence | None]:
    """The grade of the page's layer, and the CPU seconds of the comparison; 0 for a page that was not compared."""
    chunk = read_chunk(path, None, [1], ReadOptions(), False)
    page, seconds, found = chunk.pages[0], 0.0, None
    if needs_evidence(page):
        before = _cpu_s()
        found = layer_evidence(path, None, 1, OcrOptions())
        page = graded_layer(page, chunk.block, found)
        seconds = _cpu_s() - before
    is_read_anew = page.page_class in (PageClass.SCANNED, PageClass.GARBLED) or page.grade is None
    return (Grade.LOW if is_read_anew else page.grade).value, seconds, found


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
