"""Writes finished documents as docling-serve answers them: one as JSON, several as a zip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response

from quire.api.doors.docling_options import DoclingOptions
from quire.api.doors.door_answers import LongText, LongValue, json_stream
from quire.api.doors.door_intake import check_completed
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, started
from quire.api.http.services import Services
from quire.domain.document_batch import BatchItem
from quire.domain.job import JobStatus, MainJob, PageRecord
from quire.domain.page import Grade, PageSource
from quire.errors import MissingError
from quire.pipeline.docling_file import docling_document
from quire.pipeline.docling_files import ARCHIVE, DoclingFiles
from quire.pipeline.document_batches import GONE
from quire.pipeline.finished_document import FinishedDocument

_GRADES = {Grade.GOOD: "good", Grade.FAIR: "fair", Grade.LOW: "poor"}
_ORDER = ("poor", "fair", "good")


async def converted_answer(
    services: Services, items: list[BatchItem], jobs: Mapping[str, MainJob], options: DoclingOptions
) -> Response:
    """One document as JSON, several (or `target=zip`) as a zip. Raises as `only_document` if there is one."""
    if len(items) == 1 and not options.as_zip:
        document = await only_document(services, items[0], jobs)
        return await json_stream(document_response(document, options))
    body = await started(files_of(services, items, jobs, options).archive())
    headers = {"Content-Disposition": disposition("attachment", ARCHIVE), **NO_SNIFF}
    return ClosingStream(body, media_type="application/zip", headers=headers)


def files_of(
    services: Services, items: Sequence[BatchItem], jobs: Mapping[str, MainJob], options: DoclingOptions
) -> DoclingFiles:
    return DoclingFiles(services.runtime.engine, items, jobs, options.formats, options.between)


async def only_document(services: Services, item: BatchItem, jobs: Mapping[str, MainJob]) -> FinishedDocument:
    """The document of a request with one. Raises FailedDocumentError if it failed, MissingError if it was deleted."""
    job = jobs.get(item.job_id or "")
    if job is None:
        raise MissingError(GONE)
    check_completed(job)
    return await FinishedDocument.of(services.runtime.engine, job, item.name)


def document_response(document: FinishedDocument, options: DoclingOptions) -> dict[str, Any]:
    """The answer about one document, with its long texts still to be read."""
    job = document.job
    failed = [record for record in document.records if record.status is JobStatus.FAILED]
    took = (job.completed_at or 0) - job.started_at if job.started_at else 0.0
    return {
        "document": {"filename": document.name, **_contents(document, options)},
        "status": "partial_success" if failed else "success",
        "errors": [
            {
                "component_type": "document_backend",
                "module_name": "quire",
                "error_message": str((record.error or {}).get("error", "The page could not be read.")),
                "page_no": record.number,
            }
            for record in failed
        ],
        "processing_time": round(max(0.0, took), 3),
        "timings": {},
        "confidence": confidence_of(document.records),
        "quire": {"job_id": job.id},
    }


def _contents(document: FinishedDocument, options: DoclingOptions) -> dict[str, Any]:
    """The formats that were asked for; the others are null, as are `doctags`, which Quire does not write."""
    wanted = options.formats
    html = {"html", "html_split_page"} & set(wanted)
    elements = docling_document(document.job, document.elements) if "json" in wanted else None
    return {
        "md_content": LongText(document.markdown(options.between)) if "md" in wanted else None,
        "json_content": LongValue(elements) if elements is not None else None,
        "html_content": LongText(document.html()) if html else None,
        "text_content": LongText(document.text()) if "text" in wanted else None,
        "doctags_content": None,
    }


def confidence_of(records: list[PageRecord]) -> dict[str, Any]:
    """Quire's own confidence under the names of docling; what is not measured is null."""
    sure = [record.confidence for record in records if record.confidence is not None]
    ocr = [
        record.confidence
        for record in records
        if record.confidence is not None and record.source is PageSource.OCR
    ]
    grades = [_GRADES[record.grade] for record in records if record.grade is not None]
    return {
        "parse_score": None,
        "layout_score": None,
        "table_score": None,
        "ocr_score": _mean(ocr),
        "mean_score": _mean(sure),
        "low_score": min(sure, default=None),
        "mean_grade": sorted(grades, key=_ORDER.index)[len(grades) // 2] if grades else "unspecified",
        "low_grade": min(grades, key=_ORDER.index, default="unspecified"),
    }


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
