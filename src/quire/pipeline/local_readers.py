"""Makes the local reader of a job's document from the job's options and the settings."""

from __future__ import annotations

from dataclasses import asdict

from quire.coordination.job_records import Claim
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.parts import Parts
from quire.reading.local_reader import LocalLimits, LocalOptions, LocalReader
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_signals import Thresholds


def local_reader(claim: Claim, parts: Parts, path: str, password: str | None) -> LocalReader:
    """Returns a reader of the job's document, whose content is at `path`."""
    job, settings = claim.job, parts.settings
    options = LocalOptions(
        ReadOptions(
            strip_running=settings.reading.strip_running_headers,
            join_hyphens=settings.reading.join_hyphens,
            thresholds=Thresholds(**asdict(settings.page_class)),
            office=office_limits(job, settings.limits),
        ),
        OcrOptions.of(settings.ocr),
        LocalLimits(
            settings.reading.page_timeout_s,
            settings.ocr.page_timeout_s,
            settings.reading.document_budget_s,
            settings.jobs.max_attempts,
        ),
        plain=job.timed_out,
    )
    return LocalReader(parts.pool, options, path, password, mime=job.mime or "")
