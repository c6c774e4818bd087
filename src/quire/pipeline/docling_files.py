"""The results of a batch as the files that docling-serve writes, and their delivery to a target."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from quire.domain.batch_target import BatchTarget, BucketTarget
from quire.domain.document_batch import BatchItem
from quire.domain.job import JobStatus, MainJob
from quire.errors import DownloadError, MissingError
from quire.links import put_file, unique_name
from quire.objects.object_store import in_thread
from quire.objects.signed_puts import signed_put
from quire.pipeline.docling_file import docling_document
from quire.pipeline.document_batches import GONE
from quire.pipeline.document_formats import compact_json
from quire.pipeline.engine import Engine
from quire.pipeline.finished_document import FinishedDocument
from quire.pipeline.open_streams import closing, single_piece
from quire.pipeline.stages.download_stage import link_policy
from quire.pipeline.zip_stream import ZipEntry, ZipStream

ARCHIVE = "converted_docs.zip"
FAILURES = "failures.json"
_ENDINGS = {"md": "md", "json": "json", "html": "html", "html_split_page": "html", "text": "txt"}
_TYPES = {"md": "text/markdown", "json": "application/json", "html": "text/html", "txt": "text/plain"}
_IN_MEMORY_BYTES = 8 << 20
_ATTEMPTS = 3
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class DoclingFiles:
    """The documents of a batch in some formats. `between` is what is between two pages of Markdown."""

    engine: Engine
    items: Sequence[BatchItem]
    jobs: Mapping[str, MainJob]
    formats: Sequence[str]
    between: str

    def archive(self) -> AsyncIterator[bytes]:
        """A zip with a file for each document and format. Documents without a result are in `failures.json`."""
        return ZipStream(self.engine.now()).stream(self._members())

    async def deliver(self, target: BatchTarget) -> None:
        """Raises LinkRefusedError, ObjectsError, or DownloadError if the target did not take the files."""
        if isinstance(target, BucketTarget):
            async for name, entry in self._files():
                await self._put_object(target, name, entry)
            return
        policy = link_policy(self.engine.parts)
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spooled:
            file = await _written(spooled, self.archive())
            await put_file(target.url, file, "application/zip", policy, form_name=ARCHIVE)

    async def deliver_soon(self, target: BatchTarget) -> None:
        """`deliver` with some attempts, for a caller that waits."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self.deliver(target)
            except DownloadError as error:
                if not error.retryable or attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(attempt * _RETRY_S)
            else:
                return

    async def document_of(self, item: BatchItem) -> FinishedDocument | str:
        """The document of an item, or why it has no result."""
        job = self.jobs.get(item.job_id or "")
        if job is None:
            return str((item.error or {}).get("error", GONE))
        if job.status is not JobStatus.COMPLETED:
            return str((job.error or {}).get("error", "It was cancelled."))
        try:
            return await FinishedDocument.of(self.engine, job, item.name)
        except MissingError as error:
            return error.public

    async def _files(self) -> AsyncIterator[tuple[str, ZipEntry]]:
        """The files with the id of their job, which is their folder in a bucket."""
        for item in self.items:
            document = await self.document_of(item)
            if isinstance(document, FinishedDocument):
                names: set[str] = set()
                for entry in self._entries(document, names):
                    yield document.job.id, entry

    async def _members(self) -> AsyncIterator[ZipEntry]:
        failures: list[dict[str, Any]] = []
        names = {FAILURES}
        for item in self.items:
            document = await self.document_of(item)
            if isinstance(document, FinishedDocument):
                for entry in self._entries(document, names):
                    yield entry
            else:
                failures.append({"filename": item.name, "error": document})
        if failures:
            yield ZipEntry(FAILURES, single_piece(compact_json(failures).encode("utf-8", "replace")))

    def _entries(self, document: FinishedDocument, names: set[str]) -> list[ZipEntry]:
        return [
            ZipEntry(unique_name(f"{document.stem}.{_ENDINGS[one]}", names), self._bytes(document, one))
            for one in self.formats
            if one in _ENDINGS
        ]

    async def _bytes(self, document: FinishedDocument, format: str) -> AsyncIterator[bytes]:
        if format == "json":
            async for raw in docling_document(document.job, document.elements):
                yield raw
            return
        texts = {"md": lambda: document.markdown(self.between), "text": document.text}
        async for piece in texts.get(format, document.html)():
            yield piece.encode("utf-8", "replace")

    async def _put_object(self, target: BucketTarget, folder: str, entry: ZipEntry) -> None:
        url = await signed_put(
            target.endpoint,
            target.bucket,
            f"{target.key_prefix}{folder}/{entry.name}",
            region=target.region,
            access_key=target.access_key,
            secret_key=target.secret_key,
        )
        media_type = _TYPES[entry.name.rpartition(".")[2]]
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spooled:
            file = await _written(spooled, entry.body)
            # Not by a client of the object store, which would resolve the caller's host by itself.
            await put_file(url, file, media_type, link_policy(self.engine.parts))


async def _written(file: Any, pieces: AsyncIterator[bytes]) -> BinaryIO:
    async with closing(pieces):
        async for piece in pieces:
            await in_thread(file.write, piece)
    return cast(BinaryIO, file)
