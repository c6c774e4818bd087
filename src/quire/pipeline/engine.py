"""What entry points ask about an accepted document: its state, its result, cancel, retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quire.coordination.job_events import Events, JobEvent
from quire.coordination.job_records import JobState
from quire.domain.element import PageElements
from quire.domain.element_codec import decode
from quire.domain.job import (
    JobId,
    JobStatus,
    JobType,
    MainJob,
    PageRecord,
    UnitKind,
    chunk_places,
    unit_kind,
    unit_page,
)
from quire.domain.output_options import OutputOptions
from quire.domain.page_ranges import PageRanges
from quire.errors import MissingError, NotReadyError, QuireError, StateConflictError
from quire.pipeline.document_elements import DocumentElements
from quire.pipeline.figure_pictures import FigurePictures
from quire.pipeline.file_details import file_details
from quire.pipeline.intake.upload_intake import UploadIntake
from quire.pipeline.markdown_file import MarkdownFile, SaveFigure
from quire.pipeline.object_keys import answer_prefix, elements_ref, job_prefix, local_document
from quire.pipeline.partial_result import PartialResult
from quire.pipeline.parts import Parts
from quire.pipeline.searchable_file import SearchableFile
from quire.pipeline.stages.export_stage import forget_local_result
from quire.pipeline.stages.merge_stage import failure_note, unpack_pages
from quire.pipeline.upkeep.job_journal import delete_finished, write_finished
from quire.pipeline.upkeep.lost_jobs import found_again
from quire.pipeline.upkeep.record_archive import RecordArchive
from quire.pipeline.upkeep.retention import schedule_retention
from quire.reading.pdf.page_render import RenderOptions, render_page

_LARGE = 256 * 1024  # of JSON: parsed in a thread, so that the event loop is not blocked


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of an object that holds Markdown."""

    key: str
    offset: int
    length: int | None


