"""Paragraphs, items of lists and headings that the rows of one column make, one below the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.structure_tags import item_key
from quire.reading.pdf.text_lines import BULLETS, body_size
from quire.reading.pdf.text_rows import CLAUSE, LABEL, WORD_GAP_EM, TextRow

_SAME_SIZE = 0.6
_INDENT_EM = 0.8
_FULL_GAP = 1.22
"""A step from line to line larger than this, in usual steps, is a gap between blocks."""
_USUAL_STEP_EM = 1.3
_ENOUGH_STEPS = 3
_HEADING_ROWS = 3
_LARGE = 1.15
_SMALLER_NAME = 1.3
_SAME_RIGHT = 12.0

_BULLET = re.compile(rf"([{BULLETS}]|o(?=\s))\s*(?=\S)")
_DASH = re.compile(r"([-–—−*])\s+(?=\S)")
_ORDERED = re.compile(r"(\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+(?=\S)")
_FIGURE = r"[\d⁰¹²³⁴-⁹]"
_MID_SENTENCE = re.compile(rf"(?<![.!?:;])(?<![.!?:;]{_FIGURE})(?<![.!?:;]{_FIGURE}{{2}})[\w,–—-]$")
"""A number behind a full stop is that of a note."""
_HANGING_WORDS = 5
_ASTERISK = "*"
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*[⁰¹²³⁴-⁹,]*$")
_MOST_KEPT, _KEPT_WIDTH = 40, 0.7
_PAIR, _KEPT_PAIR = 2, 0.45
_WORD_WIDTH = 1.15
_LONGEST_END = 24
"""Of a line, where the end of a sentence with its marks is looked for."""

TypeSteps = tuple[float, dict[int, float]]
"""The usual distance from line to line, in sizes of the type, and that of each size that has one of its own."""


@dataclass(slots=True)
class _Run:
    """A block as it grows, and where its text begins: lines of an item or a reference hang below its first word."""

    rows: list[TextRow]
    marker: str = ""
    ordered: bool = False
    text_x: float = 0.0
    keeps_lines: bool = False

    def block(self, level: int) -> FilledBlock:
        box = hull([row.box for row in self.rows])
        ends = [row.source.right for row in self.rows if row.source is not None]
        if ends:
            box = (box[0], box[1], max(box[2], *ends), box[3])
        lines = [line for row in self.rows for line in row.lines]
        is_heading = len(self.rows) <= _HEADING_ROWS and all(row.says_heading for row in self.rows)
        kind = "list_item" if self.marker else "heading" if is_heading else "paragraph"
        return FilledBlock(
            LayoutBlock(
                *(kind, box),
                marker=self.marker,
                ordered=self.ordered,
                level=level,
                keeps_lines=self.keeps_lines,
            ),
            lines,
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """What rows are judged by: the right margin, the usual step from line to line in sizes, the body's size."""

    left: float
    right: float
    step: float
    body: float
    steps: dict[int, float]
    """The usual step of each size of type that has one of its own: notes and lists of names are often set wider."""
    items: frozenset[str]

    def is_apart(self, row: TextRow, other: TextRow, goes_on: bool = False) -> bool:
        """Whether more than the usual space is between the rows.

        Where a sentence goes on, the smaller step counts: a tall sign of a formula moves one edge of its row only.
        """
        size = max(row.size, other.size)
        step = other.box[3] - row.box[3]
        if goes_on:
            step = min(step, other.box[1] - row.box[1])
        return step > _FULL_GAP * self.steps.get(round(size), self.step) * size

    def ended_early(self, row: TextRow, following: TextRow) -> bool:
        """Whether the first word of the following row would have fitted behind the row."""
        room = self.right - row.box[2] - row.size
        if room <= 0:
            return False
        text = following.text
        first = text.split(" ", 1)[0]
        width = (following.box[2] - following.box[0]) * (len(first) + 1) / max(1, len(text))
        return 1.3 * width < room


def blocks_of(
    rows: Sequence[TextRow],
    items: frozenset[str],
    *,
    body: float = 0.0,
    steps: TypeSteps | None = None,
) -> list[FilledBlock]:
    """The blocks of the rows of a column, from top to bottom.

    `items` are keys of texts that are tagged as items of lists. Without `body` and `steps` the rows themselves say
    which size of type and which distance from line to line are usual.
    """
    body = body or body_size(line for row in rows for line in row.lines)
    usual, by_size = steps or usual_steps([rows])
    left = min((row.box[0] for row in rows), default=0.0)
    column = _Column(left, _right_margin(rows), usual, body, by_size, items)
    runs: list[_Run] = []
    for i, row in enumerate(rows):
        _add(runs, row, rows[i + 1] if i + 1 < len(rows) else None, column)
    for run in runs:
        run.keeps_lines = not run.marker and len(run.rows) > 1 and _keeps_lines(run.rows, column)
    return _with_levels(_without_notes(runs))


