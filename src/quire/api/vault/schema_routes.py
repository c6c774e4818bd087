"""Saved schemas over HTTP: saved under a name, and applied to the documents of the vault that a filter chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.caller_wait import while_connected
from quire.api.http.error_responses import documented, stored_error_response
from quire.api.http.request_bodies import read_json
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, json_answer, started
from quire.api.http.services import ServicesDep, VaultDep
from quire.api.jobs.job_views import iso
from quire.api.vault.document_file_routes import conversion_of
from quire.api.vault.filter_params import Filters, read_query
from quire.domain.vault_document import DocumentFilters
from quire.errors import OverloadedError, PlaneError, QuireError, RequestError
from quire.pipeline.chunk_table import PARQUET_TYPE
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction, NoModelError
from quire.pipeline.extraction.saved_schemas import SavedSchema, SavedSchemas
from quire.pipeline.extraction.schema_table import ReadDocument, SchemaTable
from quire.pipeline.vault.vault import Vault

router = APIRouter(prefix="/schemas", tags=["vault"])
_AT_ONCE = 100


class SchemaTableForm(StrEnum):
    LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_TYPES = {
    SchemaTableForm.LINES: "application/x-ndjson",
    SchemaTableForm.CSV: "text/csv; charset=utf-8",
    SchemaTableForm.PARQUET: PARQUET_TYPE,
}


class SavedSchemaView(BaseModel):
    name: str
    values_schema: dict[str, Any] = Field(alias="schema", description="The JSON Schema of the values.")
    instructions: str
    ungrounded: str
    saved_at: str | None


class SchemaNamesView(BaseModel):
    schemas: list[str]


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["schema"],
                    "properties": {
                        "schema": {"type": "object"},
                        "instructions": {"type": "string"},
                        "ungrounded": {"type": "string", "enum": ["null", "keep"]},
                    },
                },
                "example": {"schema": {"type": "object", "properties": {"total": {"type": "number"}}}},
            }
        },
    }
}


@router.get(
    "",
    summary="The names of your saved schemas",
    response_model=SchemaNamesView,
    responses=documented(401, 503),
)
async def saved_schemas(team: Team, services: ServicesDep) -> Response:
    names = await SavedSchemas(services.runtime.parts, team).names()
    return json_answer(SchemaNamesView(schemas=names))


@router.put(
    "/{name}",
    summary="Save a schema under a name",
    response_model=SavedSchemaView,
    responses={201: {"model": SavedSchemaView}, **documented(400, 401, 413, 415, 503)},
    openapi_extra=_BODY,
)
async def save_schema(request: Request, name: str, team: Team, services: ServicesDep) -> Response:
    """201 for a new name; a schema of the same name is replaced."""
    body = await read_json(request)
    unknown = sorted(set(body) - {"schema", "instructions", "ungrounded"})
    if unknown:
        raise RequestError(f"{unknown[0][:60]!r} is not a field of this request.")
    texts = [body.get("instructions") or "", body.get("ungrounded") or "null"]
    if not all(isinstance(one, str) for one in texts):
        raise RequestError("instructions, ungrounded: expected texts.")
    wanted = ExtractionRequest.of(body.get("schema"), *texts)
    runtime = services.runtime
    await Extraction(runtime.parts, runtime.engine).check(wanted)
    saved, is_new = await SavedSchemas(runtime.parts, team).save(name, wanted)
    return _shown(saved, 201 if is_new else 200)


@router.get(
    "/{name}",
    summary="A saved schema",
    response_model=SavedSchemaView,
    responses=documented(401, 404, 503),
)
async def saved_schema(name: str, team: Team, services: ServicesDep) -> Response:
    return _shown(await SavedSchemas(services.runtime.parts, team).get(name))


@router.delete(
    "/{name}", summary="Delete a saved schema", status_code=204, responses=documented(401, 404, 503)
)
async def delete_schema(name: str, team: Team, services: ServicesDep) -> Response:
    await SavedSchemas(services.runtime.parts, team).delete(name)
    return Response(status_code=204)


@router.post(
    "/{name}/apply",
    summary="Extract from all documents of a type, as a table",
    responses={
        200: {"content": {"application/x-ndjson": {}, "text/csv": {}, PARQUET_TYPE: {}}},
        **documented(400, 401, 404, 409, 503),
    },
    response_class=Response,
)
async def apply_schema(
    request: Request,
    name: str,
    team: Team,
    services: ServicesDep,
    *,
    vault: VaultDep,
    filters: Filters,
    q: Annotated[
        str | None, Query(description="Only documents with all these words.", max_length=1_000)
    ] = None,
    format: Annotated[
        SchemaTableForm, Query(description="`jsonl` (a document a line), `csv` or `parquet`.")
    ] = SchemaTableForm.LINES,
) -> Response:
    """A row for each document of the vault that the filters choose, the newest first, as it is extracted. A document
    that can't be read has `status: failed` and its error. What a model has answered is not asked again when the request
    is repeated. Without an AI provider: 409 `ai_not_configured`.
    """
    runtime = services.runtime
    saved = await SavedSchemas(runtime.parts, team).get(name)
    narrowed = replace(filters, text=read_query("q", q) or None)
    table = SchemaTable(Extraction(runtime.parts, runtime.engine), saved.request)
    rows = table.rows(_documents(vault, team, narrowed))
    try:
        # Parquet begins when all documents are done: a caller that has left must not go on paying for them.
        body = await while_connected(request, started(table.written(format.value, rows)))
    except NoModelError as error:
        return stored_error_response(request, error.as_dict(), 409)
    if body is None:
        raise OverloadedError("The service is stopping. Repeat the request.")
    headers = {"Content-Disposition": disposition("attachment", f"{name}.{format.value}"), **NO_SNIFF}
    return ClosingStream(body, media_type=_TYPES[format], headers=headers)


async def _documents(vault: Vault, team: str, filters: DocumentFilters) -> AsyncIterator[ReadDocument]:
    catalog = await vault.catalog()
    cursor = None
    while True:
        page = await catalog.list(team, filters, cursor=cursor, limit=_AT_ONCE)
        for row in page.documents:
            try:
                yield ReadDocument(row, await conversion_of(vault, row))
            except PlaneError:
                raise
            except QuireError as error:
                yield ReadDocument(row, error)
        cursor = page.next_cursor
        if not cursor:
            return


def _shown(saved: SavedSchema, status: int = 200) -> Response:
    view = SavedSchemaView(
        name=saved.name,
        schema=saved.schema,
        instructions=saved.instructions,
        ungrounded=saved.ungrounded,
        saved_at=iso(saved.saved_at),
    )
    text = view.model_dump_json(by_alias=True)
    return Response(text, status, media_type="application/json")
