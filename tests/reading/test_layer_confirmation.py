"""A doubted text layer is kept where OCR reads the same words, and given up where it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quire.domain.element import Box, Element, ElementKind
from quire.domain.element_codec import decode
from quire.domain.page import Grade, PageClass, PageReading, PageSignals
from quire.reading.files.page_chunks import UNREADABLE_TEXT, Chunk, pack
from quire.reading.grading.page_grade import LOW_PLAUSIBILITY, Judgement
from quire.reading.layer_confirmation import completed_layer, confirmed_layer, text_of
from quire.reading.local_reader import OCR_NOT_BETTER, LocalOptions, LocalReader
from quire.rendering.page_markdown import render_markdown

WORDS = [f"Xq{letter}tz{number}" for letter in "abcdefgh" for number in range(5)]
GARBLED = Judgement(0.6, Grade.LOW, (LOW_PLAUSIBILITY,))
BY_OCR = Judgement(0.88, Grade.FAIR, (LOW_PLAUSIBILITY,))


def chunk(
    parts: list[tuple[str, Box]],
    judged: Judgement,
    page_class: PageClass = PageClass.TEXT_ONLY,
    reader: str = "mupdf",
) -> Chunk:
    elements = tuple(
        Element(f"p1-e{at}", ElementKind.PARAGRAPH, text, box) for at, (text, box) in enumerate(parts, 1)
    )
    text = render_markdown(elements)
    signals = PageSignals(chars=len(text), width_pt=600, height_pt=800)
    return pack([PageReading(1, page_class, text, text, reader, (), signals, elements)], judged)


def page(words: list[str], judged: Judgement = GARBLED) -> Chunk:
    return chunk([(" ".join(words), (50, 50, 500, 700))], judged)


@pytest.mark.parametrize(("misread", "is_kept"), [(0, True), (5, True), (8, False), (40, False)])
def test_layer_is_kept_when_ocr_reads_nearly_all_of_its_words(misread: int, is_kept: bool) -> None:
    found = confirmed_layer(page(WORDS), page([*["wrong"] * misread, *WORDS[misread:]], BY_OCR))
    assert (found is not None) is is_kept


def test_layer_is_fair_and_plausible_when_it_is_confirmed() -> None:
    found = confirmed_layer(page(WORDS), page(WORDS, BY_OCR))
    assert found is not None
    (kept,) = found.pages
    assert (kept.grade, kept.confidence, kept.reasons) == (Grade.FAIR, 0.85, ())
    assert text_of(found) == " ".join(WORDS)


def test_layer_is_not_confirmed_when_ocr_reads_many_more_words() -> None:
    assert confirmed_layer(page(WORDS[:24]), page(WORDS, BY_OCR)) is None


def test_layer_is_not_confirmed_when_it_has_lost_its_capitals() -> None:
    lost = Judgement(0.7, Grade.LOW, ("lost_capitals",))
    assert confirmed_layer(page([word.lower() for word in WORDS], lost), page(WORDS, BY_OCR)) is None


class OnePage:
    """A pool whose processes answer every task with one reading."""

    def __init__(self, answer: Chunk) -> None:
        self._answer = answer

    async def run(self, *_: object, **__: object) -> Chunk:
        return self._answer


async def recognised(layer: Chunk, answer: Chunk) -> Chunk:
    pool: Any = OnePage(answer)
    found = await LocalReader(pool, LocalOptions(), "a.pdf").recognise(layer)
    assert isinstance(found, Chunk)
    return found


async def test_page_has_its_layer_when_ocr_is_surer_and_reads_the_same() -> None:
    found = await recognised(page(WORDS), page(WORDS, BY_OCR))
    assert (found.pages[0].reader, found.pages[0].reasons) == ("mupdf", (OCR_NOT_BETTER,))


TITLE, NAME, LOGO = (50.0, 300.0, 500.0, 330.0), (50.0, 350.0, 300.0, 380.0), (400.0, 20.0, 550.0, 40.0)
FAILED = Judgement(0.44, Grade.LOW, ("handwriting_or_unknown_script",))
SURE = Judgement(1.0, Grade.GOOD)


def scan(*parts: tuple[str, Box], judged: Judgement = FAILED, reader: str = "rapidocr") -> Chunk:
    return chunk(list(parts), judged, PageClass.SCANNED, reader)


def over_scan() -> Chunk:
    return scan(("THE POWER OF LEADERS", TITLE), ("ดร.วิทย์ สิทธิเวคิน", NAME), judged=SURE, reader="mupdf")


async def test_words_over_a_scan_stay_when_ocr_fails_on_it_and_confirms_one_of_them() -> None:
    read = scan(("THE VISION", LOGO), ("THEPOWER OF LEADERS", TITLE), ("U.g ansnU", NAME))
    found = await recognised(over_scan(), read)
    assert text_of(found) == "THE VISION\n\nTHE POWER OF LEADERS\n\nดร.วิทย์ สิทธิเวคิน"
    (kept,) = found.pages
    assert (kept.grade, kept.reader, kept.reasons) == (Grade.LOW, "rapidocr", FAILED.reasons)
    stored = decode(found.block[kept.elements_offset : kept.elements_offset + kept.elements_length])
    assert [(one.id, one.reader) for one in stored.elements] == [
        ("p1-e1", ""),
        ("p1-e2", "mupdf"),
        ("p1-e3", "mupdf"),
    ]


UNCONFIRMED = scan(("THE VISION", LOGO), ("other words here", TITLE))


def not_drawn(layer: Chunk) -> Chunk:
    return Chunk(layer.block, (replace(layer.pages[0], is_unseen=True),))


@pytest.mark.parametrize(
    ("layer", "read"),
    [
        (not_drawn(over_scan()), UNCONFIRMED),
        (not_drawn(over_scan()), scan(("THE POWER OF LEADERS", LOGO))),
        (over_scan(), scan(("THE POWER OF LEADERS", TITLE), judged=BY_OCR)),
        (scan(("Too few letters", TITLE), judged=SURE, reader="mupdf"), UNCONFIRMED),
    ],
)
def test_ocr_is_kept_when_it_confirms_no_words_that_are_not_drawn_or_is_not_low(
    layer: Chunk, read: Chunk
) -> None:
    assert completed_layer(layer, read) is None


async def test_words_that_are_drawn_over_a_scan_stay_when_ocr_reads_none_of_them() -> None:
    found = await recognised(over_scan(), UNCONFIRMED)
    assert text_of(found) == "THE VISION\n\nTHE POWER OF LEADERS\n\nดร.วิทย์ สิทธิเวคิน"
    assert found.pages[0].grade is Grade.LOW


NOTHING = Judgement(0.0, Grade.LOW)


async def test_layer_stays_when_ocr_reads_nothing_and_it_is_partly_plausible() -> None:
    found = await recognised(page(WORDS), scan(judged=NOTHING))
    (kept,) = found.pages
    assert (kept.grade, kept.reader, kept.reasons) == (
        Grade.LOW,
        "mupdf",
        (LOW_PLAUSIBILITY, OCR_NOT_BETTER),
    )
    assert text_of(found) == " ".join(WORDS)


async def test_page_says_that_it_has_text_when_neither_its_layer_nor_ocr_gives_it() -> None:
    garbage = Judgement(0.1, Grade.LOW, (LOW_PLAUSIBILITY,))
    found = await recognised(page(WORDS, garbage), scan(judged=NOTHING))
    (kept,) = found.pages
    assert (kept.grade, kept.has_text) == (Grade.LOW, False)
    assert UNREADABLE_TEXT in kept.reasons
    assert "has text, but it can't be read" in text_of(found)
    assert found.block == text_of(found).encode()


async def test_page_of_few_words_over_a_picture_has_these_when_ocr_reads_nothing() -> None:
    found = await recognised(over_scan(), scan(judged=NOTHING))
    assert text_of(found).startswith("THE POWER OF LEADERS")
