"""The language of a page is told by its frequent words, and its model reads the page."""

from __future__ import annotations

import pytest

from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.page_language import language_of
from quire.reading.ocr.page_ocr import reads_script_of
from quire.reading.ocr.quick_reader import QUICK_READER
from tests.reading.ocr import scans
from tests.reading.ocr.script_pages import SENTENCES

TEXTS = {
    "deu": "Die Gemeinde hat den Plan der Brucke nicht mit dem Amt und auch nicht mit den Burgern besprochen. ",
    "eng": "The board of the railway was not told that the plan for the bridge is by the office of the town. ",
    "fra": "Le conseil de la ville est dans la salle et les membres du bureau sont avec une partie des plans. ",
}


@pytest.mark.parametrize("language", sorted(TEXTS))
def test_language_is_told_when_there_are_sentences_of_it(language: str) -> None:
    assert language_of((TEXTS[language] * 5).split()) == language


@pytest.mark.parametrize(
    "text",
    [TEXTS["deu"], "Total 12.40 EUR Invoice 2024-0017 Bolt M8 " * 20, (TEXTS["deu"] + TEXTS["fra"]) * 5],
)
def test_no_language_is_told_when_words_are_few_or_not_of_one_language(text: str) -> None:
    assert language_of(text.split()) is None


def test_page_is_read_by_the_model_of_its_language_when_another_one_was_asked_for() -> None:
    sheet = scans.sheet(3, german=True, filled=0.6)
    found = recognise(sheet.picture, OcrOptions(languages="eng", dpi=sheet.dpi))
    text = " ".join(word.text for word in found.seen.words())
    assert found.reader == QUICK_READER
    assert any(word in text for word in ("prüfte", "Über", "Säcke", "Außerdem", "Schließlich"))
    assert scans.error_rate(text, sheet.text) < 0.01


@pytest.mark.parametrize("script", ["arabic", "cyrillic", "greek"])
def test_ocr_is_no_use_when_the_text_layer_is_in_a_script_that_no_reader_knows(script: str) -> None:
    text = " ".join(SENTENCES[script])
    assert not reads_script_of(text, OcrOptions())
    assert reads_script_of(text, OcrOptions(languages="ara+rus+ell"))


@pytest.mark.parametrize("text", ["12.40 17 %", "", *(" ".join(SENTENCES[s]) for s in ("latin", "chinese"))])
def test_ocr_is_worth_a_try_when_a_reader_knows_the_letters_or_there_are_none(text: str) -> None:
    assert reads_script_of(text, OcrOptions())
