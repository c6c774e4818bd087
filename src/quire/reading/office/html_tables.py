"""Tables of a web page as they grow, cell by cell, with the cells that span several rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from quire.domain.element import CellSpan
from quire.reading.office.html_code import fenced
from quire.reading.office.inline_markdown import block


@dataclass(slots=True)
class HtmlTable:
    """A table as it grows. `below` has, for each column, how many rows more a cell above covers.

    `codes` are, by column, cells of nothing but code, with its language.
    """

    is_layout: bool = False
    """It says that it is no table: its cells are paragraphs of the page."""

    rows: list[list[str]] = field(default_factory=list)
    row: list[str] | None = None
    span: int = 1
    row_span: int = 1
    in_cell: bool = False
    pictures: list[str] = field(default_factory=list)
    below: dict[int, int] = field(default_factory=dict)
    spans: list[CellSpan] = field(default_factory=list)
    code: tuple[str, str] | None = None
    codes: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add_cell(self, text: str) -> None:
        """The cell goes to the next place of the row that no cell above covers."""
        if self.row is None:
            return
        self.skip_covered()
        place = len(self.row)
        if self.span > 1 or self.row_span > 1:
            self.spans.append(CellSpan(len(self.rows), place, self.row_span, self.span))
        if self.row_span > 1:
            self.below |= dict.fromkeys(range(place, place + self.span), self.row_span)
        self.row += [text, *[""] * (self.span - 1)]

    def keep_code(self, text: str) -> None:
        """The cell that ends has this text. It is code if the last code in it is all of it."""
        code, self.code = self.code, None
        if code is not None and self.row is not None and not self.rows and code[1].split() == text.split():
            self.codes[len(self.row)] = code

    def code_blocks(self) -> list[str]:
        """The only row as blocks, one for each cell. Numbers of lines beside code are left out."""
        shown: list[str] = []
        for column, text in enumerate(self.rows[0]):
            language, code = self.codes.get(column, ("", ""))
            if code and len(self.codes) > 1 and _counts(code.split()):
                continue
            shown.append(fenced(language, code) if code else block(text))
        return [one for one in shown if one]

    def skip_covered(self) -> None:
        while self.row is not None and self.below.get(len(self.row), 0) > 0:
            self.row.append("")

    def end_row(self) -> None:
        if self.row is not None:
            self.skip_covered()
            self.rows.append(self.row)
            self.below = {column: left - 1 for column, left in self.below.items() if left > 1}
        self.row = None

    def end_group(self) -> None:
        """A head, a body or a foot ends, and with it the cells that would go on below it."""
        height = len(self.rows)
        self.spans = [one._replace(row_span=min(one.row_span, height - one.row)) for one in self.spans]
        self.below.clear()

    def ended_spans(self) -> list[CellSpan]:
        """The spans, none of which goes on below the table's last row."""
        height = len(self.rows)
        return [span._replace(row_span=min(span.row_span, height - span.row)) for span in self.spans]


def _counts(words: Sequence[str]) -> bool:
    """Whether the words are numbers, each one more than the one before."""
    if not all(one.isascii() and one.isdigit() and len(one) < 8 for one in words):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(words))