def _keeps_lines(rows: Sequence[TextRow], column: _Column) -> bool:
    """Whether its lines were ended on purpose, as those of an address or a verse.

    None comes near the width of the column. Each of them begins anew, or behind half of them the next word would have
    fitted into the width of the longest: text that is set narrower goes on in lower case, and fills its own width.
    """
    widths = [row.box[2] - row.box[0] for row in rows]
    widest = max(widths)
    room = widest / max(1.0, column.right - column.left)
    if len(rows) > _MOST_KEPT or room > _KEPT_WIDTH:
        return False
    if any(line.math for row in rows for line in row.lines):
        return False
    texts = [row.text for row in rows]
    begins_anew = not any(text[0].islower() for text in texts[1:])
    if len(rows) == _PAIR or begins_anew:
        return begins_anew and (len(rows) > _PAIR or room <= _KEPT_PAIR)
    early = 0
    for row, width, text in zip(rows[1:], widths, texts[1:], strict=False):
        word = (row.box[2] - row.box[0]) * (len(text.split(" ", 1)[0]) + 1) / max(1, len(text))
        early += _WORD_WIDTH * word < widest - width
    return 2 * early >= len(rows) - 1


def _without_notes(runs: list[_Run]) -> list[_Run]:
    """The blocks, an item with an asterisk that has no other beside it as a paragraph: it is a note."""
    marks = ["", *(run.marker for run in runs), ""]
    for run, above, below in zip(runs, marks, marks[2:], strict=False):
        if run.marker == _ASTERISK and _ASTERISK not in (above, below):
            run.marker = ""
    return runs


def _right_margin(rows: Sequence[TextRow]) -> float:
    """Where lines end at the farthest.

    The first or the last line is no measure if it alone ends farther right, as a wide footer. Any other line is: where
    most are short, as on a page of lists, the one that fills the measure may be alone.
    """
    rights = sorted((row.box[2] for row in rows), reverse=True)
    shared = next((x for x, other in pairwise(rights) if x - other <= _SAME_RIGHT), max(rights, default=0.0))
    return max([shared, *(row.box[2] for row in rows[1:-1])])


def usual_steps(columns: Sequence[Sequence[TextRow]]) -> TypeSteps:
    """The usual distance from line to line, in sizes of the type, as the lines behind full ones show it.

    Of all columns, and of each size of type.
    """
    every: list[float] = []
    pairs: list[tuple[TextRow, TextRow]] = []
    by_size: dict[int, list[float]] = {}
    for rows in columns:
        right = _right_margin(rows)
        for row, following in pairwise(rows):
            step = (following.box[3] - row.box[3]) / max(row.size, 1.0)
            if _same_type(row, following) and 0.7 < step < 3 and row.box[2] > right - 4 * row.size:
                every.append(step)
                if len(pairs) < _ENOUGH_STEPS:
                    pairs.append((row, following))
                by_size.setdefault(round(row.size), []).append(step)
    if len(every) >= _ENOUGH_STEPS:
        usual = _median(every)
    else:
        going_on = (step for step, pair in zip(every, pairs, strict=True) if _goes_on_below(*pair))
        usual = max(_USUAL_STEP_EM, next(going_on, 0.0))
    return usual, {size: _median(steps) for size, steps in by_size.items() if len(steps) >= _ENOUGH_STEPS}


def _goes_on_below(row: TextRow, following: TextRow) -> bool:
    """Whether a sentence goes on there; letters of many scripts have no capitals."""
    first = following.text[0]
    is_word = first.isalpha() and first == first.lower()
    is_prose = row.text.count(" ") >= _HANGING_WORDS and "=" not in row.text + following.text
    return is_word and is_prose and not _ends_sentence(row)


