"""Finds reasons to doubt that the text of a page is complete and in order, from its elements and their places.

Each reason is something that text with places shows: prose that jumps from side to side was read across columns; a line
as wide as two columns between lines of both is two lines read as one; prose that goes back up in its own column was put
in another order than the page has, and so was a text from beside a list between two of its items, a text that comes
after another heading than the one it stands beside, and long notes inside of a sentence; two pieces of one line belong
together; cells that begin in the middle of a sentence, or are as long as paragraphs, are prose taken for a table; parts
of words with their hyphen, before another word, are ends of lines that another line follows than on the page; tables of
three rows, several small ones, and tables with short texts beside them are pieces of one; rows with twice the figures
of the others are two rows of a scan in one; short lines of signs are formulas whose form is lost; words of thirty
letters are words without their spaces; single words on a page with drawings are their labels. A weak sign alone is no
reason, two are.

Weakness: a page that has such a sign and is right is called fair all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from string import ascii_lowercase

from quire.domain.element import Box, Element, ElementKind
from quire.reading.grading.order_doubts import LEAST_CHARS, TEXT_KINDS, is_jump, is_out_of_order

READ_ACROSS = "columns_read_across"
PROSE_IN_TABLE = "prose_in_table"
TORN_TABLE = "torn_table"
FORMULAS = "formulas"
GLUED_WORDS = "glued_words"
SCATTERED = "scattered_words"
TORN_SENTENCES = "torn_sentences"
LOOSE_SIGNS = "loose_signs"
OUT_OF_ORDER = "out_of_order"
TORN_LINES = "torn_lines"
COMPLEX_PAGE = "complex_page"

_SAME_LINE = 0.5
_WORD_SPACE = 1.2
_LEAST_JUMPS, _JUMPS_SHARE = 4, 0.11
_FEW_JUMPS = 3
_LEAST_INTRUDERS = 2
_LEAST_LOOSE = 3
_LEAST_JOINED = 3
_COLUMN_LINES = 5
_LEAST_COLUMN_PT = 40.0
_ADJACENT = 0.35
_SAME_HEIGHT = 0.15
_FILLED = 0.6
_MOST_LINES = 400
_LONG_CELL_WORDS = 25
_MANY_EMPTY = 0.3
_LEAST_TORN_LINES = 2
"""One may be a label close to a text."""
_COLUMN_STARTS, _EDGE_PT, _ROW_PT = 4, 3.0, 6.0
_MANY_TORN = 5
"""So many sentences go on in the next paragraph only where lines are out of their order. OCR also tears paragraphs."""
_MOSTLY_EMPTY = 0.4
"""Of a scan: readers miss figures that are alone in their cells."""
_FEW_FIGURES, _LEAST_FIGURES = 3, 4
_LEAST_BESIDE, _FEW_WORDS = 3, 6
_TORN_END = re.compile(r"[a-z,-]$")
_OPERATORS = "=+∑∫≤≥<>("
_LEAST_GLUED = 24
_GLUED = re.compile(rf"[a-z]{{{_LEAST_GLUED},}}")
_SMALL_LETTERS = bytes.maketrans(ascii_lowercase.encode(), b"a" * len(ascii_lowercase))
_TORN_WORD = re.compile(r"[a-z]- (?!(?:and|or|to|und|oder|bis|et|ou|y|o|e)\b)[A-Za-z]")
"""A hyphen at the end of a line that the next line does not go on from; "pre- and post-war" is none."""

Line = tuple[int, Box]
"""The number of characters of a line, and its box."""


@dataclass(frozen=True, slots=True)
class PageKind:
    """What is known of a page besides its elements."""

    has_graphics: bool = False
    by_ocr: bool = False


def page_doubts(elements: Sequence[Element], kind: PageKind | None = None) -> tuple[str, ...]:
    """The reasons to doubt a page's text; none for a page whose elements have no places, as those of office files."""
    shown = [element for element in elements if not element.repeated]
    if not any(element.box for element in shown):
        return ()
    kind = kind or PageKind()
    signs = _Signs(shown)
    doubts = (
        (READ_ACROSS, signs.is_read_across),
        (PROSE_IN_TABLE, signs.prose_rows >= 2 or signs.long_cells >= 2),
        (
            TORN_TABLE,
            signs.smallest_table <= 3
            or (signs.tables >= 2 and signs.rows <= 6 * signs.tables)
            or (kind.by_ocr and (signs.empty_cells > _MOSTLY_EMPTY or signs.joined_rows > 0))
            or _texts_beside_tables(shown) >= _LEAST_BESIDE,
        ),
        (FORMULAS, signs.formulas >= 2),
        (GLUED_WORDS, signs.glued >= 2),
        (SCATTERED, signs.single_words >= (4 if kind.has_graphics else 6 if kind.by_ocr else 10_000)),
        (
            TORN_SENTENCES,
            signs.torn_words >= 2
            or _torn(signs.paragraphs) >= max(_MANY_TORN, 0.3 * len(signs.paragraphs) if kind.by_ocr else 0),
        ),
        (LOOSE_SIGNS, _has_loose_signs(shown)),
        (OUT_OF_ORDER, is_out_of_order(shown)),
        (TORN_LINES, signs.torn_lines >= _LEAST_TORN_LINES),
    )
    found = tuple(reason for reason, is_found in doubts if is_found)
    return found or ((COMPLEX_PAGE,) if signs.weak(kind) >= 2 else ())


