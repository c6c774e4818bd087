"""Receives the documents of a door's request, creates their jobs, and waits until the jobs have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace

from fastapi import Request
from python_multipart.multipart import parse_options_header

from quire.api.doors.door_answers import FailedDocumentError
from quire.api.http.caller_wait import while_connected
from quire.api.http.error_responses import MediaTypeError, WaitTimeoutError
from quire.api.http.request_bodies import (
    FieldRead,
    FileEnds,
    FilePiece,
    FileStarts,
    media_type,
    pieces,
    read_form,
)
from quire.api.http.services import Services
from quire.api.jobs.upload_receiver import CheckedWriter
from quire.domain.job import JobOptions, JobSecrets, JobStatus, MainJob
from quire.errors import (
    CancelledError,
    OverloadedError,
    PageError,
    RequestError,
    TooLargeError,
    UnsupportedTypeError,
)
from quire.pipeline.intake.upload_intake import Accepted, Submission, Upload

MOST_FILES = 100
_LARGEST_FIELDS = 1 << 20


@dataclass(slots=True)
class ArrivedFile:
    """A file of the request. It is stored, unless `refused` says why not."""

    filename: str
    upload: Upload
    refused: RequestError | PageError | None = None
    taken: bool = False
    """Whether the intake has the bytes now, which are a job's from then on."""


@dataclass(slots=True)
class DoorForm:
    """A form: its files, and its fields, each of which may be repeated."""

    files: list[ArrivedFile] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """The last value of a field, empty if it is not given."""
        return self.fields.get(name, [""])[-1]


class DoorIntake:
    """The documents of one request. Bytes of a request that fails are deleted."""

    def __init__(self, request: Request, services: Services, team: str, *, archives: bool = False) -> None:
        self._request = request
        self._archives = archives
        self._engine = services.runtime.engine
        self._objects = services.runtime.parts.objects
        self._wait_s = services.runtime.settings.doors.wait_s
        self._max_bytes = services.runtime.settings.limits.max_upload_bytes
        self.team = team

    async def check_room(self) -> None:
        """Raises OverloadedError, before any byte is read."""
        await self._engine.intake.check_room()

    async def body(self, filename: str = "") -> ArrivedFile:
        """The whole body as one file. Raises RequestError if it can't be read as a document."""
        media_type(self._request)  # refuses a compressed body
        await self.check_room()
        file = await self._store(filename, pieces(self._request))
        if file.refused is not None:
            raise file.refused
        return file

    async def form(self) -> DoorForm:
        """The files and fields of a multipart body, in any order."""
        if media_type(self._request) != "multipart/form-data":
            raise MediaTypeError("Send the documents as multipart/form-data.")
        await self.check_room()
        form = DoorForm()
        try:
            await self._receive(form)
        except BaseException:
            await self.discard(form.files)
            raise
        return form

    async def store(self, filename: str, content: AsyncIterator[bytes]) -> ArrivedFile:
        """A document that is in the body in another form, such as base64."""
        return await self._store(filename, content)

    async def discard(self, files: Sequence[ArrivedFile]) -> None:
        """Deletes stored bytes; if this is interrupted, they are deleted after some hours."""
        for file in files:
            if not file.taken:
                await self._objects.delete(file.upload.key)

    async def accept(
        self, file: ArrivedFile, options: JobOptions, secrets: JobSecrets | None = None
    ) -> Accepted:
        """Creates the job of a file, or finds the one that did the same."""
        submission = Submission(
            team=self.team, options=options, secrets=secrets or JobSecrets(), filename=file.filename
        )
        try:
            self._engine.intake.check(submission)
        except BaseException:
            await self.discard([file])
            raise
        file.taken = True
        return await self._engine.intake.accept_upload(submission, file.upload)

    async def accept_link(self, url: str, options: JobOptions, secrets: JobSecrets | None = None) -> Accepted:
        """Creates the job of a link."""
        known = replace(secrets or JobSecrets(), source_url=url)
        submission = Submission(team=self.team, options=options, secrets=known)
        self._engine.intake.check(submission)
        return await self._engine.intake.accept_source(submission)

    async def ended(self, accepted: Sequence[Accepted], wait_s: float | None = None) -> list[MainJob]:
        """The jobs once all have ended. Raises WaitTimeoutError, or OverloadedError if the service stops."""
        limit_s = self._wait_s if wait_s is None else wait_s

        async def waited() -> list[MainJob]:
            return await asyncio.gather(
                *(self._engine.wait(self.team, one.job_id, limit_s) for one in accepted)
            )

        jobs = await while_connected(self._request, waited())
        if jobs is None:
            raise OverloadedError("The service is stopping. Send the request again.", retry_after_s=5.0)
        late = [job.id for job in jobs if not job.status.terminal]
        if late:
            raise WaitTimeoutError(
                f"The document was not ready after {limit_s:g} s. It is still being read as job {late[0]}: "
                "send the same request again to get its result.",
                retry_after_s=5.0,
            )
        return jobs

    async def converted(
        self, file: ArrivedFile, options: JobOptions, secrets: JobSecrets | None = None
    ) -> MainJob:
        """The completed job of one file. Raises FailedDocumentError if the document could not be read."""
        job = (await self.ended([await self.accept(file, options, secrets)]))[0]
        check_completed(job)
        return job

    async def _receive(self, form: DoorForm) -> None:
        room = _LARGEST_FIELDS
        feed: FileFeed | None = None
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(
                aclosing(read_form(self._request, MOST_FILES, any_name=True))
            )
            async for event in events:
                match event:
                    case FieldRead(name, value):
                        room -= len(value)
                        if room < 0:
                            raise RequestError(
                                f"The fields of the form are larger than {_LARGEST_FIELDS >> 20} MB."
                            )
                        form.fields.setdefault(name, []).append(value)
                    case FileStarts(given):
                        feed = await stack.enter_async_context(await self.begin(given))
                        form.files.append(feed.file)
                        if len(form.files) > MOST_FILES:
                            raise RequestError(f"The form has more than {MOST_FILES} files.")
                    case FilePiece(data) if feed is not None:
                        await feed.write(data)
                    case FileEnds() if feed is not None:
                        await feed.end()

    async def _store(self, filename: str, content: AsyncIterator[bytes]) -> ArrivedFile:
        async with await self.begin(filename) as feed:
            async for piece in content:
                await feed.write(piece)
            await feed.end()
        return feed.file

    async def begin(self, filename: str) -> FileFeed:
        """A file that the caller feeds; it must be entered, and ended before its block ends."""
        upload = await self._engine.intake.begin_upload(Submission(team=self.team, filename=filename))
        return FileFeed(ArrivedFile(filename, upload), self._max_bytes, archives=self._archives)


