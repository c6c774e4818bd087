"""What is known about a document, under the names that Apache Tika has for it."""

from __future__ import annotations

from typing import Any

from quire.domain.job import JobStatus, MainJob
from quire.pipeline.finished_document import FinishedDocument
from quire.pipeline.intake.upload_intake import Accepted


def metadata_of(document: FinishedDocument, *, depth: int = 0, path: str = "") -> dict[str, Any]:
    """Values are texts, as Tika has them; a name with several values has a list."""
    job, info = document.job, document.job.info
    readers = {record.reader or record.model or "" for record in document.records} - {""}
    found: dict[str, Any] = {
        "Content-Type": job.mime or "application/octet-stream",
        "Content-Length": str(job.size),
        "X-TIKA:Parsed-By": ["quire", *(f"quire/{reader}" for reader in sorted(readers))],
        "X-TIKA:embedded_depth": str(depth),
        "quire:job_id": job.id,
    }
    if path:
        found["X-TIKA:embedded_resource_path"] = path
    if job.started_at and job.completed_at:
        found["X-TIKA:parse_time_millis"] = str(round(1000 * (job.completed_at - job.started_at)))
    for name, value in (
        ("resourceName", document.given_name or job.filename),
        ("dc:title", info.get("title")),
        ("dc:creator", info.get("author")),
        ("xmpTPg:NPages", info.get("page_count")),
    ):
        if value:
            found[name] = str(value)
    if info.get("encrypted"):
        found["pdf:encrypted"] = "true"
    failed = [str(record.number) for record in document.records if record.status is JobStatus.FAILED]
    if failed:
        found["quire:failed_pages"] = failed
    return found


def attached_jobs(job: MainJob) -> list[Accepted]:
    """The jobs of the files in a document; those that were not converted have none."""
    ids = [entry["job_id"] for entry in job.info.get("attachments", ()) if entry.get("job_id")]
    return [Accepted(one, JobStatus.QUEUED, deduplicated=True) for one in ids]


def embedded_failure(job: MainJob, depth: int, path: str) -> dict[str, Any]:
    """The entry of a file in a document that could not be read."""
    return {
        "Content-Type": job.mime or "application/octet-stream",
        "resourceName": job.filename,
        "X-TIKA:Parsed-By": ["quire"],
        "X-TIKA:embedded_depth": str(depth),
        "X-TIKA:embedded_resource_path": path,
        "X-TIKA:EXCEPTION:embedded_exception": str((job.error or {}).get("error", "The file was not read.")),
    }
