"""Search by words and meaning, and tag suggestions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import json_answer
from quire.api.http.services import VaultDep
from quire.api.vault.document_routes import viewer
from quire.api.vault.document_views import SearchView, TagsView, TagView
from quire.api.vault.filter_params import Filters, read_query
from quire.pipeline.vault.embed_step import query_vector

router = APIRouter(tags=["vault"])


@router.get(
    "/search", summary="Find documents", response_model=SearchView, responses=documented(400, 401, 503)
)
async def search(
    team: Team,
    vault: VaultDep,
    filters: Filters,
    *,
    q: Annotated[str, Query(description="Words, or what it is about.", max_length=1_000)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[
        str | None, Query(description="`next_cursor` of the page before.", max_length=2_000)
    ] = None,
) -> Response:
    """Full text with typo correction, ranked together with the similarity of summaries and tags."""
    query = read_query("q", q)
    catalog = await vault.catalog()
    vector = await query_vector(vault, team, query)
    found = await catalog.search(
        team, query, filters, cursor=cursor or None, limit=limit, query_vector=vector
    )
    return json_answer(viewer(vault).search(query, found, similarity=vector is not None))


@router.get(
    "/tags",
    summary="Tags that begin with something",
    response_model=TagsView,
    responses=documented(400, 401, 503),
)
async def tags(
    team: Team,
    vault: VaultDep,
    prefix: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    catalog = await vault.catalog()
    found = await catalog.tags(team, read_query("prefix", prefix), limit)
    return json_answer(
        TagsView(tags=[TagView(name=one.name, slug=one.slug, documents=one.documents) for one in found])
    )
