"""Early text: makes a document usable while pages of it still wait for AI.

Every page has its local text first. If AI then takes longer than CLASSIFY_WAIT, or the breakers of all its models are
open, the text that is there is filed and the document completes without a title. Pictures have no local text: a few of
them are read by OCR for this at once, those of longer scans by the unit `early` when no model answers. The end of the
conversion replaces the text and starts the classification, in the same attempt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING

from quire.coordination.job_records import Claim
from quire.domain.job import JobStatus, MainJob, Mode, PageRecord
from quire.domain.vault_document import ContentPage, DocumentStatus, VaultDocument
from quire.errors import MissingError, QuireError
from quire.pipeline.partial_result import PartialResult, has_text, page_text
from quire.pipeline.stages.early_stage import is_unread, read_early
from quire.pipeline.vault.document_texts import searchable_texts
from quire.pipeline.vault.document_types import known_of

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault

_POLL_S = 0.5
_MOST_OCR_PAGES = 4
"""OCR takes seconds of CPU for a page that AI will probably read: only for pictures and short scans."""


class StillReadingError(QuireError):
    """A document is usable and some of its pages are still being read by AI."""

    code = "still_reading"
    retryable = True


def is_still_reading(row: VaultDocument) -> bool:
    """Whether the row was completed with its early text, and the end of its conversion is still to be filed."""
    return row.status is DocumentStatus.COMPLETED and (row.error or {}).get("code") == StillReadingError.code


async def partial_markdown(vault: Vault, job: MainJob) -> AsyncIterator[bytes]:
    """The Markdown of a running conversion so far. Raises NotReadyError if no page has text."""
    records = await vault.parts.jobs.pages(job.id)
    return PartialResult(job.id, [records[number] for number in sorted(records)]).stream(vault.parts.objects)


async def file_early_text(claim: Claim, vault: Vault) -> float | None:
    """Files the text of a running conversion once it is due; returns when to call again, None if never."""
    job, link = claim.job, claim.job.vault
    if link is None or not _waits_for_ai(vault, job):
        return None
    now = vault.parts.clock.now()
    due_at = (job.started_at or job.created_at) + vault.parts.settings.vault.classify_wait_s
    if now < due_at and not await _is_ai_down(vault, job):
        return min(due_at, now + _POLL_S)
    row = await (await vault.catalog()).find(link.team, link.document_id)
    if row is not None and (row.status is DocumentStatus.PENDING or is_still_reading(row)):
        pages = await vault.parts.jobs.pages(job.id)
        if not pages:  # the file is not opened yet, and may be damaged: there is no text to use
            return now + _POLL_S
        records = await _with_ocr(claim, vault, pages)
        if records is not None:
            await _file(vault, row, job, records)
    return None


def _waits_for_ai(vault: Vault, job: MainJob) -> bool:
    """Whether pages of a running job wait for AI. A mail does not count: when completed, it names its attachments."""
    without_ai = vault.parts.ai is None or job.options.mode is Mode.LOCAL or job.options.text_only
    return job.status is JobStatus.PROCESSING and not without_ai and not job.info.get("attachments")


async def _is_ai_down(vault: Vault, job: MainJob) -> bool:
    """Whether the breakers of all models that may read the job's pages are open."""
    ai = vault.parts.ai
    if ai is None:
        return False
    candidates = ai.dispatcher.candidates.of(job.options.engine, job.options.model_tier)
    states = await ai.dispatcher.admission.states([one.target for one in candidates])
    return bool(states) and all(one.state == "open" for one in states)


async def _file(vault: Vault, row: VaultDocument, job: MainJob, records: Mapping[int, PageRecord]) -> None:
    catalog = await vault.catalog()
    try:
        pages = [await _content(vault, records[number]) for number in sorted(records)]
    except MissingError:  # the merge has just replaced the chunks
        return
    text = [page for page in pages if page]
    early = StillReadingError.code
    if await catalog.set_content(row.team, row.id, row.attempt, text, early=early) is None:
        return
    await catalog.note_conversion(row.team, row.id, row.attempt, known_of(job))
    error = StillReadingError("AI is still reading pages of the document. Its text so far can be used.")
    if await catalog.complete(row.team, row.id, row.attempt, None, error=error.as_dict()):
        await vault.announce(row, DocumentStatus.COMPLETED)
    await _undo_if_late(vault, row)


async def _with_ocr(
    claim: Claim, vault: Vault, records: Mapping[int, PageRecord]
) -> Mapping[int, PageRecord] | None:
    """The records, pictures read by OCR; None if there is nothing to file: too many pictures, or damaged ones."""
    waiting = [one for one in records.values() if is_unread(one)]
    if len(waiting) > _MOST_OCR_PAGES or not vault.parts.readers.ocr:
        return records if any(map(has_text, records.values())) else None
    found, is_complete = dict(records), True
    for one in waiting:
        early = await read_early(claim, vault.parts, one)
        if early is None:
            is_complete = False
        else:
            found[one.number] = early
    return found if is_worth_filing(found.values(), is_complete) else None


def is_worth_filing(records: Collection[PageRecord], is_complete: bool) -> bool:
    """Whether pages make a document usable: some have text, or OCR has read all and the open ones show none.

    Pages that have all ended without text are a document that is about to fail: its end says so.
    """
    if any(map(has_text, records)):
        return True
    return is_complete and not all(one.status.terminal for one in records)


async def _content(vault: Vault, record: PageRecord) -> ContentPage | None:
    if not record.words or not has_text(record):
        return None
    text = b"".join([piece async for piece in page_text(vault.parts.objects, record)])
    return ContentPage(text.decode("utf-8", "replace"), record.number)


async def _undo_if_late(vault: Vault, row: VaultDocument) -> None:
    """Writes the final text again if the conversion ended while the early text was written."""
    job = await vault.conversion(row)
    if job is None or job.status is not JobStatus.COMPLETED or not job.result:
        return
    try:
        pages = await searchable_texts(vault.parts, job.result)
    except MissingError:  # a retry has replaced the result; its end files the text
        return
    await (await vault.catalog()).set_content(row.team, row.id, row.attempt, pages)
