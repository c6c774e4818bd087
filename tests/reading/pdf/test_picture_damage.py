"""A page with a picture that can't be decoded to its end says so: what is missing of it is white."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.page import Grade
from quire.reading.files.page_chunks import read_chunk
from quire.reading.ocr.page_ocr import OcrOptions, recognise_page
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.picture_damage import DAMAGED_PICTURE
from tests.reading.conftest import Make
from tests.reading.ocr import scans
from tests.reading.ocr.layered_scans import layered

SHEET = scans.sheet(5, dpi=150)


def scan(kept: float = 1.0, *, filter_name: str = "") -> Any:
    """A scan of which a part of the picture's bytes is there; or garbage that is called another format."""
    document = layered(SHEET.picture, [])
    picture = document[0].get_images()[0][0]
    name = filter_name or document.xref_get_key(picture, "Filter")[1]
    raw = b"garbage" * 100 if filter_name else document.xref_stream_raw(picture)
    document.update_stream(picture, raw[: round(kept * len(raw))], compress=False)
    document.xref_set_key(picture, "Filter", name)
    return document


@pytest.mark.parametrize("kept", [0.9, 0.5])
def test_scan_is_low_when_its_picture_ends_early(save: Make, kept: float) -> None:
    (page,) = recognise_page(save(scan(kept)), None, 1, OcrOptions()).pages
    assert page.grade is Grade.LOW
    assert page.has_text
    assert DAMAGED_PICTURE in page.reasons


def test_scan_is_good_when_its_picture_is_whole(save: Make) -> None:
    (page,) = recognise_page(save(scan()), None, 1, OcrOptions()).pages
    assert (page.grade, DAMAGED_PICTURE in page.reasons) == (Grade.GOOD, False)


def test_scan_stays_low_when_its_picture_is_drawn_again_from_memory(save: Make) -> None:
    path = save(scan(0.5))
    found = [recognise_page(path, None, 1, OcrOptions()).pages[0].grade for _ in range(2)]
    assert found == [Grade.LOW, Grade.LOW]


def test_page_is_not_called_blank_when_its_picture_cannot_be_loaded(save: Make) -> None:
    chunk = read_chunk(save(scan(filter_name="/JPXDecode")), None, [1], ReadOptions(), False)
    (page,) = chunk.pages
    assert page.grade is Grade.LOW
    assert "blank_page" not in page.reasons
    assert DAMAGED_PICTURE in page.reasons


def test_page_without_pictures_is_blank(save: Make) -> None:
    document = pymupdf.open()
    document.new_page()
    (page,) = read_chunk(save(document), None, [1], ReadOptions(), False).pages
    assert (page.grade, page.reasons) == (None, ("blank_page",))
