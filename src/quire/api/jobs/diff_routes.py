"""GET /jobs/{a}/diff/{b}: which pages and elements differ between two readings, or two versions, of a document."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import json_answer, of_current_result
from quire.api.http.services import EngineDep
from quire.domain.document_diff import ElementPair, PagePair, changed_elements, page_signature, paired_pages
from quire.domain.element import Element, PageElements
from quire.domain.job import MainJob
from quire.domain.page_ranges import PageRanges
from quire.pipeline.engine import Engine
from quire.rendering.element_json import element_json

router = APIRouter(prefix="/jobs", tags=["results"])
DEFAULT_PAGES = 50
MOST_PAGES = 500


class ElementDiffView(BaseModel):
    change: str = Field(description="`added`, `removed` or `changed`.")
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class PageDiffView(BaseModel):
    change: str = Field(description="`added`, `removed` or `changed`.")
    a: int | None = Field(description="The page in the first document.")
    b: int | None = Field(description="The page in the second document that corresponds to it.")
    elements: list[ElementDiffView] | None = Field(description="Null for pages after the first `limit` ones.")


class DiffView(BaseModel):
    job_a: str
    job_b: str
    equal: bool
    pages_equal: int
    pages_changed: int
    pages_added: int
    pages_removed: int
    pages: list[PageDiffView] = Field(description="Pages that differ.")


@router.get(
    "/{job_a}/diff/{job_b}",
    summary="What differs between two documents",
    response_model=DiffView,
    responses=documented(400, 401, 404, 409, 503),
)
async def diff(
    job_a: str,
    job_b: str,
    team: Team,
    engine: EngineDep,
    *,
    limit: Annotated[
        int, Query(ge=0, le=MOST_PAGES, description="Pages whose elements are compared one by one.")
    ] = DEFAULT_PAGES,
) -> Response:
    """Two readings of one document, or two versions of it. Both jobs must be completed.

    Pages are matched by their words, so a page that was inserted does not make all later ones differ. Boxes, running
    headers and page numbers are not compared.
    """

    async def answer() -> Response:
        a, b = await engine.job(team, job_a), await engine.job(team, job_b)
        left, right = await _signatures(engine, a), await _signatures(engine, b)
        pairs = await asyncio.to_thread(paired_pages, left, right)
        differing = [pair for pair in pairs if not pair.equal]
        shown = await _shown(engine, a, b, differing[:limit])
        rest = [PageDiffView(change=one.change, a=one.a, b=one.b, elements=None) for one in differing[limit:]]
        counts = {
            name: sum(pair.change == name for pair in pairs) for name in ("changed", "added", "removed")
        }
        return json_answer(
            DiffView(
                job_a=a.id,
                job_b=b.id,
                equal=not differing,
                pages_equal=len(pairs) - len(differing),
                pages_changed=counts["changed"],
                pages_added=counts["added"],
                pages_removed=counts["removed"],
                pages=[*shown, *rest],
            )
        )

    return await of_current_result(answer)


async def _signatures(engine: Engine, job: MainJob) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    async with aclosing((await engine.elements(job)).runs()) as runs:
        async for run in runs:
            found += await asyncio.to_thread(
                lambda held: [(one.page.number, page_signature(one.page, one.note)) for one in held], run
            )
    return found


async def _pages(engine: Engine, job: MainJob, numbers: list[int]) -> dict[int, PageElements]:
    if not numbers:
        return {}
    wanted = PageRanges.parse(",".join(map(str, sorted(numbers))))
    found: dict[int, PageElements] = {}
    async with aclosing((await engine.elements(job, wanted)).runs()) as runs:
        async for run in runs:
            found |= {one.page.number: one.page for one in run}
    return found


async def _shown(engine: Engine, a: MainJob, b: MainJob, pairs: list[PagePair]) -> list[PageDiffView]:
    left = await _pages(engine, a, [pair.a for pair in pairs if pair.a is not None])
    right = await _pages(engine, b, [pair.b for pair in pairs if pair.b is not None])

    def compared() -> list[PageDiffView]:
        return [
            PageDiffView(
                change=pair.change,
                a=pair.a,
                b=pair.b,
                elements=[
                    _element_pair(one)
                    for one in changed_elements(left.get(pair.a or 0), right.get(pair.b or 0))
                ],
            )
            for pair in pairs
        ]

    return await asyncio.to_thread(compared)


def _element_pair(pair: ElementPair) -> ElementDiffView:
    return ElementDiffView(change=pair.change, a=_element(pair.a), b=_element(pair.b))


def _element(element: Element | None) -> dict[str, Any] | None:
    if element is None:
        return None
    found = element_json(element, 0, element.reader)
    return {name: found[name] for name in ("id", "kind", "text", "box", "confidence", "grounded")}
