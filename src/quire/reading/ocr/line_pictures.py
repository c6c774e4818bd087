"""Cuts small pictures of one size out of the lines of a page, for the network that says which way is up.

The page is looked at in upright strips, because lines of a photograph lean differently from side to side. Drawn rules
are taken out first: vertical ones hide the gaps between lines; so are dark areas with their edges, as the table around
a photographed page: an edge looks like a line. Each piece of a line is scaled so that its ink has one
height, and its tone so that paper is 0 and ink 255.

Weakness: lines that touch each other, and pictures as tall as a line, give pieces that show no text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ink_lines import ink_bands

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

HEIGHT, WIDTH = 28, 112
_BODY = 20
_MOST = 32
_STRIPS = (10, 4)
"""Narrow strips for lines of text, wide ones for titles, whose letters are as wide as a narrow strip."""
_TITLE_SHARE = 0.3
_LEANS = (-1.8, -1.2, -0.6, 0.0, 0.6, 1.2, 1.8)
_LEVEL_BONUS = 1.08
_LEAST_STRIP_INK = 40
_LEAST_LINE_PX = 6
_LEAST_LINE_INK = 30
_SPECK_SHARE, _FULL_PERCENT = 0.25, 98
_UPRIGHT_RULE_PX, _LEVEL_RULE_PX = 48, 160
"""The strokes that join the letters of a word in Devanagari are long, but not as long as rules."""
_CELL_PX, _DARK_SHARE = 6, 0.6
_TALLEST_BANDS, _TALLEST_SHARE = 2.2, 0.15
_LEAST_TONE, _TONE_SHARE = 24.0, 0.6
_LEAST_FILLED = 0.03


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a line in pixels of the small picture; `slope` is how far it falls for each pixel to the right."""

    left: float
    right: float
    top: float
    height: float
    slope: float
    size: int


def line_pictures(picture: Image.Image, small: Image.Image, ink: Pixels, skew: float) -> Pixels:
    """Up to 32 pictures of pieces of lines, as an array of bytes.

    `ink` is the mask of `small`, a copy of `picture`, whose lines are level but for `skew` degrees.
    """
    import numpy as np

    bare = _without_rules(ink & ~_dark_areas(np.asarray(small)))
    found = [piece for count in _STRIPS for piece in _pieces(bare, skew, count)]
    if found:
        full = float(np.percentile([piece.size for piece in found], _FULL_PERCENT))
        found = [piece for piece in found if piece.size >= _SPECK_SHARE * full]
    ratio = picture.width / ink.shape[1]
    windows = [window for piece in found for window in _windows(piece)]
    step = max(1.0, len(windows) / _MOST)
    sources: dict[int, Image.Image] = {1: picture}
    cut = [_cut(windows[int(place * step)], ratio, sources) for place in range(min(_MOST, len(windows)))]
    return _toned(np.stack(cut)) if cut else np.zeros((0, HEIGHT, WIDTH), np.uint8)


def _dark_areas(pixels: Pixels) -> Pixels:
    """Where nothing is as light as paper over more than the width of a stroke, and the edge of such areas."""
    import numpy as np

    rows, columns = (math.ceil(side / _CELL_PX) for side in pixels.shape)
    framed = np.pad(
        pixels,
        ((0, rows * _CELL_PX - pixels.shape[0]), (0, columns * _CELL_PX - pixels.shape[1])),
        mode="edge",
    )
    lightest = framed.reshape(rows, _CELL_PX, columns, _CELL_PX).max(axis=(1, 3))
    dark = np.pad(lightest < _DARK_SHARE * np.percentile(lightest, 60), 2)
    near = dark.copy()
    for down in (-2, -1, 0, 1, 2):
        for across in (-2, -1, 0, 1, 2):
            near |= np.roll(dark, (down, across), (0, 1))
    wide = np.repeat(np.repeat(near[2:-2, 2:-2], _CELL_PX, axis=0), _CELL_PX, axis=1)
    return wide[: pixels.shape[0], : pixels.shape[1]]


def _without_rules(ink: Pixels) -> Pixels:
    """The mask without runs of ink that are longer than strokes of letters."""
    return ink & ~_long_runs(ink, _UPRIGHT_RULE_PX) & ~_long_runs(ink.T, _LEVEL_RULE_PX).T


def _long_runs(ink: Pixels, least: int) -> Pixels:
    """Where ink is part of an upright run of at least so many pixels."""
    import numpy as np

    height, width = ink.shape
    if height <= least:
        return np.zeros_like(ink)
    wide = ink.copy()  # a rule that leans by a pixel is in two columns
    wide[:, 1:] |= ink[:, :-1]
    wide[:, :-1] |= ink[:, 1:]
    sums = np.zeros((height + 1, width), np.int32)
    np.cumsum(wide, axis=0, out=sums[1:])
    begins = sums[least:] - sums[:-least] == least
    steps = np.zeros((height + 1, width), np.int32)
    steps[: len(begins)] += begins
    steps[least:] -= begins
    return np.cumsum(steps, axis=0)[:-1] > 0


