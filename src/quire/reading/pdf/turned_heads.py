"""Owns tables with turned text at them: heads of narrow columns, and labels beside the rows.

A turned word is as high as several rows, so rows that are made with it are torn. The rows are found without turned
text. What is above a column then is its head; what is beside the table stays text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.drawn_rules import Box, Rules
from quire.reading.pdf.line_pieces import PageWord, is_number, lines_text
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine

_MOST_TURNED, _MOST_WORDS = 100, 8_000
_LEAST_HEADS = 2
_NEAR_PT, _OVERHANG_PT, _SLACK_PT = 14.0, 6.0, 0.5
_LABEL_WORDS = 6


def find_with_turned(
    words: Sequence[PageWord],
    lines: Sequence[TextLine],
    rules: Rules,
    taken: Sequence[Box],
    prose: Sequence[Box],
) -> list[Table]:
    """As `find_aligned`, with turned lines as heads of columns; words of other turned lines are in no row."""
    turned = [line for line in lines if not line.upright]
    if not 0 < len(turned) <= _MOST_TURNED or len(words) > _MOST_WORDS:
        return find_aligned(words, rules, taken, prose)
    upright = [word for word in words if not _is_in_one(word, turned)]
    found = [_with_heads(table, upright, turned) for table in find_aligned(upright, rules, taken, prose)]
    kept = [table for table in found if table is not None]
    return kept if len(kept) == len(found) else find_aligned(words, rules, taken, prose)


def _is_in_one(word: PageWord, lines: Sequence[TextLine]) -> bool:
    return any(
        x0 - _SLACK_PT <= word.x <= x1 + _SLACK_PT and y0 - _SLACK_PT <= word.y <= y1 + _SLACK_PT
        for x0, y0, x1, y1 in (line.box for line in lines)
    )


def _with_heads(table: Table, words: Sequence[PageWord], turned: Sequence[TextLine]) -> Table | None:
    """The table with the turned lines right above its columns as their heads; None if it has another one in it."""
    if not table.columns:
        return table
    left, top, right, bottom = table.box
    over = [line for line in turned if left - _OVERHANG_PT <= line.middle[0] <= right + _OVERHANG_PT]
    heads = [line for line in over if top - _NEAR_PT <= line.box[3] <= table.body_top + _SLACK_PT]
    if len({_place(line.middle[0], table.columns) for line in heads}) < _LEAST_HEADS:
        heads = []
    if any(top <= line.middle[1] <= bottom for line in over if line not in heads):
        return None
    if not heads:
        return table
    highest = min(line.box[1] for line in heads)
    labels = [word for word in words if left <= word.x <= right and highest - _SLACK_PT <= word.y < top]
    names = _names(heads, labels if len(labels) <= _LABEL_WORDS else [], table.columns)
    box = left, min(top, highest), max(right, *(line.box[2] for line in heads)), bottom
    first = table.rows[0]
    is_shared = any(one and name for one, name in zip(first, names, strict=True))
    if not is_shared and not any(map(is_number, first[1:])):
        joined = tuple(one or name for one, name in zip(first, names, strict=True))
        return replace(table, box=box, rows=(joined, *table.rows[1:]))
    spans = tuple(span._replace(row=span.row + 1) for span in table.spans)
    return replace(table, box=box, rows=(names, *table.rows), spans=spans)


def _names(
    heads: Sequence[TextLine], labels: Sequence[PageWord], columns: Sequence[tuple[float, float]]
) -> tuple[str, ...]:
    """The name of each column: its turned lines from left to right, or the upright words beside them."""
    names = [""] * len(columns)
    for line in sorted(heads, key=lambda line: line.box[0]):
        at = _place(line.middle[0], columns)
        names[at] = f"{names[at]} {line.text}".strip()
    for at in {_place(word.x, columns) for word in labels}:
        own = lines_text([word for word in labels if _place(word.x, columns) == at])
        names[at] = f"{own} {names[at]}".strip()
    return tuple(names)


def _place(x: float, columns: Sequence[tuple[float, float]]) -> int:
    return min(range(len(columns)), key=lambda at: max(columns[at][0] - x, x - columns[at][1]))
