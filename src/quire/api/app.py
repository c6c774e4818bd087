"""The application: its routes and what is around them, in two visible lists."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.middleware import Middleware

import quire
from quire.api import auth, convert, errors, events, front, health, jobs, queues, results
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
    {"name": "operations", "description": "Queues, workers and work that was given up."},
    {"name": "health", "description": "For load balancers and people on call."},
]


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Without the 422 that FastAPI promises for malformed parameters: here they are 400, like the rest."""
        if self.openapi_schema is None:
            found = super().openapi()
            for methods in found["paths"].values():
                for method in methods.values():
                    if "HTTPValidationError" in str(method["responses"].get("422")):
                        del method["responses"]["422"]
            for unused in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(unused, None)
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
            Middleware(
                RequestLog, clock=clock
            ),  # outermost: whatever happens has an id and a line in the log
        ],
    )
    app.state.services = Services(
        runtime=runtime,
        readiness=health.Readiness(runtime, clock),
        started_monotonic=clock.monotonic(),
    )
    errors.install(app)
    for router, keys in (
        (convert.router, auth.DOCUMENTED),
        (jobs.router, auth.DOCUMENTED),
        (results.router, auth.DOCUMENTED),
        (events.router, auth.DOCUMENTED),
        (queues.router, auth.DOCUMENTED),
        (health.router, []),
        (front.router, []),
    ):
        app.include_router(router, dependencies=keys)
    front.mount(app)
    return app
