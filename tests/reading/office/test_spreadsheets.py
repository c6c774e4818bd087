"""One workbook in three formats, as LibreOffice wrote it (`data/fees.fods` is the source), and what XLS hides."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from quire.reading.files.document_source import inspect
from quire.reading.office.xls_records import XlsNote, read_cells
from quire.reading.pdf.page_reader import read_pages
from tests.reading.office.conftest import ReadMarkdown
from tests.reading.office.old_files import workbook_file
from tests.support.office_files import odf, xlsx

_DATA = Path(__file__).parent / "data"


HIDDEN = "*Hidden: rows 3–4, 6 and columns B–C.*"


def test_hidden_rows_and_columns_are_read_and_named(markdown: ReadMarkdown) -> None:
    kinds = ("", "", " hidden='1'", " hidden='true'", " hidden='0'", " hidden='1'", "", " hidden='1'")
    rows = (
        "".join(
            f"<row r='{n}'{kind}><c r='A{n}'><v>{n}</v></c><c r='B{n}'><v>0</v></c><c r='C{n}'><v>5</v></c></row>"
            for n, kind in enumerate(kinds[:-1], 1)
        )
        + "<row r='8' hidden='1'/>"
    )
    columns = (
        "<col min='2' max='3' hidden='1'/><col max='1' min='1'/><col hidden='1' min='7' max='99999999999'/>"
    )
    columns = f"<cols>{columns}</cols>"
    found = markdown(xlsx({"S": rows}, columns=columns))
    assert found.endswith(
        f"| 3 | 0 | 5 |\n| 4 | 0 | 5 |\n| 5 | 0 | 5 |\n| 6 | 0 | 5 |\n| 7 | 0 | 5 |\n\n{HIDDEN}"
    )
    many = "".join(
        f"<row r='{n}' hidden='{n % 2}'><c><v>{n}</v></c><c><v>1</v></c></row>" for n in range(1, 60)
    )
    assert ", 37, 39, 10 more.*" in markdown(xlsx({"S": many}))


def test_hidden_rows_and_columns_of_an_open_sheet_are_named(markdown: ReadMarkdown) -> None:
    cells = "".join(f"<table:table-cell><text:p>{one}</text:p></table:table-cell>" for one in "abc")
    row = (
        "<table:table-row table:number-rows-repeated='{}' table:visibility='{}'>"
        + cells
        + "</table:table-row>"
    )
    columns = (
        "<table:table-column/><table:table-column-group><table:table-column table:visibility='collapse' "
        "table:number-columns-repeated='2'/></table:table-column-group>"
    )
    rows = (
        row.format(2, "visible")
        + row.format(2, "filter")
        + row.format(1, "visible")
        + row.format(1, "collapse")
    )
    assert markdown(
        odf("spreadsheet", f"<table:table table:name='S'>{columns}{rows}</table:table>")
    ).endswith(HIDDEN)


def test_hidden_rows_and_columns_of_an_old_sheet_are_known() -> None:
    rows = b"".join(
        _record(0x0208, struct.pack("<6HI", n, 0, 3, 255, 0, 0, 0x20 if n in (2, 3, 5) else 0))
        for n in range(7)
    )
    hidden = _record(0x007D, struct.pack("<6H", 1, 2, 0, 0, 1, 0)) + _record(
        0x007D, struct.pack("<6H", 5, 9, 0, 0, 2, 0)
    )
    found = read_cells(_workbook(rows + hidden + _record(0x007D, b"\x01") + _record(0x0208, b"\x09\0")))[
        "S"
    ].hidden
    assert (found.rows, found.columns) == ({3, 4, 6}, {2, 3})
    every = [(n, dict.fromkeys(range(1, 4), "x")) for n in range(1, 8)]
    assert list(found.watched(every)) == every
    assert [one.text for one in found.blocks()] == [HIDDEN]


def _pages(path: Path) -> list[str]:
    count = inspect(str(path), None, 100).page_count
    return [one.markdown for one in read_pages(str(path), None, range(1, count + 1))]


@pytest.mark.parametrize("form", ["ods", "xlsx", "xls"])
def test_tables_comments_and_hidden_sheets_are_the_same_in_every_format(form: str) -> None:
    first, second = _pages(_DATA / f"fees.{form}")
    assert second == "## Secret (hidden)\n\nquiet"
    shown = {"2026-05-06": "06.05.2026", "2026-12-24": "24.12.2026", "07:30:00": "07:30"}
    for written, as_shown in shown.items():  # ODS has dates as they are shown
        first = first.replace(written, as_shown)
    assert first.startswith(
        "## Fees\n\n| Berth | Share | Day | Fee |\n|---|---|---|---|\n| A | 12.5% | 06.05.2026 | € 1,234.50 |\n"
        "| B | 50.0% | 24.12.2026 | € 7.00 |\n\n| Boat | Length |\n|---|---|\n| Ida | 9.25 |\n| Bo | 7 |\n\n"
        "Tides\n\n| High | 07:30 |\n|---|---|\n| Open | TRUE |\n| Sum | "
    )
    assert first.endswith("\n\n- **Note at A1 by Ann**: check this")
    assert "#VALUE!" in first or "Err:510" in first


@pytest.mark.parametrize("count", [1, 20, 60, 80, 100, 118, 130])
def test_old_workbook_of_any_size_is_read(count: int, tmp_path: Path) -> None:
    path = tmp_path / "a.xls"
    path.write_bytes(workbook_file([["abc", float(n)] for n in range(1, count + 1)]))
    assert _pages(path)[0].endswith(f"| abc | {count} |" if count > 1 else "| abc | 1 |\n|---|---|")


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def _workbook(inner: bytes) -> bytes:
    begin = _record(0x0809, struct.pack("<HHHHII", 0x0600, 5, 0, 1997, 0, 0))
    where = len(begin) + 4 + 9 + 4
    bound = _record(0x0085, struct.pack("<IHBB", where, 0, 1, 0) + b"S")
    sheet = _record(0x0809, struct.pack("<HHHHII", 0x0600, 16, 0, 1997, 0, 0))
    return begin + bound + _record(0x000A, b"") + sheet + inner


def test_note_in_two_encodings_is_put_together() -> None:
    text = _record(0x01B6, bytes(10) + struct.pack("<HHI", 6, 16, 0))
    pieces = (
        _record(0x003C, b"\0abc")
        + _record(0x003C, b"\1" + "äöü".encode("utf-16-le"))
        + _record(0x003C, bytes(16))
    )
    about = _record(0x005D, struct.pack("<HHHH", 21, 18, 25, 7))
    note = _record(0x001C, struct.pack("<HHHHHB", 3, 2, 0, 7, 3, 0) + b"Ann\0")
    found = read_cells(_workbook(about + text + pieces + note))
    assert found["S"].notes == [XlsNote((3, 2), "Ann", "abcäöü")]


@pytest.mark.parametrize("end", range(0, 60, 3))
def test_records_that_are_cut_off_end_what_is_read(end: int) -> None:
    note = _record(0x001C, struct.pack("<HHHHHB", 3, 2, 0, 7, 60_000, 0) + b"Ann\0")
    data = _workbook(_record(0x00BD, struct.pack("<HH", 1, 1) + b"\xff" * 9) + note)
    assert isinstance(read_cells(data[: len(data) - end]), dict)
