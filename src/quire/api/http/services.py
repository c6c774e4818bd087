"""What endpoints depend on: the runtime, its engine and vault, and the stop event of the service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.requests import HTTPConnection

from quire.api.http.key_ring import KeyRing
from quire.api.http.key_throttle import KeyThrottle
from quire.api.operations.health_routes import Readiness
from quire.batching.batcher import Batcher
from quire.bootstrap import Runtime
from quire.errors import OverloadedError
from quire.pipeline.engine import Engine
from quire.pipeline.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class Services:
    """Kept on the application; made anew for each one."""

    runtime: Runtime
    readiness: Readiness
    started_monotonic: float
    key_throttle: KeyThrottle
    keys: KeyRing
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at SIGTERM: requests are still answered, on connections that close with the response."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no more requests are taken: callers that wait are told where their result will be."""
    callers: dict[tuple[bytes | None, bytes | None], str] = field(default_factory=dict)
    """Teams of callers without credentials, by host and origin."""


def services(request: HTTPConnection) -> Services:
    found: Services = request.app.state.services
    return found


# Asynchronous although they wait for nothing: FastAPI would send plain functions to a thread for every request.
async def _services(request: Request) -> Services:
    return services(request)


async def _engine(request: Request) -> Engine:
    return services(request).runtime.engine


def batcher_of(request: Request) -> Batcher:
    found = services(request).runtime.batcher
    if found is None:
        raise OverloadedError("This service takes no images for batches.", retryable=False)
    return found


async def _vault(request: Request) -> Vault:
    found = services(request).runtime.vault
    if found is None:
        raise OverloadedError("This service has no vault.", retryable=False)
    return found


ServicesDep = Annotated[Services, Depends(_services)]
EngineDep = Annotated[Engine, Depends(_engine)]
VaultDep = Annotated[Vault, Depends(_vault)]
