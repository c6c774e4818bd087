"""Lines that run down the picture show that a page was not made upright."""

from __future__ import annotations

from dataclasses import replace

from PIL import Image

from quire.domain.page import Grade
from quire.reading.grading.page_grade import ON_ITS_SIDE, OcrEvidence, judge_ocr
from quire.reading.ocr import careful_reader
from quire.reading.ocr.ocr_options import CAREFUL, OcrOptions
from quire.reading.ocr.ocr_stages import PictureReading
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from tests.reading.ocr import scans


def page_of(*boxes: tuple[int, int, int, int], words: int = 3) -> RecognisedPage:
    """A page of lines with these boxes, each of so many words."""
    lines = [OcrLine([OcrWord(*box, "word") for _ in range(words)]) for box in boxes]
    return RecognisedPage(1000, 1000, [lines])


def test_page_is_on_its_side_only_when_most_lines_of_several_words_run_down() -> None:
    down, across = (
        [(at, 0, at + 20, 400) for at in (0, 40, 80)],
        [(0, at, 400, at + 20) for at in (0, 40, 80)],
    )
    assert page_of(*down).is_on_its_side()
    assert page_of(*down, across[0]).is_on_its_side()
    assert not page_of(*down, *across).is_on_its_side()
    assert not page_of(*down[:2]).is_on_its_side()  # a label in a margin
    assert not page_of(*down, words=1).is_on_its_side()  # Chinese set in columns has no spaces


def test_reading_is_low_when_its_lines_run_down_the_page() -> None:
    text = "The board of the railway refused to sign the agreement because the old bridge was not safe. " * 3
    judged = judge_ocr(text, OcrEvidence(0.99, is_on_its_side=True))
    assert (judged.grade, judged.reasons) == (Grade.LOW, (ON_ITS_SIDE,))


def test_page_is_turned_by_a_quarter_when_its_lines_were_taken_for_lines_on_their_side() -> None:
    sheet = scans.sheet(7, size=14, filled=0.2)
    reading = PictureReading(sheet.picture.convert("L"), OcrOptions(mode=CAREFUL))
    reading._posture = replace(reading._posture, turns=1, certain=True)  # as if the model had erred
    reading._lay()
    turned = sheet.picture.convert("L").transpose(Image.Transpose.ROTATE_90)
    assert careful_reader.read(turned, ["eng"]).is_on_its_side()
    found = reading.result()
    assert found.turn.turns == 0
    assert not found.evidence.is_on_its_side
    assert scans.error_rate(" ".join(line.text for line in found.seen.lines()), sheet.text) < 0.05
