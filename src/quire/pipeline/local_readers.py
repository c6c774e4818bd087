"""Makes the pool of reader processes, and the local reader of a job's document, from settings and the job's options."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from quire.coordination.job_records import Claim
from quire.domain.job import ReadingEffort
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.parts import Parts
from quire.reading.local_reader import LocalLimits, LocalOptions, LocalReader
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_signals import Thresholds
from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.server_process import ServerProcess
from quire.settings import Settings


def reader_processes(settings: Settings) -> int:
    """Returns how many reader processes there may be for quick tasks."""
    return settings.reading.processes or os.cpu_count() or 1


def reader_pool(
    settings: Settings, code: Iterable[Path], *, may_wait: bool, started: ServerProcess | None = None
) -> ChildPool:
    """Returns the pool of a process. `may_wait`: its children may start with the first document.

    Children may import from `code` besides the installation. `started` is a fork server that is there already.
    """
    limits = settings.reading
    pool = ChildPool(
        PoolOptions(
            processes=reader_processes(settings),
            memory_bytes=limits.memory_bytes,
            idle_timeout_s=limits.idle_timeout_s,
            cage=CageOptions.of(settings, code) if limits.cage else None,
        ),
        started,
    )
    if not may_wait or limits.idle_timeout_s == 0:
        pool.warm()  # the readers load while everything else starts
    return pool


def local_reader(claim: Claim, parts: Parts, path: str, password: str | None) -> LocalReader:
    """Returns a reader of the job's document, whose content is at `path`."""
    job, settings = claim.job, parts.settings
    effort = job.options.reading_effort or ReadingEffort(settings.reading.effort)
    ocr = OcrOptions.of(settings.ocr).with_effort(effort)
    if job.options.ocr_languages:
        ocr = replace(ocr, languages=job.options.ocr_languages)
    options = LocalOptions(
        ReadOptions(
            strip_running=settings.reading.strip_running_headers,
            join_hyphens=settings.reading.join_hyphens,
            thresholds=Thresholds(**asdict(settings.page_class)),
            office=office_limits(job, settings.limits),
        ),
        ocr,
        LocalLimits(
            settings.reading.page_timeout_s,
            settings.ocr.page_timeout_s,
            settings.reading.document_budget_s,
            settings.jobs.max_attempts,
        ),
        plain=job.timed_out,
        force_ocr=job.options.force_ocr,
        reads_lines=parts.readers.ocr,
    )
    return LocalReader(parts.pool, options, path, password, mime=job.mime or "")
