"""The parts of a page's picture, with their places: titles, paragraphs, lists, tables and figures, in reading order.

Weakness: the words and their boxes are the OCR reader's, the rest is a handful of rules about sizes and gaps. A title
is known by its height, a list by its marks, a table by gaps that line up, a figure by a block without words.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.reading.files.image_source import grey_picture
from quire.reading.ocr.ocr_stages import AUTO, OcrOptions, recognise
from quire.reading.ocr.ocr_words import Box, OcrLine, RecognisedPage, around, joined

if TYPE_CHECKING:
    from quire.settings import OcrSettings

TITLE, PARA, LIST, TABLE, FIGURE = "title", "para", "list", "table", "figure"

_TITLE_RATIO = 1.25
_TITLE_LINES = 3
_TITLE_WORDS = 25
_TABLE_ROWS = 3
_FIGURE_SHARE = 0.01
_FIGURE_SIDE_PX = 40
_INCHES = 11.0
_MARK = re.compile(r"(?:[-*•◦▪‣·–—»©®]|\(?\d{1,3}[.)]|\(?[a-z][.)])\s+\S")


@dataclass(frozen=True, slots=True)
class ElementOptions:
    languages: str = "eng"
    max_pixels: int = 100_000_000
    longest_px: int = 4000
    data_dir: str | None = None
    mode: str = AUTO

    @classmethod
    def of(cls, settings: OcrSettings, max_pixels: int) -> ElementOptions:
        ocr = OcrOptions.of(settings)
        return cls(ocr.languages, max_pixels, data_dir=ocr.data_dir, mode=ocr.mode)


@dataclass(frozen=True, slots=True)
class LayoutElement:
    """One part; `bbox` is left, top, right, bottom in pixels. A table's rows are lines, cells `|`."""

    label: str
    bbox: Box
    text: str
    reading_order: int


def read_elements(picture: bytes, options: ElementOptions) -> list[LayoutElement]:
    """The page's parts, their boxes in pixels of the picture as it came, upright or not.

    Raises PageError where the picture can't be decoded or OCR fails.
    """
    grey, scale = grey_picture(picture, max_pixels=options.max_pixels, longest_px=options.longest_px)
    dpi = min(600, max(70, round(max(grey.size) / _INCHES)))
    found = recognise(grey, OcrOptions(options.languages, dpi, options.data_dir, options.mode))
    return [replace(one, bbox=_scaled(found.turn.back(one.bbox), scale)) for one in arrange(found.seen)]


def arrange(seen: RecognisedPage) -> list[LayoutElement]:
    """Labels, texts and the order of reading, boxes in pixels of what was seen."""
    paragraphs = list(_without_tables(seen))
    heights = [line.height for lines, _ in paragraphs for line in lines if len(line.text) > 2]
    body = statistics.median_low(heights) if heights else 0.0
    parts: list[tuple[str, Box, str]] = []
    for lines, label in paragraphs:
        box = around([line.box() for line in lines])
        if label == TABLE:
            parts.append((TABLE, box, "\n".join(_row(line) for line in lines)))
        elif _is_list(lines):
            parts.append((LIST, box, "\n".join(_items(lines))))
        elif _is_title(lines, body):
            parts.append((TITLE, box, joined(line.text for line in lines)))
        else:
            parts.append((PARA, box, joined(line.text for line in lines)))
    for figure in (box for box in seen.blank if _is_figure(box, seen)):
        above = sum(1 for _, box, _ in parts if box[1] < figure[1])
        parts.insert(above, (FIGURE, figure, ""))
    return [LayoutElement(label, box, text, order) for order, (label, box, text) in enumerate(parts)]


def _without_tables(seen: RecognisedPage) -> Iterator[tuple[list[OcrLine], str]]:
    """Paragraphs as they are, except that rows of a table, wherever the reader put them, come as one part."""
    rows = _rows(seen)
    tables = list(_tables(rows))
    taken = {id(word) for table in tables for line in table for word in line.words}
    given: set[int] = set()
    for lines in seen.paragraphs:
        for index, table in enumerate(tables):
            inside = {id(word) for line in table for word in line.words}
            if index not in given and any(id(word) in inside for line in lines for word in line.words):
                given.add(index)
                yield table, TABLE
        rest = [OcrLine(words) for line in lines if (words := [w for w in line.words if id(w) not in taken])]
        if rest:
            yield rest, PARA


def _rows(seen: RecognisedPage) -> list[OcrLine]:
    """All words of the page by height, whatever block they are in: columns of a table may be blocks of their own."""
    lines = sorted((line for lines in seen.paragraphs for line in lines), key=lambda line: line.box()[1])
    rows: list[OcrLine] = []
    for line in lines:
        _, top, _, bottom = line.box()
        if rows:
            _, other_top, _, other_bottom = rows[-1].box()
            overlap = min(bottom, other_bottom) - max(top, other_top)
            if overlap > 0.5 * min(bottom - top, other_bottom - other_top):
                rows[-1].words += line.words
                continue
        rows.append(OcrLine(list(line.words)))
    for row in rows:
        row.words.sort(key=lambda word: word.left)
    return rows


def _tables(rows: list[OcrLine]) -> Iterator[list[OcrLine]]:
    """Runs of rows with the same number of short cells that begin, or end, at the same places."""
    run: list[OcrLine] = []
    for row in rows:
        if run and _aligned(run[-1], row):
            run.append(row)
            continue
        if len(run) >= _TABLE_ROWS:
            yield run
        run = [row] if len(row.cells()) > 1 else []
    if len(run) >= _TABLE_ROWS:
        yield run


def _aligned(above: OcrLine, below: OcrLine) -> bool:
    first, second = above.cells(), below.cells()
    if len(first) != len(second) or len(second) < 2:
        return False
    slack = 1.5 * max(above.height, below.height)
    if below.box()[1] - above.box()[3] > 3 * slack:
        return False
    if len(second) == 2 and max(len(cell) for cell in first + second) > 5:
        return False  # two columns of text look like this
    return all(
        abs(one[0].left - other[0].left) <= slack or abs(one[-1].right - other[-1].right) <= slack
        for one, other in zip(first, second, strict=True)
    )


def _row(line: OcrLine) -> str:
    return " | ".join(" ".join(word.text.replace("|", "/") for word in cell) for cell in line.cells())


def _is_list(lines: list[OcrLine]) -> bool:
    marked = [bool(_MARK.match(line.text)) for line in lines]
    return marked[0] and (sum(marked) > 1 or len(lines) <= 3)


def _items(lines: list[OcrLine]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if _MARK.match(line.text) or not items:
            items.append(line.text)
        else:
            items[-1] = joined((items[-1], line.text))
    return items


def _is_title(lines: list[OcrLine], body: float) -> bool:
    words = sum(len(line.words) for line in lines)
    height = statistics.median(line.height for line in lines)
    return len(lines) <= _TITLE_LINES and words <= _TITLE_WORDS and body > 0 and height >= _TITLE_RATIO * body


def _is_figure(box: Box, seen: RecognisedPage) -> bool:
    width, height = box[2] - box[0], box[3] - box[1]
    page = max(1, seen.width * seen.height)
    return min(width, height) >= _FIGURE_SIDE_PX and width * height >= _FIGURE_SHARE * page


def _scaled(box: Box, scale: float) -> Box:
    left, top, right, bottom = (round(side * scale) for side in box)
    return left, top, right, bottom
