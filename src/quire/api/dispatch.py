"""The AI models as they stand: breakers, limits, calls in flight, recent errors. For whoever runs the service."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from quire.api.answers import json_answer
from quire.api.auth import Team
from quire.api.errors import documented
from quire.api.services import ServicesDep
from quire.api.views import iso
from quire.queue.admission import ModelState, RecentError

router = APIRouter(tags=["operations"])


class ModelView(BaseModel):
    provider: str
    model: str
    state: str = Field(description="The breaker: `closed`, `open` or `half_open`.")
    opens_in_seconds: float = Field(description="How long an open breaker stays so before it is probed.")
    incidents: int = Field(description="Failures in a row; a burst counts once.")
    in_flight: int
    in_flight_allowed: int = Field(description="As adapted so far: grows with success, halves on 429.")
    in_flight_max: int
    requests_per_minute: int | None = Field(description="Set, or told by the provider; null if unknown.")
    requests_used: float = Field(description="What stands in the meter of requests now.")
    tokens_per_minute: int | None
    tokens_used: float
    calls_ok: int
    calls_failed: int
    last_error: str | None


class ErrorView(BaseModel):
    model: str
    code: str
    at: str | None


class UsageView(BaseModel):
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class DispatchView(BaseModel):
    configured: bool
    order: list[str] = Field(description="The candidates of a request that asks for nothing special.")
    waiting: int = Field(description="Pages that wait for a free model.")
    models: list[ModelView]
    recent_errors: list[ErrorView]
    usage_this_month: UsageView = Field(description="Of the team that asks.")


@router.get(
    "/dispatch",
    summary="AI models, breakers, limits",
    response_model=DispatchView,
    responses=documented(401, 503),
)
async def dispatch(team: Team, services: ServicesDep) -> Response:
    ai = services.runtime.parts.ai
    if ai is None:
        nothing = UsageView(calls=0, tokens_in=0, tokens_out=0, cost_usd=0.0)
        return json_answer(
            DispatchView(
                configured=False, order=[], waiting=0, models=[], recent_errors=[], usage_this_month=nothing
            )
        )
    dispatcher = ai.dispatcher
    states, errors, usage, waiting = await asyncio.gather(
        dispatcher.admission.states(dispatcher.candidates.all()),
        dispatcher.admission.recent_errors(),
        dispatcher.ledger.team(team),
        ai.waiting.length(),
    )
    return json_answer(
        DispatchView(
            configured=True,
            order=[one.name for one in dispatcher.candidates.of(None, None)],
            waiting=waiting,
            models=[_model(one) for one in states],
            recent_errors=[_error(one) for one in errors],
            usage_this_month=UsageView(
                calls=usage.calls,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                cost_usd=usage.cost_usd,
            ),
        )
    )


def _model(state: ModelState) -> ModelView:
    return ModelView(
        provider=state.target.provider,
        model=state.target.model,
        state=state.state,
        opens_in_seconds=round(state.opens_in_s, 1),
        incidents=state.incidents,
        in_flight=state.in_flight,
        in_flight_allowed=state.cap,
        in_flight_max=state.target.max_inflight,
        requests_per_minute=state.rpm or None,
        requests_used=round(state.rpm_used, 1),
        tokens_per_minute=state.tpm or None,
        tokens_used=round(state.tpm_used, 1),
        calls_ok=state.calls_ok,
        calls_failed=state.calls_failed,
        last_error=state.last_error or None,
    )


def _error(error: RecentError) -> ErrorView:
    return ErrorView(model=error.target, code=error.code, at=iso(error.at))
