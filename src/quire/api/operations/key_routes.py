"""API keys over HTTP: made, listed and revoked by an admin of their team, and the audit log of these changes.

A caller manages only keys of its own team, so that no key opens another team's data. The first key of another team is
made by `quire keys` on a host that has the catalog.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team, actor_of
from quire.api.http.error_responses import documented
from quire.api.http.request_bodies import read_json
from quire.api.http.responses import json_answer
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.job_views import iso
from quire.api.operations.operations_routes import UsageView
from quire.domain.access_key import AccessKey, KeyLimits, KeyScope, made_key
from quire.errors import MissingError, OverloadedError, RequestError

if TYPE_CHECKING:
    from quire.catalog.access_rows import AccessRows

router = APIRouter(prefix="/keys", tags=["operations"])

_LONGEST_NAME = 200
_MOST_A_MINUTE = 1_000_000
_LARGEST_BUDGET_USD = 1e9
_LONGEST_LIFE_S = 100 * 366 * 86_400.0
_FIELDS = ("name", "scope", "requests_per_minute", "budget_usd", "expires_in_seconds")


class KeyView(BaseModel):
    id: str
    team: str
    name: str
    scope: str = Field(description="`read`, `write` or `admin`; each includes those before it.")
    state: str = Field(description="`valid`, `expired` or `revoked`.")
    requests_per_minute: int = Field(description="0: no limit.")
    budget_usd: float = Field(description="US dollars for AI calls in a month (UTC); 0: no budget.")
    used_this_month: UsageView
    created_at: str | None
    expires_at: str | None
    last_used_at: str | None = Field(description="Exact to a minute.")
    revoked_at: str | None


class NewKeyView(KeyView):
    key: str = Field(description="The key itself. It is not stored and not shown again.")


class KeysView(BaseModel):
    keys: list[KeyView]


class AuditView(BaseModel):
    at: str | None
    actor: str
    action: str = Field(description="`key.created` or `key.revoked`.")
    subject: str = Field(description="The id of the key.")
    details: str


class AuditsView(BaseModel):
    entries: list[AuditView]


class KeyRequest(BaseModel):
    """The body of `POST /keys`, for OpenAPI."""

    name: str = ""
    scope: str = "write"
    requests_per_minute: int = 0
    budget_usd: float = 0.0
    expires_in_seconds: float | None = None


@router.get(
    "", summary="The API keys of the team", response_model=KeysView, responses=documented(401, 403, 503)
)
async def list_keys(team: Team, services: ServicesDep) -> Response:
    """Every key of the team, revoked ones included, with its use in this month. Never the key itself."""
    found = [one for one in await (await _rows(services)).all() if one.team == team]
    return json_answer(KeysView(keys=[KeyView(**await _shown(services, one)) for one in found]))


@router.post(
    "",
    summary="Make an API key",
    status_code=201,
    response_model=NewKeyView,
    responses=documented(400, 401, 403, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": KeyRequest.model_json_schema()}},
        }
    },
)
async def create_key(request: Request, team: Team, services: ServicesDep) -> Response:
    """Of the caller's team. The answer has the key, this once."""
    given = await read_json(request)
    unknown = next((name for name in given if name not in _FIELDS), None)
    if unknown is not None:
        raise RequestError(f"{unknown[:60]!r} is not a field of a key. There are: {', '.join(_FIELDS)}.")
    text, key = made_key(
        team, _name(given), _scope(given), services.runtime.parts.clock.now(), _limits(given)
    )
    await (await _rows(services)).add(key, actor_of(request))
    return json_answer(NewKeyView(key=text, **await _shown(services, key)), 201)


@router.get(
    "/audit",
    summary="What was done to the team's keys",
    response_model=AuditsView,
    responses=documented(400, 401, 403, 503),
)
async def key_audit(
    team: Team, services: ServicesDep, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> Response:
    """The newest first."""
    found = await (await _rows(services)).audit(limit, team)
    return json_answer(
        AuditsView(
            entries=[
                AuditView(
                    at=iso(one.at),
                    actor=one.actor,
                    action=one.action,
                    subject=one.subject,
                    details=one.details,
                )
                for one in found
            ]
        )
    )


@router.delete(
    "/{key_id}",
    summary="Revoke an API key",
    status_code=204,
    responses=documented(401, 403, 404, 503),
    response_class=Response,
)
async def revoke_key(request: Request, key_id: str, team: Team, services: ServicesDep) -> Response:
    """Every process refuses it within five seconds. Documents that it sent are read to their end."""
    rows = await _rows(services)
    key = await rows.get(key_id)
    if key is None or key.team != team or not await rows.revoke(key_id, actor_of(request)):
        raise MissingError(f"There is no valid key {key_id[:40]!r} of this team.")
    services.keys.forget(key_id)
    return Response(status_code=204)


async def _rows(services: Services) -> AccessRows:
    """The keys of the catalog. Raises CatalogError during an outage, OverloadedError without a catalog."""
    shared = services.runtime.catalog
    if shared is None:
        raise OverloadedError("This service has no catalog, so it has no keys.", retryable=False)
    return (await shared.open_once()).keys


async def _shown(services: Services, key: AccessKey) -> dict[str, Any]:
    ai = services.runtime.parts.ai
    used = None if ai is None else await ai.dispatcher.ledger.key(key.id)
    return {
        "id": key.id,
        "team": key.team,
        "name": key.name,
        "scope": key.scope.value,
        "state": key.state_at(services.runtime.parts.clock.now()),
        "requests_per_minute": key.requests_per_minute,
        "budget_usd": key.budget_usd,
        "used_this_month": UsageView(
            calls=used.calls if used else 0,
            tokens_in=used.tokens_in if used else 0,
            tokens_out=used.tokens_out if used else 0,
            cost_usd=used.cost_usd if used else 0.0,
        ),
        "created_at": iso(key.created_at),
        "expires_at": iso(key.expires_at),
        "last_used_at": iso(key.last_used_at),
        "revoked_at": iso(key.revoked_at),
    }


def _name(given: dict[str, Any]) -> str:
    found = given.get("name") or ""
    if not isinstance(found, str) or len(found) > _LONGEST_NAME or not found.isprintable():
        raise RequestError(f"name: expected a text of at most {_LONGEST_NAME} printable characters.")
    return found


def _scope(given: dict[str, Any]) -> KeyScope:
    try:
        return KeyScope(given.get("scope") or KeyScope.WRITE)
    except ValueError:
        raise RequestError("scope: expected read, write or admin.") from None


def _limits(given: dict[str, Any]) -> KeyLimits:
    rpm = _number(given, "requests_per_minute", _MOST_A_MINUTE)
    if rpm != int(rpm):
        raise RequestError("requests_per_minute: expected a whole number.")
    life_s = _number(given, "expires_in_seconds", _LONGEST_LIFE_S)
    budget_usd = _number(given, "budget_usd", _LARGEST_BUDGET_USD)
    return KeyLimits(requests_per_minute=int(rpm), budget_usd=budget_usd, expires_in_s=life_s or None)


def _number(given: dict[str, Any], name: str, most: float) -> float:
    """A number from 0; 0, null and a missing field are no limit."""
    found = given.get(name)
    if found is None:
        return 0.0
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise RequestError(f"{name}: expected a number.")
    if not 0 <= found <= most:
        raise RequestError(f"{name}: expected a number from 0 to {most:g}.")
    return float(found)
