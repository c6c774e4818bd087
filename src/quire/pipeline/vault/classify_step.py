"""The classify step: title, summary, date, language and tags of a converted document, by a model or locally.

A failed call is retried after a delay that depends on its error category; then the document completes without a title.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from quire.classification.local_classifier import LocalText, classify_locally
from quire.coordination.job_records import Claim
from quire.dispatch.answer_checks import CUT_OFF, EMPTY, REFUSED, REPEATING
from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask, Parked
from quire.dispatch.waiting_policy import UNAVAILABLE
from quire.domain.job import JobStatus, MainJob, Mode, VaultLink
from quire.domain.vault_document import Classification, DocumentStatus, VaultDocument
from quire.errors import CatalogError, MissingError, ObjectsError, PageError, QuireError
from quire.pipeline.object_keys import local_document
from quire.pipeline.stages.ai_pages import AiReading
from quire.pipeline.vault.classification_question import (
    ANSWER,
    INSTRUCTIONS,
    INVALID,
    MAX_TOKENS_OUT,
    classification,
    clean_tags,
    judge,
    question,
)
from quire.pipeline.vault.document_texts import text_excerpt
from quire.pipeline.vault.vault import Vault
from quire.reading.pdf.page_render import RenderOptions
from quire.reading.pdf.vision_page import ContextOptions, picture_page
from quire.settings.vault_settings import VaultSettings

_TEXTS = {
    "ai_content_blocked": "The AI's content filter refused the document.",
    "ai_quota": "The AI's quota is used up, or its models are overloaded.",
    "rate_limit": "The AI's request limit is reached.",
    "timeout": "The AI did not answer in time.",
    "network": "The AI could not be reached.",
    "server": "The AI answered with a server error.",
    "model_not_found": "The AI does not know the model; the operator has to correct the model's name.",
    "auth": "The AI does not accept the API key; the operator has to replace it.",
    "validation": "The AI rejected the request.",
    UNAVAILABLE: "No AI model is available at the moment.",
}
_BAD_ANSWERS = (INVALID, EMPTY, REFUSED, CUT_OFF, REPEATING)
_BAD_ANSWER = "The AI's answer could not be used."
_TIMED_OUT = ("page_timeout",)
_FINAL = frozenset({"ai_content_blocked", "validation"})
_OUTAGES = frozenset({"timeout", "network", "server", "rate_limit", "ai_quota", "auth", UNAVAILABLE})
"""Reasons that open breakers: such a classification is retried as soon as one closes."""
_LONGEST_DELAY_S = 45.0
"""Later retries come at least this often, so that a classification follows within a minute after a model is back."""


class ClassificationError(QuireError):
    """A document has no classification. The code is that of what happened last."""

    def __init__(self, code: str, public: str, *, retryable: bool) -> None:
        super().__init__(public, retryable=retryable)
        self.code = code


def classification_error(reasons: Sequence[str]) -> ClassificationError:
    """Returns the error of the last reason that has a text."""
    for reason in reversed(reasons):
        if reason in _TEXTS:
            return ClassificationError(reason, _TEXTS[reason], retryable=reason not in _FINAL)
        if reason in _BAD_ANSWERS:
            return ClassificationError(reason, _BAD_ANSWER, retryable=True)
        if reason in _TIMED_OUT:
            return timeout_error()
        if reason.endswith("cost_ceiling"):
            return ClassificationError(reason, "The budget for AI is used up.", retryable=False)
    return ClassificationError("ai_failed", "The AI failed.", retryable=True)


def no_text_error() -> ClassificationError:
    public = "No text was found in the document, so it has no title. Its file can be downloaded."
    return ClassificationError("no_text", public, retryable=False)


def timeout_error() -> ClassificationError:
    return ClassificationError("timeout", _TEXTS["timeout"], retryable=True)


def retry_delay_s(reasons: Sequence[str], settings: VaultSettings) -> float:
    """Returns the delay before the next round: the longest of those of the reasons."""
    waits = {
        "ai_quota": settings.classify_quota_delay_s,
        "rate_limit": settings.classify_rate_limit_delay_s,
        "auth": settings.classify_rate_limit_delay_s,
    }
    return max((waits.get(reason, settings.classify_retry_delay_s) for reason in reasons), default=0.0)


def later_delay_s(delay_s: float, failures: int, quick: int) -> float:
    """Returns the delay after so many failed rounds: as it is for the first `quick` ones, then doubling to 45 s."""
    if failures <= quick:
        return delay_s
    return max(delay_s, min(_LONGEST_DELAY_S, delay_s * 2.0 ** min(failures - quick, 10)))


_LOG = logging.getLogger(__name__)
_QUESTION_BYTES = 12_000
_LOCAL_BYTES = 64_000
_TAGS_SHOWN = 60
_LOCAL_TIMEOUT_S = 30.0
_LARGEST_HEIC = 15 << 20
_OUTAGE_DELAY_S = (1.0, 60.0)


async def run_classify(claim: Claim, vault: Vault) -> None:
    """Ends its job or parks it. During an outage of a plane the unit is postponed and no attempt is counted.

    The step decides itself when to retry: the delays are longer than those of pages and depend on the error.
    """
    link = claim.job.vault
    if link is None:
        await vault.steps.done(claim)
        return
    try:
        catalog = await vault.catalog()
        row = await catalog.find(link.team, link.document_id)
        if row is None and await vault.has_document(link) is None:
            raise missing_row_error(link.document_id)
        conversion = await vault.conversion(row) if row else None
        # The document may be completed: it does not wait for a model, but this attempt's classification still runs.
        wanted = row is not None and row.status is not DocumentStatus.FAILED and row.attempt == link.attempt
        if row is None or conversion is None or not wanted or conversion.status is not JobStatus.COMPLETED:
            await vault.steps.done(claim)
            return
        delay_s = await start_delay_s(vault)
        if delay_s > 0:
            await vault.parts.jobs.park(claim, vault.parts.clock.now() + delay_s, failed=False)
            return
        found = await _Classifier(claim, vault, row, conversion).run()
        if found is None:  # parked
            return
        made, spent = found
        if await catalog.complete(row.team, row.id, row.attempt, made, late=True):
            await vault.announce(row, DocumentStatus.COMPLETED)
    except (CatalogError, ObjectsError) as error:
        await postpone(claim, vault, error)
        return
    except ClassificationError as error:
        await release(vault, link, error)
        if error.retryable:
            await vault.parts.queues.add_dead_letter(claim.hint, error.public)
        await vault.parts.jobs.fail(claim, error)
        return
    await vault.steps.done(
        claim, tokens_in=spent.tokens_in, tokens_out=spent.tokens_out, cost_usd=spent.cost_usd
    )


async def start_delay_s(vault: Vault) -> float:
    """Returns how long VAULT_JOBS_PER_SECOND makes a job wait; 0 if it may start."""
    per_second = vault.parts.settings.vault.jobs_per_second
    return await vault.steps.start_delay_s(per_second) if per_second else 0.0


async def release(vault: Vault, link: VaultLink, error: ClassificationError) -> None:
    """Completes the document without a classification, with the reason; a later round may still bring one."""
    catalog = await vault.catalog()
    row = await catalog.find(link.team, link.document_id)
    shown = error.as_dict()
    if row is None or row.attempt != link.attempt or row.error == shown:
        return
    if await catalog.complete(link.team, link.document_id, link.attempt, None, error=shown, late=True):
        await vault.announce(row, DocumentStatus.COMPLETED)


def missing_row_error(document_id: str) -> CatalogError:
    """Returns the error for a row that is not in this process's catalog; another process may have it."""
    _LOG.error(
        "a document of the vault is not in this process's catalog: processes on several machines need DATABASE_URL",
        extra={"document_id": document_id},
    )
    return CatalogError("The document is in another catalog than this process has.")


