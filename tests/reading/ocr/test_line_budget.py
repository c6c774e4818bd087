"""How many lines of a page the careful reader reads, and what becomes of the others."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PIL import ImageFilter

from quire.domain.page import Grade
from quire.reading.ocr import line_budget, ocr_stages, quick_reader
from quire.reading.ocr.careful_reader import CAREFUL_READER
from quire.reading.ocr.line_budget import OCR_BUDGET, LineBudget
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.page_ocr import OcrOptions, best_reading
from quire.reading.ocr.sure_lines import SureLines
from quire.reading.pdf.page_render import DrawnPage
from tests.reading.ocr import scans

STEP = 120


def _line(row: int, *texts: str, sure: float) -> OcrLine:
    top = 100 * row
    words = [
        OcrWord(100 + at * STEP, top, 100 + at * STEP + 110, top + 30, text, sure)
        for at, text in enumerate(texts)
    ]
    return OcrLine(words)


LINES = [
    _line(1, "the", "river", "rose", sure=0.93),
    _line(2, "and", "fell", "again", sure=0.98),
    _line(3, "in", "May", "1997", sure=0.99),
    _line(4, "tlie", "ha1f", "ot", sure=0.6),
]
BOXES = {place: (90, 100 * (place + 1) - 5, 460, 100 * (place + 1) + 35) for place in range(4)}
WIDTHS = dict.fromkeys(range(4), 500.0)


def _budget(width_px: float) -> LineBudget:
    return LineBudget(width_px, lambda: SureLines.of(RecognisedPage(1000, 1000, [LINES])))


def test_no_line_is_left_to_the_quick_reader_when_the_budget_suffices() -> None:
    assert _budget(2000).left_to_quick(BOXES, WIDTHS) == {}


def test_the_surest_lines_are_left_to_the_quick_reader_when_there_are_too_many() -> None:
    assert _budget(1500).left_to_quick(BOXES, WIDTHS) == {1: ("and fell again", pytest.approx(0.98))}


def test_lines_with_figures_are_the_last_that_are_left_to_the_quick_reader() -> None:
    assert list(_budget(1000).left_to_quick(BOXES, WIDTHS)) == [1, 0]
    assert list(_budget(500).left_to_quick(BOXES, WIDTHS)) == [1, 0, 2]


def test_a_doubtful_line_is_read_carefully_when_the_budget_is_used_up() -> None:
    assert 3 not in _budget(0).left_to_quick(BOXES, WIDTHS)


def test_lines_from_all_over_the_page_are_read_first_when_the_quick_reader_can_not_read_it() -> None:
    widths = dict.fromkeys(range(10), 100.0)
    budget = LineBudget(500, is_unreadable=True)
    first = budget.first_lines(list(range(10)), widths)
    assert len(first) == 5
    assert max(b - a for a, b in pairwise([-1, *first, 10])) <= 3
    assert len({place % 2 for place in first}) == 2
    assert LineBudget(500).first_lines(list(range(10)), widths) == list(range(10))


def test_the_other_lines_are_read_when_the_careful_reader_knows_the_letters() -> None:
    budget = LineBudget(500, is_unreadable=True)
    assert not budget.is_spent([("clear letters in an odd type", 0.97)])
    assert budget.is_spent([("Kommtet peun", 0.93)])


def test_a_page_is_not_good_and_says_so_when_lines_were_left_to_the_quick_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sheet = scans.sheet(3, filled=0.35)
    drawn = DrawnPage(sheet.picture.convert("L"), 72 / sheet.dpi)
    monkeypatch.setattr(ocr_stages, "_SURE", 1.0)  # so that the quick reader's page is not kept
    monkeypatch.setattr(line_budget, "BALANCED_PX", 500)
    monkeypatch.setattr(ocr_stages.PictureReading, "_sure_lines", lambda self: SureLines())
    bounded = best_reading(drawn, 1, OcrOptions())
    assert OCR_BUDGET in bounded.judged.reasons
    assert bounded.judged.grade is Grade.FAIR
    assert scans.error_rate(bounded.laid.markdown, sheet.text) < 0.02
    thorough = best_reading(drawn, 1, OcrOptions(mode=ocr_stages.CAREFUL, is_thorough=True))
    assert OCR_BUDGET not in thorough.judged.reasons


def test_the_quick_reader_is_asked_only_when_there_are_too_many_lines() -> None:
    asked: list[str] = []

    def read() -> RecognisedPage:
        asked.append("page")
        return RecognisedPage(1000, 1000, [LINES])

    budget = LineBudget.of(None, None, read)
    assert budget.left_to_quick(BOXES, WIDTHS) == {}
    assert not asked
    wide = dict.fromkeys(range(4), budget.width_px / 3)
    assert list(budget.left_to_quick(BOXES, wide)) == [1, 0]
    assert asked == ["page"]


def test_the_quick_reader_does_not_read_a_full_page_when_its_letters_touch_and_a_strip_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sheet = scans.sheet(5, font="helv", size=9, columns=2, filled=0.4)
    touching = sheet.picture.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.GaussianBlur(1.5))
    read: list[bool] = []
    reads = quick_reader.read

    def counted(*given: object, one_block: bool = False) -> RecognisedPage:
        read.append(one_block)
        return reads(*given, one_block=one_block)  # type: ignore[arg-type]

    monkeypatch.setattr(quick_reader, "read", counted)
    monkeypatch.setattr(ocr_stages, "_WELL_READ", 1.0)
    monkeypatch.setattr(ocr_stages, "_FULL_PAGE", 300)
    found = ocr_stages.recognise(touching, OcrOptions(dpi=sheet.dpi))
    assert found.reader == CAREFUL_READER
    assert read == [True]
    read.clear()
    ocr_stages.recognise(sheet.picture, OcrOptions(dpi=sheet.dpi))
    assert read[0] is False
