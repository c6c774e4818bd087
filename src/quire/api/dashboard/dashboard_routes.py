"""The dashboard's static files, and a plain page that lists the endpoints."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

import quire

_POLICY = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font-weight:600}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_DOCS_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


class _Files(StaticFiles):
    """Static files with a content security policy of this origin only."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["Cache-Control"] = "no-cache"
        return response


def static_folder() -> Path | None:
    """Returns the folder of the dashboard's files; None if they are not installed."""
    folder = Path(str(files("quire.web") / "static"))
    return folder if folder.is_dir() else None


def mount(app: FastAPI) -> None:
    folder = static_folder()
    if folder is not None:
        app.mount("/static", _Files(directory=folder), name="static")


@router.get("/")
async def index() -> Response:
    folder = static_folder()
    page = folder / "index.html" if folder else None
    if page is not None and page.is_file():
        return FileResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})
    return JSONResponse(
        {
            "service": "quire",
            "version": quire.__version__,
            "links": {"docs": "/docs", "openapi": "/openapi.json"},
        }
    )


@router.get("/openapi.json")
async def description(request: Request) -> Response:
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Built from the OpenAPI description, because the usual pages load scripts from other hosts."""
    page = _page(await asyncio.to_thread(request.app.openapi))
    return HTMLResponse(page, headers={"Content-Security-Policy": _DOCS_POLICY})


def _page(description: dict[str, Any]) -> str:
    rows = []
    for path, methods in description["paths"].items():
        for method, found in methods.items():
            parameters = ", ".join(one["name"] for one in found.get("parameters", []))
            asked = f"Parameters: {parameters}. " if parameters else ""
            answers = f"{asked}Answers: {', '.join(found.get('responses', {}))}."
            rows.append(
                f"<h2><code>{html.escape(method.upper())} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(found.get('summary', ''))}. {html.escape(found.get('description', ''))}</p>"
                f"<p>{html.escape(answers)}</p>"
            )
    title = html.escape(f"{description['info']['title']} {description['info']['version']}")
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<p>{html.escape(description['info'].get('description', ''))} "
        f"The full description is <a href=/openapi.json>/openapi.json</a>.</p>{''.join(rows)}</html>"
    )
