"""Pages whose text layer means nothing and whose type is too small for OCR as pages are usually drawn."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.page import Grade, PageClass
from quire.reading.files.page_chunks import UNREADABLE_TEXT, read_chunk
from quire.reading.ocr.page_ocr import OcrOptions, recognise_page
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_render import RenderOptions, draw_scan
from quire.reading.sync_reader import SyncReader
from tests.reading.conftest import PROSE, Make
from tests.reading.ocr import scans

_TO_PRIVATE_LETTERS = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def
1 begincodespacerange <00> <FF> endcodespacerange
1 beginbfrange <21> <7E> <E021> endbfrange
endcmap end end"""
OPTIONS = RenderOptions(dpi=200, color="gray", max_px=6000, max_pixels=40_000_000)


def garbled(size: float) -> Any:
    """A page that shows prose; its text layer has letters that mean nothing."""
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox((72, 72, 72 + 42 * size, 760), PROSE * 3, fontsize=size, fontname="tiro")
    font = page.get_fonts()[0][0]
    table = document.get_new_xref()
    document.update_object(table, "<<>>")
    document.update_stream(table, _TO_PRIVATE_LETTERS)
    document.xref_set_key(font, "ToUnicode", f"{table} 0 R")
    return document


@pytest.mark.parametrize("size", [1.5, 3, 6])
def test_small_type_is_read_by_ocr_when_its_text_layer_means_nothing(save: Make, size: float) -> None:
    path = save(garbled(size))
    assert read_chunk(path, None, [1], ReadOptions(), False).pages[0].page_class is PageClass.GARBLED
    found = recognise_page(path, None, 1, OcrOptions())
    (page,) = found.pages
    assert page.grade is Grade.GOOD
    assert scans.error_rate(found.block[: page.length].decode(), PROSE * 3) < 0.02


def test_page_says_that_it_has_text_when_its_type_is_too_small_at_any_size(save: Make) -> None:
    with SyncReader() as reader:
        (found,) = reader.read(save(garbled(0.3)))
    assert found.grade is Grade.LOW
    assert UNREADABLE_TEXT in found.reasons
    assert "has text, but it can't be read" in found.markdown


@pytest.mark.parametrize(("size", "is_finer"), [(11, False), (6, False), (4, True), (1, True), (0.3, False)])
def test_page_is_drawn_finer_when_its_type_is_small(save: Make, size: float, is_finer: bool) -> None:
    drawn = draw_scan(save(garbled(size)), None, 1, OPTIONS)
    assert (max(drawn.picture.size) > 842 / 72 * 200 + 1) is is_finer
    assert drawn.picture.width * drawn.picture.height <= 1.001 * OPTIONS.max_pixels
    assert drawn.points_per_px * drawn.picture.height == pytest.approx(842, abs=1)
