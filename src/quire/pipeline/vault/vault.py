"""The vault: documents come in, are taken step by step, tried again, and deleted without a trace.

The catalog's row is the truth about a document. `advance` looks at the row and at the jobs and starts whatever is
next; it may be called at any time, by anybody, any number of times. It is called after each step by whoever ended it,
and by the sweeper for documents that nobody seems to work on. So a process that dies between any two writes loses
nothing: the row still says `pending`, and the next call finds out from the jobs how far it got.

Everything is written for an *attempt*. A reprocess starts a new one; what an older one still brings changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.coordination.job_records import NewJob, attempt_key
from quire.coordination.vault_steps import Steps
from quire.domain.job import (
    JobOptions,
    JobSecrets,
    JobStatus,
    JobType,
    MainJob,
    VaultLink,
    conversion_job_id,
)
from quire.domain.vault_document import ConversionRecord, DocumentStatus, NewDocument, VaultDocument
from quire.errors import CancelledError, MissingError, UnsupportedTypeError
from quire.pipeline.engine import Engine
from quire.pipeline.object_keys import FILE_SCHEME, answer_prefix, job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import forget_local_result
from quire.pipeline.upkeep.record_archive import RecordArchive
from quire.pipeline.vault.attached_documents import AttachedDocuments
from quire.pipeline.vault.document_texts import content_pages
from quire.pipeline.vault.document_types import short_type
from quire.pipeline.vault.embedder import Embedder
from quire.pipeline.vault.twins import Twins
from quire.reading.files.file_kinds import SNIFF_BYTES, sniff

if TYPE_CHECKING:
    from quire.catalog.catalog import Catalog  # SQLAlchemy takes a while to import

_DELETED_BY_OTHERS_S = 60.0
"""If whoever deletes a document dies, somebody else goes on after so long."""
_LATE_WRITERS_S = 60.0
"""Workers that had the document in hand may still write an object; after so long they have been stopped."""

OpenCatalog = Callable[[], Awaitable["Catalog"]]


@dataclass(frozen=True, slots=True)
class ReprocessOutcome:
    """`outcome` is `started`, `running` (an attempt is under way) or `skipped` (nobody can read this type)."""

    outcome: str
    document: VaultDocument


class Vault:
    """Safe for many documents at once. Raises CatalogError, ObjectsError or CoordinationError where a plane is away."""

    def __init__(
        self,
        parts: Parts,
        engine: Engine,
        steps: Steps,
        open_catalog: OpenCatalog,
        embedder: Embedder | None,
    ) -> None:
        self.parts = parts
        self.engine = engine
        self.steps = steps
        self.archive = RecordArchive(parts.jobs, parts.objects)
        self.embedder = embedder
        self.twins = Twins(self)
        self._attached = AttachedDocuments(self)
        self.background: set[asyncio.Task[Any]] = set()
        """Calls that outlive whoever asked for them; nothing depends on them."""
        self._open_catalog = open_catalog

    async def catalog(self) -> Catalog:
        """Opened by the first who needs it."""
        return await self._open_catalog()

    def never_used(self) -> bool:
        """Whether there is no catalog yet; opening it would make one, and load all that it needs."""
        settings = self.parts.settings
        return not settings.catalog.database_url and not settings.catalog_file.exists()

    async def close(self) -> None:
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)

    async def take_in(self, new: NewDocument) -> tuple[VaultDocument, bool]:
        """The document, which is on its way from then on, and whether this call made it."""
        catalog = await self.catalog()
        document, made = await catalog.create(new)
        if made:
            await self.told(document, DocumentStatus.PENDING)
        if made or document.attempt == 0:  # whoever made it may have died before the next step
            await self.advance(new.team, new.id)
            document = await catalog.find(new.team, new.id) or document
        return document, made

    # ---- step by step --------------------------------------------------------------------------------------

    async def advance(self, team: str, document_id: str) -> bool:
        """Takes the document as far as it can go now; whether that started or ended anything."""
        catalog = await self.catalog()
        row = await catalog.find(team, document_id)
        if row is not None and row.attempt == 0:
            await catalog.begin_processing(team, document_id, seen=0)
            row = await catalog.find(team, document_id)
        if row is None:
            return False
        if row.status is not DocumentStatus.PENDING:
            return await self._after_the_end(catalog, row)
        job = await self.conversion(row)
        if job is None:
            return await self._start_conversion(row)
        settled = await self.twins.settle(row, job)
        if settled is None or not await self._is_converted(settled, job):
            return False
        return await self._after_conversion(catalog, settled, job)

    async def _is_converted(self, row: VaultDocument, job: MainJob) -> bool:
        """Whether the conversion has nothing left to do for the attempt. Where it has, its end brings us here again."""
        if not job.status.terminal:
            return False
        if job.retry_key == attempt_key(row.attempt):
            return True
        return await self.engine.retry(job, job.id, attempt_key(row.attempt)) == "nothing"

    async def find(self, team: str, document_id: str) -> VaultDocument | None:
        """The document with this id, also if it is one under which it came in again."""
        catalog = await self.catalog()
        found = await catalog.find(team, document_id)
        return found if found is not None else await catalog.find_by_alias(team, document_id)

    async def _get(self, team: str, document_id: str) -> VaultDocument:
        found = await self.find(team, document_id)
        if found is None:
            raise MissingError(f"There is no document {document_id!r}.")
        return found

    async def conversion(self, row: VaultDocument) -> MainJob | None:
        return await self.archive.job(conversion_job_id(row.team, row.id))

    async def _start_conversion(self, row: VaultDocument) -> bool:
        """Makes the conversion job from what the row knows of the request; False if it is there."""
        request = row.metadata.get("request") or {}
        job_id = conversion_job_id(row.team, row.id)
        jobs = self.parts.settings.jobs
        new = NewJob(
            id=job_id,
            team=row.team,
            options=JobOptions.from_dict(request.get("options") or {}),
            source=dict(request.get("source") or {"kind": "upload"}),
            filename=row.filename,
            size=row.size_bytes,
            sha256=row.content_hash or None,
            fingerprint=self.parts.sealer.fingerprint("vault", row.team, row.id),
            content_ref=row.content_ref or None,
            sealed=request.get("sealed"),
            has_callback=bool(request.get("callback")),
            vault=VaultLink(row.team, row.id, row.attempt),
            document_timeout_s=jobs.processing_timeout_s,
            page_timeout_s=jobs.timeout_per_page_s,
        )
        return await self.parts.jobs.create(new) is None

    async def _after_conversion(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        await self.archive.keep(job.id)
        if job.status is not JobStatus.COMPLETED:
            return await self._without_text(catalog, row, job)
        filed = await self._attached.take_in(row, job)
        if filed is None or not await self._file(catalog, filed, job):
            return False  # another attempt has begun
        step = await self.steps.get(JobType.CLASSIFY, row.team, row.id)
        if step is None or step.vault is None or step.vault.attempt < row.attempt:
            link = VaultLink(row.team, row.id, row.attempt)
            return await self.steps.start(JobType.CLASSIFY, link, row.filename)
        if not step.status.terminal:
            return False
        # It has ended, and the document is still pending: it failed, or somebody stopped it.
        error = step.error or CancelledError("The classification was cancelled.").as_dict()
        done = await catalog.complete(row.team, row.id, row.attempt, None, error=error)
        if done:
            await self.told(row, DocumentStatus.COMPLETED)
            await self._embed(catalog, row)
        return done

    async def _without_text(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """There is nothing to classify. A type that nobody can read is no failure: the file is kept as it is."""
        await catalog.note_conversion(row.team, row.id, row.attempt, _known_of(job))
        error = job.error or CancelledError("The conversion was cancelled.").as_dict()
        if error.get("code") == UnsupportedTypeError.code:
            done = await catalog.complete(row.team, row.id, row.attempt, None, error=error)
            status = DocumentStatus.COMPLETED
        else:
            done = await catalog.fail(row.team, row.id, row.attempt, error)
            status = DocumentStatus.FAILED
        if done:
            await self.told(row, status)
        return done

    async def _file(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Puts what reading brought into the catalog; False if the attempt is no longer the current one.

        The reference to the text is written after the text: where it is right, search knows the words.
        """
        result = job.result or {}
        if row.result_ref == result.get("key"):
            return True
        pages = await content_pages(self.parts.objects, result)
        if await catalog.set_content(row.team, row.id, row.attempt, pages) is None:
            return False
        found = replace(_known_of(job), result_ref=result.get("key"), pages=job.total_pages)
        return await catalog.note_conversion(row.team, row.id, row.attempt, found)

    async def _after_the_end(self, catalog: Catalog, row: VaultDocument) -> bool:
        job = await self.conversion(row)
        if job is not None and job.result and job.status is JobStatus.COMPLETED:
            await self.archive.keep(job.id)
            if row.result_ref != job.result.get("key"):
                return await self._read_again(catalog, row, job)
        return row.status is DocumentStatus.COMPLETED and await self._embed(catalog, row)

    async def _read_again(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Somebody retried the conversion, or a page of it: the new text is filed and classified, as a new attempt."""
        if await catalog.begin_processing(row.team, row.id, seen=row.attempt) is None:
            return False
        fresh = await catalog.find(row.team, row.id)
        if fresh is None:
            return False
        await self.told(fresh, DocumentStatus.PENDING)
        return await self._after_conversion(catalog, fresh, job)

    async def _embed(self, catalog: Catalog, row: VaultDocument) -> bool:
        """Starts the embedding, where something has no vector yet. Nothing of it changes the document's status."""
        if self.embedder is None:
            return False
        model = self.embedder.model
        words = await catalog.document_to_embed(row.team, row.id, model)
        if words is None and not await catalog.tags_to_embed(row.team, row.id, model):
            return False
        return await self.steps.start(JobType.EMBED, VaultLink(row.team, row.id, row.attempt), row.filename)

    async def told(self, row: VaultDocument, status: DocumentStatus) -> None:
        await self.steps.tell(row.team, row.id, status.value, row.attempt)

    # ---- trying again --------------------------------------------------------------------------------------

    async def reprocess(self, team: str, document_id: str, password: str | None = None) -> ReprocessOutcome:
        """Starts a new attempt, unless a fresh one is under way. Raises NotFoundError."""
        catalog = await self.catalog()
        row = await self._get(team, document_id)
        document_id = row.id
        stale_after_s = self.parts.settings.vault.stale_after_s
        if not row.may_be_reprocessed(self.parts.clock.now(), stale_after_s):
            return ReprocessOutcome("running", row)
        unreadable = await self._unreadable(row)
        sealed = await self._resealed(row, password) if password else None
        attempt = await catalog.begin_processing(team, document_id, seen=row.attempt)
        if attempt is None:  # somebody else was first
            return ReprocessOutcome("running", await catalog.get(team, document_id))
        if unreadable is not None:
            error = unreadable.as_dict()
            await catalog.complete(team, document_id, attempt, None, error=error)
            return ReprocessOutcome("skipped", await catalog.get(team, document_id))
        row = await catalog.get(team, document_id)
        if sealed is not None:
            request = {**(row.metadata.get("request") or {}), "sealed": sealed}
            metadata = {**row.metadata, "request": request}
            await catalog.note_conversion(team, document_id, attempt, ConversionRecord(metadata=metadata))
        await self.told(row, DocumentStatus.PENDING)
        await self.advance(team, document_id)
        return ReprocessOutcome("started", await catalog.get(team, document_id))

    async def retry_step(self, job: MainJob) -> str:
        """A retry of a step's job is one of its document: `started` or `running`. Raises NotFoundError."""
        if job.vault is None:
            return "nothing"
        if job.type is JobType.CLASSIFY:
            return (await self.reprocess(job.vault.team, job.vault.document_id)).outcome
        if not job.status.terminal:
            return "running"
        # Attempts at embedding only have to grow; the document's own goes on from wherever it is.
        later = replace(job.vault, attempt=job.vault.attempt + 1)
        started = await self.steps.start(JobType.EMBED, later, job.filename)
        return "started" if started else "running"

    async def _unreadable(self, row: VaultDocument) -> UnsupportedTypeError | None:
        """Why reading this file again is of no use: it is of a type that nobody can read."""
        if not row.content_ref or (row.error or {}).get("code") != UnsupportedTypeError.code:
            return None
        head = b""
        try:
            async for piece in self.parts.objects.stream(row.content_ref, end=SNIFF_BYTES):
                head += piece
        except MissingError:
            return None
        kind = sniff(head)
        if kind.supported:
            return None
        return UnsupportedTypeError(
            f"This is a file of type {kind.mime} ({kind.label}), which Quire can't read."
        )

    async def _resealed(self, row: VaultDocument, password: str) -> str | None:
        """The request's secrets with another password. The job has it before the attempt begins that needs it."""
        job_id = conversion_job_id(row.team, row.id)
        secrets = self.parts.sealer.unseal(job_id, (row.metadata.get("request") or {}).get("sealed"))
        sealed = self.parts.sealer.seal(job_id, replace(secrets, password=password))
        await self.archive.put_back(job_id)
        await self.steps.reseal(job_id, sealed or "")
        return sealed

    # ---- deleting ------------------------------------------------------------------------------------------

    async def delete(self, team: str, document_id: str) -> None:
        """Removes the document from all planes. Raises NotFoundError.

        From the moment the row is gone nobody sees it; if this process dies then, the housekeeper does the rest.
        """
        catalog = await self.catalog()
        row = await self._get(team, document_id)
        await self.expect_deletion(conversion_job_id(team, row.id))
        if await catalog.delete(team, row.id) is None:
            raise MissingError(f"There is no document {document_id!r}.")
        await self.purge(team, row.id)
        await self.tidy()
        fingerprint = self.content_fingerprint(team, row.content_hash)
        await self.parts.jobs.forget_answer_for(team, fingerprint, row.id)

    async def expect_deletion(self, job_id: str) -> None:
        """To be called before a row goes: from then on somebody else removes the rest if this process dies."""
        await self.steps.expire_at(job_id, self.parts.clock.now() + _DELETED_BY_OTHERS_S)
        await self.steps.mark_deleted(job_id)
        await self.steps.mark_untidy()

    async def holds(self, link: VaultLink) -> bool | None:
        """Whether the document is there; False only where it was deleted, so that its objects may go.

        None where nobody knows: this process may look into another catalog than the one that has the row.
        """
        catalog = await self.catalog()
        if await catalog.find(link.team, link.document_id) is not None:
            return True
        deleted = await self.steps.is_deleted(conversion_job_id(link.team, link.document_id))
        return False if deleted else None

    async def purge(self, team: str, document_id: str) -> None:
        """Removes what objects and Redis have of a document whose row is gone. May be repeated."""
        job_id = conversion_job_id(team, document_id)
        job = await self.archive.job(job_id)
        if job is not None:
            await self._attached.forget(team, job)
        await self.steps.forget(team, document_id)
        await self.forget_answers(job_id)
        await self.parts.objects.delete_prefix(job_prefix(job_id))
        await forget_local_result(self.parts, job_id)
        await self.steps.forget_news(team, document_id)
        await self.steps.tell(team, "", "deleted", 0)
        await self.steps.expire_at(job_id, self.parts.clock.now() + _LATE_WRITERS_S)

    async def forget_answers(self, job_id: str) -> None:
        """Removes the answers of models that were kept for a document. May be repeated."""
        answers = await self.steps.answers_of(job_id)
        for fingerprint in answers:
            await self.parts.objects.delete_prefix(answer_prefix(fingerprint))
        if answers:
            await self.steps.forget_answers(job_id, answers)

    async def tidy(self) -> None:
        """Takes words of deleted documents out of the full text, a bounded part of them; the sweeper does the rest."""
        mark = await self.steps.untidy()
        if mark and not await (await self.catalog()).tidy():
            await self.steps.is_tidy(mark)

    def content_fingerprint(self, team: str, content_hash: str) -> str:
        """Under this name Redis knows which document of the team has these bytes."""
        return self.parts.sealer.fingerprint("vault", team, content_hash)

    def seal(self, job_id: str, secrets: JobSecrets) -> str | None:
        return self.parts.sealer.seal(job_id, secrets)


def _known_of(job: MainJob) -> ConversionRecord:
    """What the job knows of the original: a link's only after it was fetched."""
    ref = job.content_ref
    return ConversionRecord(
        job_id=job.id,
        content_type=job.mime,
        kind=short_type(job.mime) if job.mime else None,
        content_ref=ref if ref and not ref.startswith(FILE_SCHEME) else None,
    )
