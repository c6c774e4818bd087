"""A document's original, its Markdown, and the whole vault as a zip; none of them ever whole in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from quire.api.answers import Stream, disposition, started
from quire.api.auth import Team
from quire.api.document_filters import Filters, read_query
from quire.api.documents import document_of, viewer
from quire.api.errors import documented
from quire.api.exporting import Archive, Entry
from quire.api.results import Format, FormatParam, as_json, preferred
from quire.api.services import VaultDep
from quire.domain.documents import Document, DocumentFilters, DocumentStatus
from quire.errors import ConflictError, NotFoundError, NotReadyError
from quire.links import safe_filename
from quire.pipeline.vault.vault import Vault

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
    body = await started(Archive(vault.parts.clock.now()).stream(entries))
    headers = {"Content-Disposition": disposition("attachment", "quire-documents.zip"), **_NO_SNIFF}
    return Stream(body, media_type="application/zip", headers=headers)


@router.get(
    "/documents/{document_id}/download",
    summary="The document as it came in",
    responses={200: {"content": {"application/octet-stream": {}}}, **documented(401, 404, 409, 503)},
    response_class=Response,
)
async def download(document_id: str, team: Team, vault: VaultDep) -> Response:
    """Always a download, never shown: nobody knows what is in it."""
    row = await document_of(vault, team, document_id)
    ref = await _original(vault, row)
    objects = vault.parts.objects
    size = await objects.size(ref)
    if size is None:
        raise NotFoundError("The document's file is no longer there.")
    headers = {
        "Content-Disposition": disposition("attachment", safe_filename(row.filename)),
        "Content-Length": str(size),
        **_NO_SNIFF,
    }
    return Stream(await started(objects.stream(ref)), media_type="application/octet-stream", headers=headers)


@router.get(
    "/documents/{document_id}/content",
    summary="The document as Markdown",
    responses={
        200: {
            "model": ContentView,
            "content": {"text/markdown": {"schema": {"type": "string"}}},
            "description": "The bare Markdown; or JSON, if asked for.",
        },
        **documented(400, 401, 404, 409, 503),
    },
)
async def content(
    request: Request, document_id: str, team: Team, vault: VaultDep, format: FormatParam = None
) -> Response:
    row = await document_of(vault, team, document_id)
    body = await _markdown(vault, row)
    accept = request.headers.get("accept", "")
    form = format or (preferred(accept) if "json" in accept or "plain" in accept else Format.MARKDOWN)
    if form is Format.JSON:
        known = {"title": row.title, "pages": row.pages, "language": row.language, "filename": row.filename}
        return Stream(
            as_json({"document_id": row.id}, body, known), media_type="application/json", headers=_NO_SNIFF
        )
    kind, ending = ("text/plain", "txt") if form is Format.TEXT else ("text/markdown", "md")
    name = safe_filename(f"{Path(row.filename).stem}.{ending}")
    headers = {"Content-Disposition": disposition("inline", name), **_NO_SNIFF}
    return Stream(body, media_type=f"{kind}; charset=utf-8", headers=headers)


async def _original(vault: Vault, row: Document) -> str:
    """Where the original lies. A link's is known to its job before the catalog knows."""
    if row.content_ref:
        return row.content_ref
    job = await vault.conversion(row)
    if job is not None and job.content_ref:
        return job.content_ref
    if row.status is DocumentStatus.PENDING:
        raise NotReadyError("The document has not been fetched yet.", retry_after_s=1.0)
    raise ConflictError("The document could never be fetched.")


async def _markdown(vault: Vault, row: Document) -> AsyncIterator[bytes]:
    """Raises NotReadyError while there is none, ConflictError if there never will be."""
    objects = vault.parts.objects
    if row.result_ref:
        try:
            return await started(objects.stream(row.result_ref))
        except NotFoundError:
            pass  # a retry has just replaced it: the job has the new one
    job = await vault.conversion(row)
    if job is not None and job.result and job.status.value == "completed":
        return await started(objects.stream(job.result["key"]))
    if row.status is DocumentStatus.PENDING:
        raise NotReadyError("The document is being read; its text is not there yet.", retry_after_s=1.0)
    why = (row.error or {}).get("error") or "It has no text."
    raise ConflictError(f"The document has no Markdown. {why}")


async def _entries(
    vault: Vault, team: str, filters: DocumentFilters, *, originals: bool
) -> AsyncIterator[Entry]:
    catalog = await vault.catalog()
    view = viewer(vault)
    async for row in catalog.each(team, filters):
        folder = f"{_folder(row)}-{row.id[:8]}"
        shown = view.document(row).model_dump_json(indent=2).encode()
        yield Entry(f"{folder}/metadata.json", _once(shown))
        with suppress(ConflictError, NotFoundError):  # pending, failed, or just deleted
            yield Entry(f"{folder}/document.md", await _markdown(vault, row))
        if originals:
            with suppress(ConflictError, NotFoundError):
                ref = await _original(vault, row)
                body = await started(vault.parts.objects.stream(ref))
                yield Entry(f"{folder}/original/{safe_filename(row.filename)}", body, packed=False)


def _folder(row: Document) -> str:
    name = safe_filename(row.title or Path(row.filename).stem)
    return name.encode()[:80].decode("utf-8", "ignore").strip(" .") or "document"


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
