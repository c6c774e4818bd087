"""What a page is made of, and the class that follows: text, pictures, a scan, or letters that mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.domain.page import PageClass, PageSignals

Box = tuple[float, float, float, float]

_GRID = 40
_THIN_PT = 3.0
_PATHS_LOOKED_AT = 20_000
_WORDS_PLACED = 4_000
_OUTLINES = 150


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the classes begin. Coverage is of the page's area, ratios are of its characters."""

    picture_coverage: float = 0.10
    """All pictures together cover this much: the page has graphics."""
    largest_picture: float = 0.06
    """One picture covers this much: the page has graphics. A letterhead logo has 1 to 3 %."""
    scan_coverage: float = 0.55
    scan_max_chars: int = 120
    """A page nearly covered by pictures with fewer characters than this is a scan."""
    chart_paths: int = 12
    """Drawn shapes with no text in them, rules and frames left out, that make a chart."""
    chart_coverage: float = 0.04
    garbled_ratio: float = 0.20
    garbled_min_chars: int = 20


@dataclass(frozen=True, slots=True)
class Marks:
    """What a page draws besides text: how much of it is pictures, and the shapes that no text explains."""

    image_coverage: float
    largest_image: float
    chart_paths: int
    chart_coverage: float
    has_outlined_text: bool
    shapes: tuple[Box, ...] = ()


def measure_marks(
    images: Sequence[Box], paths: Sequence[Box], text: Sequence[Box], size: tuple[float, float]
) -> Marks:
    """Weigh the boxes of pictures and of drawn paths. Its cost is bounded however many paths the page has."""
    width, height = size
    area = max(width * height, 1.0)
    pictures = [b for b in (_clip(box, width, height) for box in images) if b is not None]
    shown = [b for b in (_clip(box, width, height) for box in paths[:_PATHS_LOOKED_AT]) if b is not None]
    shapes = _shapes(shown, text, width, height)
    return Marks(
        image_coverage=_covered(pictures, width, height),
        largest_image=max(map(_size, pictures), default=0.0) / area,
        chart_paths=len(shapes),
        chart_coverage=_covered(shapes, width, height),
        has_outlined_text=len(shapes) > _OUTLINES and not text,
        shapes=tuple(shapes),
    )


def classify(signals: PageSignals, marks: Marks, limits: Thresholds) -> tuple[PageClass, tuple[str, ...]]:
    """The page's class and the reasons for it, most telling first."""
    if signals.chars <= limits.scan_max_chars and signals.image_coverage >= limits.scan_coverage:
        return PageClass.SCANNED, ("scan",) if signals.chars else ("scan", "no_text_layer")
    if signals.chars == 0:
        if marks.has_outlined_text or signals.image_coverage > 0.02:
            return PageClass.SCANNED, ("no_text_layer",)
        if marks.chart_paths >= limits.chart_paths:
            return PageClass.HAS_GRAPHICS, ("chart", "no_text_layer")
        return PageClass.TEXT_ONLY, ("blank_page",)
    if signals.chars >= limits.garbled_min_chars and signals.garbled_ratio >= limits.garbled_ratio:
        return PageClass.GARBLED, ("garbled_text",)
    reasons: list[str] = []
    if signals.largest_image >= limits.largest_picture:
        reasons.append("large_picture")
    elif signals.image_coverage >= limits.picture_coverage:
        reasons.append("pictures")
    if marks.chart_paths >= limits.chart_paths and marks.chart_coverage >= limits.chart_coverage:
        reasons.append("chart")
    return (PageClass.HAS_GRAPHICS, tuple(reasons)) if reasons else (PageClass.TEXT_ONLY, ())


