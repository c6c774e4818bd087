"""Measures the posture of a page in its picture (quarter turns, skew, grain) and corrects it, and its light.

Everything is measured on a small copy of the picture. The direction of the lines comes from the orientation model;
which way is up is decided by it and by the shapes of the lines together. Lines of text show as dense and empty stripes
when ink is summed up along their direction; the skew is the angle with the strongest stripes. Without the model the
direction of the stripes and the strokes above and below them decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.reading.ocr import line_direction, page_orientation
from quire.reading.ocr.ink_lines import (
    LEAST_INK,
    STRIPS,
    best_angle,
    clear_ink_mask,
    grain,
    ink_mask,
    ink_points,
    line_bands,
    row_profile,
    small_copy,
)
from quire.reading.ocr.ocr_words import Box

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_LEAST_SKEW = 0.25
_SPECKS = 30
_STRIP_SHARE = 0.1
_LEAST_STRIP_PX = 160
_MOST_FILLED = 0.6
"""How much of a row of pixels a line of text fills with ink at most."""
_CLEAR_DIRECTION = 1.25
_CLEARLY_HANGING = 0.1
_SPECKLED = 8.0
_MODEL_WEIGHT, _MOST_DOUBT, _USUALLY_UPRIGHT = 1.0, 4.0, 1.0
_CERTAIN = 3.0
_PAPER_CELLS = 40
_INK_PERCENT = 0.7
_BAND_PX = 256
_WHITE = 232.0
_BLACK = 96.0
_EVEN = 14.0


@dataclass(frozen=True, slots=True)
class Posture:
    """`turns` quarter turns anticlockwise and then `skew` degrees anticlockwise make the page upright."""

    turns: int = 0
    skew: float = 0.0
    noise: float = 0.0  # the grain's standard deviation, in grey levels
    certain: bool = False  # whether the model is sure of the turns
    ink: bool = False  # whether there is anything on the page


@dataclass(frozen=True, slots=True)
class Turn:
    """Maps a point of the upright picture to the picture as it came."""

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
    """The posture of a grey picture. A picture without ink is taken as it comes."""
    import numpy as np

    noise = grain(np.asarray(picture))
    small = small_copy(picture)
    ink = _ink_of(small, noise)
    count = int(np.count_nonzero(ink))
    if count < LEAST_INK:
        return Posture(noise=noise, ink=count >= _SPECKS)
    if not page_orientation.available():
        return _posture_by_strokes(ink, noise)
    found = page_orientation.orientation_of(small)
    if not found.is_sure:
        found = page_orientation.orientation_of_parts(small)
    sides = [_side(picture, small, ink, turns) for turns in (0, 1)]
    scores = [_way_score(turns, sides, found) for turns in range(4)]
    turns = max(range(4), key=lambda way: scores[way])
    others = max(score for way, score in enumerate(scores) if way != turns)
    return Posture(
        turns,
        _worth_correcting(sides[turns % 2].skew),
        noise,
        certain=scores[turns] - others >= _CERTAIN,
        ink=True,
    )


def turned_further(picture: Image.Image, posture: Posture, quarters: int) -> Posture:
    """The posture of the same picture with more quarter turns, and the skew of the lines that run across it then."""
    import numpy as np

    turns = (posture.turns + quarters) % 4
    ink = _ink_of(small_copy(picture), posture.noise)
    skew = 0.0
    if int(np.count_nonzero(ink)) >= LEAST_INK:
        skew, _ = best_angle(*ink_points(np.rot90(ink, turns % 2)))
    return replace(posture, turns=turns, skew=_worth_correcting(skew))


def _ink_of(small: Image.Image, noise: float) -> Pixels:
    import numpy as np

    return (
        clear_ink_mask(small) if noise > _SPECKLED else ink_mask(np.asarray(small, dtype=np.float32), noise)
    )


def _worth_correcting(skew: float) -> float:
    return skew if abs(skew) >= _LEAST_SKEW else 0.0


@dataclass(frozen=True, slots=True)
class _Side:
    """The lines that run across the picture after some quarter turns: how they lean, and which way up they are."""

    skew: float
    upright: float
    upside_down: float
    none: float


def _side(picture: Image.Image, small: Image.Image, ink: Pixels, turns: int) -> _Side:
    import numpy as np
    from PIL import Image

    if turns:
        picture, small = (one.transpose(Image.Transpose.ROTATE_90) for one in (picture, small))
    turned = np.rot90(ink, turns)
    skew, _ = best_angle(*ink_points(turned))
    return _Side(skew, *line_direction.ways_up(picture, small, turned, skew))


def _way_score(turns: int, sides: Sequence[_Side], found: page_orientation.Orientation) -> float:
    """How likely these quarter turns make the page upright: what its lines say, and what the model says.

    Most pages come upright, so that a page is turned only for a reason.
    """
    along, across = sides[turns % 2], sides[1 - turns % 2]
    lines = (along.upright if turns < 2 else along.upside_down) + across.none
    model = max(-_MOST_DOUBT, math.log(found.chances[turns] + 1e-6))
    return lines + _MODEL_WEIGHT * model + (0.0 if turns else _USUALLY_UPRIGHT)


def _line_direction(ink: Pixels) -> int | None:
    """0 where lines run across the picture, 1 where they run down it; None where that does not show."""
    rows, columns = ink_points(ink)
    across, down = best_angle(rows, columns)[1], best_angle(columns, -rows)[1]
    if max(across, down) <= _CLEAR_DIRECTION * min(across, down):
        return None
    return 0 if across > down else 1


def _posture_by_strokes(ink: Pixels, noise: float) -> Posture:
    """The posture without the model: in Latin scripts more strokes reach above the lines' bodies than below."""
    import numpy as np

    turns = _line_direction(ink)
    if turns is None:
        return Posture(noise=noise, ink=True)
    skew, _ = best_angle(*ink_points(np.rot90(ink, turns)))
    way_up = _upwardness(np.rot90(ink, turns), skew)
    if way_up < -_CLEARLY_HANGING:
        turns += 2
    return Posture(turns, _worth_correcting(skew), noise, ink=True)


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
        return picture  # ink and paper have the same tone: there is nothing to even
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


