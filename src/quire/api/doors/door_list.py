"""Which doors there are, and their routes."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import APIRouter

from quire.api.doors import (
    docling_chunk_routes,
    docling_routes,
    docling_status_socket,
    mineru_routes,
    openwebui_routes,
    tika_routes,
    unstructured_routes,
)

_ROUTERS: dict[str, tuple[APIRouter, ...]] = {
    "docling": (docling_routes.router, docling_chunk_routes.router, docling_status_socket.router),
    "tika": (tika_routes.router,),
    "openwebui": (openwebui_routes.router,),
    "unstructured": (unstructured_routes.router,),
    "mineru": (mineru_routes.router,),
}
TAGS = [
    {"name": "doors: docling", "description": "The interface of docling-serve v1 (DOORS=docling)."},
    {"name": "doors: tika", "description": "The interface of Apache Tika Server (DOORS=tika)."},
    {"name": "doors: open webui", "description": "The external loader of Open WebUI (DOORS=openwebui)."},
    {"name": "doors: unstructured", "description": "The partition API of Unstructured (DOORS=unstructured)."},
    {"name": "doors: mineru", "description": "The interface of MinerU (DOORS=mineru)."},
]


def routers(enabled: Collection[str]) -> list[APIRouter]:
    """The routers of the enabled doors."""
    found = [router for door in enabled for router in _ROUTERS.get(door, ())]
    if "tika" in enabled or "docling" in enabled:
        found.append(tika_routes.versions)
    return found
