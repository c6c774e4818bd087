"""Tables of a web page as they grow, cell by cell, with the cells that span several rows or columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from quire.domain.element import CellSpan


@dataclass(slots=True)
class HtmlTable:
    """A table as it grows. `below` has, for each column, how many rows more a cell above covers."""

    rows: list[list[str]] = field(default_factory=list)
    row: list[str] | None = None
    span: int = 1
    row_span: int = 1
    in_cell: bool = False
    pictures: list[str] = field(default_factory=list)
    below: dict[int, int] = field(default_factory=dict)
    spans: list[CellSpan] = field(default_factory=list)

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
