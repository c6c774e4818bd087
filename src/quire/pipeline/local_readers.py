"""Makes the local reader of a job's document from the job's options and the settings."""

from __future__ import annotations

from dataclasses import asdict, replace

from quire.coordination.job_records import Claim
from quire.domain.job import ReadingEffort
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.parts import Parts
from quire.reading.local_reader import LocalLimits, LocalOptions, LocalReader
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_signals import Thresholds


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
    )
    return LocalReader(parts.pool, options, path, password, mime=job.mime or "")
