"""The vault: accepts documents, advances them step by step, retries and deletes them.

The catalog's row is the authority on a document. `advance` reads the row and the jobs and starts the next step; it is
idempotent and may be called by any process at any time. The worker calls it after each step, the sweeper for stale
documents. A process that dies between two writes loses nothing: the row is still `pending`, and the next call
derives the progress from the jobs.

Every write belongs to an *attempt*. A reprocess starts a new attempt; late writes of an older one are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.coordination.job_records import NewJob, attempt_key
from quire.coordination.vault_steps import Steps
from quire.domain.doubtful_pages import doubtful_pages
from quire.domain.job import (
    JobOptions,
    JobStatus,
    JobType,
    MainJob,
    VaultLink,
    conversion_job_id,
)
from quire.domain.payer import Payer
from quire.domain.vault_document import ConversionRecord, DocumentStatus, NewDocument, VaultDocument
from quire.errors import CancelledError, MissingError, QuireError, UnsupportedTypeError
from quire.pipeline.engine import Engine
from quire.pipeline.object_keys import answer_prefix, job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import forget_local_result
from quire.pipeline.upkeep.record_archive import RecordArchive
from quire.pipeline.vault.attached_documents import AttachedDocuments
from quire.pipeline.vault.document_texts import searchable_texts
from quire.pipeline.vault.document_types import known_of
from quire.pipeline.vault.early_text import is_still_reading
from quire.pipeline.vault.embedder import Embedder
from quire.pipeline.vault.lost_documents import LostDocuments
from quire.pipeline.vault.twins import Twins
from quire.reading.files.file_kinds import SNIFF_BYTES, sniff

if TYPE_CHECKING:
    from quire.catalog.catalog import Catalog  # SQLAlchemy takes a while to import

_DELETED_BY_OTHERS_S = 60.0
"""If the deleting process dies, the housekeeper continues after this time."""
_LATE_WRITERS_S = 60.0
"""A worker that holds the document may still write an object; after this time it has been stopped."""

_CLASSIFYING = "The classification has not ended yet. It continues by itself."

OpenCatalog = Callable[[], Awaitable["Catalog"]]


class ClassifyingError(QuireError):
    """A document is usable and its classification still runs."""

    code = "classifying"
    retryable = True


@dataclass(frozen=True, slots=True)
class ReprocessOutcome:
    """`outcome` is `started`, `running` (an attempt is under way) or `skipped` (the type is not supported)."""

    outcome: str
    document: VaultDocument


class Vault:
    """Safe for concurrent calls. Raises CatalogError, ObjectsError or CoordinationError during an outage of a plane."""

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
        self.lost = LostDocuments(self)
        self._attached = AttachedDocuments(self)
        self.background: set[asyncio.Task[Any]] = set()
        """Tasks that outlive their caller; nothing depends on their result."""
        self._open_catalog = open_catalog

    async def catalog(self) -> Catalog:
        """Returns the catalog, opened by the first call."""
        return await self._open_catalog()

    def is_unused(self) -> bool:
        """Whether no catalog exists yet. Opening it would create one and import SQLAlchemy."""
        settings = self.parts.settings
        return not settings.catalog.database_url and not settings.catalog_file.exists()

    async def close(self) -> None:
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)

    async def accept(self, new: NewDocument) -> tuple[VaultDocument, bool]:
        """Stores the document and starts its conversion; returns it and whether this call created it."""
        catalog = await self.catalog()
        document, made = await catalog.create(new)
        if made:
            await self.announce(document, DocumentStatus.PENDING)
        if made or document.attempt == 0:  # the process that created it may have died before the next step
            await self.advance(new.team, new.id)
            document = await catalog.find(new.team, new.id) or document
        return document, made

    # ---- steps --------------------------------------------------------------------------------------

    async def advance(self, team: str, document_id: str) -> bool:
        """Starts the document's next step, or ends its attempt; returns whether anything changed."""
        catalog = await self.catalog()
        row = await catalog.find(team, document_id)
        if row is not None and row.attempt == 0:
            await catalog.begin_processing(team, document_id, seen=0)
            row = await catalog.find(team, document_id)
        if row is None:
            return False
        if row.status is not DocumentStatus.PENDING:
            return await self._advance_finished(catalog, row)
        job = await self.conversion(row)
        if job is None:
            return await self._start_conversion(row)
        settled = await self.twins.resolve(row, job)
        if settled is None or not await self._is_converted(settled, job):
            return False
        return await self._after_conversion(catalog, settled, job)

    async def _is_converted(self, row: VaultDocument, job: MainJob) -> bool:
        """Whether the conversion has nothing left to do for this attempt. Otherwise its end calls `advance` again."""
        if not job.status.terminal:
            return False
        if job.retry_key == attempt_key(row.attempt):
            return True
        return await self.engine.retry(job, job.id, attempt_key(row.attempt)) == "nothing"

    async def find(self, team: str, document_id: str) -> VaultDocument | None:
        """Returns the document with this id or alias; None if there is none."""
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
        """Creates the conversion job from the request in the row; False if it exists."""
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
            vault=VaultLink(row.team, row.id, row.attempt, (await self.catalog()).identity),
            document_timeout_s=jobs.processing_timeout_s,
            page_timeout_s=jobs.timeout_per_page_s,
            payer=Payer.parse(request.get("payer")),
        )
        return await self.parts.jobs.create(new) is None

    async def _after_conversion(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        await self.archive.keep(job.id)
        if job.status is not JobStatus.COMPLETED:
            return await self._end_without_text(catalog, row, job)
        filed = await self._attached.create_all(row, job)
        if filed is None or not await self._file(catalog, filed, job):
            return False  # another attempt has begun
        image = (job.mime or row.content_type).startswith("image/")
        step = await self.steps.get(JobType.CLASSIFY, row.team, row.id, image=image)
        if step is None or step.vault is None or step.vault.attempt < row.attempt:
            link = VaultLink(row.team, row.id, row.attempt)
            return await self.steps.start(JobType.CLASSIFY, link, row.filename, image=image, payer=job.payer)
        if not step.status.terminal:
            return await self._complete_unclassified(catalog, row, step)
        # The step has ended and the document is still pending: the step failed or was cancelled.
        error = step.error or CancelledError("The classification was cancelled.").as_dict()
        done = await catalog.complete(row.team, row.id, row.attempt, None, error=error)
        if done:
            await self.announce(row, DocumentStatus.COMPLETED)
            await self._embed(catalog, row)
        return done

    async def _complete_unclassified(self, catalog: Catalog, row: VaultDocument, step: MainJob) -> bool:
        """Completes a document whose text is read once its classification takes longer than CLASSIFY_WAIT."""
        if self.parts.clock.now() < self._wait_ends(step):
            return False
        error = ClassifyingError(_CLASSIFYING).as_dict()
        done = await catalog.complete(row.team, row.id, row.attempt, None, error=error)
        if done:
            await self.announce(row, DocumentStatus.COMPLETED)
        return done

    async def classification_wait_ends(self, team: str, document_id: str) -> float | None:
        """Returns when a pending document completes without its classification; None if it waits for none."""
        row = await (await self.catalog()).find(team, document_id)
        if row is None or row.status is not DocumentStatus.PENDING:
            return None
        step = await self.steps.get(JobType.CLASSIFY, team, document_id, image=row.is_image)
        current = step is not None and step.vault is not None and step.vault.attempt == row.attempt
        return self._wait_ends(step) if current and step is not None and not step.status.terminal else None

    def _wait_ends(self, step: MainJob) -> float:
        return step.created_at + self.parts.settings.vault.classify_wait_s

    async def _end_without_text(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Ends an attempt whose conversion failed. An unsupported type is no failure: the file is kept."""
        await catalog.note_conversion(row.team, row.id, row.attempt, known_of(job))
        error = job.error or CancelledError("The conversion was cancelled.").as_dict()
        if error.get("code") == UnsupportedTypeError.code:
            done = await catalog.complete(row.team, row.id, row.attempt, None, error=error)
            status = DocumentStatus.COMPLETED
        else:
            done = await catalog.fail(row.team, row.id, row.attempt, error)
            status = DocumentStatus.FAILED
        if done:
            await self.announce(row, status)
        return done

    async def _file(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Writes text and result of the conversion to the catalog; False if another attempt has begun.

        The reference to the text is written last: where it is current, the text is searchable.
        """
        result = job.result or {}
        if row.result_ref == result.get("key"):
            return True
        pages = await searchable_texts(self.parts, result)
        if await catalog.set_content(row.team, row.id, row.attempt, pages) is None:
            return False
        metadata = {**row.metadata, "doubtful_pages": doubtful_pages(result.get("metadata", {}))}
        known = replace(known_of(job), metadata=metadata)
        found = replace(known, result_ref=result.get("key"), pages=job.total_pages)
        return await catalog.note_conversion(row.team, row.id, row.attempt, found, late=True)

    async def _advance_finished(self, catalog: Catalog, row: VaultDocument) -> bool:
        job = await self.conversion(row)
        if job is not None and job.status.terminal and is_still_reading(row):
            return await self._end_early(catalog, row, job)
        if job is not None and job.result and job.status is JobStatus.COMPLETED:
            await self.archive.keep(job.id)
            if row.result_ref != job.result.get("key"):
                return await self._file_new_result(catalog, row, job)
            if (row.error or {}).get("code") == ClassifyingError.code:
                return await self._after_conversion(catalog, row, job)  # the step may not have been started
        return row.status is DocumentStatus.COMPLETED and await self._embed(catalog, row)

    async def _end_early(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Files the end of a conversion whose document was completed with its early text."""
        error = job.error or CancelledError("The conversion was cancelled.").as_dict()
        if job.status is JobStatus.COMPLETED:
            error = ClassifyingError(_CLASSIFYING).as_dict()
        await catalog.complete(row.team, row.id, row.attempt, None, error=error, late=True)
        await self.announce(row, DocumentStatus.COMPLETED)
        return job.status is not JobStatus.COMPLETED or await self._after_conversion(catalog, row, job)

    async def _file_new_result(self, catalog: Catalog, row: VaultDocument, job: MainJob) -> bool:
        """Starts a new attempt for a conversion, or a page of it, that was retried directly."""
        if await catalog.begin_processing(row.team, row.id, seen=row.attempt) is None:
            return False
        fresh = await catalog.find(row.team, row.id)
        if fresh is None:
            return False
        await self.announce(fresh, DocumentStatus.PENDING)
        return await self._after_conversion(catalog, fresh, job)

    async def _embed(self, catalog: Catalog, row: VaultDocument) -> bool:
        """Starts the embed step if a vector is missing. Embedding never changes the document's status."""
        if self.embedder is None:
            return False
        model = self.embedder.model
        most = self.parts.settings.vault.embedding_chunks
        if (
            await catalog.document_to_embed(row.team, row.id, model) is None
            and not await catalog.tags_to_embed(row.team, row.id, model)
            and not (most and await catalog.has_chunks_to_embed(row.team, row.id, model, most))
        ):
            return False
        payer = Payer.parse((row.metadata.get("request") or {}).get("payer"))
        link = VaultLink(row.team, row.id, row.attempt)
        return await self.steps.start(JobType.EMBED, link, row.filename, payer=payer)

    async def announce(self, row: VaultDocument, status: DocumentStatus) -> None:
        await self.steps.publish_change(row.team, row.id, status.value, row.attempt)

    # ---- retry --------------------------------------------------------------------------------------

    async def reprocess(self, team: str, document_id: str, password: str | None = None) -> ReprocessOutcome:
        """Starts a new attempt unless a fresh one is running. Raises MissingError."""
        catalog = await self.catalog()
        row = await self._get(team, document_id)
        document_id = row.id
        stale_after_s = self.parts.settings.vault.stale_after_s
        if not row.may_be_reprocessed(self.parts.clock.now(), stale_after_s):
            return ReprocessOutcome("running", row)
        unreadable = await self._unreadable(row)
        attempt = await catalog.begin_processing(team, document_id, seen=row.attempt)
        if attempt is None:  # another request was first
            return ReprocessOutcome("running", await catalog.get(team, document_id))
        if unreadable is not None:
            error = unreadable.as_dict()
            await catalog.complete(team, document_id, attempt, None, error=error)
            return ReprocessOutcome("skipped", await catalog.get(team, document_id))
        row = await catalog.get(team, document_id)
        # Not before the attempt is ours: a request that is refused must not change the password of the running one.
        sealed = await self._resealed(row, password) if password else None
        if sealed is not None:
            request = {**(row.metadata.get("request") or {}), "sealed": sealed}
            metadata = {**row.metadata, "request": request}
            await catalog.note_conversion(team, document_id, attempt, ConversionRecord(metadata=metadata))
        await self.announce(row, DocumentStatus.PENDING)
        await self.advance(team, document_id)
        return ReprocessOutcome("started", await catalog.get(team, document_id))

    async def retry_step(self, job: MainJob) -> str:
        """Retries the document that a step's job belongs to; returns `started` or `running`. Raises MissingError."""
        if job.vault is None:
            return "nothing"
        if job.type is JobType.CLASSIFY:
            return (await self.reprocess(job.vault.team, job.vault.document_id)).outcome
        if not job.status.terminal:
            return "running"
        # The number only has to grow; the document's own attempt is independent of it.
        later = replace(job.vault, attempt=job.vault.attempt + 1)
        started = await self.steps.start(JobType.EMBED, later, job.filename, payer=job.payer)
        return "started" if started else "running"

    async def _unreadable(self, row: VaultDocument) -> UnsupportedTypeError | None:
        """Returns the error of an unsupported type, if that is why the document has no text."""
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
        """The request's secrets with another password, which the job has from now on."""
        job_id = conversion_job_id(row.team, row.id)
        secrets = self.parts.sealer.unseal(job_id, (row.metadata.get("request") or {}).get("sealed"))
        sealed = self.parts.sealer.seal(job_id, replace(secrets, password=password))
        await self.archive.put_back(job_id)
        await self.steps.reseal(job_id, sealed or "")
        return sealed

    # ---- deleting ------------------------------------------------------------------------------------------

    async def delete(self, team: str, document_id: str) -> None:
        """Removes the document from all planes. Raises MissingError.

        The document is invisible once its row is deleted; if this process dies, the housekeeper deletes the rest.
        """
        catalog = await self.catalog()
        row = await self._get(team, document_id)
        await self.expect_deletion(conversion_job_id(team, row.id))
        if await catalog.delete(team, row.id) is None:
            raise MissingError(f"There is no document {document_id!r}.")
        await self.purge(team, row.id)
        await self.tidy()
        fingerprint = self.content_fingerprint(team, row.content_hash)
        await self.parts.jobs.forget_content(team, fingerprint, row.id)

    async def expect_deletion(self, job_id: str) -> None:
        """Marks a deletion before the row is deleted, so that the housekeeper completes it if this process dies."""
        await self.steps.expire_at(job_id, self.parts.clock.now() + _DELETED_BY_OTHERS_S)
        await self.steps.mark_deleted(job_id)
        await self.steps.mark_untidy()

    async def has_document(self, link: VaultLink) -> bool | None:
        """Whether the document exists; False only if it was deleted, so that its objects may be removed.

        A row that the database has lost is put back. None if the row is in another catalog than this process uses, or
        may be.
        """
        catalog = await self.catalog()
        if await catalog.find(link.team, link.document_id) is not None:
            return True
        job_id = conversion_job_id(link.team, link.document_id)
        if await self.steps.is_deleted(job_id):
            return False
        return True if await self.lost.restore(job_id) else None

    async def purge(self, team: str, document_id: str) -> None:
        """Removes the objects and Redis keys of a document whose row is deleted. Idempotent."""
        job_id = conversion_job_id(team, document_id)
        job = await self.archive.job(job_id)
        if job is not None:
            await self._attached.forget(team, job)
        await self.steps.forget(team, document_id)
        await self.forget_answers(job_id)
        await self.parts.objects.delete_prefix(job_prefix(job_id))
        await forget_local_result(self.parts, job_id)
        await self.steps.remove_events(team, document_id)
        await self.steps.publish_change(team, "", "deleted", 0)
        await self.steps.expire_at(job_id, self.parts.clock.now() + _LATE_WRITERS_S)

    async def forget_answers(self, job_id: str) -> None:
        """Removes a document's cached model answers. Idempotent."""
        answers = await self.parts.jobs.answers.of(job_id)
        for fingerprint in answers:
            await self.parts.objects.delete_prefix(answer_prefix(fingerprint))
        if answers:
            await self.parts.jobs.answers.forget(job_id, answers)

    async def tidy(self) -> None:
        """Removes words of deleted documents from the full-text index, a bounded part; the sweeper does the rest."""
        mark = await self.steps.untidy()
        if mark and not await (await self.catalog()).tidy():
            await self.steps.is_tidy(mark)

    def content_fingerprint(self, team: str, content_hash: str) -> str:
        """Returns the key under which Redis maps the team's bytes to a document."""
        return self.parts.sealer.fingerprint("vault", team, content_hash)
