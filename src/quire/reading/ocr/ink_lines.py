"""Finds ink, and the lines that it makes, in a small copy of a page's picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

STRIPS = 8
"""Upright strips that a page is looked at in: the lines of two columns need not be level."""
LEAST_INK = 400

_SMALL_PX = 1000
_MAX_SKEW = 6.0
_COARSE_STEP = 0.5
_FINE_STEP = 0.1
_GAIN = 1.15  # a page leans only if its lines show this much better at another angle
_LEAST_LINE_PX = 5
_TALLEST_BANDS = 2.5
_TALLEST_SHARE = 0.2
_NOISE_ROWS = 1200
_MOST_POINTS = 60_000
_SPECK_SPREADS = 4.0


def small_copy(picture: Image.Image) -> Image.Image:
    if max(picture.size) <= _SMALL_PX:
        return picture
    ratio = _SMALL_PX / max(picture.size)
    size = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
    return picture.resize(size, reducing_gap=2.0)


def grain(pixels: Pixels) -> float:
    """Grain, by what is left of the picture when everything smooth is taken out of it."""
    import numpy as np

    part = pixels[:: max(1, pixels.shape[0] // _NOISE_ROWS)].astype(np.int16)
    if part.shape[0] < 3 or part.shape[1] < 5:
        return 0.0
    rough = 2 * part[:, 2:-2] - part[:, :-4] - part[:, 4:]
    # By counting: most values are equal, which sorting is slow at.
    reached = np.cumsum(np.bincount(np.abs(rough).ravel()))
    middle = (reached[-1] - 1) // 2, reached[-1] // 2
    median = float(np.searchsorted(reached, middle, side="right").mean())
    return median / 0.6745 / math.sqrt(6)


def ink_mask(pixels: Pixels, noise: float) -> Pixels:
    """Where a small picture is darker than its surroundings; big dark areas are no ink."""
    import numpy as np
    from PIL import Image, ImageFilter

    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    around = np.asarray(picture.filter(ImageFilter.BoxBlur(12)), dtype=np.float32)
    depth = around - pixels
    strongest = float(np.percentile(depth, 99))
    return depth > max(8.0, noise * 1.2, strongest * 0.35)


def clear_ink_mask(small: Image.Image) -> Pixels:
    """The ink of a grainy small picture, without specks: darker than its surroundings by more than grain is."""
    import numpy as np
    from PIL import ImageFilter

    smooth = small.filter(ImageFilter.MedianFilter(3))
    around = np.asarray(smooth.filter(ImageFilter.BoxBlur(12)), dtype=np.float32)
    depth = around - np.asarray(smooth, dtype=np.float32)
    spread = float(np.median(np.abs(depth))) / 0.6745
    return depth > max(8.0, _SPECK_SPREADS * spread, 0.35 * float(np.percentile(depth, 99)))


def best_angle(along: Pixels, across: Pixels) -> tuple[float, float]:
    """The angle at which the stripes are strongest, and how strong they are."""
    import numpy as np

    def strength(angle: float) -> float:
        places = along + across * math.tan(math.radians(angle))
        counts = np.bincount((places - places.min()).astype(np.int64)).astype(np.float64)
        return float(np.sum(np.diff(counts) ** 2)) if len(counts) > 2 else 0.0

    coarse = max(np.arange(-_MAX_SKEW, _MAX_SKEW + 0.01, _COARSE_STEP), key=strength)
    fine = max(np.arange(coarse - _COARSE_STEP, coarse + _COARSE_STEP + 0.01, _FINE_STEP), key=strength)
    level, best = strength(0.0), strength(float(fine))
    if level * _GAIN >= best:
        return 0.0, level
    return -round(float(fine), 2), best


def row_profile(strip: Pixels, skew: float) -> tuple[Pixels, int]:
    """How much ink there is at each height of a strip along lines that lean, and the height of the first."""
    import numpy as np

    rows, columns = np.nonzero(strip)
    if len(rows) < LEAST_INK // STRIPS:
        return np.zeros(1), 0
    places = rows - columns * math.tan(math.radians(skew))
    lowest = places.min()
    return np.bincount((places - lowest).astype(np.int64)).astype(np.float64), int(lowest)


def line_bands(counts: Pixels) -> list[tuple[int, int]]:
    """The bands that may be lines of text: a picture's is much taller than most."""
    import numpy as np

    bands = ink_bands(counts)
    if not bands:
        return []
    usual = float(np.median([last - first for first, last in bands]))
    most = min(_TALLEST_BANDS * usual, _TALLEST_SHARE * len(counts))
    return [(first, last) for first, last in bands if last - first <= most or len(bands) == 1]


def ink_bands(counts: Pixels) -> list[tuple[int, int]]:
    """Runs of places with ink in them: the lines."""
    import numpy as np

    inked = np.concatenate(([False], counts > 0.04 * np.percentile(counts, 95), [False]))
    edges = np.nonzero(np.diff(inked.astype(np.int8)))[0]
    return [
        (int(first), int(last))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
        if last - first >= _LEAST_LINE_PX
    ]


def ink_points(ink: Pixels) -> tuple[Pixels, Pixels]:
    """Rows and columns of the ink, or of a part of it that is large enough to measure by."""
    import numpy as np

    rows, columns = np.nonzero(ink)
    if len(rows) > _MOST_POINTS:
        kept = np.random.default_rng(0).choice(len(rows), _MOST_POINTS, replace=False)
        rows, columns = rows[kept], columns[kept]
    return rows, columns


def ink_runs(ink: Pixels) -> tuple[Pixels, Pixels, Pixels]:
    """Row, start and end of every run of ink in a row, from top to bottom and from left to right."""
    import numpy as np

    padded = np.zeros((ink.shape[0], ink.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = ink
    steps = np.diff(padded, axis=1)
    flat, width = steps.ravel(), steps.shape[1]  # much faster than to ask in two dimensions
    rows, starts = np.divmod(np.flatnonzero(flat == 1), width)
    return rows, starts, np.flatnonzero(flat == -1) % width
