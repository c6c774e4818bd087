"""OCR yields the elements that the page's Markdown is made of, where they are on the page."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.domain.element_codec import decode
from quire.reading.ocr.ocr_options import QUICK, OcrOptions
from quire.reading.ocr.page_ocr import recognise_page
from quire.rendering.page_markdown import render_markdown

from . import scans


def test_elements_have_boxes_and_confidence_when_a_scan_is_read(tmp_path: Path) -> None:
    sheet = scans.sheet(7, size=12, filled=0.25)
    path = tmp_path / "scan.png"
    path.write_bytes(scans.png(sheet.picture))
    chunk = recognise_page(str(path), None, 1, OcrOptions(mode=QUICK))
    (page,) = chunk.pages
    stored = decode(chunk.block[page.elements_offset : page.elements_offset + page.elements_length])
    kinds = [element.kind for element in stored.elements]
    assert kinds[0] is ElementKind.TITLE
    assert ElementKind.PARAGRAPH in kinds
    for element in stored.elements:
        assert element.box is not None
        assert 0 <= element.box[0] < element.box[2] <= stored.width
        assert 0 <= element.box[1] < element.box[3] <= stored.height
        assert element.confidence is not None
        assert element.confidence > 0.8
    assert render_markdown(stored.elements) == chunk.block[page.offset : page.offset + page.length].decode()


def test_boxes_are_where_the_text_is_when_a_page_is_too_large_for_the_resolution_asked_for(
    tmp_path: Path,
) -> None:
    document = pymupdf.open()
    page = document.new_page(width=2600, height=600)  # at 200 dpi more than 7000 pixels wide
    for row in range(4):
        page.insert_text((1400, 120 + 120 * row), "Pelican harbour opens before the tide", fontsize=60)
    words = page.get_text("words")
    path = tmp_path / "wide.pdf"
    document.save(path)
    chunk = recognise_page(str(path), None, 1, OcrOptions(mode=QUICK))
    (read,) = chunk.pages
    stored = decode(chunk.block[read.elements_offset : read.elements_offset + read.elements_length])
    assert (stored.width, stored.height) == pytest.approx((2600, 600), abs=1)
    boxes = [element.box for element in stored.elements if element.box]
    assert min(box[0] for box in boxes) == pytest.approx(min(word[0] for word in words), abs=10)
    assert max(box[2] for box in boxes) == pytest.approx(max(word[2] for word in words), abs=10)