class FileFeed:
    """Writes one file to the object store. A file that is refused is deleted, and the rest of it is dropped."""

    def __init__(self, file: ArrivedFile, max_bytes: int, *, archives: bool) -> None:
        self._archives = archives
        self.file = file
        self._stack = AsyncExitStack()
        self._max_bytes = max_bytes
        self._writer: CheckedWriter | None = None

    async def __aenter__(self) -> FileFeed:
        writer = await self._stack.enter_async_context(self.file.upload.writer)
        most = self._max_bytes / (1 << 20)
        too_large = f"The document is larger than the {most:g} MB allowed (MAX_UPLOAD_MB)."
        self._writer = CheckedWriter(writer, self._max_bytes, too_large, archives=self._archives)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.__aexit__(*error)  # type: ignore[arg-type]

    async def write(self, data: bytes) -> None:
        if self._writer is not None:
            try:
                await self._writer.write(data)
            except (TooLargeError, UnsupportedTypeError) as error:
                await self._refuse(error)

    async def end(self) -> None:
        if self._writer is None:
            return
        try:
            await self._writer.end()
        except UnsupportedTypeError as error:
            await self._refuse(error)
            return
        self._writer = None
        await self._stack.aclose()
        if self.file.upload.writer.size == 0:
            self.file.refused = RequestError("The file is empty.")

    async def _refuse(self, error: RequestError) -> None:
        self.file.refused = error
        self._writer = None
        await self._stack.__aexit__(type(error), error, error.__traceback__)


def check_completed(job: MainJob) -> None:
    """Raises FailedDocumentError for a job that failed or was cancelled."""
    if job.status is not JobStatus.COMPLETED:
        raise FailedDocumentError(job.error or CancelledError("The job was cancelled.").as_dict())


def disposition_name(request: Request) -> str:
    """The file name in the Content-Disposition header of the request, empty if there is none."""
    _, options = parse_options_header(request.headers.get("content-disposition", ""))
    return options.get(b"filename", b"").decode("utf-8", "replace")
