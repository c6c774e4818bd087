"""A document's original, its Markdown, and the vault as a zip. All are streamed, never whole in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import ClosingStream, disposition, started
from quire.api.http.services import EngineDep, VaultDep
from quire.api.jobs.output_params import OutputDep
from quire.api.jobs.result_routes import as_json, preferred
from quire.api.jobs.written_results import WRITTEN_FORMATS, Format, FormatParam, written_answer
from quire.api.vault.document_routes import document_of, viewer
from quire.api.vault.filter_params import Filters, read_query
from quire.domain.job import JobStatus, MainJob
from quire.domain.vault_document import DocumentFilters, DocumentStatus, VaultDocument
from quire.errors import MissingError, NotReadyError, StateConflictError
from quire.links import safe_filename
from quire.pipeline.open_streams import single_piece
from quire.pipeline.vault.early_text import is_still_reading, partial_markdown
from quire.pipeline.vault.vault import Vault
from quire.pipeline.zip_stream import ZipEntry, ZipStream

router = APIRouter(tags=["vault"])

_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


class ContentBody(BaseModel):
    markdown: str
    metadata: dict[str, str | int | None]


class ContentView(BaseModel):
    document_id: str
    result: ContentBody


@router.get(
    "/documents/export",
    summary="The vault as a zip",
    responses={200: {"content": {"application/zip": {}}}, **documented(400, 401, 503)},
    response_class=Response,
)
async def export(
    team: Team,
    vault: VaultDep,
    filters: Filters,
    q: Annotated[str | None, Query(description="All these words.", max_length=1_000)] = None,
    originals: Annotated[bool, Query(description="With the documents as they came in.")] = False,
) -> Response:
    """For each document its Markdown and what is known of it, as `document.md` and `metadata.json`."""
    narrowed = replace(filters, text=read_query("q", q) or None)
    entries = _entries(vault, team, narrowed, originals=originals)
    body = await started(ZipStream(vault.parts.clock.now()).stream(entries))
    headers = {"Content-Disposition": disposition("attachment", "quire-documents.zip"), **_NO_SNIFF}
    return ClosingStream(body, media_type="application/zip", headers=headers)


@router.get(
    "/documents/{document_id}/download",
    summary="The document as it came in",
    responses={200: {"content": {"application/octet-stream": {}}}, **documented(401, 404, 409, 503)},
    response_class=Response,
)
async def download(document_id: str, team: Team, vault: VaultDep) -> Response:
    """Always an attachment, never displayed by the browser: the content is untrusted."""
    row = await document_of(vault, team, document_id)
    ref = await _original(vault, row)
    objects = vault.parts.objects
    size = await objects.size(ref)
    if size is None:
        raise MissingError("The document's file has been deleted.")
    headers = {
        "Content-Disposition": disposition("attachment", safe_filename(row.filename)),
        "Content-Length": str(size),
        **_NO_SNIFF,
    }
    return ClosingStream(
        await started(objects.stream(ref)), media_type="application/octet-stream", headers=headers
    )


@router.get(
    "/documents/{document_id}/content",
    summary="The document as Markdown",
    responses={
        200: {
            "model": ContentView,
            "content": {
                "text/markdown": {"schema": {"type": "string"}},
                "text/html": {"schema": {"type": "string"}},
                "application/pdf": {"schema": {"type": "string", "format": "binary"}},
            },
            "description": "The bare Markdown; or another format, if asked for.",
        },
        **documented(400, 401, 404, 409, 422, 503),
    },
)
async def content(
    request: Request,
    document_id: str,
    team: Team,
    vault: VaultDep,
    engine: EngineDep,
    *,
    format: FormatParam = None,
    options: OutputDep,
) -> Response:
    row = await document_of(vault, team, document_id)
    if format in WRITTEN_FORMATS:
        job = await conversion_of(vault, row)
        return await written_answer(
            *(format, engine, job, await engine.elements(job)),
            title=row.title or row.filename,
            stem=Path(row.filename).stem,
            options=options,
            metadata={"document_id": row.id, **(job.result or {}).get("metadata", {})},
        )
    if options.is_default:
        body = await _markdown(vault, row)
    else:
        job = await conversion_of(vault, row)
        place = f"/jobs/{job.id}/figures/{{id}}.png"
        body = await started(engine.markdown(job, options, place).pieces(await engine.elements(job)))
    accept = request.headers.get("accept", "")
    form = format or (preferred(accept) if "json" in accept or "plain" in accept else Format.MARKDOWN)
    if form is Format.JSON:
        known = {"title": row.title, "pages": row.pages, "language": row.language, "filename": row.filename}
        return ClosingStream(
            as_json({"document_id": row.id}, body, known), media_type="application/json", headers=_NO_SNIFF
        )
    kind, ending = ("text/plain", "txt") if form is Format.TEXT else ("text/markdown", "md")
    name = safe_filename(f"{Path(row.filename).stem}.{ending}")
    headers = {"Content-Disposition": disposition("inline", name), **_NO_SNIFF}
    return ClosingStream(body, media_type=f"{kind}; charset=utf-8", headers=headers)


async def _original(vault: Vault, row: VaultDocument) -> str:
    """Returns the object key of the original. The job of a link knows it before the catalog does."""
    if row.content_ref:
        return row.content_ref
    job = await vault.conversion(row)
    if job is not None and job.content_ref:
        return job.content_ref
    if row.status is DocumentStatus.PENDING:
        raise NotReadyError("The document has not been downloaded yet.", retry_after_s=1.0)
    raise StateConflictError("The document could not be downloaded.")


async def conversion_of(vault: Vault, row: VaultDocument) -> MainJob:
    """The job that read the document. Raises NotReadyError or StateConflictError where there is no result of it."""
    job = await vault.conversion(row)
    if job is not None and job.result and job.status is JobStatus.COMPLETED:
        return job
    raise _no_markdown(row)


async def _markdown(vault: Vault, row: VaultDocument) -> AsyncIterator[bytes]:
    """Yields the Markdown. Raises NotReadyError while there is none, StateConflictError if there never will be."""
    objects = vault.parts.objects
    if row.result_ref:
        try:
            return await started(objects.stream(row.result_ref))
        except MissingError:
            pass  # a retry has just replaced it; the job has the new key
    job = await vault.conversion(row)
    if job is not None and job.result and job.status is JobStatus.COMPLETED:
        return await started(objects.stream(job.result["key"]))
    if job is not None and not job.status.terminal and is_still_reading(row):
        return await started(await partial_markdown(vault, job))
    raise _no_markdown(row)


def _no_markdown(row: VaultDocument) -> StateConflictError:
    if row.status is DocumentStatus.PENDING or is_still_reading(row):
        return NotReadyError(
            "The document is still being read; its text is not available yet.", retry_after_s=1.0
        )
    why = (row.error or {}).get("error") or "It has no text."
    return StateConflictError(f"The document has no Markdown. {why}")


async def _entries(
    vault: Vault, team: str, filters: DocumentFilters, *, originals: bool
) -> AsyncIterator[ZipEntry]:
    catalog = await vault.catalog()
    view = viewer(vault)
    async for row in catalog.each(team, filters):
        folder = f"{_folder(row)}-{row.id[:8]}"
        shown = view.document(row).model_dump_json(indent=2).encode()
        yield ZipEntry(f"{folder}/metadata.json", single_piece(shown))
        with suppress(StateConflictError, MissingError):  # pending, failed, or just deleted
            yield ZipEntry(f"{folder}/document.md", await _markdown(vault, row))
        if originals:
            with suppress(StateConflictError, MissingError):
                ref = await _original(vault, row)
                body = await started(vault.parts.objects.stream(ref))
                yield ZipEntry(f"{folder}/original/{safe_filename(row.filename)}", body, packed=False)


def _folder(row: VaultDocument) -> str:
    name = safe_filename(row.title or Path(row.filename).stem)
    return name.encode()[:80].decode("utf-8", "ignore").strip(" .") or "document"
