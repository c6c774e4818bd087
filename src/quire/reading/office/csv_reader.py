"""Tables in text files (CSV, TSV): the delimiter is found out, long ones go on over pages with their head."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from quire.errors import DamagedError, TooLargeError
from quire.reading.files.file_kinds import delimiter_of
from quire.reading.office.charsets import decode
from quire.reading.office.inline_markdown import is_plain
from quire.reading.office.office_pages import TABLE_PAGE_CHARS, MarkdownBlock, Pager, cell
from quire.reading.office.office_source import Opened
from quire.reading.office.zip_container import OfficeLimits

READER = "csv"
_MOST_BYTES = 64 << 20
_MOST_COLUMNS = 1_024
_SAMPLE_CHARS = 20_000
_BLANK = " ,;\t|"


def open_separated(path: str, limits: OfficeLimits) -> Opened:
    """Raises DamagedError or TooLargeError. What turns out to be no table is kept as text."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise TooLargeError(f"The table file is larger than {_MOST_BYTES >> 20} MB. Send it in parts.")
        text = decode(Path(path).read_bytes())
    except OSError as error:
        raise DamagedError("The document's file can't be read.") from error
    pager = Pager(TABLE_PAGE_CHARS)
    delimiter = delimiter_of(text[:_SAMPLE_CHARS]) or ","
    if text[:_SAMPLE_CHARS].partition("\n")[0].count(delimiter) >= _MOST_COLUMNS:
        pager.add(MarkdownBlock(cell(text)))  # a table that wide can't be read
        return Opened(READER, pager.finish())
    if '"' not in text and is_plain(text):
        # As most are: nothing to unpack and nothing to disarm.
        pager.add_table(
            [line.split(delimiter)[:_MOST_COLUMNS] for line in text.splitlines() if line.strip(_BLANK)]
        )
        return Opened(READER, pager.finish())
    try:
        rows = csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=delimiter)
        shown = [[cell(value) for value in row[:_MOST_COLUMNS]] for row in rows if any(row)]
    except csv.Error:  # a field of more than 128 kB: an open quotation mark, or no table at all
        shown = [
            [cell(value) for value in line.split(delimiter)[:_MOST_COLUMNS]] for line in text.splitlines()
        ]
    pager.add_table(shown)
    return Opened(READER, pager.finish())
