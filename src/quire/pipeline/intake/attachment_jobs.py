"""Attachments of a mail: each becomes a document with a job of its own, created once however often the mail is split.

Those of a mail that is in the vault are only extracted here: the vault creates documents of them when it files the mail
(`pipeline/vault/attached_documents.py`).

A mail in a mail is a document like any other, so it has attachments again. How many there may be is an allowance of
the outermost mail: what it does not use itself is shared among the mails in it, so that the whole tree keeps to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from quire.coordination.job_records import Claim, NewJob
from quire.domain.job import (
    JobSecrets,
    MainJob,
    VaultLink,
    attachment_document_id,
    attachment_job_id,
    conversion_job_id,
)
from quire.errors import PageError, QuireError
from quire.links import safe_filename
from quire.objects.object_store import ObjectWriter
from quire.pipeline.object_keys import attached_key, original_key
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.retention import schedule_retention
from quire.reading.files.document_source import AttachedInfo
from quire.reading.office.mail_reader import attached_bytes
from quire.reading.office.zip_container import OfficeLimits
from quire.settings import LimitsSettings

_KEPT_WITHOUT_JOB_S = 6 * 3600.0
_PIECE_BYTES = 8 << 20
_LISTED = 200
"""Of those that are not converted, the record names only the first: it is kept in Redis."""


def office_limits(job: MainJob, limits: LimitsSettings) -> OfficeLimits:
    """What holds for this job's document: a mail inside others may have fewer attachments, or none."""
    allowance = int(job.source.get("allowance", limits.max_attachments))
    depth = int(job.source.get("depth", 0))
    return OfficeLimits(
        limits.max_archive_bytes,
        limits.max_archive_members,
        allowance if depth < limits.max_attachment_depth else 0,
    )


def attached_source(mail: MainJob, allowance: int) -> dict[str, Any]:
    """Where an attachment of this mail comes from, and how far mails in it are followed."""
    depth = int(mail.source.get("depth", 0)) + 1
    return {"kind": "attachment", "parent": mail.id, "depth": depth, "allowance": allowance}


def attached_secrets(parts: Parts, mail: MainJob) -> JobSecrets:
    """The password and the prompt hold for what is inside as well; the callback tells of the mail alone."""
    found = parts.sealer.unseal(mail.id, mail.sealed)
    return JobSecrets(password=found.password, prompt=found.prompt)


@dataclass(frozen=True, slots=True)
class Attachments:
    """Those of one mail that is being split."""

    claim: Claim
    parts: Parts
    path: str
    files: tuple[AttachedInfo, ...]

    async def create(self) -> list[dict[str, Any]]:
        """What the mail's record says of its attachments: name, type, size, and the job where there is one.

        An attachment that can't be taken out is listed without a job; the mail is not harmed by it.
        """
        wanted = [one for one in self.files if one.converted]
        mails = sum(one.is_mail for one in wanted)
        left = office_limits(self.claim.job, self.parts.settings.limits).max_attachments - len(wanted)
        share = left // mails if mails else 0
        found: list[dict[str, Any]] = []
        for place, one in enumerate(self.files):
            if place >= _LISTED and not one.converted:
                continue
            entry: dict[str, Any] = {"name": one.name, "mime": one.mime, "size": one.size, "job_id": None}
            if one.converted:
                try:
                    entry |= await self._keep(place, one, share if one.is_mail else 0)
                except PageError as error:
                    if error.retryable:
                        raise
                    entry["error"] = error.public
            found.append(entry)
        return found

    async def _keep(self, place: int, one: AttachedInfo, allowance: int) -> dict[str, Any]:
        """The fields of the record besides name, type and size."""
        parent = self.claim.job
        if parent.vault is not None:
            return await self._extract_for_vault(place, one, allowance, parent.vault)
        return {"job_id": await self._create(place, one, allowance)}

    async def _extract_for_vault(
        self, place: int, one: AttachedInfo, allowance: int, mail: VaultLink
    ) -> dict[str, Any]:
        """Takes the file out for the vault. If it never asks for it, the bytes go when the mail's job would have."""
        document_id = attachment_document_id(mail.team, mail.document_id, place)
        job_id = conversion_job_id(mail.team, document_id)
        await self.parts.jobs.register_objects(
            job_id, max(_KEPT_WITHOUT_JOB_S, self.parts.jobs.running_ttl_ms / 1000)
        )
        out = await self._take_out(place, one, attached_key(job_id))
        return {
            "job_id": job_id,
            "document_id": document_id,
            "size": out.size,
            "sha256": out.sha256,
            "allowance": allowance,
        }

    async def _take_out(self, place: int, one: AttachedInfo, key: str) -> ObjectWriter:
        async with self.parts.objects.writer(key) as out:
            for start in range(0, one.size, _PIECE_BYTES):
                await out.write(await self._bytes(place, start))
        return out

    async def _create(self, place: int, one: AttachedInfo, allowance: int) -> str:
        parts, parent = self.parts, self.claim.job
        job_id = attachment_job_id(parent.id, place)
        if await parts.jobs.get(job_id) is not None:
            return job_id
        await parts.jobs.register_objects(job_id, _KEPT_WITHOUT_JOB_S)
        key = original_key(job_id, one.name)
        out = await self._take_out(place, one, key)
        new = NewJob(
            id=job_id,
            team=parent.team,
            options=replace(parent.options, pages=None),
            source=attached_source(parent, allowance),
            filename=safe_filename(one.name),
            size=out.size,
            sha256=out.sha256,
            fingerprint=parts.sealer.fingerprint("attachment", parent.id, place),
            content_ref=key,
            sealed=parts.sealer.seal(job_id, attached_secrets(parts, parent)),
            document_timeout_s=parts.settings.jobs.processing_timeout_s,
            page_timeout_s=parts.settings.jobs.timeout_per_page_s,
            payer=parent.payer,
        )
        await schedule_retention(parts, job_id)
        if (
            await parts.jobs.create(new) is not None
        ):  # another worker, which considered this one dead, was first
            await parts.objects.delete(key)
        await schedule_retention(parts, job_id)
        return job_id

    async def _bytes(self, place: int, start: int) -> bytes:
        parts = self.parts
        piece = await parts.pool.run(
            attached_bytes,
            *(self.path, office_limits(self.claim.job, parts.settings.limits), place, start, _PIECE_BYTES),
            timeout_s=parts.settings.reading.page_timeout_s * 3,
        )
        if not piece:
            raise QuireError("The mail has changed while its attachments were taken out.", retryable=True)
        return piece