class Engine:
    """`intake` takes documents; the rest is about those that were taken."""

    def __init__(self, parts: Parts, events: Events) -> None:
        self.intake = UploadIntake(parts)
        self._parts = parts
        self._events = events
        self._archive = RecordArchive(parts.jobs, parts.objects)

    @property
    def parts(self) -> Parts:
        return self._parts

    @property
    def events_source(self) -> Events:
        return self._events

    # ---- state -----------------------------------------------------------------------------------------------

    async def job(self, team: str, job_id: str) -> MainJob:
        """The main job of any id of the family. Raises MissingError, also for another team's job."""
        parsed = JobId.parse(job_id)
        job = await self._parts.jobs.get(parsed.main) if parsed else None
        if job is None and parsed and not parsed.type.is_step:
            job = await self._archive.find(parsed.main)
        if job is None and parsed:
            job = await found_again(self._parts, parsed.main)
        if job is None or job.team != team:
            raise MissingError(f"There is no job {job_id[:60]!r}.")
        of_page = parsed is not None and parsed.type is JobType.PAGE
        if parsed and of_page and job.total_pages and not _selected(job, parsed.page or 0):
            raise MissingError(f"Job {parsed.main} has no page {parsed.page}.")
        alone = (JobType.SPLIT, JobType.MERGE, JobType.DOWNLOAD)
        if parsed and parsed.type in alone and parsed.type not in job.children:
            raise MissingError(f"Job {parsed.main} has no {parsed.type.value} job (yet).")
        return job

    async def attachments(self, job: MainJob) -> dict[str, JobState]:
        """The states of the jobs of a mail's attachments, by id; expired jobs are left out."""
        ids = [entry["job_id"] for entry in job.info.get("attachments", ()) if entry.get("job_id")]
        return await self._parts.jobs.states_of(ids)

    async def position(self, job: MainJob) -> int | None:
        """The job's place among all documents that have not ended; None once a worker has started it."""
        return await self._parts.jobs.order.position(job.id) if job.status is JobStatus.QUEUED else None

    async def newest(self, team: str, limit: int, before_s: float | None) -> list[MainJob]:
        return await self._parts.jobs.newest(team, limit, before_s)

    async def pages(self, job: MainJob, first: int = 0, limit: int | None = None) -> list[PageRecord]:
        """Every page of the selection, also those that no worker has started."""
        if not job.total_pages or not job.ranges:
            return []
        stop = job.total_pages if limit is None else min(first + limit, job.total_pages)
        numbers = PageRanges.parse(job.ranges).numbers(first, stop)
        return await self._page_records(job, numbers)

    async def page(self, job: MainJob, number: int) -> PageRecord:
        return (await self._page_records(job, [number]))[0]

    async def wait(self, team: str, job_id: str, timeout_s: float) -> MainJob:
        """Returns the job when it has ended, or its current state after timeout_s."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        parsed = JobId.parse(job_id)
        main = parsed.main if parsed else job_id
        async with self._events.waiter(main, ignores_pages=main == job_id) as waiter:
            while True:
                job = await self.job(team, job_id)
                left = until - loop.time()
                if job.status.terminal or left <= 0:
                    return job
                await waiter.wait(left)

    async def events(self, job: MainJob, last_id: str) -> AsyncIterator[JobEvent | None]:
        """Events after last_id as they come, up to the end of the job; None every few seconds of silence.

        Starts with a snapshot where there is nothing to resume from, or where what came since is gone.
        """
        async with self._events.waiter(job.id) as waiter:
            found, missed = await self._events.after(job.id, last_id)
            if not last_id or missed:
                current, last_id = await self._current(job, found[-1].id if found else "")
                found = []
                yield JobEvent(last_id, "snapshot", _snapshot(current))
                if current.status.terminal:
                    return
            while True:
                for event in found:
                    last_id = event.id
                    yield event
                    if event.type == "status" and JobStatus(event.data["status"]).terminal:
                        return
                if not found:
                    current = await self._parts.jobs.get(job.id) or job
                    if current.status.terminal:
                        found, _ = await self._events.after(job.id, last_id)
                        if found:  # the job ended after the first read: its events are in the stream
                            continue
                        yield JobEvent(last_id, "snapshot", _snapshot(current))
                        return
                    yield None
                await waiter.wait(15.0)
                found, _ = await self._events.after(job.id, last_id)

    async def _current(self, job: MainJob, last_id: str) -> tuple[MainJob, str]:
        """The current job, and its last event if it has ended: that may be newer than last_id."""
        current = await self._parts.jobs.get(job.id) or job
        if not current.status.terminal:
            return current, last_id
        later, _ = await self._events.after(job.id, last_id)
        return current, later[-1].id if later else last_id

    # ---- results ---------------------------------------------------------------------------------------------

    async def result(self, job: MainJob) -> Text:
        """The stored Markdown. Raises NotReadyError while the job runs, StateConflictError if it has none."""
        if job.status is JobStatus.COMPLETED and job.result:
            _check_kept(job)
            return Text(job.result["key"], 0, None)
        raise _no_result(job.id, job.status, job.error)

    async def page_result(self, job: MainJob, number: int) -> tuple[PageRecord, Text | bytes]:
        """A page's Markdown, as soon as that page is done."""
        record = await self.page(job, number)
        if not record.status.terminal:
            raise _no_result(f"{job.id}-p{number}", record.status, None)
        if record.ref is None:
            return record, failure_note(record)
        _check_kept(job)
        return record, Text(record.ref, record.offset, record.length)

    async def partial_result(self, job: MainJob) -> PartialResult:
        """What a running job has read so far. Raises NotReadyError while that is nothing."""
        return PartialResult(job.id, await self.pages(job))

    def partial_text(self, found: PartialResult) -> AsyncIterator[bytes]:
        return found.stream(self._parts.objects)

    async def page_elements(self, job: MainJob, number: int) -> PageElements:
        """A page's elements, as soon as that page is done.

        Raises NotReadyError before that, and MissingError for a page that has none: it failed, or was read by a version
        of Quire that stored no elements.
        """
        record, text = await self.page_result(job, number)
        if isinstance(text, bytes) or not record.elements_length:
            raise MissingError(f"Page {number} has no elements. Convert the document again to get them.")
        start = record.elements_offset
        stream = self._parts.objects.stream(
            elements_ref(text.key), start=start, end=start + record.elements_length
        )
        return decode(b"".join([piece async for piece in stream]))

    async def elements(self, job: MainJob, pages: PageRanges | None = None) -> DocumentElements:
        """The elements of a finished document, of all its pages or those in `pages`. Raises as `result` does."""
        await self.result(job)
        records = await self.pages(job)
        if pages is not None:
            records = [record for record in records if record.number in pages]
        return DocumentElements(self._parts, records)

    def elements_of(self, record: PageRecord) -> DocumentElements:
        """The elements of one page that is done."""
        return DocumentElements(self._parts, [record])

    async def details(
        self, job: MainJob, wanted: Sequence[str], elements: DocumentElements
    ) -> dict[str, Any]:
        """The wanted details of the document's file, for the pages of `elements`. Raises as `file_details`."""
        return await file_details(self._parts, job, wanted, elements.numbers)

    def figures(self, job: MainJob) -> FigurePictures:
        """The figures of a document as pictures."""
        return FigurePictures(self._parts, job)

    def searchable(self, job: MainJob) -> SearchableFile:
        """The document as a searchable PDF."""
        return SearchableFile(self._parts, job)

    def markdown(
        self, job: MainJob, options: OutputOptions, figure_place: str, save: SaveFigure | None = None
    ) -> MarkdownFile:
        """The document as Markdown with options; `figure_place` is the address of a figure, with `{id}` in it."""
        return MarkdownFile(job, options, self.figures(job), figure_place, save)

    def now(self) -> float:
        return self._parts.clock.now()

    def text(self, found: Text) -> AsyncIterator[bytes]:
        end = None if found.length is None else found.offset + found.length
        return self._parts.objects.stream(found.key, start=found.offset, end=end)

    async def original(self, job: MainJob) -> str:
        if job.original_deleted:
            raise _original_gone()
        if not job.content_ref:
            raise NotReadyError("The document has not been fetched yet.")
        return job.content_ref

    async def image(self, job: MainJob, number: int) -> tuple[bytes, str]:
        """The page as a picture, and its media type."""
        if job.original_deleted:
            raise _original_gone()
        if not job.content_ref or not job.total_pages:
            raise NotReadyError("The document has not been opened yet.", retry_after_s=1.0)
        images, limits = self._parts.settings.images, self._parts.settings.limits
        options = RenderOptions.of(images, limits.max_pixels)
        password = self._parts.sealer.unseal(job.id, job.sealed).password
        async with local_document(self._parts.objects, job.content_ref) as path:
            picture = await self._parts.pool.run(
                render_page,
                *(str(path), password, number, options),
                timeout_s=self._parts.settings.reading.page_timeout_s,
            )
        return picture, f"image/{images.format}"

    # ---- cancel and retry ------------------------------------------------------------------------------------

    async def cancel(self, job: MainJob, why: QuireError | None = None) -> JobStatus:
        status = await self._parts.jobs.cancel(job.id, why)
        if status is JobStatus.CANCELLED:
            await write_finished(self._parts, job.id)
        for job_id, attached in (await self.attachments(job)).items():
            found = None if attached.status.terminal else await self._parts.jobs.get(job_id)
            if found is not None:
                await self.cancel(found, why)
        return status or job.status

    async def delete(self, job: MainJob) -> None:
        """Deletes a job that has ended with all its data, and the jobs of its attachments.

        Raises StateConflictError if it runs, or belongs to a document in the vault. If the process dies in between,
        the caller repeats the request; once the record is deleted, the housekeeper deletes the rest.
        """
        if job.vault is not None:
            raise StateConflictError(
                "The job belongs to a document in the vault, which needs it. "
                f"Delete the document: DELETE /documents/{job.vault.document_id}."
            )
        attached = [await self._parts.jobs.get(job_id) for job_id in await self.attachments(job)]
        family = [job, *(one for one in attached if one is not None and one.vault is None)]
        if not all(one.status.terminal for one in family):
            raise StateConflictError("The job is still running. Wait until it ends, or cancel it first.")
        for one in attached:
            if one is not None and one.vault is None:
                await self.delete(one)
        await self._remove(job)

    async def _remove(self, job: MainJob) -> None:
        jobs, objects = self._parts.jobs, self._parts.objects
        fields = await jobs.fields(job.id)
        answers = await jobs.answers.of(job.id)
        outcome = await jobs.remove(job, fields.get("fingerprint", ""))
        if outcome == "running":
            raise StateConflictError("The job is running again. Wait until it ends, or cancel it first.")
        if outcome == "missing":
            raise MissingError(f"Job {job.id} no longer exists.")
        await objects.delete_prefix(job_prefix(job.id))
        for fingerprint in answers:
            await objects.delete_prefix(answer_prefix(fingerprint))
        await jobs.answers.forget(job.id, answers)
        await forget_local_result(self._parts, job.id)
        await self._parts.queues.remove_dead_letters_of([job.id])

    async def retry(self, job: MainJob, job_id: str, key: str = "") -> str:
        """Retries what the id names: `started`, `running`, `repeated` or `nothing` (there is nothing better to get)."""
        parsed = JobId.parse(job_id)
        kind = parsed.type if parsed else JobType.MAIN
        if not job.status.terminal:
            # The caller may have lost the answer to this key. No epoch is -1, so this call can't start anything.
            return (
                await self._parts.jobs.retry(replace(job, epoch=-1), "merge", key=key) if key else "running"
            )
        if job.type.is_step:
            raise StateConflictError("A step of a document is tried again with its document.")
        if job.original_deleted and not self._parts.sealer.unseal(job.id, job.sealed).source_url:
            raise StateConflictError(f"{_original_gone().public} It can't be read again.")
        records = await self._all_records(job)
        if job.vault is not None:
            await self._archive.put_back(job.id)
        await schedule_retention(self._parts, job.id)
        first = "split" if job.content_ref else "download"
        whole = kind in (JobType.SPLIT, JobType.DOWNLOAD) or not job.total_pages or not records
        if whole or job.original_deleted or job.result_deleted:
            return await self._start_again(job, "all", first=first, key=key)
        missing = [n for n in _numbers(job) if n not in records or not records[n].status.terminal]
        if kind is JobType.PAGE and parsed and parsed.page is not None:
            wanted = sorted({parsed.page, *missing})
        elif kind is JobType.MERGE:
            wanted = missing
        else:
            wanted = [n for n in _numbers(job) if n not in records or records[n].could_be_better]
            if not wanted and job.status is JobStatus.COMPLETED:
                return "nothing"
        await self._parts.jobs.restore_pages(job.id, records.values())
        return await self._start_again(job, "pages" if wanted else "merge", wanted, key=key)

    # ---- private ---------------------------------------------------------------------------------------------

    async def _start_again(
        self, job: MainJob, what: str, pages: Iterable[int] = (), *, first: str = "", key: str = ""
    ) -> str:
        """Starts a new epoch, without the journal's entry of the earlier end."""
        await delete_finished(self._parts.objects, job.id)
        started = await self._parts.jobs.retry(job, what, pages, first=first, key=key)
        if started != "started":
            await write_finished(self._parts, job.id)  # it may have ended since
        return started

    async def _page_records(self, job: MainJob, numbers: list[int]) -> list[PageRecord]:
        if job.status is JobStatus.COMPLETED:
            records, in_work = await self._all_records(job), set[int]()
        else:
            records, work = await asyncio.gather(
                self._parts.jobs.pages(job.id, numbers), self._parts.jobs.working(job.id)
            )
            in_work = _pages_in_work(job, [unit for unit, owner in work.items() if owner])
            if any(number not in records for number in numbers):
                # When the job completes they move to an object, and that may have been just now.
                now = await self._parts.jobs.get(job.id)
                if now is not None and now.status is JobStatus.COMPLETED:
                    job, records = now, await self._all_records(now)
        return [_page_state(job, number, records.get(number), number in in_work) for number in numbers]

    async def _all_records(self, job: MainJob) -> dict[int, PageRecord]:
        if job.status is JobStatus.COMPLETED and job.result:
            raw = await self._parts.objects.get(job.result["pages_key"])
            return await asyncio.to_thread(unpack_pages, raw) if len(raw) > _LARGE else unpack_pages(raw)
        return await self._parts.jobs.pages(job.id)


