"""Answers of models are graded by what the page supports, and get what was found locally as a hint."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from quire.domain.job import JobStatus, Mode
from quire.domain.page import Grade
from quire.reading.grading.page_grade import (
    ALTERED_WORDS,
    NOT_CHECKED,
    TEXT_LEFT_OUT,
    UNGROUNDED_NUMBERS,
    UNSUPPORTED,
    AnswerEvidence,
    judge_answer,
)
from quire.reading.pdf.page_render import RenderOptions
from quire.reading.pdf.vision_page import ContextOptions, picture_page
from quire.simulator.simulator_thread import RunningSimulator
from tests.dispatch.test_dispatched_documents import ai
from tests.reading.ocr import scans
from tests.support.marked_documents import marked_pdf
from tests.support.running import convert, pages

SCAN = {"AI_GROUND_WITH_OCR": "true"}


def test_answer_is_good_only_when_the_page_supports_it_and_all_its_numbers() -> None:
    assert judge_answer(AnswerEvidence(1.0, 0, 0), 0.97).grade is Grade.GOOD
    assert (
        judge_answer(AnswerEvidence(0.99, 1, 0), 0.97).grade is Grade.FAIR
    )  # one invented sentence on a long page
    assert judge_answer(AnswerEvidence(0.99, 1, 0), 0.97).reasons == (UNSUPPORTED,)
    assert judge_answer(AnswerEvidence(1.0, 0, 1), 0.97).grade is Grade.FAIR
    assert judge_answer(AnswerEvidence(1.0, 0, 1), 0.97).reasons == (UNGROUNDED_NUMBERS,)
    assert judge_answer(AnswerEvidence(0.4, 3, 0), 0.97).grade is Grade.LOW
    assert judge_answer(AnswerEvidence(0.4, 3, 0), 0.97).reasons == (UNSUPPORTED,)
    assert judge_answer(AnswerEvidence(1.0, 0, 0), 0.5).grade is Grade.LOW
    assert judge_answer(AnswerEvidence(1.0, 0, 0), 0.5).reasons == (TEXT_LEFT_OUT,)
    altered = judge_answer(AnswerEvidence(1.0, altered=1), 0.99)  # "was not closed"
    assert (altered.grade, altered.reasons) == (Grade.FAIR, (ALTERED_WORDS,))
    unknown = judge_answer(AnswerEvidence(None, 0, 0), 0.97)
    assert (unknown.grade, unknown.reasons) == (None, (NOT_CHECKED,))


async def test_answer_is_good_when_the_text_layer_supports_it(tmp_path: Path, sim: RunningSimulator) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2), mode=Mode.AI)
        found = await pages(one, job)
    assert [record.grade for record in found.values()] == [Grade.GOOD, Grade.GOOD]


async def test_invented_answer_is_low_when_ocr_sees_other_words_on_a_scan(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    """The simulator invents words for a picture without text."""
    scan = tmp_path / "scan.png"
    scan.write_bytes(scans.png(scans.sheet(7, size=12, filled=0.2).picture))
    async with ai(tmp_path, sim, **SCAN) as one:
        job = await convert(one, scan, mode=Mode.AI)
        record = (await pages(one, job))[1]
    assert job.status is JobStatus.COMPLETED
    assert record.grade is Grade.LOW
    assert UNSUPPORTED in record.reasons
    assert record.ungrounded > 0
    assert job.result is not None
    assert job.result["metadata"]["low_confidence_pages"] == [1]


async def test_answer_is_not_graded_when_a_scan_may_not_be_read_by_ocr(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    scan = tmp_path / "scan.png"
    scan.write_bytes(scans.png(scans.sheet(7, size=12, filled=0.2).picture))
    async with ai(tmp_path, sim, AI_GROUND_WITH_OCR="false") as one:
        record = (await pages(one, await convert(one, scan, mode=Mode.AI)))[1]
    assert (record.grade, record.confidence, record.ungrounded) == (None, None, 0)


async def test_another_model_is_asked_when_the_first_answer_has_no_support(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    scan = tmp_path / "scan.png"
    scan.write_bytes(scans.png(scans.sheet(7, size=12, filled=0.2).picture))
    async with ai(tmp_path, sim, AI_SECOND_OPINION="true", **SCAN) as one:
        record = (await pages(one, await convert(one, scan, mode=Mode.AI)))[1]
    assert "second_opinion" in record.reasons
    assert record.attempts == 2
    assert sim.stats()["total"]["calls"] == 2


@pytest.mark.parametrize("crops", [0, 2])
def test_model_gets_the_elements_in_their_order_when_there_are_any(
    tmp_path: Path, make_pdf: Callable[..., bytes], crops: int
) -> None:
    file = tmp_path / "page.pdf"
    file.write_bytes(make_pdf("Own text of the page as the file has it."))
    path = str(file)
    render = RenderOptions()
    plain = picture_page(path, None, 1, render, ContextOptions(table_crops=crops))
    hinted = picture_page(path, None, 1, render, ContextOptions(elements="# Heading\n\nText of the page"))
    long = picture_page(path, None, 1, render, ContextOptions(elements="| long | table |\n" * 9))
    silent = picture_page(path, None, 1, render, ContextOptions(shows_own=False))
    assert "Own text of the page" in plain.text
    assert "# Heading\n\nText of the page" in hinted.text
    assert "Own text" not in hinted.text
    assert "Own text" in hinted.layer
    assert "Own text" in long.text  # a hint that costs more than the text itself is not sent
    assert "Own text" not in silent.text
    assert plain.crops == ()


def test_dense_tables_are_drawn_again_larger_when_crops_are_asked_for(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox(
        (72, 60, 520, 140), "Prices of the parts that the yard keeps in its stores.", fontsize=11
    )
    for row in range(40):
        y = 160 + row * 8
        page.draw_line((72, y), (400, y))
        for column, text in enumerate((f"part {row}", f"{row * 7}.50", f"{row * 3}")):
            page.insert_text((76 + column * 110, y + 6), text, fontsize=5)
    for x in (72, 182, 292, 400):
        page.draw_line((x, 160), (x, 160 + 39 * 8))
    path = str(tmp_path / "dense.pdf")
    document.save(path)
    render = RenderOptions(dpi=100)
    whole = picture_page(path, None, 1, render, ContextOptions(table_crops=2))
    (crop,) = whole.crops
    with Image.open(io.BytesIO(crop)) as part, Image.open(io.BytesIO(whole.image)) as all_of_it:
        assert (
            part.width > 2 * all_of_it.width * 328 / 595
        )  # twice as fine as the page, and no wider than the table
        assert part.height < 2 * all_of_it.height * 0.5
    assert "its tables in small type" in whole.text
    assert picture_page(path, None, 1, render, ContextOptions(table_crops=0)).crops == ()
