"""The documents of a batch: files, files in ZIP archives, links, objects below a prefix. Each becomes a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from fastapi import Request

from quire.api.doors.door_intake import ArrivedFile, DoorIntake
from quire.api.http.error_responses import MediaTypeError
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.services import Services
from quire.api.jobs.submission_fields import Fields, read_fields, refuse_version
from quire.domain.document_batch import BatchItem
from quire.domain.job import JobSecrets
from quire.errors import DownloadError, OverloadedError, PageError, RequestError
from quire.links import check_url
from quire.objects.buckets import in_bucket, source_address
from quire.pipeline.document_batches import MOST_ITEMS
from quire.pipeline.stages.download_stage import buckets_of, link_policy
from quire.reading.files.archive_members import archive_files, archive_piece
from quire.reading.files.file_kinds import SNIFF_BYTES, ZIP, sniff
from quire.reading.office.zip_container import OfficeLimits

_PIECE_BYTES = 16 << 20


class BatchRequest:
    """One request. A document that is refused does not affect the others."""

    def __init__(self, request: Request, services: Services, team: str) -> None:
        self._request = request
        self._parts = services.runtime.parts
        self._intake = DoorIntake(request, services, team, archives=True)
        limits = self._parts.settings.limits
        self._limits = OfficeLimits(limits.max_archive_bytes, limits.max_archive_members)
        self._items: list[BatchItem] = []

    async def accept(self) -> tuple[list[BatchItem], str | None]:
        """Creates the jobs; returns the documents and the callback address.

        Raises RequestError, for too many documents as well, before the first job is created.
        """
        kind = media_type(self._request)
        if kind == "application/json":
            fields = await self._sources()
        elif kind == "multipart/form-data":
            fields = await self._files()
        else:
            raise MediaTypeError(
                "Send multipart/form-data with `file` parts, or application/json with `sources`."
            )
        if not self._items:
            raise RequestError("The batch has no documents.")
        return self._items, fields.secrets.callback_url

    async def _files(self) -> Fields:
        form = await self._intake.form()
        try:
            fields = self._checked({name: values[-1] for name, values in form.fields.items()})
            if not form.files:
                raise RequestError("The form has no file.")
            found = [(file, await self._members(file)) for file in form.files]
            _check_number(sum(max(1, len(members)) for _, members in found))
            for file, members in found:
                if members:
                    await self._archive(file, members, fields)
                else:
                    await self._accepted(file.filename, fields, file=file)
        finally:
            await self._intake.discard(form.files)
        return fields

    async def _sources(self) -> Fields:
        body = await read_json(self._request)
        sources = body.pop("sources", None)
        if not isinstance(sources, list) or not all(isinstance(one, str) and one for one in sources):
            raise RequestError("sources: expected a list of addresses.")
        fields = self._checked(body)
        await self._intake.check_room()
        _check_number(len(sources))
        bucket = self._parts.settings.aws.bucket
        addresses: list[str] = []
        for given in sources:
            if in_bucket(given) and given.endswith("/"):
                room = MOST_ITEMS + 1 - len(addresses)
                addresses += await buckets_of(self._parts).addresses_below(given, room)
            else:
                addresses.append(source_address(given, bucket))
            _check_number(len(addresses))
        for address in addresses:
            name = unquote(PurePosixPath(urlsplit(address).path).name) or address[:100]
            await self._accepted(name, fields, address=address)
        return fields

    def _checked(self, given: dict[str, Any]) -> Fields:
        """The options. Raises RequestError, also for an address that may not be called back."""
        fields = read_fields(given)
        if fields.secrets.source_url or fields.result_to:
            raise RequestError("source, result_to: are for POST /convert. A batch takes `sources`.")
        refuse_version(fields)
        if fields.secrets.callback_url:
            check_url(fields.secrets.callback_url, link_policy(self._parts))
        return fields

    async def _accepted(
        self, name: str, fields: Fields, *, file: ArrivedFile | None = None, address: str = ""
    ) -> None:
        """Adds the item with its job, or with the error of a document that is refused."""
        secrets = _of_document(fields.secrets)
        try:
            if file is None:
                found = await self._intake.accept_link(address, fields.options, secrets)
            elif file.refused is not None:
                raise file.refused
            else:
                await self._intake.check_room()
                found = await self._intake.accept(file, fields.options, secrets)
        except (RequestError, OverloadedError, DownloadError, PageError) as error:
            self._items.append(BatchItem(name[:300], None, error.as_dict()))
        else:
            self._items.append(BatchItem(name[:300], found.job_id))

    async def _members(self, file: ArrivedFile) -> list[tuple[str, int]]:
        """The files in an archive with their sizes; none for a document, also for one whose format is a ZIP."""
        if file.refused is not None or not await self._is_archive(file):
            return []
        timeout_s = self._parts.settings.reading.page_timeout_s
        async with self._parts.objects.local(file.upload.key) as path:
            try:
                return await self._parts.pool.run(archive_files, str(path), self._limits, timeout_s=timeout_s)
            except (RequestError, PageError) as error:
                file.refused = error
        return []

    async def _is_archive(self, file: ArrivedFile) -> bool:
        head = b""
        async for piece in self._parts.objects.stream(file.upload.key, end=SNIFF_BYTES):
            head += piece
        return sniff(head).mime == ZIP.mime

    async def _archive(self, file: ArrivedFile, members: list[tuple[str, int]], fields: Fields) -> None:
        async with self._parts.objects.local(file.upload.key) as path:
            for name, size in members:
                try:
                    stored = await self._intake.store(
                        PurePosixPath(name).name, self._pieces(str(path), name, size)
                    )
                except (RequestError, PageError) as error:
                    self._items.append(BatchItem(name[:300], None, error.as_dict()))
                    continue
                await self._accepted(name, fields, file=stored)
                await self._intake.discard([stored])

    async def _pieces(self, path: str, name: str, size: int) -> AsyncIterator[bytes]:
        timeout_s = self._parts.settings.reading.page_timeout_s
        for start in range(0, size, _PIECE_BYTES):
            yield await self._parts.pool.run(
                archive_piece, path, self._limits, name, start, _PIECE_BYTES, timeout_s=timeout_s
            )


def _of_document(secrets: JobSecrets) -> JobSecrets:
    """The batch calls back, not each of its documents."""
    return replace(secrets, callback_url=None)


def _check_number(documents: int) -> None:
    if documents > MOST_ITEMS:
        raise RequestError(f"A batch has at most {MOST_ITEMS} documents, and this one has more.")
