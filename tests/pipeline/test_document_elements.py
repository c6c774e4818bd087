"""The elements of a document whose pages were stored with and without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from quire.domain.job import JobStatus, PageRecord
from quire.pipeline.document_elements import DocumentElements, ElementPage
from tests.support.running import convert, quire

Pdf = Callable[..., bytes]


async def pages_of(found: DocumentElements) -> list[ElementPage]:
    return [one async for run in found.runs() for one in run]


async def test_pages_keep_their_words_when_some_were_stored_without_elements(
    tmp_path: Path, make_pdf: Pdf
) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, make_pdf("the first page", "the second page", "the third page"))
        first, second, third = await one.engine.pages(job)
        records = [
            first,
            replace(second, elements_length=0, elements_offset=0),
            PageRecord(3, JobStatus.FAILED, error={"error": "It crashed the parser."}),
            third,
        ]
        found = await pages_of(DocumentElements(one.parts, records))
    assert [page.page.number for page in found] == [1, 2, 3, 3]
    assert [element.text for element in found[1].page.elements] == ["the second page"]
    assert found[1].page.elements[0].grounded is None
    assert found[2].page.elements == ()
    assert found[2].note == "*Page 3 could not be read: It crashed the parser.*"
    assert [page.page.elements[0].text for page in (found[0], found[3])] == [
        "the first page",
        "the third page",
    ]
    assert all(element.box for element in found[0].page.elements)
