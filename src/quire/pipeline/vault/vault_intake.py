"""Intake of the vault: uploads, files of this machine, links."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from quire.domain.job import conversion_job_id, new_job_id
from quire.domain.vault_document import NewDocument, VaultDocument
from quire.errors import RequestError, StateConflictError
from quire.links import safe_filename
from quire.objects.buckets import in_bucket
from quire.objects.object_store import ObjectWriter
from quire.pipeline.intake.direct_uploads import DirectUploads, is_direct_upload
from quire.pipeline.intake.local_files import LocalFile
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.object_keys import original_key
from quire.pipeline.vault.document_types import short_type
from quire.pipeline.vault.vault import Vault
from quire.reading.files.file_kinds import SNIFF_BYTES, FileKind, sniff

_UPLOAD_KEPT_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class AcceptedDocument:
    """A document that is in the vault. `deduplicated` is True if it existed before this request."""

    document: VaultDocument
    deduplicated: bool


class DocumentUpload:
    """Receives the bytes of a document that does not exist yet, and keeps the first of them to detect its type."""

    def __init__(self, document_id: str, key: str, writer: ObjectWriter) -> None:
        self.document_id = document_id
        self.key = key
        self.writer = writer
        self._head = b""

    async def write(self, data: bytes) -> None:
        if len(self._head) < SNIFF_BYTES:
            self._head += data[: SNIFF_BYTES - len(self._head)]
        await self.writer.write(data)

    @property
    def kind(self) -> FileKind:
        return sniff(self._head)


class VaultIntake:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._parts = vault.parts

    async def begin_upload(self, submission: Submission, place: int = 0) -> DocumentUpload:
        """Returns a writer for one file; `place` is its position in the request. Orphaned bytes expire."""
        document_id = _document_id(submission, place)
        job_id = conversion_job_id(submission.team, document_id)
        await self._parts.jobs.register_objects(job_id, _UPLOAD_KEPT_S)
        key = original_key(job_id, submission.filename)
        return DocumentUpload(document_id, key, self._parts.objects.writer(key))

    async def accept_upload(
        self, submission: Submission, upload: DocumentUpload, source: dict[str, Any] | None = None
    ) -> AcceptedDocument:
        """Adds a complete upload, or returns the document that has these bytes. Raises RequestError if empty."""
        writer, team = upload.writer, submission.team
        if writer.size == 0:
            await self._parts.objects.delete(upload.key)
            raise RequestError("The file is empty.")
        if not submission.force and not submission.idempotency_key:
            twin = await self._vault.twins.find(team, writer.sha256, upload.document_id)
            if twin is not None:
                await self._parts.objects.delete(upload.key)
                twin = await self._vault.twins.retry_failed(twin, submission.secrets.password)
                return AcceptedDocument(twin, deduplicated=True)
        shown = source or {"kind": "upload"}
        new = NewDocument(
            team=team,
            id=upload.document_id,
            filename=_filename(submission),
            content_ref=upload.key,
            content_hash=writer.sha256,
            size_bytes=writer.size,
            kind=short_type(upload.kind.mime),
            content_type=upload.kind.mime,
            source=str(shown.get("url") or "upload"),
            metadata={"request": self._request(submission, upload.document_id, shown)},
        )
        document, made = await self._vault.accept(new)
        if not made and document.content_ref != upload.key:
            await self._parts.objects.delete(upload.key)
            if document.content_hash != writer.sha256:
                raise _other_request()
        return AcceptedDocument(document, deduplicated=not made)

    async def accept_source(self, submission: Submission) -> AcceptedDocument:
        """Adds a link (downloaded later) or a file of this machine (copied now)."""
        url = submission.secrets.source_url or ""
        file = self._vault.engine.intake.local_source(url)
        if file is not None:
            with file:
                return await self._accept_file(submission, file, url)
        parts = urlsplit(url)
        if is_direct_upload(url):
            found = await DirectUploads(self._parts).check(submission.team, url)
            submission = submission if submission.filename else replace(submission, filename=found.filename)
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        kind = "upload" if is_direct_upload(url) else "bucket" if in_bucket(url) else "link"
        source = {"kind": kind, "url": shown if kind == "link" else url}
        document_id = _document_id(submission, 0)
        new = NewDocument(
            team=submission.team,
            id=document_id,
            filename=_filename(submission, unquote(Path(parts.path).name)),
            content_ref="",
            source=source["url"],
            metadata={"request": self._request(submission, document_id, source)},
        )
        document, made = await self._vault.accept(new)
        if not made and document.source != new.source:
            raise _other_request()
        return AcceptedDocument(document, deduplicated=not made)

    async def _accept_file(self, submission: Submission, file: LocalFile, url: str) -> AcceptedDocument:
        upload = await self.begin_upload(submission)
        async with upload.writer:
            async for piece in file.pieces():
                await upload.write(piece)
        named = submission if submission.filename else replace(submission, filename=file.name)
        return await self.accept_upload(named, upload, {"kind": "file", "url": url})

    def _request(self, submission: Submission, document_id: str, source: dict[str, Any]) -> dict[str, Any]:
        """Returns what is needed to start the conversion at any later time; secrets are sealed."""
        job_id = conversion_job_id(submission.team, document_id)
        return {
            "options": submission.options.as_dict(),
            "sealed": self._vault.parts.sealer.seal(job_id, submission.secrets),
            "source": source,
            "callback": bool(submission.secrets.callback_url),
            "payer": submission.payer.as_text() if submission.payer else None,
            "force": submission.force,
            # A request with force, an idempotency key or a callback always gets a document of its own.
            "alone": submission.force
            or bool(submission.idempotency_key)
            or bool(submission.secrets.callback_url),
        }


def _document_id(submission: Submission, place: int) -> str:
    if not submission.idempotency_key:
        return new_job_id()
    named = f"quire:document:{submission.team}:{place}:{submission.idempotency_key}"
    return str(uuid.uuid5(uuid.NAMESPACE_URL, named))


def _filename(submission: Submission, otherwise: str = "") -> str:
    return safe_filename(submission.filename or otherwise or "document")


def _other_request() -> StateConflictError:
    return StateConflictError("This Idempotency-Key was used before with another document.")