def _pieces(ink: Pixels, skew: float, count: int) -> Iterator[_Piece]:
    import numpy as np

    width = ink.shape[1] / count
    narrow = ink.shape[1] / max(_STRIPS)
    for place in range(count):
        left, right = round(place * width), round((place + 1) * width)
        rows, columns = np.nonzero(ink[:, left:right])
        if len(rows) < _LEAST_STRIP_INK:
            continue
        slope, lowest, profile = _level(rows, columns, skew)
        for top, bottom in _line_bands(profile, _TALLEST_SHARE * ink.shape[0]):
            height, size = bottom - top, int(profile[top:bottom].sum())
            is_title = height > _TITLE_SHARE * narrow
            if height >= _LEAST_LINE_PX and size >= _LEAST_LINE_INK and is_title == (count < max(_STRIPS)):
                yield _Piece(left, right, lowest + top, height, slope, size)


def _line_bands(profile: Pixels, tallest: float) -> list[tuple[int, int]]:
    """The bands of ink that may be lines: not much taller than the band in which the middle of the ink is."""
    import numpy as np

    bands = [band for band in ink_bands(profile) if band[1] - band[0] <= tallest]
    if not bands:
        return []
    bands.sort(key=lambda band: band[1] - band[0])
    sums = np.cumsum([profile[first:last].sum() for first, last in bands])
    usual = bands[int(np.searchsorted(sums, sums[-1] / 2))]
    most = _TALLEST_BANDS * (usual[1] - usual[0])
    return sorted(band for band in bands if band[1] - band[0] <= most)


def _level(rows: Pixels, columns: Pixels, skew: float) -> tuple[float, float, Pixels]:
    """The slope near `skew` at which a strip's lines show best, their first place, and the ink at each place."""
    import numpy as np

    found: list[tuple[float, float, float, Pixels]] = []
    for lean in _LEANS:
        slope = math.tan(math.radians(skew + lean))
        places = rows - columns * slope
        lowest = float(places.min())
        counts = np.bincount((places - lowest).astype(np.int64)).astype(np.float64)
        strength = float(np.sum(np.diff(counts) ** 2)) * (1.0 if lean else _LEVEL_BONUS)
        found.append((strength, slope, lowest, counts))
    _, slope, lowest, counts = max(found, key=lambda one: one[0])
    return slope, lowest, counts


def _windows(piece: _Piece) -> list[_Piece]:
    """The piece in parts as wide as a picture; a short piece gets its surroundings."""
    width = piece.height / _BODY * WIDTH
    count = max(1, round((piece.right - piece.left) / width))
    middle = (piece.left + piece.right) / 2
    first = middle - count * width / 2
    return [
        _Piece(
            first + place * width,
            first + (place + 1) * width,
            piece.top + (first + place * width - piece.left) * piece.slope,
            piece.height,
            piece.slope,
            piece.size,
        )
        for place in range(count)
    ]


def _cut(piece: _Piece, ratio: float, sources: dict[int, Image.Image]) -> Pixels:
    import numpy as np
    from PIL import Image

    scale = piece.height / _BODY * ratio
    shrunk = max(1, int(scale))
    if shrunk not in sources:
        sources[shrunk] = sources[1].reduce(shrunk)
    source = sources[shrunk]
    step, by = scale / shrunk, ratio / shrunk
    top = piece.top * by - (HEIGHT - _BODY) / 2 * step
    part = source.transform(
        (WIDTH, HEIGHT),
        Image.Transform.AFFINE,
        (step, 0.0, piece.left * by, step * piece.slope, step, top),
        Image.Resampling.BILINEAR,
        fillcolor=255,
    )
    return np.asarray(part, dtype=np.float32)


def _toned(pieces: Pixels) -> Pixels:
    """The pieces with paper as 0 and ink as 255, without those that have next to no ink.

    A piece with much less contrast than the others shows grain, not ink.
    """
    import numpy as np

    dark, light = np.percentile(pieces, (3, 85), axis=(1, 2))
    contrast = light - dark
    least = max(_LEAST_TONE, _TONE_SHARE * float(np.percentile(contrast, 75)))
    tones = np.clip((light[:, None, None] - pieces) / np.maximum(least, contrast)[:, None, None], 0.0, 1.0)
    return (tones[tones.mean(axis=(1, 2)) >= _LEAST_FILLED] * 255).astype(np.uint8)
