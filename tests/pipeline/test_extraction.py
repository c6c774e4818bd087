"""Extraction through the real pipeline and dispatcher, with the simulator answering from the truth."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.job import JobOptions, JobStatus, MainJob, Mode, PageRecord
from quire.domain.page_ranges import PageRanges
from quire.errors import ExtractionError, RequestError, TooLargeError
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction, NoModelError, PagesToExtract
from quire.pipeline.intake.upload_intake import Submission
from quire.simulator.simulator_thread import simulator
from tests.support.extraction_grading import Grades, grade
from tests.support.labelled_documents import labelled_documents
from tests.support.running import TEAM, Runtime, over, quire

Pdf = Callable[..., bytes]
SETTINGS = {
    "OPENAI_API_KEY": "key",
    "OPENAI_PRIMARY_MODEL": "m",
    "OPENAI_SECONDARY_MODEL": "m",
    "SECONDARY_ENGINE": "none",
    "BREAKER_BASE_BACKOFF": "50ms",
    "BREAKER_MAX_BACKOFF": "100ms",
}
TOTAL = {"type": "object", "properties": {"total": {"type": "number"}}}


async def read(one: Runtime, folder: Path, name: str, content: bytes) -> MainJob:
    path = folder / name
    path.write_bytes(content)
    submission = Submission(TEAM, options=JobOptions(mode=Mode.LOCAL), filename=name)
    return await over(one, (await one.engine.intake.accept_path(submission, path)).job_id)


async def test_planted_errors_are_flagged_and_true_values_are_kept_with_their_places(tmp_path: Path) -> None:
    documents = labelled_documents(8, longest=4)
    grades = Grades()
    with simulator({"truth": {one.name: one.answer for one in documents}}) as sim:
        small = {"EXTRACT_WINDOW_TOKENS": "2000"}
        async with quire(tmp_path, OPENAI_BASE_URL=sim.openai_url, **SETTINGS, **small) as one:
            extraction = Extraction(one.parts, one.engine)
            for document in documents:
                job = await read(one, tmp_path, document.name, document.pdf)
                wanted = ExtractionRequest.of(document.schema)
                result = await extraction.extract(job, wanted)
                assert (result["valid"], result["complete"]) == (True, True)
                grade(document, result, grades)
            again = await extraction.extract(job, wanted)
            assert (again["usage"]["calls"], again["usage"]["cost_usd"]) == (0, 0.0)
            assert again["values"] == result["values"]
    assert grades.faults == []
    assert grades.flagged == grades.planted
    assert sum(grades.planted.values()) > 15
    assert grades.kept == grades.values > 500


def test_pages_that_could_not_be_read_are_named_and_are_not_pages_without_text() -> None:
    text = Element("e1", ElementKind.PARAGRAPH, "Total 17.50")
    failed = PageRecord(3, JobStatus.FAILED, error={"error": "It took too long.", "code": "page_timeout"})
    found = PagesToExtract()
    found.add(
        [
            ElementPage(PageRecord(1, JobStatus.COMPLETED), PageElements(1, (text,), "mupdf")),
            ElementPage(PageRecord(2, JobStatus.COMPLETED), PageElements(2, (), "mupdf")),
            ElementPage(failed, PageElements(3), "*Page 3 could not be read*"),
        ]
    )
    assert ([page.number for page in found.read], found.empty) == ([1], [2])
    assert found.unreadable == [{"pages": [3], "error": "It took too long.", "code": "page_timeout"}]


def leaf(value: Any, quote: str, page: int, **more: Any) -> dict[str, Any]:
    return {"value": value, "quote": quote, "page": page, **more}


def turned_scan(lines: list[str]) -> bytes:
    """A page of A5 that is only a picture of lines, upside down; the last line is alone in the lower half."""
    picture = Image.new("L", (1240, 1754), 255)
    draw = ImageDraw.Draw(picture)
    for at, line in enumerate(lines):
        last = at == len(lines) - 1
        draw.text((120, 1400 if last else 160 + 70 * at), line, fill=0, font=ImageFont.load_default(44))
    out = BytesIO()
    canvas = Canvas(out, pagesize=(420, 595), invariant=1)
    canvas.drawImage(ImageReader(picture.rotate(180)), 0, 0, width=420, height=595)
    canvas.save()
    return out.getvalue()


async def test_citation_is_at_its_words_on_the_upright_page_when_a_scan_was_upside_down(
    tmp_path: Path,
) -> None:
    words = [
        "The harbour office of the town",
        "sends this letter to all owners",
        "of boats that lie at the pier",
    ]
    content = turned_scan([*words, "The total amount is 417.50"])
    truth = {"scan.pdf": {"total": leaf(417.5, "total amount is 417.50", 1)}}
    with simulator({"truth": truth}) as sim:
        async with quire(tmp_path, OPENAI_BASE_URL=sim.openai_url, **SETTINGS) as one:
            job = await read(one, tmp_path, "scan.pdf", content)
            found = await Extraction(one.parts, one.engine).extract(job, ExtractionRequest.of(TOTAL))
            assert found["values"] == {"total": 417.5}
            ((cited,),) = [field["citations"] for field in found["fields"]]
            assert cited["page"] == 1
            left, top, right, bottom = cited["box"]
            points = 595 / 1754
            assert abs(top - 1400 * points) < 12
            assert bottom - top < 30
            assert 100 * points < left < right < 420


async def test_answers_that_fail_are_split_repaired_or_reported(tmp_path: Path, make_pdf: Pdf) -> None:
    names = ("a.pdf", "b.pdf", "c.pdf")
    truth = {name: {"total": leaf(17.5, "Total 17.50", 2)} for name in names}
    truth["b.pdf"]["total"]["value"] = -3.0
    pages = ("First page", "Total 17.50", "Third page", "Fourth page")
    with simulator({"truth": truth}) as sim:
        async with quire(tmp_path, OPENAI_BASE_URL=sim.openai_url, JOB_MAX_ATTEMPTS="1", **SETTINGS) as one:
            extraction = Extraction(one.parts, one.engine)
            jobs = {name: await read(one, tmp_path, name, make_pdf(*pages, name)) for name in names}

            # The first answer is cut off at the token limit: the pages are asked about in halves.
            sim.play({"truth": truth, "rules": [{"fault": "truncated", "last": 1}]})
            sim.reset()
            found = await extraction.extract(jobs["a.pdf"], ExtractionRequest.of(TOTAL))
            assert (found["values"], found["usage"]["calls"]) == ({"total": 17.5}, 3)
            (field,) = found["fields"]
            assert (field["match"], field["flags"]) == ("normalised", [])
            assert field["citations"][0]["page"] == 2
            some = await extraction.extract(
                jobs["a.pdf"], ExtractionRequest.of(TOTAL), PageRanges.parse("3-4")
            )
            assert (some["values"], some["pages"]) == ({"total": None}, [3, 4])
            assert some["fields"][0]["flags"] == ["missing"]

            # A value that stays invalid is sent back twice, and then null.
            rule = {"type": "object", "properties": {"total": {"type": "number", "minimum": 0}}}
            sim.play({"truth": truth})
            found = await extraction.extract(jobs["b.pdf"], ExtractionRequest.of(rule, ungrounded="keep"))
            assert (found["values"], found["usage"]["calls"], found["valid"]) == ({"total": None}, 3, True)
            assert found["fields"][0]["flags"] == ["invalid", "ungrounded"]
            assert found["fields"][0]["rejected"] == -3.0
            kept = await extraction.extract(jobs["b.pdf"], ExtractionRequest.of(TOTAL, ungrounded="keep"))
            assert kept["values"] == {"total": -3.0}
            assert kept["fields"][0]["confidence"] < 0.1

            # No model answers: an error that says why.
            sim.play({"truth": truth, "rules": [{"fault": "server_error"}]})
            with pytest.raises(ExtractionError, match="server error") as failed:
                await extraction.extract(jobs["c.pdf"], ExtractionRequest.of(TOTAL))
            assert (failed.value.cause, failed.value.retryable) == ("server", True)
            with pytest.raises(RequestError, match="schema: "):
                await extraction.check(
                    ExtractionRequest.of({"properties": {"a": {"type": "string", "pattern": "("}}})
                )
            # A deadline that the conversion has used up leaves no time for questions.
            past = one.parts.clock.now() - 1
            with pytest.raises(ExtractionError) as late:
                await extraction.extract(jobs["c.pdf"], ExtractionRequest.of(TOTAL), deadline_at=past)
            assert late.value.retryable


async def test_what_can_be_had_without_ai_comes_with_the_error(tmp_path: Path, make_pdf: Pdf) -> None:
    async with quire(tmp_path, EXTRACT_MAX_TOKENS="1000") as one:
        job = await read(one, tmp_path, "a.pdf", make_pdf("Number: 17"))
        with pytest.raises(NoModelError, match="OPENAI_API_KEY") as refused:
            await Extraction(one.parts, one.engine).extract(job, ExtractionRequest.of(TOTAL))
    (pair,) = refused.value.found["pairs"]
    assert (pair["key"], pair["value"], pair["page"]) == ("Number", "17", 1)


async def test_a_document_that_is_too_long_is_refused_before_a_model_is_asked(
    tmp_path: Path, make_pdf: Pdf
) -> None:
    text = "\n".join(f"Line {n} of a page that has many of them" for n in range(40))
    settings = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "EXTRACT_MAX_TOKENS": "1000"}
    async with quire(tmp_path, **SETTINGS, **settings) as one:
        job = await read(one, tmp_path, "a.pdf", make_pdf(*[text] * 4))
        with pytest.raises(TooLargeError, match="EXTRACT_MAX_TOKENS"):
            await Extraction(one.parts, one.engine).extract(job, ExtractionRequest.of(TOTAL))
