"""Tables of text for people: aligned with blanks, readable in a terminal, a log and a mail."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from quire.cli.exits import printable

_GAP = "  "


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The rows below their header; an empty cell is shown as a dash."""
    shown = [[printable(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(header, *shown, strict=True)]
    for row in ([name.upper() for name in header], *shown):
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        print(_GAP.join(cells).rstrip())


def _width(text: str) -> int:
    """Columns a terminal needs: most East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )
