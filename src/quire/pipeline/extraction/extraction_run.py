"""Extracts values by a schema from a finished document, each with its proof on the pages.

The pages are read by windows; what the windows say is merged by place, so that lists have no losses and no doubles.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from quire.domain.element import PageElements
from quire.domain.job import JobStatus, MainJob
from quire.domain.page_ranges import PageRanges
from quire.errors import StateConflictError, TooLargeError
from quire.extraction.citation_check import FieldDoubt, QuoteMatch
from quire.extraction.field_schema import empty_values, pointer, result_schema
from quire.extraction.findings import (
    FieldFinding,
    FindingTree,
    leaves,
    merge,
    values_of,
    without_ungrounded_items,
)
from quire.extraction.local_findings import local_findings
from quire.extraction.page_windows import QuestionPage, Window, windows
from quire.extraction.page_words import PageWords, collapsed
from quire.extraction.schema_validation import SchemaProblem, check_schema, schema_problems
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.engine import Engine
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.window_questions import (
    WindowFailure,
    WindowFindings,
    WindowOutcome,
    WindowQuestions,
)
from quire.pipeline.parts import Parts

SCHEMA_VERSION = 1
_CHECK_TIMEOUT_S = 20.0
_CONFIDENCE = {
    QuoteMatch.EXACT: 0.98,
    QuoteMatch.NORMALISED: 0.95,
    QuoteMatch.FUZZY: 0.6,
    QuoteMatch.NONE: 0.05,
}
_WEIGHTS = {FieldDoubt.PAGE: 0.9, FieldDoubt.CONFLICT: 0.7}
_NOT_GROUNDED = 0.5
_LOCAL_PAGES = 200

NO_MODEL = (
    "Extraction needs an AI model, and none is configured. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL "
    "for a server of your own. The name-value pairs and tables in `found` were read without AI."
)


class NoModelError(StateConflictError):
    """No provider is configured that answers questions. `found` is what can be had without one."""

    code = "ai_not_configured"

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(NO_MODEL)
        self.found = found


@dataclass(slots=True)
class PagesToExtract:
    """The pages of a document: those with text, the numbers of those without, and those that no reader could read."""

    read: list[QuestionPage] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0

    def add(self, run: Sequence[ElementPage]) -> None:
        for one in run:
            page = QuestionPage.of(one.page)
            self.tokens += page.tokens
            failed = one.record.status is JobStatus.FAILED
            if failed:
                why = one.record.error or {}
                error = why.get("error") or one.note or "The page could not be read."
                self.unreadable.append(
                    {"pages": [page.number], "error": error, "code": why.get("code", "page_failed")}
                )
            if page.words.text.strip():
                self.read.append(page)
            elif not failed:
                self.empty.append(page.number)


class Extraction:
    """Extracts from the documents of one process."""

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._parts = parts
        self._engine = engine

    @property
    def has_model(self) -> bool:
        """Whether a provider is configured that answers questions."""
        ai = self._parts.ai
        return ai is not None and ai.dispatcher.answers_questions

    async def check(self, request: ExtractionRequest) -> None:
        """Raises RequestError for a schema that is no JSON Schema."""
        await self._parts.pool.run(check_schema, json.dumps(request.schema), timeout_s=_CHECK_TIMEOUT_S)

    async def extract(
        self,
        job: MainJob,
        request: ExtractionRequest,
        pages: PageRanges | None = None,
        deadline_at: float | None = None,
    ) -> dict[str, Any]:
        """The values of a finished document with their proof, as JSON values. `request` has passed `check`.

        `deadline_at` is EXTRACT_TIMEOUT from now if it is not given. Raises NoModelError, TooLargeError (more text than
        EXTRACT_MAX_TOKENS), ExtractionError if no window was answered, and what `Engine.elements` raises.
        """
        if deadline_at is None:
            deadline_at = self._parts.clock.now() + self._parts.settings.extraction.timeout_s
        ai = self._parts.ai
        if ai is None or not self.has_model:
            raise NoModelError(await self._local(job, pages))
        found_pages = await self._pages(job, pages)
        read = found_pages.read
        asking = WindowQuestions(self._parts, ai, job, request, deadline_at)
        outcomes = await self._ask_all(asking, windows(read, self._parts.settings.extraction.window_tokens))
        found = [one for one in outcomes if isinstance(one, WindowFindings)]
        failed = [one for one in outcomes if isinstance(one, WindowFailure)]
        if failed and not found:
            raise failed[0].error
        tree, rejected = await asyncio.to_thread(_merged, request, found)
        problems = await self._validate(request, tree)
        words = {page.number: page.words for page in read}
        usage = asking.usage
        return {
            "job_id": job.id,
            "filename": job.filename or None,
            "schema_version": SCHEMA_VERSION,
            "values": _values(request, tree),
            "fields": [_field(path, one, words, request) for path, one in _leaves(tree)],
            "valid": not problems,
            "problems": [{"path": pointer(tuple(one.path)), "message": one.message} for one in problems],
            "complete": not failed and not found_pages.unreadable,
            "pages": [page.number for page in read],
            "pages_without_text": found_pages.empty,
            "pages_failed": [*found_pages.unreadable, *(_failure(one) for one in failed)],
            "items_rejected": rejected,
            "doubles_dropped": sum(one.doubles for one in found),
            "models": list(usage.models),
            "usage": {
                "calls": usage.calls,
                "cached": usage.cached,
                "tokens_in": usage.tokens_in,
                "tokens_out": usage.tokens_out,
                "cost_usd": round(usage.cost_usd, 6),
            },
        }

    async def _pages(self, job: MainJob, pages: PageRanges | None) -> PagesToExtract:
        """Raises TooLargeError."""
        most = self._parts.settings.extraction.max_tokens
        found = PagesToExtract()
        async with aclosing((await self._engine.elements(job, pages)).runs()) as runs:
            async for run in runs:
                await asyncio.to_thread(found.add, run)
                if found.tokens > most:
                    raise TooLargeError(
                        f"The document has more text than one extraction may read (about {most} tokens, "
                        "EXTRACT_MAX_TOKENS). Choose pages."
                    )
        return found

    async def _ask_all(self, asking: WindowQuestions, listed: Sequence[Window]) -> list[WindowOutcome]:
        room = asyncio.Semaphore(self._parts.settings.extraction.concurrency)

        async def one(window: Window) -> list[WindowOutcome]:
            async with room:
                return await asking.ask(window)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(window), name="extract-window") for window in listed]
        return [outcome for task in tasks for outcome in task.result()]

    async def _validate(self, request: ExtractionRequest, tree: FindingTree) -> list[SchemaProblem]:
        """What is wrong with the values as a whole. A leaf that is invalid becomes null, and a doubt of its field."""
        schema = json.dumps(result_schema(request.root))
        by_path = dict(leaves(tree))
        problems: list[SchemaProblem] = []
        for _ in range(2):  # the second time for what remains once invalid leaves are null
            values = json.dumps(_values(request, tree))
            problems = await self._parts.pool.run(schema_problems, schema, values, timeout_s=_CHECK_TIMEOUT_S)
            wrong = [by_path[tuple(one.path)] for one in problems if tuple(one.path) in by_path]
            for finding in wrong:
                finding.doubts.add(FieldDoubt.INVALID)
            if not wrong:
                break
        return problems

    async def _local(self, job: MainJob, pages: PageRanges | None) -> dict[str, Any]:
        """What the first pages say by their form alone."""
        found: list[PageElements] = []
        async with aclosing((await self._engine.elements(job, pages)).runs()) as runs:
            async for run in runs:
                found += [one.page for one in run]
                if len(found) >= _LOCAL_PAGES:
                    break
        return await asyncio.to_thread(local_findings, found)


def _merged(
    request: ExtractionRequest, found: Sequence[WindowFindings]
) -> tuple[FindingTree, list[dict[str, Any]]]:
    """What the windows say together, and the items of lists that were left out because no page says them."""
    if not found:  # no page has text
        return {}, []
    tree = merge(request.root, [one.tree for one in found])
    if request.keep_ungrounded:
        return tree, []
    kept, rejected = without_ungrounded_items(tree)
    return kept, [{"path": pointer(path), "value": value} for path, value in rejected]


def _values(request: ExtractionRequest, tree: FindingTree) -> Any:
    if not tree:
        return empty_values(request.root)
    return values_of(tree, keep_ungrounded=request.keep_ungrounded)


def _leaves(tree: FindingTree) -> Iterator[tuple[tuple[str | int, ...], FieldFinding]]:
    return leaves(tree) if tree else iter(())


def _failure(failed: WindowFailure) -> dict[str, Any]:
    return {"pages": list(failed.pages), "error": failed.error.public, "code": failed.error.cause}


def _field(
    path: tuple[str | int, ...],
    finding: FieldFinding,
    words: Mapping[int, PageWords],
    request: ExtractionRequest,
) -> dict[str, Any]:
    citations = _citations(finding, words)
    value = values_of(finding, keep_ungrounded=request.keep_ungrounded)
    shown: dict[str, Any] = {
        "path": pointer(path),
        "value": value,
        "match": finding.match.value,
        "confidence": _confidence(finding, citations),
        "citations": citations,
        "flags": sorted(finding.doubts),
    }
    if finding.value is not None and value is None:
        shown["rejected"] = finding.value
    if finding.alternatives:
        shown["alternatives"] = [
            {"value": one.value, "citations": _citations(one, words)} for one in finding.alternatives
        ]
    return shown


def _citations(finding: FieldFinding, words: Mapping[int, PageWords]) -> list[dict[str, Any]]:
    if finding.quoted is None:
        return []
    return [
        {
            "page": place.page,
            "box": None if place.box is None else [round(value, 1) for value in place.box],
            "quote": collapsed(place.text),
            "element": place.element.id,
            "confidence": place.element.confidence,
            "grounded": place.element.grounded,
        }
        for place in words[finding.quoted.page].places(finding.quoted)
    ]


def _confidence(finding: FieldFinding, citations: Sequence[Mapping[str, Any]]) -> float | None:
    """How far the value can be trusted: by its match, the reader's own confidence in the words, and its doubts."""
    if finding.value is None:
        return None
    found = _CONFIDENCE[finding.match]
    sure = [one["confidence"] for one in citations if one["confidence"] is not None]
    found *= min(sure, default=1.0)
    if any(one["grounded"] is False for one in citations):
        found *= _NOT_GROUNDED
    for doubt, weight in _WEIGHTS.items():
        found *= weight if doubt in finding.doubts else 1.0
    return 0.0 if FieldDoubt.INVALID in finding.doubts else round(found, 3)
