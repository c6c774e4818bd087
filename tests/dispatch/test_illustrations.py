"""Pictures inside documents, described by a model where they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quire.domain.job import JobSecrets, JobStatus, Mode
from quire.domain.page import PageClass, PageSource
from quire.pipeline.stages.illustrations import judge
from quire.providers.provider_protocol import StopReason, TokenUsage, VisionAnswer
from quire.simulator.simulator_thread import RunningSimulator
from tests.dispatch.test_dispatched_documents import ai
from tests.support.marked_documents import heic_of
from tests.support.office_files import docx, drawing, mail, p, png, run
from tests.support.running import convert, markdown, pages

DOCUMENT = docx(
    p("Report", "Heading1")
    + p(runs=run("Before ") + drawing("m1", "the plan") + run(" between ") + drawing("m2") + run(" after")),
    media={"media/a.png": png(), "media/b.png": png(color="blue")},
)
DESCRIBED = (
    "# Report\n\nBefore [Picture: A simulated description of picture 1.] between "
    "[Picture: A simulated description of picture 2.] after"
)


@pytest.mark.parametrize("engine", ["openai", "anthropic"])
async def test_pictures_are_described_in_their_place_when_a_model_answers(
    tmp_path: Path, sim: RunningSimulator, engine: str
) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, DOCUMENT, engine=engine)
        assert job.status is JobStatus.COMPLETED
        assert await markdown(one, job) == DESCRIBED
        (record,) = (await pages(one, job)).values()
        assert (record.source, record.page_class) == (PageSource.AI, PageClass.HAS_GRAPHICS)
        assert (record.provider, record.attempts) == (engine, 1)
        assert record.tokens_in > 0
        assert sim.stats()["total"]["calls"] == 1


async def test_nothing_is_paid_twice_when_the_same_document_comes_again(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        await convert(one, DOCUMENT)
        again = await convert(one, DOCUMENT, force=True)
        assert await markdown(one, again) == DESCRIBED
        assert [record.source for record in (await pages(one, again)).values()] == [PageSource.CACHE]
        assert sim.stats()["total"]["calls"] == 1
        other = await convert(one, DOCUMENT, force=True, secrets=JobSecrets(prompt="In rhymes."))
        assert [record.source for record in (await pages(one, other)).values()] == [PageSource.AI]


async def test_placeholders_stay_when_no_model_can_be_had(tmp_path: Path, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    async with ai(tmp_path, sim, JOB_MAX_ATTEMPTS="1") as one:
        job = await convert(one, DOCUMENT)
        assert job.status is JobStatus.COMPLETED
        assert await markdown(one, job) == "# Report\n\nBefore [Picture: the plan] between [Picture] after"
        (record,) = (await pages(one, job)).values()
        assert record.source is PageSource.MUPDF_FALLBACK
        assert "server" in record.reasons


async def test_no_model_is_asked_when_there_is_nothing_to_see_or_only_local_is_wanted(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        plain = await convert(one, docx(p("Only words.")), mode=Mode.AI)
        local = await convert(one, DOCUMENT, mode=Mode.LOCAL)
        for job in (plain, local):
            assert [record.source for record in (await pages(one, job)).values()] == [PageSource.LOCAL]
        assert sim.stats()["total"]["calls"] == 0


async def test_picture_in_a_mail_is_described_when_its_text_shows_it(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    message = mail(html="<p>Look: <img src='cid:pic@x' alt=''></p>")
    body = message.get_body(("html",))
    assert body is not None
    body.add_related(png(), maintype="image", subtype="png", cid="<pic@x>")
    async with ai(tmp_path, sim) as one:
        job = await convert(one, message.as_bytes())
        assert "Look: [Picture: A simulated description of picture 1.]" in await markdown(one, job)


async def test_photograph_skips_ai_and_says_why_when_it_is_heic_of_over_15_mb(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    async with ai(tmp_path, sim) as one:
        job = await convert(one, heic_of("Harbour tide tables", padding=16 << 20))
        assert job.status is JobStatus.COMPLETED
        assert "tide tables" in await markdown(one, job)
        (record,) = (await pages(one, job)).values()
        assert record.source is PageSource.OCR
        assert "heic_over_15_mb" in record.reasons
        assert sim.stats()["total"]["calls"] == 0
        small = await convert(one, heic_of("Harbour tide tables"))
        assert [record.source for record in (await pages(one, small)).values()] == [PageSource.AI]


def said(text: str, stop: StopReason = StopReason.DONE) -> VisionAnswer:
    return VisionAnswer(text, stop, TokenUsage())


def form(*rows: tuple[object, object]) -> str:
    return json.dumps({"pictures": [{"number": n, "description": text} for n, text in rows]})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said(form((1, "a"), (2, "b"))), ""),
        (said(form((2, "b"), (1, "a"), (3, "more than asked"))), ""),
        (said(form((1, "a"))), "answer_incomplete"),
        (said(form((1, "a"), (2, "  "))), "answer_incomplete"),
        (said(form(("1", "a"), (2, 5))), "answer_not_in_form"),
        (said("The pictures show boxes."), "answer_not_in_form"),
        (said("[" * 100_000), "answer_not_in_form"),
        (said('{"pictures": 5}'), "answer_not_in_form"),
        (said(""), "answer_empty"),
        (said(form((1, "a"), (2, "b")), StopReason.LENGTH), "answer_cut_off"),
    ],
)
def test_answer_counts_only_when_every_number_has_a_description(answer: VisionAnswer, reason: str) -> None:
    assert judge(answer, "1 2").reason == reason
