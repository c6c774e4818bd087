"""Counts the letters of a page that no recognised word covers.

Letters are dark (or, in dark areas, light) connected shapes of the size that the shapes inside the words have. Outside
of the words such a shape counts only beside another one of its height on the same line, so specks, bullets and rules
don't; nor do shapes among many specks, as in the texture of a picture. A page with many more specks than letters, in
rows, has text too faint to be read. Regions that a reader calls empty or a picture count like all others.

Weakness: letters that touch rules or each other over a whole line are not seen as letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ink_lines import ink_runs
from quire.reading.ocr.ocr_words import Box

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_LONG_SIDE_PX = 1700
_GRAINY = 8.0
_AROUND_PX = 14
_LEAST_DEPTH, _DEPTH_SHARE = 20.0, 0.4
_DARK_GROUND = 120.0
_LEAST_SHAPE_PX, _MOST_RUNS = 3, 400_000
_SHORTEST, _TALLEST, _WIDEST = 0.3, 2.2, 5.0
_LEAST_FILLED = 0.08
_NEXT_LETTER, _LEVEL = 1.2, 0.35
_MARGIN = 0.35
_CELL, _SPECKS, _GRAINY_SHARE = 4.0, 0.5, 0.1
_MANY_SPECKS, _FEW_LETTERS = 2.0, 50
_ROW_PX, _UNEVEN = 4, 3.0
_TOUCHING_TALL, _TOUCHING_WIDE = 0.5, 2.0
_FAINT = 0.5
"""How much of a page counts as unread where most of its shapes are rows of specks."""


@dataclass(frozen=True, slots=True)
class PageShapes:
    """The connected shapes of ink of an upright grey page, looked for once and counted against any words."""

    shapes: Pixels
    ratio: float
    width: int
    _known: dict[tuple[Box, ...], float] = field(default_factory=dict, compare=False, repr=False)
    """The answers so far: the words of a reading are asked about several times."""

    @classmethod
    def of(cls, picture: Image.Image, noise: float) -> PageShapes:
        """`noise` is the grain of the picture."""
        ratio = max(1.0, max(picture.size) / _LONG_SIDE_PX)
        small = (
            picture
            if ratio == 1.0
            else picture.resize(
                (round(picture.width / ratio), round(picture.height / ratio)), reducing_gap=2.0
            )
        )
        return cls(_shapes(small, noise), ratio, small.width)

    def unread_share(self, words: Sequence[Box]) -> float:
        """The share of the letters that are in none of the boxes; 0 where no letters are seen."""
        key = tuple(words)
        if key not in self._known:
            self._known[key] = self._unread_share(words)
        return self._known[key]

    def _unread_share(self, words: Sequence[Box]) -> float:
        import numpy as np

        shapes = self.shapes
        if not len(shapes) or not words:
            return 0.0
        boxes = np.array(words, dtype=np.float32) / self.ratio
        inside = _is_inside(shapes, boxes)
        if not inside.any():
            return 1.0
        heights = shapes[inside, 3] - shapes[inside, 1]
        usual = float(np.median(heights[heights >= 0.5 * np.percentile(heights, 80)]))
        letters = _is_letter(shapes, usual)
        outside = shapes[letters & ~inside & ~_is_texture(shapes, letters, inside, usual)]
        unread = int(np.count_nonzero(_has_neighbour(outside)))
        read = int(np.count_nonzero(letters & inside))
        boxes[:, 0], boxes[:, 2] = 0, self.width  # dots that lead from one word to another are no faint text
        rest = shapes[~_is_inside(shapes, boxes)]
        if len(rest) > _MANY_SPECKS * max(_FEW_LETTERS, read) and _is_in_lines(rest):
            return _FAINT
        return unread / max(1, unread + read)

    def touching_share(self) -> float:
        """The share of the letters that are so wide that they are several that touch; 0 where none are seen.

        On pages that were printed or scanned poorly letters run into each other.
        """
        import numpy as np

        if not len(self.shapes):
            return 0.0
        widths, heights = self.shapes[:, 2] - self.shapes[:, 0], self.shapes[:, 3] - self.shapes[:, 1]
        usual = float(np.median(heights[heights >= 0.5 * np.percentile(heights, 80)]))
        letters = (heights >= _TOUCHING_TALL * usual) & (heights <= _TALLEST * usual)
        return float(np.mean(widths[letters] > _TOUCHING_WIDE * usual)) if letters.any() else 0.0


def _shapes(small: Image.Image, noise: float) -> Pixels:
    """Left, top, right, bottom and area of the connected shapes of ink, and of light shapes on dark ground."""
    import numpy as np
    from PIL import ImageFilter

    smooth = small.filter(ImageFilter.MedianFilter(3)) if noise > _GRAINY else small
    around = smooth.filter(ImageFilter.BoxBlur(_AROUND_PX))
    depth = np.asarray(around, dtype=np.int16) - np.asarray(smooth)
    least = max(_LEAST_DEPTH, 2.0 * noise, _DEPTH_SHARE * float(np.percentile(depth[::2, ::2], 98)))
    is_dark_ground = np.asarray(smooth.filter(ImageFilter.BoxBlur(4 * _AROUND_PX))) < _DARK_GROUND
    found = [
        connected(mask) for mask in ((depth > least) & ~is_dark_ground, (depth < -least) & is_dark_ground)
    ]
    shapes = np.concatenate(found).astype(np.float32)
    return shapes[shapes[:, 3] - shapes[:, 1] >= _LEAST_SHAPE_PX]


def connected(mask: Pixels) -> Pixels:
    """Left, top, right, bottom and area of each connected shape of a mask; none where it is nothing but specks."""
    import numpy as np

    rows, starts, ends = ink_runs(mask)
    if not 0 < len(rows) <= _MOST_RUNS:
        return np.zeros((0, 5), np.int64)
    labels = _joined(rows, starts, ends, mask.shape[1] + 2)
    order = np.argsort(labels, kind="stable")
    firsts = np.concatenate(([0], np.nonzero(np.diff(labels[order]))[0] + 1))
    rows, starts, ends = rows[order], starts[order], ends[order]
    return np.stack(
        (
            np.minimum.reduceat(starts, firsts),
            np.minimum.reduceat(rows, firsts),
            np.maximum.reduceat(ends, firsts),
            np.maximum.reduceat(rows, firsts) + 1,
            np.add.reduceat(ends - starts, firsts),
        ),
        axis=1,
    )


def _joined(rows: Pixels, starts: Pixels, ends: Pixels, width: int) -> Pixels:
    """For each run of ink in a row, the number of the shape that it is part of: runs that touch are of one shape."""
    import numpy as np

    below = (rows + 1) * width
    first = np.searchsorted(rows * width + ends, below + starts, side="left")
    after = np.searchsorted(rows * width + starts, below + ends, side="right")
    counts = np.maximum(after - first, 0)
    one = np.repeat(np.arange(len(rows)), counts)
    other = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    labels = np.arange(len(rows))
    while True:
        mine, theirs = labels[one], labels[other]
        differ = mine != theirs
        if not differ.any():
            return labels
        low, high = np.minimum(mine, theirs)[differ], np.maximum(mine, theirs)[differ]
        np.minimum.at(labels, high, low)
        while not np.array_equal(shorter := labels[labels], labels):
            labels = shorter


def _is_inside(shapes: Pixels, words: Pixels) -> Pixels:
    """Whether the middle of each shape is in a box, or close to one."""
    import numpy as np

    inside = np.zeros(len(shapes), dtype=bool)
    x, y = (shapes[:, 0] + shapes[:, 2]) / 2, (shapes[:, 1] + shapes[:, 3]) / 2
    order = np.argsort(y)
    ordered = y[order]
    margins = _MARGIN * (words[:, 3] - words[:, 1])
    firsts = np.searchsorted(ordered, words[:, 1] - margins).tolist()
    afters = np.searchsorted(ordered, words[:, 3] + margins).tolist()
    across = x[order]
    level = np.zeros(len(shapes), dtype=bool)
    for first, after, left, right in zip(
        firsts, afters, words[:, 0] - margins, words[:, 2] + margins, strict=True
    ):
        near = across[first:after]
        level[first:after] |= (near >= left) & (near <= right)
    inside[order] = level
    return inside


def _is_letter(shapes: Pixels, usual: float) -> Pixels:
    width, height = shapes[:, 2] - shapes[:, 0], shapes[:, 3] - shapes[:, 1]
    is_sized = (height >= _SHORTEST * usual) & (height <= _TALLEST * usual) & (width <= _WIDEST * usual)
    return is_sized & (shapes[:, 4] >= _LEAST_FILLED * width * height)


def _is_texture(shapes: Pixels, letters: Pixels, inside: Pixels, usual: float) -> Pixels:
    """Whether each shape is among many specks; none is if words are among specks too, as on a grainy page."""
    import numpy as np

    _, cells = np.unique((shapes[:, :2] // (_CELL * usual)).astype(np.int64), axis=0, return_inverse=True)
    is_speck = shapes[:, 3] - shapes[:, 1] < _SHORTEST * usual
    found = (np.bincount(cells, is_speck) > _SPECKS * np.bincount(cells, letters))[cells]
    read = letters & inside
    is_grainy = np.count_nonzero(found & read) > _GRAINY_SHARE * np.count_nonzero(read)
    return np.zeros(len(shapes), dtype=bool) if is_grainy else found


def _is_in_lines(shapes: Pixels) -> bool:
    """Whether specks are in rows, as what is left of faint letters: grain and dust are as likely at every height."""
    import numpy as np

    tops = shapes[:, 1]
    counts = np.bincount(((tops - tops.min()) / _ROW_PX).astype(np.int64))
    return float(counts.var() / counts.mean()) >= _UNEVEN


def _has_neighbour(shapes: Pixels) -> Pixels:
    """Whether each shape has another one of its height beside it, on one line."""
    import numpy as np

    found = np.zeros(len(shapes), dtype=bool)
    order = np.argsort(shapes[:, 0])
    lefts = shapes[order, 0]
    for place, one in enumerate(order):
        left, top, right, bottom = shapes[one, :4]
        height = bottom - top
        after = int(np.searchsorted(lefts, right + _NEXT_LETTER * height))
        near = order[place + 1 : after]
        if not len(near):
            continue
        others = shapes[near]
        is_level = (np.abs(others[:, 3] - bottom) <= _LEVEL * height) | (
            np.abs(others[:, 1] - top) <= _LEVEL * height
        )
        tall = others[:, 3] - others[:, 1]
        same = (
            is_level
            & (tall >= height / 1.8)
            & (tall <= height * 1.8)
            & (others[:, 0] >= left + 0.3 * (right - left))
        )
        if same.any():
            found[one] = True
            found[near[same]] = True
    return found
