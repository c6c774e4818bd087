"""Owns the record of a document batch: documents that one request sent together, under one id."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A document of a batch: its job, or the error with which it was refused."""

    name: str
    job_id: str | None = None
    error: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "job_id": self.job_id, "error": self.error}


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Never changes once it is stored; the states are those of its jobs. `view` says how a door shows its results."""

    team: str
    created_at: float
    items: tuple[BatchItem, ...]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    sealed: str | None = None
    view: dict[str, Any] = field(default_factory=dict)

    @property
    def job_ids(self) -> list[str]:
        return [item.job_id for item in self.items if item.job_id]

    def packed(self) -> bytes:
        found = {
            "id": self.id,
            "team": self.team,
            "created_at": self.created_at,
            "items": [item.as_dict() for item in self.items],
            "sealed": self.sealed,
            "view": self.view,
        }
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    @classmethod
    def unpack(cls, raw: bytes) -> DocumentBatch:
        found = json.loads(raw)
        items = tuple(BatchItem(one["name"], one["job_id"], one["error"]) for one in found.pop("items"))
        return cls(items=items, **found)
