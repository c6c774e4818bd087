"""Excel workbooks of before 2007 (XLS): a page for each sheet, as of newer workbooks.

Charts and pictures are left out.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING

from quire.errors import DamagedError, PasswordRequiredError
from quire.reading.office.compound_file import CompoundFile, compound_file_of
from quire.reading.office.embedded_files import stored_files, with_last_lines
from quire.reading.office.inline_markdown import plain
from quire.reading.office.office_pages import TABLE_PAGE_CHARS, MarkdownBlock, OfficePage, Pager, cell
from quire.reading.office.office_source import Opened
from quire.reading.office.review_comments import column_letters, comment_item
from quire.reading.office.sheet_tables import MergedArea, SheetRow, add_tables, sheet_pages
from quire.reading.office.xls_records import XlsCells, read_cells
from quire.reading.office.zip_container import OfficeLimits

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

    from quire.reading.office.number_formats import NumberFormat

READER = "xls"
_STREAMS = ("Workbook", "Book")  # the name since Excel 97, and the one before
_LEAST_BYTES = 4096
_EPSILON_DIGITS = 15
"""What Excel shows of a number at most."""
_REFUSAL_OF_ENCRYPTED = (
    "The workbook is protected by a password, which Quire can't use for office files. "
    "Save it without one and send that copy."
)


def open_xls(path: str, limits: OfficeLimits) -> Opened:
    """Raises DocumentError or TooLargeError."""
    with CompoundFile(path, limits) as file:
        title, author = file.credits()
        notes = stored_files(file)
        name, records = next(((one, found) for one in _STREAMS if (found := file.stream(one))), ("", b""))
    if not records:
        raise DamagedError("The Excel workbook is damaged: it has no sheets.")
    _check_records(records)
    # The library gets the records that were checked, in a file of ours. In a forged file it would follow sectors
    # without end, or find other records than we did.
    # It can't read streams of two to four kilobytes, which are stored in small sectors.
    clean = BytesIO(compound_file_of(name, records.ljust(_LEAST_BYTES, b"\0")))
    with _library_errors():
        from python_calamine import CalamineWorkbook, SheetVisibleEnum

        cells = read_cells(records)
        with CalamineWorkbook.from_filelike(clean) as book:
            pages = [
                page
                for one in book.sheets_metadata
                for page in _sheet(
                    book,
                    one.name,
                    cells.get(one.name) or XlsCells(),
                    is_hidden=one.visible != SheetVisibleEnum.Visible,
                )
            ]
    if not pages:
        raise DamagedError("The Excel workbook is damaged: it has no sheets.")
    shown, files = with_last_lines(pages, notes)
    return Opened(READER, shown, title, author, files=files)


def _check_records(stream: bytes) -> None:
    """Raises PasswordRequiredError for an encrypted workbook, DamagedError for a cell or an extent that none can have.

    The library makes room for every cell between the first and the last one: a few bytes could ask for gigabytes.
    """
    at = 0
    while at + 4 <= len(stream):
        kind, size = _RECORD.unpack_from(stream, at)
        if kind == _ENCRYPTION:  # what the records after it hold can't be read
            raise PasswordRequiredError(_REFUSAL_OF_ENCRYPTED)
        if kind in _CELLS and at + 8 <= len(stream):
            (column,) = _COLUMN.unpack_from(stream, at + 6)
            if column + (size // 6 if kind in _SEVERAL_CELLS else 0) > _MOST_COLUMNS:
                raise DamagedError("The Excel workbook is damaged: it has a cell beyond the last column.")
        elif kind == _EXTENT and size >= 12 and at + 16 <= len(stream):
            first_row, last_row, first_column, last_column = _AREA.unpack_from(stream, at + 4)
            is_empty = last_row == 0 or last_column == 0  # by the library too, wherever it begins
            is_forged = (
                last_column < first_column or last_row < first_row or last_row * last_column > _MOST_CELLS
            )
            if not is_empty and is_forged:
                raise DamagedError("The Excel workbook is damaged: a sheet is larger than any can be.")
        at += 4 + size


_ENCRYPTION = 0x002F
_RECORD, _COLUMN = struct.Struct("<HH"), struct.Struct("<H")
_SEVERAL_CELLS = frozenset((0x00BD, 0x00BE))
_CELLS = _SEVERAL_CELLS | {0x0006, 0x00D6, 0x00FD, 0x0201, 0x0203, 0x0204, 0x0205, 0x027E}
_EXTENT, _AREA = 0x0200, struct.Struct("<IIHH")
_MOST_COLUMNS = 257
_MOST_CELLS = 1 << 26  # four times what a sheet can have: some programs write a wrong extent


@contextmanager
def _library_errors() -> Iterator[None]:
    """Translates what the library raises. Its panics are no `Exception`."""
    try:
        yield
    except BaseException as error:
        name = type(error).__name__
        if name == "PasswordError":
            raise PasswordRequiredError(_REFUSAL_OF_ENCRYPTED) from error
        if name in ("PanicException", "CalamineError", "XmlError", "ZipError", "WorksheetNotFound"):
            raise DamagedError("The Excel workbook is damaged, or was written before Excel 97.") from error
        raise


def _sheet(book: CalamineWorkbook, name: str, cells: XlsCells, *, is_hidden: bool) -> list[OfficePage]:
    sheet = book.get_sheet_by_name(name)
    heading = plain(" ".join(name.split())) + (" (hidden)" if is_hidden else "")
    pager = Pager(TABLE_PAGE_CHARS)
    pager.add(MarkdownBlock(f"## {heading}", 2))
    merged = [
        MergedArea(first[0] + 1, first[1] + 1, last[0] + 1, last[1] + 1)
        for first, last in sheet.merged_cell_ranges or ()
    ]
    found = add_tables(pager, cells.hidden.watched(_rows(sheet, cells)), merged)
    for line in cells.hidden.blocks():
        pager.add(line)
    for note in cells.notes:
        place = f"{column_letters(note.place[1] + 1)}{note.place[0] + 1}"
        for one in comment_item(f"Note at {place}", note.author, note.text.removeprefix(f"{note.author}:")):
            pager.add(one)
    if not found and not cells.notes:
        pager.add(MarkdownBlock("*This sheet is empty.*"))
    return sheet_pages(heading, pager)


def _rows(sheet: CalamineSheet, cells: XlsCells) -> Iterator[tuple[int, SheetRow]]:
    # The library's rows begin at the top of the sheet, its columns at the first with a value.
    first = 1 + (sheet.start[1] if sheet.start else 0)
    for number, values in enumerate(sheet.iter_rows(), 1):
        shown = {
            column: _shown(value, cells.formats.get((number - 1, column - 1)))
            for column, value in enumerate(values, first)
            if value != ""
        }
        if cells.errors:
            places = range(first, first + len(values))
            shown |= {
                column: cells.errors[number - 1, column - 1]
                for column in places
                if (number - 1, column - 1) in cells.errors
            }
        row = {column: text for column, text in shown.items() if text}
        if row:
            yield number, row


def _shown(value: object, written: NumberFormat | None) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        if written is not None:
            return plain(written.shown(value))
        return f"{value:.{_EPSILON_DIGITS}g}"
    if isinstance(value, datetime.datetime):
        is_day = (value.hour, value.minute, value.second) == (0, 0, 0)
        return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return cell(str(value))
