"""Cursors: opaque texts with the end of a page and a hash of the query."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import asdict
from typing import Any

from quire.domain.vault_document import DocumentFilters
from quire.errors import RequestError

_MAX_CHARS = 512


def question(team: str, filters: DocumentFilters, *more: str) -> str:
    """A short mark of what was asked, so that a cursor is never used for something else."""
    asked = json.dumps([team, asdict(filters), *more], sort_keys=True)
    return hashlib.blake2b(asked.encode(), digest_size=8).hexdigest()


def write(mark: str, *place: Any) -> str:
    plain = json.dumps([mark, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(plain.encode()).rstrip(b"=").decode()


def read(cursor: str, mark: str, *kinds: type) -> list[Any]:
    """Returns the position in the cursor. Raises RequestError unless the cursor belongs to the same query."""
    try:
        if len(cursor) > _MAX_CHARS:
            raise ValueError("too long")
        plain = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        found: Any
        place: list[Any]
        found, *place = plain
        fits = found == mark and len(place) == len(kinds)
        if not fits or not all(_is(one, kind) for one, kind in zip(place, kinds, strict=True)):
            raise ValueError("another question")
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise RequestError("The cursor doesn't belong to this request; start from the first page.") from error
    return place


def _is(value: Any, kind: type) -> bool:
    # A caller can forge a cursor; a number out of the database's range must not reach it.
    return type(value) is kind and not (isinstance(value, int) and not 0 <= value < 1 << 53)
