"""`AsyncQuire`: a service, as an object with typed methods."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quire.client import service_calls
from quire.client.async_documents import AsyncDocuments, Options
from quire.client.batch_calls import Batch, OnProgress, batch_call, finished_batch
from quire.client.conversions import Conversions, OnPage, held_s
from quire.client.direct_upload import direct_sources
from quire.client.exceptions import NotFoundError, UnreadableError
from quire.client.extract_calls import extract_call
from quire.client.records import (
    Chunk,
    Conversion,
    Difference,
    ElementsPage,
    Event,
    Extracted,
    Job,
    Page,
    Parsed,
    Result,
    Retried,
    Stopped,
    read,
    rows,
)
from quire.client.saved_files import json_lines, save, texts
from quire.client.service_calls import Attachment, ServiceCall, Source
from quire.client.transport import Retrying, Transport

DEFAULT_URL = "http://127.0.0.1:8080"

_AT_ONCE = 200
_HELD_LONGEST_S = 16 * 60.0

DETAILS = ("links", "outline", "form_fields", "embedded_files", "hidden_text", "changes")


class AsyncQuire:
    """A running service. Use it as a context manager, or call `close`.

    Calls that failed for a reason that may pass (no connection, 429, 503) are made again within the bounds of
    `retrying`; every POST carries an Idempotency-Key, so that none of them does anything twice. All methods raise
    `quire.client.ClientError` and its kinds, nothing else.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        api_key: str = "",
        *,
        timeout_s: float = 60.0,
        retrying: Retrying | None = None,
    ) -> None:
        """`timeout_s` is how long the service may be silent in one attempt. Connects at the first call."""
        chosen = retrying or Retrying()
        self._transport = Transport(url, api_key, timeout_s, chosen)
        self._conversions = Conversions(self._transport, chosen)
        self.documents = AsyncDocuments(self._transport)

    @classmethod
    def from_environment(cls, api_key: str | None = None) -> Self:
        """With QUIRE_URL and QUIRE_API_KEY, as the command line; `api_key` overrules the latter.

        Raises SettingsError if a setting is malformed.
        """
        from quire.settings import load

        client = load(os.environ).client
        return cls(client.url, client.api_key if api_key is None else api_key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def convert(
        self,
        source: Source,
        *,
        name: str | None = None,
        mode: str | None = None,
        pages: str | None = None,
        password: str | None = None,
        engine: str | None = None,
        model_tier: str | None = None,
        prompt: str | None = None,
        timeout_seconds: float | None = None,
        callback_url: str | None = None,
        force: bool | None = None,
        priority: str | None = None,
        force_ocr: bool | None = None,
        ocr_languages: str | None = None,
        reading_effort: str | None = None,
        wait: bool = True,
        wait_s: float | None = None,
        on_page: OnPage | None = None,
        idempotency_key: str | None = None,
    ) -> Conversion:
        """Turns a document into Markdown.

        `source` is a path, the bytes themselves, or an address (`https://…`). With `wait`, returns when it is done,
        or raises JobFailedError; after `wait_s` seconds TookTooLongError. `on_page` hears of each page as it is
        done. Without `wait`, returns as soon as the document is accepted, with `markdown` None. `priority` is `low`,
        `normal` or `high`, `reading_effort` is `fast`, `balanced` or `careful`, `ocr_languages` is as in `eng+deu`.
        """
        fields: dict[str, Any] = {
            "mode": mode,
            "pages": pages,
            "password": password,
            "engine": engine,
            "model_tier": model_tier,
            "prompt": prompt,
            "timeout_seconds": timeout_seconds,
            "callback_url": callback_url,
            "force": force,
            "priority": priority,
            "force_ocr": force_ocr,
            "ocr_languages": ocr_languages,
            "reading_effort": reading_effort,
        }
        held = held_s(wait_s) if wait and on_page is None else 0.0
        accepted = await self._conversions.hand_in(source, name, fields, idempotency_key, held)
        if not wait or accepted.markdown is not None:
            return accepted
        return await self._conversions.finished(accepted, wait_s, on_page)

    async def wait(
        self, job_id: str, *, wait_s: float | None = None, on_page: OnPage | None = None
    ) -> Conversion:
        """The end of a job that was started before; as `convert` with `wait`."""
        accepted = Conversion(job_id, "queued", False)
        return await self._conversions.finished(accepted, wait_s, on_page)

    async def job(self, job_id: str) -> Job:
        """A job of any type: `<id>`, `<id>-split`, `<id>-p7`, `<id>-merge`."""
        found = (await self._transport.ask(service_calls.get("jobs", job_id))).json()
        return read(Job, found)

    async def jobs(self, *, status: str | None = None) -> AsyncIterator[Job]:
        """The team's documents, the newest first; fetched as they are asked for."""
        before = None
        while True:
            call = service_calls.get("jobs", limit=_AT_ONCE, status=status, before=before)
            found = (await self._transport.ask(call)).json()
            for one in rows(found, "jobs"):
                yield read(Job, one)
            before = found.get("next_before")
            if before is None:
                return

    async def pages(self, job_id: str) -> AsyncIterator[Page]:
        """How each page was read, in order; fetched as they are asked for."""
        offset = 0
        while True:
            call = service_calls.get("jobs", job_id, "pages", offset=offset, limit=_AT_ONCE)
            found = rows((await self._transport.ask(call)).json(), "pages")
            for one in found:
                yield read(Page, one)
            offset += len(found)
            if len(found) < _AT_ONCE:
                return

    async def page(self, job_id: str, number: int) -> Page:
        return read(
            Page, (await self._transport.ask(service_calls.get("jobs", f"{job_id}-p{number}"))).json()
        )

    async def result(self, job_id: str) -> Result:
        """The Markdown. Raises ConflictError, with code "not_ready" while it is not there."""
        return await self._conversions.result(job_id)

    async def text(
        self,
        job_id: str,
        *,
        page_break: str | None = None,
        front_matter: bool | None = None,
        tables: str | None = None,
        headers: str | None = None,
        figures: str | None = None,
        join_tables: bool | None = None,
    ) -> AsyncIterator[str]:
        """The same Markdown piece by piece, for documents that are too large to be held whole, with options.

        `tables` is `markdown`, `html` or `auto`, `headers` `drop` or `keep`, `figures` `none`, `placeholder`,
        `embedded` or `files`; `page_break` goes between pages; `join_tables` writes a table over several pages once.
        """
        call = service_calls.get(
            *("jobs", job_id, "result"),
            format="md",
            page_break=page_break,
            front_matter=front_matter,
            tables=tables,
            headers=headers,
            figures=figures,
            join_tables=join_tables,
        )
        async with aclosing(texts(self._transport, _any_type(call))) as pieces:
            async for piece in pieces:
                yield piece

    async def html(self, job_id: str) -> AsyncIterator[str]:
        """The document as one HTML file, piece by piece; nothing in it loads or runs."""
        call = service_calls.get("jobs", job_id, "result", format="html")
        async with aclosing(texts(self._transport, _any_type(call))) as pieces:
            async for piece in pieces:
                yield piece

    async def docling(self, job_id: str) -> dict[str, Any]:
        """The document as a DoclingDocument; `DoclingDocument.model_validate` of docling-core takes it."""
        found = (
            await self._transport.ask(service_calls.get("jobs", job_id, "result", format="docling"))
        ).json()
        if not isinstance(found, dict):
            raise UnreadableError("The service's answer is no DoclingDocument.")
        return found

    async def elements(
        self, job_id: str, *, pages: str | None = None, lines: bool = False, words: bool = False
    ) -> AsyncIterator[ElementsPage]:
        """The elements of a finished document, page by page; `lines` and `words` add their boxes."""
        names = ",".join(name for name, wanted in (("lines", lines), ("words", words)) if wanted)
        call = service_calls.get(
            "jobs", job_id, "elements", pages=pages, include=names or None, format="jsonl"
        )
        async with aclosing(json_lines(self._transport, _any_type(call))) as found:
            async for page in found:
                yield read(ElementsPage, page)

    async def details(self, job_id: str, *names: str, pages: str | None = None) -> dict[str, Any]:
        """What the file has beside its visible text: a list for each of `links`, `outline`, `form_fields`,
        `embedded_files`, `hidden_text` and `changes` that is named; all of them if none is. Raises RefusedError.
        """
        wanted = ",".join(names or DETAILS)
        call = service_calls.get("jobs", job_id, "elements", pages=pages, include=wanted, format="jsonl")
        async with aclosing(json_lines(self._transport, _any_type(call))) as found:
            async for line in found:
                if "details" in line:
                    return dict(line["details"])
        raise UnreadableError("The service's answer has no details. Check the versions of both sides.")

    async def chunks(
        self, job_id: str, *, max_tokens: int | None = None, overlap: int | None = None
    ) -> AsyncIterator[Chunk]:
        """The document in pieces by its structure, of at most `max_tokens` (512); fetched as they are asked for."""
        call = service_calls.get(
            "jobs", job_id, "chunks", max_tokens=max_tokens, overlap=overlap, format="jsonl"
        )
        async with aclosing(json_lines(self._transport, _any_type(call))) as found:
            async for chunk in found:
                yield read(Chunk, chunk)

    async def extract(
        self,
        source: Source | None = None,
        *,
        schema: Mapping[str, Any] | None = None,
        saved_schema: str | None = None,
        job_id: str | None = None,
        document_id: str | None = None,
        instructions: str | None = None,
        ungrounded: str | None = None,
        pages: str | None = None,
        name: str | None = None,
        password: str | None = None,
        mode: str | None = None,
    ) -> Extracted:
        """Values by a JSON Schema, each with the words of the page that say it.

        From a `source` (as in `convert`), a finished job, or a document of the vault. Held until it is there. Raises
        ConflictError with code "ai_not_configured" where the service has no AI; its `body["found"]` has the pairs and
        tables that were found without. `ungrounded` is `null` (default) or `keep`. `saved_schema` is a name of
        `documents.save_schema`.
        """
        call = extract_call(
            source,
            {"job_id": job_id, "document_id": document_id},
            {"instructions": instructions, "ungrounded": ungrounded, "pages": pages},
            {"password": password, "mode": mode},
            schema=schema if saved_schema is None else saved_schema,
            name=name,
        )
        return read(Extracted, (await self._transport.ask(call)).json())

    async def diff(self, job_a: str, job_b: str, *, limit: int | None = None) -> Difference:
        """Pages and elements that differ between two completed jobs.

        The elements of the first `limit` pages that differ (50) are compared; those of later pages are None.
        """
        call = service_calls.get("jobs", job_a, "diff", job_b, limit=limit)
        return read(Difference, (await self._transport.ask(call)).json())

    async def batch(
        self,
        sources: Iterable[Source],
        *,
        options: Options | None = None,
        wait: bool = True,
        wait_s: float | None = None,
        on_progress: OnProgress | None = None,
        idempotency_key: str | None = None,
    ) -> Batch:
        """Turns many documents into Markdown, under one id.

        `sources` are files (a ZIP archive is taken apart) or addresses (one of a bucket that ends with a slash is all
        below it). With `wait`, returns when all have ended; a document that failed has its `error` in `items`. After
        `wait_s` seconds raises TookTooLongError. `on_progress` gets the batch each time when documents have ended.
        """
        if not isinstance(sources, str | bytes):
            sources = await direct_sources(self._transport, sources)
        call = batch_call(sources, (options or Options()).fields(), idempotency_key)
        accepted = read(Batch, (await self._transport.ask(call)).json())
        if not wait:
            return accepted
        return await finished_batch(self._transport, accepted, wait_s, on_progress)

    async def batch_state(self, batch_id: str) -> Batch:
        """The batch with the state of each of its documents. Raises NotFoundError."""
        return read(Batch, (await self._transport.ask(service_calls.get("batches", batch_id))).json())

    async def wait_batch(
        self, batch_id: str, *, wait_s: float | None = None, on_progress: OnProgress | None = None
    ) -> Batch:
        """The end of a batch that was started before; as `batch` with `wait`."""
        return await finished_batch(self._transport, await self.batch_state(batch_id), wait_s, on_progress)

    async def cancel_batch(self, batch_id: str) -> Batch:
        """Cancels the documents that have not ended."""
        call = service_calls.post("batches", batch_id, "cancel")
        return read(Batch, (await self._transport.ask(call)).json())

    async def export_batch(self, batch_id: str, path: str | Path, *, format: str = "zip") -> Path:
        """Saves all results: `zip` has a Markdown file for each document, `jsonl` a document a line.

        Raises ConflictError with code "not_ready" while documents have not ended.
        """
        call = service_calls.get("batches", batch_id, "export", format=format)
        return await save(self._transport, _any_type(call), path)

    async def page_image(self, job_id: str, number: int) -> bytes:
        """The page as a picture (JPEG or PNG)."""
        call = service_calls.get("jobs", job_id, "pages", number, "image")
        return (await self._transport.ask(_any_type(call))).body

    async def figure(self, job_id: str, element_id: str) -> bytes:
        """A figure, or any other element that has a box, cut from its page (PNG)."""
        call = service_calls.get("jobs", job_id, "figures", f"{element_id}.png")
        return (await self._transport.ask(_any_type(call))).body

    async def save_zip(self, job_id: str, path: str | Path) -> Path:
        """Saves all formats of a document and its figures as one zip."""
        call = service_calls.get("jobs", job_id, "result", format="zip")
        return await save(self._transport, _any_type(call), path)

    async def save_pdf(self, job_id: str, path: str | Path) -> Path:
        """Saves a PDF or a picture as a searchable PDF. Raises ConflictError for a document of another type."""
        call = service_calls.get("jobs", job_id, "result", format="pdf")
        return await save(self._transport, _any_type(call), path)

    async def original(self, job_id: str, path: str | Path) -> Path:
        """Saves the document as it came in."""
        return await save(self._transport, _any_type(service_calls.get("jobs", job_id, "original")), path)

    async def events(self, job_id: str, *, last_id: str = "") -> AsyncIterator[Event]:
        """What happens to the job, up to its end; after `last_id` if given. Survives lost connections."""
        async with aclosing(self._conversions.events(job_id, last_id)) as found:
            async for event in found:
                yield event

    async def cancel(self, job_id: str) -> Stopped:
        """One that is over already stays as it is."""
        return read(Stopped, (await self._transport.ask(service_calls.post("jobs", job_id, "cancel"))).json())

    async def retry(self, job_id: str, *, idempotency_key: str | None = None) -> Retried:
        """Redoes what did not come out well; of a page's job that page. Raises ConflictError while it runs."""
        call = service_calls.post("jobs", job_id, "retry", key=idempotency_key)
        return read(Retried, (await self._transport.ask(call)).json())

    async def delete(self, job_id: str) -> None:
        """Deletes a finished job with all its data. Raises NotFoundError, or ConflictError while it runs."""
        await self.job(job_id)
        # If the answer is lost and the call repeated (aiohttp does that too, unseen), there is nothing left to find.
        with suppress(NotFoundError):
            await self._transport.ask(ServiceCall("DELETE", service_calls.path("jobs", job_id)))

    async def parse(
        self, image: Path | str | bytes, *, name: str | None = None, idempotency_key: str | None = None
    ) -> Parsed:
        """What is on one image, by the batch parser. Held until it is there."""
        file: Attachment = service_calls.attachment(
            image, name or (None if not isinstance(image, bytes) else "image")
        )
        call = ServiceCall(
            "POST",
            "/parse",
            headers=service_calls.idempotent(idempotency_key),
            form={},
            files=(file,),
            quiet_s=_HELD_LONGEST_S,
        )
        return read(Parsed, (await self._transport.ask(call)).json())

    async def health(self) -> dict[str, Any]:
        """Raises BusyError or UnreachableError while the service can't work."""
        found = (await self._transport.ask(service_calls.get("health"))).json()
        if not isinstance(found, dict):
            raise UnreadableError("What answered is not Quire. Check the address.")
        return found


def _any_type(call: ServiceCall) -> ServiceCall:
    return ServiceCall(call.method, call.path, call.query, {**call.headers, "Accept": "*/*"})
