"""Tells two tables side by side, which alignment takes for one: the level rules of each end where the other begins."""

from __future__ import annotations

from itertools import pairwise

from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.ruled_tables import Table

_NEAR_PT, _HANG_PT, _LEVEL_PT = 24.0, 6.0, 2.0
_LEAST_HEIGHTS, _LEAST_COLUMNS = 2, 2
_MOST_RULES = 300


def border_between(table: Table, rules: Rules) -> float | None:
    """Where one of two tables ends that were found as one; None if it is one table.

    At two heights at least a rule is above all columns of each, and no rule goes on from one to the other. A rule below
    a single number is none of these.
    """
    columns = table.columns
    top, bottom = table.box[1] - _NEAR_PT, table.box[3] + _NEAR_PT
    level = [h for h in rules.horizontal if top <= h.at <= bottom][:_MOST_RULES]
    for at in range(_LEAST_COLUMNS, len(columns) - _LEAST_COLUMNS + 1):
        (_, end), (start, _) = columns[at - 1], columns[at]
        border = (end + start) / 2
        if any(h.start < border < h.end for h in level):
            continue
        left = [
            h.at for h in level if h.start <= columns[0][0] + _HANG_PT and end - _HANG_PT <= h.end < border
        ]
        right = [
            h.at for h in level if border < h.start <= start + _HANG_PT and h.end >= columns[-1][1] - _HANG_PT
        ]
        both = sorted(y for y in left if any(abs(y - other) <= _LEVEL_PT for other in right))
        if 1 + sum(b - a > _LEVEL_PT for a, b in pairwise(both)) >= _LEAST_HEIGHTS and both:
            return border
    return None
