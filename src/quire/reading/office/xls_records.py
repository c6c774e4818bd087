"""What an Excel workbook of before 2007 says of its cells beside their values ([MS-XLS]): formats, errors, notes.

A record that says it is longer than the stream ends what is being read. Workbooks of before Excel 97 say nothing here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quire.reading.office.hidden_places import HiddenPlaces
from quire.reading.office.number_formats import NumberFormat
from quire.reading.office.sheet_numbers import cell_format

_BEGIN, _END, _SHEET, _FORMAT, _STYLE, _CONTINUE = 0x0809, 0x000A, 0x0085, 0x041E, 0x00E0, 0x003C
_NUMBER, _PACKED, _SEVERAL_PACKED, _FORMULA, _ERROR = 0x0203, 0x027E, 0x00BD, 0x0006, 0x0205
_NOTE, _OBJECT, _TEXT = 0x001C, 0x005D, 0x01B6
_ROW, _COLUMNS, _ROW_HIDDEN, _COLUMN_HIDDEN, _LAST_COLUMN = 0x0208, 0x007D, 0x20, 0x01, 255
_MOST_COLUMN_RECORDS = 1_000
_VERSION = 0x0600
_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
_MOST_CELLS = 2_000_000
_MOST_SHEETS = 1_000
_LONGEST_NOTE = 32_767

Place = tuple[int, int]
"""Row and column, from 0."""


class XlsNote(NamedTuple):
    place: Place
    author: str
    text: str


@dataclass(slots=True)
class XlsCells:
    """Of a sheet: cells with a format for their numbers, cells that show an error, notes, and what is hidden."""

    formats: dict[Place, NumberFormat] = field(default_factory=dict)
    errors: dict[Place, str] = field(default_factory=dict)
    notes: list[XlsNote] = field(default_factory=list)
    hidden: HiddenPlaces = field(default_factory=HiddenPlaces)


def read_cells(stream: bytes) -> dict[str, XlsCells]:
    """The cells of each sheet by its name."""
    formats: dict[int, str] = {}
    styles: list[int] = []
    sheets: list[tuple[str, int]] = []
    for kind, data in _records(stream, 0):
        if kind == _FORMAT and len(data) > 5:
            formats[_u16(data, 0)] = _text(data, 2, 2)[0]
        elif kind == _STYLE and len(data) > 4:
            styles.append(_u16(data, 2))
        elif kind == _SHEET and len(data) > 8 and len(sheets) < _MOST_SHEETS:
            sheets.append((_text(data, 6, 1)[0], int.from_bytes(data[:4], "little")))
    every = ((at, cell_format(number, formats.get(number))) for at, number in enumerate(styles))
    shown = {at: one for at, one in every if one is not None}
    starts = sorted({at for _, at in sheets})
    found = {at: _sheet(stream, at, shown) for at in starts}
    return {name: found[at] for name, at in sheets}


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The records from the one that begins a part of the workbook to the one that ends it."""
    if _u16(stream, at) != _BEGIN or _u16(stream, at + 4) != _VERSION:
        return
    depth = 0
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        if at + 4 + size > len(stream):
            return
        depth += (kind == _BEGIN) - (kind == _END)
        if depth <= 0:
            return
        if depth == 1:  # a chart in a sheet is a part of its own
            yield kind, stream[at + 4 : at + 4 + size]
        at += 4 + size


def _sheet(stream: bytes, at: int, formats: Mapping[int, NumberFormat]) -> XlsCells:
    cells = XlsCells()
    texts: dict[int, str] = {}
    notes: list[tuple[Place, int, str]] = []
    number, wanted, columns = -1, 0, 0
    for kind, data in _records(stream, at):
        if kind == _CONTINUE and wanted > 0 and number >= 0:
            text, count = _characters(data, 0, wanted)
            texts[number] = (texts.get(number, "") + text)[:_LONGEST_NOTE]
            wanted -= count
            continue
        wanted = 0
        if kind == _OBJECT and len(data) >= 8:
            number = _u16(data, 6)
        elif kind == _TEXT and len(data) >= 12:
            wanted = _u16(data, 10)
        elif kind == _NOTE and len(data) > 10:
            place = (_u16(data, 0), _u16(data, 2))
            notes.append((place, _u16(data, 6), _text(data, 8, 2)[0]))
        elif kind == _ROW and len(data) >= 16:
            if data[12] & _ROW_HIDDEN:
                cells.hidden.rows.add(_u16(data, 0) + 1)
        elif kind == _COLUMNS and len(data) >= 10:
            columns += 1
            if data[8] & _COLUMN_HIDDEN and columns <= _MOST_COLUMN_RECORDS:
                cells.hidden.columns.update(range(_u16(data, 0) + 1, min(_u16(data, 2), _LAST_COLUMN) + 2))
        elif len(data) >= 6:
            _read_cell(cells, kind, data, formats)
    cells.notes = [XlsNote(place, author, texts.get(name, "")) for place, name, author in notes]
    return cells


def _read_cell(cells: XlsCells, kind: int, data: bytes, formats: Mapping[int, NumberFormat]) -> None:
    place = (_u16(data, 0), _u16(data, 2))
    if len(cells.formats) + len(cells.errors) > _MOST_CELLS:
        return
    if kind in (_NUMBER, _PACKED, _FORMULA):
        if (found := formats.get(_u16(data, 4))) is not None:
            cells.formats[place] = found
    elif kind == _SEVERAL_PACKED:
        row, first = place
        for at in range(4, len(data) - 7, 6):
            if (found := formats.get(_u16(data, at))) is not None:
                cells.formats[row, first + (at - 4) // 6] = found
    if kind == _ERROR and len(data) >= 8 and data[7]:
        cells.errors[place] = _ERRORS.get(data[6], "#N/A")
    elif kind == _FORMULA and len(data) >= 14 and data[12:14] == b"\xff\xff" and data[6] == 2:
        cells.errors[place] = _ERRORS.get(data[8], "#N/A")


def _text(data: bytes, at: int, width: int) -> tuple[str, int]:
    """A text that begins with its length, in so many bytes."""
    return _characters(data, at + width, int.from_bytes(data[at : at + width], "little"))


def _characters(data: bytes, at: int, most: int) -> tuple[str, int]:
    """At most so many characters and how many they are; a byte before them tells how they are written."""
    is_wide = bool(data[at] & 1) if at < len(data) else False
    raw = data[at + 1 : at + 1 + most * (2 if is_wide else 1)]
    text = raw.decode("utf-16-le", "replace") if is_wide else raw.decode("latin-1")
    return text, len(raw) // (2 if is_wide else 1)


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