def _median(steps: list[float]) -> float:
    return sorted(steps)[len(steps) // 2]


def _same_type(row: TextRow, other: TextRow) -> bool:
    return abs(row.size - other.size) <= _SAME_SIZE


def _add(runs: list[_Run], row: TextRow, following: TextRow | None, column: _Column) -> None:
    """Append the row to the block it continues, or begin one."""
    run = runs[-1] if runs else None
    marker, ordered = _marker(row, run, column)
    label = row.lines[0].text
    if len(row.lines) > 1 and (LABEL.fullmatch(label) or _is_beside_text(row, following, column)):
        runs.append(_Run([row], text_x=row.lines[1].box[0]))
    elif marker:
        runs.append(_Run([row], marker, ordered, _text_x(row, marker)))
    elif run is not None and _continues(run, row, following, column):
        run.rows.append(row)
    else:
        runs.append(_Run([row]))


def _is_beside_text(row: TextRow, following: TextRow | None, column: _Column) -> bool:
    """Whether its first piece is the number of a clause or a label, apart from its text.

    A label is in the size of the text, and what is below it is below its text or a row of its own.
    """
    first, second = row.lines[:2]
    if second.bold:
        return False
    if CLAUSE.fullmatch(first.text):
        return True
    if first.text[-1] != ":" or not first.text[0].isupper() or row.size > _LARGE * column.body:
        return False
    if second.box[0] - first.box[2] < WORD_GAP_EM * second.size:
        return False
    if following is None:
        return True
    hangs = following.box[0] > second.box[0] - _INDENT_EM * second.size
    return hangs or column.is_apart(row, following) or column.ended_early(row, following)


def _marker(row: TextRow, run: _Run | None, column: _Column) -> tuple[str, bool]:
    """The mark with which the row begins an item, and whether it counts; an empty one if it begins none."""
    text = row.text
    found = _BULLET.match(text)
    if found:
        return found[1], False
    found = _DASH.match(text) or _ORDERED.match(text)
    is_ordered = found is not None and found.re is _ORDERED
    if not found or (row.bold and is_ordered) or row.size > _LARGE * column.body or text.isupper():
        return "", False  # a numbered heading is no item
    if run is not None and not run.marker and not (column.items and item_key(text) in column.items):
        # Inside a paragraph a dash or a figure at the start of a line is just where the line broke.
        last = run.rows[-1]
        if _same_type(last, row) and not (column.is_apart(last, row) or column.ended_early(last, row)):
            return "", False
    return found[1], is_ordered


def _text_x(row: TextRow, marker: str) -> float:
    """Where the item's text begins, behind the mark."""
    first = row.lines[0]
    if len(row.lines) > 1 and first.text == marker:
        return row.lines[1].box[0]
    share = (len(marker) + 1) / max(1, len(first.text))
    return first.box[0] + min(share * (first.box[2] - first.box[0]), 1.5 * first.size)


def _continues(run: _Run, row: TextRow, following: TextRow | None, column: _Column) -> bool:
    """Whether the row goes on with the block; `following` is the row after it."""
    last = run.rows[-1]
    goes_on = row.text[:1].islower() and not _ends_sentence(last)
    if not _in_one_type(last, row, goes_on) or column.is_apart(last, row, goes_on):
        return False
    if run.text_x:
        hangs = row.box[0] > run.text_x - _INDENT_EM * row.size
        return hangs or goes_on or not column.ended_early(last, row)
    if last.bold != row.bold and _is_heading_over(last, row, goes_on, column):
        return False
    hangs_as_heading = goes_on and last.bold and row.bold
    if hangs_as_heading or _is_centred(last, row):
        return True
    indented = row.box[0] > last.box[0] + _INDENT_EM * row.size
    if indented and not (_is_below(row, last) and (goes_on or _is_unfinished(last, row, column))):
        begins = following is None or following.box[0] < row.box[0] - 0.5 * row.size or len(run.rows) > 1
        if begins:
            return False
    return not (_ends_sentence(last) and last.box[2] < column.right - 0.25 * (column.right - last.box[0]))


def _ends_sentence(row: TextRow) -> bool:
    return _SENTENCE_END.search(row.text[-_LONGEST_END:]) is not None


def _is_below(row: TextRow, other: TextRow) -> bool:
    """Whether it is no piece of the same row."""
    return row.box[1] > (other.box[1] + other.box[3]) / 2


def _is_unfinished(row: TextRow, following: TextRow, column: _Column) -> bool:
    """Whether a full line of the text or of a bold heading ends in a sentence: the indented line below it hangs."""
    if row.text.count(" ") < _HANGING_WORDS - 1 or not _MID_SENTENCE.search(row.text):
        return False
    is_text = row.bold or row.size <= _LARGE * column.body
    return is_text and not column.ended_early(row, following)


def _is_heading_over(row: TextRow, following: TextRow, goes_on: bool, column: _Column) -> bool:
    """Whether the weight changes between two rows because the one is a heading, not because a word is in bold."""
    if goes_on and not (row.all_bold or following.all_bold):
        return False
    if column.ended_early(row, following) or (row.all_bold and not goes_on):
        return True
    # A full line may end in a full stop: a row in bold throughout does not go on with it.
    return following.all_bold and not goes_on and _ends_sentence(row)


def _in_one_type(row: TextRow, following: TextRow, goes_on: bool) -> bool:
    """Whether size and the layout reader's headings allow one block.

    Where a sentence goes on, a size that is a little off is an error of a scan's text layer; a name in type of one
    width is set smaller.
    """
    if _same_type(row, following):
        return goes_on or row.source is following.source or row.heading == following.heading
    most = _SMALLER_NAME if row.lines[0].mono or following.lines[0].mono else _LARGE
    return goes_on and max(row.size, following.size) <= most * min(row.size, following.size)


def _is_centred(row: TextRow, other: TextRow) -> bool:
    left, right = other.box[0] - row.box[0], row.box[2] - other.box[2]
    return abs(left) > 2 and abs(left - right) < 3


def _with_levels(runs: Sequence[_Run]) -> list[FilledBlock]:
    """The blocks; an item that is indented farther than the one above belongs to it."""
    filled: list[FilledBlock] = []
    indents: list[float] = []
    for run in runs:
        if run.marker:
            x, size = run.rows[0].box[0], run.rows[0].size
            while indents and indents[-1] > x + 0.5 * size:
                indents.pop()
            if not indents or x > indents[-1] + _INDENT_EM * size:
                indents.append(x)
        else:
            indents.clear()
        filled.append(run.block(max(0, len(indents) - 1)))
    return filled