class _Signs:
    """Counts of what may be wrong with a page's elements."""

    def __init__(self, elements: Sequence[Element]) -> None:
        paragraphs = [element.text for element in elements if element.kind is ElementKind.PARAGRAPH]
        grids = [element.table.rows for element in elements if element.table]
        cells = [cell for rows in grids for row in rows for cell in row]
        self.paragraphs = paragraphs
        self.single_words = sum(len(text.split(None, 2)) <= 2 for text in paragraphs)
        self.tables = len(grids)
        self.rows = sum(map(len, grids))
        self.smallest_table = min(map(len, grids), default=100)
        self.empty_cells = sum(not cell for cell in cells) / len(cells) if cells else 0.0
        self.long_cells = sum(len(cell.split()) >= _LONG_CELL_WORDS for cell in cells)
        self.joined_rows = sum(map(_joined_rows, grids))
        self.prose_rows = sum(any(map(_is_sentence_part, row[1:])) for rows in grids for row in rows)
        text = "\n".join([element.text for element in elements if not element.table])
        self.formulas = _formulas(text)
        self.glued = _glued(text)
        self.torn_words = len(_TORN_WORD.findall(text)) if "- " in text else 0
        every = list(_lines(elements))
        self.torn_lines = _torn_lines([box for _, box in every[:_MOST_LINES]])
        lines = [box for chars, box in every if chars >= LEAST_CHARS]
        self.jumps = _jumps(lines)
        self.is_read_across = _is_read_across(
            lines[:_MOST_LINES], self.jumps if len(lines) <= _MOST_LINES else _jumps(lines[:_MOST_LINES])
        )

    def weak(self, kind: PageKind) -> int:
        """How many signs there are that are no reason alone."""
        return sum(
            (
                self.formulas == 1,
                self.prose_rows == 1,
                self.jumps >= _FEW_JUMPS,
                self.empty_cells > _MANY_EMPTY,
                self.single_words >= 3,
                self.tables >= 2,
                kind.has_graphics,
                self.glued == 1,
            )
        )


