"""Calls: what is sent to a service, described without sending it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

Source = str | Path | bytes
"""A document: its path, its bytes, or its address (a text with `://`)."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNNAMED = "document"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes along: opened for each attempt anew, so that a call can be repeated."""

    filename: str
    content: Path | bytes
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One request, which may be repeated: a POST carries an Idempotency-Key, so that it can't double what it does."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    files: tuple[Attachment, ...] = ()
    quiet_s: float | None = None
    """How long the service may say nothing before it counts as gone; None: as long as for any call."""


def get(*steps: str | int, **query: Any) -> ServiceCall:
    return ServiceCall("GET", path(*steps), given(query))


def post(*steps: str | int, key: str | None = None, **query: Any) -> ServiceCall:
    return ServiceCall("POST", path(*steps), given(query), idempotent(key))


def path(*steps: str | int) -> str:
    """`path("jobs", id, "result")`; whatever is in an id, it stays one step."""
    return "".join(f"/{quote(str(step), safe='')}" for step in steps)


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not given; true and false as the service writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in fields.items()
        if value is not None
    }


def idempotent(key: str | None = None) -> dict[str, str]:
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def is_address(source: Source) -> bool:
    return isinstance(source, str) and _ADDRESS.match(source) is not None


def submitting(
    where: str, source: Source, name: str | None, fields: Mapping[str, Any], key: str | None, **query: Any
) -> ServiceCall:
    """Sends a document to `/convert` or `/documents`: an address as JSON, everything else as an upload."""
    if is_address(source):
        options = {one: value for one, value in fields.items() if value is not None}
        return ServiceCall("POST", where, given(query), idempotent(key), json={"source": source, **options})
    return uploading(where, (attachment(source, name),), fields, key, **query)


def uploading(
    where: str, files: tuple[Attachment, ...], fields: Mapping[str, Any], key: str | None, **query: Any
) -> ServiceCall:
    """Without `force` and a key of the caller's the content itself is the key: the service answers the same bytes
    with the job or document that it has. A key of our own would only hide those that were sent before."""
    form = {one: str(value) for one, value in given(fields).items()}
    headers = idempotent(key) if key or fields.get("force") else {}
    return ServiceCall("POST", where, given(query), headers, form=form, files=files)


def attachment(source: Source, name: str | None) -> Attachment:
    if isinstance(source, bytes):
        return Attachment(name or _UNNAMED, source)
    found = Path(source)
    # A name that is no UTF-8 can't be sent as it is; the file itself is opened by its own.
    return Attachment(name or found.name.encode("utf-8", "replace").decode(), found)
