"""Early: reads pages without a text by OCR while AI does not answer, so that the document is usable meanwhile.

Each page is read once. If AI answers, its text replaces the early one; if AI fails, the early one is the page's text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

from quire.coordination.early_pages import OcrRight
from quire.coordination.job_records import Claim
from quire.coordination.parked_units import Counted
from quire.domain.job import JobStatus, PageRecord
from quire.domain.page import PageSource
from quire.errors import PageError
from quire.pipeline.early_text_policy import seconds_until_early_text
from quire.pipeline.parts import Parts
from quire.pipeline.stages.read_stage import PageReader
from quire.reading.pdf.page_reader import MARKUP_READERS

_LOG = logging.getLogger(__name__)
_FILE_AGAIN_S = 0.5
_LISTED_PAGES = 32
"""The pages are listed again after so many; the vault files their text as often."""


async def run_early(claim: Claim, parts: Parts) -> None:
    """Reads the waiting pages of a job, a few at a time; postpones the rest as soon as a model answers."""
    tried: set[int] = set()
    while waiting := [one for one in await _waiting(claim, parts) if one.number not in tried]:
        for some in _groups(waiting[:_LISTED_PAGES], parts.reader_processes):
            wait_s = await seconds_until_early_text(parts, claim.job)
            if wait_s is None:
                await _end(claim, parts)
                return
            if wait_s > 0:
                await _postpone(claim, parts, wait_s)
                return
            is_first = not tried
            tried.update(one.number for one in some)
            await asyncio.gather(*(read_early(claim, parts, one) for one in some))
            if is_first and claim.job.vault is not None:
                await parts.jobs.early.file(claim)
        if claim.job.vault is not None:
            await parts.jobs.early.file(claim)
    await _end(claim, parts)


async def read_early(claim: Claim, parts: Parts, record: PageRecord) -> PageRecord | None:
    """Returns the page with its OCR text, stored; None if it can't be read, has ended, or another unit reads it now."""
    right = await parts.jobs.early.take(claim, record.number)
    if isinstance(right, PageRecord):
        return None if right.status.terminal else right
    if right is not OcrRight.TAKEN:
        return None
    try:
        early = await PageReader(claim, parts).early_text(record)
    except PageError as error:
        _LOG.info("early text not read", extra={"job_id": claim.job.id, "code": error.code})
        await parts.jobs.early.give_back(claim, record.number)
        return None
    return early if await parts.jobs.early.keep(claim, early) else None


async def _waiting(claim: Claim, parts: Parts) -> list[PageRecord]:
    """The pages that wait for AI and have no text."""
    if claim.job.timed_out or claim.job.status is not JobStatus.PROCESSING:
        return []
    records = await parts.jobs.pages(claim.job.id)
    return [records[number] for number in sorted(records) if is_unread(records[number])]


def _groups(records: Sequence[PageRecord], size: int) -> Iterator[Sequence[PageRecord]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]


def is_unread(record: PageRecord) -> bool:
    """Whether a page waits for AI without a text that could be shown, and OCR has not read it yet."""
    is_open = not record.status.terminal and record.source is None
    return is_open and not record.words and record.reader not in MARKUP_READERS


async def _postpone(claim: Claim, parts: Parts, wait_s: float) -> None:
    await parts.jobs.parked.park(claim, parts.clock.now() + wait_s, Counted.WAITING)


async def _end(claim: Claim, parts: Parts) -> None:
    """Drops the unit once the vault, if it follows the job, is sure to file every early text."""
    if claim.job.vault is not None:
        records = (await parts.jobs.pages(claim.job.id)).values()
        has_early = any(one.source is PageSource.OCR and not one.status.terminal for one in records)
        if has_early and not await parts.jobs.early.file(claim):
            await _postpone(claim, parts, _FILE_AGAIN_S)
            return
    claim.outcome_write.begun = True
    await parts.jobs.drop_unit(claim)
