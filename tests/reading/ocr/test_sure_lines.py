"""Lines that the quick reader has surely read are not read again by the careful one."""

from __future__ import annotations

import pytest
from PIL import Image, ImageFilter

from quire.reading.ocr import careful_reader
from quire.reading.ocr.ocr_options import AUTO, CAREFUL, OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.sure_lines import SURELY_READ, SureLines
from tests.reading.ocr import scans

TOP, BOTTOM, STEP = 100, 130, 120
BOX = (90, 95, 590, 135)


def _line(*texts: str, sure: float = 0.96, left: int = 100, top: int = TOP) -> OcrLine:
    return OcrLine(
        [
            OcrWord(left + place * STEP, top, left + place * STEP + 110, top + 30, text, sure)
            for place, text in enumerate(texts)
        ]
    )


def _sure(*lines: OcrLine) -> SureLines:
    return SureLines.of(RecognisedPage(1000, 1000, [list(lines)]))


def test_a_line_is_taken_when_its_words_are_sure_and_fill_the_box() -> None:
    found = _sure(_line("the", "river", "ran", "high."), _line("a", "line", "further", "down", top=200))
    assert found.text_in(BOX) == "the river ran high."


def test_a_line_is_read_again_when_one_of_its_words_is_in_doubt() -> None:
    line = _line("the", "river", "ran", "high.")
    line.words[2] = OcrWord(340, TOP, 450, BOTTOM, "ran", 0.85)
    assert _sure(line).text_in(BOX) is None


@pytest.mark.parametrize(
    "texts",
    [
        ("for", "1,000", "days", "only"),
        ("less", "than", "|", "year"),
        ("page", "ninety}", "of", "it"),
        ("the", "end,", "They", "went"),
    ],
    ids=["a figure", "a bar", "a brace", "a comma before a capital"],
)
def test_a_line_is_read_again_when_it_has_signs_that_the_quick_reader_mistakes(
    texts: tuple[str, ...],
) -> None:
    assert _sure(_line(*texts)).text_in(BOX) is None


def test_a_line_is_read_again_when_it_is_a_short_label() -> None:
    assert _sure(_line("high", "river")).text_in((90, 95, 340, 135)) is None


@pytest.mark.parametrize(
    "lines",
    [
        (_line("the", "river", "ran"),),
        (_line("the", "river", "ran"), _line("high.", left=460, top=104)),
        (_line("beyond", "the", "river", "ran", "high.", left=-100),),
        (),
    ],
    ids=["words are missing", "two lines are in it", "a word reaches out", "no line is in it"],
)
def test_a_line_is_read_again_when_it_does_not_fill_the_box(lines: tuple[OcrLine, ...]) -> None:
    assert _sure(*lines).text_in(BOX) is None


def test_the_careful_reader_takes_the_words_of_a_line_that_is_known_and_reads_the_others() -> None:
    sheet = scans.written(["the river ran high that spring", "and the boats stayed at home"])
    read = careful_reader.read(sheet.picture, ["eng"])
    first, second = list(read.lines())
    left, _, right, _ = first.box()
    texts = ["the", "ferry", "sank", "late", "that", "spring"]
    step = (right - left) / len(texts)
    words = [
        OcrWord(
            round(left + n * step),
            first.box()[1],
            round(left + (n + 1) * step) - 2,
            first.box()[3],
            text,
            0.96,
        )
        for n, text in enumerate(texts)
    ]
    again = careful_reader.read(sheet.picture, ["eng"], _sure(OcrLine(words)))
    known, other = list(again.lines())
    assert known.text == "the ferry sank late that spring"
    assert {word.confidence for word in known.words} == {SURELY_READ}
    assert (
        (other.text, other.box())
        == (second.text, second.box())
        == ("and the boats stayed at home", second.box())
    )


ENGLISH = [
    "the boats of the harbour were tied to the old wall and waited",
    "for the wind that was to come from the sea in the evening",
    "and the men who had been at work since the morning went home",
    "by the narrow road that led from the harbour to the village",
]
FRENCH = [
    "les bateaux du port sont au repos dans la lumière de la soirée",
    "et les hommes qui rentrent par le chemin du village sont las",
    "une femme est sur le seuil de la maison avec les enfants",
    "dont les voix arrivent dans le calme pour le repas du soir",
]


def _half_blurred(lines: list[str]) -> Image.Image:
    """A page that the quick reader can't read as a whole, with lines that it can read."""
    picture = scans.written(lines * 4).picture
    half = picture.height // 2
    picture.paste(picture.crop((0, half, *picture.size)).filter(ImageFilter.GaussianBlur(4.5)), (0, half))
    return picture


@pytest.mark.parametrize(
    ("lines", "mode", "are_kept"),
    [(ENGLISH, AUTO, True), (ENGLISH, CAREFUL, False), (FRENCH, AUTO, False)],
    ids=["its language", "the careful reader was asked for", "no model of the language"],
)
def test_sure_lines_are_kept_when_the_quick_reader_has_the_model_of_their_language(
    lines: list[str], mode: str, *, are_kept: bool
) -> None:
    found = recognise(_half_blurred(lines), OcrOptions(mode=mode))
    kept = [line.text for line in found.seen.lines() if line.words[0].confidence == SURELY_READ]
    assert found.reader == "rapidocr"
    assert bool(kept) == are_kept
    assert set(kept) <= set(lines)
