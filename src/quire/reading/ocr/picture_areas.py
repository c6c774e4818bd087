"""Finds the pictures of a scan: dark areas in which no line was found.

The quick reader says which regions of a page have no words; where it does not read the page, this takes its place. A
small copy shows letters as grey, photographs and drawings as dark.

Weakness: line drawings are as light as text and are not found; bold text that no reader has found looks like a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.reading.ocr.ocr_words import Box
from quire.reading.ocr.unread_ink import connected

if TYPE_CHECKING:
    from PIL import Image

_CELL_PX = 16
_DARK = 50
_LEAST_SHARE, _LEAST_FILLED = 0.01, 0.4
_NARROWEST = 0.1
"""Narrower areas, by their longer side, are rules and the shadow at the edge of a page."""


def picture_areas(page: Image.Image, words: Sequence[Box]) -> list[Box]:
    """The pictures of an upright grey page, in its pixels; `words` are the boxes of all words."""
    import numpy as np
    from PIL import Image, ImageFilter

    if min(page.size) < _CELL_PX:
        return []
    is_dark = 255 - np.asarray(page.reduce(_CELL_PX), dtype=np.int16) > _DARK
    for left, top, right, bottom in words:
        cells = [max(0, side // _CELL_PX) for side in (left, top, right, bottom)]
        is_dark[cells[1] : cells[3] + 1, cells[0] : cells[2] + 1] = False
    whole = Image.fromarray(is_dark.astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    least = _LEAST_SHARE * page.width * page.height / _CELL_PX**2
    found: list[Box] = []
    for left, top, right, bottom, area in connected(np.asarray(whole) > 0).tolist():
        width, height = right - left, bottom - top
        is_area = width * height >= least and area >= _LEAST_FILLED * width * height
        if is_area and min(width, height) >= _NARROWEST * max(width, height):
            box = (left, top, min(right, page.width // _CELL_PX), min(bottom, page.height // _CELL_PX))
            found.append((box[0] * _CELL_PX, box[1] * _CELL_PX, box[2] * _CELL_PX, box[3] * _CELL_PX))
    return found
