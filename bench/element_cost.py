"""What elements cost: CPU time and stored bytes of the same chunks, by this checkout and by one from before elements.

    python bench/element_cost.py --base CHECKOUT [--base-python PYTHON] [--rounds 7]

Two processes, one for each checkout, read the same documents in turns, so a busy machine hurts both alike. CPU time is
the process's own. The documents: a generated text PDF, and every third document of the corpus that is not held out.
Stored bytes are those of a chunk's block: Markdown alone before, Markdown and elements now.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from measuring import ROOT, median, scratch, table, text_pdf
from quality import held_out

CHUNK = 16
READER = """
import json, sys, time
try:
    from quire.reading.pool import warm_imports
    from quire.reading.files.page_chunks import read_chunk
    from quire.reading.files.document_source import inspect
    from quire.reading.pdf.page_reader import ReadOptions
except ImportError:
    from quire.reading import warm
    from quire.reading.chunks import read_chunk
    from quire.reading.document import inspect
    from quire.reading.pages import ReadOptions
for line in sys.stdin:
    path, most = json.loads(line)
    count = min(most, inspect(path, None, 1_000_000).page_count)
    began = time.process_time()
    markdown = stored = 0
    for first in range(1, count + 1, 16):
        chunk = read_chunk(path, None, tuple(range(first, min(first + 16, count + 1))), ReadOptions(), False)
        markdown += sum(page.length for page in chunk.pages)
        stored += len(chunk.block)
    print(json.dumps([count, time.process_time() - began, markdown, stored]), flush=True)
"""


class Side:
    """A process that reads documents with the Quire of one checkout."""

    def __init__(self, python: Path, checkout: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), "-c", READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        )

    def read(self, path: Path, most: int) -> tuple[int, float, int, int]:
        """Pages read, CPU seconds, bytes of Markdown, bytes stored."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(path), most]) + "\n")
        self._process.stdin.flush()
        count, cpu_s, markdown, stored = json.loads(self._process.stdout.readline())
        return count, cpu_s, markdown, stored

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def documents(corpus: Path) -> list[Path]:
    found: list[Path] = []
    for name in ("typeset", "mixed", "tables"):
        seen = [path for path in sorted((corpus / name / "pdf").glob("*.pdf")) if not held_out(path.stem)]
        found += seen[::3]
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--base", type=Path, required=True)
    options.add_argument("--base-python", type=Path, default=Path(sys.executable))
    options.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--pages", type=int, default=128)
    chosen = options.parse_args()
    sides = {"base": Side(chosen.base_python, chosen.base), "this": Side(Path(sys.executable), ROOT)}
    rows: list[list[str]] = []
    try:
        with scratch() as folder:
            groups = {"text PDF": [text_pdf(folder, chosen.pages)], "corpus": documents(chosen.corpus)}
            for name, paths in groups.items():
                rows += _measured(name, paths, sides, chosen.rounds)
    finally:
        for side in sides.values():
            side.close()
    table(
        f"Elements, median of {chosen.rounds} rounds (after one to warm up)",
        ["", "", "pages", "ms CPU a page", "of base, by round", "stored bytes of base's Markdown"],
        rows,
    )


def _measured(name: str, paths: list[Path], sides: dict[str, Side], rounds: int) -> list[list[str]]:
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    pages, size = 0, dict.fromkeys(sides, 0)
    markdown = 1
    for round_ in range(rounds + 1):
        totals = dict.fromkeys(sides, 0.0)
        pages, size, markdown = 0, dict.fromkeys(sides, 0), 0
        order = list(sides) if round_ % 2 else list(sides)[::-1]
        for path in paths:
            for side in order:
                count, cpu_s, text, stored = sides[side].read(path, 1000)
                totals[side] += cpu_s
                size[side] += stored
                if side == "base":
                    pages += count
                    markdown += text
        if round_:
            for side in sides:
                cpu[side].append(totals[side])
    ratios = sorted(b / a for a, b in zip(cpu["base"], cpu["this"], strict=True))
    spread = f"{median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f})"
    return [
        [
            name,
            side,
            str(pages),
            f"{1000 * median(cpu[side]) / pages:.2f}",
            spread if side == "this" else "1",
            f"{size[side] / markdown:.2f}",
        ]
        for side in sides
    ]


if __name__ == "__main__":
    main()
