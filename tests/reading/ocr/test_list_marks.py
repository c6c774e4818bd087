"""Marks of list items that OCR takes for other signs are bullets; signs that are what they seem stay."""

from __future__ import annotations

from quire.reading.ocr.list_marks import with_bullets
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.page_ocr import OcrOptions, recognise_page
from tests.support.environment import ROOT

LETTER_PX, HEIGHT_PX, GAP_PX = 12, 24, 14


def line(top: int, text: str, *, left: int = 90, first_sure: float = 0.9) -> OcrLine:
    """Words behind a mark begin at one place, whatever the mark is taken for."""
    mark, rest = text.split(" ", 1)
    words = [OcrWord(left, top, left + LETTER_PX * len(mark), top + HEIGHT_PX, mark, first_sure)]
    at = max(left + 44, words[0].right + GAP_PX)
    for word in rest.split():
        words.append(OcrWord(at, top, at + LETTER_PX * len(word), top + HEIGHT_PX, word, 0.96))
        at += LETTER_PX * (len(word) + 1)
    return OcrLine(words)


def texts_of(*lines: OcrLine) -> list[str]:
    page = RecognisedPage(1240, 1754, [list(lines)])
    return [one.text for one in with_bullets(page).without_noise().lines()]


def test_marks_are_bullets_when_ocr_takes_them_for_other_signs() -> None:
    rows = [line(300, "¢ dry gloves"), line(344, "© chalk"), line(388, "¢ a rope")]
    assert texts_of(*rows) == ["• dry gloves", "• chalk", "• a rope"]


def test_marks_are_bullets_when_the_reader_is_hardly_sure_of_them() -> None:
    rows = [
        line(300, "¢ dry gloves"),
        line(344, '"© chalk', first_sure=0.37),
        line(388, "¢ a rope", first_sure=0.1),
    ]
    assert texts_of(*rows) == ["• dry gloves", "• chalk", "• a rope"]


def test_signs_stay_when_they_stand_alone() -> None:
    assert texts_of(line(300, "© 2024 Harbour Office")) == ["© 2024 Harbour Office"]
    assert texts_of(line(300, "« Bonjour, dit-il. »"), line(344, "Il part.")) == [
        "« Bonjour, dit-il. »",
        "Il part.",
    ]


def test_specks_are_dropped_when_they_are_before_lines_of_prose() -> None:
    rows = [
        line(300 + 44 * row, f"{speck} the tide turns", first_sure=0.1) for row, speck in enumerate(".~.")
    ]
    assert texts_of(*rows) == ["the tide turns"] * 3


def test_a_sentence_keeps_its_first_letter_when_it_could_be_a_mark() -> None:
    rows = [line(300, "e o tempo passou depressa"), line(342, "na cidade antiga")]
    assert texts_of(*rows)[0] == "e o tempo passou depressa"


def test_list_of_a_scan_has_all_its_items_when_its_bullets_are_small() -> None:
    """The page of the picture in the README."""
    chunk = recognise_page(str(ROOT / "samples" / "mixed.pdf"), None, 2, OcrOptions())
    text = chunk.block[: chunk.pages[0].length].decode()
    assert (
        "- dry gloves and a whistle\n- chalk, pencil and a clean board\n- the log of the previous month\n"
        in text
    )


def test_ticks_are_bullets_when_two_are_at_one_place_and_in_doubt() -> None:
    rows = [line(300, "Y labels printed", first_sure=0.18), line(344, "v freezer defrosted", first_sure=0.58)]
    assert texts_of(*rows) == ["• labels printed", "• freezer defrosted"]


def test_a_word_of_one_letter_stays_when_its_reader_is_sure_of_it() -> None:
    rows = [line(300, "Y luego nada", first_sure=0.95), line(344, "y despues todo", first_sure=0.93)]
    assert texts_of(*rows) == ["Y luego nada", "y despues todo"]


def test_a_sign_is_a_bullet_when_two_marks_of_any_kind_are_at_its_place() -> None:
    rows = [line(300, "= dry gloves"), line(344, "© chalk", first_sure=0.55), line(388, "= a rope")]
    assert texts_of(*rows)[1] == "• chalk"
