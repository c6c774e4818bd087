"""The parts of a page's picture, with their places: titles, paragraphs, lists, tables and figures, in reading order.

Weakness: the words and their boxes are Tesseract's, the rest is a handful of rules about sizes and gaps. A title
is told by its height, a list by its marks, a table by gaps that line up, a figure by a block without words.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from quire.errors import PageError
from quire.reading.ocr import OcrOptions, word_table

TITLE, PARA, LIST, TABLE, FIGURE = "title", "para", "list", "table", "figure"

_NOISE = 30.0
_TITLE_RATIO = 1.25
_TITLE_LINES = 3
_TITLE_WORDS = 25
_CELL_GAP = 1.8
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


@dataclass(frozen=True, slots=True)
class Element:
    """One part; `bbox` is left, top, right, bottom in pixels of the image. A table's rows are lines, cells `|`."""

    label: str
    bbox: tuple[int, int, int, int]
    text: str
    reading_order: int


@dataclass(frozen=True, slots=True)
class Word:
    left: int
    top: int
    right: int
    bottom: int
    text: str

    @property
    def height(self) -> int:
        return self.bottom - self.top


@dataclass(slots=True)
class Line:
    words: list[Word]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def height(self) -> float:
        return statistics.median(word.height for word in self.words)

    def box(self) -> tuple[int, int, int, int]:
        return around([(word.left, word.top, word.right, word.bottom) for word in self.words])

    def cells(self) -> list[list[Word]]:
        """The words, cut where the gap between two is much wider than a space."""
        found = [[self.words[0]]]
        for before, word in zip(self.words, self.words[1:], strict=False):
            if word.left - before.right > _CELL_GAP * self.height:
                found.append([])
            found[-1].append(word)
        return found


@dataclass(slots=True)
class Seen:
    """What was recognised: paragraphs of lines, and boxes without words."""

    width: int
    height: int
    paragraphs: list[list[Line]] = field(default_factory=list)
    blank: list[tuple[int, int, int, int]] = field(default_factory=list)


def read_elements(picture: bytes, options: ElementOptions) -> list[Element]:
    """The page's parts. Raises PageError where the picture can't be decoded or OCR fails."""
    png, scale, size = _prepared(picture, options)
    dpi = min(600, max(70, round(max(size) / _INCHES)))
    table = word_table(png, OcrOptions(options.languages, dpi))
    return arrange(see(table), scale)


def see(table: str) -> Seen:
    """Tesseract's table as lines and boxes; words it is not sure of are noise."""
    seen = Seen(0, 0)
    rows = list(csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE))
    for _, block in groupby(
        (row for row in rows if row["block_num"] != "0"), key=lambda row: row["block_num"]
    ):
        members = list(block)
        paragraphs = list(_paragraphs(members))
        if paragraphs:
            seen.paragraphs += paragraphs
        elif members:
            seen.blank.append(_box(members[0]))
    if rows:
        _, _, seen.width, seen.height = _box(rows[0])
    return seen


def arrange(seen: Seen, scale: float = 1.0) -> list[Element]:
    """Labels, texts and the order of reading."""
    paragraphs = list(_without_tables(seen))
    heights = [line.height for lines, _ in paragraphs for line in lines if len(line.text) > 2]
    body = statistics.median_low(heights) if heights else 0.0
    parts: list[tuple[str, tuple[int, int, int, int], str]] = []
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
    return [
        Element(label, _scaled(box, scale), text, order) for order, (label, box, text) in enumerate(parts)
    ]


