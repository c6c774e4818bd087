"""The words of a page are those of its text: signs of Markdown are none."""

from __future__ import annotations

import pytest

from quire.domain.element import Element, ElementKind
from quire.domain.page import Grade, PageClass, PageReading, PageSignals, word_count
from quire.reading.files.page_chunks import WORDS_MISSING, pack


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# Fees of the harbour", 4),
        ("| Name | Sum |\n|---|---|\n| Anna | 12 |\n|  | 7 |", 5),
        ("- one\n- two\n  * three\n\n---\n\n> four **five** _six_", 6),
        ("```python\nx = 1\n```", 2),
        ("1/2 \u2013 30 % of it", 4),
        ("\u4f60\u597d \u0645\u0631\u062d\u0628\u0627", 2),
        ("***", 1),
        (" \n", 0),
        ("", 0),
    ],
)
def test_only_words_are_counted(markdown: str, words: int) -> None:
    assert word_count(markdown) == words


@pytest.mark.parametrize(("missing", "grade"), [(0, Grade.GOOD), (2, Grade.FAIR)])
def test_a_page_that_lacks_words_of_its_layer_is_not_good(missing: int, grade: Grade) -> None:
    text = "The harbour office answers every letter within a week of its arrival."
    signals = PageSignals(chars=60, width_pt=595, height_pt=842)
    elements = (Element("p1-e1", ElementKind.PARAGRAPH, text),)
    reading = PageReading(
        *(1, PageClass.TEXT_ONLY, text, text, "mupdf", (), signals, elements), words_missing=missing
    )
    (page,) = pack([reading]).pages
    assert page.grade is grade
    assert (WORDS_MISSING in page.reasons) is bool(missing)
