"""Writing that no reader knows, as handwriting, is named and is never good."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from quire.domain.page import Grade
from quire.reading.grading.page_grade import UNKNOWN_WRITING, OcrEvidence, judge_ocr
from quire.reading.ocr import careful_reader, ocr_stages, quick_reader
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from tests.reading.ocr import scans, script_pages


def _seen(confidence: float) -> RecognisedPage:
    words = [OcrWord(100 + 60 * place, 200, 150 + 60 * place, 230, "word", confidence) for place in range(8)]
    return RecognisedPage(1654, 2339, [[OcrLine(words)]])


@pytest.mark.parametrize(
    ("quick", "careful", "is_unknown"),
    [(0.2, 0.8, True), (0.2, 0.6, False), (0.2, 0.99, False), (0.8, 0.8, False)],
)
def test_writing_is_unknown_when_one_reader_fails_and_the_other_is_unsure(
    monkeypatch: pytest.MonkeyPatch, quick: float, careful: float, is_unknown: bool
) -> None:
    monkeypatch.setattr(quick_reader, "read", lambda *_, **__: _seen(quick))
    monkeypatch.setattr(careful_reader, "read", lambda *_: _seen(careful))
    found = recognise(scans.sheet(2, filled=0.3).picture, OcrOptions())
    assert found.is_unknown_writing is is_unknown
    assert found.evidence.is_unknown_writing is is_unknown


def test_unknown_writing_is_low_and_named_when_its_words_look_right() -> None:
    text = "The board of the railway refused to sign the agreement because the old bridge was not safe. " * 3
    found = judge_ocr(text, OcrEvidence(0.99, is_unknown_writing=True))
    assert found.grade is Grade.LOW
    assert UNKNOWN_WRITING in found.reasons


@pytest.mark.parametrize(("script", "is_read_whole"), [("cyrillic", False), ("latin", True)])
def test_quick_reader_reads_a_strip_only_when_it_can_not_read_a_page_of_many_letters(
    script: str, is_read_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is many is set lower, so that the careful reader has less to read."""
    picture = script_pages.script_page(script, "prose", 3).convert("L")
    heights: list[int] = []
    read = quick_reader.read

    def recorded(part: Image.Image, *arguments: Any, **options: Any) -> RecognisedPage:
        heights.append(part.height)
        return read(part, *arguments, **options)

    monkeypatch.setattr(quick_reader, "read", recorded)
    monkeypatch.setattr(ocr_stages, "_MANY_SHAPES", 200)
    reading = ocr_stages.PictureReading(picture, ocr_stages.OcrOptions())
    found = reading.result()
    assert min(heights) < picture.height / 4, "a strip is read first"
    assert (max(heights) > picture.height / 2) is is_read_whole
    assert found.is_unknown_writing is not is_read_whole
    if not is_read_whole:
        assert list(reading.other_results(found)) == []
