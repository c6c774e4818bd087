"""Types of documents as short words."""

from __future__ import annotations

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
