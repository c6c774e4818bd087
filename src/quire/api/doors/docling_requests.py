"""The requests of docling-serve: documents of a form, or sources of a JSON body, become jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pybase64
from fastapi import Request

from quire.api.doors.docling_chunks import read_chunking
from quire.api.doors.docling_options import DoclingOptions, OptionError, read_options
from quire.api.doors.docling_targets import read_target
from quire.api.doors.door_intake import ArrivedFile, DoorIntake, FileFeed
from quire.api.doors.long_texts import TextWriter, read_long_texts
from quire.api.http.request_bodies import media_type, pieces
from quire.api.http.services import Services
from quire.domain.batch_target import BatchTarget
from quire.domain.document_batch import BatchItem
from quire.domain.job import JobStatus
from quire.errors import DownloadError, QuireError, RequestError
from quire.objects.buckets import source_address
from quire.pipeline.intake.upload_intake import Accepted
from quire.pipeline.open_streams import single_piece
from quire.pipeline.stages.download_stage import link_policy

_MOST_SOURCES = 100


@dataclass(frozen=True, slots=True)
class DoclingTask:
    """The documents of a request, and how their results are shown."""

    items: list[BatchItem]
    options: DoclingOptions
    chunking: dict[str, Any] = field(default_factory=dict)
    """The options of a chunk request, empty for a conversion."""
    target: BatchTarget | None = None
    """Where the results are delivered; None if they are in the answer."""

    @property
    def accepted(self) -> list[Accepted]:
        return [_known(item.job_id) for item in self.items if item.job_id]


class DoclingRequest:
    """One request with a form or a JSON body. `chunks` is the kind of chunks that a chunk request asks for.

    All options and sources are read before the first job is created, so a bad request leaves nothing behind. A
    document that is refused has its reason in its item; if all are refused, the request fails with the first reason.
    """

    def __init__(self, request: Request, services: Services, team: str, chunks: str = "") -> None:
        self._request = request
        self._bucket = services.runtime.settings.aws.bucket
        self._policy = link_policy(services.runtime.parts)
        self._chunks = chunks
        self._prefix = "convert_" if chunks else ""
        self.intake = DoorIntake(request, services, team)

    async def files(self) -> DoclingTask:
        """The documents of a form, in fields `files`. Raises RequestError if there is none, or all are refused."""
        form = await self.intake.form()
        try:
            options = read_options(form.fields, self._prefix)
            chunking = self._chunking(form.fields)
            if not form.files:
                raise OptionError("files", "at least one file")
            items = await self._accepted([_Document(file.filename, file) for file in form.files], options)
        finally:
            await self.intake.discard(form.files)
        return DoclingTask(items, options, chunking)

    async def sources(self) -> DoclingTask:
        """The sources of a JSON body: links, objects in a bucket, files in base64. Raises RequestError as `files`."""
        if media_type(self._request) != "application/json":
            raise OptionError("body", "a JSON object")
        await self.intake.check_room()
        async with AsyncExitStack() as stack:
            inline = _Inline(self.intake, stack)
            try:
                body = await read_long_texts(pieces(self._request), inline.open)
                target = None if self._chunks else read_target(body, self._policy)
                options = read_options(_options(body, self._prefix, target), self._prefix)
                chunking = self._chunking(body)
                documents = [
                    await self._document(source, inline, place) for place, source in enumerate(_sources(body))
                ]
                items = await self._accepted(documents, options)
            finally:
                await self.intake.discard(list(inline.files.values()))
        return DoclingTask(items, options, chunking, target)

    def _chunking(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return read_chunking(self._chunks, fields) if self._chunks else {}

    async def _document(self, source: Mapping[str, Any], inline: _Inline, place: int) -> _Document:
        if source["kind"] == "file":
            return _Document(source["filename"], await inline.file(source, place))
        name = unquote(PurePosixPath(urlsplit(source["url"]).path).name)
        return _Document(name, address=source["url"])

    async def _accepted(self, documents: Sequence[_Document], options: DoclingOptions) -> list[BatchItem]:
        items: list[BatchItem] = []
        refused: list[QuireError] = []
        for one in documents:
            try:
                items.append(BatchItem(one.name, (await self._accept(one, options)).job_id))
            except (RequestError, DownloadError) as error:
                refused.append(error)
                items.append(BatchItem(one.name, None, error.as_dict()))
        if len(refused) == len(documents):
            raise refused[0]
        return items

    async def _accept(self, one: _Document, options: DoclingOptions) -> Accepted:
        if one.file is None:
            return await self.intake.accept_link(source_address(one.address, self._bucket), options.job)
        if one.file.refused is not None:
            raise one.file.refused
        return await self.intake.accept(one.file, options.job)


@dataclass(frozen=True, slots=True)
class _Document:
    """A document of the request: a file that arrived, or an address."""

    name: str
    file: ArrivedFile | None = None
    address: str = ""


class _Inline:
    """The documents of a JSON body that are in base64, by their placeholders."""

    def __init__(self, intake: DoorIntake, stack: AsyncExitStack) -> None:
        self._intake = intake
        self._stack = stack
        self.files: dict[str, ArrivedFile] = {}

    async def open(self, placeholder: str) -> TextWriter:
        if len(self.files) >= _MOST_SOURCES:
            raise RequestError(f"The body has more than {_MOST_SOURCES} documents.")
        feed = await self._stack.enter_async_context(await self._intake.begin(""))
        self.files[placeholder] = feed.file
        return _FedFile(feed)

    async def file(self, source: Mapping[str, Any], place: int) -> ArrivedFile:
        """The file of a source. A short one is still in the JSON."""
        text = source["base64_string"]
        found = self.files.get(text)
        if found is None:
            try:
                data = pybase64.b64decode(text, validate=True)
            except ValueError:
                raise OptionError(f"sources.{place}.base64_string", "a document in base64") from None
            found = await self._intake.store("", single_piece(data))
            self.files[f"short-{place}"] = found
        found.filename = source["filename"]
        return found


class _FedFile(TextWriter):
    def __init__(self, feed: FileFeed) -> None:
        self._feed = feed

    async def write(self, data: bytes) -> None:
        await self._feed.write(data)

    async def end(self) -> None:
        await self._feed.end()


def _options(body: Mapping[str, Any], prefix: str, delivered: BatchTarget | None) -> dict[str, Any]:
    """The options of the body under the names that a form has."""
    name = "convert_options" if prefix else "options"
    found = body.get(name) or {}
    if not isinstance(found, dict):
        raise OptionError(name, "an object")
    target = body.get("target") or {}
    kind = target.get("kind", "inbody") if isinstance(target, dict) else ""
    kind = "zip" if delivered is not None else kind
    return {**{f"{prefix}{key}": value for key, value in found.items()}, "target_type": kind}


def _sources(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The sources, checked; also under the names of the first version of docling-serve."""
    found = list(_list(body, "sources"))
    found += [{"kind": "http", **one} for one in _list(body, "http_sources")]
    found += [{"kind": "file", **one} for one in _list(body, "file_sources")]
    if not 0 < len(found) <= _MOST_SOURCES:
        raise OptionError("sources", f"1 to {_MOST_SOURCES} sources")
    for place, source in enumerate(found):
        kind = source.get("kind")
        wanted = {"http": ("url",), "file": ("base64_string", "filename")}.get(str(kind))
        if wanted is None:
            raise OptionError(f"sources.{place}.kind", "`http` or `file`")
        for name in wanted:
            if not isinstance(source.get(name), str) or not source[name]:
                raise OptionError(f"sources.{place}.{name}", "a text")
        if source.get("headers"):
            raise OptionError(f"sources.{place}.headers", "none: Quire sends no headers of callers to links")
    return found


def _list(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise OptionError(name, "a list of objects")
    return found


def _known(job_id: str) -> Accepted:
    return Accepted(job_id, JobStatus.QUEUED, deduplicated=True)