_ODD = re.compile(r"[\ufffd\ue000-\uf8ff\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_CID = re.compile(r"\(cid:\d+\)")
_LATIN_WORD = re.compile(r"[A-Za-z]{5,}")
_CONSONANTS = b"bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ"
_SOUNDS = bytes.maketrans(_CONSONANTS, b"b" * len(_CONSONANTS))
_VOWELLESS = re.compile(r"(?<![A-Za-z])[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{5,}(?![A-Za-z])")
_SYMBOL_BULLETS = re.compile(r"[\uf0a7\uf0b7\uf0d8\uf0fc\uf02d\uf0e0\uf076\uf0a8\uf06f\uf0d2\uf0be]")


def garbled_ratio(text: str) -> float:
    """The part of the text's characters that can't be what a person wrote, from 0 to 1."""
    odd = sum(map(len, _CID.findall(text))) if "(cid:" in text else 0
    if "\ufffd" in text or not text.replace("\n", "").isprintable():  # most pages have nothing odd
        # Symbol fonts put bullets in the private area; they are marks, not letters lost.
        odd += len(_ODD.findall(_SYMBOL_BULLETS.sub("", text)))
    if b"bbbbb" in text.encode("utf-8", "replace").translate(_SOUNDS):
        dumb = sum(len(w) for w in _VOWELLESS.findall(text) if not w.isupper())
        if dumb > 30:
            total = sum(map(len, _LATIN_WORD.findall(text)))
            if total >= 100 and dumb > 0.3 * total:
                odd += dumb
    return min(1.0, odd / max(1, len("".join(text.split())))) if odd else 0.0


def _clip(box: Any, width: float, height: float) -> Box | None:
    x0, y0, x1, y1 = max(0.0, box[0]), max(0.0, box[1]), min(width, box[2]), min(height, box[3])
    # Comparisons written so that NaN, which broken matrices do give, fails them.
    return (x0, y0, x1, y1) if x1 >= x0 and y1 >= y0 else None


def _size(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _covered(boxes: Iterable[Box], width: float, height: float) -> float:
    """The part of the page under at least one box, counted on a grid so that overlaps count once."""
    if width <= 0 or height <= 0:
        return 0.0
    cells = [0] * _GRID
    small = 0.0
    cell_area = (width / _GRID) * (height / _GRID)
    for x0, y0, x1, y1 in boxes:
        if (x1 - x0) * (y1 - y0) < cell_area:
            small += (x1 - x0) * (y1 - y0)
            continue
        first, last = round(x0 / width * _GRID), round(x1 / width * _GRID)
        mask = ((1 << max(0, last - first)) - 1) << first
        for row in range(round(y0 / height * _GRID), min(_GRID, round(y1 / height * _GRID))):
            cells[row] |= mask
    covered = sum(c.bit_count() for c in cells) / (_GRID * _GRID)
    return min(1.0, covered + small / (width * height))


def _shapes(paths: Sequence[Box], words: Sequence[Box], width: float, height: float) -> list[Box]:
    """Paths that are neither rules, nor frames and shading around text, nor the page's background."""
    candidates = [
        b
        for b in paths
        if b[2] - b[0] > _THIN_PT
        and b[3] - b[1] > _THIN_PT
        and not (b[2] - b[0] > 0.9 * width and b[3] - b[1] > 0.5 * height)
    ]
    if not candidates:
        return []
    points = _word_grid(words, width, height)
    return [b for b in candidates if not _holds_word(b, points, width, height)]


def _word_grid(
    words: Sequence[Box], width: float, height: float
) -> dict[tuple[int, int], list[tuple[float, float]]]:
    grid: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for x0, y0, x1, y1, *_ in words[:_WORDS_PLACED]:
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        grid.setdefault((int(x / width * _GRID), int(y / height * _GRID)), []).append((x, y))
    return grid


def _holds_word(
    box: Box, grid: dict[tuple[int, int], list[tuple[float, float]]], width: float, height: float
) -> bool:
    x0, y0, x1, y1 = box
    for column in range(int(x0 / width * _GRID), int(x1 / width * _GRID) + 1):
        for row in range(int(y0 / height * _GRID), int(y1 / height * _GRID) + 1):
            for x, y in grid.get((column, row), ()):
                if x0 <= x <= x1 and y0 <= y <= y1:
                    return True
    return False


def is_within(box: Box, other: Box) -> bool:
    """Whether the box is inside the other, give or take a rule's thickness: a table's shading is no chart."""
    return box[0] > other[0] - 3 and box[1] > other[1] - 3 and box[2] < other[2] + 3 and box[3] < other[3] + 3
