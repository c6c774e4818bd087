"""How often turned pages are made upright, and how often upright ones are turned, in six scripts.

    python bench/orientation.py [--seed 1] [--every 1] [--scripts latin,arabic]

Six scripts × six layouts × five conditions are drawn with the fonts inside MuPDF, each upright and turned by one, two
and three quarters: 540 turned pages and 180 upright ones. `--every 4` takes a quarter of them. CPU is what the whole
measurement of a page's posture takes; the model's part of it is given beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from tests.reading.ocr import script_pages  # noqa: E402

from measuring import table  # noqa: E402
from quire.reading.ocr.ink_lines import small_copy  # noqa: E402
from quire.reading.ocr.page_orientation import orientation_of  # noqa: E402
from quire.reading.ocr.page_posture import posture_of  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="take every n-th page")
    parser.add_argument("--scripts", default=",".join(script_pages.SENTENCES))
    asked = parser.parse_args()
    right: defaultdict[tuple[str, bool], list[bool]] = defaultdict(list)
    work_s = model_s = 0.0
    wrong: list[str] = []
    count = 0
    for script in asked.scripts.split(","):
        for layout in script_pages.LAYOUTS:
            page = script_pages.script_page(script, layout, asked.seed)
            for place, (condition, spoil) in enumerate(script_pages.CONDITIONS.items()):
                count += 1
                if count % asked.every:
                    continue
                spoilt = spoil(page, asked.seed + place)
                for quarters in range(4):
                    picture = script_pages.turned(spoilt, quarters)
                    before = time.process_time()
                    found = posture_of(picture)
                    work_s += time.process_time() - before
                    if not quarters:
                        small = small_copy(picture)
                        before = time.process_time()
                        orientation_of(small)
                        model_s += 4 * (time.process_time() - before)
                    is_right = (found.turns + quarters) % 4 == 0
                    for group in (script, layout, condition, "all"):
                        right[group, quarters > 0].append(is_right)
                    if not is_right:
                        wrong.append(f"{script}, {layout}, {condition}, turned by {quarters}: {found.turns}")
        turned, upright = right[script, True], right[script, False]
        print(
            f"{script}: {sum(turned)} of {len(turned)} turned pages right, {sum(upright)} of {len(upright)} upright",
            file=sys.stderr,
            flush=True,
        )
    groups = [*script_pages.SENTENCES, *script_pages.LAYOUTS, *script_pages.CONDITIONS, "all"]
    rows = [
        [group, *_share(right[group, True]), *_share(right[group, False])]
        for group in groups
        if (group, True) in right
    ]
    table("Orientation", ["pages", "turned", "right %", "upright", "left as they were %"], rows)
    pages = sum(map(len, (right["all", True], right["all", False])))
    print(f"\nCPU a page: {1000 * work_s / pages:.0f} ms, of which the model {1000 * model_s / pages:.1f} ms")
    print("\n".join(["Wrong:", *wrong]) if wrong else "None wrong.")


def _share(found: list[bool]) -> list[str]:
    return [str(len(found)), f"{100 * sum(found) / max(1, len(found)):.2f}"]


if __name__ == "__main__":
    main()
