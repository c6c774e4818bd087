"""How a page lies in its picture: which way its lines run, how far they lean, what light it was taken in.

Everything is worked out on a small copy of the picture, in a few dozen milliseconds. Lines of text show as
dense and empty stripes when ink is summed up along their direction; the direction with the strongest stripes
is that of the lines. Which way is up is told by letters: in Latin scripts more of them reach above the line's
body (b, d, h, k, l, t, capitals, figures) than below it. That is a guess, to be confirmed by what is read.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ocr_words import Box

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_SMALL_PX = 1000
_MAX_SKEW = 6.0
_COARSE_STEP = 0.5
_FINE_STEP = 0.1
_LEAST_SKEW = 0.25
_GAIN = 1.15  # a page leans only if its lines show this much better at another angle
_LEAST_INK = 400
_SPECKS = 30
_STRIP_SHARE = 0.1
_LEAST_STRIP_PX = 160
_MARGIN_PX = 3
_MOST_POINTS = 60_000
_CLEAR_DIRECTION = 1.25
_LEAST_LINE_PX = 5
_TALLEST_BANDS = 2.5
_TALLEST_SHARE = 0.2
_STRIPS = 8
_CLEARLY_HANGING = 0.1
_PAPER_CELLS = 40
_INK_PERCENT = 0.7
_BAND_PX = 256
_NOISE_ROWS = 1200
_WHITE = 232.0
_BLACK = 96.0
_EVEN = 14.0


@dataclass(frozen=True, slots=True)
class Posture:
    """`turns` quarter turns anticlockwise and then `skew` degrees anticlockwise make the page upright."""

    turns: int = 0
    skew: float = 0.0
    noise: float = 0.0  # the grain's standard deviation, in grey levels
    certain: bool = False  # whether there are lines whose direction shows
    ink: bool = False  # whether there is anything on the page
    way_up: float = 0.0  # from 0, a toss-up, to 1: how plainly the letters say that this is the right way up


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a point of the upright picture lies in the picture as it came."""

    turns: int
    skew: float
    from_size: tuple[int, int]
    to_size: tuple[int, int]

    def back(self, box: Box) -> Box:
        """The smallest box in the picture as it came that holds `box` of the upright one."""
        left, top, right, bottom = box
        places = [self._point(x, y) for x in (left, right) for y in (top, bottom)]
        width, height = self.from_size
        xs = [min(max(round(x), 0), width) for x, _ in places]
        ys = [min(max(round(y), 0), height) for _, y in places]
        return min(xs), min(ys), max(xs), max(ys)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        angle = math.radians(self.skew + 90.0 * self.turns)
        dx, dy = x - self.to_size[0] / 2, y - self.to_size[1] / 2
        return (
            self.from_size[0] / 2 + dx * math.cos(angle) - dy * math.sin(angle),
            self.from_size[1] / 2 + dx * math.sin(angle) + dy * math.cos(angle),
        )


def posture_of(picture: Image.Image) -> Posture:
    """The posture of a grey picture. A picture without lines of text is taken as it lies."""
    import numpy as np

    noise = _noise(np.asarray(picture))
    ink = _ink(np.asarray(_small(picture), dtype=np.float32), noise)
    rows, columns = np.nonzero(ink)
    if len(rows) < _LEAST_INK:
        return Posture(noise=noise, ink=len(rows) >= _SPECKS)
    if len(rows) > _MOST_POINTS:
        kept = np.random.default_rng(0).choice(len(rows), _MOST_POINTS, replace=False)
        rows, columns = rows[kept], columns[kept]
    across_skew, across = _best_angle(rows, columns)
    down_skew, down = _best_angle(columns, -rows)
    if down > across * _CLEAR_DIRECTION:
        turns, skew, certain = 1, down_skew, True
    else:
        turns, skew, certain = 0, across_skew, across > down * _CLEAR_DIRECTION
    if not certain:
        return Posture(noise=noise, ink=True)
    way_up = _upwardness(np.rot90(ink, turns), skew)
    if way_up < -_CLEARLY_HANGING:
        turns, way_up = turns + 2, -way_up
    return Posture(turns, skew if abs(skew) >= _LEAST_SKEW else 0.0, noise, certain, ink=True, way_up=way_up)


