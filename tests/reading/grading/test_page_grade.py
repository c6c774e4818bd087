"""A page's confidence and grade follow from its letters, its debris and what OCR was sure of."""

from __future__ import annotations

import codecs

import pytest

from quire.domain.element import Element, ElementKind
from quire.domain.element_codec import decode
from quire.domain.page import Grade, PageClass, PageReading
from quire.reading.files.page_chunks import pack
from quire.reading.grading.page_doubts import READ_ACROSS
from quire.reading.grading.page_grade import (
    CUT_OFF,
    DOUBTFUL_WORDS,
    INK_LEFT_OUT,
    LOW_PLAUSIBILITY,
    OcrEvidence,
    grade_of,
    judge_ocr,
    judge_text,
    text_confidence,
)
from quire.reading.grading.plausibility import plausibility
from tests.reading.ocr.script_pages import SENTENCES

ENGLISH = (
    "The board of the railway refused to sign the agreement because the old bridge was no longer safe. " * 5
)


@pytest.mark.parametrize("script", sorted(SENTENCES))
def test_text_is_good_when_it_is_real_prose_of_a_script(script: str) -> None:
    assert judge_text(" ".join(SENTENCES[script] * 3), 0.0).grade is Grade.GOOD


@pytest.mark.parametrize("script", ["latin", "cyrillic", "greek", "arabic"])
def test_letters_are_implausible_when_they_are_in_reverse_alphabet(script: str) -> None:
    text = " ".join(SENTENCES[script])
    letters = sorted({c for c in text.casefold() if c.isalpha()})
    swapped = text.casefold().translate(str.maketrans("".join(letters), "".join(reversed(letters))))
    assert plausibility(swapped).implausible > plausibility(text).implausible + 0.2


def test_text_is_low_when_its_font_has_a_wrong_encoding() -> None:
    found = judge_text(codecs.encode(ENGLISH, "rot13"), 0.0)
    assert found.grade is Grade.LOW
    assert found.reasons == (LOW_PLAUSIBILITY,)


def test_text_is_low_when_the_same_garbage_is_in_every_line() -> None:
    assert judge_text("xqzvk wjqxz kvbqx zzgkv qxjwv\n" * 12, 0.0).grade is Grade.LOW


def test_text_is_good_when_one_odd_code_is_in_many_cells() -> None:
    assert judge_text(ENGLISH + "dnc 12 " * 60, 0.0).grade is Grade.GOOD


def test_text_is_not_good_when_a_symbol_font_left_debris() -> None:
    assert judge_text(ENGLISH, 0.05).grade is Grade.FAIR
    assert judge_text(ENGLISH, 0.3).grade is Grade.LOW


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_judged_when_there_is_no_text(text: str) -> None:
    assert judge_text(text, 0.0).grade is None


def test_ocr_is_good_only_when_everything_speaks_for_it() -> None:
    sure = OcrEvidence(0.96, 0.01, 0.02)
    assert judge_ocr(ENGLISH, sure).grade is Grade.GOOD
    assert judge_ocr(ENGLISH, OcrEvidence(0.6, 0.5)).grade is Grade.LOW
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, 0.01, 0.05)).reasons == (INK_LEFT_OUT,)
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, 0.01, 0.3)).grade is Grade.LOW
    assert judge_ocr(codecs.encode(ENGLISH, "rot13"), sure).grade is Grade.LOW


def test_ocr_is_not_good_when_its_reader_is_usually_surer() -> None:
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, usual=0.94)).grade is Grade.GOOD
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, usual=0.97)).reasons == (DOUBTFUL_WORDS,)


def test_ocr_is_not_good_when_lines_touch_the_edge_of_the_picture() -> None:
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, cut_lines=2, lines=30)).grade is Grade.GOOD
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, cut_lines=4, lines=30)).reasons == (CUT_OFF,)
    assert judge_ocr(ENGLISH, OcrEvidence(0.96, cut_lines=4, lines=100)).grade is Grade.GOOD


def test_ocr_is_not_good_when_columns_are_read_across() -> None:
    found = judge_ocr(ENGLISH, OcrEvidence(0.99, doubts=(READ_ACROSS,)))
    assert found.grade is Grade.FAIR
    assert found.reasons == (READ_ACROSS,)


def test_page_is_low_when_it_has_ink_and_no_words() -> None:
    assert judge_ocr("", OcrEvidence(None)).grade is Grade.LOW
    assert judge_ocr("", OcrEvidence(None, has_ink=False)).grade is None


def test_element_of_garbage_is_unsure_when_the_rest_of_its_page_is_plain() -> None:
    texts = [ENGLISH, "Xqzvk wjqxz kvbqx zzgkv qxjwv bvkqz xwqjk vzxqk. " * 3, "Hrdlička"]
    elements = tuple(Element("", ElementKind.PARAGRAPH, text) for text in texts)
    figure = Element("", ElementKind.FIGURE)
    reading = PageReading(1, PageClass.TEXT_ONLY, "", "x", "mupdf", elements=(*elements, figure))
    found = decode(pack([reading]).block[1:]).elements
    plain, garbage, name = (element.confidence or 0.0 for element in found[:3])
    assert plain == 1.0
    assert grade_of(garbage) is Grade.LOW
    assert grade_of(name) is not Grade.LOW
    assert found[3].confidence is None


def test_element_is_unsure_when_it_has_debris() -> None:
    assert text_confidence("The chair answered that both would be known.", 0.2) == pytest.approx(0.5)
