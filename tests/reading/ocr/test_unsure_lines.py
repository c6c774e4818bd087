"""Lines that neither reader is sure of, on a page whose print both read, keep the page from being good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.domain.page import Grade
from quire.reading.grading.page_grade import UNKNOWN_WRITING, OcrEvidence, judge_ocr
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.unsure_lines import unknown_lines
from tests.reading.ocr import scans

SENTENCE = "The harbour office paid for the repairs of the old bridge before the winter. " * 3


def page(*lines: tuple[str, float]) -> RecognisedPage:
    read = [
        OcrLine([OcrWord(100, 40 * at, 500, 40 * at + 30, text, sure)])
        for at, (text, sure) in enumerate(lines)
    ]
    return RecognisedPage(800, 600, [read])


@pytest.mark.parametrize(
    ("careful", "quick", "count"),
    [
        (0.88, 0.2, 1),  # by hand
        (0.99, 0.2, 0),  # blurred print, which only the careful reader knows
        (0.88, 0.9, 0),  # an odd word
    ],
)
def test_line_is_unknown_when_neither_reader_is_sure_of_it(careful: float, quick: float, count: int) -> None:
    seen = page(("Printed label", 0.99), ("MalgartElson", careful))
    assert unknown_lines(seen, page(("Printed label", 0.96), ("Mlgj lsn", quick))) == count


def test_line_is_unknown_when_the_quick_reader_sees_nothing_there() -> None:
    assert unknown_lines(page(("Shoteane", 0.85)), page()) == 1
    assert unknown_lines(page(("4.", 0.5)), page()) == 0


@pytest.mark.parametrize(("count", "grade"), [(0, Grade.GOOD), (1, Grade.GOOD), (2, Grade.FAIR)])
def test_page_is_not_good_when_it_has_several_unknown_lines(count: int, grade: Grade) -> None:
    evidence = replace(OcrEvidence(0.99, lines=30), unknown_lines=count)
    judged = judge_ocr(SENTENCE, evidence)
    assert (judged.grade, UNKNOWN_WRITING in judged.reasons) == (grade, grade is Grade.FAIR)


@pytest.mark.parametrize("spoil", [scans.as_is, scans.blurred, scans.pale])
def test_print_has_no_unknown_lines_when_it_is_spoilt(spoil: scans.Spoiler) -> None:
    sheet = scans.sheet(8, filled=0.3)
    found = recognise(spoil(sheet.picture, 8), OcrOptions())
    assert found.unknown_lines == 0