def _numbers(job: MainJob) -> list[int]:
    return PageRanges.parse(job.ranges).numbers(0, job.total_pages)


def _selected(job: MainJob, number: int) -> bool:
    return number in PageRanges.parse(job.ranges)


def _pages_in_work(job: MainJob, units: list[str]) -> set[int]:
    """The pages of units that a worker has in hand."""
    ranges, found = PageRanges.parse(job.ranges), set[int]()
    for unit in units:
        if unit_kind(unit) is UnitKind.PAGE:
            found.add(unit_page(unit))
        elif unit_kind(unit) is UnitKind.READ:
            first, last = chunk_places(unit)
            found.update(ranges.numbers(first, last + 1))
    return found


def _page_state(job: MainJob, number: int, record: PageRecord | None, in_work: bool) -> PageRecord:
    """The page's record; a page without a result is processing, queued, or failed or cancelled with its document."""
    if record is not None and record.status.terminal:
        return record
    status = JobStatus.PROCESSING if in_work else JobStatus.QUEUED
    if job.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        status = job.status
    return replace(record or PageRecord(number=number, status=status), status=status)


def _original_gone() -> MissingError:
    return MissingError("The original was deleted; it is kept only as long as RETAIN_ORIGINALS says.")


def _check_kept(job: MainJob) -> None:
    if job.result_deleted:
        raise MissingError("The result was deleted; it is kept only as long as RETAIN_RESULTS says.")


def _snapshot(job: MainJob) -> dict[str, Any]:
    return {
        "status": job.status.value,
        "progress": job.progress,
        "pages_completed": job.pages_completed,
        "pages_failed": job.pages_failed,
        "total_pages": job.total_pages,
        "error": job.error,
        "bytes_done": job.download_bytes,
        "bytes_total": job.download_total,
    }


def _no_result(what: str, status: JobStatus, error: dict[str, Any] | None) -> StateConflictError:
    if status is JobStatus.FAILED:
        return StateConflictError(f"Job {what} failed: {(error or {}).get('error', 'unknown reason')}")
    if status is JobStatus.CANCELLED:
        return StateConflictError(f"Job {what} was cancelled.")
    return NotReadyError(f"Job {what} is {status.value}; its result is not ready yet.", retry_after_s=1.0)
