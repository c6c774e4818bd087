"""Uploads: the file goes into the object plane as it arrives; its first bytes and its size are checked on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

from fastapi import Request

from quire.api.http.request_bodies import (
    FORM_OVERHEAD,
    FieldRead,
    FileEnds,
    FilePiece,
    FileStarts,
    check_length,
    read_form,
)
from quire.errors import RequestError, TooLargeError, UnsupportedTypeError
from quire.objects.object_store import ObjectWriter
from quire.pipeline.intake.upload_intake import Submission, Upload, UploadIntake
from quire.reading.files.file_kinds import SNIFF_BYTES, ZIP, sniff


@dataclass(frozen=True, slots=True)
class Received:
    submission: Submission
    upload: Upload


async def receive_upload(
    request: Request,
    intake: UploadIntake,
    draft: Submission,
    finished: Callable[[dict[str, str], str], Submission],
    max_bytes: int,
    *,
    check: Callable[[Mapping[str, str]], Awaitable[None]] | None = None,
) -> Received:
    """Receives the file and the fields, in any order; `finished` builds the submission from fields and file name.

    `check` gets the fields that came before the file, before any of its bytes is stored, and all fields at the end.
    On any failure (RequestError, TooLargeError, UnsupportedTypeError, a caller that disconnects) the stored bytes
    are removed.
    """
    too_large = f"The document is larger than the {max_bytes / (1 << 20):g} MB allowed (MAX_UPLOAD_MB)."
    check_length(request, max_bytes + FORM_OVERHEAD, too_large)
    fields: dict[str, str] = {}
    upload: Upload | None = None
    filename = ""
    async with AsyncExitStack() as stack:
        form = await stack.enter_async_context(aclosing(read_form(request)))
        checked: CheckedWriter | None = None
        async for event in form:
            match event:
                case FieldRead(name, value):
                    fields[name] = value
                case FileStarts(given):
                    filename = given
                    if check is not None:
                        await check(fields)
                    upload = await intake.begin_upload(replace(draft, filename=given))
                    writer = await stack.enter_async_context(upload.writer)
                    checked = CheckedWriter(writer, max_bytes, too_large)
                case FilePiece(data) if checked is not None:
                    await checked.write(data)
                case FileEnds() if checked is not None:
                    await checked.end()
        if upload is None:
            raise RequestError("The form has no `file`. Send the document in a field of that name.")
        if check is not None:
            await check(fields)
        submission = finished(fields, filename)
        intake.check(submission)
    return Received(submission, upload)


@dataclass(slots=True)
class CheckedWriter:
    """Keeps a file's first bytes back until they show a type that Quire can read."""

    writer: ObjectWriter
    max_bytes: int
    too_large: str
    head: bytes = b""
    accepted: bool = False
    archives: bool = False
    """Whether a ZIP archive of documents is taken as well."""

    async def write(self, data: bytes) -> None:
        """Raises TooLargeError or UnsupportedTypeError; the caller then ends the writer's block with the error."""
        if self.writer.size + len(self.head) + len(data) > self.max_bytes:
            raise TooLargeError(self.too_large)
        if self.accepted:
            await self.writer.write(data)
            return
        self.head += data
        if len(self.head) >= SNIFF_BYTES:
            await self.end()

    async def end(self) -> None:
        """An empty file is for the intake to refuse."""
        if self.accepted or not self.head:
            return
        kind = sniff(self.head[:SNIFF_BYTES])
        if not kind.supported and not (self.archives and kind.mime == ZIP.mime):
            raise UnsupportedTypeError(
                f"This is a file of type {kind.mime} ({kind.label}), which Quire can't read."
            )
        self.accepted = True
        head, self.head = self.head, b""
        await self.writer.write(head)
