"""Sheets of an OpenDocument spreadsheet (ODS): their tables, as of Excel workbooks, comments, pictures and charts."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from quire.reading.office.hidden_places import HiddenPlaces
from quire.reading.office.inline_markdown import plain
from quire.reading.office.odf_tables import MAX_REPEATED, OdfRow, hidden_columns, table_rows
from quire.reading.office.odf_writer import FRAMES, OdfLine, OdfWriter
from quire.reading.office.office_pages import TABLE_PAGE_CHARS, MarkdownBlock, OfficePage, Pager
from quire.reading.office.review_comments import column_letters, comment_item
from quire.reading.office.sheet_tables import MergedArea, SheetRow, add_tables, sheet_pages


def read_sheet(writer: OdfWriter, sheet: Element) -> list[OfficePage]:
    """The pages of a sheet."""
    package = writer.package
    name = plain(" ".join(package.attribute(sheet, "name").split())) or "Sheet"
    is_hidden = package.attribute(sheet, "style-name") in writer.styles.hidden_tables
    heading = f"{name}{' (hidden)' if is_hidden else ''}"
    pager = Pager(TABLE_PAGE_CHARS)
    pager.add(MarkdownBlock(f"## {heading}", 2))
    found = _Cells(writer)
    found.read_extras(
        sheet
    )  # first, for what is merged must be known while the rows come, which may be very many
    add_tables(pager, found.hidden.watched(found.rows(sheet)), found.merged)
    for line in found.hidden.blocks():
        pager.add(line)
    for comment in found.comments:
        pager.add(comment)
    shapes = package.child(sheet, "shapes")
    for frame in (*found.frames, *(shapes if shapes is not None else ())):
        writer.add_shape(frame, pager.add, 0)
    if pager.added == 1:
        pager.add(MarkdownBlock("*This sheet is empty.*"))
    return sheet_pages(heading, pager)


class _Cells:
    """The values of a sheet, and what it has beside them."""

    def __init__(self, writer: OdfWriter) -> None:
        self._writer = writer
        self.merged: list[MergedArea] = []
        self.hidden = HiddenPlaces()
        self.comments: list[MarkdownBlock] = []
        self.frames: list[Element] = []

    def rows(self, sheet: Element) -> Iterator[tuple[int, SheetRow]]:
        """(number, cells by column, both from 1) of each row that has a value."""
        for row in table_rows(self._writer.package, sheet, self._text):
            cells = {
                one.column + 1 + place: one.text
                for one in row.cells
                if one.text
                for place in range(min(one.repeated, MAX_REPEATED))
            }
            for place in range(min(row.repeated, MAX_REPEATED) if cells else 0):
                if row.is_hidden:
                    self.hidden.rows.add(row.number + place)
                yield row.number + place, cells

    def _text(self, cell: Element) -> str:
        return self._writer.line_of(cell, OdfLine(), with_frames=False)

    def read_extras(self, sheet: Element) -> None:
        """Reads what is merged, which columns are hidden, comments, and what floats over the cells."""
        self.hidden.columns = hidden_columns(self._writer.package, sheet)
        for row in table_rows(self._writer.package, sheet, lambda _: ""):
            self._note_extras(row)

    def _note_extras(self, row: OdfRow) -> None:
        package = self._writer.package
        for one in row.cells:
            if one.wide > 1 or one.high > 1:
                right, bottom = one.column + one.wide, row.number + one.high - 1
                self.merged.append(MergedArea(row.number, one.column + 1, bottom, right))
            for child in one.element:
                name = package.local[child.tag]
                if name == "annotation":
                    place = f"Note at {column_letters(one.column + 1)}{row.number}"
                    self.comments += comment_item(place, *self._writer.comment(child))
                elif name in FRAMES:
                    self.frames.append(child)
