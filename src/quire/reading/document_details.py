"""Reads what a file has beside its text, whatever its format. Runs in the child pool."""

from __future__ import annotations

import json
from collections.abc import Sequence

from quire.domain.included_details import DocumentDetail
from quire.reading.files.document_source import open_documents
from quire.reading.office.office_details import office_details
from quire.reading.office.office_source import OfficeSource
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.pdf_details import pdf_details

OF_OFFICE = frozenset({DocumentDetail.CHANGES, DocumentDetail.HIDDEN_TEXT})
"""Details that office files have; other formats but PDF have none."""


def document_details(
    path: str, password: str | None, wanted: Sequence[str], pages: Sequence[int], limits: OfficeLimits
) -> str:
    """As `pdf_details`, of any document. Raises what `inspect` raises for one that can't be opened."""
    source = open_documents().get(path, password, limits)
    if isinstance(source, OfficeSource):
        return json.dumps(office_details(source, wanted, pages))
    return pdf_details(path, password, wanted, pages)
