"""GET /metrics, for Prometheus. It asks for a key like everything else that tells how busy the service is."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from quire.api.auth import Team
from quire.api.errors import documented
from quire.api.services import Services, ServicesDep, batcher_of
from quire.telemetry.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


@router.get("/metrics", summary="Figures for Prometheus", responses=documented(401, 503))
async def metrics(_team: Team, services: ServicesDep, request: Request) -> Response:
    batcher = batcher_of(request)
    await batcher.condition()
    return Response(batcher.metrics.render() + await _of_models(services), media_type=CONTENT_TYPE)


async def _of_models(services: Services) -> bytes:
    ai = services.runtime.parts.ai
    figures = services.runtime.ai_metrics
    if ai is None or figures is None:
        return b""
    states, waiting = await asyncio.gather(
        ai.dispatcher.admission.states(ai.dispatcher.candidates.all()), ai.waiting.length()
    )
    figures.waiting.set(waiting)
    for state in states:
        figures.model_seen(
            state.target.provider,
            state.target.model,
            in_flight=state.in_flight,
            allowed=state.cap,
            is_open=state.state == "open",
        )
    return figures.render()
