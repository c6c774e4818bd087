"""Blocks of a page in reading order, as the layout reader (liteparse, on PDFium) sees them.

Pages are handed over one by one, from a small PDF that MuPDF cuts out in memory. That makes the answer for a
page independent of its neighbours in the chunk, keeps the cost per page the same in a document of 10 and of
10,000 pages (PDFium would walk the page tree anew at every opening), needs no password and no file name, and
gives damaged files the benefit of MuPDF's repairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.domain.element import CellSpan
from quire.reading.pdf.contents_list import ContentsEntry
from quire.reading.pdf.mupdf import mupdf

Box = tuple[float, float, float, float]

MAX_CUT_BYTES = 64 * 1024 * 1024
"""Pages larger than this, their pictures included, are left to MuPDF: PDFium would hold them twice more."""

_CUT_TOGETHER = 8
"""Pages cut out at once share their fonts: 0.7 ms a page instead of 2.6."""

_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})


@dataclass(frozen=True, slots=True)
class LayoutBlock:
    """One block: `heading`, `paragraph`, `list_item`, `table`, `contents`, `numbered_lines`, `code` or `rule`.

    `running` is one of the margin, which heads nothing. `rows` has the header first.
    """

    kind: str
    box: Box
    text: str = ""
    level: int = 0
    bold: bool = False
    italic: bool = False
    marker: str = ""
    ordered: bool = False
    lines: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    spans: tuple[CellSpan, ...] = ()
    entries: tuple[ContentsEntry, ...] = ()
    line_boxes: tuple[Box, ...] = ()
    """Those of the lines of numbered text."""
    keeps_lines: bool = False
    """Its lines were ended on purpose, as those of an address."""


def make_parser() -> Any:
    """A parser with everything off that is slow, goes to the network or starts helpers of its own."""
    import liteparse

    return liteparse.LiteParse(
        ocr_enabled=False,
        quiet=True,
        output_format="markdown",
        image_mode="off",
        extract_links=False,
        keep_headers_footers=True,
        extract_blocks=True,
        num_workers=1,
    )


def lay_out(handle: Any, rotations: Mapping[int, int], parser: Any) -> dict[int, list[LayoutBlock]]:
    """The blocks of pages (from 1) of the opened PDF `handle`, each turned clockwise by the degrees given.

    Never raises for a page it can't read, but leaves it out: MuPDF has read it already, and answers in its place.
    """
    found: dict[int, list[LayoutBlock]] = {}
    numbers = list(rotations)
    for at in range(0, len(numbers), _CUT_TOGETHER):
        group = numbers[at : at + _CUT_TOGETHER]
        pages = _lay_out_group(handle, group, rotations, parser)
        if pages is None and len(group) > 1:
            for number in group:
                found.update(_lay_out_group(handle, [number], rotations, parser) or {})
        else:
            found.update(pages or {})
    return found


def _lay_out_group(
    handle: Any, numbers: Sequence[int], rotations: Mapping[int, int], parser: Any
) -> dict[int, list[LayoutBlock]] | None:
    try:
        data = _cut_out(handle, numbers, rotations)
        if len(data) > MAX_CUT_BYTES:
            return None
        # A session with batches of one page sees nothing of the other pages. The wrapper's own `parse` would
        # make Python objects of every glyph run, which is not used.
        session = parser._native.open_batch_session_bytes(data, 1)
        found: dict[int, list[LayoutBlock]] = {}
        for number in numbers:
            batch = session.next_batch()
            if batch is None:
                return None
            found[number] = [_block(b) for page in batch.result.pages for b in page.blocks]
        return found
    except MemoryError:
        raise
    except Exception:  # whatever it is, the fallback answers, and the reading's `reader` says so
        return None


def _cut_out(handle: Any, numbers: Sequence[int], rotations: Mapping[int, int]) -> bytes:
    part = mupdf().open()
    try:
        for first, last in _runs(numbers):
            part.insert_pdf(
                handle,
                from_page=first - 1,
                to_page=last - 1,
                links=False,
                annots=False,
                widgets=False,
                final=last == numbers[-1],
            )
        for page, number in zip(part, numbers, strict=True):
            if page.rotation != rotations[number]:
                page.set_rotation(rotations[number])
        return _written(part)
    finally:
        part.close()


def _written(part: Any) -> bytes:
    """The PDF's bytes. PyMuPDF's own `tobytes` calls Python for every few bytes: 1.4 ms a page instead of 0.2."""
    low = mupdf().mupdf
    buffer = low.fz_new_buffer(64 * 1024)
    output = low.FzOutput(buffer)
    low.pdf_write_document(low.pdf_document_from_fz_document(part.this), output, low.PdfWriteOptions())
    output.fz_close_output()
    data: bytes = low.fz_buffer_extract_copy(buffer)
    return data


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last): one insertion copies what its pages share once."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _block(native: Any) -> LayoutBlock:
    box = native.bbox
    rows = native.rows or []
    header = native.header or []
    return LayoutBlock(
        kind=native.kind,
        box=(box.x, box.y, box.x + box.width, box.y + box.height)
        if box is not None
        else (0.0, 0.0, 0.0, 0.0),
        text=_without_ligatures(native.text or ""),
        level=native.level or 0,
        bold=bool(native.bold),
        italic=bool(native.italic),
        marker=native.marker or "",
        ordered=bool(native.ordered),
        lines=tuple(map(_without_ligatures, native.lines or ())),
        rows=tuple(
            tuple(_without_ligatures(cell.text) for cell in row)
            for row in ([header, *rows] if header else rows)
        ),
    )


def _without_ligatures(text: str) -> str:
    """The text with letters instead of ligatures, as MuPDF gives it."""
    return text if text.isascii() else text.translate(_LIGATURES)