def dense_strip(picture: Image.Image) -> Image.Image:
    """The tenth of an upright page, from edge to edge, that has most ink of lines."""
    import numpy as np

    height = min(picture.height, max(_LEAST_STRIP_PX, round(picture.height * _STRIP_SHARE)))
    small = small_copy(picture)
    ratio = small.height / picture.height
    rows = np.zeros(small.height)
    for strip in np.array_split(ink_mask(np.asarray(small, dtype=np.float32), 0.0), STRIPS, axis=1):
        counts, lowest = row_profile(strip, 0.0)
        counts[counts > _MOST_FILLED * strip.shape[1]] = 0  # the edge of a photographed page, or a drawn rule
        for first, last in line_bands(counts):
            rows[lowest + first : lowest + last] += counts[first:last]
    sums = np.convolve(rows, np.ones(max(1, round(height * ratio))), mode="valid")
    top = min(round(int(np.argmax(sums)) / ratio), picture.height - height)
    return picture.crop((0, top, picture.width, top + height))


def _upwardness(ink: Pixels, skew: float) -> float:
    """From 1 (all strokes outside the lines' bodies reach above them) to -1 (all hang below them).

    The page is looked at in upright strips, because the lines of two columns need not be level.
    """
    import numpy as np

    above = below = 0.0
    for strip in np.array_split(ink, STRIPS, axis=1):
        counts, _ = row_profile(strip, skew)
        for first, last in line_bands(counts):
            band = np.concatenate(([0.0], counts[first:last], [0.0]))
            steps = np.diff(band)
            top, bottom = int(np.argmax(steps)), int(np.argmin(steps))  # of the bodies: the steepest steps
            if top < bottom:
                above += float(band[: top + 1].sum())
                below += float(band[bottom + 1 :].sum())
    return (above - below) / (above + below) if above + below else 0.0


def _paper_tone(picture: Image.Image) -> int:
    import numpy as np

    return int(np.percentile(np.asarray(picture)[::4, ::4], 80))
