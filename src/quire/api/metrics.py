"""GET /metrics, for Prometheus. It asks for a key like everything else that tells how busy the service is."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from quire.api.auth import Team
from quire.api.errors import documented
from quire.api.services import batcher_of
from quire.telemetry.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


@router.get("/metrics", summary="Figures for Prometheus", responses=documented(401, 503))
async def metrics(_team: Team, request: Request) -> Response:
    batcher = batcher_of(request)
    await batcher.condition()
    return Response(batcher.metrics.render(), media_type=CONTENT_TYPE)
