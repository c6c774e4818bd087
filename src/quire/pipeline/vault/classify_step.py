"""The classify step: title, summary, date, language and tags of a converted document, by a model or locally.

A failed call is retried after a delay that depends on its error category; then the document completes without a title.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from dataclasses import replace

from quire.classification.local_classifier import LocalText, classify_locally
from quire.coordination.job_records import Claim
from quire.dispatch.answer_checks import CUT_OFF, EMPTY, REFUSED, REPEATING
from quire.dispatch.ledger import Spent
from quire.dispatch.page_task import Answered, Exhausted, PagePicture, PageTask, Parked
from quire.domain.job import JobStatus, MainJob, Mode
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
}
_BAD_ANSWERS = (INVALID, EMPTY, REFUSED, CUT_OFF, REPEATING)
_BAD_ANSWER = "The AI's answer could not be used."
_TIMED_OUT = ("page_timeout", "ai_unavailable")
_FINAL = frozenset({"ai_content_blocked", "validation", "auth"})


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


def timeout_error() -> ClassificationError:
    return ClassificationError("timeout", _TEXTS["timeout"], retryable=True)


def retry_delay_s(reasons: Sequence[str], settings: VaultSettings) -> float:
    """Returns the delay before the next round: the longest of those of the reasons."""
    waits = {
        "ai_quota": settings.classify_quota_delay_s,
        "rate_limit": settings.classify_rate_limit_delay_s,
    }
    return max((waits.get(reason, settings.classify_retry_delay_s) for reason in reasons), default=0.0)


_LOG = logging.getLogger(__name__)
_QUESTION_BYTES = 12_000
_LOCAL_BYTES = 64_000
_TAGS_SHOWN = 60
_LOCAL_TIMEOUT_S = 30.0
_JOB_WAIT_S = 180.0
"""Source 002: longer than a model's 90 s and a download's 60 s together."""
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
        wanted = row is not None and row.status is DocumentStatus.PENDING and row.attempt == link.attempt
        if row is None or conversion is None or not wanted or conversion.status is not JobStatus.COMPLETED:
            await vault.steps.done(claim)
            return
        found = await _Classifier(claim, vault, row, conversion).run()
        if found is None:  # parked
            return
        made, spent = found
        if await catalog.complete(row.team, row.id, row.attempt, made):
            await vault.announce(row, DocumentStatus.COMPLETED)
    except (CatalogError, ObjectsError) as error:
        await postpone(claim, vault, error)
        return
    except ClassificationError as error:
        if error.retryable:
            await vault.parts.queues.add_dead_letter(claim.hint, error.public)
        await vault.parts.jobs.fail(claim, error)
        return
    await vault.steps.done(
        claim, tokens_in=spent.tokens_in, tokens_out=spent.tokens_out, cost_usd=spent.cost_usd
    )


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
        text = LocalText(
            text=await self._text(_LOCAL_BYTES),
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
        now, deadline = self._parts.clock.now(), self._deadline()
        if now >= deadline:
            raise timeout_error()
        task = await self._task(deadline)
        try:
            outcome = await ai.dispatcher.read(task)
        except PageError as error:
            raise ClassificationError(error.code, error.public, retryable=error.retryable) from error
        if isinstance(outcome, Parked):
            left_s = max(0.0, deadline - self._parts.clock.now())
            await ai.waiting.park(self._claim, min(outcome.wait_s, left_s), in_line=outcome.in_line)
            return None
        if isinstance(outcome, Exhausted):
            await self._retry_later(ai, task, outcome, deadline)
            return None
        await ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
        return self._parsed(outcome), outcome.spent

    def _parsed(self, outcome: Answered) -> Classification:
        made = classification(outcome.text, outcome.candidate.name, today=self._today(), seen=self._seen)
        if made is None:  # judged before, so this is a cached answer of another version
            raise classification_error(())
        return made

    async def _retry_later(self, ai: AiReading, task: PageTask, outcome: Exhausted, deadline: float) -> None:
        """Parks the unit for another round; raises ClassificationError if no round is left."""
        at = self._parts.clock.now() + retry_delay_s(outcome.reasons, self._settings)
        last = self._claim.failures + 1 >= self._parts.settings.jobs.max_attempts
        if not outcome.retryable or last or at >= deadline:
            await ai.dispatcher.ledger.forget(task.job_id, task.epoch, task.number)
            raise classification_error(outcome.reasons)
        await ai.dispatcher.another_round(task, replace(outcome.spent, seconds=0.0))
        await self._parts.jobs.park(self._claim, at, failed=True)

    def _deadline(self) -> float:
        """Returns the end of the document's time; after a long conversion at least what a model needs."""
        since = self._row.pending_since or self._row.created_at
        return max(since + self._settings.timeout_s, self._claim.job.created_at + self._job_wait_s())

    def _job_wait_s(self) -> float:
        return max(_JOB_WAIT_S, 2 * self._settings.classify_timeout_s)

    async def _task(self, deadline: float) -> PageTask:
        row = self._row
        catalog = await self._vault.catalog()
        tags = [tag.name for tag in await catalog.tags(row.team, limit=_TAGS_SHOWN)]
        self._seen = await self._text(_QUESTION_BYTES)
        mark = self._parts.sealer.fingerprint("mark", row.id)[:16]
        asked = question(self._seen, row.filename, tags, mark)
        pictured = self._is_picture()
        if not pictured and not any(map(str.isalnum, self._seen)):
            raise ClassificationError(
                "no_text", "The document has no text by which it could be classified.", retryable=False
            )

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
            total_timeout_s=self._settings.classify_timeout_s,
            owner=self._conversion.id,
        )

    def _is_picture(self) -> bool:
        mime = self._conversion.mime or self._row.content_type
        if mime in ("image/heic", "image/heif") and self._row.size_bytes > _LARGEST_HEIC:
            return False
        return mime.startswith("image/")

    async def _picture(self, asked: str) -> PagePicture:
        settings = self._parts.settings
        images = settings.images
        render = RenderOptions.of(images, settings.limits.max_pixels)
        async with local_document(self._parts.objects, self._conversion.content_ref or "") as path:
            page = await self._parts.pool.run(
                picture_page,
                *(str(path), None, 1, render, ContextOptions(radius=0, max_bytes=0, own_text=False)),
                timeout_s=settings.reading.page_timeout_s,
            )
        return PagePicture(page.image, page.mime, asked, "", page.pixels)

    async def _text(self, most_bytes: int) -> str:
        key = (self._conversion.result or {}).get("key")
        try:
            return await text_excerpt(self._parts.objects, key, most_bytes) if key else ""
        except MissingError:  # a retry has just replaced the result
            return ""

    def _today(self) -> datetime.date:
        return datetime.datetime.fromtimestamp(self._parts.clock.now(), datetime.UTC).date()
