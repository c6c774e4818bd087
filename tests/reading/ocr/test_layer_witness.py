"""Text layers that pages don't draw are compared with the pictures of the pages, and graded by that."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pymupdf
import pytest
from PIL import Image

from quire.domain.page import Grade, PageClass
from quire.reading.document_reading import ReadPage
from quire.reading.files.page_chunks import Chunk, PageSlice, read_chunk
from quire.reading.layer_verdict import CONTRADICTED, NOT_CONFIRMED, graded_layer
from quire.reading.local_reader import class_for_route
from quire.reading.ocr.layer_witness import LayerEvidence, layer_evidence
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.sync_reader import SyncReader
from tests.reading.conftest import PROSE, Make
from tests.reading.ocr import layered_scans, scans, script_pages
from tests.reading.ocr.layered_scans import (
    AGREEING,
    CONTRADICTING,
    DPI,
    PageTexts,
    covered,
    layered,
    on_background,
    words_of,
)


def document(layout: str = "prose", seed: int = 3, script: str = "latin") -> pymupdf.Document:
    return script_pages.script_document(script, layout, seed)


def english(seed: int = 0) -> pymupdf.Document:
    """A page of prose that the quick reader reads without an error."""
    made = pymupdf.open()
    page = made.new_page(width=script_pages.WIDTH_PT, height=script_pages.HEIGHT_PT)
    sentences = PROSE.split(". ")[seed:]
    page.insert_textbox((72, 80, 520, 700), ". ".join(sentences * 4), fontsize=12, fontname="tiro")
    return made


def picture_of(one: pymupdf.Document) -> Image.Image:
    pixels = one[0].get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def texts(layout: str = "prose") -> PageTexts:
    return PageTexts(words_of(document(layout)), words_of(document(layout, 77)))


def chunk_of(save: Make, made: Any) -> tuple[str, Chunk]:
    path = save(made)
    return path, read_chunk(path, None, [1], ReadOptions(), False)


def graded(save: Make, made: Any, options: OcrOptions | None = OcrOptions()) -> PageSlice:  # noqa: B008
    path, chunk = chunk_of(save, made)
    assert chunk.pages[0].is_unseen
    return graded_layer(chunk.pages[0], chunk.block, layer_evidence(path, None, 1, options))


@pytest.mark.parametrize("layout", ["prose", "columns", "table", "letter"])
@pytest.mark.parametrize("change", CONTRADICTING)
def test_layer_is_low_when_the_picture_says_something_else(save: Make, change: str, layout: str) -> None:
    words = CONTRADICTING[change](texts(layout), random.Random(1))
    found = graded(save, layered(picture_of(document(layout)), words))
    assert found.grade is Grade.LOW
    assert class_for_route(found) is PageClass.GARBLED


@pytest.mark.parametrize("spoil", layered_scans.CONDITIONS)
@pytest.mark.parametrize("change", ["exact", "2 % misread", "loose boxes"])
def test_layer_stays_when_the_picture_says_the_same(save: Make, change: str, spoil: str) -> None:
    picture = layered_scans.CONDITIONS[spoil](picture_of(document()), 1)
    found = graded(save, layered(picture, AGREEING[change](texts(), random.Random(1))))
    assert found.grade is not Grade.LOW
    assert CONTRADICTED not in found.reasons


def test_layer_is_good_when_the_picture_says_the_same_line_for_line(save: Make) -> None:
    own = english()
    found = graded(save, layered(picture_of(own), words_of(own)))
    assert (found.grade, found.confidence) == (Grade.GOOD, 1.0)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_layer_is_compared_along_its_lines_when_viewers_turn_the_page(save: Make, turns: int) -> None:
    own = english()
    right = graded(save, layered(picture_of(own), words_of(own), turns=turns))
    wrong = graded(save, layered(picture_of(own), words_of(document("letter", 78)), turns=turns))
    assert (right.grade, wrong.grade) == (Grade.GOOD, Grade.LOW)


@pytest.mark.parametrize("script", ["cyrillic", "chinese", "arabic", "devanagari", "greek"])
def test_layer_is_fair_and_stays_when_no_model_knows_its_letters(save: Make, script: str) -> None:
    own = document(script=script)
    found = graded(save, covered(picture_of(own), document(script=script)))
    assert (found.grade, found.reasons[-1]) == (Grade.FAIR, NOT_CONFIRMED)


def test_layer_of_unknown_letters_is_low_when_there_is_no_ink_below_its_words(save: Make) -> None:
    picture = picture_of(document())
    picture.paste(255, (0, 0, picture.width, 2 * picture.height // 3))
    assert graded(save, covered(picture, document(script="cyrillic"))).grade is Grade.LOW


def test_layer_is_fair_when_its_picture_shows_nothing(save: Make) -> None:
    found = graded(save, layered(Image.new("L", (1240, 1754), 255), words_of(document())))
    assert (found.grade, found.reasons[-1]) == (Grade.FAIR, NOT_CONFIRMED)


def test_layer_is_not_good_when_no_line_of_it_was_read(save: Make) -> None:
    own = english()
    found = graded(save, layered(picture_of(own), words_of(own)), None)
    assert (found.grade, found.reasons[-1]) == (Grade.FAIR, NOT_CONFIRMED)


def test_page_is_not_compared_when_it_draws_its_text(save: Make) -> None:
    shades = Image.effect_noise((600, 800), 60)
    for made in (document(), on_background(shades, document())):
        assert not chunk_of(save, made)[1].pages[0].is_unseen


def test_page_is_compared_when_words_are_hidden_without_a_picture(save: Make) -> None:
    made = pymupdf.open()
    page = made.new_page()
    for row in range(20):
        page.insert_text((72, 90 + 20 * row), "Nothing of this can be seen by a reader.", render_mode=3)
    assert chunk_of(save, made)[1].pages[0].is_unseen


UNSURE = LayerEvidence(for_it=300, likeness=0.99)


@pytest.mark.parametrize(
    ("evidence", "grade"),
    [
        (None, Grade.FAIR),
        (UNSURE, Grade.GOOD),
        (replace(UNSURE, unread=0.05), Grade.FAIR),
        (replace(UNSURE, unread=0.3), Grade.LOW),
        (replace(UNSURE, bare=0.2), Grade.FAIR),
        (replace(UNSURE, bare=0.5), Grade.LOW),
        (replace(UNSURE, likeness=0.9), Grade.FAIR),
        (replace(UNSURE, against_it=40, lines_against=1), Grade.FAIR),
        (replace(UNSURE, against_it=140, lines_against=3), Grade.LOW),
        (LayerEvidence(against_it=20, lines_against=1), Grade.LOW),
    ],
)
def test_grade_follows_the_evidence(save: Make, evidence: LayerEvidence | None, grade: Grade) -> None:
    own = english()
    _, chunk = chunk_of(save, layered(picture_of(own), words_of(own)))
    assert graded_layer(chunk.pages[0], chunk.block, evidence).grade is grade


@pytest.fixture(scope="module")
def reader() -> Any:
    with SyncReader() as found:
        yield found


def read(reader: SyncReader, save: Make, made: Any, *, ocr: bool = True) -> ReadPage:
    (found,) = reader.read(save(made), ocr=ocr)
    return found


def test_page_is_read_anew_when_its_layer_is_that_of_another_page(save: Make, reader: SyncReader) -> None:
    sheet = scans.sheet(5, filled=0.4, dpi=DPI)
    found = read(reader, save, layered(sheet.picture, words_of(document())))
    assert scans.error_rate(found.markdown, sheet.text) < 0.02
    assert found.reader == "tesseract"
    assert CONTRADICTED in found.reasons


def test_page_says_that_its_layer_is_wrong_when_there_is_no_ocr(save: Make, reader: SyncReader) -> None:
    words = CONTRADICTING["another page"](texts("columns"), random.Random(1))
    found = read(reader, save, layered(scans.sheet(5, dpi=DPI).picture, words), ocr=False)
    # Nothing is read by OCR, so only the places of ink and words can speak against it.
    assert found.grade in (Grade.LOW, Grade.FAIR)
    assert {CONTRADICTED, NOT_CONFIRMED, "ink_left_out"} & set(found.reasons)
    assert found.markdown


def test_page_has_all_its_text_when_its_layer_has_half_of_it(save: Make, reader: SyncReader) -> None:
    sheet = scans.sheet(6, filled=0.5, dpi=DPI)
    own = document()
    words = [word for word in words_of(own) if word[0][1] < 60]
    found = read(reader, save, layered(sheet.picture, words * 3))
    assert scans.error_rate(found.markdown, sheet.text) < 0.02