def _joined_rows(rows: Sequence[Sequence[str]]) -> int:
    """How many rows hold several: twice as many figures as the others in two or more columns, or three times in one."""
    counts = [[sum(map(_has_digit, cell.split())) for cell in row] for row in rows]
    found = [0] * len(rows)
    for column in zip_longest(*counts, fillvalue=0):
        filled = sorted(filter(None, column))
        if len(filled) < _FEW_FIGURES:
            continue
        usual = filled[len(filled) // 4]
        for place, count in enumerate(column):
            if count >= 3 * usual:
                found[place] += 2
            elif len(filled) >= _LEAST_FIGURES:
                found[place] += count >= 2 * usual
    return sum(columns >= 2 for columns in found)


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_sentence_part(cell: str) -> bool:
    return cell[:1].islower() and " " in cell


def _torn(paragraphs: Sequence[str]) -> int:
    """How many paragraphs end in the middle of a sentence that the next one goes on with."""
    return sum(other[:1].islower() and bool(_TORN_END.search(one)) for one, other in pairwise(paragraphs))


def _glued(text: str) -> int:
    """How many words are too long to be one. Few pages have any, and looking for letters is slower than for bytes."""
    letters = text.encode("utf-8", "replace").translate(_SMALL_LETTERS)
    return len(_GLUED.findall(text)) if b"a" * _LEAST_GLUED in letters else 0


def _formulas(text: str) -> int:
    """In how many lines most of the words are single signs, and one is an operator or a bracket."""
    operators = [sign for sign in _OPERATORS if sign in text]
    if not operators:
        return 0
    return sum(any(sign in line for sign in operators) and _is_of_signs(line) for line in text.split("\n"))


def _is_of_signs(line: str) -> bool:
    words = line.split()
    if not 3 <= len(words) <= 40:
        return False
    return sum(len(word) <= 2 for word in words) >= 0.6 * len(words)


def is_read_across(elements: Sequence[Element]) -> bool:
    """Whether lines of prose go on from one column into the next."""
    lines = _prose_boxes(elements)
    return _is_read_across(lines[:_MOST_LINES], _jumps(lines[:_MOST_LINES]))


def _is_read_across(lines: Sequence[Box], jumps: int) -> bool:
    if not jumps:
        return False
    if jumps >= _LEAST_JUMPS and jumps >= _JUMPS_SHARE * len(lines):
        return True
    if _intruders(lines) >= _LEAST_INTRUDERS:
        return True
    return jumps >= _FEW_JUMPS and _joined_lines(lines) >= _LEAST_JOINED


def _prose_boxes(elements: Sequence[Element]) -> list[Box]:
    """The boxes of the lines of prose, in reading order; very short lines are left out."""
    return [box for chars, box in _lines(elements) if chars >= LEAST_CHARS]


def _jumps(lines: Sequence[Box]) -> int:
    return sum(is_jump(one, other) for one, other in pairwise(lines))


def _torn_lines(lines: Sequence[Box]) -> int:
    """How many lines are right behind another one that they do not follow: two pieces of one line.

    Lines that begin where several do are those of a column, whose gutter may be narrow.
    """
    if _is_one_below_another(lines):
        return 0
    starts: dict[int, int] = {}
    rows: dict[int, list[int]] = {}
    for at, (left, top, _, bottom) in enumerate(lines):
        edge, row = int(left / _EDGE_PT), int((top + bottom) / 2 / _ROW_PT)
        starts[edge] = starts.get(edge, 0) + 1
        rows.setdefault(row, []).append(at)
    found = 0
    for at, box in enumerate(lines):
        edge, row = int(box[0] / _EDGE_PT), int((box[1] + box[3]) / 2 / _ROW_PT)
        if starts[edge] + starts.get(edge - 1, 0) + starts.get(edge + 1, 0) >= _COLUMN_STARTS:
            continue
        level = (other for near in (row - 1, row, row + 1) for other in rows.get(near, ()))
        found += any(other not in (at - 1, at) and _goes_on(lines[other], box) for other in level)
    return found


def _is_one_below_another(lines: Sequence[Box]) -> bool:
    """Whether each line is below the one before it: then no two are at one height, as in a single column."""
    shared = _SAME_LINE * min((box[3] - box[1] for box in lines), default=0.0)
    return all(one[1] <= other[1] and one[3] - other[1] < shared for one, other in pairwise(lines))


def _lines(elements: Sequence[Element]) -> Iterator[Line]:
    """The lines of prose in reading order. OCR may give a line in pieces; pieces a word space apart are one line."""
    for element in elements:
        if element.kind not in TEXT_KINDS or element.repeated or not element.lines:
            continue
        ends = [*(line.start for line in element.lines[1:]), len(element.text)]
        whole: Line | None = None
        for line, end in zip(element.lines, ends, strict=True):
            size = end - line.start
            if whole and _goes_on(whole[1], line.box):
                x0, y0, x1, y1 = whole[1]
                whole = (
                    whole[0] + size,
                    (x0, min(y0, line.box[1]), max(x1, line.box[2]), max(y1, line.box[3])),
                )
                continue
            if whole:
                yield whole
            whole = size, line.box
        if whole:
            yield whole


def _goes_on(one: Box, other: Box) -> bool:
    """Whether the second piece is right behind the first one, on the same line."""
    height = min(one[3] - one[1], other[3] - other[1])
    shared = min(one[3], other[3]) - max(one[1], other[1])
    return shared >= _SAME_LINE * height and 0 <= other[0] - one[2] + height <= (1 + _WORD_SPACE) * height


def _intruders(lines: Sequence[Box]) -> int:
    """How many lines of another column are between two lines of one paragraph."""
    return sum(
        is_jump(one, between) and is_jump(between, other) and _is_adjacent(one, other)
        for one, between, other in zip(lines, lines[1:], lines[2:], strict=False)
    )


def _joined_lines(lines: Sequence[Box]) -> int:
    """How many lines cross a gutter right above or below lines that keep to it."""
    starts: dict[int, list[Box]] = {}
    for box in lines:
        starts.setdefault(round(box[0] / 4), []).append(box)
    most = 0
    for start in starts:
        right = [box for near in (-1, 0, 1) for box in starts.get(start + near, ())]
        if len(right) < _COLUMN_LINES:
            continue
        edge = min(box[0] for box in right)
        left = [box for box in lines if box[2] <= edge + 4 and box[0] < edge - _LEAST_COLUMN_PT]
        if len(left) < _COLUMN_LINES or not _fills(left, edge):
            continue
        across = [box for box in lines if box[0] < edge - 25 and box[2] > edge + 25]
        beside = [*left, *right]
        most = max(most, sum(any(_is_adjacent(box, other) for other in beside) for box in across))
    return most


def _fills(lines: Sequence[Box], edge: float) -> bool:
    """Whether most of the lines are as wide as the column that ends at `edge`."""
    widths = sorted(box[2] - box[0] for box in lines)
    return widths[len(widths) // 2] >= _FILLED * (edge - min(box[0] for box in lines))


def _is_adjacent(box: Box, other: Box) -> bool:
    """Whether both are lines of one paragraph by their distance and their height."""
    height = box[3] - box[1]
    gap = max(other[1] - box[3], box[1] - other[3])
    return gap < _ADJACENT * height and abs(other[3] - other[1] - height) < _SAME_HEIGHT * height


def _texts_beside_tables(elements: Sequence[Element]) -> int:
    """How many texts of few words are beside a table, at the height of its rows: columns that it has lost."""
    tables = [element.box for element in elements if element.table and element.box]
    if not tables:
        return 0
    return sum(
        element.kind in TEXT_KINDS
        and element.box is not None
        and len(element.text.split()) <= _FEW_WORDS
        and any(_is_beside(element.box, table) for table in tables)
        for element in elements
    )


def _is_beside(box: Box, table: Box) -> bool:
    middle = (box[1] + box[3]) / 2
    return table[1] < middle < table[3] and (box[0] >= table[2] or box[2] <= table[0])


def _has_loose_signs(elements: Sequence[Element]) -> bool:
    """Whether letters are alone in their paragraphs: what is left of formulas, or labels of a drawing."""
    loose = sum(
        element.kind is ElementKind.PARAGRAPH
        and not element.repeated
        and len(element.text) <= 3
        and any(map(str.isalpha, element.text))
        for element in elements
    )
    return loose >= _LEAST_LOOSE
