"""Documents as rows and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.schema import DOCUMENTS
from quire.catalog.search import search_index
from quire.catalog.search.word_rules import storable
from quire.domain.vault_document import DocumentStatus, NewDocument, TextToEmbed, VaultDocument

MAX_EMBEDDED_CHARS = 1_500

_FIELDS = (
    "team", "id", "filename", "content_ref", "content_hash", "size_bytes", "kind", "content_type", "source",
    "attempt", "created_at", "updated_at", "pending_since", "completed_at", "job_id", "result_ref", "pages",
    "title", "summary", "date", "language", "classified_by",
)  # fmt: skip
COLUMNS: Sequence[ColumnElement[Any]] = tuple(DOCUMENTS.c)


def document(row: Row[Any]) -> VaultDocument:
    found = row._mapping
    return VaultDocument(
        **{name: found[name] for name in _FIELDS},
        status=DocumentStatus(found["status"]),
        tags=tuple(json.loads(found["tags"])),
        error=None if found["error"] is None else json.loads(found["error"]),
        metadata=json.loads(found["metadata"]),
    )


def new_row(new: NewDocument, seq: int, now_s: float) -> dict[str, Any]:
    return {
        "team": new.team,
        "id": new.id,
        "seq": seq,
        "filename": storable(new.filename),
        "content_ref": new.content_ref,
        "content_hash": new.content_hash,
        "size_bytes": new.size_bytes,
        "kind": new.kind,
        "content_type": new.content_type,
        "source": storable(new.source),
        "status": DocumentStatus.PENDING.value,
        "attempt": 0,
        "created_at": now_s,
        "updated_at": now_s,
        "pending_since": now_s,
        "tags": "[]",
        "metadata": as_json(new.metadata),
    }


def as_json(value: Mapping[str, Any] | Sequence[str]) -> str:
    # Everything beyond ASCII is escaped, so no surrogate reaches the driver; NUL stays an escape as well.
    return json.dumps(
        value if isinstance(value, list) else dict(value) if isinstance(value, Mapping) else list(value)
    )


async def text_to_embed(connection: AsyncConnection, row: Row[Any]) -> TextToEmbed | None:
    """What a document's vector is made of; None for one without any text."""
    found = row._mapping
    parts = [found["title"], ", ".join(json.loads(found["tags"])), found["summary"]]
    if not found["summary"]:
        parts.append(await search_index.beginning(connection, found["pk"]))
    text = "\n".join(part.strip() for part in parts if part and part.strip())[:MAX_EMBEDDED_CHARS]
    return TextToEmbed(found["team"], found["id"], text) if text else None


def text_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
