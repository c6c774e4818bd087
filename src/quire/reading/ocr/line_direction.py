"""Decides whether the lines of a page are upright or upside down, from the shapes of their ink.

Each line is cut into twelve heights. At each height the sixteen patterns of two by two pixels are counted: edges,
corners and slants of the strokes. A network of one hidden layer scores these counts; the line turned by half a turn is
scored too, and the difference says which way is up. Lines of all scripts are scored alike, so the script need not be
known.

The weights (`line_direction.bin`, 9 kB) were made by `bench/train_line_direction.py` from drawn pages in twelve
scripts.
Weakness: a page of one or two words gives a weak answer, and so do lines of figures alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from quire.reading.ocr.ink_lines import line_bands

Pixels = Any  # numpy's arrays, without numpy being imported for their name

HEIGHTS, PATTERNS, HIDDEN = 12, 16, 24
_STRIPS = 10
_LEANS = (-1.2, -0.6, 0.0, 0.6, 1.2)
_LEVEL_BONUS = 1.08
_LEAST_STRIP_INK = 40
_LEAST_LINE_PX = 6
_LEAST_LINE_INK = 30
_SPECK_SHARE, _FULL_PERCENT = 0.25, 98
_MOST_A_LINE = 4.0
_ONE_LINE = 8
"""Pieces of a page's only line have the same few letters, and err alike: together they count as one."""
_ENOUGH_LINES = 36
"""More pieces of lines make the answer no surer: those of one page have the same type, and err alike."""


def uprightness(ink: Pixels, skew: float) -> float:
    """How clearly the lines are upright: above 0 they are, below 0 they are upside down; 0 where there are none.

    The value grows with the square root of the number of pieces of lines, up to 36 of them. `ink` has its lines level
    but for `skew` degrees.
    """
    # Scored both ways up: what pixels and specks say in both ways alike says nothing.
    return (_score(ink, skew) - _score(ink[::-1, ::-1], skew)) / 2


def _score(ink: Pixels, skew: float) -> float:
    import numpy as np

    counts = piece_counts(ink, skew)
    if not len(counts):
        return 0.0
    first, bias, second = _weights()
    up, down = (np.tanh(one @ first + bias) @ second for one in (counts, turned_counts(counts)))
    mean = float(np.clip(up - down, -_MOST_A_LINE, _MOST_A_LINE).mean())
    return mean * math.sqrt(min(len(counts), _ENOUGH_LINES) if len(counts) > _ONE_LINE else 1)


def piece_counts(ink: Pixels, skew: float) -> Pixels:
    """The rows of numbers of those pieces that are no specks: these have much less ink than the pieces of lines."""
    import numpy as np

    found = list(_all_pieces(ink, skew))
    if not found:
        return np.zeros((0, HEIGHTS * PATTERNS))
    sizes = np.array([size for size, _ in found])
    kept = sizes >= _SPECK_SHARE * np.percentile(sizes, _FULL_PERCENT)
    return np.array([row for _, row in found])[kept]


def _all_pieces(ink: Pixels, skew: float) -> Iterator[tuple[int, Pixels]]:
    """For each piece of a line its size, and the shares of the patterns at each height, in one row of numbers.

    The places of the empty pattern have other values: the height of the line and the weight of its strokes.
    """
    import numpy as np

    framed = np.pad(ink, 1).astype(np.uint8)
    patterns = framed[:-1, :-1] | framed[:-1, 1:] << 1 | framed[1:, :-1] << 2 | framed[1:, 1:] << 3
    strips = (np.array_split(one, _STRIPS, axis=1) for one in (ink, patterns[:, :-1]))
    for strip, pattern in zip(*strips, strict=True):
        rows, columns = np.nonzero(strip)
        if len(rows) < _LEAST_STRIP_INK:
            continue
        slope, lowest, profile = _level(rows, columns, skew)
        rows, columns = np.nonzero(pattern)
        places = rows - 0.5 - columns * slope - lowest
        order = np.argsort(places, kind="stable")
        places, values = places[order], pattern[rows, columns][order]
        for top, bottom in line_bands(profile):
            first, after = np.searchsorted(places, (top - 0.75, bottom - 0.25))
            height = bottom - top
            if height >= _LEAST_LINE_PX and after - first >= _LEAST_LINE_INK:
                within = (places[first:after] - top + 0.5) / height
                yield int(after - first), _shares(within, values[first:after], height)


def turned_counts(counts: Pixels) -> Pixels:
    """What `piece_counts` would give for the same lines upside down."""
    import numpy as np

    found = counts.reshape(-1, HEIGHTS, PATTERNS)
    codes = np.arange(PATTERNS)
    opposite = (codes & 1) << 3 | (codes & 2) << 1 | (codes & 4) >> 1 | (codes & 8) >> 3
    turned = found[:, ::-1][:, :, opposite]
    turned[:, :, 0] = found[:, :, 0]
    return turned.reshape(counts.shape)


def _shares(places: Pixels, values: Pixels, height: int) -> Pixels:
    """`places` are from 0 at the top of the line to 1 at its bottom."""
    import numpy as np

    at = np.clip(places, 0.0, 1.0) * HEIGHTS - 0.5
    above = np.floor(at).astype(np.int64)
    part = at - above  # shared between two heights, so that a line upside down has the same counts in reverse
    counts = np.zeros(HEIGHTS * PATTERNS)
    for heights, weights in ((above, 1.0 - part), (above + 1, part)):
        cells = np.clip(heights, 0, HEIGHTS - 1) * PATTERNS + values
        counts += np.bincount(cells, weights, HEIGHTS * PATTERNS)
    found = counts.reshape(HEIGHTS, PATTERNS)
    edges = max(1.0, found[:, 1:-1].sum())
    found[:, -1] *= 4.0 / height  # full patterns grow with the area, edges with the length
    full = found[:, -1].sum() / edges
    found *= 10.0 / edges
    found[:2, 0] = height / 20, full
    return found.ravel()


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


@functools.cache
def _weights() -> tuple[Pixels, Pixels, Pixels]:
    """The weights of the hidden layer, their biases, and the weights of its units."""
    import numpy as np

    raw = files(__package__).joinpath("line_direction.bin").read_bytes()
    numbers = np.frombuffer(raw, dtype="<f2").astype(np.float64)
    inputs = HEIGHTS * PATTERNS
    first, bias, second = np.split(numbers, (inputs * HIDDEN, (inputs + 1) * HIDDEN))
    return first.reshape(inputs, HIDDEN), bias, second