def around(boxes: list[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def joined(lines: Iterator[str]) -> str:
    """Lines as one text; a word that was hyphenated at a line's end is whole again."""
    text = ""
    for line in lines:
        hyphenated = text.endswith("-") and line[:1].islower()
        text = text[:-1] + line if hyphenated else f"{text} {line}".strip()
    return text


def _prepared(picture: bytes, options: ElementOptions) -> tuple[bytes, float, tuple[int, int]]:
    """The picture upright, in grey and not too large; and how many of its pixels make one of these."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(picture)) as opened:
            if opened.width * opened.height > options.max_pixels:
                raise PageError(f"The image is too large ({opened.width} × {opened.height} pixels).")
            upright = ImageOps.exif_transpose(opened)
            grey = (upright if upright is not None else opened).convert("L")
    except (PageError, MemoryError):
        raise
    except Exception as error:
        raise PageError("The image is damaged and could not be decoded.") from error
    scale = max(1.0, max(grey.size) / options.longest_px)
    if scale > 1.0:
        grey = grey.resize((max(1, round(grey.width / scale)), max(1, round(grey.height / scale))))
    out = io.BytesIO()
    grey.save(out, "PNG", compress_level=1)
    return out.getvalue(), scale, grey.size


def _paragraphs(rows: list[dict[str, str]]) -> Iterator[list[Line]]:
    words = [row for row in rows if row["level"] == "5" and (row["text"] or "").strip()]
    sure = [row for row in words if float(row["conf"]) >= _NOISE]
    for _, paragraph in groupby(sure, key=lambda row: row["par_num"]):
        lines = [
            Line([Word(*_box(row), row["text"].strip()) for row in line])
            for _, line in groupby(paragraph, key=lambda row: row["line_num"])
        ]
        if lines:
            yield lines


def _without_tables(seen: Seen) -> Iterator[tuple[list[Line], str]]:
    """Paragraphs as they are, except that rows of a table, wherever Tesseract put them, come as one part."""
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
        rest = [Line(words) for line in lines if (words := [w for w in line.words if id(w) not in taken])]
        if rest:
            yield rest, PARA


def _rows(seen: Seen) -> list[Line]:
    """All words of the page by height, whatever block they are in: columns of a table may be blocks of their own."""
    lines = sorted((line for lines in seen.paragraphs for line in lines), key=lambda line: line.box()[1])
    rows: list[Line] = []
    for line in lines:
        _, top, _, bottom = line.box()
        if rows:
            _, other_top, _, other_bottom = rows[-1].box()
            overlap = min(bottom, other_bottom) - max(top, other_top)
            if overlap > 0.5 * min(bottom - top, other_bottom - other_top):
                rows[-1].words += line.words
                continue
        rows.append(Line(list(line.words)))
    for row in rows:
        row.words.sort(key=lambda word: word.left)
    return rows


def _tables(rows: list[Line]) -> Iterator[list[Line]]:
    """Runs of rows with the same number of short cells that begin, or end, at the same places."""
    run: list[Line] = []
    for row in rows:
        if run and _aligned(run[-1], row):
            run.append(row)
            continue
        if len(run) >= _TABLE_ROWS:
            yield run
        run = [row] if len(row.cells()) > 1 else []
    if len(run) >= _TABLE_ROWS:
        yield run


def _aligned(above: Line, below: Line) -> bool:
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


def _row(line: Line) -> str:
    return " | ".join(" ".join(word.text.replace("|", "/") for word in cell) for cell in line.cells())


def _is_list(lines: list[Line]) -> bool:
    marked = [bool(_MARK.match(line.text)) for line in lines]
    return marked[0] and (sum(marked) > 1 or len(lines) <= 3)


def _items(lines: list[Line]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if _MARK.match(line.text) or not items:
            items.append(line.text)
        else:
            items[-1] = joined(iter((items[-1], line.text)))
    return items


def _is_title(lines: list[Line], body: float) -> bool:
    words = sum(len(line.words) for line in lines)
    height = statistics.median(line.height for line in lines)
    return len(lines) <= _TITLE_LINES and words <= _TITLE_WORDS and body > 0 and height >= _TITLE_RATIO * body


def _is_figure(box: tuple[int, int, int, int], seen: Seen) -> bool:
    width, height = box[2] - box[0], box[3] - box[1]
    page = max(1, seen.width * seen.height)
    return min(width, height) >= _FIGURE_SIDE_PX and width * height >= _FIGURE_SHARE * page


def _box(row: dict[str, str]) -> tuple[int, int, int, int]:
    left, top = int(row["left"]), int(row["top"])
    return left, top, left + int(row["width"]), top + int(row["height"])


def _scaled(box: tuple[int, int, int, int], scale: float) -> tuple[int, int, int, int]:
    left, top, right, bottom = (round(side * scale) for side in box)
    return left, top, right, bottom
