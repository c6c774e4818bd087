"""Asks the dispatcher about one window of pages, and waits for its answer up to the request's deadline.

A window whose answer is not whole is asked again in halves; an answer with invalid values is sent back with its errors
a bounded number of times. Every answer is cached, so a caller that repeats its request pays once for each question.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask
from quire.domain.job import MainJob
from quire.domain.payer import current_payer
from quire.errors import ExtractionError
from quire.extraction.field_schema import pointer, result_schema
from quire.extraction.findings import FindingTree, ground_claims, values_of
from quire.extraction.model_answer import AnswerProblem, parse_answer, read_claims
from quire.extraction.page_windows import Window, halves
from quire.extraction.schema_validation import schema_problems
from quire.pipeline.extraction.extraction_question import (
    INSTRUCTIONS,
    ExtractionRequest,
    judge,
    question,
    repair,
)
from quire.pipeline.parts import Parts
from quire.pipeline.retry_delay import retry_delay_s
from quire.pipeline.stages.ai_pages import AiReading
from quire.pipeline.vault.classify_step import classification_error

_POLL_S = (0.05, 1.0)
_CHECK_TIMEOUT_S = 20.0


@dataclass(slots=True)
class QuestionUsage:
    """What the questions of a request used."""

    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    models: dict[str, None] = field(default_factory=dict)

    def add(self, answered: Answered) -> None:
        self.models[answered.candidate.name] = None
        if answered.cached:
            self.cached += 1
            return
        self.add_spent(answered.spent)

    def add_spent(self, spent: Spent) -> None:
        self.calls += spent.calls
        self.tokens_in += spent.tokens_in
        self.tokens_out += spent.tokens_out
        self.cost_usd += spent.cost_usd


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """What one window says. `doubles` counts items that the model gave twice."""

    window: Window
    tree: FindingTree
    doubles: int


@dataclass(frozen=True, slots=True)
class WindowFailure:
    """Pages that no model answered about, and why."""

    pages: tuple[int, ...]
    error: ExtractionError


WindowOutcome = WindowFindings | WindowFailure


class WindowQuestions:
    """The questions of one request about one document; safe for many windows at once."""

    def __init__(
        self, parts: Parts, ai: AiReading, job: MainJob, request: ExtractionRequest, deadline_at: float
    ) -> None:
        self._parts = parts
        self._ai = ai
        self._job = job
        self._request = request
        self._deadline_at = deadline_at
        self._answer = request.answer
        self._result_schema = json.dumps(result_schema(request.root))
        self._settings = parts.settings.extraction
        self._mark = parts.sealer.fingerprint("mark", job.id)[:16]
        self.usage = QuestionUsage()

    async def ask(self, window: Window) -> list[WindowOutcome]:
        """The findings of a window, or of its parts where one answer can't hold them; failures are not raised."""
        try:
            found = await self._findings(window)
        except ExtractionError as error:
            return [WindowFailure(tuple(page.number for page in window), error)]
        if found is not None:
            return [found]
        parts = halves(window)
        if not parts:
            public = "The page says more than one answer of the model can hold."
            return [WindowFailure((window[0].number,), ExtractionError(public, retryable=False))]
        return [outcome for part in parts for outcome in await self.ask(part)]

    async def _findings(self, window: Window) -> WindowFindings | None:
        """None if the answer is not whole. The better of the answers is taken where a repair makes it worse."""
        asked = question(self._request, window, self._job.filename, self._mark)
        text, best, best_problems = asked, None, 0
        for round_ in range(self._settings.repairs + 1):
            answer = await self._answered(text, round_)
            given = parse_answer(answer)
            if given is None:
                return best
            found, problems = await self._checked(window, given)
            if best is None or len(problems) < best_problems:
                best, best_problems = found, len(problems)
            if not problems:
                break
            text = repair(asked, answer, problems)
        return best

    async def _checked(self, window: Window, given: object) -> tuple[WindowFindings, list[AnswerProblem]]:
        """The findings of an answer, and what of it the schema does not allow."""
        root = self._request.root
        claims, problems = read_claims(root, given)
        pages = {page.number: page.words for page in window}
        tree, doubles = await asyncio.to_thread(ground_claims, root, claims, pages)
        values = values_of(tree, keep_ungrounded=True)
        wrong = await self._parts.pool.run(
            schema_problems, self._result_schema, json.dumps(values), timeout_s=_CHECK_TIMEOUT_S
        )
        leaves = [
            AnswerProblem(pointer(tuple(one.path)), one.message)
            for one in wrong
            if _is_leaf(values, one.path)
        ]
        return WindowFindings(window, tree, doubles), [*problems, *leaves]

    async def _answered(self, text: str, round_: int) -> str:
        """The answer to a question. Raises ExtractionError if no model gives one in time."""
        task = self._task(text, round_)
        failures = 0
        while True:
            outcome = await self._ai.dispatcher.read(task)
            if isinstance(outcome, Answered):
                self.usage.add(outcome)
                await self._ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
                return outcome.text
            left_s = self._deadline_at - self._parts.clock.now()
            if isinstance(outcome, Exhausted):
                failures += 1
                error = classification_error(outcome.reasons)
                last = not outcome.retryable or failures >= self._parts.settings.jobs.max_attempts
                if last or left_s <= 0:
                    self.usage.add_spent(outcome.spent)
                    await self._ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
                    raise ExtractionError(error.public, retryable=error.retryable, cause=error.code)
                await self._ai.dispatcher.another_round(task, replace(outcome.spent, seconds=0.0, reasons=()))
                wait_s = retry_delay_s(failures, self._parts.settings.jobs)
            else:
                wait_s = outcome.wait_s
            if left_s <= 0:
                raise ExtractionError(
                    "No model answered before the deadline (EXTRACT_TIMEOUT).", cause="timeout"
                )
            least, most = _POLL_S
            await asyncio.sleep(max(least, min(wait_s, most, left_s)))

    def _task(self, text: str, round_: int) -> PageTask:
        parts, job = self._parts, self._job

        def fingerprint(model: str) -> str:
            schema = self._answer.schema.decode()
            return parts.sealer.fingerprint("extract", job.team, schema, text, round_, model)

        async def prepare() -> PagePicture:
            return PagePicture(b"", "", text, "", 0)

        return PageTask(
            job_id=job.id,
            epoch=job.epoch,
            # The account of a question must not be that of a page or of another question.
            number=-1 - int(fingerprint("")[:8], 16),
            team=job.team,
            instructions=INSTRUCTIONS,
            engine=job.options.engine,
            tier=self._settings.tier,
            deadline_at=self._deadline_at,
            prepare=prepare,
            prepared=True,
            fingerprint=fingerprint,
            judge=judge,
            answer=self._answer,
            total_timeout_s=max(1.0, self._deadline_at - parts.clock.now()),
            owner=job.id,
            payer=current_payer() or job.payer,
        )


def _is_leaf(values: Any, path: list[str | int]) -> bool:
    """Whether a path ends at a value. A list that is too short is no fault of one window."""
    for step in path:
        values = values[step]
    return not isinstance(values, list | dict)
