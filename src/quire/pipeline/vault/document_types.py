"""Types of documents as short words."""

from __future__ import annotations

from quire.domain.job import MainJob
from quire.domain.vault_document import ConversionRecord
from quire.pipeline.object_keys import FILE_SCHEME

_SHORT_TYPES = {
    "text/plain": "text",
    "text/markdown": "md",
    "message/rfc822": "eml",
    "application/vnd.ms-outlook": "msg",
    "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/octet-stream": "binary",
    "image/svg+xml": "svg",
}


def short_type(mime: str) -> str:
    """`pdf` for `application/pdf`, and so on."""
    known = _SHORT_TYPES.get(mime)
    return known or mime.rpartition("/")[2].removeprefix("x-").removeprefix("vnd.")[:32]


def known_of(job: MainJob) -> ConversionRecord:
    """Returns what the job knows of the original; a link's is known after its download."""
    ref = job.content_ref
    return ConversionRecord(
        job_id=job.id,
        content_type=job.mime,
        kind=short_type(job.mime) if job.mime else None,
        content_ref=ref if ref and not ref.startswith(FILE_SCHEME) else None,
    )
