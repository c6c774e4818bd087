"""Headings have one scheme of levels in a document, however it was read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from quire.coordination.job_records import Claim
from quire.domain.element import ElementKind
from quire.errors import CoordinationError
from quire.reading.sync_reader import SyncReader
from tests.support.headed_documents import headed_pdf
from tests.support.running import convert, markdown, over, page_texts, pages, quire

PAGES = 20


def signs(text: str) -> list[tuple[str, int]]:
    """The first word of each heading, and its level."""
    return [(found[2], len(found[1])) for found in re.finditer(r"(?m)^(#+) (\w+)", text)]


WANTED = [("Chapter", 1), ("First", 2), ("Second", 2)]


async def test_a_type_has_one_level_when_the_text_of_pages_has_other_sizes(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, headed_pdf(PAGES))
        texts = await page_texts(one, job)
        assert [signs(text) for text in texts] == [WANTED] * PAGES
        for number, text in enumerate(texts, 1):
            page = await one.engine.page_elements(job, number)
            heads = [element for element in page.elements if element.level]
            assert [element.level for element in heads] == [1, 2, 2]
            assert {element.kind for element in heads} <= {ElementKind.HEADING, ElementKind.TITLE}
            record, place = await one.engine.page_result(job, number)
            assert not isinstance(place, bytes)
            alone = b"".join([piece async for piece in one.engine.text(place)]).decode()
            assert (record.length, alone) == (len(text.encode()), text)


async def test_the_result_is_the_same_when_a_page_or_the_merge_is_retried(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, headed_pdf(PAGES))
        text, before = await markdown(one, job), await pages(one, job)
        for child in ("p2", "merge", "p3"):
            assert await one.engine.retry(job, f"{job.id}-{child}") == "started"
            job = await over(one, job.id)
            assert await markdown(one, job) == text
        after = await pages(one, job)
        assert {n: (one.offset, one.length, one.headings) for n, one in before.items()} == {
            n: (one.offset, one.length, one.headings) for n, one in after.items()
        }


async def test_the_pages_that_were_asked_for_are_the_document(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, headed_pdf(PAGES), pages="3-5")
        assert signs(await markdown(one, job)) == WANTED * 3


def test_reading_from_python_gives_the_same_levels() -> None:
    with SyncReader() as reader:
        found = reader.read(headed_pdf(PAGES))
    assert [signs(page.markdown) for page in found] == [WANTED] * PAGES


async def test_the_levels_are_the_same_when_a_merge_is_lost_between_its_result_and_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quire(tmp_path) as one:
        jobs, real, lost = one.parts.jobs, one.parts.jobs.merged, []

        async def merged(claim: Claim, found: dict[str, Any]) -> bool:
            if not lost:
                lost.append(found["key"])
                raise CoordinationError("The server went away.", retryable=True)
            return await real(claim, found)

        monkeypatch.setattr(jobs, "merged", merged)
        job = await convert(one, headed_pdf(PAGES))
        assert lost
        assert [signs(text) for text in await page_texts(one, job)] == [WANTED] * PAGES
        assert (job.result or {})["key"] != lost[0], "each try writes a result of its own"
