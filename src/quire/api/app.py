"""The application: its routes and what is around them, in two visible lists."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.middleware import Middleware

import quire
from quire.api import (
    auth,
    convert,
    dispatch,
    document_events,
    document_files,
    document_uploads,
    documents,
    errors,
    events,
    front,
    ghost,
    ghost_internal,
    health,
    jobs,
    metrics,
    parse,
    queues,
    results,
    search,
    sessions,
)
from quire.api.requests import RequestLog
from quire.api.services import Services
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
    {"name": "operations", "description": "Queues, workers and work that was given up."},
    {"name": "dashboard", "description": "Signing in to the dashboard."},
    {"name": "health", "description": "For load balancers and people on call."},
]


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
            for unused in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(unused, None)
            found["components"]["securitySchemes"] = auth.SCHEMES
            self.openapi_schema = found
        return self.openapi_schema


def create_app(runtime: Runtime) -> FastAPI:
    """An application that serves this runtime. Setting `app.state.services.stopping` ends what waits."""
    clock = runtime.parts.clock
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
            Middleware(parse.Direct),
        ],
    )
    app.state.services = Services(
        runtime=runtime,
        readiness=health.Readiness(runtime, clock),
        started_monotonic=clock.monotonic(),
    )
    errors.install(app)
    for router in (
        convert.router,
        jobs.router,
        results.router,
        events.router,
        ghost.router,
        ghost_internal.router,
        queues.router,
        dispatch.router,
        parse.router,
        metrics.router,
        document_uploads.router,
        document_files.router,
        document_events.router,
        documents.router,
        search.router,
        sessions.router,
        health.router,
        front.router,
    ):
        app.include_router(router)
    front.mount(app)
    return app
