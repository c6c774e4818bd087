"""Reads the details of a document's file (outline, links, hidden text …) in a reader process, for the JSON result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from quire.domain.included_details import DocumentDetail
from quire.domain.job import MainJob
from quire.errors import MissingError
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.object_keys import local_document
from quire.pipeline.parts import Parts
from quire.reading.document_details import OF_OFFICE, document_details

_SECONDS_A_PAGE = 0.5
_PDF = "application/pdf"


async def file_details(
    parts: Parts, job: MainJob, wanted: Sequence[str], pages: Sequence[int]
) -> dict[str, Any]:
    """A list for each of the wanted details of `pages` (from 1); some are empty in documents that are no PDF.

    Raises MissingError if the original was deleted, DocumentError or PageError if it can't be opened or read.
    """
    found: dict[str, Any] = {name: [] for name in wanted}
    if job.mime == _PDF or not OF_OFFICE.isdisjoint(wanted):
        if job.original_deleted or not job.content_ref:
            raise MissingError("The original was deleted; it is kept only as long as RETAIN_ORIGINALS says.")
        password = parts.sealer.unseal(job.id, job.sealed).password
        timeout_s = parts.settings.reading.page_timeout_s + _SECONDS_A_PAGE * len(pages)
        async with local_document(parts.objects, job.content_ref) as path:
            found = json.loads(
                await parts.pool.run(
                    *(document_details, str(path), password, list(wanted), list(pages)),
                    office_limits(job, parts.settings.limits),
                    timeout_s=timeout_s,
                )
            )
    if DocumentDetail.EMBEDDED_FILES in wanted:
        found[DocumentDetail.EMBEDDED_FILES.value] += [
            {
                "name": one.get("filename") or one.get("name"),
                "size": one.get("size"),
                "job_id": one.get("job_id"),
            }
            for one in job.info.get("attachments", ())
        ]
    return found
