"""OCR yields the elements that the page's Markdown is made of, where they are on the page."""

from __future__ import annotations

from pathlib import Path

from quire.domain.element import ElementKind
from quire.domain.element_codec import decode
from quire.reading.ocr.ocr_stages import QUICK, OcrOptions
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
