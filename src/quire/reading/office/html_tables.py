"""Tables of a web page as they grow, cell by cell, with the cells that span several rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from quire.domain.element import CellSpan
from quire.reading.office.html_code import fenced
from quire.reading.office.inline_markdown import block
from quire.reading.office.office_pages import MarkdownBlock, Pager, kept_spans

_MAX_SPAN = 64
_MAX_ROW_SPAN = 1_000


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

    def begin_cell(self, given: dict[str, str]) -> None:
        """A cell with these attributes begins."""
        if self.row is None:
            self.row = []
        self.span = _span(given.get("colspan"), _MAX_SPAN)
        to_end = given.get("rowspan") == "0"  # to the end of its group of rows
        self.row_span = _MAX_ROW_SPAN if to_end else _span(given.get("rowspan"), _MAX_ROW_SPAN)
        self.in_cell = True

    def keep_code(self, text: str) -> None:
        """The cell that ends has this text. It is code if the last code in it is all of it."""
        code, self.code = self.code, None
        if code is not None and self.row is not None and not self.rows and code[1].split() == text.split():
            self.codes[len(self.row)] = code

    @property
    def line(self) -> str:
        """The table as a part of the text around it."""
        return "; ".join(", ".join(filter(None, row)) for row in self.rows if any(row))

    def add_to(self, pager: Pager) -> None:
        """Adds the table, when it has ended. One of one column is layout, and so is code beside something."""
        rows, spans = kept_spans(self.ended_spans(), self.rows)
        if len(rows) == 1 and self.codes:
            texts = self._code_blocks(rows[0])
        elif max(map(len, rows), default=0) == 1:
            texts = [block(row[0]) for row in rows]
        else:
            pager.add_table(rows, tuple(self.pictures), spans=spans)
            return
        for place, text in enumerate(texts):
            pager.add(MarkdownBlock(text, pictures=() if place else tuple(self.pictures)))

    def _code_blocks(self, row: Sequence[str]) -> list[str]:
        """The only row as blocks, one for each cell. Numbers of lines beside code are left out."""
        shown: list[str] = []
        for column, text in enumerate(row):
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


def _span(given: str | None, most: int) -> int:
    """The number that a span's attribute has; 1 where it has none."""
    text = given or "1"
    return max(1, min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 6 else 1