async def postpone(claim: Claim, vault: Vault, error: CatalogError | ObjectsError) -> None:
    """Parks the unit during an outage of a plane, longer each time; no attempt is counted."""
    _LOG.warning("postponed", extra={"job_id": claim.job.id, "unit": claim.hint.unit, "code": error.code})
    least, most = _OUTAGE_DELAY_S
    wait_s = min(most, least * 2 ** min(claim.starts, 10))
    await vault.parts.jobs.park(claim, vault.parts.clock.now() + wait_s, failed=False)


class _Classifier:
    def __init__(self, claim: Claim, vault: Vault, row: VaultDocument, conversion: MainJob) -> None:
        self._claim = claim
        self._vault = vault
        self._parts = vault.parts
        self._settings = vault.parts.settings.vault
        self._row = row
        self._conversion = conversion
        self._link = VaultLink(row.team, row.id, row.attempt)
        self._seen = ""

    async def run(self) -> tuple[Classification, Spent] | None:
        """None if the unit was parked."""
        ai = self._parts.ai
        if (
            ai is not None
            and ai.dispatcher.answers_questions
            and self._conversion.options.mode is not Mode.LOCAL
        ):
            return await self._by_ai(ai)
        if not self._settings.local_classifier:
            raise ClassificationError(
                "no_classifier",
                "No AI is configured, and the local classifier is switched off (LOCAL_CLASSIFIER).",
                retryable=False,
            )
        return await self._locally(), Spent()

    # ---- on this machine -----------------------------------------------------------------------------------

    async def _locally(self) -> Classification:
        catalog = await self._vault.catalog()
        known = [tag.name for tag in await catalog.tags(self._row.team, limit=200)]
        info = self._conversion.info
        found_text = await self._text(_LOCAL_BYTES)
        if not any(map(str.isalnum, found_text)):
            raise no_text_error()
        text = LocalText(
            text=found_text,
            filename=self._row.filename,
            title=str(info.get("title") or ""),
            today=self._today().isoformat(),
        )
        try:
            found = await self._parts.pool.run(classify_locally, text, known, timeout_s=_LOCAL_TIMEOUT_S)
        except PageError as error:
            raise ClassificationError(error.code, error.public, retryable=error.retryable) from error
        return Classification(
            title=found.title or None,
            by="local",
            summary=found.summary or None,
            date=found.date,
            language=found.language,
            tags=clean_tags(found.tags),
        )

    # ---- by a model ----------------------------------------------------------------------------------------

    async def _by_ai(self, ai: AiReading) -> tuple[Classification, Spent] | None:
        deadline = self._parts.clock.now() + self._settings.timeout_s
        task = await self._task(deadline)
        try:
            outcome = await ai.dispatcher.read(task)
        except PageError as error:
            raise ClassificationError(error.code, error.public, retryable=error.retryable) from error
        if isinstance(outcome, Parked):
            if self._is_too_old():
                raise classification_error((UNAVAILABLE,))
            if not outcome.in_line and outcome.wait_s > self._settings.classify_wait_s:
                await release(self._vault, self._link, classification_error((UNAVAILABLE,)))
            await ai.waiting.park(self._claim, outcome.wait_s, in_line=outcome.in_line)
            return None
        if isinstance(outcome, Exhausted):
            await self._retry_later(ai, task, outcome)
            return None
        await ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
        return self._parsed(outcome), outcome.spent

    def _parsed(self, outcome: Answered) -> Classification:
        made = classification(outcome.text, outcome.candidate.name, today=self._today(), seen=self._seen)
        if made is None:  # judged before, so this is a cached answer of another version
            raise classification_error(())
        return made

    async def _retry_later(self, ai: AiReading, task: PageTask, outcome: Exhausted) -> None:
        """Completes the document and parks the unit for another round; raises ClassificationError if none is left.

        A round in which no model was asked, because every breaker is open, does not count. After an outage the unit is
        retried when a breaker closes, at the latest after its delay.
        """
        error = classification_error(outcome.reasons)
        asked = bool(outcome.spent.tried)
        failures = self._claim.failures + int(asked)
        if not error.retryable or failures >= self._settings.classify_max_attempts or self._is_too_old():
            await ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
            raise error
        await release(self._vault, self._link, error)
        await ai.dispatcher.another_round(task, replace(outcome.spent, seconds=0.0, reasons=()))
        quick = self._parts.settings.jobs.max_attempts
        delay_s = later_delay_s(retry_delay_s(outcome.reasons, self._settings), failures, quick)
        if not asked:
            # Rarer the longer it lasts: thousands of documents may wait for the same model.
            age_s = self._parts.clock.now() - self._claim.job.created_at
            delay_s = max(delay_s, min(_LONGEST_DELAY_S, age_s / 4))
        if _OUTAGES.intersection(outcome.reasons):
            await ai.waiting.park_until_recovery(self._claim, delay_s, failed=asked)
        else:
            await self._parts.jobs.park(self._claim, self._parts.clock.now() + delay_s, failed=asked)

    def _is_too_old(self) -> bool:
        return self._parts.clock.now() >= self._claim.job.created_at + self._settings.classify_retry_for_s

    async def _task(self, deadline: float) -> PageTask:
        row = self._row
        catalog = await self._vault.catalog()
        tags = [tag.name for tag in await catalog.tags(row.team, limit=_TAGS_SHOWN)]
        self._seen = await self._text(_QUESTION_BYTES)
        mark = self._parts.sealer.fingerprint("mark", row.id)[:16]
        asked = question(self._seen, row.filename, tags, mark)
        pictured = self._is_picture()
        if not pictured and not any(map(str.isalnum, self._seen)):
            raise no_text_error()

        async def prepare() -> PagePicture:
            if pictured:
                return await self._picture(asked)
            return PagePicture(b"", "", asked, "", 0)

        return PageTask(
            job_id=self._conversion.id,
            epoch=row.attempt,
            number=0,
            team=row.team,
            instructions=INSTRUCTIONS,
            engine=self._conversion.options.engine,
            tier=self._settings.classify_tier,
            deadline_at=deadline,
            prepare=prepare,
            prepared=not pictured,
            # One attempt is paid for once, also if its worker dies; another attempt asks again.
            fingerprint=lambda model: self._parts.sealer.fingerprint(
                "classify", row.team, row.id, row.attempt, model
            ),
            judge=judge,
            answer=ANSWER,
            max_tokens_out=MAX_TOKENS_OUT,
            total_timeout_s=self._timeout_s(),
            call_timeout_s=self._settings.classify_call_timeout_s,
            owner=self._conversion.id,
            payer=self._conversion.payer,
        )

    def _timeout_s(self) -> float:
        settings = self._settings
        return settings.classify_image_timeout_s if self._row.is_image else settings.classify_timeout_s

    def _is_picture(self) -> bool:
        mime = self._conversion.mime or self._row.content_type
        if mime in ("image/heic", "image/heif") and self._row.size_bytes > _LARGEST_HEIC:
            return False
        return mime.startswith("image/")

    @asynccontextmanager
    async def _downloaded(self) -> AsyncIterator[Path]:
        """The image as a local file. Raises ClassificationError when CLASSIFY_DOWNLOAD_TIMEOUT has passed."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._settings.classify_download_timeout_s):
                    ref = self._conversion.content_ref or ""
                    path = await stack.enter_async_context(local_document(self._parts.objects, ref))
            except TimeoutError as error:
                public = "The image could not be fetched from the object store in time."
                raise ClassificationError("timeout", public, retryable=True) from error
            yield path

    async def _picture(self, asked: str) -> PagePicture:
        settings = self._parts.settings
        images = settings.images
        render = RenderOptions.of(images, settings.limits.max_pixels)
        async with self._downloaded() as path:
            page = await self._parts.pool.run(
                picture_page,
                *(str(path), None, 1, render, ContextOptions(radius=0, max_bytes=0, own_text=False)),
                timeout_s=settings.reading.page_timeout_s,
            )
        return PagePicture(page.image, page.mime, asked, "", page.pixels)

    async def _text(self, most_bytes: int) -> str:
        result = self._conversion.result or {}
        try:
            return await text_excerpt(self._parts.objects, result, most_bytes) if result.get("key") else ""
        except MissingError:  # a retry has just replaced the result
            return ""

    def _today(self) -> datetime.date:
        return datetime.datetime.fromtimestamp(self._parts.clock.now(), datetime.UTC).date()
