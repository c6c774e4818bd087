"""Words of Hebrew and Arabic that the layout reader gives in the order of their places, last letter first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine

_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+")
"""Runs of letters that are written from right to left."""


def turned(run: str) -> str:
    """The run with its letters in the other order if it is written from right to left, else as it is."""
    return run[::-1] if _LEFTWARD.match(run) else run


def with_words_forwards(blocks: Sequence[LayoutBlock], lines: Sequence[TextLine]) -> list[LayoutBlock]:
    """The blocks with the cells of tables in the order in which MuPDF has their words.

    What looks like code in these scripts is prose: its lines have the right order, and code would be shown as it is.
    """
    known = {run for line in lines for run in _LEFTWARD.findall(line.text)}
    return [_forwards(block, known) for block in blocks] if known else list(blocks)


def _forwards(block: LayoutBlock, known: set[str]) -> LayoutBlock:
    if block.kind == "code" and any(map(_LEFTWARD.search, block.lines)):
        return LayoutBlock("paragraph", block.box, " ".join(block.lines))
    if block.kind != "table":
        return block

    def corrected(found: re.Match[str]) -> str:
        run = found[0]
        return run[::-1] if run not in known and run[::-1] in known else run

    return replace(
        block, rows=tuple(tuple(_LEFTWARD.sub(corrected, cell) for cell in row) for row in block.rows)
    )
