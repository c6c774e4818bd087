"""Which tables of a web page are there for its look: newsletters and old pages put whole columns of text into cells.

Such a table has a heading or another table in a cell, and nothing that a table of data has: no head, no caption, no
border. What says of itself that it is for the look needs no other sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quire.reading.office.html_tags import attributes, tokens

_MAYBE = re.compile(r"<table\b.*?<(?:table|h[1-6])\b", re.IGNORECASE | re.DOTALL)
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HEADS = frozenset({"th", "caption", "thead"})
_ROLES = frozenset({"presentation", "none"})
_DEEPEST = 200


@dataclass(slots=True)
class _Table:
    number: int
    is_layout: bool
    is_data: bool
    has_blocks: bool = False


def layout_tables(page: str) -> set[int]:
    """The numbers of these tables, counted from 1 as they begin."""
    if "role" not in page and _MAYBE.search(page) is None:
        return set()
    found: set[int] = set()
    around: list[_Table] = []
    count, too_deep = 0, 0
    for name, inner, is_end in tokens(page):
        if name == "table" and not is_end:
            count += 1
            if len(around) >= _DEEPEST:
                too_deep += 1
                continue
            given = attributes(inner)
            is_layout = given.get("role", "").strip().lower() in _ROLES
            if around and not is_layout:  # beside one that says it, those around it would have said it too
                around[-1].has_blocks = True
            around.append(_Table(count, is_layout, given.get("border", "0") not in ("", "0")))
        elif name == "table" and too_deep:
            too_deep -= 1
        elif name == "table" and around:
            _end(around.pop(), found)
        elif around and name in _HEADS:
            around[-1].is_data = True
        elif around and name in _HEADINGS:
            around[-1].has_blocks = True
    for one in around:
        _end(one, found)
    return found


def _end(table: _Table, found: set[int]) -> None:
    if table.is_layout or (table.has_blocks and not table.is_data):
        found.add(table.number)
