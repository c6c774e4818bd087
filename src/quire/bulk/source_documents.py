"""Documents of a bulk run's source as local files, one at a time, in the version that their rows were read from."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from quire.bulk.page_rows import PageRow
from quire.domain.page import Grade, PageClass
from quire.errors import StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread
from quire.pipeline.page_vision import VisionSource, is_trusted


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SourceDocuments:
    """`spool` is a folder for copies that reader processes may read."""

    location: BulkLocation
    spool: Path
    password: str | None = None

    @asynccontextmanager
    async def fetched(self, row: PageRow) -> AsyncIterator[FetchedDocument]:
        """Raises MissingError and StateConflictError where the version of the row is no longer there."""
        handle = tempfile.NamedTemporaryFile(dir=self.spool, prefix="ai-", delete=False)  # noqa: SIM115
        handle.close()
        copy = Path(handle.name)
        try:
            path = await self.location.fetch(row.key, row.etag, copy)
            sha256 = await in_thread(_sha256, path)
            if not await self.location.is_unchanged(row.key, row.etag):
                raise StateConflictError(f"{row.key} changed while it was read.")
            yield FetchedDocument(str(path), sha256)
        finally:
            await in_thread(copy.unlink, missing_ok=True)

    def page(self, document: FetchedDocument, row: PageRow) -> VisionSource:
        """Returns the page of a row in its document."""
        page_class = PageClass(row.page_class) if row.page_class else None
        trusted = is_trusted(page_class, Grade(row.grade) if row.grade else None)
        return VisionSource(document.path, self.password, row.page, trusted)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
