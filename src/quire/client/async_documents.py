"""`AsyncDocuments`: the vault of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from quire.client import service_calls
from quire.client.direct_upload import direct_source
from quire.client.exceptions import NotFoundError, TookTooLongError, UnreadableError, UsageError
from quire.client.records import Added, Chunk, Document, Found, Hit, Reprocessed, Tag, Uploaded, read, rows
from quire.client.saved_files import json_lines, save, texts
from quire.client.service_calls import ServiceCall, Source
from quire.client.transport import Transport

_AT_ONCE = 100
_LOOK_AGAIN_S = (0.1, 2.0)
_HELD_LONGEST_S = 3_700.0
"""Longer than the longest EXTRACT_TIMEOUT, which is for one document."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents. `status` is one of a document's states; all `tags` must be there, any of `types`."""

    status: str | None = None
    tags: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    language: str | None = None
    date_from: date | str | None = None
    date_to: date | str | None = None

    def query(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "tag": self.tags or None,
            "type": self.types or None,
            "language": self.language,
            "date_from": _day(self.date_from),
            "date_to": _day(self.date_to),
        }


@dataclass(frozen=True, slots=True)
class Options:
    """How documents are converted; as the same words of `convert`."""

    mode: str | None = None
    pages: str | None = None
    password: str | None = None
    engine: str | None = None
    model_tier: str | None = None
    prompt: str | None = None
    timeout_seconds: float | None = None
    callback_url: str | None = None
    force: bool | None = None
    force_ocr: bool | None = None
    ocr_languages: str | None = None
    reading_effort: str | None = None

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class AsyncDocuments:
    """Documents that stay: named, tagged and found again. Get it as `documents` of an `AsyncQuire`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def upload(
        self,
        source: Source,
        *,
        name: str | None = None,
        options: Options | None = None,
        idempotency_key: str | None = None,
    ) -> Added:
        """Adds a document: a path, the bytes themselves, or an address. It is worked on from then on; see `wait`."""
        fields = (options or Options()).fields()
        source = await direct_source(self._transport, source, name) or source
        call = service_calls.submitting("/documents", source, name, fields, idempotency_key)
        added = read(Uploaded, await self._json(call)).documents
        if not added:
            raise UnreadableError("The service took the document, but doesn't say where it is.")
        return added[0]

    async def upload_many(
        self,
        sources: Iterable[str | Path],
        *,
        options: Options | None = None,
        idempotency_key: str | None = None,
    ) -> Uploaded:
        """Adds up to 100 files at once. Raises InvalidError only if none of them was taken."""
        files = tuple(service_calls.attachment(source, None) for source in sources)
        if not files:
            raise UsageError("There is no file to upload.")
        fields = (options or Options()).fields()
        return read(
            Uploaded, await self._json(service_calls.uploading("/documents", files, fields, idempotency_key))
        )

    async def wait(self, document_id: str, *, wait_s: float | None = None) -> Document:
        """The document once it is not pending any more, however it came out. Raises TookTooLongError."""
        pause_s, longest_s = _LOOK_AGAIN_S
        try:
            async with asyncio.timeout(wait_s):
                while (found := await self.get(document_id)).status == "pending":
                    await asyncio.sleep(pause_s)
                    pause_s = min(longest_s, pause_s * 1.5)
                return found
        except TimeoutError:
            raise TookTooLongError(document_id, wait_s or 0.0) from None

    async def list(
        self, *, query: str | None = None, filters: Filters | None = None
    ) -> AsyncIterator[Document]:
        """The newest first, those with all words of `query` if given; fetched as they are asked for."""
        cursor = None
        while True:
            asked = (filters or Filters()).query()
            found = await self._json(
                service_calls.get("documents", q=query, limit=_AT_ONCE, cursor=cursor, **asked)
            )
            for one in rows(found, "documents"):
                yield read(Document, one)
            cursor = found.get("next_cursor")
            if not cursor:
                return

    async def get(self, document_id: str) -> Document:
        return read(Document, await self._json(service_calls.get("documents", document_id)))

    async def content(self, document_id: str) -> str:
        """The Markdown. Raises ConflictError, with code "not_ready" while it is not there."""
        call = service_calls.get("documents", document_id, "content", format="json")
        found = await self._json(call)
        try:
            return str(found["result"]["markdown"])
        except (KeyError, TypeError) as error:
            raise UnreadableError("The service's answer is not a document's content.") from error

    async def text(self, document_id: str) -> AsyncIterator[str]:
        """The same Markdown piece by piece, for documents that are too large to be held whole."""
        call = ServiceCall(
            "GET",
            service_calls.path("documents", document_id, "content"),
            headers={"Accept": "text/markdown"},
        )
        async with aclosing(texts(self._transport, call)) as pieces:
            async for piece in pieces:
                yield piece

    async def chunks(
        self, document_id: str, *, max_tokens: int | None = None, overlap: int | None = None
    ) -> AsyncIterator[Chunk]:
        """The document in pieces by its structure, of at most `max_tokens` (512); fetched as they are asked for."""
        call = service_calls.get(
            "documents", document_id, "chunks", max_tokens=max_tokens, overlap=overlap, format="jsonl"
        )
        async with aclosing(json_lines(self._transport, call)) as found:
            async for chunk in found:
                yield read(Chunk, chunk)

    async def download(self, document_id: str, path: str | Path) -> Path:
        """Saves the original; `path` is there whole or not at all."""
        return await save(self._transport, service_calls.get("documents", document_id, "download"), path)

    async def reprocess(self, document_id: str, *, password: str | None = None) -> Reprocessed:
        """Redoes what did not come out well. Many calls while it runs are one run."""
        path = service_calls.path("documents", document_id, "reprocess")
        body = {"password": password} if password is not None else {}
        return read(
            Reprocessed,
            await self._json(ServiceCall("POST", path, headers=service_calls.idempotent(), json=body)),
        )

    async def delete(self, document_id: str) -> None:
        """Every trace of it. Raises NotFoundError if there is no such document."""
        await self.get(document_id)
        # If the answer is lost and the call repeated (aiohttp does that too, unseen), there is nothing left to find.
        with suppress(NotFoundError):
            await self._transport.ask(ServiceCall("DELETE", service_calls.path("documents", document_id)))

    async def search(self, query: str, *, filters: Filters | None = None) -> AsyncIterator[Hit]:
        """What fits best comes first; fetched as it is asked for. Words may be misspelt, the last one unfinished."""
        cursor = None
        while True:
            found = await self.search_page(query, filters=filters, cursor=cursor)
            for hit in found.hits:
                yield hit
            cursor = found.next_cursor
            if not cursor:
                return

    async def search_page(
        self, query: str, *, filters: Filters | None = None, limit: int = 20, cursor: str | None = None
    ) -> Found:
        """One page of a search, with what was corrected in the query."""
        asked = (filters or Filters()).query()
        return read(
            Found, await self._json(service_calls.get("search", q=query, limit=limit, cursor=cursor, **asked))
        )

    async def tags(self, prefix: str = "", *, limit: int = 20) -> tuple[Tag, ...]:
        """The most used first; those that begin with `prefix`, or have a word that does."""
        found = await self._json(service_calls.get("tags", prefix=prefix or None, limit=limit))
        return tuple(read(Tag, one) for one in rows(found, "tags"))

    async def export(
        self, path: str | Path, *, filters: Filters | None = None, originals: bool = False
    ) -> Path:
        """Saves Markdown and metadata of many documents as a zip; `path` is there whole or not at all."""
        asked = (filters or Filters()).query()
        call = service_calls.get("documents", "export", originals=originals or None, **asked)
        return await save(self._transport, call, path)

    async def schemas(self) -> tuple[str, ...]:
        """The names of the schemas that the team has saved."""
        return tuple((await self._json(service_calls.get("schemas")))["schemas"])

    async def save_schema(
        self,
        name: str,
        schema: Mapping[str, Any],
        *,
        instructions: str | None = None,
        ungrounded: str | None = None,
    ) -> None:
        """Saves a JSON Schema under a name, in place of one of that name. Raises InvalidError for a bad schema."""
        body = {
            "schema": schema,
            **service_calls.given({"instructions": instructions, "ungrounded": ungrounded}),
        }
        await self._transport.ask(ServiceCall("PUT", service_calls.path("schemas", name), json=body))

    async def delete_schema(self, name: str) -> None:
        """Raises NotFoundError if there is no such schema."""
        await self._transport.ask(ServiceCall("DELETE", service_calls.path("schemas", name)))

    async def apply_schema(
        self,
        name: str,
        path: str | Path,
        *,
        format: str = "jsonl",
        query: str | None = None,
        filters: Filters | None = None,
    ) -> Path:
        """Extracts from all documents that the filters choose, and saves a row for each as `jsonl`, `csv` or `parquet`.

        Held until all are done; what a model has answered is not asked again when the call is repeated.
        """
        asked = (filters or Filters()).query()
        call = service_calls.post("schemas", name, "apply", format=format, q=query, **asked)
        call = replace(call, headers={**call.headers, "Accept": "*/*"}, quiet_s=_HELD_LONGEST_S)
        return await save(self._transport, call, path)

    async def exists(self, document_id: str) -> bool:
        try:
            await self.get(document_id)
        except NotFoundError:
            return False
        return True

    async def _json(self, call: ServiceCall) -> Any:
        return (await self._transport.ask(call)).json()


def _day(given: date | str | None) -> str | None:
    return given.isoformat() if isinstance(given, date) else given
