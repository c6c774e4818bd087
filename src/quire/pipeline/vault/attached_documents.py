"""Attachments of a mail in the vault: each becomes a document of the vault.

The split stage stores their bytes (`pipeline/intake/attachment_jobs.py`). Their documents are created when the mail
is filed, with ids derived from the mail's id. The mail's row lists them once all exist; after that, an attachment
that a user deletes stays deleted. An attachment whose bytes the team already has is that existing document.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quire.domain.job import MainJob, conversion_job_id
from quire.domain.vault_document import ConversionRecord, NewDocument, VaultDocument
from quire.links import safe_filename
from quire.pipeline.intake.attachment_jobs import attached_secrets, attached_source
from quire.pipeline.object_keys import attached_key, job_prefix
from quire.pipeline.vault.document_types import short_type

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault

_LOG = logging.getLogger(__name__)


class AttachedDocuments:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def create_all(self, mail: VaultDocument, job: MainJob) -> VaultDocument | None:
        """Returns the mail's row, which lists the attached documents. None if another attempt has begun."""
        entries = _stored_attachments(job)
        if not entries:
            return mail
        if "attachments" in mail.metadata:
            if mail.result_ref != (job.result or {}).get("key"):  # it was split again
                await self.forget(mail.team, job)
            return mail
        found = []
        for entry in entries:
            document_id = await self._document(mail, job, entry)
            if document_id is not None:
                found.append({"filename": safe_filename(str(entry["name"])), "document_id": document_id})
        catalog = await self._vault.catalog()
        known = ConversionRecord(metadata={**mail.metadata, "attachments": found})
        noted = await catalog.note_conversion(mail.team, mail.id, mail.attempt, known)
        return await catalog.find(mail.team, mail.id) if noted else None

    async def forget(self, team: str, job: MainJob) -> None:
        """Removes the stored bytes of attachments that never became documents."""
        catalog = await self._vault.catalog()
        for entry in _stored_attachments(job):
            if await catalog.find(team, str(entry["document_id"])) is None:
                await self._vault.parts.objects.delete_prefix(job_prefix(str(entry["job_id"])))

    async def _document(self, mail: VaultDocument, job: MainJob, entry: Mapping[str, Any]) -> str | None:
        """Returns the id of the attachment's document. None if its bytes were deleted before this call."""
        document_id, content_hash = str(entry["document_id"]), str(entry["sha256"])
        job_id = conversion_job_id(mail.team, document_id)
        key = attached_key(job_id)
        parts = self._vault.parts
        request = mail.metadata.get("request") or {}
        if not request.get("force"):
            twin = await self._vault.twins.find(mail.team, content_hash, document_id)
            if twin is not None and twin.id != document_id:
                await parts.objects.delete(key)
                return twin.id
        if await parts.objects.size(key) is None:
            _LOG.warning("attachment deleted before it was filed", extra={"document_id": document_id})
            return None
        new = NewDocument(
            team=mail.team,
            id=document_id,
            filename=safe_filename(str(entry["name"])),
            content_ref=key,
            content_hash=content_hash,
            size_bytes=int(entry["size"]),
            kind=short_type(str(entry["mime"])),
            content_type=str(entry["mime"]),
            source="attachment",
            metadata={
                "parent": mail.id,
                "request": {
                    "options": replace(job.options, pages=None).as_dict(),
                    "sealed": parts.sealer.seal(job_id, attached_secrets(parts, job)),
                    "source": attached_source(job, int(entry["allowance"])),
                    "force": bool(request.get("force")),
                    "payer": job.payer.as_text() if job.payer else None,
                },
            },
        )
        await self._vault.accept(new)
        return document_id


def _stored_attachments(job: MainJob) -> list[Mapping[str, Any]]:
    return [entry for entry in job.info.get("attachments", ()) if entry.get("document_id")]
