"""Estimates how much of a page is text so faint that only specks are left of it, as on a copy of a copy.

Dust and grain are as likely at every height; what is left of lines of text is in rows, about as tall as the type, with
hardly anything between them. Only heights without a recognised word are looked at, and light specks in dark boxes, in
the picture as it was read: a smaller copy has lost the specks. Pictures are taller than a line, what is left of rules
is flat, and rows of dots have like gaps, so none of these counts.

Weakness: faint text beside words, at their height, is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ocr_words import Box
from quire.reading.ocr.unread_ink import connected

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_MOST_GRAIN = 8.0
_INK = 0.6
"""Of the light of the paper: what is darker is ink."""
_LEAST_FREE = 0.15
"""Of the height of the page: with less of it free of words there is no room for much faint text."""
_CELL_PX, _AROUND_CELLS, _GROUND, _LEAST_GROUND = 8, 4, 0.25, 0.01
_ROWS_SHARE = 0.5
"""Of the light specks of dark areas: with fewer in rows they are the texture of a picture."""
_AROUND_WORD, _BIN, _MOST_SIZE, _LEAST_AREA = 0.5, 0.2, 0.6, 2
_LEAST_IN_BIN, _DUST = 4.0, 3.0
_MOST_BINS = 9
_RULE_PX, _RULE_SHARE = 1.0, 0.9
_DOTS_PX, _DOTS_SHARE = 2.0, 0.7
_SAME_GAP, _MOST_LOST = 0.2, 5
_LEAST_ROWS, _LEAST_SPECKS = 3, 40
_SPECKS_OF_LETTER = 3.0


def faint_share(picture: Image.Image, noise: float, words: Sequence[Box], letters: int) -> float:
    """The share of the letters of an upright grey page that are only specks; `letters` have been read.

    `noise` is the grain of the picture. It is 0 for a page without words, or one that is too grainy to tell.
    """
    import numpy as np

    if not words or noise > _MOST_GRAIN:
        return 0.0
    type_px = float(np.median([bottom - top for _, top, _, bottom in words]))
    is_free = _is_free(words, picture.height, type_px)
    pixels, bin_px = np.asarray(picture), max(4.0, _BIN * type_px)
    paper = float(np.median(pixels[::4, ::4]))
    found = 0
    if np.count_nonzero(is_free) >= _LEAST_FREE * picture.height:
        ink = pixels < _INK * paper
        ink[~is_free] = False
        found = _in_rows(_specks(ink, type_px), is_free, bin_px)
    ground = _dark_ground(picture, paper)
    if np.count_nonzero(ground) >= _LEAST_GROUND * ground.size:
        light = (
            (pixels > _INK * paper)
            & ground
            & _is_free(_inside(words, ground), picture.height, type_px)[:, None]
        )
        specks = _specks(light, type_px)
        in_rows = _in_rows(specks, ground.any(axis=1), bin_px)
        found += len(specks) if in_rows >= max(1, _ROWS_SHARE * len(specks)) else 0
    lost = found / _SPECKS_OF_LETTER
    return lost / (lost + letters) if found >= _LEAST_SPECKS else 0.0


def _is_free(words: Sequence[Box], height: int, type_px: float) -> Pixels:
    """Whether no word is at each height of a page, or close above or below it."""
    import numpy as np

    found = np.ones(height, dtype=bool)
    around = _AROUND_WORD * type_px
    for _, top, _, bottom in words:
        found[max(0, int(top - around)) : int(bottom + around) + 1] = False
    return found


def _dark_ground(picture: Image.Image, paper: float) -> Pixels:
    """Where a page is dark over more than the height of a line, as in a box with light text."""
    import numpy as np
    from PIL import ImageFilter

    small = picture.reduce(_CELL_PX).filter(ImageFilter.BoxBlur(_AROUND_CELLS))
    dark = np.asarray(small) < _GROUND * paper
    wide = np.repeat(np.repeat(dark, _CELL_PX, axis=0), _CELL_PX, axis=1)
    return wide[: picture.height, : picture.width]


def _inside(words: Sequence[Box], ground: Pixels) -> list[Box]:
    """The words whose middle is on dark ground."""
    rows, columns = ground.shape
    return [
        box
        for box in words
        if ground[min(rows - 1, (box[1] + box[3]) // 2), min(columns - 1, (box[0] + box[2]) // 2)]
    ]


def _specks(mask: Pixels, type_px: float) -> Pixels:
    """The shapes of a mask that are smaller than letters and larger than one pixel."""
    import numpy as np

    shapes = connected(mask)
    size = np.maximum(shapes[:, 2] - shapes[:, 0], shapes[:, 3] - shapes[:, 1])
    return shapes[(size < _MOST_SIZE * type_px) & (shapes[:, 4] >= _LEAST_AREA)]


def _in_rows(specks: Pixels, is_free: Pixels, bin_px: float) -> int:
    """How many specks are in rows of text; 0 where there are only one or two rows."""
    import numpy as np

    if len(specks) < _LEAST_SPECKS:
        return 0
    specks = specks[np.argsort(specks[:, 1] + specks[:, 3])]
    heights = (specks[:, 1] + specks[:, 3]) / 2
    places = (heights / bin_px).astype(np.int64)
    counts = np.bincount(places, minlength=int(len(is_free) / bin_px) + 1)
    free = is_free[np.minimum((np.arange(len(counts)) * bin_px).astype(np.int64), len(is_free) - 1)]
    dust = float(np.percentile(counts[free], 25)) if free.any() else 0.0
    full = np.concatenate(([False], counts > _LEAST_IN_BIN + _DUST * dust, [False]))
    edges = np.nonzero(np.diff(full.astype(np.int8)))[0]
    rows = found = 0
    for first, after in zip(edges[::2], edges[1::2], strict=True):
        mine = slice(*np.searchsorted(places, (first, after)))
        if after - first <= _MOST_BINS and not _is_drawn(heights[mine], specks[mine, 0]):
            rows, found = rows + 1, found + mine.stop - mine.start
    return int(found) if rows >= _LEAST_ROWS else 0


def _is_drawn(heights: Pixels, lefts: Pixels) -> bool:
    """Whether specks are what is left of a rule, at one height, or a row of dots, some of which may be lost."""
    import numpy as np

    away = np.abs(heights - np.median(heights))
    if np.count_nonzero(away <= _RULE_PX) >= _RULE_SHARE * len(away):
        return True
    if np.count_nonzero(away <= _DOTS_PX) < _DOTS_SHARE * len(away):
        return False
    gaps = np.diff(np.sort(lefts))
    steps = gaps / max(1.0, float(np.median(gaps)))
    steps = steps[steps < _MOST_LOST + 0.5]
    like = np.abs(steps - np.maximum(1.0, np.round(steps))) <= _SAME_GAP
    return bool(np.count_nonzero(like) >= _DOTS_SHARE * len(steps))
