"""Tables of words between three level rules, as books have them: above the head, below it, and at the end.

Their cells hold sentences as often as figures, so that alignment alone says nothing. Three rules of one extent that
enclose a row of short texts, and rows below it that keep its gutters, do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quire.reading.pdf.drawn_rules import Box, DrawnRule, Rules
from quire.reading.pdf.line_pieces import PageWord, gutters_between, lines_text, pieces_of, text_lines
from quire.reading.pdf.ruled_tables import Table

_SAME_PT = 2.0
_LEAST_PT, _HIGHEST_HEAD_PT = 100.0, 40.0
_LEAST_ROWS = 2
_LEAST_NAMED = 2
"""Of three columns and more, that of the labels may have no name."""
_TALLER = 1.2
_HEAD_WORDS = 4
_LINE_WORDS, _OFTEN = 4, 0.25
_RULES = 3
_WHOLE = 0.7
_HANG_PT, _MOSTLY = 4.0, 0.5


def could_be_headed(rules: Rules) -> bool:
    """Whether three level rules have one extent; most pages have not."""
    return len(rules.horizontal) >= _RULES and next(_triples(rules), None) is not None


def find_headed(rules: Rules, words: Sequence[PageWord], taken: Sequence[Box]) -> list[Table]:
    """The tables between three rules, outside the boxes `taken`."""
    if not words or not could_be_headed(rules):
        return []
    found = (_table(triple, words, rules) for triple in _triples(rules))
    return [table for table in found if table and not any(_overlap(table.box, box) for box in taken)]


def with_headed(
    tables: Sequence[Table], rules: Rules, words: Sequence[PageWord], taken: Sequence[Box]
) -> list[Table]:
    """The tables found by alignment with those between three rules. Of two that overlap the rules have the right one
    where alignment holds for a part of its height only."""
    headed = find_headed(rules, words, taken)
    whole = [
        table
        for table in headed
        if not any(_is_most_of(one.box, table.box) for one in tables if _overlap(one.box, table.box))
    ]
    kept = [table for table in tables if not any(_overlap(table.box, one.box) for one in whole)]
    return [*kept, *whole]


def _is_most_of(box: Box, other: Box) -> bool:
    return box[3] - box[1] > _WHOLE * (other[3] - other[1])


def _triples(rules: Rules) -> Iterator[tuple[DrawnRule, DrawnRule, DrawnRule]]:
    """Rules of one extent that follow one another, the first two close together.

    One rule more, above them, is that below the head of the page.
    """
    level = sorted((rule for rule in rules.horizontal if rule.length >= _LEAST_PT), key=lambda rule: rule.at)
    while len(level) >= _RULES:
        first = level[0]
        alike = [
            one
            for one in level
            if abs(one.start - first.start) <= _SAME_PT and abs(one.end - first.end) <= _SAME_PT
        ]
        yield from _headed(alike[len(alike) % _RULES == 1 :])
        level = [one for one in level if one not in alike]


def _headed(alike: Sequence[DrawnRule]) -> Iterator[tuple[DrawnRule, DrawnRule, DrawnRule]]:
    """Every three of the rules, if there are no others; those of a chart are even."""
    for place in range(0, len(alike), _RULES) if len(alike) % _RULES == 0 else ():
        top, below, end = alike[place : place + _RULES]
        head, body = below.at - top.at, end.at - below.at
        if head <= _HIGHEST_HEAD_PT and body > _TALLER * head:
            yield top, below, end


def _table(
    triple: tuple[DrawnRule, DrawnRule, DrawnRule], words: Sequence[PageWord], rules: Rules
) -> Table | None:
    top, below, end = triple
    box = (top.start - _SAME_PT, top.at, top.end + _SAME_PT, end.at)
    if any(
        top.at - _SAME_PT <= rule.at <= end.at + _SAME_PT and rule not in triple and _is_in(rule, box)
        for rule in rules.horizontal
    ) or any(
        box[0] <= rule.at <= box[2] and rule.start < box[3] and box[1] < rule.end for rule in rules.vertical
    ):
        return None
    inside = [word for word in words if box[0] <= word.x <= box[2] and box[1] < word.y < box[3]]
    heads = [word for word in inside if word.y < below.at]
    lines = text_lines([word for word in inside if word.y > below.at])
    if not heads or not lines:
        return None
    columns = gutters_between([pieces_of(line) for line in [*text_lines(heads), *lines]])
    rows = [_cells(heads, columns), *_rows(lines, columns)]
    texts = rows[0]
    is_named = all(texts[len(columns) > _LEAST_NAMED :])
    is_head = len(columns) > 1 and is_named and all(len(text.split()) <= _HEAD_WORDS for text in texts)
    if (
        not is_head
        or len(rows) < 1 + _LEAST_ROWS
        or not all(any(column) for column in zip(*rows[1:], strict=True))
    ):
        return None
    return None if _is_prose(rows[1:]) else Table(box, tuple(rows))


def _is_prose(rows: Sequence[Sequence[str]]) -> bool:
    """Whether sentences go on from row to row in the first column: the head is one of the page, above its columns."""
    going_on = sum(row[0][:1].islower() and row[0].count(" ") >= _LINE_WORDS - 1 for row in rows)
    return going_on > _OFTEN * len(rows)


def _rows(
    lines: Sequence[Sequence[PageWord]], columns: Sequence[tuple[float, float]]
) -> list[tuple[str, ...]]:
    """The rows: one begins where the first column has text and another one too; other lines go on with it.

    So does a label that hangs, where most labels begin at one place.
    """
    labelled = [line for line in lines if line[0].box[0] < columns[0][1]]
    left = min((line[0].box[0] for line in labelled), default=0.0)
    flush = sum(line[0].box[0] <= left + _SAME_PT for line in labelled)
    may_hang = flush >= _MOSTLY * len(labelled)
    groups: list[list[PageWord]] = []
    for line in lines:
        cells = _cells(line, columns)
        hangs = may_hang and line[0].box[0] > left + _HANG_PT
        if groups and (hangs or not (cells[0] and any(cells[1:]))):
            groups[-1] += line
        else:
            groups.append(list(line))
    return [_cells(group, columns) for group in groups]


def _cells(words: Sequence[PageWord], columns: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    parts: list[list[PageWord]] = [[] for _ in columns]
    for word in words:
        place = min(range(len(columns)), key=lambda at: max(columns[at][0] - word.x, word.x - columns[at][1]))
        parts[place].append(word)
    return tuple(lines_text(part) if part else "" for part in parts)


def _is_in(rule: DrawnRule, box: Box) -> bool:
    return rule.start < box[2] and box[0] < rule.end


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
