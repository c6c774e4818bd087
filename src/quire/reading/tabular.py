"""Whether lines of text are rows of a table, and what stands between their fields. Standard library only."""

from __future__ import annotations

import re
from collections import Counter

_DELIMITERS = ",;\t|"
_LEAST_ALIKE = 0.9
_LONGEST_CELL = 80
_QUOTED = re.compile(r'(?:(?<=[,;\t|\n])|\A)"(?:[^"]|"")*+"')


def delimiter_of(sample: str) -> str:
    """The character between the fields, "" if the text does not look like a table.

    In a table every row has the same number of them; a few rows may differ.
    """
    lines = _rows(sample)
    best, best_count = "", 0
    for delimiter in _DELIMITERS:
        counts = Counter(line.count(delimiter) for line in lines)
        if not counts:
            continue
        count, times = counts.most_common(1)[0]
        if count > best_count and times >= _LEAST_ALIKE * len(lines):
            best, best_count = delimiter, count
    return best


def is_table(sample: str) -> bool:
    """Whether there is no doubt: several rows, several columns, and no fields as long as sentences."""
    delimiter = delimiter_of(sample)
    lines = _rows(sample)
    if not delimiter or delimiter == "|" or len(lines) < 3:
        return False
    columns = lines[0].count(delimiter) + 1
    if columns < (2 if delimiter == "\t" else 3):
        return False
    return sum(map(len, lines)) / (len(lines) * columns) <= _LONGEST_CELL


def _rows(sample: str) -> list[str]:
    """Lines without fields in quotation marks, which may have line breaks inside; the last may be cut off."""
    lines = _QUOTED.sub("", sample).splitlines()
    return [line for line in (lines[:-1] if len(lines) > 3 else lines) if line.strip()][:200]