def upright(picture: Image.Image, posture: Posture) -> tuple[Image.Image, Turn]:
    """The picture turned upright and straight, and the way back to where things were."""
    from PIL import Image

    turned = picture
    if posture.turns % 4:
        ways = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
        turned = picture.transpose(ways[posture.turns % 4 - 1])
    if posture.skew:
        turned = turned.rotate(
            posture.skew, Image.Resampling.BICUBIC, expand=True, fillcolor=_paper_tone(turned)
        )
    return turned, Turn(posture.turns % 4, posture.skew, picture.size, turned.size)


def evened(picture: Image.Image) -> Image.Image:
    """The picture on white paper in black ink: shades, yellowed paper and pale ink are evened out.

    A picture that is black on white already comes back as it is.
    """
    import numpy as np
    from PIL import Image

    small = picture.reduce(max(1, min(picture.size) // (_PAPER_CELLS * 8)))
    cells = max(2, min(small.size) // _PAPER_CELLS)
    pixels = np.asarray(small, dtype=np.float32)
    height, width = (pixels.shape[0] // cells) * cells, (pixels.shape[1] // cells) * cells
    if height < cells * 2 or width < cells * 2:
        return picture
    grid = pixels[:height, :width].reshape(height // cells, cells, width // cells, cells)
    paper = np.percentile(grid, 80, axis=(1, 3))
    full = np.asarray(picture)
    light, dark = float(np.median(paper)), float(np.percentile(full[::3, ::3], _INK_PERCENT))
    if light >= _WHITE and dark <= _BLACK and float(np.std(paper)) <= _EVEN:
        return picture
    if light < dark + 24:
        return picture  # nothing stands out from the paper: there is nothing to even
    # Dark places with no paper in them (a photograph, a black bar) keep the tone of the page's paper.
    paper = np.where(paper < light - 0.5 * (light - dark), light, paper).astype(np.float32)
    shades = np.asarray(Image.fromarray(paper).resize(small.size, Image.Resampling.BICUBIC))
    flat = pixels / np.maximum(shades, 1.0)
    low = min(float(np.percentile(flat, _INK_PERCENT)), 0.9)
    ground = Image.fromarray(shades)
    out = np.empty_like(full)
    # By bands: a large page as floats would be past a reader process's memory.
    for top in range(0, picture.height, _BAND_PX):
        bottom = min(picture.height, top + _BAND_PX)
        scale = small.height / picture.height
        under = ground.resize(
            (picture.width, bottom - top),
            Image.Resampling.BILINEAR,
            box=(0, top * scale, small.width, bottom * scale),
        )
        part = full[top:bottom] / np.maximum(np.asarray(under), 1.0)
        out[top:bottom] = np.clip((part - low) / (1.0 - low) * 245.0 + 10.0, 0, 255)
    return Image.fromarray(out)


def covered(picture: Image.Image, words: Sequence[Box], other: Sequence[Box] = ()) -> float:
    """Which share of the ink of an upright page lies in the boxes; 1 for a page without ink.

    Ink outside of them counts only where it stands in bands as tall as the words: charts and rules don't.
    """
    import numpy as np

    small = _small(picture)
    ink = _ink(np.asarray(small, dtype=np.float32), 0.0)
    total = int(np.count_nonzero(ink))
    if total < _SPECKS:
        return 1.0
    ratio = small.width / picture.width
    for left, top, right, bottom in (*words, *other):
        ink[
            max(0, int(top * ratio) - _MARGIN_PX) : int(bottom * ratio) + _MARGIN_PX + 1,
            max(0, int(left * ratio) - _MARGIN_PX) : int(right * ratio) + _MARGIN_PX + 1,
        ] = False
    usual = statistics.median(bottom - top for _, top, _, bottom in words) * ratio if words else 0.0
    left_out = 0.0
    for strip in np.array_split(ink, _STRIPS, axis=1):
        counts, _ = _profile(strip, 0.0)
        for first, last in _bands(counts):
            if not usual or 0.5 * usual <= last - first <= 2.0 * usual:
                left_out += float(counts[first:last].sum())
    return 1.0 - left_out / total


def dense_strip(picture: Image.Image) -> Image.Image:
    """The tenth of an upright page, from edge to edge, that has most ink of lines."""
    import numpy as np

    height = min(picture.height, max(_LEAST_STRIP_PX, round(picture.height * _STRIP_SHARE)))
    small = _small(picture)
    ratio = small.height / picture.height
    rows = np.zeros(small.height)
    for strip in np.array_split(_ink(np.asarray(small, dtype=np.float32), 0.0), _STRIPS, axis=1):
        counts, lowest = _profile(strip, 0.0)
        for first, last in _line_bands(counts):
            rows[lowest + first : lowest + last] += counts[first:last]
    sums = np.convolve(rows, np.ones(max(1, round(height * ratio))), mode="valid")
    top = min(round(int(np.argmax(sums)) / ratio), picture.height - height)
    return picture.crop((0, top, picture.width, top + height))


def _small(picture: Image.Image) -> Image.Image:
    if max(picture.size) <= _SMALL_PX:
        return picture
    ratio = _SMALL_PX / max(picture.size)
    size = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
    return picture.resize(size, reducing_gap=2.0)


def _noise(pixels: Pixels) -> float:
    """Grain, by what is left of the picture when everything smooth is taken out of it."""
    import numpy as np

    part = pixels[:: max(1, pixels.shape[0] // _NOISE_ROWS)].astype(np.int16)
    if part.shape[0] < 3 or part.shape[1] < 5:
        return 0.0
    rough = 2 * part[:, 2:-2] - part[:, :-4] - part[:, 4:]
    return float(np.median(np.abs(rough))) / 0.6745 / math.sqrt(6)


def _ink(pixels: Pixels, noise: float) -> Pixels:
    """Where a small picture is darker than its surroundings; big dark areas are no ink."""
    import numpy as np
    from PIL import Image, ImageFilter

    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    around = np.asarray(picture.filter(ImageFilter.BoxBlur(12)), dtype=np.float32)
    depth = around - pixels
    strongest = float(np.percentile(depth, 99))
    return depth > max(8.0, noise * 1.2, strongest * 0.35)


def _best_angle(along: Pixels, across: Pixels) -> tuple[float, float]:
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


def _upwardness(ink: Pixels, skew: float) -> float:
    """From 1 (all strokes outside the lines' bodies reach above them) to -1 (all hang below them).

    The page is looked at in upright strips, because the lines of two columns need not be level.
    """
    import numpy as np

    above = below = 0.0
    for strip in np.array_split(ink, _STRIPS, axis=1):
        counts, _ = _profile(strip, skew)
        for first, last in _line_bands(counts):
            band = np.concatenate(([0.0], counts[first:last], [0.0]))
            steps = np.diff(band)
            top, bottom = int(np.argmax(steps)), int(np.argmin(steps))  # of the bodies: the steepest steps
            if top < bottom:
                above += float(band[: top + 1].sum())
                below += float(band[bottom + 1 :].sum())
    return (above - below) / (above + below) if above + below else 0.0


def _profile(strip: Pixels, skew: float) -> tuple[Pixels, int]:
    """How much ink there is at each height of a strip along lines that lean, and the height of the first."""
    import numpy as np

    rows, columns = np.nonzero(strip)
    if len(rows) < _LEAST_INK // _STRIPS:
        return np.zeros(1), 0
    places = rows - columns * math.tan(math.radians(skew))
    lowest = places.min()
    return np.bincount((places - lowest).astype(np.int64)).astype(np.float64), int(lowest)


def _line_bands(counts: Pixels) -> list[tuple[int, int]]:
    """The bands that may be lines of text: a picture's is much taller than most."""
    import numpy as np

    bands = _bands(counts)
    if not bands:
        return []
    usual = float(np.median([last - first for first, last in bands]))
    most = min(_TALLEST_BANDS * usual, _TALLEST_SHARE * len(counts))
    return [(first, last) for first, last in bands if last - first <= most or len(bands) == 1]


def _bands(counts: Pixels) -> list[tuple[int, int]]:
    """Runs of places with ink in them: the lines."""
    import numpy as np

    inked = np.concatenate(([False], counts > 0.04 * np.percentile(counts, 95), [False]))
    edges = np.nonzero(np.diff(inked.astype(np.int8)))[0]
    return [
        (int(first), int(last))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
        if last - first >= _LEAST_LINE_PX
    ]


def _paper_tone(picture: Image.Image) -> int:
    import numpy as np

    return int(np.percentile(np.asarray(picture)[::4, ::4], 80))
