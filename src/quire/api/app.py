"""The application: its routes and what is around them, in two visible lists."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.middleware import Middleware

import quire
from quire.api.dashboard import dashboard_routes, session_routes
from quire.api.doors import door_list
from quire.api.ghost import ghost_internal_routes, ghost_routes
from quire.api.http import auth, error_responses
from quire.api.http.key_ring import KeyRing
from quire.api.http.key_throttle import KeyThrottle
from quire.api.http.request_log import RequestLog
from quire.api.http.request_traces import RequestTraces
from quire.api.http.services import Services
from quire.api.jobs import (
    batch_routes,
    chunk_routes,
    convert_routes,
    diff_routes,
    element_routes,
    extract_routes,
    format_routes,
    job_event_routes,
    job_routes,
    result_routes,
    upload_routes,
)
from quire.api.operations import health_routes, key_routes, operations_routes
from quire.api.parse import parse_routes
from quire.api.vault import (
    document_file_routes,
    document_routes,
    document_upload_routes,
    schema_routes,
    search_routes,
)
from quire.bootstrap import Runtime

_DESCRIPTION = (
    "Turns documents into Markdown and never loses a page. Send a document to POST /convert, follow its job, "
    "fetch its result. Every error has the same shape."
)
_TAGS = [
    {"name": "jobs", "description": "Documents come in, are followed, stopped and redone."},
    {"name": "results", "description": "What came out, page by page or whole."},
    {"name": "vault", "description": "Documents that stay: named, tagged and found again."},
    {"name": "batching", "description": "One image at a time for you, full batches for the backend."},
    {"name": "ghostserver", "description": "The endpoints of GhostServer, for programs that speak to it."},
    *door_list.TAGS,
    {"name": "operations", "description": "Queues, workers and work that was given up."},
    {"name": "dashboard", "description": "Signing in to the dashboard."},
    {"name": "health", "description": "For load balancers and people on call."},
]


_THROTTLED = {
    "description": "Too many wrong keys from this address; try again after `Retry-After` seconds.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
}


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """With the keys, and without the 422 of FastAPI: malformed parameters are 400 here, like the rest."""
        if self.openapi_schema is None:
            found = super().openapi()
            for method in (one for methods in found["paths"].values() for one in methods.values()):
                if "HTTPValidationError" in str(method["responses"].get("422")):
                    del method["responses"]["422"]
                if "401" in method["responses"]:
                    method["security"] = [{name: []} for name in auth.SCHEMES]
                    method["responses"].setdefault("429", _THROTTLED)
            for unused in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(unused, None)
            found["components"]["securitySchemes"] = auth.SCHEMES
            self.openapi_schema = found
        return self.openapi_schema


def create_app(runtime: Runtime) -> FastAPI:
    """An application that serves this runtime. Setting `app.state.services.stopping` ends what waits."""
    clock, tracer = runtime.parts.clock, runtime.parts.tracer
    traces = [Middleware(RequestTraces, tracer=tracer)] if tracer is not None else []
    app = _Api(
        title="Quire",
        version=quire.__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            # Outermost: whatever happens has an id and a line in the log.
            Middleware(RequestLog, clock=clock),
            *traces,
            Middleware(parse_routes.ParseShortcut),
        ],
    )
    app.state.services = Services(
        runtime=runtime,
        readiness=health_routes.Readiness(runtime, clock),
        started_monotonic=clock.monotonic(),
        key_throttle=KeyThrottle(runtime.settings.connections.wrong_keys_per_minute, clock),
        keys=KeyRing(runtime),
    )
    error_responses.install(app)
    for router in (
        convert_routes.router,
        batch_routes.router,
        upload_routes.router,
        job_routes.router,
        result_routes.router,
        element_routes.router,
        chunk_routes.router,
        format_routes.router,
        diff_routes.router,
        extract_routes.router,
        job_event_routes.router,
        ghost_routes.router,
        ghost_internal_routes.router,
        operations_routes.queues_router,
        operations_routes.dispatch_router,
        key_routes.router,
        parse_routes.router,
        operations_routes.metrics_router,
        document_upload_routes.router,
        document_file_routes.router,
        document_routes.events_router,
        document_routes.router,
        schema_routes.router,
        search_routes.router,
        session_routes.router,
        health_routes.router,
        dashboard_routes.router,
    ):
        app.include_router(router)
    for router in door_list.routers(runtime.settings.doors.enabled):
        app.include_router(router)
    dashboard_routes.mount(app)
    return app
