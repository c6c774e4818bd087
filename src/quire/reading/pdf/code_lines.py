"""Tells code from text, and gives lines of code their indents and the empty lines between them, by their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine

_SAME_ROW = 0.5
_SLACK_PT = 3.0
_LEAST_SIGNS = 4
_OFF = 0.3
"""How far an indent may be from a whole number of signs, and a step from a whole number of lines."""
_MOST_EMPTY = 3
_MOST_INDENT = 120
_NEXT_LINE = 1.7
_MEASURE_EM = 20
"""A line of text that is cut is not shorter than this."""
_UNFINISHED = re.compile(r"[\w,)]$")


def with_indents(filled: Sequence[FilledBlock], lines: Sequence[TextLine]) -> list[FilledBlock]:
    """The blocks, with code as it is set where all its lines are found and of one width of type."""
    if not any(item.block.kind == "code" for item in filled):
        return list(filled)
    upright = [line for line in lines if line.upright and line.mono]
    return [
        FilledBlock(replace(item.block, lines=found), item.lines)
        if item.block.kind == "code" and (found := _indented(item.block, upright))
        else item
        for item in filled
    ]


def without_false_code(blocks: Sequence[LayoutBlock], lines: Sequence[TextLine]) -> list[LayoutBlock]:
    """The blocks, with code that is text as text: the layout reader goes by the first word of a line.

    Code is in type of one width, but for a comment or a button beside it; a name at the end of a sentence is in such
    type too, and alone in its line where the sentence is cut before it.
    """
    if not any(block.kind == "code" for block in blocks):
        return list(blocks)
    upright = [line for line in lines if line.upright]
    kept: list[LayoutBlock] = []
    for block in blocks:
        inside = [line for row in _rows(block, upright) for line in row] if block.kind == "code" else []
        if inside and not _is_mono(inside):
            kept.append(as_text(block))
        elif len(inside) == 1 and kept and _ends_sentence(inside[0], upright, kept[-1]):
            kept[-1] = _joined(kept[-1], block)
        else:
            kept.append(block)
    return kept


def as_text(block: LayoutBlock) -> LayoutBlock:
    """A block of code as a paragraph."""
    return replace(block, kind="paragraph", text=" ".join(block.lines), lines=())


def _is_mono(lines: Sequence[TextLine]) -> bool:
    return 2 * sum(len(line.text) for line in lines if line.mono) >= sum(len(line.text) for line in lines)


def _ends_sentence(line: TextLine, lines: Sequence[TextLine], block: LayoutBlock) -> bool:
    """Whether the line ends a sentence of the block above it."""
    if block.kind not in ("paragraph", "list_item"):
        return False
    return any(_goes_on(above, line) for row in _rows(block, lines) for above in row)


def _joined(block: LayoutBlock, code: LayoutBlock) -> LayoutBlock:
    text = " ".join((block.text, *code.lines))
    return replace(block, text=text, box=hull([block.box, code.box]))


def _goes_on(above: TextLine, line: TextLine) -> bool:
    """Whether the line is right below a line of text that is cut in the middle of a sentence."""
    step = line.box[3] - above.box[3]
    return (
        not above.mono
        and _SAME_ROW * line.size < step < _NEXT_LINE * above.size
        and abs(above.box[0] - line.box[0]) < line.size
        and above.box[2] - above.box[0] > _MEASURE_EM * above.size
        and _UNFINISHED.search(above.text) is not None
    )


def _indented(block: LayoutBlock, lines: Sequence[TextLine]) -> tuple[str, ...]:
    """The block's lines with indents; none where its lines are not those of the page."""
    rows = _found(block, _rows(block, lines))
    if rows is None:
        return ()
    sign = _sign_width(rows)
    left = min(row[0].box[0] for row in rows)
    indents = [(row[0].box[0] - left) / sign for row in rows]
    if any(abs(indent - round(indent)) > _OFF or indent > _MOST_INDENT for indent in indents):
        return ()
    texts: list[str] = []
    for text, indent, empty in zip(filter(str.strip, block.lines), indents, _empty_lines(rows), strict=True):
        texts += [""] * empty
        texts.append(" " * round(indent) + text.strip())
    return tuple(texts)


def _rows(block: LayoutBlock, lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines at the block's place by rows, each from left to right."""
    x0, y0, x1, y1 = block.box
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: line.middle[1]):
        x, y = line.middle
        if not (x0 - _SLACK_PT <= x <= x1 + _SLACK_PT and y0 - _SLACK_PT <= y <= y1 + _SLACK_PT):
            continue
        if rows and y - rows[-1][0].middle[1] < _SAME_ROW * line.size:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.box[0]) for row in rows]


def _found(block: LayoutBlock, rows: Sequence[list[TextLine]]) -> list[list[TextLine]] | None:
    """The rows that have the block's lines, one for each; None where one has none."""
    found: list[list[TextLine]] = []
    rest = iter(rows)
    for text in filter(str.strip, block.lines):
        wanted = "".join(text.split())
        row = next((row for row in rest if "".join("".join(one.text.split()) for one in row) == wanted), None)
        if row is None:
            return None
        found.append(row)
    return found or None


def _sign_width(rows: Sequence[Sequence[TextLine]]) -> float:
    """How wide a sign is. Spaces that a line's text has lost make it look wider, so the narrowest line counts."""
    widths = [
        (line.box[2] - line.box[0]) / len(line.text)
        for row in rows
        for line in row
        if len(line.text) >= _LEAST_SIGNS
    ]
    return max(1.0, min(widths, default=0.6 * rows[0][0].size))


def _empty_lines(rows: Sequence[Sequence[TextLine]]) -> Iterator[int]:
    """How many empty lines are before each row."""
    yield 0
    steps = [below[0].middle[1] - above[0].middle[1] for above, below in pairwise(rows)]
    least = min(steps, default=0.0)
    for step in steps:
        count = step / least - 1
        yield min(_MOST_EMPTY, round(count)) if abs(count - round(count)) <= _OFF else 0
