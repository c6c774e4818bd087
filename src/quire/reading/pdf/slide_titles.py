"""The title of a slide that has no other text: there is no type of the text to compare it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.reading.pdf.block_matching import FilledBlock

_LANDSCAPE = 1.15
_LARGE = 1 / 32
"""Of the page's height: larger than the text of a page that is read from a sheet of paper."""
_UPPER = 0.5
_MOST_LINES = 2


def with_slide_title(filled: Sequence[FilledBlock], size: tuple[float, float]) -> Sequence[FilledBlock]:
    """The blocks of a page; the only one of a landscape page is a heading if it is large and in the upper half."""
    if len(filled) != 1 or filled[0].block.kind != "paragraph":
        return filled
    (item,), (width, height) = filled, size
    if width < _LANDSCAPE * height or not 0 < len(item.lines) <= _MOST_LINES:
        return filled
    is_title = all(line.upright and line.size >= _LARGE * height for line in item.lines)
    if not is_title or item.lines[0].box[1] > _UPPER * height:
        return filled
    return [FilledBlock(replace(item.block, kind="heading"), item.lines)]
