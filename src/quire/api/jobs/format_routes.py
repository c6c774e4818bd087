"""The JSON Schemas of what comes out: of elements and of chunks, by their version. Public: they hold no data."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel

from quire.api.http.error_responses import documented
from quire.api.jobs.chunk_routes import ChunksView
from quire.api.jobs.element_views import DocumentElementsView
from quire.domain.text_chunk import CHUNKS_SCHEMA_VERSION
from quire.errors import MissingError
from quire.pipeline.document_formats import compact_json
from quire.rendering.element_json import SCHEMA_VERSION

router = APIRouter(prefix="/formats", tags=["results"])

_SCHEMA_TYPE = "application/schema+json"
_MODELS: dict[str, type[BaseModel]] = {
    f"elements-{SCHEMA_VERSION}": DocumentElementsView,
    f"chunks-{CHUNKS_SCHEMA_VERSION}": ChunksView,
}


def format_schemas() -> dict[str, dict[str, Any]]:
    """The published schemas by their names, such as `elements-1`. They take fields that later versions may add."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {
        name: {"$schema": dialect, "$id": f"urn:quire:{name}", **model.model_json_schema()}
        for name, model in _MODELS.items()
    }


@router.get(
    "/{name}.schema.json",
    summary="The JSON Schema of a format",
    responses={200: {"content": {_SCHEMA_TYPE: {}}}, **documented(404)},
    response_class=Response,
)
async def format_schema(name: str) -> Response:
    """`elements-1` is of `GET /jobs/{id}/elements`, `chunks-1` of `GET /jobs/{id}/chunks`."""
    if name not in _MODELS:
        raise MissingError(f"There is no such schema. There are: {', '.join(_MODELS)}.")
    headers = {"Cache-Control": "public, max-age=86400"}
    return Response(compact_json(format_schemas()[name]), media_type=_SCHEMA_TYPE, headers=headers)
